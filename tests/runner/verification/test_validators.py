"""Validators: scores and gates after the checks, feedback to the next attempt, and scores that survive crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core import events as ev
from holdfast.core.brief import BRIEF_BYTES_MAX, clip_bytes
from holdfast.core.projection import Spent
from holdfast.core.status import FailureKind, ParkReason, RunStatus, TaskStatus
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.requests import Request, send_request
from tests.agents.recordings import STREAMS, agent_of, recorded
from tests.support.command import eventually
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, open_project_journal, sh, stage, start_runner
from tests.support.scripted_agents import FINISHED, answers, claude, judged_by, once, refused, repeated, say


def judge(name: str, script: str) -> dict[str, Any]:
    """Return a validator that is a shell script."""
    return {"id": name, "run": ["sh", "-c", script]}


def says(name: str, score: float, feedback: str = "") -> dict[str, Any]:
    """Return a validator that always gives the same score."""
    return judge(name, f"""echo thinking; echo '{{"score": {score}, "feedback": "{feedback}"}}'""")


def trial_of(
    tmp_path: Path,
    *validators: dict[str, Any],
    script: str = "echo a > A.txt",
    delay: str = "0s",
    **more: Any,
) -> Trial:
    """Return a run of one task with these validators; a failure of theirs is final."""
    task = sh("A", script, validators=list(validators), **more)
    limits = {"attempts": 1, "retry_delay": delay}
    return Trial.of(Project.create(tmp_path / "p"), stage("one", task), limits=limits)


def test_work_lands_when_the_mean_score_reaches_the_gate(tmp_path: Path) -> None:
    """C6: implement, test, validate: the mean of the scores counts, and being exactly at the gate is enough."""
    trial = trial_of(
        tmp_path, says("low", 0.7), says("mid", 0.8), says("high", 0.9), verify=["test -f A.txt"]
    )
    assert trial.execute() is RunStatus.COMPLETED
    order = [type(event).__name__ for event in trial.events]
    assert order.index("ChecksSucceeded") < order.index("ValidationStarted") < order.index("ValidatorScored")
    assert {s.validator: s.score for s in trial.of_kind(ev.ValidatorScored)} == {
        "low": 0.7,
        "mid": 0.8,
        "high": 0.9,
    }
    assert trial.violations() == []


def test_work_below_the_gate_goes_back_with_the_feedback(tmp_path: Path) -> None:
    """C6: the next agent is told the scores and what to change, and its work is validated anew."""
    answer = r'echo "{\"score\": $s, \"feedback\": \"name it \`better\`\"}"'
    critic = judge("critic", f"if [ -f better ]; then s=1; else s=0.5; fi; {answer}")
    task = sh("A", "if [ -f A.txt ]; then touch better; fi; echo a >> A.txt", validators=[critic])
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task))
    assert trial.execute() is RunStatus.COMPLETED
    row = trial.state().tasks["A"]
    assert (row.attempt, row.failures[0].kind) == (2, FailureKind.VALIDATION)
    assert "0.5, below the gate of 0.8 (critic 0.5)" in row.failures[0].error
    assert "name it `better`" in trial.brief("A", 2)
    assert [s.score for s in trial.of_kind(ev.ValidatorScored)] == [0.5, 1.0]


def test_the_plan_sets_the_gate(tmp_path: Path) -> None:
    """A strict gate refuses what the usual one takes."""
    assert trial_of(tmp_path, says("critic", 0.9), gate=0.95).execute() is RunStatus.BLOCKED


def test_failed_checks_ask_no_validator(tmp_path: Path) -> None:
    """Tests come first: nobody judges what does not work."""
    trial = trial_of(tmp_path, judge("critic", f"touch {tmp_path}/asked"), verify=["false"])
    assert trial.execute() is RunStatus.BLOCKED
    assert not (tmp_path / "asked").exists()


FORGES = {
    "report": """for n in 0 1 2; do echo '{"confidence": 1}' >> .holdfast/validator-honest-1.$n.jsonl; done""",
    "work": "echo good > quality",
}


@pytest.mark.parametrize("forges", FORGES.values(), ids=FORGES)
def test_no_validator_decides_what_another_one_reports_or_sees(tmp_path: Path, forges: str) -> None:
    """One of them runs the work's own script while the other one judges."""
    reported, forged = Fifo(tmp_path / "reported"), Fifo(tmp_path / "forged")
    script = f"cat > A.sh <<'END'\nmkdir -p .holdfast; {forges}\nEND\necho bad > quality"
    runs = judge("runs", f"{reported.take}; sh ./A.sh; {forged.give}; echo '{{\"score\": 1}}'")
    honest = judge(
        "honest",
        f"holdfast report confidence 0.1; {reported.give}; {forged.take}; "
        "if grep -q good quality; then holdfast report confidence 0.9; fi",
    )
    trial = trial_of(tmp_path, runs, honest, script=script)
    assert trial.execute() is RunStatus.BLOCKED
    scores = {scored.validator: scored.score for scored in trial.of_kind(ev.ValidatorScored)}
    assert scores == {"runs": 1.0, "honest": 0.1}


