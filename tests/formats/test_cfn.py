"""CFN Loop: epics without a common schema, records of Redis, reports and swarms are read; the export is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.plan import Limits, Plan, Stage, Task, Validator
from holdfast.core.projection import Report
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.formats import cfn
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ClaimedStatus, ForeignRun
from tests.formats.run_views import assert_sound, begun, claims, failed, kinds, landed, started, view_of

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "cfn"
EXPORT = ".cfn/recovery/notes.json"


def _bytes(document: Any) -> bytes:
    return json.dumps(document).encode()


def _read(document: Any, path: str = "epic.json", **others: Any) -> ForeignRun:
    documents = {path: _bytes(document), **{f"{name}.json": _bytes(other) for name, other in others.items()}}
    run = cfn.read(path, documents)
    assert_sound(run)
    return run


def _task(run: ForeignRun, name: str) -> Task:
    return next(task for _, task in run.plan.tasks() if task.id == name)


def _needs(run: ForeignRun) -> dict[str, tuple[str, ...]]:
    return {task.id: task.needs for _, task in run.plan.tasks()}


SPRINTS = [{"id": "a", "name": "First"}, {"id": "b", "name": "Second", "dependencies": ["a"]}]


@pytest.mark.parametrize(
    "epic",
    [
        {"epicId": "notes", "sprints": SPRINTS},
        {"epic_id": "notes", "sprints": [{"sprint_id": "a"}, {"sprint_id": "b", "dependencies": ["a"]}]},
        {"epic": {"id": "notes", "sprints": SPRINTS}},
        {"epic": {"id": "notes"}, "phases": [{"id": "p", "sprints": [{"sprintId": "a"}, {"sprintId": "b", "depends_on": ["a"]}]}]},
        {"epic_id": "notes", "sprints": {"a": {}, "b": {"dependencies": ["a"]}}},
    ],
)  # fmt: skip
def test_every_shape_of_an_epic_is_read(epic: dict[str, Any]) -> None:
    """Real epic files have no common schema; each names its sprints and what they wait for."""
    run = _read(epic)
    assert run.name == "notes"
    assert _needs(run) == {"a": (), "b": ("a",)}


def test_sprints_without_phases_lie_in_dependency_levels_that_hold_nobody_back() -> None:
    """A sprint starts as soon as its own dependencies allow, also if others of its level still wait."""
    run = _read({"epicId": "notes", "sprints": [*SPRINTS, {"id": "c"}]})
    assert [(stage.id, stage.needs) for stage in run.plan.stages] == [("level-1", ()), ("level-2", ())]


@pytest.mark.parametrize(
    "wait",
    [
        ["sprint-1.3"],
        ["phase-1/sprint-1.3"],
        ["Sprint 1.3: Login"],
        ["Login"],
        [{"sprint": "sprint-1.3"}],
        {"sprints": ["sprint-1.3"]},
        {"sprint-1.3": "its tokens"},
        "sprint-1.3",
    ],
)
def test_a_dependency_is_understood_however_it_is_written(wait: Any) -> None:
    """Names, paths, sentences, objects and groups all mean the same sprint."""
    sprints = [{"id": "sprint-1.3", "name": "Login"}, {"id": "sprint-2.1", "dependencies": wait}]
    run = _read({"epicId": "notes", "sprints": sprints})
    assert _needs(run)["sprint-2.1"] == ("sprint-1.3",)
    assert "unknown-need" not in set(kinds(run))


def test_a_dependency_on_a_phase_waits_for_all_of_it() -> None:
    """A phase is its sprints."""
    phases = [
        {"phaseId": "one", "sprints": SPRINTS},
        {"phaseId": "two", "sprints": [{"id": "c", "dependencies": ["one"]}]},
    ]
    assert _needs(_read({"epicId": "notes", "phases": phases}))["c"] == ("a", "b")


@pytest.mark.parametrize(
    "wait",
    [
        {"interfaceDependencies": ["a"]},
        {"dependencies": [{"sprint": "a", "type": "interface"}]},
        {"dependencies": [{"sprintId": "a", "interface": "AuthAPI"}]},
        {"dependencies": {"interfaces": ["a"]}},
    ],
)
def test_a_sprint_that_waits_for_an_interface_may_start_when_it_is_ready(wait: Any) -> None:
    """It need not wait until the whole sprint has landed."""
    task = _task(_read({"epicId": "notes", "sprints": [{"id": "a"}, {"id": "b", **wait}]}), "b")
    assert (task.needs, task.needs_interface) == ((), ("a",))


def test_of_two_names_for_the_needs_of_a_phase_the_usual_one_counts() -> None:
    """The same file gives the same plan at every start."""
    sprints = {name: [{"id": name}] for name in "abc"}
    phases = [{"id": name, "sprints": sprints[name], "dependencies": []} for name in "ab"]
    phases.append({"id": "c", "sprints": sprints["c"], "dependencies": ["a"], "depends_on": ["b"]})
    run = _read({"epicId": "notes", "phases": phases})
    assert {stage.id: stage.needs for stage in run.plan.stages}["c"] == ("a",)


def test_what_no_sprint_provides_is_told() -> None:
    """An unknown dependency and what the epic takes for granted are named, and nobody waits for them."""
    epic = {
        "epicId": "notes",
        "dependencies": {"infrastructure": ["Redis"]},
        "sprints": [{"id": "a", "dependencies": ["ghost"]}],
    }
    run = _read(epic)
    assert _needs(run) == {"a": ()}
    assert set(kinds(run)) == {"unknown-need", "prerequisite"}


def test_validators_gates_tests_and_deliverables_become_those_of_the_task() -> None:
    """Implementation, then tests in the shared slot, then validators with a confidence gate."""
    sprint = {
        "id": "a",
        "goal": "Write the API",
        "tasks": ["Routes", {"title": "Errors", "description": "with codes"}],
        "deliverables": ["src/api.py", "A review of the API"],
        "acceptanceCriteria": ["POST answers 201"],
        "testCommand": "pytest -q",
        "implementers": ["coder"],
        "validators": ["reviewer", {"role": "security", "focus": "Look for injections"}],
        "confidenceThreshold": 90,
    }
    run = _read({"epicId": "notes", "sprints": [sprint]})
    task = _task(run, "a")
    assert (task.files, task.acceptance, task.verify) == (
        ("src/api.py",),
        ("POST answers 201",),
        ("pytest -q",),
    )
    assert (task.slot, run.plan.slots, task.gate) == ("tests", {"tests": 1}, 0.9)
    assert [(validator.id, validator.prompt) for validator in task.validators] == [("reviewer", "Judge the work on a as its reviewer."), ("security", "Look for injections")]  # fmt: skip
    assert all(
        part in task.prompt for part in ("Write the API", "Routes", "Errors: with codes", "A review", "coder")
    )


RECORDS: dict[str, Any] = {
    "epic:shop:state": {
        "epicId": "shop",
        "name": "E-commerce",
        "status": "in_progress",
        "totalSprints": 3,
        "completedSprints": 1,
        "sprints": [
            {"id": "auth", "status": "completed", "progress": 100},
            {"id": "catalog", "status": "in_progress", "progress": 80},
            {"id": "admin", "status": "waiting", "progress": 0},
        ],
        "dependencies": {"admin": ["auth"]},
    },
    "sprint:catalog:state": {
        "sprintId": "catalog",
        "epicId": "shop",
        "status": "in_progress",
        "progress": 80,
        "filesWritten": [{"path": "src/list.ts", "completed": True, "confidence": 0.88}],
        "filesInProgress": [
            {
                "path": "src/catalog.ts",
                "completed": False,
                "lastCompletedSection": "searchProducts",
                "nextSection": "filterProducts",
                "currentLine": 245,
                "confidence": 0.82,
            }
        ],
        "confidence": {"loop3": 0.82, "loop2": None},
    },
    "agent:coder-1:state": {
        "agentId": "coder-1",
        "sprintId": "catalog",
        "fileBeingEdited": "src/old.ts",
        "lineNumber": 1,
    },
    "interface:auth:ready": {"interface": "AuthAPI", "routes": ["POST /auth/login"]},
    "heartbeat:coder-1": "2025-10-10T20:45:35Z",
}


@pytest.mark.parametrize("as_text", [False, True])
def test_a_dump_of_the_documented_keys_is_read_whole(as_text: bool) -> None:
    """Progress, files, sections, line and confidence arrive, whether records are objects or text as Redis gives them."""
    dump = {
        key: json.dumps(value) if as_text and isinstance(value, dict) else value
        for key, value in RECORDS.items()
    }
    run = _read(dump)
    claim = claims(run)["catalog"]
    assert (claim.standing, claim.files) == (ClaimedStatus.RUNNING, ("src/list.ts",))
    assert claim.report == Report(
        progress=80.0,
        file="src/catalog.ts",
        line=245,
        section_done="searchProducts",
        section_next="filterProducts",
        confidence=0.82,
    )
    assert claim.branch == "epic-shop/catalog-wip"


def test_a_ready_interface_goes_to_those_who_wait_for_it() -> None:
    """The contract is in the prompt, and the interface is enough to start."""
    task = _task(_read(RECORDS), "admin")
    assert (task.needs, task.needs_interface) == ((), ("auth",))
    assert "POST /auth/login" in task.prompt


def test_what_agents_worked_on_is_in_the_prompt_of_their_sprint() -> None:
    """The records have no description: a new agent would get the bare name of the sprint."""
    sprint = {
        **RECORDS["sprint:catalog:state"],
        "agents": [{"id": "coder-1", "task": "Filter products"}, {"id": "t"}],
    }
    agent = {**RECORDS["agent:coder-1:state"], "currentTask": "Write the catalog"}
    prompt = _task(
        _read({**RECORDS, "sprint:catalog:state": sprint, "agent:coder-1:state": agent}), "catalog"
    ).prompt
    assert prompt == "catalog\n\nWhat its agents worked on:\n- Filter products\n- Write the catalog"
    assert _task(_read(RECORDS), "catalog").prompt == "catalog"


def test_an_agents_record_tells_what_its_sprint_leaves_open() -> None:
    """The file, the line and the next part of the work are found in whichever record has them."""
    agent = {
        "agentId": "coder-1",
        "sprintId": "catalog",
        "fileBeingEdited": "src/catalog.ts",
        "lineNumber": 127,
        "taskProgress": {
            "subtasksCompleted": ["signature", "input"],
            "subtasksRemaining": ["logic", "errors"],
        },
        "confidenceScore": 0.82,
    }
    run = _read({"epic:shop:state": RECORDS["epic:shop:state"], "agent:coder-1:state": agent})
    report = claims(run)["catalog"].report
    assert report is not None
    assert (report.file, report.line, report.section_done, report.section_next) == (
        "src/catalog.ts",
        127,
        "input",
        "logic",
    )


def test_the_documented_recovery_export_is_read() -> None:
    """`crash-state.json` as the document shows it, with the last checkpoint of each sprint."""
    export = {
        "epic": {"id": "epic-shop", "status": "interrupted", "crashTime": "2025-10-10T20:45:37Z", "lastCheckpoint": "x"},
        "sprints": [
            {
                "id": "sprint-2",
                "status": "in_progress",
                "progress": 80,
                "filesCompleted": ["src/list.ts"],
                "filesInProgress": ["src/catalog.ts"],
                "lastCheckpoint": {"file": "src/catalog.ts", "function": "searchProducts", "line": 245, "confidence": 0.82},
            }
        ],
    }  # fmt: skip
    claim = claims(_read(export))["sprint-2"]
    assert claim.report == Report(
        progress=80.0, file="src/catalog.ts", line=245, section_done="searchProducts", confidence=0.82
    )
    assert (claim.files, claim.branch) == (("src/list.ts",), "epic-shop/sprint-2-wip")


def test_a_sprint_that_only_a_record_knows_is_added() -> None:
    """Nothing that was worked on is lost because a list forgot it."""
    run = _read(
        {**RECORDS, "sprint:search:state": {"sprintId": "search", "epicId": "shop", "status": "failed"}}
    )
    assert claims(run)["search"].standing is ClaimedStatus.FAILED
    assert "unlisted-sprint" in set(kinds(run))


def test_records_of_another_epic_are_left_out_and_told() -> None:
    """One run is one epic: the first that is not over."""
    other = {"epicId": "old", "status": "completed", "sprints": [{"id": "x", "status": "completed"}]}
    run = _read({"epic:old:state": other, **RECORDS})
    assert (run.name, "x" in _needs(run)) == ("shop", False)
    assert "other-epics" in set(kinds(run))


def test_a_broken_record_loses_only_itself() -> None:
    """One truncated value among many good ones is named and passed over."""
    run = _read({**RECORDS, "sprint:catalog:files": '{"filesWritten": [{"path"'})
    assert "unreadable" in set(kinds(run))
    assert claims(run)["catalog"].report is not None


def test_an_epic_that_is_done_with_unfinished_sprints_is_told() -> None:
    """Its status and its counters are not believed over its sprints."""
    epic = {
        "epicId": "notes",
        "status": "completed",
        "totalSprints": 3,
        "sprints": [{"id": "a", "status": "done"}, {"id": "b", "status": "odd"}],
    }
    assert set(kinds(_read(epic))) == {
        "done-with-unfinished-parts",
        "counters-differ",
        "unknown-status",
    }


def test_a_validation_below_its_threshold_is_a_failure_with_feedback() -> None:
    """The next attempt at the sprint gets the faults that the validators found."""
    report = {
        "validator": "reviewer-1",
        "epic": "notes",
        "sprint": "1.2 - Detection",
        "status": "BELOW_THRESHOLD",
        "consensus_score": 0.88,
        "consensus_threshold": 0.9,
        "major_issues": [{"description": "keys() blocks", "recommendation": "use SCAN"}],
    }
    run = _read(report)
    claim = claims(run)["1.2"]
    assert (claim.standing, claim.spent, _task(run, "1.2").gate) == (ClaimedStatus.FAILED, 1, 0.9)
    assert claim.failures[0].feedback == "- keys() blocks → use SCAN"


def test_reports_beside_an_epic_tell_how_far_it_is() -> None:
    """A report on a sprint of this epic counts; one on another epic's sprint of the same name does not."""
    epic = {"epicId": "notes", "name": "The Notes", "sprints": [{"id": "sprint-1.1"}, {"id": "sprint-1.2"}]}
    done = {
        "agent": "x",
        "epic": "The Notes",
        "sprint": "1.1",
        "status": "COMPLETED",
        "files_modified": ["a.py"],
    }
    run = _read(epic, first=done, second={**done, "epic": "Another", "sprint": "1.2"})
    assert [claim.standing for claim in run.claims] == [ClaimedStatus.DONE, ClaimedStatus.PENDING]
    assert run.claims[0].files == ("a.py",)


