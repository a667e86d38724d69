"""Every row of the table of failures, from what each agent really wrote: the outcome that it must lead to."""

from __future__ import annotations

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core.outcome import OutcomeKind, WorkSign, judge_outcome
from holdfast.core.status import FailureKind
from tests.agents.recordings import (
    case_of,
    did_without,
    exit_with,
    heard,
    heard_in,
    outcome_of,
    recorded,
)

LIMITED = (OutcomeKind.LIMITED, FailureKind.LIMIT)
OUTAGE = (OutcomeKind.LIMITED, FailureKind.OUTAGE)
CONTEXT = (OutcomeKind.FAILED, FailureKind.CONTEXT)
REFUSED = (OutcomeKind.BLOCKED, FailureKind.AUTH)
CREDIT = (OutcomeKind.BLOCKED, FailureKind.CREDIT)
MODEL = (OutcomeKind.BLOCKED, FailureKind.MODEL)
FAILED = (OutcomeKind.FAILED, FailureKind.AGENT)
UNFINISHED = (OutcomeKind.FAILED, FailureKind.UNFINISHED)
STALLED = (OutcomeKind.FAILED, FailureKind.STALLED)
DONE = (OutcomeKind.DONE, None)

RecordedEnding = tuple[OutcomeKind, FailureKind | None]
EXPECTED: dict[str, set[RecordedEnding]] = {
    "rate-limit": {LIMITED},
    "usage-limit": {LIMITED},
    "usage-limit-text": {LIMITED},
    "overflow": {CONTEXT},
    "bad-key": {REFUSED},
    "no-credit": {CREDIT},
    "payment-required": {CREDIT},
    "bad-model": {MODEL},
    "server-error": {OUTAGE},
    "not-found": {OUTAGE},
    "refused": {OUTAGE},
    "cut": {OUTAGE},
    # Whether the provider broke off or the model ended badly, nobody can tell.
    "eof": {OUTAGE, FAILED, UNFINISHED},
    "refusal": {FAILED, UNFINISHED},
    "max-turns": {FAILED},
    "max-budget": {FAILED},
    "login-usage-limit": {LIMITED},
    "login-weekly-limit": {LIMITED},
    "login-bad-key": {REFUSED},
    "root": {(OutcomeKind.BLOCKED, FailureKind.PERMISSION)},
    "overage": {DONE},
    "ok": {DONE},
    "patch": {DONE},
    "failing-tool": {DONE},
    "no-tool": {DONE},
    "rate-limit-once": {DONE},
    "limit-warning": {DONE},
}
"""What each case leads to. A late one, after the first tool call, leads to the same as an early one."""
WELL = {case for case, ends in EXPECTED.items() if DONE in ends}
PARTICULAR: dict[str, RecordedEnding] = {
    # These say nothing at all and go on for ever: the bounds on silence and time end them.
    "goose-usage-limit.jsonl": STALLED,
    "goose-late-usage-limit.jsonl": STALLED,
    "droid-late-server-error.jsonl": STALLED,
    "openhands-rate-limit.jsonl": STALLED,
    "openhands-usage-limit.jsonl": STALLED,
    "openhands-server-error.jsonl": STALLED,
    "openhands-refused.jsonl": STALLED,
    "pi-usage-limit.jsonl": STALLED,
    "pi-late-usage-limit.jsonl": STALLED,
    # Qwen repeats a request without credit as one at a rate limit, and says no more than the status for a long time.
    "qwen-no-credit.jsonl": LIMITED,
    "qwen-0.15.10-no-credit.jsonl": LIMITED,
    # Claude Code says of every 404 that the model is not there.
    "claude-not-found.jsonl": MODEL,
    "claude-agent-acp-not-found.jsonl": MODEL,
    # It repeats no request that met a limit; the wait is ours.
    "codex-acp-rate-limit-once.jsonl": LIMITED,
}
NOT_YET: dict[str, RecordedEnding] = {}
"""Read as less than they are, and safely so. Only ever shortened."""


def _fault_of(name: str) -> str:
    return case_of(name).removeprefix("late-")


@pytest.mark.parametrize("name", [name for name in recorded() if _fault_of(name) in EXPECTED])
def test_every_recorded_ending_gives_the_right_outcome(name: str) -> None:
    """Whatever the exit code says (aider's is 0 in every case): limits wait, refusals block, errors fail."""
    outcome = outcome_of(name)
    right = {*EXPECTED[_fault_of(name)], PARTICULAR.get(name), NOT_YET.get(name)}
    right |= {DONE} if did_without(name) else set()
    assert (outcome.end, outcome.failure) in right


@pytest.mark.parametrize("name", [name for name in recorded() if _fault_of(name) in EXPECTED.keys() - WELL])
def test_no_recorded_failure_is_taken_for_an_end(name: str) -> None:
    """Half-done work never lands, however the agent words its failure and whatever it exits with."""
    assert (outcome_of(name).end is OutcomeKind.DONE) is did_without(name)


def test_a_recorded_refusal_without_a_change_names_what_was_wanted() -> None:
    """An agent that was not allowed to write reports that, and is not tried again blindly."""
    outcome = judge_outcome(exit_with(0), heard_in("claude-permission.jsonl"), WorkSign.UNCHANGED)
    assert (outcome.end, outcome.failure) == (OutcomeKind.BLOCKED, FailureKind.PERMISSION)
    assert "Write (/workspace/greeting.txt)" in outcome.error


@pytest.mark.parametrize("name", [name for name in recorded() if case_of(name) == "no-tool"])
def test_done_without_a_change_is_no_success(name: str) -> None:
    """The word "done" is a hint; git decides."""
    outcome = judge_outcome(exit_with(0), heard_in(name), WorkSign.UNCHANGED)
    assert (outcome.end, outcome.failure) == (OutcomeKind.FAILED, FailureKind.NO_CHANGE)


def test_geminis_exit_codes_tell_what_its_stream_does_not() -> None:
    """It ends with an HTTP status, cut to eight bits: 429, 413 and 401 are told apart by it."""
    codes = builtin_presets()["gemini"].error_patterns()
    ends = [
        judge_outcome(exit_with(n), heard(b"", "gemini"), WorkSign.CHANGED, by_code=codes.of_exit(n))
        for n in (173, 157, 145)
    ]
    assert [(one.end, one.failure) for one in ends] == [LIMITED, CONTEXT, REFUSED]