def test_a_validator_may_answer_with_a_report(tmp_path: Path) -> None:
    """An agent whose output is not its own can still give its score."""
    trial = trial_of(tmp_path, judge("critic", "holdfast report confidence 0.85 --summary 'fine by me'"))
    assert trial.execute() is RunStatus.COMPLETED
    (scored,) = trial.of_kind(ev.ValidatorScored)
    assert (scored.score, scored.feedback) == (0.85, "fine by me")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo looks good", "its output has no line with a score (looks good)"),
        ("echo '{\"score\": 9}'", "its score, 9, is not between 0 and 1"),
        ("echo '{\"score\": 1}'; echo oops; exit 3", "it exited with 3 (oops)"),
        ("echo '{\"score\": NaN}'", "has no line with a score"),
        ("true", "has no line with a score and printed nothing"),
        ("kill -9 $$", "it exited with"),
    ],
)
def test_a_validator_without_a_score_is_asked_three_times_and_charges_nobody(
    tmp_path: Path, script: str, why: str
) -> None:
    """It says nothing about the work: the work waits, and the reason names the validator, its words and the way out."""
    trial = trial_of(tmp_path, judge("critic", script), gate=0.1)
    assert trial.execute() is RunStatus.BLOCKED
    failures = trial.of_kind(ev.ValidatorFailed)
    assert (len(failures), trial.of_kind(ev.ValidatorScored)) == (3, [])
    assert why in failures[-1].error
    row = trial.state().tasks["A"]
    assert (row.status, row.charged, row.attempt, row.failures[-1].kind) == (
        TaskStatus.BLOCKED,
        0,
        1,
        FailureKind.NO_SCORE,
    )
    for words in ("validator critic gave no score", why, "The work is kept", f"holdfast resume {trial.run}"):
        assert words in trial.stored().row.reason
    assert trial.violations() == []


def broken_until(repaired: Path, count: Path) -> dict[str, Any]:
    """Return a validator that is overloaded until a file is there, and notes how often it was asked."""
    works = f"if [ -e {repaired} ]; then echo '{{\"score\": 0.9}}'; else echo API overloaded; exit 1; fi"
    return judge("critic", f"echo critic >> {count}; {works}")


@pytest.mark.parametrize("decision", ["resume", "retry"])
def test_work_that_waited_for_its_validator_is_validated_again_not_done_again(
    tmp_path: Path, decision: str
) -> None:
    """After a resume or a retry only the validator without a score is asked; the agent, the checks and the others are not."""
    count, repaired = tmp_path / "count", tmp_path / "repaired"
    steady = judge("steady", f"echo steady >> {count}; echo '{{\"score\": 0.9}}'")
    script = f"echo agent >> {count}; echo a > A.txt"
    checks = [f"echo check >> {count}"]
    trial = trial_of(tmp_path, steady, broken_until(repaired, count), script=script, verify=checks)
    assert trial.execute() is RunStatus.BLOCKED
    assert "API overloaded" in trial.state().tasks["A"].error
    repaired.touch()
    if decision == "retry":
        retry(trial, "A")
    assert trial.execute() is RunStatus.COMPLETED
    assert sorted(count.read_text().split()) == ["agent", "check", *["critic"] * 4, "steady"]
    assert trial.state().tasks["A"].attempt == 1
    assert trial.violations() == []


def retry(trial: Trial, task: str) -> None:
    """Do what `holdfast retry` does without a live runner."""
    repo = trial.project.open()
    with open_project_journal(repo) as journal:
        record_decision(repo, journal, trial.run, ev.TaskRetried(task=task))


