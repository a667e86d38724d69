"""Auto-Claude's files, both ways: every drift of real plans is read, and what is written is read again the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.formats import auto_claude
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import Claim, ClaimedStatus, ForeignRun
from tests.formats.run_views import (
    assert_sound,
    begun,
    failed,
    kinds,
    landed,
    next_stage,
    started,
    two_layers,
    view_of,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "auto-claude"
FOLDER = ".auto-claude/specs/004-search"
PLAN = f"{FOLDER}/implementation_plan.json"
HISTORY = f"{FOLDER}/memory/attempt_history.json"
COMMITS = f"{FOLDER}/memory/build_commits.json"
WORKTREE = ".auto-claude/worktrees/tasks/004-search"
COPY = f"{WORKTREE}/{PLAN}"


def bytes_of(document: Any) -> bytes:
    """Return a document as Auto-Claude writes it."""
    return json.dumps(document, indent=2).encode()


def reading(plan: Any, **others: Any) -> ForeignRun:
    """Return what is read of a spec folder with this plan; others are named `history`, `commits`, `copy` …"""
    paths = {"history": HISTORY, "commits": COMMITS, "copy": COPY, "status": ".auto-claude-status"}
    documents = {PLAN: plan if isinstance(plan, bytes) else bytes_of(plan)}
    documents |= {paths.get(name, f"{FOLDER}/{name}.json"): bytes_of(found) for name, found in others.items()}
    run = auto_claude.read(PLAN, documents)
    assert_sound(run)
    return run


def plan_of(*phases: dict[str, Any], **head: Any) -> dict[str, Any]:
    """Return a plan document."""
    return {"feature": "Search in notes", "workflow_type": "feature", "phases": list(phases), **head}


def phase(number: int, *subtasks: dict[str, Any], **head: Any) -> dict[str, Any]:
    """Return a phase as the present version writes it."""
    return {"phase": number, "name": f"Phase {number}", "subtasks": list(subtasks), **head}


def sub(name: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Return a subtask as the present version writes it."""
    return {"id": name, "description": f"Do {name}", "status": status, **more}


def claims_of(run: ForeignRun) -> dict[str, Claim]:
    """Return the claims by task."""
    return {claim.task: claim for claim in run.claims}


def needs_of(run: ForeignRun) -> dict[str, tuple[str, ...]]:
    """Return what each task needs."""
    return {task.id: task.needs for _, task in run.plan.tasks()}


# --- recognising


@pytest.mark.parametrize(
    "document",
    [
        plan_of(),
        {"spec_id": "011-x", "subtasks": []},
        {"phases": [{"chunks": []}]},
        {"subtasks": {}, "stuck_subtasks": []},
        {"chunks": {"a": {"attempts": []}}},
        {"commits": [], "last_good_commit": None},
        {"active": True, "spec": "001-x", "state": "building", "session": {}},
        {"approved": True, "review_count": 1},
        {"sourceType": "manual"},
    ],
)
def test_a_file_is_known_by_what_is_in_it(document: dict[str, Any]) -> None:
    """Whoever copied a file out of its folder under another name can still adopt it."""
    assert auto_claude.recognises("copied.json", bytes_of(document))


@pytest.mark.parametrize("document", [{}, {"phases": [{"sprints": []}]}, {"tasks": {}}, {"version": "1.0"}])
def test_other_peoples_files_are_left_to_others(document: dict[str, Any]) -> None:
    """A file of another system, or of none, is not claimed."""
    assert not auto_claude.recognises("state.json", bytes_of(document))


def test_a_broken_plan_in_its_place_is_known_by_its_place() -> None:
    """What lies around a broken plan can be saved, so the plan must be found."""
    assert auto_claude.recognises(PLAN, b'{"feature": "Sea')
    assert not auto_claude.recognises("notes.txt", b"hello")


def test_companions_are_looked_for_in_the_project_and_in_every_worktree_layout() -> None:
    """Three versions of Auto-Claude keep their worktrees in three places."""
    patterns = auto_claude.companions(PLAN)
    assert HISTORY in patterns
    assert ".auto-claude-status" in patterns
    for worktree in (WORKTREE, ".worktrees/004-search", ".worktrees/auto-claude"):
        assert f"{worktree}/{PLAN}" in patterns


# --- plans as they drift


@pytest.mark.parametrize("key", ["id", "phase_id", "phaseId", "phase", "number"])
def test_a_phase_is_known_under_each_of_its_keys(key: str) -> None:
    """Five names for the same key are in real plans."""
    run = reading(plan_of({key: "setup", "tasks": [sub("a")]}, {key: 2, "tasks": [sub("b")]}))
    assert [stage.id for stage in run.plan.stages] == ["setup", "phase-2"]


