"""Execute: its states of three versions, its plans and its ledger are read and written, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.status import AttemptKind
from holdfast.formats import execute
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ClaimedStatus, ForeignRun, PastFailure
from tests.formats.run_views import (
    assert_sound,
    begun,
    claims,
    failed,
    kinds,
    landed,
    next_stage,
    started,
    two_layers,
    view_of,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "execute"
STATE = "docs/tasks/notes/execute-state.json"
FOLDER = "docs/tasks/notes"


def _bytes(document: Any) -> bytes:
    return json.dumps(document).encode()


def _read(state: Any, **others: Any) -> ForeignRun:
    """Read a state, and other documents of its folder by their names."""
    documents = {f"{FOLDER}/{name.replace('__', '.')}": _bytes(document) for name, document in others.items()}
    run = execute.read(STATE, {STATE: _bytes(state), **documents})
    assert_sound(run)
    return run


def _state(**tasks: Any) -> dict[str, Any]:
    """Return a small state of version 2."""
    return {
        "schema_version": "2.0",
        "prd_slug": "notes",
        "status": "in_progress",
        "tasks": tasks,
        "merge_queue": [],
    }


def _task(name: str, **entry: Any) -> dict[str, Any]:
    return {name.replace("_", "-"): entry}


def _json(files: list[NativeFile], name: str = "execute-state.json") -> dict[str, Any]:
    found = next(file for file in files if file.path.endswith(name))
    return dict(json.loads(found.content))


DOCUMENTED = _state() | {
    "project_path": "/home/user/notes",
    "tasks_path": "/home/user/notes/docs/tasks/notes",
    "current_layer": "2-backend",
    "layers": {"2-backend": {"status": "in_progress", "tasks_total": 3, "tasks_completed": 2, "tasks_failed": 0}},
    "tasks": {
        "L2-001": {"status": "completed", "attempts": 1, "commits": [{"hash": "abc1234", "type": "implementation", "attempt": 1}]},
        "L2-002": {
            "status": "completed",
            "attempts": 2,
            "commits": [{"hash": "def5678", "attempt": 1}, {"hash": "ccc9012", "type": "fix", "attempt": 2}],
            "errors": [{"attempt": 1, "message": "expected 201 got 422"}],
            "retry_feedback": [{"attempt": 2, "feedback": "Add min_length=1"}],
        },
        "L2-003": {"status": "in_progress", "attempts": 1, "worktree_path": "/home/user/notes/.worktrees/L2-003", "branch": "worktree-L2-003"},
    },
    "merge_queue": [{"task_id": "L2-003", "priority": 1, "status": "pending"}, {"task_id": "L2-004", "priority": 2, "status": "pending"}],
    "metrics": {"total_tasks": 3, "completed_tasks": 2},
}  # fmt: skip


def test_the_documented_state_is_read_whole() -> None:
    """Status, attempts, commits, errors with the feedback they led to, worktree and branch: all of it arrives."""
    run = _read(DOCUMENTED)
    assert [(claim.task, claim.standing, claim.attempts, claim.spent) for claim in run.claims] == [
        ("L2-001", ClaimedStatus.DONE, 1, 0),
        ("L2-002", ClaimedStatus.DONE, 2, 1),
        ("L2-003", ClaimedStatus.RUNNING, 1, 0),
    ]
    told = claims(run)["L2-002"]
    assert told.commits == ("def5678", "ccc9012")
    assert told.failures == (
        PastFailure(attempt=1, error="expected 201 got 422", feedback="Add min_length=1"),
    )
    assert claims(run)["L2-003"].branch == "worktree-L2-003"
    assert claims(run)["L2-003"].worktree.endswith(".worktrees/L2-003")


def test_a_queue_that_names_an_unknown_task_is_told() -> None:
    """Nobody can work on a name alone, and nobody may pass over it in silence."""
    run = _read(DOCUMENTED)
    assert [finding.kind for finding in run.findings] == ["unknown-task"]
    assert "L2-004" in run.findings[0].sentence


def test_a_state_without_any_plan_still_gives_prompts() -> None:
    """Whoever lost the plan can still carry on: the name and the feedback are the least there is to say."""
    prompts = {task.id: task.prompt for _, task in _read(DOCUMENTED).plan.tasks()}
    assert "L2-003 of notes" in prompts["L2-003"]
    assert "Add min_length=1" in prompts["L2-002"]


@pytest.mark.parametrize("as_list", [False, True])
def test_tasks_and_layers_may_be_objects_or_lists(as_list: bool) -> None:
    """States written by models come in both shapes."""
    tasks: dict[str, Any] = {
        "L0-001": {"status": "completed", "commits": ["abc4567"]},
        "L1-001": {"status": "failed", "attempts": 2},
    }
    layers: dict[str, Any] = {"0-setup": {"status": "completed"}, "1-backend": {"status": "in_progress"}}
    if as_list:
        run = _read(_state() | {"tasks": [{"id": k, **v} for k, v in tasks.items()], "layers": [{"id": k, **v} for k, v in layers.items()]})  # fmt: skip
    else:
        run = _read(_state() | {"tasks": tasks, "layers": layers})
    assert [(stage.id, task.id) for stage, task in run.plan.tasks()] == [
        ("0-setup", "L0-001"),
        ("1-backend", "L1-001"),
    ]
    assert claims(run)["L0-001"].commits == ("abc4567",)
    assert claims(run)["L1-001"].spent == 2


def test_tasks_that_only_layers_list_are_read_too() -> None:
    """Older states keep their tasks within the layers, or only name them there."""
    layers = [
        {"id": "0-setup", "tasks": [{"id": "a", "status": "completed", "commit": "abc"}]},
        {"id": "1-backend", "tasks": {"b": {"status": "failed", "attempts": 2}}},
    ]
    run = _read({"prd_slug": "notes", "layers": layers})
    assert [(stage.id, task.id) for stage, task in run.plan.tasks()] == [("0-setup", "a"), ("1-backend", "b")]
    assert [claim.standing for claim in run.claims] == [ClaimedStatus.DONE, ClaimedStatus.FAILED]
    named = _state(x={"status": "pending"}) | {"layers": {"3-frontend": {"tasks": ["x"]}, "4-end": {}}}
    assert [stage.id for stage, _ in _read(named).plan.tasks()] == ["3-frontend"]


def test_five_failures_are_abandoned_and_stay_so() -> None:
    """The budget outlives the crash: what used it up is not quietly tried five times more."""
    tasks = _task("L0_001", status="failed", attempts=5) | _task("L0_002", status="abandoned", attempts=5)
    run = _read(_state(**tasks))
    assert {claim.standing for claim in run.claims} == {ClaimedStatus.ABANDONED}
    assert [claim.spent for claim in run.claims] == [5, 5]
    assert "attempts-used-up" in set(kinds(run))


def test_a_wait_for_a_usage_limit_charges_no_attempt() -> None:
    """Version 3 says so: a limit stops the run, it is nobody's failure."""
    errors = [
        {"attempt": 1, "class": "limit", "message": "usage limit"},
        {"attempt": 2, "class": "code", "message": "x"},
    ]
    run = _read(_state(**_task("L0_001", status="failed", attempts=2, errors=errors)))
    assert (run.claims[0].attempts, run.claims[0].spent) == (2, 1)