def test_every_documented_status_is_known() -> None:
    """A sprint that was starting has begun; one that waits has not."""
    words = ("completed", "in_progress", "starting", "waiting")
    run = _read(
        {"epicId": "notes", "sprints": [{"id": word, "status": word, "commit": "abc"} for word in words]}
    )
    assert [claim.standing.value for claim in run.claims] == ["done", "running", "running", "pending"]
    assert run.findings == ()


def test_a_swarm_and_a_wave_of_older_releases_are_read() -> None:
    """Their tasks and phases, and their containers, are work like any other."""
    swarm = {
        "swarmId": "swarm_1",
        "metadata": {"status": "paused"},
        "objective": {"description": "Build it"},
        "tasks": {"task_a": {"status": "completed", "title": "A"}, "task_b": {"status": "in_progress", "title": "B", "dependencies": ["task_a"]}},
        "phases": {"phase_1": {"id": "phase_1", "name": "All", "tasks": ["task_a", "task_b"]}},
    }  # fmt: skip
    assert _needs(_read(swarm)) == {"task_a": (), "task_b": ("task_a",)}
    waves = {
        f"cfn:wave:checkpoint:t1:{n}": {
            "task_id": "t1",
            "wave_number": n,
            "container_ids": ["c"],
            "status": "running",
        }
        for n in (1, 2)
    }
    assert _needs(_read(waves)) == {"t1-wave-1": (), "t1-wave-2": ("t1-wave-1",)}