@pytest.mark.parametrize("items", ["subtasks", "chunks", "tasks"])
@pytest.mark.parametrize("key", ["id", "subtask_id", "subtaskId", "chunk_id"])
def test_subtasks_are_known_under_each_of_their_keys(items: str, key: str) -> None:
    """The list and the ids of its entries have changed their names over the versions."""
    run = reading(plan_of({"phase": 1, items: [{key: 1.1, "description": "x", "status": "completed"}]}))
    assert [(claim.task, claim.native, claim.standing) for claim in run.claims] == [("1.1", "1.1", "done")]


def test_subtasks_without_an_id_are_numbered_and_equal_ids_renamed() -> None:
    """A quarter of real subtasks have no id; each still gets one, the same every time."""
    plan = plan_of(phase(1, {"description": "x"}, sub("1")), phase(2, sub("1"), {"title": "y"}))
    assert list(claims_of(reading(plan))) == ["subtask-1-1", "1", "1-2", "subtask-2-2"]


def test_a_plan_without_phases_is_one_stage() -> None:
    """Some plans list their subtasks at the top."""
    run = reading({"spec_id": "011-fix-zoom", "subtasks": [sub("1", "completed"), sub("2")]})
    assert [stage.id for stage in run.plan.stages] == ["main"]
    assert run.plan.goal == "Fix zoom"


@pytest.mark.parametrize(
    ("word", "standing"),
    [
        ("pending", ClaimedStatus.PENDING),
        ("not_started", ClaimedStatus.PENDING),
        ("in_progress", ClaimedStatus.RUNNING),
        ("completed", ClaimedStatus.DONE),
        ("blocked", ClaimedStatus.BLOCKED),
        ("failed", ClaimedStatus.FAILED),
    ],
)
def test_a_status_word_says_where_a_subtask_stands(word: str, standing: ClaimedStatus) -> None:
    """The native words, and those that models put in their place, are understood."""
    assert claims_of(reading(plan_of(phase(1, sub("a", word)))))["a"].standing is standing


def test_an_unknown_status_is_shown_and_counts_as_not_begun() -> None:
    """Nobody's work is called done for a word that nobody knows."""
    run = reading(plan_of(phase(1, sub("a", "marinating"))))
    assert (run.claims[0].standing, run.claims[0].said) == (ClaimedStatus.PENDING, "marinating")
    assert kinds(run) == ["unknown-status"]


# --- what waits for what


@pytest.mark.parametrize("ref", [1, "1", "phase-1", "Phase 1", "First things"])
def test_phases_depend_on_numbers_ids_and_titles(ref: Any) -> None:
    """Dependencies were declared as numbers and are mostly written as texts."""
    plan = plan_of(phase(1, sub("a")) | {"name": "First things"}, phase(2, sub("b"), depends_on=[ref]))
    assert reading(plan).plan.stages[1].needs == ("phase-1",)


def test_phases_that_say_nothing_run_one_after_the_other() -> None:
    """Auto-Claude would have gone through them in order; so does the adopted run."""
    run = reading(plan_of(phase(1, sub("a")), phase(2, sub("b")), phase(3, sub("c"))))
    assert [stage.needs for stage in run.plan.stages] == [(), ("phase-1",), ("phase-2",)]


def test_phases_that_depend_on_nothing_are_free() -> None:
    """An empty list is an answer: such a phase may begin at once."""
    run = reading(plan_of(phase(1, sub("a"), depends_on=[]), phase(2, sub("b"), depends_on=[])))
    assert [stage.needs for stage in run.plan.stages] == [(), ()]


def test_subtasks_go_in_order_unless_their_phase_is_safe_in_parallel() -> None:
    """Both modes of Auto-Claude are kept: one after the other, or side by side where the plan says so."""
    run = reading(plan_of(phase(1, sub("a"), sub("b")), phase(2, sub("c"), sub("d"), parallel_safe=True)))
    assert needs_of(run) == {"a": (), "b": ("a",), "c": (), "d": ()}


def test_subtasks_depend_on_subtasks_and_on_whole_phases() -> None:
    """Either may be named, by id or by number, in one text or in a list."""
    plan = plan_of(
        phase(1, sub("a"), sub("b", depends_on=[])),
        phase(2, sub("c", depends_on="a, b"), sub("d", dependencies=["phase-1"])),
    )
    assert needs_of(reading(plan)) == {"a": (), "b": (), "c": ("a", "b"), "d": ("a", "b")}