def test_lists_at_the_root_stand_for_tasks_without_an_entry() -> None:
    """A state that keeps only names of what was done still says that it was done."""
    run = _read(
        _state() | {"completed": ["L0-001"], "failed": [{"task_id": "L0-002"}], "abandoned": ["L0-003"]}
    )
    assert [claim.standing for claim in run.claims] == [
        ClaimedStatus.DONE,
        ClaimedStatus.FAILED,
        ClaimedStatus.ABANDONED,
    ]


def test_contradictions_are_told_one_by_one() -> None:
    """Counters, lists, layers, metrics and paths that do not fit the tasks are named; the tasks' entries count."""
    state = _state(**_task("L0_001", status="failed", attempts=1), **_task("L0_002", status="completed")) | {
        "status": "completed",
        "tasks_path": "/elsewhere/tasks",
        "layers": {"0-setup": {"status": "completed", "tasks_total": 2, "tasks_completed": 2}},
        "completed": ["L0-001"],
        "metrics": {"tasks_total": 18, "tasks_completed": 23},
    }
    run = _read(state)
    assert set(kinds(run)) == {
        "copies-differ",
        "done-with-unfinished-parts",
        "counters-differ",
        "path-elsewhere",
    }
    assert claims(run)["L0-001"].standing is ClaimedStatus.FAILED


