"""Validators: scores and gates after the checks, feedback to the next attempt, and scores that survive crashes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.brief import BRIEF_BYTES_MAX, clip_bytes
from holdfast.core.status import FailureKind, RunStatus
from holdfast.runner.requests import Request, send_request
from tests.support.command import eventually
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, sh, stage, start_runner


def judge(name: str, script: str) -> dict[str, Any]:
    """Return a validator that is a shell script."""
    return {"id": name, "run": ["sh", "-c", script]}


def says(name: str, score: float, feedback: str = "") -> dict[str, Any]:
    """Return a validator that always gives the same score."""
    return judge(name, f"""echo thinking; echo '{{"score": {score}, "feedback": "{feedback}"}}'""")


def trial_of(
    tmp_path: Path, *validators: dict[str, Any], script: str = "echo a > A.txt", **more: Any
) -> Trial:
    """Return a run of one task with these validators; a failure of theirs is final."""
    task = sh("A", script, validators=list(validators), **more)
    return Trial.of(Project.create(tmp_path / "p"), stage("one", task), limits={"attempts": 1})


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
        ("echo looks good", "gave no score: looks good"),
        ("echo '{\"score\": 9}'", "the score 9 is not between 0 and 1"),
        ("echo '{\"score\": 1}'; echo oops; exit 3", "failed (exited with 3)"),
        ("echo '{\"score\": NaN}'", "gave no score"),
    ],
)
def test_what_is_no_score_counts_as_zero(tmp_path: Path, script: str, why: str) -> None:
    """A validator that breaks or rambles never lets work through; its output tells why."""
    trial = trial_of(tmp_path, judge("critic", script), gate=0.1)
    assert trial.execute() is RunStatus.BLOCKED
    (scored,) = trial.of_kind(ev.ValidatorScored)
    assert scored.score == 0.0
    assert why in scored.feedback


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


def half_validated(tmp_path: Path) -> tuple[Trial, Path, subprocess.Popen[bytes]]:
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


@pytest.mark.parametrize(("times", "status"), [(1, RunStatus.COMPLETED), (2, RunStatus.BLOCKED)])
def test_a_validator_that_vanishes_is_asked_once_more(tmp_path: Path, times: int, status: RunStatus) -> None:
    """A process killed together with its supervisor said nothing: it runs again, but not for ever."""
    count = tmp_path / "count"
    # The supervisor is the parent of the script.
    vanish = f"if [ $(wc -l < {count}) -le {times} ]; then kill -9 $PPID; fi"
    trial = trial_of(tmp_path, judge("critic", f"echo x >> {count}; {vanish}; echo '{{\"score\": 1}}'"))
    assert trial.execute() is status
    assert len(count.read_text().split()) == 2


def test_a_brief_with_names_that_are_no_text_can_be_written() -> None:
    """Git's file names are bytes; a brief is UTF-8 whatever they are."""
    assert clip_bytes("caf\udce9", BRIEF_BYTES_MAX) == "caf?"