def test_a_number_means_the_subtask_of_the_same_phase() -> None:
    """Where numbers begin again in each phase, `1` is the one at hand."""
    plan = plan_of(phase(1, sub("1")), phase(2, sub("1"), sub("2", depends_on=["1"])))
    assert needs_of(reading(plan))["2"] == ("1-2",)


def test_dependencies_that_cannot_be_are_dropped_and_told() -> None:
    """Unknown names and circles do not keep a run from going on."""
    plan = plan_of(phase(1, sub("a", depends_on=["b", "ghost"]), sub("b", depends_on=["a"])))
    run = reading(plan)
    assert len(needs_of(run)["a"]) + len(needs_of(run)["b"]) == 1
    assert sorted(kinds(run)) == ["cycle", "unknown-need"]


# --- what a subtask asks for


def test_a_subtask_becomes_a_task_that_needs_no_other_file() -> None:
    """The spec folder is not in the workspace, so all that an agent needs is in the prompt."""
    asked = sub("a", title="Index", files_to_modify=["notes.py"], patterns_from=["tags.py"], notes="Use FTS5")
    run = reading(plan_of(phase(1, asked), description="People cannot find notes", final_acceptance=["Fast"]))
    task = run.plan.stages[0].tasks[0]
    assert task.title == "Index"
    for told in ("Do a", "notes.py", "tags.py", "Use FTS5", "People cannot find notes", "Fast"):
        assert told in task.prompt


@pytest.mark.parametrize("key", ["run", "command"])
def test_a_verification_command_becomes_a_check(key: str) -> None:
    """What it is expected to say is an acceptance criterion."""
    told = {"type": "command", key: "cd app && npm test", "expected": "All pass"}
    task = reading(plan_of(phase(1, sub("a", verification=told)))).plan.stages[0].tasks[0]
    assert task.verify == ("cd app && npm test",)
    assert task.acceptance == ("`cd app && npm test` gives: All pass",)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd /Users/somebody/code && pytest", "passed"),
        ("grep -r 'old_name' src", "No matches"),
        ("git log -- [MISSING_FILE]", ""),
        ("ls tests | wc -l", "7"),
        ("echo 'looks good'", ""),
        ("Verify that it works", ""),
    ],
)
def test_a_command_that_cannot_be_a_check_is_told_instead(command: str, expected: str) -> None:
    """A check that fails everywhere but on its author's machine would keep a task from ever ending."""
    told = {"type": "command", "command": command, "expected": expected}
    run = reading(plan_of(phase(1, sub("a", verification=told))))
    task = run.plan.stages[0].tasks[0]
    assert task.verify == ()
    assert any(command in line for line in task.acceptance)
    assert kinds(run) == ["checks-not-taken"]


@pytest.mark.parametrize(
    "told",
    [
        {"type": "manual", "run": "Open the page and look"},
        {"type": "browser", "url": "http://localhost:3000", "checks": ["Open the page and look"]},
        {"type": "e2e", "steps": ["Open the page and look"]},
        {"manual": "Open the page and look"},
        "Open the page and look",
    ],
)
def test_what_people_would_verify_is_an_acceptance_criterion(told: Any) -> None:
    """Prose is never run."""
    task = reading(plan_of(phase(1, sub("a", verification=told)))).plan.stages[0].tasks[0]
    assert task.verify == ()
    assert "Open the page and look" in task.acceptance[0]


def test_files_to_create_are_deliverables_only_where_their_place_is_certain() -> None:
    """Paths below a service's own folder, or below `.auto-claude`, would never be found."""
    files = ["src/index.py", ".auto-claude/specs/004-search/notes.md", "TBD - see spec", "/etc/x", "../y.py"]
    run = reading(
        plan_of(
            phase(1, sub("a", files_to_create=files), sub("b", files_to_create=["src/ui.ts"], service="web"))
        )
    )
    first, second = run.plan.stages[0].tasks
    assert first.files == ("src/index.py",)
    assert second.files == ()
    assert "src/ui.ts" in second.prompt


# --- memory


def history_of(name: str, *errors: str | None, status: str = "failed", **more: Any) -> dict[str, Any]:
    """Return an attempt history with one subtask; an attempt without an error was a success."""
    tried = [
        {"session": n, "approach": f"approach {n}", "success": error is None, "error": error}
        for n, error in enumerate(errors, 1)
    ]
    return {"subtasks": {name: {"attempts": tried, "status": status}}, "stuck_subtasks": [], **more}