def test_a_word_that_nobody_knows_is_shown() -> None:
    """An unknown status is mapped by rule, and the user is told the word."""
    run = _read(_state(**_task("L0_001", status="percolating")))
    assert (run.claims[0].standing, run.claims[0].said) == (ClaimedStatus.PENDING, "percolating")
    assert "unknown-status" in set(kinds(run))


LEDGER = ".execute/notes/ledger.jsonl"
DERIVED = _state() | {
    "schema_version": "3.0",
    "derived_from": "ledger + git",
    "tasks": {"L0-001": {"status": "pending", "layer": "0-setup", "name": "Skeleton"}, "L0-002": {"status": "merged", "layer": "0-setup", "commit": "bbb2222"}},
    "layers": {"0-setup": {"total": 2, "merged": 1, "status": "in_progress"}},
    "missing_commits": ["L0-001"],
}  # fmt: skip


def test_in_version_three_the_ledger_is_the_record() -> None:
    """A line of the ledger was written after the merge; the state is derived and may be older."""
    line = _bytes(
        {
            "task_id": "L0-001",
            "commit": "aaa1111",
            "at": "2026-01-10T10:00:00Z",
            "attempts": 2,
            "verified": True,
        }
    )
    run = execute.read(STATE, {STATE: _bytes(DERIVED), LEDGER: line + b'\n{"task_id": "L0'})
    claim = claims(run)["L0-001"]
    assert (claim.standing, claim.commits, claim.attempts) == (ClaimedStatus.DONE, ("aaa1111",), 2)
    assert {"unreadable", "copies-differ", "not-in-ledger", "missing-commit"} <= set(kinds(run))


@pytest.mark.parametrize("name", ["task_id", "id", "task"])
def test_a_line_of_the_ledger_counts_under_every_name_of_its_task(name: str) -> None:
    """The line proves the merge when it is read, and is not written a second time."""
    originals = {STATE: _bytes(DERIVED), LEDGER: _bytes({name: "L0-001", "commit": "aaa1111"}) + b"\n"}
    run = execute.read(STATE, originals)
    assert "L0-001" not in [found.task for found in run.findings if found.kind == "not-in-ledger"]
    state = begun(run.plan)
    landed(state, "L0-001")
    written = {file.path: file.content for file in execute.write(view_of(state), originals)}
    assert len(written[LEDGER].splitlines()) == 1


def test_a_ledger_alone_tells_what_was_merged() -> None:
    """Its commits are there even if every other file is gone."""
    run = execute.read(LEDGER, {LEDGER: b'{"task_id": "L0-001", "commit": "aaa1111", "attempts": 1}\n'})
    assert (run.name, run.claims[0].standing, run.claims[0].commits) == (
        "notes",
        ClaimedStatus.DONE,
        ("aaa1111",),
    )


XML_TASK = """<task>
  <meta><id>L0-001</id><name>Create the model</name><layer>0-setup</layer></meta>
  <objective>Create the model of a note.</objective>
  <requirements><requirement id="1">A class `Note` in `app/note.py`</requirement></requirements>
  <files-to-create><file>app/note.py</file><file>/etc/passwd</file></files-to-create>
  <verification>
    <step>Run: `pytest tests/test_note.py -v` - all tests pass</step>
    <step>Check: `app/__init__.py` exports Note</step>
  </verification>
</task>"""
MARKDOWN_TASK = """# L0-002: Write the API

Answer 201.

## Files to create
- `app/api.py`

## Verification
```bash
pytest -q tests/test_api.py
```

## Acceptance criteria
- [ ] POST answers 201
"""


def test_task_files_give_prompt_title_deliverables_and_checks() -> None:
    """XML and Markdown alike; only what is to be run becomes a check, and no path leads out of the project."""
    manifest = {"prd": {"slug": "notes", "title": "A notebook"}, "task_inventory": [{"id": "L0-001", "layer": "0-setup"}, {"id": "L0-002", "layer": "0-setup"}]}  # fmt: skip
    documents = {
        f"{FOLDER}/manifest.json": _bytes(manifest),
        f"{FOLDER}/0-setup/L0-001-create-model.xml": XML_TASK.encode(),
        f"{FOLDER}/0-setup/L0-002.md": MARKDOWN_TASK.encode(),
    }
    run = execute.read(f"{FOLDER}/manifest.json", documents)
    model, api = run.plan.stages[0].tasks
    assert run.plan.goal == "A notebook"
    assert (model.title, model.files, model.verify) == (
        "Create the model",
        ("app/note.py",),
        ("pytest tests/test_note.py -v",),
    )
    assert model.prompt == XML_TASK
    assert (api.title, api.files, api.verify) == (
        "Write the API",
        ("app/api.py",),
        ("pytest -q tests/test_api.py",),
    )
    assert api.acceptance == ("POST answers 201",)