def test_a_schema_is_refused_with_what_it_is() -> None:
    """It describes state and holds none."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Redis Swarm State Schema",
        "properties": {"swarmId": {}},
    }
    assert cfn.recognises("swarm-state-schema.json", _bytes(schema))
    with pytest.raises(BrokenFileError, match="JSON Schema"):
        cfn.read("swarm-state-schema.json", {"swarm-state-schema.json": _bytes(schema)})


def test_a_broken_export_beside_its_epic_is_told_and_the_epic_is_used() -> None:
    """What could be saved is saved."""
    documents = {
        EXPORT: b'{"version": 1, "rec',
        "planning/epic.json": _bytes({"epicId": "notes", "sprints": SPRINTS}),
    }
    run = cfn.read(EXPORT, documents)
    assert (run.main, len(run.claims)) == ("planning/epic.json", 2)
    assert "unreadable" in set(kinds(run))


def test_files_of_others_are_not_recognised() -> None:
    """A package, a board with sprints of another kind, a plain list."""
    others: tuple[dict[str, Any], ...] = (
        {"name": "x", "dependencies": {"left-pad": "1"}},
        {"phases": [{"id": 1}]},
        {"tasks": []},
    )
    for other in others:
        assert not cfn.recognises("package.json", _bytes(other))


def _plan() -> Plan:
    reviewer = Validator(id="reviewer", prompt="Is it right?")
    auth = Task(
        id="auth",
        title="Auth",
        prompt="Write auth",
        files=("src/auth.ts",),
        verify=("npm test",),
        slot="tests",
    )
    shop = Task(
        id="shop",
        title="Shop",
        prompt="Write the shop",
        needs_interface=("auth",),
        validators=(reviewer,),
        gate=0.9,
    )
    admin = Task(
        id="admin", title="Admin", prompt="Write admin", needs=("auth",), acceptance=("It lists users",)
    )
    stage = Stage(id="build", title="Build", tasks=(auth, shop, admin))
    return Plan(goal="Notes", limits=Limits(jobs=5), slots={"tests": 1}, stages=(stage,))


def _midway() -> RunState:
    """Return a run with a landed sprint, one at work that reported, and one that failed."""
    state = begun(_plan())
    number = started(state, "auth")
    state.apply(ev.InterfacePublished(task="auth", attempt=number, name="AuthAPI", contract="POST /login"))
    state.apply(ev.AttemptDone(task="auth", attempt=number, token="t1", head="auth-head1", tree="t"))
    state.apply(ev.TaskVerified(task="auth", attempt=number))
    state.apply(ev.LandingStarted(task="auth", attempt=number))
    state.apply(ev.TaskLanded(task="auth", attempt=number, commit="auth-merge", head="auth-head1"))
    started(state, "shop")
    state.tasks["shop"].latest.report = Report(
        progress=80.0,
        file="src/shop.ts",
        line=245,
        section_done="search",
        section_next="filter",
        confidence=0.82,
    )
    failed(state, "admin")
    return state


def _written(originals: dict[str, bytes] | None = None) -> list[NativeFile]:
    return cfn.write(view_of(_midway(), files={"auth": ("src/auth.ts",)}), originals or {})


def test_the_export_holds_every_record_under_its_documented_key() -> None:
    """What a Redis store would serve: epic, sprints with their files, agents with their checkpoints, interfaces."""
    (export,) = _written()
    records = json.loads(export.content)["records"]
    assert export.path == EXPORT
    assert set(records) == {
        "epic:notes:state",
        *(f"sprint:{name}:{part}" for name in ("auth", "shop", "admin") for part in ("state", "files")),
        "interface:auth:ready",
        "agent:shop-coder-1:state",
        "agent:shop-coder-1:checkpoint",
    }
    assert records["epic:notes:state"]["sprints"][1] == {
        "id": "shop",
        "status": "in_progress",
        "progress": 80,
    }
    assert records["epic:notes:state"]["dependencies"] == {"shop": ["auth"], "admin": ["auth"]}
    assert "ttl" not in export.content.decode().casefold()


def test_a_sprints_record_tells_of_files_sections_line_and_confidence() -> None:
    """What an agent reported of its file is in the sprint's record as the document describes it."""
    records = json.loads(_written()[0].content)["records"]
    sprint = records["sprint:shop:state"]
    assert sprint["filesInProgress"] == [
        {
            "path": "src/shop.ts",
            "completed": False,
            "lastCompletedSection": "search",
            "nextSection": "filter",
            "currentLine": 245,
            "confidence": 0.82,
        }
    ]
    assert records["sprint:auth:files"]["filesWritten"][0]["path"] == "src/auth.ts"
    assert (sprint["phase"], sprint["confidence"]["loop3"]) == ("Loop 3 - Implementation", 0.82)
    assert records["interface:auth:ready"]["interfaces"] == [{"name": "AuthAPI", "contract": "POST /login"}]