def test_attempts_failures_and_approaches_are_kept() -> None:
    """The next agent hears what was tried, and the budget is not given anew."""
    run = reading(plan_of(phase(1, sub("a", "failed"))), history=history_of("a", "no module", "test failed"))
    claim = claims_of(run)["a"]
    assert (claim.attempts, claim.spent) == (2, 2)
    assert [(f.attempt, f.error, f.feedback) for f in claim.failures] == [
        (1, "no module", "approach 1"),
        (2, "test failed", "approach 2"),
    ]


def test_the_attempt_at_hand_counts_without_being_spent() -> None:
    """A crash while coding charges nobody."""
    run = reading(plan_of(phase(1, sub("a", "in_progress"))), history=history_of("a", "no module"))
    assert (run.claims[0].attempts, run.claims[0].spent) == (2, 1)


def test_thousands_of_attempts_are_counted_whole() -> None:
    """The count bounds the run; only the last texts are worth reading."""
    run = reading(plan_of(phase(1, sub("a", "failed"))), history=history_of("a", *["again"] * 3340))
    assert (run.claims[0].attempts, run.claims[0].spent) == (3340, 3340)
    assert run.claims[0].failures[-1].attempt == 3340


def test_what_was_stuck_stays_abandoned() -> None:
    """Real subtasks were retried thousands of times because stuck was recorded and ignored."""
    stuck = [{"subtask_id": "a", "reason": "circular fix"}]
    history = history_of("a", "x", "x", status="stuck", stuck_subtasks=stuck)
    run = reading(plan_of(phase(1, sub("a"))), history=history)
    assert claims_of(run)["a"].standing is ClaimedStatus.ABANDONED
    assert any(found.kind == "stuck" and "circular fix" in found.sentence for found in run.findings)


@pytest.mark.parametrize("key", ["subtask_id", "chunk_id"])
def test_good_commits_belong_to_their_subtasks(key: str) -> None:
    """Each recorded commit is what git is asked about; one without a subtask belongs to the run."""
    commits = {"commits": [{"hash": "abc1234", key: "a"}, {"hash": "bcd2345"}], "last_good_commit": "cde3456"}
    run = reading(plan_of(phase(1, sub("a", "completed"))), commits=commits)
    assert run.claims[0].commits == ("abc1234",)
    assert run.commits == ("bcd2345", "cde3456")


def test_a_commit_told_in_the_notes_of_a_done_subtask_is_asked_about() -> None:
    """Where no list of commits was kept, agents often noted them."""
    run = reading(plan_of(phase(1, sub("a", "completed", notes="All hooks passed. Committed as 78ba6b2eb."))))
    assert run.claims[0].commits == ("78ba6b2eb",)


def test_work_that_landed_before_the_plan_heard_of_it_counts_as_claimed() -> None:
    """A crash between the commit and the plan's update must not do the work twice; git will judge it."""
    commits = {"commits": [{"hash": "abc1234", "subtask_id": "a"}], "last_good_commit": "abc1234"}
    history = history_of("a", None, status="completed")
    run = reading(plan_of(phase(1, sub("a", "in_progress"))), history=history, commits=commits)
    assert run.claims[0].standing is ClaimedStatus.DONE
    assert kinds(run) == ["memory-differs"]


def test_memory_of_unknown_subtasks_is_told() -> None:
    """A plan that was made anew no longer has them."""
    run = reading(plan_of(phase(1, sub("a"))), history=history_of("ghost", "x"))
    assert kinds(run) == ["unknown-task"]


# --- contradictions and copies


def test_a_plan_marked_done_with_unfinished_subtasks_is_told() -> None:
    """A third of real plans marked done are not."""
    run = reading(plan_of(phase(1, sub("a", "completed"), sub("b")), status="done", planStatus="completed"))
    assert run.finished
    assert kinds(run) == ["done-with-unfinished-parts"]
    assert "b" in run.findings[0].sentence


def test_the_newer_of_two_copies_is_believed_and_the_difference_told() -> None:
    """The plan exists in the project and in the worktree, and they disagree after a crash."""
    old = plan_of(phase(1, sub("a")), updated_at="2026-01-04T05:00:00.000Z")
    new = plan_of(phase(1, sub("a", "completed")), updated_at="2026-01-04T06:00:00+00:00")
    for plan, copy, main in ((old, new, COPY), (new, old, PLAN)):
        run = reading(plan, copy=copy)
        assert run.claims[0].standing is ClaimedStatus.DONE
        assert run.main == main
        assert kinds(run) == ["copies-differ"]