def test_a_graph_that_differs_from_the_tasks_is_told_and_both_are_kept() -> None:
    """A dependency too many costs time; one too few costs the work."""
    plan = {
        "layers": [{"id": "0-setup", "tasks": [{"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c", "depends_on": ["a"]}]}],
        "dependency_graph": {"b": ["a"], "c": ["b"]},
    }  # fmt: skip
    run = _read(_state(), layer_plan__json=plan)
    assert {task.id: task.needs for _, task in run.plan.tasks()} == {"a": (), "b": ("a",), "c": ("a", "b")}
    assert "needs-differ" in set(kinds(run))


def test_needs_that_cannot_be_met_are_dropped_and_told() -> None:
    """Unknown tasks, circles and later layers never make a plan that cannot run."""
    plan = {
        "layers": [
            {
                "id": "0",
                "tasks": [{"id": "a", "depends_on": ["b", "ghost"]}, {"id": "b", "depends_on": ["a"]}],
            },
            {"id": "1", "tasks": [{"id": "c"}]},
            {"id": "0b", "tasks": [{"id": "d", "depends_on": ["c"]}]},
        ]
    }
    run = _read(_state(), layer_plan__json=plan)
    assert {"unknown-need", "cycle", "moved"} <= set(kinds(run))
    assert {task.id: stage.id for stage, task in run.plan.tasks()}["d"] == "1"


def test_duplicate_and_missing_ids_are_tasks_of_their_own() -> None:
    """No task is lost because another has its name."""
    plan = {
        "layers": [
            {
                "id": "0",
                "tasks": [{"id": "a", "name": "One"}, {"id": "a", "name": "Two"}, {"description": "Three"}],
            }
        ]
    }
    run = _read(_state(), layer_plan__json=plan)
    assert [task.id for _, task in run.plan.tasks()] == ["a", "a-2", "task-3"]


def test_a_broken_state_beside_a_plan_is_told_and_the_plan_is_used() -> None:
    """What could be saved is saved: the tasks are known, and git will tell which are done."""
    plan = {"layers": [{"id": "0", "tasks": [{"id": "a"}]}]}
    run = execute.read(STATE, {STATE: b'{"prd_slug": "no', f"{FOLDER}/layer_plan.json": _bytes(plan)})
    assert [claim.task for claim in run.claims] == ["a"]
    assert "unreadable" in set(kinds(run))


def test_a_state_that_breaks_off_keeps_what_was_written_whole() -> None:
    """A crash while the file was written costs the last entries, not the attempts and commits of all the others."""
    whole = _bytes(
        {"prd_slug": "x", "tasks": {"a": {"status": "failed", "attempts": 3}, "b": {"status": "pending"}}}
    )
    run = execute.read(STATE, {STATE: whole[: whole.index(b'"pending"')]})
    assert [(claim.task, claim.attempts) for claim in run.claims] == [("a", 3)]
    assert "salvaged" in set(kinds(run))


def test_a_merge_conflict_in_a_state_is_never_half_taken() -> None:
    """What stands before the conflict is no whole of anything; a person chooses the side."""
    data = b'{"tasks": {"a": {"status": "failed"},\n<<<<<<< HEAD\n"b": {}}}\n=======\n}}\n>>>>>>> x\n'
    with pytest.raises(BrokenFileError, match="merge conflict"):
        execute.read(STATE, {STATE: data})


def test_a_broken_state_alone_is_a_typed_error() -> None:
    """The message says what is wrong with the file, the hint what to do."""
    with pytest.raises(BrokenFileError, match="breaks off") as caught:
        execute.read(STATE, {STATE: b'{"prd_slug": "no'})
    assert caught.value.hint


