"""Process, stream and git together: the table has an answer for everything, and the right one where it matters."""

from __future__ import annotations

import itertools

import pytest

from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    PermissionDenied,
    StreamSummary,
    TroubleSeen,
    Usage,
)
from holdfast.core.outcome import OUTCOMES, OutcomeKind, ProcessSign, StreamSign, WorkSign, judge_outcome
from holdfast.core.projection import Halt
from holdfast.core.status import FailureKind


def _exit(code: int = 0, reason: ExitReason = ExitReason.EXITED) -> Exit:
    return Exit(token="t", reason=reason, code=code)


def _heard(trouble: AgentTrouble | None = None, message: str = "") -> StreamSummary:
    heard = StreamSummary()
    if trouble is not None:
        heard.take(TroubleSeen(trouble, message))
    return heard


def test_the_table_has_exactly_one_answer_for_everything() -> None:
    """Every combination of process, stream and git meets a row, and no row is out of reach."""
    met = [
        next(row for row in OUTCOMES if sign in row.signs and said in row.said and work in row.work)
        for sign, said, work in itertools.product(ProcessSign, StreamSign, WorkSign)
    ]
    assert [row for row in OUTCOMES if row not in met] == []


@pytest.mark.parametrize(
    ("code", "trouble", "work", "end", "failure"),
    [
        (0, None, WorkSign.CHANGED, OutcomeKind.DONE, None),
        (0, None, WorkSign.UNCHANGED, OutcomeKind.FAILED, FailureKind.NO_CHANGE),
        (0, None, WorkSign.NOT_NEEDED, OutcomeKind.DONE, None),
        (0, AgentTrouble.ERROR, WorkSign.CHANGED, OutcomeKind.FAILED, FailureKind.AGENT),
        (1, None, WorkSign.CHANGED, OutcomeKind.FAILED, FailureKind.AGENT),
        (-9, None, WorkSign.CHANGED, OutcomeKind.FAILED, FailureKind.KILLED),
        (1, AgentTrouble.LIMIT, WorkSign.CHANGED, OutcomeKind.LIMITED, FailureKind.LIMIT),
        (0, AgentTrouble.LIMIT, WorkSign.UNCHANGED, OutcomeKind.LIMITED, FailureKind.LIMIT),
        (0, AgentTrouble.CONTEXT, WorkSign.CHANGED, OutcomeKind.FAILED, FailureKind.CONTEXT),
        (1, AgentTrouble.AUTH, WorkSign.UNCHANGED, OutcomeKind.BLOCKED, FailureKind.AUTH),
        (1, AgentTrouble.PERMISSION, WorkSign.CHANGED, OutcomeKind.BLOCKED, FailureKind.PERMISSION),
        (0, AgentTrouble.OUTAGE, WorkSign.CHANGED, OutcomeKind.LIMITED, FailureKind.OUTAGE),
        (1, AgentTrouble.OUTAGE, WorkSign.UNCHANGED, OutcomeKind.LIMITED, FailureKind.OUTAGE),
        (1, AgentTrouble.CREDIT, WorkSign.CHANGED, OutcomeKind.BLOCKED, FailureKind.CREDIT),
        (0, AgentTrouble.MODEL, WorkSign.UNCHANGED, OutcomeKind.BLOCKED, FailureKind.MODEL),
        (1, AgentTrouble.SESSION, WorkSign.UNCHANGED, OutcomeKind.FAILED, FailureKind.SESSION),
    ],
)
def test_what_an_ending_means(
    code: int, trouble: AgentTrouble | None, work: WorkSign, end: OutcomeKind, failure: FailureKind | None
) -> None:
    """Exit status 0 is no proof, and neither is any other."""
    outcome = judge_outcome(_exit(code), _heard(trouble), work)
    assert (outcome.end, outcome.failure) == (end, failure)


def test_silence_after_a_limit_is_the_limit() -> None:
    """An agent that retries without a word until it is ended ran into its limit."""
    outcome = judge_outcome(_exit(-15, ExitReason.STALLED), _heard(AgentTrouble.LIMIT), WorkSign.CHANGED)
    assert outcome.end is OutcomeKind.LIMITED


def test_silence_after_an_outage_is_the_outage() -> None:
    """An agent that tries to reach its provider without a word until it is ended did not hang."""
    outcome = judge_outcome(_exit(-15, ExitReason.STALLED), _heard(AgentTrouble.OUTAGE), WorkSign.CHANGED)
    assert (outcome.end, outcome.failure) == (OutcomeKind.LIMITED, FailureKind.OUTAGE)


def test_an_agent_of_whose_stream_nothing_is_understood_is_told_how_to_name_it() -> None:
    """A command of the user's in a preset's place may print something else."""
    outcome = judge_outcome(_exit(0), StreamSummary(has_last_word=True), WorkSign.CHANGED)
    assert (outcome.failure, "`stream:`" in outcome.error) == (FailureKind.UNFINISHED, True)