def test_equal_copies_are_no_contradiction() -> None:
    """Only what differs is worth a word."""
    plan = plan_of(phase(1, sub("a")))
    assert kinds(reading(plan, copy=plan)) == []


def test_a_broken_plan_gives_way_to_its_copy() -> None:
    """The copy in the worktree is as good, and the broken one is named."""
    run = reading(b'{"feature": "Sea', copy=plan_of(phase(1, sub("a", "completed"))))
    assert run.claims[0].standing is ClaimedStatus.DONE
    assert kinds(run) == ["unreadable"]


def test_unfinished_work_lies_in_the_worktree_of_the_spec() -> None:
    """What is dirty there is of the subtask that was being worked on."""
    plan = plan_of(phase(1, sub("a", "completed"), sub("b", "in_progress"), sub("c")))
    run = reading(plan, copy=plan)
    assert [claim.worktree for claim in run.claims] == ["", WORKTREE, ""]
    assert run.branches == ("auto-claude/004-search",)


@pytest.mark.parametrize(
    ("others", "kind"),
    [
        ({"review_state": {"approved": False, "review_count": 0}}, "not-approved"),
        (
            {"status": {"spec": "004-search", "state": "x", "session": 1, "subtasks": {"total": 9}}},
            "counts-differ",
        ),
    ],
)
def test_what_other_files_say_against_the_plan_is_told(others: dict[str, Any], kind: str) -> None:
    """The user sees it before the run goes on."""
    assert kinds(reading(plan_of(phase(1, sub("a"))), **others)) == [kind]


def test_the_status_file_of_another_spec_says_nothing() -> None:
    """There is one for the whole project, and it speaks of whichever spec was worked on last."""
    status = {"spec": "009-other", "state": "building", "session": {}, "subtasks": {"total": 9}}
    assert kinds(reading(plan_of(phase(1, sub("a"))), status=status)) == []


def test_a_rejection_by_qa_is_told_with_its_reasons() -> None:
    """All subtasks done is not the end if a reviewer said no."""
    signoff = {"status": "rejected", "issues_found": [{"title": "The index is never built"}]}
    run = reading(plan_of(phase(1, sub("a", "completed")), qa_signoff=signoff))
    assert kinds(run) == ["qa-rejected"]
    assert "The index is never built" in run.findings[0].sentence


# --- no plan, or what is left of one


def test_without_a_plan_the_whole_spec_is_one_task() -> None:
    """Planning that was never done is no reason to stop: the task holds all that the user asked for."""
    documents = {
        PLAN: bytes_of(plan_of(description="People cannot find notes", status="backlog")),
        f"{FOLDER}/spec.md": b"# Search\n\n## Requirements\n\nFull text, ranked.\n",
    }
    run = auto_claude.read(PLAN, documents)
    assert_sound(run)
    (task,) = run.plan.stages[0].tasks
    assert "People cannot find notes" in task.prompt
    assert "Full text, ranked." in task.prompt
    assert kinds(run) == ["no-plan"]


def test_a_spec_folder_without_a_plan_is_adopted_by_its_spec() -> None:
    """The crash may have come before planning wrote anything."""
    path = f"{FOLDER}/spec.md"
    document = b"# Specification: Search in notes\n\nFull text.\n"
    assert auto_claude.recognises(path, document)
    run = auto_claude.read(path, {path: document})
    assert (run.plan.goal, run.name, kinds(run)) == ("Search in notes", "004-search", ["no-plan"])


def test_a_plan_that_breaks_off_is_taken_up_to_there() -> None:
    """Every subtask that was written whole is saved."""
    whole = bytes_of(plan_of(phase(1, sub("a", "completed"), sub("b")), phase(2, sub("c"))))
    run = reading(whole[: whole.index(b'"Do c"')])
    assert {claim.task: claim.standing for claim in run.claims} == {
        "a": ClaimedStatus.DONE,
        "b": ClaimedStatus.PENDING,
    }
    assert kinds(run) == ["unreadable", "salvaged"]


def test_a_lost_plan_is_made_from_memory_and_progress_notes() -> None:
    """What was done is known, and what was next; the rest is lost and said to be."""
    notes = b"SESSION 1\nSubtask completed: b - Add the route\nNext subtask: c - Add the page\n"
    documents = {
        PLAN: b"",
        HISTORY: bytes_of(history_of("a", None, status="completed")),
        f"{FOLDER}/build-progress.txt": notes,
    }
    run = auto_claude.read(PLAN, documents)
    assert_sound(run)
    assert {claim.task: claim.standing.value for claim in run.claims} == {
        "a": "done",
        "b": "done",
        "c": "pending",
    }
    assert "no-plan" in kinds(run)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"<<<<<<< HEAD\n{}\n", b"\x00\x05\x16\x07", b"\xff"])