def test_a_validator_that_works_again_by_itself_needs_nobody(tmp_path: Path) -> None:
    """Overloaded once, it is asked again after a while, and the work lands."""
    count = tmp_path / "count"
    once = f"if [ $(wc -l < {count}) -le 1 ]; then echo API overloaded; exit 1; fi"
    critic = judge("critic", f"echo x >> {count}; {once}; echo '{{\"score\": 1}}'")
    trial = trial_of(tmp_path, critic)
    assert trial.execute() is RunStatus.COMPLETED
    assert len(trial.of_kind(ev.ValidationDelayed)) == 1


def test_a_stop_does_not_wait_until_a_validator_is_asked_again(tmp_path: Path) -> None:
    """The delay is measured by the run's clock; a stop ends it, and the next runner asks what is left to ask."""
    count, repaired = tmp_path / "count", tmp_path / "repaired"
    trial = trial_of(tmp_path, broken_until(repaired, count), delay="6s")
    runner = start_runner(trial)
    eventually(
        lambda: trial.state().tasks["A"].latest.validate_at > 0, "it is to be asked again, in a minute"
    )
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"stopped\n"
    assert count.read_text().split() == ["critic"]
    assert trial.state().tasks["A"].latest.without_score["critic"].tries == 1


def test_what_validators_use_counts_for_the_task_and_the_run(tmp_path: Path) -> None:
    """Money is money; it is kept apart by agent."""
    script = "holdfast report cost 0.25; holdfast report tokens 30; echo '{\"score\": 1}'"
    agent = {"command": ["sh", "-c", script]}
    critic = {"id": "critic", "prompt": "Look for races.", "agent": "mine"}
    task = sh("A", "echo a > A.txt", validators=[critic])
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task), agents={"mine": agent})
    assert trial.execute() is RunStatus.COMPLETED
    row = trial.state().tasks["A"]
    assert row.validation_spent == {"mine": Spent(tokens=30, cost_usd=0.25)}
    assert (row.cost_usd, trial.stored().row.tokens) == (0.25, 30)
    assert trial.violations() == []


def test_an_agent_validates_with_the_task_its_criteria_and_the_diff(tmp_path: Path) -> None:
    """A validator with a prompt is an agent: its brief says what to judge, by what, and how to answer."""
    agent = {"command": ["sh", "-c", f'cp "$1" {tmp_path}/brief; echo \'{{"score": 1}}\'', "-", "{brief}"]}
    critic = {"id": "critic", "prompt": "Look for races.", "agent": "mine"}
    task = sh("A", "echo novel > A.txt", acceptance=["It is short."], validators=[critic])
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task), agents={"mine": agent})
    assert trial.execute() is RunStatus.COMPLETED
    brief = (tmp_path / "brief").read_text()
    for part in ("Look for races.", "echo novel > A.txt", "- It is short.", "+novel", '{"score": 0.9'):
        assert part in brief


def trial_judged_by(tmp_path: Path, agent: dict[str, Any], **limits: Any) -> Trial:
    """Return a run of one task that is done, and judged by an agent."""
    project, tasks = Project.create(tmp_path / "p"), stage("one", judged_by("mine"))
    return Trial.of(project, tasks, agents={"mine": agent}, limits={"limit_wait": 0.4, **limits})


SCORES = say(answers('{"score": 1}'), {**FINISHED, "result": '{"score": 1}'})


@pytest.mark.parametrize(
    ("event", "reason"),
    [(repeated(503), ParkReason.OUTAGE), (repeated(429), ParkReason.LIMIT)],
    ids=["outage", "limit"],
)
def test_a_validator_that_only_repeats_failing_requests_is_ended_and_asked_again(
    tmp_path: Path, event: dict[str, Any], reason: ParkReason
) -> None:
    """It is listened to like any other agent: the wait is not its own, and nobody is charged."""
    never = Fifo(tmp_path / "never")
    script = once(tmp_path / "hit", f"{say(event)}; {never.take}", SCORES)
    trial = trial_judged_by(tmp_path, claude(script), limit_patience=0.5)
    assert trial.execute() is RunStatus.COMPLETED
    [parked] = trial.of_kind(ev.ProviderParked)
    assert (parked.reason, trial.of_kind(ev.ValidatorFailed)) == (reason, [])
    assert trial.state().tasks["t"].charged == 0
    assert trial.violations() == []


