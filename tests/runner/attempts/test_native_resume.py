"""Native resume that cannot go on: the session is gone, or full. A fresh agent continues, and nobody is charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.projection import Spent
from holdfast.core.status import FailureKind, RunStatus
from tests.support.repositories import Project
from tests.support.runs import Trial
from tests.support.scripted_agents import DONE, THREAD, fails, say, trial, uses, work

GONE = "no rollout found for this thread"
FULL = "the context window is exceeded"
FIRST = f"{say(THREAD, uses(70), fails('oops'))}; echo half > half.txt; exit 1"


def _resuming(project: Project, fresh: str, resumed: str, attempts: int = 2) -> Trial:
    """Return a run of an agent that does one thing when it is fresh, from its second attempt on, and another when resumed."""
    state = project.path / ".holdfast"
    state.mkdir(exist_ok=True)
    fresh_words = json.dumps(
        ["sh", "-c", f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then {FIRST}; else {fresh}; fi"]
    )
    resume = json.dumps(["sh", "-c", resumed, "sh", "{session}"])
    (state / "agents.toml").write_text(
        f'[mine]\npreset = "codex"\ncommand = {fresh_words}\nresume = {resume}\nprompt = "file"\n'
        f"errors = {{ session = ['{GONE}'], context = ['{FULL}'] }}\n"
    )
    agents = {"a": {"preset": "mine", "native_resume": True}}
    return trial(project, "t", agents=agents, known=["mine"], limits={"attempts": attempts})


@pytest.mark.parametrize(
    ("words", "kind", "why"),
    [
        (GONE, FailureKind.SESSION, "its session is not known any more"),
        (FULL, FailureKind.CONTEXT, "its session is full"),
    ],
)
def test_a_session_that_cannot_go_on_is_left_for_a_fresh_agent_and_charges_nobody(
    tmp_path: Path, words: str, kind: FailureKind, why: str
) -> None:
    """The second of two attempts fails in its session; a third, fresh one does the work, and its brief is whole."""
    resumed = f"{say(fails(words))}; exit 1"
    run = _resuming(Project.create(tmp_path / "p"), work(), resumed)
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert (task.attempt, task.charged) == (3, 1)
    assert [(one.kind, one.session_lost) for one in task.failures] == [
        (FailureKind.AGENT, False),
        (kind, True),
    ]
    third = run.of_kind(ev.AttemptStarted)[2]
    assert (third.session, third.fresh_because) == ("", why)
    assert "your own session" not in run.brief("t", 3)
    assert run.show("half.txt") == "half"


def test_a_fresh_agent_that_overflows_is_charged_and_its_full_session_is_not_resumed(tmp_path: Path) -> None:
    """Otherwise a task too large for its agent would go on for ever."""
    full = f"{say(THREAD, fails(FULL))}; exit 1"
    run = _resuming(Project.create(tmp_path / "p"), full, full, attempts=3)
    assert run.execute() is RunStatus.BLOCKED
    task = run.state().tasks["t"]
    assert [one.session_lost for one in task.failures] == [False, True, False, False]
    assert task.charged == 3
    assert [one.session for one in run.of_kind(ev.AttemptStarted)] == ["", "T-1", "", ""]


def test_what_a_session_used_before_is_recorded_when_it_is_resumed(tmp_path: Path) -> None:
    """An agent whose totals count on from there is not charged twice: whoever reads its stream can take that off."""
    run = _resuming(Project.create(tmp_path / "p"), work(), f"{say(THREAD)}; echo x > t.txt; {say(DONE)}")
    assert run.execute() is RunStatus.COMPLETED
    first, second = run.of_kind(ev.AttemptStarted)
    assert (first.session_before, second.session_before) == (Spent(), Spent(tokens=70))