def test_a_broken_file_with_nothing_around_it_is_a_clear_error(data: bytes) -> None:
    """The reason and the way out are said, and the file stays as it is."""
    with pytest.raises(BrokenFileError) as error:
        auto_claude.read("implementation_plan.json", {"implementation_plan.json": data})
    assert error.value.hint


def test_a_companion_alone_gives_a_blocked_task_that_says_what_is_missing() -> None:
    """Doing again what a missing plan may have done would be wrong; the user is told where to point."""
    run = auto_claude.read("x.json", {"x.json": b'{"sourceType": "manual"}'})
    assert_sound(run)
    assert run.claims[0].standing is ClaimedStatus.BLOCKED
    assert "spec folder" in run.findings[0].sentence


# --- writing


def at_work() -> RunState:
    """Return a run with a landed task, one in its second attempt, and one that was given up."""
    state = begun(two_layers())
    landed(state, "L0-001")
    next_stage(state, "0-setup", "1-backend")
    failed(state, "L1-001")
    started(state, "L1-001")
    failed(state, "L1-002", error="no such form", detail="")
    state.apply(ev.TaskAbandoned(task="L1-002", error="no attempts left"))
    return state


def written(files: list[NativeFile]) -> dict[str, Any]:
    """Return the JSON files that were written, by path."""
    return {file.path: json.loads(file.content) for file in files if file.content.startswith(b"{")}


def test_a_run_is_written_to_the_native_places_state_first() -> None:
    """Auto-Claude finds a spec folder as its own, and never sees output before state."""
    files = auto_claude.write(view_of(at_work(), "01-notes"), {})
    folder = ".auto-claude/specs/001-notes"
    assert [file.path for file in files] == [
        f"{folder}/implementation_plan.json",
        f"{folder}/memory/attempt_history.json",
        f"{folder}/memory/build_commits.json",
        ".auto-claude-status",
        f"{folder}/spec.md",
        f"{folder}/build-progress.txt",
    ]


def test_a_written_plan_has_only_what_auto_claudes_loader_accepts() -> None:
    """That loader refuses a whole plan for one unknown status or one missing key."""
    documents = written(auto_claude.write(view_of(at_work(), "01-notes"), {}))
    plan = documents[".auto-claude/specs/001-notes/implementation_plan.json"]
    assert {"feature", "workflow_type", "phases", "status", "planStatus", "updated_at"} <= plan.keys()
    assert [(phase["phase"], phase["depends_on"]) for phase in plan["phases"]] == [(1, []), (2, [1])]
    parts = [part for phase in plan["phases"] for part in phase["subtasks"]]
    assert [part["status"] for part in parts] == ["completed", "in_progress", "failed"]
    assert all(part["id"] and part["description"] for part in parts)
    assert parts[1]["verification"] == {"type": "command", "run": "pytest -q tests/api"}


def test_attempts_stuck_tasks_and_commits_are_written_to_the_memory() -> None:
    """Auto-Claude's own recovery reads hints, stuck subtasks and the last good commit from there."""
    documents = written(auto_claude.write(view_of(at_work(), "01-notes"), {}))
    memory = ".auto-claude/specs/001-notes/memory"
    history = documents[f"{memory}/attempt_history.json"]
    commits = documents[f"{memory}/build_commits.json"]
    assert [tried["success"] for tried in history["subtasks"]["L1-001"]["attempts"]] == [False]
    assert history["subtasks"]["L1-002"]["status"] == "stuck"
    assert [stuck["subtask_id"] for stuck in history["stuck_subtasks"]] == ["L1-002"]
    assert commits["commits"][0]["subtask_id"] == "L0-001"
    assert commits["last_good_commit"] == "L0-001-merge"


def test_the_status_line_counts_what_the_plan_says() -> None:
    """A status line over a mirrored run shows the truth."""
    status = written(auto_claude.write(view_of(at_work(), "01-notes"), {}))[".auto-claude-status"]
    assert status["subtasks"] == {"completed": 1, "total": 3, "in_progress": 1, "failed": 1}
    assert (status["spec"], status["state"]) == ("001-notes", "building")
    assert status["phase"] == {"current": "Backend", "id": 2, "total": 2}