def test_the_export_reads_for_people_as_documented() -> None:
    """The epic, its crash and each sprint's last checkpoint stand at the top."""
    export = json.loads(_written()[0].content)
    assert (export["epic"]["id"], export["epic"]["status"]) == ("notes", "interrupted")
    assert export["sprints"][1]["lastCheckpoint"] == {
        "file": "src/shop.ts",
        "function": "search",
        "line": 245,
        "confidence": 0.82,
    }
    assert export["exported_at"] == "2025-01-11T10:20:00Z"


def test_a_run_comes_back_from_its_export_as_it_was() -> None:
    """The same plan, standings, attempts, failures, commits and reports."""
    (export,) = _written()
    run = cfn.read(export.path, {export.path: export.content})
    assert_sound(run)
    assert run.plan == _plan()
    assert [claim.standing for claim in run.claims] == [
        ClaimedStatus.DONE,
        ClaimedStatus.RUNNING,
        ClaimedStatus.FAILED,
    ]
    assert [(claim.attempts, claim.spent) for claim in run.claims] == [(1, 0), (1, 0), (1, 1)]
    assert run.claims[0].commits == ("auth-head1", "auth-merge")
    assert (run.claims[2].failures[0].error, run.claims[2].failures[0].feedback) == (
        "2 tests fail",
        "expected 201, got 422",
    )
    assert run.claims[1].report is not None
    assert run.claims[1].report.line == 245
    assert run.findings == ()


