"""Process, stream and git together: the table has an answer for everything, and the right one where it matters."""

from __future__ import annotations

import itertools

import pytest

from holdfast.core.events import FailureKind
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import Activity, Finished, Heard, Trouble, Usage, Wrong
from holdfast.core.outcome import TABLE, End, Said, Sign, Work, judge
from holdfast.core.projection import Halt


def _exit(code: int = 0, reason: ExitReason = ExitReason.EXITED) -> Exit:
    return Exit(token="t", reason=reason, code=code)


def _heard(trouble: Trouble | None = None, message: str = "") -> Heard:
    heard = Heard()
    if trouble is not None:
        heard.take(Wrong(trouble, message))
    return heard


def test_the_table_has_exactly_one_answer_for_everything() -> None:
    """Every combination of process, stream and git meets a row, and no row is out of reach."""
    met = [
        next(row for row in TABLE if sign in row.signs and said in row.said and work in row.work)
        for sign, said, work in itertools.product(Sign, Said, Work)
    ]
    assert [row for row in TABLE if row not in met] == []


@pytest.mark.parametrize(
    ("code", "trouble", "work", "end", "failure"),
    [
        (0, None, Work.CHANGED, End.DONE, None),
        (0, None, Work.UNCHANGED, End.FAILED, FailureKind.NO_CHANGE),
        (0, None, Work.NOT_NEEDED, End.DONE, None),
        (0, Trouble.ERROR, Work.CHANGED, End.FAILED, FailureKind.AGENT),
        (1, None, Work.CHANGED, End.FAILED, FailureKind.AGENT),
        (-9, None, Work.CHANGED, End.FAILED, FailureKind.KILLED),
        (1, Trouble.LIMIT, Work.CHANGED, End.LIMITED, FailureKind.LIMIT),
        (0, Trouble.LIMIT, Work.UNCHANGED, End.LIMITED, FailureKind.LIMIT),
        (0, Trouble.CONTEXT, Work.CHANGED, End.FAILED, FailureKind.CONTEXT),
        (1, Trouble.AUTH, Work.UNCHANGED, End.BLOCKED, FailureKind.AUTH),
        (1, Trouble.PERMISSION, Work.CHANGED, End.BLOCKED, FailureKind.PERMISSION),
    ],
)
def test_what_an_ending_means(
    code: int, trouble: Trouble | None, work: Work, end: End, failure: FailureKind | None
) -> None:
    """Exit status 0 is no proof, and neither is any other."""
    outcome = judge(_exit(code), _heard(trouble), work)
    assert (outcome.end, outcome.failure) == (end, failure)


def test_silence_after_a_limit_is_the_limit() -> None:
    """An agent that retries without a word until it is ended ran into its limit."""
    outcome = judge(_exit(-15, ExitReason.STALLED), _heard(Trouble.LIMIT), Work.CHANGED)
    assert outcome.end is End.LIMITED


def test_what_we_ended_ended_for_our_reason() -> None:
    """A spent budget is told as such, whatever the process looked like in the end."""
    halt = Halt(failure=FailureKind.BUDGET, error="spent")
    outcome = judge(_exit(-15, ExitReason.CANCELLED), _heard(), Work.CHANGED, halt)
    assert (outcome.end, outcome.failure, outcome.error) == (End.FAILED, FailureKind.BUDGET, "spent")


def test_an_agent_that_ended_by_itself_before_we_could_end_it_is_judged_as_it_ended() -> None:
    """The reason to end it was too late; its work counts."""
    halt = Halt(failure=FailureKind.BUDGET, error="spent")
    assert judge(_exit(0), _heard(), Work.CHANGED, halt).end is End.DONE


def test_whoever_works_on_got_over_the_trouble() -> None:
    """A retry that worked leaves nothing behind, and neither does an end that went well."""
    for after in (Activity(text="on"), Finished("done")):
        heard = _heard(Trouble.LIMIT, "limit")
        heard.take(after)
        assert (heard.trouble, heard.message) == (None, "")


def test_a_total_replaces_parts_and_never_takes_back() -> None:
    """Parts and totals of one stream add up to the larger."""
    heard = Heard()
    for usage in (Usage(10, 0.5), Usage(5), Usage(12, 0.4, whole=True), Usage(20, 0.6, whole=True)):
        heard.take(usage)
    assert (heard.tokens, heard.cost_usd) == (20, 0.6)