def test_files_are_recognised_by_content_and_by_name() -> None:
    """A state, a plan, a manifest, a ledger; a broken file with the right name is ours to complain about."""
    assert execute.recognises("anything.json", _bytes(DOCUMENTED))
    assert execute.recognises("layer_plan.json", b'{"layers": []}')
    assert execute.recognises("manifest.json", b'{"task_inventory": []}')
    assert execute.recognises(LEDGER, b"")
    assert execute.recognises(STATE, b"{")
    assert not execute.recognises("manifest.json", b'{"name": "web app", "icons": []}')
    assert not execute.recognises("package.json", b'{"tasks": {}}')


def test_the_folder_of_a_state_and_its_ledger_belong_together() -> None:
    """Whichever of the files is found first leads to the others."""
    assert f"{FOLDER}/*/L[0-9]*.xml" in execute.companions(STATE)
    assert LEDGER in execute.companions(STATE)
    assert STATE in execute.companions(LEDGER)


def _midway() -> list[NativeFile]:
    """Write a run that has a landing, a failed task with feedback and a task at work."""
    state = begun(two_layers())
    landed(state, "L0-001")
    next_stage(state, "0-setup", "1-backend")
    failed(state, "L1-001")
    started(state, "L1-002")
    return execute.write(view_of(state), {})


def test_a_written_state_has_everything_the_schema_names() -> None:
    """Layers with counters, tasks with commits, errors and feedback, the queue, and metrics under both names."""
    files = _midway()
    state = _json(files)
    assert [file.path for file in files] == [STATE, f"{FOLDER}/layer_plan.json"]
    assert (state["schema_version"], state["status"], state["current_layer"], state["current_batch"]) == ("2.0", "in_progress", "1-backend", 1)  # fmt: skip
    assert state["layers"]["1-backend"] | {"x": 0} == state["layers"]["1-backend"] | {"status": "in_progress", "tasks_total": 2, "tasks_completed": 0, "tasks_failed": 1, "x": 0}  # fmt: skip
    assert state["tasks"]["L0-001"]["merged_at"] == "2025-01-11T10:02:00Z"
    assert state["tasks"]["L1-001"]["retry_feedback"] == [{"attempt": 2, "feedback": "expected 201, got 422"}]
    assert state["merge_queue"][0] == {"task_id": "L0-001", "priority": 1, "status": "merged"}
    assert (state["metrics"]["total_tasks"], state["metrics"]["tasks_total"]) == (3, 3)
    assert (state["metrics"]["total_attempts"], state["metrics"]["elapsed_time_seconds"]) == (3, 1200)


def test_a_fix_is_told_from_an_implementation() -> None:
    """Each commit keeps its kind and its attempt."""
    state = begun(two_layers())
    failed(state, "L0-001")
    landed(state, "L0-001", AttemptKind.FIX)
    commits = _json(execute.write(view_of(state), {}))["tasks"]["L0-001"]["commits"]
    assert [(commit["type"], commit["attempt"]) for commit in commits] == [("implementation", 1), ("fix", 2)]


def test_a_run_comes_back_as_it_was_written() -> None:
    """Read after write: the same tasks, needs, standings, attempts, failures and commits, and nothing to complain of."""
    files = _midway()
    run = execute.read(files[0].path, {file.path: file.content for file in files})
    assert_sound(run)
    assert run.plan == two_layers()
    assert [claim.standing for claim in run.claims] == [
        ClaimedStatus.DONE,
        ClaimedStatus.FAILED,
        ClaimedStatus.RUNNING,
    ]
    assert [(claim.attempts, claim.spent) for claim in run.claims] == [(1, 0), (1, 1), (1, 0)]
    assert run.claims[1].failures == (
        PastFailure(attempt=1, error="2 tests fail", feedback="expected 201, got 422"),
    )
    assert run.claims[0].commits == ("L0-001-head1", "L0-001-merge")
    assert run.findings == ()


def test_what_execute_has_no_word_for_comes_back_too() -> None:
    """A command as the agent, a check that no rule takes for a command, an attempt that a crash cut short."""
    task = Task(id="L0-001", run=("make", "x"), verify=("[ -f x ]",), allow_empty=True)
    side = Stage(id="1-aside", entry=("make ready",), tasks=(Task(id="L1-001", prompt="Beside it"),))
    plan = Plan(goal="Notes", verify=("make check",), stages=(Stage(id="0-setup", tasks=(task,)), side))
    state = begun(plan)
    started(state, "L0-001")
    state.apply(ev.AttemptLost(task="L0-001", attempt=1))
    started(state, "L0-001")
    files = execute.write(view_of(state), {})
    run = execute.read(STATE, {file.path: file.content for file in files})
    assert run.plan == plan
    assert (run.claims[0].attempts, run.claims[0].spent) == (2, 0)