def test_an_adopted_epic_file_keeps_what_we_do_not_know() -> None:
    """Its statuses are brought up to date; words that say the same, unknown keys and their order stay."""
    epic = {
        "owner": "us",
        "epicId": "notes",
        "status": "planning",
        "phases": [
            {
                "phaseId": "p",
                "status": "not_started",
                "sprints": [{"sprintId": "a", "status": "TODO", "mood": "good"}, {"sprintId": "b", "status": "percolating"}],
            }
        ],
    }  # fmt: skip
    path = "planning/epic.json"
    run = _read(epic, path)
    state = begun(run.plan)
    landed(state, "a")
    export, own = cfn.write(view_of(state), {path: _bytes(epic)})
    written = json.loads(own.content)
    assert (export.path, own.path, list(written)) == (EXPORT, path, list(epic))
    assert (written["status"], written["phases"][0]["status"]) == ("in_progress", "in_progress")
    assert written["phases"][0]["sprints"] == [{"sprintId": "a", "status": "completed", "mood": "good"}, {"sprintId": "b", "status": "percolating"}]  # fmt: skip


def test_an_adopted_dump_keeps_its_shape_and_its_unknown_keys() -> None:
    """Keys stay at the top, text stays text, fields and keys of others stay."""
    dump = {key: json.dumps(value) for key, value in RECORDS.items() if key.startswith("sprint:")} | {
        "epic:shop:state": {**RECORDS["epic:shop:state"], "mood": "good"},
        "heartbeat:coder-1": "x",
    }
    path = "backup/redis.json"
    run = _read(dump, path)
    state = begun(run.plan)
    landed(state, "catalog")
    (file,) = cfn.write(view_of(state, name="shop"), {path: _bytes(dump)})
    written = json.loads(file.content)
    assert (file.path, written["heartbeat:coder-1"], written["epic:shop:state"]["mood"]) == (
        path,
        "x",
        "good",
    )
    assert json.loads(written["sprint:catalog:state"])["status"] == "completed"