def test_a_validator_that_goes_on_after_its_key_was_refused_is_ended(tmp_path: Path) -> None:
    """Waiting does not help: the run blocks and says what to do; resumed, it asks for the score and nothing else."""
    never = Fifo(tmp_path / "never")
    script = once(tmp_path / "hit", f"{say(refused(401, 'invalid x-api-key'))}; {never.take}", SCORES)
    trial = trial_judged_by(tmp_path, claude(script), limit_patience=0.5)
    assert trial.execute() is RunStatus.BLOCKED
    reason = trial.stored().row.reason
    assert "invalid x-api-key. Log in with mine" in reason
    assert f"holdfast resume {trial.run}" in reason
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.state().tasks["t"].attempt, trial.of_kind(ev.ValidatorFailed)) == (1, [])


def test_a_validator_that_waits_for_an_answer_is_ended(tmp_path: Path) -> None:
    """Nobody will answer it: it gave no score, and what it wanted is named."""
    asks = {
        "type": "message",
        "message": {"content": [{"type": "toolConfirmationRequest", "toolName": "rm"}]},
    }
    never = Fifo(tmp_path / "never")
    agent = {"command": ["sh", "-c", f"{say(asks)}; {never.take}"], "stream": "goose"}
    trial = trial_judged_by(tmp_path, agent, retry_delay="0s")
    assert trial.execute() is RunStatus.BLOCKED
    assert "use rm" in trial.of_kind(ev.ValidatorFailed)[-1].error


@pytest.mark.parametrize(
    ("end", "why"),
    [("true", "ended without its last word"), (say(refused(400, "prompt rejected")), "prompt rejected")],
    ids=["cut", "error"],
)
def test_a_score_before_an_error_or_a_cut_stream_is_none(tmp_path: Path, end: str, why: str) -> None:
    """Its exit status is 0, yet the validator had not finished: it is asked again."""
    bad = say(answers('{"score": 0.1}'))
    script = once(tmp_path / "hit", f"{bad}; {end}", SCORES)
    trial = trial_judged_by(tmp_path, claude(script), retry_delay="0s")
    assert trial.execute() is RunStatus.COMPLETED
    [failed] = trial.of_kind(ev.ValidatorFailed)
    assert why in failed.error
    assert [scored.score for scored in trial.of_kind(ev.ValidatorScored)] == [1]


@pytest.mark.parametrize(
    ("stream", "parked"),
    [
        ("gemini-rate-limit.jsonl", ParkReason.LIMIT),
        ("codex-usage-limit.jsonl", ParkReason.LIMIT),
        ("claude-server-error.jsonl", ParkReason.OUTAGE),
        ("opencode-refused.jsonl", ParkReason.OUTAGE),
        ("claude-late-cut.jsonl", ParkReason.OUTAGE),
    ],
)
def test_what_real_agents_print_at_a_limit_or_an_outage_is_no_score(
    tmp_path: Path, stream: str, parked: ParkReason
) -> None:
    """The provider is parked, whatever exit status the agent ended with, and no validator has failed."""
    trial = trial_judged_by(tmp_path, _recorded(stream), on_limit="stop", limit_wait="2h")
    assert trial.execute() is RunStatus.BLOCKED
    assert [event.reason for event in trial.of_kind(ev.ProviderParked)] == [parked]
    assert (trial.of_kind(ev.ValidatorFailed), trial.of_kind(ev.ValidatorScored)) == ([], [])


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ("codex-bad-key.jsonl", "Log in with mine"),
        ("claude-no-credit.jsonl", "Top up the account of mine"),
        ("vibe-bad-model.jsonl", "Set `model:` of mine"),
    ],
)
def test_what_real_agents_print_when_they_are_refused_blocks_with_the_way_out(
    tmp_path: Path, stream: str, words: str
) -> None:
    """One validator finds out: it is not asked again until somebody resumes the run."""
    trial = trial_judged_by(tmp_path, _recorded(stream))
    assert trial.execute() is RunStatus.BLOCKED
    assert words in trial.stored().row.reason
    assert (len(trial.of_kind(ev.ValidationStarted)), trial.of_kind(ev.ValidatorFailed)) == (1, [])


def _recorded(stream: str) -> dict[str, Any]:
    """Return an agent that prints what a real one printed, and ends as it ended."""
    agent = agent_of(stream)
    script = f"cat {STREAMS / stream}; exit {recorded()[stream] or 0}"
    return {"command": ["sh", "-c", script], "stream": builtin_presets()[agent].stream}