@pytest.mark.parametrize("work", WorkSign)
def test_a_stream_without_its_last_word_is_never_done(work: WorkSign) -> None:
    """Status 0 and a change are not enough when the agent's last message is missing. Plain output has none."""
    heard = StreamSummary(has_last_word=True)
    heard.take(AgentFinished("the first of two turns is done"))
    heard.take(Activity(tool="bash"))
    outcome = judge_outcome(_exit(0), heard, work)
    assert (outcome.end, outcome.failure) == (OutcomeKind.FAILED, FailureKind.UNFINISHED)
    heard.take(AgentFinished("done"))
    assert judge_outcome(_exit(0), heard, work) == judge_outcome(_exit(0), StreamSummary(), work)


def test_a_model_that_says_nothing_after_its_last_tool_call_did_not_finish() -> None:
    """Its answer was empty, or a refusal that the agent does not show."""
    heard = StreamSummary(has_last_word=True, ends_with_words=True)
    for seen in (Activity(text="I begin."), Activity(tool="bash"), Activity(tool_done=True), AgentFinished()):
        heard.take(seen)
    assert judge_outcome(_exit(0), heard, WorkSign.CHANGED).failure is FailureKind.UNFINISHED
    heard.take(AgentFinished("Both files are there."))
    assert judge_outcome(_exit(0), heard, WorkSign.CHANGED).end is OutcomeKind.DONE


def test_a_tool_call_shows_that_the_provider_answers_also_after_it() -> None:
    """Some agents count tokens only at their end; others wait for the answer of a probe."""
    heard = StreamSummary(has_last_word=True)
    assert not heard.shows_work
    for seen in (Activity(), Activity(tool="bash"), Activity(tool_done=True)):
        heard.take(seen)
    assert heard.shows_work


LINE = "HOLDFAST: task T1 is done, attempt 1"


@pytest.mark.parametrize(
    ("said", "done"),
    [
        (LINE, True),
        (f"All of it works.\n\n**{LINE}**\n", True),
        (f"_{LINE}_", True),
        (f"Done.\n\n```\n{LINE}\n```\n", True),
        (f"Done.\n> `{LINE}`. ✅\n---", True),
        (f"I could not finish, so I do not write {LINE}", False),
        (f"I will end with {LINE}\nFirst I", False),
        ("HOLDFAST: task T1 is done, attempt 12", False),
        ("I will begin by", False),
        ("", False),
    ],
)
def test_an_agent_that_was_asked_for_a_closing_line_is_done_only_with_it(said: str, done: bool) -> None:
    """Models put Markdown around a line; it must be the end of the last message."""
    heard = StreamSummary(has_last_word=True)
    heard.take(AgentFinished(said))
    outcome = judge_outcome(_exit(0), heard, WorkSign.CHANGED, closing_line=LINE)
    assert outcome.failure is (None if done else FailureKind.UNFINISHED)


def test_an_agent_without_a_closing_line_that_was_refused_something_needs_a_person() -> None:
    """Another agent would be refused the same."""
    heard = StreamSummary(has_last_word=True)
    for seen in (PermissionDenied("bash"), AgentFinished("I may not run the tests.")):
        heard.take(seen)
    outcome = judge_outcome(_exit(0), heard, WorkSign.CHANGED, closing_line=LINE)
    assert (outcome.end, outcome.failure) == (OutcomeKind.BLOCKED, FailureKind.PERMISSION)
    assert "bash" in outcome.error


def test_what_was_said_before_a_tool_call_closes_nothing() -> None:
    """Work went on after it, and its end is not known."""
    heard = StreamSummary(has_last_word=True)
    for seen in (Activity(text=LINE), Activity(tool="bash"), Activity(tool_done=True), AgentFinished()):
        heard.take(seen)
    outcome = judge_outcome(_exit(0), heard, WorkSign.CHANGED, closing_line=LINE)
    assert outcome.failure is FailureKind.UNFINISHED


def test_what_we_ended_ended_for_our_reason() -> None:
    """A spent budget is told as such, whatever the process looked like in the end."""
    halt = Halt(failure=FailureKind.BUDGET, error="spent")
    outcome = judge_outcome(_exit(-15, ExitReason.CANCELLED), _heard(), WorkSign.CHANGED, halt)
    assert (outcome.end, outcome.failure, outcome.error) == (OutcomeKind.FAILED, FailureKind.BUDGET, "spent")


def test_an_agent_that_ended_by_itself_before_we_could_end_it_is_judged_as_it_ended() -> None:
    """The reason to end it was too late; its work counts."""
    halt = Halt(failure=FailureKind.BUDGET, error="spent")
    assert judge_outcome(_exit(0), _heard(), WorkSign.CHANGED, halt).end is OutcomeKind.DONE


def test_whoever_works_on_got_over_the_trouble() -> None:
    """A retry that worked leaves nothing behind, and neither does an end that went well."""
    for after in (Activity(text="on"), AgentFinished("done")):
        heard = _heard(AgentTrouble.LIMIT, "limit")
        heard.take(after)
        assert (heard.trouble, heard.message) == (None, "")


def test_a_total_replaces_parts_and_never_takes_back() -> None:
    """Parts and totals of one stream add up to the larger."""
    heard = StreamSummary()
    for usage in (Usage(10, 0.5), Usage(5), Usage(12, 0.4, whole=True), Usage(20, 0.6, whole=True)):
        heard.take(usage)
    assert (heard.tokens, heard.cost_usd) == (20, 0.6)