def test_an_adopted_sprint_that_was_cut_short_keeps_how_far_it_got() -> None:
    """A mirror of a run that was only adopted says what the file said: the progress, the file, the line, its keys."""
    dump = json.loads(_bytes(RECORDS))
    dump["epic:shop:state"]["sprints"][1]["mood"] = "good"
    run = _read(dump)
    state = begun(run.plan)
    claim = claims(run)["catalog"]
    state.apply(ev.TaskInherited(task="catalog", attempts=1, spent=0, report=claim.report))
    state.row.status = RunStatus.PENDING
    written = json.loads(cfn.write(view_of(state, name="shop"), {"epic.json": _bytes(dump)})[0].content)
    row = written["epic:shop:state"]["sprints"][1]
    assert row == {"id": "catalog", "status": "interrupted", "progress": 80, "mood": "good"}
    assert written["epic:shop:state"]["status"] == "in_progress"
    assert written["sprint:catalog:state"]["filesInProgress"][0]["currentLine"] == 245


def test_an_attempt_that_a_crash_cut_short_is_not_charged_after_a_round_trip() -> None:
    """CFN Loop has no word for it, so our extra fields say it."""
    state = begun(_plan())
    started(state, "auth")
    state.apply(ev.AttemptLost(task="auth", attempt=1))
    started(state, "auth")
    (export,) = cfn.write(view_of(state), {})
    claim = cfn.read(EXPORT, {EXPORT: export.content}).claims[0]
    assert (claim.standing, claim.attempts, claim.spent) == (ClaimedStatus.RUNNING, 2, 0)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_every_file_of_the_corpus_is_read_or_refused_by_name() -> None:
    """Every sprint, criterion, deliverable and dependency of real files is accounted for; the schema is named."""
    for path in sorted(CORPUS.glob("*.json")):
        assert cfn.recognises(path.name, path.read_bytes())
        if "schema" in path.name:
            continue
        run = cfn.read(path.name, {path.name: path.read_bytes()})
        assert_sound(run)
        _account(json.loads(path.read_bytes()), run)


def _account(document: dict[str, Any], run: ForeignRun) -> None:
    sprints = [sprint for phase in document.get("phases", []) for sprint in phase["sprints"]]
    sprints += document.get("sprints", [])
    named = {sprint.get("sprintId") or sprint["id"]: sprint for sprint in sprints}
    if named:
        assert _needs(run) == {name: tuple(sprint["dependencies"]) for name, sprint in named.items()}
    else:
        assert len(run.claims) == len(document.get("phase_summary", [1]))
    for name, sprint in named.items():
        task = _task(run, name)
        parts = sprint.get("phases", [])
        assert set(task.acceptance) == {*sprint.get("acceptanceCriteria", []), *(c for p in parts for c in p["acceptance_criteria"])}  # fmt: skip
        assert set(task.files) == {path for part in parts for path in part["deliverables"]}
        assert all(line in task.prompt for part in parts for line in part["tasks"])


def test_an_epic_without_a_name_is_called_like_its_file() -> None:
    """Two such epics are told apart."""
    run = _read({"sprints": SPRINTS, "epic": {"status": "open"}}, path="docs/epics/billing.json")
    assert run.name == "billing"
