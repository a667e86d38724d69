"""One exchange with a model in no provider's words: the turn, the reply to it, and how a script chooses that reply.

The provider APIs translate from and to this; the server sees nothing else. To make a reply, the tool that does what a
script asks is found among the tools that the agent offers. Agents are known by their tools alone, so a new agent with
the usual names works without a line here.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.errors import HoldfastError
from tests.scripted_model.json_schema import example_of, kind_of
from tests.scripted_model.script import Action, Call, Conversation, ModelFault, Script, Shell, Write

_TASK = re.compile(r"^\W*Task ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
_WRITERS = ("write_file", "write", "Write", "create_file", "Create")
_SHELLS = ("exec_command", "shell_command", "shell", "run_shell_command", "bash", "Bash", "run_command")
_MORE_SHELLS = ("Execute", "run_commands", "terminal")
_PATCH = "apply_patch"
_PATH_PARAMETERS = ("file_path", "filePath", "path")
_COMMAND_PARAMETERS = ("cmd", "command", "commands")
_SUBMIT = re.compile(r"`(echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT)`")
_CLOSING = re.compile(r"end your last message with this line:\s+(\S.*)")
_FINISH = "finish"
_ANSWER_TOOL = "respond_in_schema"
_TITLE = re.compile(
    r"title generator|isNewTopic|(?:generate|write|create|come up with) an? [^.\n]{0,40}(?:title|session name)",
    re.IGNORECASE,
)
_FOLDER = re.compile(
    r"(?:<cwd>|currently working in the directory: |Working directory: |Workspace Directories:\*\*\n\s*- )([^\n<]+)"
)


def task_of(prompt: str) -> str:
    """Return the task that a prompt is about, or an empty string."""
    found = _TASK.search(prompt)
    return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the agent offers, with the JSON schema of its parameters. A `freeform` one takes text."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    freeform: bool = False

    def accepts(self, parameter: str) -> bool:
        """Whether the tool has such a parameter."""
        return parameter in (self.schema.get("properties") or {})

    def takes_list(self, parameter: str) -> bool:
        """Whether the tool wants a list of words for a parameter."""
        return kind_of((self.schema.get("properties") or {}).get(parameter) or {}) == "array"

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Add required parameters that no script gives, such as a description."""
        example = example_of({**self.schema, "type": "object"})
        return {**{key: value for key, value in example.items() if key not in given}, **given}


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A request as every provider's API means it. `made` counts the tool calls in the conversation so far.

    `results` are the texts that came back from them. `schema` is what a reply in JSON must look like, and `forced` the
    one tool that the model has to call.
    """

    prompt: str
    system: str
    tools: Mapping[str, OfferedTool]
    made: int
    stream: bool
    model: str
    path: str = ""
    results: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    forced: str = ""

    @property
    def task(self) -> str:
        """The task that the brief in the prompt is about, or an empty string."""
        return task_of(self.prompt)

    @property
    def answer_tool(self) -> str:
        """The tool that is no tool, but the form for an answer; or an empty string."""
        if self.forced in self.tools:
            return self.forced
        return _ANSWER_TOOL if set(self.tools) == {_ANSWER_TOOL} else ""

    @property
    def aside(self) -> bool:
        """Whether the agent asks for something beside the work: which model to use, whose turn it is, a title."""
        if self.answer_tool:
            return True
        return not self.tools and (self.schema is not None or _TITLE.search(self.system) is not None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. `arguments` go to a tool with parameters, `text` to a freeform one."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the model replies: one tool call, or a text, or `refused` with a text that breaks off.

    `number` tells it from every other reply of the same model; ids are made of it. `running_usage` as in `Script`.
    """

    text: str
    call: ToolCall | None
    input_tokens: int
    output_tokens: int
    number: int = 0
    refused: bool = False
    running_usage: bool = False

    @property
    def meaning(self) -> str:
        """What the model does, for people."""
        if self.call is None:
            return f"says {self.text!r}"
        return f"calls {self.call.tool} {json.dumps(dict(self.call.arguments))}"


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """A streamed reply in two parts. Without `closing` the client cannot know that the reply is complete."""

    opening: tuple[bytes, ...]
    closing: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What goes back to the agent. `cut` resets the connection after the body instead of closing it.

    `meaning` is what it says, for people.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"
    cut: bool = False
    meaning: str = ""


