"""What an agent's event stream says, in types that hide its dialect, and the totals of it.

All of it is an agent's word: good enough for display, budgets and waiting, never proof of work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.projection import Spent

_TEXT_CHARS = 100_000
_MESSAGE_CHARS = 4_000
_NAME_CHARS = 200
_DENIALS = 20
_TOKENS_MAX = 10**12
_COST_MAX = 1e6


class AgentTrouble(StrEnum):
    """What an agent says went wrong. An outage: its provider cannot be reached, or cannot answer. A session: the one to
    resume is not known any more."""

    LIMIT = "limit"
    OUTAGE = "outage"
    CONTEXT = "context"
    PERMISSION = "permission"
    AUTH = "auth"
    CREDIT = "credit"
    MODEL = "model"
    SESSION = "session"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Activity:
    """The agent works: it said `text`, began to use `tool`, or that tool is done (`tool_done`)."""

    text: str = ""
    tool: str = ""
    tool_done: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money. `whole`: of the attempt so far; otherwise on top of what was said before.

    `cache_read` are those of the tokens that came from a cache.
    """

    tokens: int = 0
    cost_usd: float = 0.0
    whole: bool = False
    cache_read: int = 0


@dataclass(frozen=True, slots=True)
class SessionNamed:
    """The agent's own name for this conversation, by which it can resume it."""

    session: str


@dataclass(frozen=True, slots=True)
class PermissionDenied:
    """The agent was refused something and went on without it."""

    what: str


@dataclass(frozen=True, slots=True)
class TroubleSeen:
    """Something went wrong. `until` is the wall time at which a limit ends, where the stream has it as a number.

    `waits`: the agent waits for an answer that will not come.
    """

    trouble: AgentTrouble
    message: str = ""
    until: float | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """The agent says that it ended well; `text` is its last message."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """An event that could not be read, or output that was skipped. It may have been the error that the agent ended in."""


class EntryKind(StrEnum):
    """What one entry of a readable log is."""

    MESSAGE = "message"
    TOOL = "tool"
    EDIT = "edit"
    RESULT = "result"
    ERROR = "error"
    END = "end"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What one event of a stream reads like: a line, and the lines below it. For people only; nothing follows from it.

    `detail` of an edit has a sign before each line, as a diff has. A plain entry is a line that was no event.
    """

    kind: EntryKind
    text: str = ""
    detail: str = ""


Observation = (
    Activity | Usage | SessionNamed | PermissionDenied | TroubleSeen | AgentFinished | UnreadableEvent
)


@dataclass(slots=True)
class StreamSummary:
    """Everything one attempt's stream said so far. The same bytes always give the same summary."""

    tokens: int = 0
    cost_usd: float = 0.0
    cache_read: int = 0
    session: str = ""
    tool: str = ""
    text: str = ""
    silent: bool = False
    """Whether it has said nothing since its last tool call."""
    worked: bool = False
    """Whether the model has said something or called a tool."""
    trouble: AgentTrouble | None = None
    message: str = ""
    until: float | None = None
    waits: bool = False
    finished: bool = False
    denied: tuple[str, ...] = ()
    has_last_word: bool = False
    """Whether a stream of this kind that is whole ends with `AgentFinished` or with trouble. Plain output does not."""
    ends_with_words: bool = False
    """Whether the model says something at the end of work that is whole. Some agents end with a tool instead."""

    @property
    def shows_work(self) -> bool:
        """Whether a model has answered: it spoke, called a tool or used tokens."""
        return bool(self.worked or self.tokens or self.finished)

    @property
    def last_line(self) -> str:
        """The last line with words of what the agent said since its last tool call: not the end of a fence, not a rule."""
        lines = (line for line in reversed(self.text.splitlines()) if _has_words(line))
        return "" if self.silent else next(lines, "")[-_MESSAGE_CHARS:]

    @property
    def is_cut(self) -> bool:
        """Whether the stream ends without the last word that it should have: the agent did not come to its end.

        Nor did one whose model said nothing after its last tool call.
        """
        ended = self.finished and not (self.silent and self.ends_with_words)
        return self.has_last_word and not ended and self.trouble is None

    @property
    def spent(self) -> Spent:
        """What the stream says was used so far."""
        return Spent(tokens=self.tokens, cost_usd=self.cost_usd, cache_read=self.cache_read)

    def take(self, seen: Observation) -> None:
        """Add one observation. The latest one wins: an agent that keeps working got over its trouble."""
        match seen:
            case Activity(text, tool, tool_done):
                self._work(text, tool, done=tool_done)
            case Usage():
                self._spend(seen)
            case SessionNamed(session) if not session.startswith("-"):
                # It becomes an argument of a command line and must not look like an option.
                self.session = session[:_NAME_CHARS] or self.session
            case PermissionDenied(what):
                self.denied = (*self.denied, what[:_NAME_CHARS])[-_DENIALS:]
            case AgentFinished(text):
                self._forget_trouble()
                self.tool, self.finished = "", True
                self._say(text)
            case TroubleSeen(trouble, message, until, waits):
                self._go_wrong(trouble, message[:_MESSAGE_CHARS], until)
                self.waits = waits
            case UnreadableEvent():
                self.finished = False

    def recall(self, known: StreamSummary) -> None:
        """Restore totals from the journal when part of the stream is skipped. Idempotent."""
        self.tokens = max(self.tokens, known.tokens)
        self.cost_usd = max(self.cost_usd, known.cost_usd)
        self.cache_read = max(self.cache_read, known.cache_read)
        self.session = self.session or known.session

    def _work(self, text: str, tool: str, *, done: bool) -> None:
        self._forget_trouble()
        self.finished = False
        if tool or done:
            self.tool = "" if done else tool[:_NAME_CHARS]
            self.silent = self.worked = True
        self._say(text)

    def _say(self, text: str) -> None:
        if text:
            self.text, self.worked = text[-_TEXT_CHARS:], True
            self.silent = self.silent and not _has_words(text)

    def _spend(self, used: Usage) -> None:
        """A total never lowers the count: some agents report the parts and then the rounded sum."""
        before = Spent() if used.whole else self.spent
        self.tokens = max(self.tokens, min(before.tokens + max(0, used.tokens), _TOKENS_MAX))
        self.cost_usd = max(self.cost_usd, min(before.cost_usd + max(0.0, used.cost_usd), _COST_MAX))
        self.cache_read = max(self.cache_read, min(before.cache_read + max(0, used.cache_read), _TOKENS_MAX))

    def _go_wrong(self, trouble: AgentTrouble, message: str, until: float | None) -> None:
        """Keep the more telling of two: after "usage limit" many agents add a plain "failed"."""
        self.finished = False
        if trouble is AgentTrouble.ERROR and self.trouble not in (None, AgentTrouble.ERROR):
            return
        self.until = until if until is not None or trouble is not self.trouble else self.until
        self.trouble, self.message = trouble, message or self.message

    def _forget_trouble(self) -> None:
        self.trouble, self.message, self.until, self.waits = None, "", None, False


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
