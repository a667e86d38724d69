"""The merge queue: order, trailers, conflicts with both sides kept, and work that fails only together."""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import AttemptKind, FailureKind, RunStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage


def test_a_conflict_is_resolved_by_a_fresh_attempt_with_both_sides(tmp_path: Path) -> None:
    """Two tasks change one line; the second gets the markers, keeps both, and both survive."""
    script = (
        "if grep -q '<<<<<<<' a.txt; then sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' a.txt;"
        " else sed -i 's/^two$/{word}/' a.txt; fi"
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script.format(word="deux")), sh("B", script.format(word="zwei"))),
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert {"deux", "zwei"} <= set(trial.show("a.txt").splitlines())
    (conflict,) = trial.of_kind(ev.MergeConflicted)
    assert conflict.files == ("a.txt",)
    second = trial.state().tasks[conflict.task]
    assert second.commits[-1].kind is AttemptKind.CONFLICT
    assert "BOTH sides" in trial.brief(conflict.task, 2)


def test_a_resolution_that_drops_a_side_never_lands(tmp_path: Path) -> None:
    """Taking one side wholesale is refused, attempt after attempt, and the conflict comes back each time."""
    landed = Fifo(tmp_path / "landed")
    stubborn = f"[ $HOLDFAST_ATTEMPT_NUMBER -gt 1 ] || {landed.take}; printf 'one\\nzwei\\nthree\\n' > a.txt"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", "sed -i 's/^two$/deux/' a.txt"),
            sh("B", stubborn),
            sh("C", f"echo > {landed.path}", needs=["A"]),
        ),
        limits={"attempts": 3, "jobs": 3},
    )
    assert trial.execute() is RunStatus.BLOCKED
    kinds = [failure.kind for failure in trial.state().tasks["B"].failures]
    assert kinds == [FailureKind.CONFLICT, FailureKind.SIDE_LOST, FailureKind.SIDE_LOST]
    assert "<<<<<<<" in trial.project.git("show", f"{trial.state().tasks['B'].carry}:a.txt")
    assert "deux" in trial.show("a.txt")


def test_work_that_is_green_apart_and_red_together_does_not_land(tmp_path: Path) -> None:
    """The merged tree is checked before the branch moves; the failing attempt goes on from the merge."""
    fix = "if [ -f a.flag ] && [ -f b.flag ]; then rm {mine}.flag; echo done > {mine}.done; else touch {mine}.flag; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", fix.format(mine="a")), sh("B", fix.format(mine="b"))),
        verify=["! { test -f a.flag && test -f b.flag; }"],
    )
    assert trial.execute() is RunStatus.COMPLETED
    (refused,) = trial.of_kind(ev.MergeRefused)
    assert "after merging" in refused.error
    assert trial.violations() == []


def test_tasks_land_in_the_order_in_which_they_were_finished(tmp_path: Path) -> None:
    """E4: the merge queue follows completion, not the plan."""
    gate = Fifo(tmp_path / "gate")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("slow", f"{gate.take}; echo s > s"),
            sh("quick", "echo q > q"),
            sh("last", "echo > " + str(gate.path), needs=["quick"]),
        ),
        limits={"jobs": 3},
    )
    trial.execute()
    assert trial.landed().index("quick") < trial.landed().index("slow")


def test_every_landed_merge_carries_the_trailers(tmp_path: Path) -> None:
    """The contract's trailers are what recovery reads back."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt", title="Make A")))
    trial.execute()
    message = trial.project.git("log", "-1", "--format=%B", f"holdfast/{trial.run}")
    assert message.splitlines()[0] == "Land A: Make A"
    assert f"Holdfast-Run: {trial.run}\nHoldfast-Task: A\nHoldfast-Attempt: 1" in message