def test_an_exit_status_alone_tells_what_kept_a_validator(tmp_path: Path) -> None:
    """Gemini's 173 is a 429, also if its stream says no more than that it failed."""
    agent = {"command": ["sh", "-c", "exit 173"], "stream": "gemini"}
    trial = trial_judged_by(tmp_path, agent, on_limit="stop", limit_wait="2h")
    assert trial.execute() is RunStatus.BLOCKED
    assert [event.reason for event in trial.of_kind(ev.ProviderParked)] == [ParkReason.LIMIT]
    assert trial.of_kind(ev.ValidatorFailed) == []


def test_what_a_validator_writes_is_not_part_of_the_work(tmp_path: Path) -> None:
    """Validators judge; the commit that lands is the one that was tested."""
    scribbles = "echo spoiled > A.txt; touch extra; echo '{\"score\": 1}'"
    trial = trial_of(tmp_path, judge("critic", scribbles))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("A.txt") == "a"
    assert "extra" not in trial.project.git("ls-tree", "--name-only", f"holdfast/{trial.run}")


def test_validators_work_side_by_side(tmp_path: Path) -> None:
    """Each of the two waits until the other one is there."""
    a, b = Fifo(tmp_path / "a"), Fifo(tmp_path / "b")
    answer = "echo '{\"score\": 1}'"
    meet = judge("x", f"{a.give}; {b.take}; {answer}"), judge("y", f"{b.give}; {a.take}; {answer}")
    assert trial_of(tmp_path, *meet).execute() is RunStatus.COMPLETED


def half_validated(tmp_path: Path) -> tuple[Trial, Path, ForkedProcess]:
    """Return a run whose first validator has scored and whose second one is at work, and will be for ever."""
    here, never, count = Fifo(tmp_path / "here"), Fifo(tmp_path / "never"), tmp_path / "count"
    first = judge("first", f"echo first >> {count}; echo '{{\"score\": 0.9}}'")
    wait = f"if [ ! -e {tmp_path}/told ]; then touch {tmp_path}/told; {here.give}; {never.take}; fi"
    second = judge("second", f"echo second >> {count}; {wait}; echo '{{\"score\": 0.8}}'")
    trial = trial_of(tmp_path, first, second, verify=[f"echo test >> {count}"])
    runner = start_runner(trial)
    here.wait()
    eventually(lambda: "first" in trial.state().tasks["A"].latest.scores, "the first score is durable")
    return trial, count, runner


def test_finished_validators_keep_their_score_across_a_crash(tmp_path: Path) -> None:
    """C7, validating: only those that had not finished run again; the tests, which passed, do not."""
    trial, count, runner = half_validated(tmp_path)
    kill(runner)
    assert trial.execute() is RunStatus.COMPLETED
    assert sorted(count.read_text().split()) == ["first", "second", "second", "test"]
    assert trial.state().tasks["A"].latest.scores["first"].score == 0.9
    assert trial.violations() == []


def test_a_stop_while_validating_keeps_the_scores_given(tmp_path: Path) -> None:
    """`stop` ends validators at once; after the resume only the missing score is asked for."""
    trial, count, runner = half_validated(tmp_path)
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"stopped\n"
    assert trial.execute() is RunStatus.COMPLETED
    assert sorted(count.read_text().split()) == ["first", "second", "second", "test"]


@pytest.mark.parametrize(
    ("times", "status", "asked"), [(1, RunStatus.COMPLETED, 2), (9, RunStatus.BLOCKED, 6)]
)
def test_a_validator_that_vanishes_is_asked_once_more_each_time(
    tmp_path: Path, times: int, status: RunStatus, asked: int
) -> None:
    """A process killed together with its supervisor said nothing: it runs again, but not for ever."""
    count = tmp_path / "count"
    # The supervisor is the parent of the script.
    vanish = f"if [ $(wc -l < {count}) -le {times} ]; then kill -9 $PPID; fi"
    trial = trial_of(tmp_path, judge("critic", f"echo x >> {count}; {vanish}; echo '{{\"score\": 1}}'"))
    assert trial.execute() is status
    assert len(count.read_text().split()) == asked
    assert trial.state().tasks["A"].charged == 0


def test_a_brief_with_names_that_are_no_text_can_be_written() -> None:
    """Git's file names are bytes; a brief is UTF-8 whatever they are."""
    assert clip_bytes("caf\udce9", BRIEF_BYTES_MAX) == "caf?"