def test_what_was_written_is_read_again_as_the_same_run() -> None:
    """Plan, needs, standings, attempts, failures and commits survive the way there and back."""
    state = at_work()
    files = auto_claude.write(view_of(state, "01-notes"), {})
    run = auto_claude.read(files[0].path, {file.path: file.content for file in files})
    assert_sound(run)
    assert run.plan.stages == two_layers().stages
    claims = claims_of(run)
    assert [claim.standing.value for claim in run.claims] == ["done", "running", "abandoned"]
    assert [(claim.attempts, claim.spent) for claim in run.claims] == [(1, 0), (2, 1), (1, 1)]
    assert claims["L1-001"].failures[0].error == "2 tests fail"
    assert claims["L1-001"].failures[0].feedback == "expected 201, got 422"
    assert claims["L0-001"].commits == ("L0-001-merge",)


def test_a_skipped_task_lets_auto_claude_go_on_and_is_read_again_as_skipped() -> None:
    """Auto-Claude has no word for it, and waits forever for a phase with anything but completed."""
    state = begun(two_layers())
    state.apply(ev.TaskSkipped(task="L0-001"))
    files = auto_claude.write(view_of(state), {})
    plan = json.loads(files[0].content)
    run = auto_claude.read(files[0].path, {file.path: file.content for file in files})
    assert plan["phases"][0]["subtasks"][0]["status"] == "completed"
    assert claims_of(run)["L0-001"].standing is ClaimedStatus.SKIPPED


# --- writing what was adopted


def adopted(document: dict[str, Any], **others: Any) -> tuple[ForeignRun, RunState]:
    """Return an adopted run at its beginning."""
    run = reading(document, **others)
    return run, begun(run.plan)


def test_keys_and_words_that_nobody_knows_are_written_back() -> None:
    """An adopted plan goes back to its owner with everything that was in it."""
    document = plan_of(
        phase(1, sub("a", "not_started", mood="calm"), zone=7), lastEvent={"type": "X"}, status="backlog"
    )
    run, state = adopted(document)
    plan = written(auto_claude.write(view_of(state, run.name), run.documents))[PLAN]
    part = plan["phases"][0]["subtasks"][0]
    assert (plan["lastEvent"], plan["phases"][0]["zone"]) == ({"type": "X"}, 7)
    assert (part["mood"], part["status"]) == ("calm", "not_started")
    assert list(plan)[:3] == ["feature", "workflow_type", "phases"]


def test_what_landed_is_written_into_the_adopted_subtask() -> None:
    """It is found again under whatever its id is called, in every list that holds it."""
    subtasks = [{"subtask_id": "1.1", "description": "x", "status": "not_started"}]
    run, state = adopted(plan_of({"phase_id": "p", "subtasks": subtasks, "chunks": subtasks}))
    landed(state, "1.1")
    plan = written(auto_claude.write(view_of(state, run.name), run.documents))[PLAN]
    assert plan["phases"][0]["subtasks"][0]["status"] == "completed"
    assert plan["phases"][0]["chunks"][0]["status"] == "completed"


def test_an_adopted_memory_keeps_its_entries_and_gains_ours() -> None:
    """History is added to, never rewritten."""
    old = {"session": 1, "approach": "x", "success": False, "error": "e", "model": "opus"}
    history = {"chunks": {"a": {"attempts": [old], "status": "failed"}}, "stuck_chunks": [], "seen": 1}
    run, state = adopted(plan_of(phase(1, sub("a", "failed"))), history=history)
    state.apply(ev.TaskInherited(task="a", attempts=1, spent=1))
    landed(state, "a")
    found = written(auto_claude.write(view_of(state, run.name), run.documents))[HISTORY]
    assert found["chunks"]["a"]["attempts"][0] == old
    assert [tried["success"] for tried in found["chunks"]["a"]["attempts"]] == [False, True]
    assert found["seen"] == 1


def test_a_spec_without_a_plan_gets_one() -> None:
    """The task that stood for the whole spec is written as its first phase."""
    run, state = adopted(plan_of())
    landed(state, "build")
    files = auto_claude.write(view_of(state, run.name), run.documents)
    plan = written(files)[PLAN]
    assert [part["status"] for part in plan["phases"][0]["subtasks"]] == ["completed"]


