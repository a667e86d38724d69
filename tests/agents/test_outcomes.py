"""Every row of the table of failures, from what each agent really wrote: the outcome that it must lead to."""

from __future__ import annotations

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.outcome import OutcomeKind, WorkSign, judge_outcome
from holdfast.core.status import FailureKind
from tests.agents.recordings import agent_of, case_of, heard_in, recorded

LIMITED = (OutcomeKind.LIMITED, FailureKind.LIMIT)
CONTEXT = (OutcomeKind.FAILED, FailureKind.CONTEXT)
REFUSED = (OutcomeKind.BLOCKED, FailureKind.AUTH)
FAILED = (OutcomeKind.FAILED, FailureKind.AGENT)
STALLED = (OutcomeKind.FAILED, FailureKind.STALLED)
DONE = (OutcomeKind.DONE, None)

EXPECTED = {
    "rate-limit": LIMITED,
    "usage-limit": LIMITED,
    "usage-limit-text": LIMITED,
    "overflow": CONTEXT,
    "bad-key": REFUSED,
    "cut": FAILED,
    "eof": FAILED,
    "max-turns": FAILED,
    "late-usage-limit": LIMITED,
    "ok": DONE,
    "patch": DONE,
    "failing-tool": DONE,
    "no-tool": DONE,
    "rate-limit-once": DONE,
    "limit-warning": DONE,
}
PARTICULAR = {
    # These say nothing at all and go on for ever: the bounds on silence and time end them.
    "qwen-usage-limit.jsonl": STALLED,
    "qwen-late-usage-limit.jsonl": STALLED,
    "opencode-usage-limit.jsonl": STALLED,
    "opencode-late-usage-limit.jsonl": STALLED,
    "opencode-cut.jsonl": STALLED,
    "opencode-eof.jsonl": STALLED,
    "aider-cut.txt": STALLED,
    "aider-eof.txt": STALLED,
    # aider asks once, writes the file, and meets the limit only with the message for a commit, which it does without.
    "aider-late-usage-limit.txt": DONE,
}


def _exit(code: int | None) -> Exit:
    """Return how an agent ended; one that had to be ended fell silent."""
    if code is None:
        return Exit(token="t", reason=ExitReason.STALLED, code=-15)
    return Exit(token="t", reason=ExitReason.EXITED, code=code)


@pytest.mark.parametrize("name", [name for name in recorded() if case_of(name) in EXPECTED])
def test_every_recorded_ending_gives_the_right_outcome(name: str) -> None:
    """Whatever the exit code says (aider's is 0 in every case): limits wait, refusals block, errors fail."""
    exit_ = _exit(recorded()[name])
    by_code = builtin_presets()[agent_of(name)].error_patterns().of_exit(exit_.code)
    outcome = judge_outcome(exit_, heard_in(name), WorkSign.CHANGED, by_code=by_code)
    assert (outcome.end, outcome.failure) == PARTICULAR.get(name, EXPECTED[case_of(name)])


def test_a_recorded_refusal_without_a_change_names_what_was_wanted() -> None:
    """An agent that was not allowed to write reports that, and is not tried again blindly."""
    outcome = judge_outcome(_exit(0), heard_in("claude-permission.written.jsonl"), WorkSign.UNCHANGED)
    assert (outcome.end, outcome.failure) == (OutcomeKind.BLOCKED, FailureKind.PERMISSION)
    assert "Write (/workspace/greeting.txt)" in outcome.error


@pytest.mark.parametrize("name", [name for name in recorded() if case_of(name) == "no-tool"])
def test_done_without_a_change_is_no_success(name: str) -> None:
    """The word "done" is a hint; git decides."""
    outcome = judge_outcome(_exit(0), heard_in(name), WorkSign.UNCHANGED)
    assert (outcome.end, outcome.failure) == (OutcomeKind.FAILED, FailureKind.NO_CHANGE)


def test_geminis_exit_codes_tell_what_its_stream_does_not() -> None:
    """It ends with an HTTP status, cut to eight bits: 429, 413 and 401 are told apart by it."""
    codes = builtin_presets()["gemini"].error_patterns()
    ends = [
        judge_outcome(_exit(n), heard_in("gemini-eof.jsonl"), WorkSign.CHANGED, by_code=codes.of_exit(n))
        for n in (173, 157, 145)
    ]
    assert [(one.end, one.failure) for one in ends] == [LIMITED, CONTEXT, REFUSED]