def _adopted(document: dict[str, Any]) -> tuple[ForeignRun, dict[str, bytes]]:
    originals = {STATE: _bytes(document)}
    return execute.read(STATE, originals), originals


def test_writing_an_adopted_run_keeps_what_we_do_not_know() -> None:
    """Unknown keys, words and entries of tasks that nothing happened to stay as they were."""
    document = DOCUMENTED | {
        "options": {"commit_prefix": "x"},
        "context_update": {"status": "pending"},
        "mystery": [1],
    }
    document["tasks"] = {**DOCUMENTED["tasks"], "L2-005": {"status": "percolating", "mood": "good"}}
    run, originals = _adopted(document)
    state = begun(run.plan)
    landed(state, "L2-003")
    written = _json(execute.write(view_of(state), originals))
    assert list(written)[: len(document)] == list(document)
    assert (written["mystery"], written["options"], written["context_update"]) == ([1], {"commit_prefix": "x"}, {"status": "pending"})  # fmt: skip
    assert written["tasks"]["L2-005"] == {"status": "percolating", "mood": "good"}
    assert written["tasks"]["L2-003"]["status"] == "completed"
    assert set(written["metrics"]) == {"total_tasks", "completed_tasks"}
    assert written["merge_queue"][1]["task_id"] == "L2-004"


def test_what_git_does_not_prove_is_written_as_still_to_be_done() -> None:
    """A mirror says what is true, also where the file it came from did not."""
    run, originals = _adopted(DOCUMENTED)
    written = _json(execute.write(view_of(begun(run.plan)), originals))
    assert written["tasks"]["L2-001"]["status"] == "pending"
    assert written["tasks"]["L2-001"]["commits"] == DOCUMENTED["tasks"]["L2-001"]["commits"]


def test_a_list_of_tasks_stays_a_list() -> None:
    """Whoever wrote lists reads lists."""
    document = _state() | {
        "tasks": [{"task_id": "a", "status": "pending", "x": 1}],
        "layers": [{"id": "tasks", "y": 2}],
    }
    run, originals = _adopted(document)
    state = begun(run.plan)
    landed(state, "a")
    written = _json(execute.write(view_of(state), originals))
    assert (written["tasks"][0]["status"], written["tasks"][0]["x"]) == ("completed", 1)
    assert (written["layers"][0]["y"], written["layers"][0]["tasks_completed"]) == (2, 1)


def test_version_three_gets_its_ledger_appended() -> None:
    """State first, then the record; lines that were there stay, each landing gets one line and no more."""
    line = _bytes({"task_id": "L0-002", "commit": "bbb2222", "attempts": 1})
    originals = {STATE: _bytes(DERIVED), LEDGER: line + b"\n"}
    run = execute.read(STATE, originals)
    state = begun(run.plan)
    landed(state, "L0-001")
    files = execute.write(view_of(state), originals)
    lines = [json.loads(each) for each in files[1].content.splitlines()]
    assert [file.path for file in files] == [STATE, LEDGER]
    assert [(each["task_id"], each["commit"]) for each in lines] == [
        ("L0-002", "bbb2222"),
        ("L0-001", "L0-001-merge"),
    ]
    assert _json(files)["tasks"]["L0-001"]["status"] == "merged"


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_every_file_of_the_corpus_is_read_with_nothing_left_over() -> None:
    """Every task, every layer and every dependency of a real plan is accounted for."""
    for path in sorted(CORPUS.glob("*.json")):
        document = json.loads(path.read_bytes())
        run = execute.read("layer_plan.json", {"layer_plan.json": path.read_bytes()})
        assert_sound(run)
        tasks = {task["id"]: task for layer in document["layers"] for task in layer["tasks"]}
        drawn = document["dependency_graph"]
        assert len(run.plan.stages) == len(document["layers"])
        assert {task.id: set(task.needs) for _, task in run.plan.tasks()} == {name: {*task["depends_on"], *drawn[name]} for name, task in tasks.items()}  # fmt: skip
        assert {task.id: set(task.files) for _, task in run.plan.tasks()} == {name: set(task["files"]) for name, task in tasks.items()}  # fmt: skip