def test_progress_notes_go_on_below_what_was_noted_and_the_spec_is_left_alone() -> None:
    """Both were written by others."""
    documents = {
        PLAN: bytes_of(plan_of(phase(1, sub("a")))),
        f"{FOLDER}/spec.md": b"# Search",
        f"{FOLDER}/build-progress.txt": b"SESSION 1\n",
    }
    run = auto_claude.read(PLAN, documents)
    files = {f.path: f.content for f in auto_claude.write(view_of(begun(run.plan), run.name), documents)}
    assert f"{FOLDER}/spec.md" not in files
    assert files[f"{FOLDER}/build-progress.txt"].startswith(b"SESSION 1\n\n")
    assert b"Next subtask: a - Do a" in files[f"{FOLDER}/build-progress.txt"]


# --- the corpus


def naive_parts(document: Any) -> list[dict[str, Any]]:
    """List the subtasks of a real plan in the simplest way there is."""
    found: list[dict[str, Any]] = []
    for holder in [*document.get("phases", []), document]:
        found += holder.get("subtasks") or holder.get("chunks") or []
    return found


def naive_needs(document: Any) -> tuple[int, int]:
    """Count the dependencies that phases and subtasks of a real plan name."""
    phases = document.get("phases", [])
    return (
        sum(len(one.get("depends_on") or one.get("dependencies") or []) for one in phases),
        sum(len(one.get("depends_on") or one.get("dependencies") or []) for one in naive_parts(document)),
    )


def corpus(pattern: str) -> list[Path]:
    """Return real files, or skip."""
    files = sorted(CORPUS.glob(pattern))
    if not files:
        pytest.skip("the corpus is not here")
    return files


def adopt(path: Path) -> ForeignRun:
    """Return what is read of one real file."""
    data = path.read_bytes()
    assert auto_claude.recognises(path.name, data)
    run = auto_claude.read(path.name, {path.name: data})
    assert_sound(run)
    return run


def test_every_real_file_is_adopted() -> None:
    """Sixty files, of every version and kind, and none is refused."""
    assert len([adopt(path) for path in corpus("*.json")]) == 60


def test_every_real_subtask_has_its_task_and_its_status() -> None:
    """Counted against the simplest count there is."""
    words = {"completed": "done", "pending": "pending", "not_started": "pending", "in_progress": "running"}
    counted = 0
    for path in corpus("implementation-plan*.json"):
        parts = naive_parts(json.loads(path.read_bytes()))
        run = adopt(path)
        if parts:
            assert sorted(claim.standing.value for claim in run.claims) == sorted(
                words[part["status"]] for part in parts
            )
            assert sorted(claim.said for claim in run.claims) == sorted(part["status"] for part in parts)
        else:
            assert kinds(run) == ["no-plan"]
        counted += len(parts)
    assert counted == 668


def test_every_real_dependency_is_a_need_or_a_finding() -> None:
    """A plan that names its dependencies has just those; nothing is dropped in silence."""
    for path in corpus("implementation-plan*.json"):
        document = json.loads(path.read_bytes())
        run = adopt(path)
        of_phases, of_parts = naive_needs(document)
        dropped = sum(finding.kind in ("unknown-need", "unknown-stage", "cycle") for finding in run.findings)
        if of_phases:
            assert sum(len(stage.needs) for stage in run.plan.stages) + dropped >= of_phases
        if of_parts:
            assert sum(len(task.needs) for _, task in run.plan.tasks()) + dropped >= of_parts


def test_every_real_memory_entry_is_accounted_for() -> None:
    """Attempts and commits, alone and without the plan that they belong to."""
    for path in corpus("attempt-history*.json"):
        found = json.loads(path.read_bytes())
        entries = found.get("subtasks") or found.get("chunks")
        tried = {claim.native: claim.attempts for claim in adopt(path).claims}
        assert tried == {name: len(entry["attempts"]) for name, entry in entries.items()}
    for path in corpus("build-commits*.json"):
        commits = [one["hash"] for one in json.loads(path.read_bytes())["commits"]]
        assert [commit for claim in adopt(path).claims for commit in claim.commits] == commits


def test_every_real_plan_keeps_every_key_when_it_is_written_back() -> None:
    """Nothing but the head's times and words changes in a plan of which nothing was done."""
    for path in corpus("implementation-plan*.json"):
        run = adopt(path)
        state = begun(run.plan)
        document = json.loads(path.read_bytes())
        (plan,) = [
            found
            for name, found in written(auto_claude.write(view_of(state, run.name), run.documents)).items()
            if name.endswith("implementation_plan.json")
        ]
        assert document.keys() <= plan.keys()
        for before, after in zip(naive_parts(document), naive_parts(plan), strict=False):
            assert {**before, "status": ""} == {
                key: value for key, value in {**after, "status": ""}.items() if key != "holdfast"
            }