class ProviderApi(Protocol):
    """One provider's API: reads requests and words replies."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as server-sent events."""

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""

    def fail(self, turn: ModelTurn, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Word a failure. `resets_at` is in seconds since the epoch."""


class MissingToolError(HoldfastError):
    """The agent offers no tool that can do what the script asks for."""


def reply_to(turn: ModelTurn, script: Script) -> ModelReply:
    """Return the script's next step in this conversation: the first action that no tool call was made for, or its end.

    What is asked beside the work is answered without a step. Raises MissingToolError when the agent offers no tool for
    the action.
    """
    text, call = _aside(turn) if turn.aside else _step(turn, script)
    return ModelReply(text, call, *script.tokens, running_usage=script.running_usage)


def _aside(turn: ModelTurn) -> tuple[str, ToolCall | None]:
    if turn.answer_tool:
        return "", ToolCall(turn.answer_tool, turn.tools[turn.answer_tool].filled({}))
    if turn.schema is not None:
        return json.dumps(example_of({"type": "object", **turn.schema})), None
    if "isNewTopic" in turn.system:
        return json.dumps({"isNewTopic": False, "title": None}), None
    return (json.dumps({"title": "Scripted work"}) if "JSON" in turn.system else "Scripted work"), None


def _step(turn: ModelTurn, script: Script) -> tuple[str, ToolCall | None]:
    if not turn.tools:
        return _in_words(turn, script), None
    if turn.made < len(script.actions):
        return "", _call(turn, script.actions[turn.made])
    if turn.made == len(script.actions) and (submit := _SUBMIT.search(turn.prompt)):
        # mini-swe-agent takes no text for an end: its prompt names the command that ends the work.
        return "", _shell_call(turn, submit[1])
    say = _last_words(turn, script)
    if turn.made == len(script.actions) and (finish := turn.tools.get(_FINISH)) and finish.accepts("message"):
        # OpenHands takes a text for a question to the user: its work ends with this tool.
        return "", ToolCall(finish.name, finish.filled({"message": say}))
    return (say if turn.schema is None else _in_schema(say, turn.schema)), None


def _last_words(turn: ModelTurn, script: Script) -> str:
    """Return the last text of a script, with the line below it that the latest brief asks for, if it does."""
    asked = _CLOSING.findall(turn.prompt)
    return "\n\n".join([script.say, *asked[-1:]])


def _in_schema(say: str, schema: Mapping[str, Any]) -> str:
    """Return the last text of a script if it is JSON, as the agent wants it, or else an example."""
    try:
        json.loads(say)
    except ValueError:
        return json.dumps(example_of({"type": "object", **schema}))
    return say


def _call(turn: ModelTurn, action: Action) -> ToolCall:
    if isinstance(action, Shell):
        return _shell_call(turn, action.command)
    if isinstance(action, Call):
        return _named_call(turn, action)
    if patch := turn.tools.get(_PATCH):
        lines = "".join(f"+{line}\n" for line in action.content.splitlines())
        text = f"*** Begin Patch\n*** Add File: {action.path}\n{lines}*** End Patch\n"
        return ToolCall(patch.name, {"input": text}, text=text, freeform=patch.freeform)
    if writer := _first(turn, _WRITERS):
        given = {"content": action.content} | {
            key: _inside(turn, action.path) for key in _PATH_PARAMETERS if writer.accepts(key)
        }
        return ToolCall(writer.name, writer.filled(given))
    folder, path = (shlex.quote(one) for one in (action.path.rpartition("/")[0] or ".", action.path))
    return _shell_call(turn, f"mkdir -p {folder} && printf %s {shlex.quote(action.content)} > {path}")


def _shell_call(turn: ModelTurn, command: str) -> ToolCall:
    shell = _first(turn, _SHELLS + _MORE_SHELLS)
    if shell is None:
        raise MissingToolError(
            f"no shell among the agent's tools: {', '.join(turn.tools)}",
            "let the agent use its tools, or add the name of its shell to tests.scripted_model.exchange",
        )
    key = next((key for key in _COMMAND_PARAMETERS if shell.accepts(key)), "command")
    listed = [command] if key == "commands" else ["bash", "-lc", command]
    return ToolCall(shell.name, shell.filled({key: listed if shell.takes_list(key) else command}))


def _named_call(turn: ModelTurn, action: Call) -> ToolCall:
    tool = turn.tools.get(action.tool)
    if tool is None:
        raise MissingToolError(
            f"no {action.tool} among the agent's tools: {', '.join(turn.tools)}",
            "let the agent offer the tool, or have the script search for it first",
        )
    given = action.arguments
    arguments = given(Conversation(turn.prompt, turn.results)) if callable(given) else given
    return ToolCall(
        tool.name, tool.filled(arguments), text=str(arguments.get("input", "")), freeform=tool.freeform
    )


def _first(turn: ModelTurn, names: tuple[str, ...]) -> OfferedTool | None:
    return next((turn.tools[name] for name in names if name in turn.tools), None)


def _inside(turn: ModelTurn, path: str) -> str:
    """Return the absolute path if the prompt says where the agent works: some tools take no other."""
    found = _FOLDER.search(turn.prompt) or _FOLDER.search(turn.system)
    return f"{found[1].strip().rstrip('/')}/{path}" if found else path


def _in_words(turn: ModelTurn, script: Script) -> str:
    """Return all the actions as text, for an agent without tools: files as fenced blocks below their path.

    A command is only mentioned: fences are for files, and an agent without tools runs nothing.
    """
    return "\n".join([*(_sentence(action) for action in script.actions), _last_words(turn, script)])


def _sentence(action: Action) -> str:
    if isinstance(action, Write):
        return f"{action.path}\n```\n{action.content}```\n"
    return f"Then run `{action.command if isinstance(action, Shell) else action.tool}`.\n"
