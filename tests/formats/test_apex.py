"""APEX's files: read in any state, written as its document says, and read back."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.state import RunState
from holdfast.formats import apex
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import (
    SEVERAL_RESUME_POINTS,
    ClaimedStatus,
    ForeignRun,
    resume_from,
    resume_points,
)
from tests.formats import run_views as kit
from tests.formats.run_views import claims, kinds

HOME = ".claude/output/apex/01-add-auth"
STATE = f"{HOME}/state.json"
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "apex"
PASSED = ("init", "analyze", "plan", "execute")
TO_COME = ((5, "security"), (8, "run-tests"), ("8b", "e2e-chrome"), ("8c", "playwright"), (11, "finish"))


def state(**more: Any) -> dict[str, Any]:
    """Return a state that stopped while validating, as APEX's document shows one."""
    done = [
        {
            "number": n,
            "name": name,
            "status": "PASS",
            "output_file": f"0{n}-{name}.md",
            "summary": f"{name} done.",
        }
        for n, name in enumerate(PASSED)
    ]
    done[2]["acceptance_criteria"] = ["Answers 401 to bad tokens"]
    done[3]["files_changed"] = ["src/auth.ts"]
    return {
        "version": "1.0",
        "workflow": "apex",
        "task_id": "01-add-auth",
        "flags": {"auto": True, "tests": True},
        "task_description": "Add JWT auth",
        "current_phase": {"number": 4, "name": "validate", "status": "IN_PROGRESS", "attempt": 1},
        "completed_phases": done,
        "pending_phases": [
            {"number": 4, "name": "validate"},
            *({"number": n, "name": m} for n, m in TO_COME),
        ],
        "iteration_counts": {"validate": 0, "review": 0},
        "blockers": [],
        "files_changed_total": ["src/auth.ts"],
        "recovery_info": {
            "last_clean_state": "after-execute",
            "git_branch": "feat/auth",
            "git_last_commit": "abc1234",
            "can_resume_from": "validate",
        },
    } | more


def read(document: Any, main: str = STATE, **outputs: str) -> ForeignRun:
    """Return the run that a state and some outputs tell of, checked for what every reading must give."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    beside = {f"{HOME}/{name.replace('_', '-')}.md": text.encode() for name, text in outputs.items()}
    run = apex.read(main, {main: data, **beside})
    kit.assert_sound(run)
    return run


def test_each_phase_is_a_stage_with_one_task_in_the_order_of_its_number() -> None:
    """Phases mix integers and `8b`; the one under way, which is also listed as to come, is there once."""
    run = read(state())
    ids = [stage.id for stage in run.plan.stages]
    assert ids == ["0-init", "1-analyze", "2-plan", "3-execute", "4-validate", "5-security", "8-run-tests",
                   "8b-e2e-chrome", "8c-playwright", "11-finish"]  # fmt: skip
    assert [task.id for _, task in run.plan.tasks()] == ids
    assert [stage.needs for stage in run.plan.stages[:3]] == [(), ("0-init",), ("1-analyze",)]


def test_what_the_state_says_of_each_phase_is_claimed() -> None:
    """Status, summary, files; what is under way; where the work is and its last commit."""
    run = read(state())
    found = claims(run)
    assert (found["3-execute"].standing, found["3-execute"].files) == (ClaimedStatus.DONE, ("src/auth.ts",))
    assert found["1-analyze"].summary == "analyze done."
    assert (found["4-validate"].standing, found["4-validate"].attempts) == (ClaimedStatus.RUNNING, 1)
    assert found["11-finish"].standing is ClaimedStatus.PENDING
    assert (run.branches, run.commits) == (("feat/auth",), ("abc1234",))


def test_the_criteria_of_the_plan_reach_every_later_phase_and_looking_may_change_nothing() -> None:
    """What planning settled goes to the phases after it; only phases that write must change a file."""
    tasks = {task.id: task for _, task in read(state()).plan.tasks()}
    assert tasks["4-validate"].acceptance == ("Answers 401 to bad tokens",)
    assert tasks["1-analyze"].acceptance == ()
    assert (tasks["1-analyze"].allow_empty, tasks["3-execute"].allow_empty) == (True, False)


def test_a_failed_phase_keeps_its_attempts_and_its_error() -> None:
    """The error goes to the next attempt, and iterations that were used up stay used up."""
    failed = {"number": 4, "name": "validate", "status": "FAILED", "attempt": 3, "error": "tsc: 2 errors"}
    claim = claims(read(state(current_phase=failed, blockers=["tsc is old"])))["4-validate"]
    assert (claim.standing, claim.attempts, claim.spent) == (ClaimedStatus.FAILED, 3, 3)
    assert [failure.error for failure in claim.failures] == ["tsc: 2 errors"]


def test_iterations_count_as_attempts() -> None:
    """A phase that looped back twice has begun three times, even if `attempt` says less."""
    claim = claims(read(state(iteration_counts={"validate": 2})))["4-validate"]
    assert (claim.attempts, claim.spent) == (3, 2)


def test_contradictions_are_told() -> None:
    """Listed twice, an unknown word, a resume point that is not there, and an end that is none."""
    twice = state(pending_phases=[{"number": 3, "name": "execute"}], current_phase=None)
    assert "copies-differ" in kinds(read(twice), "3-execute")
    odd = {"number": 4, "name": "validate", "status": "pondering"}
    assert "unknown-status" in kinds(read(state(current_phase=odd)), "4-validate")
    lost = read(state(recovery_info={"can_resume_from": "deploy"}))
    assert "unknown-task" in kinds(lost)
    over = state(current_phase=None, pending_phases=[])
    over["completed_phases"][3]["status"] = "FAIL"
    assert "done-with-unfinished-parts" in kinds(read(over))


def test_a_finished_task_is_finished() -> None:
    """No phase under way, none to come, all passed."""
    run = read(state(current_phase=None, pending_phases=[]))
    assert run.finished
    assert not read(state()).finished


def test_a_broken_state_is_rebuilt_from_the_outputs_of_its_phases() -> None:
    """Each guess is reported: what the task was, which phases follow, where it stopped."""
    outputs = {
        "00-init": "# Status: PASS\n\n## Task\nAdd JWT auth\n\n## Phase Plan\n1. analyze\n2. plan\n3. execute\n4. finish\n",
        "01-analyze": "# Status: PASS\n\n## Summary\nFive routes.\n",
        "02-plan": "# Status: PASS\n",
    }
    run = read(b'{"version": "1.0", "compl', **outputs)
    assert [(claim.task, claim.standing.value) for claim in run.claims] == [
        ("0-init", "done"), ("1-analyze", "done"), ("2-plan", "done"), ("3-execute", "pending"),
        ("11-finish", "pending")]  # fmt: skip
    assert (run.plan.goal, claims(run)["1-analyze"].summary) == ("Add JWT auth", "Five routes.")
    assert "rebuilt" in kinds(run)
    assert SEVERAL_RESUME_POINTS not in kinds(run)


def test_a_state_cut_off_anywhere_gives_all_that_it_still_says() -> None:
    """Goal, flags and every whole entry are used, wherever the write was cut; only with nothing left is it an error."""
    flags = {"auto": True, "tests": False, "docs": False, "security": True}
    data = json.dumps(state(flags=flags)).encode()
    places = {name: data.index(f'"{name}": '.encode()) for name in ("task_description", "completed_phases")}
    goal_known = data.index(b'"Add JWT auth"') + len('"Add JWT auth"')
    flags_known = data.index(b'"docs": false,') + len('"docs": false,')
    ends = [data.index(f'"{name} done."'.encode()) for name in PASSED]
    for cut in range(1, len(data)):
        part = data[:cut]
        if cut < goal_known:
            with suppress(BrokenFileError):
                assert read(part, main=STATE).plan.goal != "Add JWT auth"
            continue
        run = read(part)
        assert run.plan.goal == "Add JWT auth", cut
        assert "rebuilt" in kinds(run)
        assert not any("says what the task was for" in one.sentence for one in run.findings), cut
        assert not any("which phases were wanted" in one.sentence for one in run.findings), cut
        names = {claim.native.partition("-")[2] for claim in run.claims}
        assert "docs" not in names or cut < flags_known, cut
        assert "security" in names
        done = [claim for claim in run.claims if claim.standing is ClaimedStatus.DONE]
        assert len(done) >= sum(part.find(b"}", end) > 0 for end in ends), cut
        assert len(done) <= len(PASSED), cut
        if cut > places["completed_phases"]:
            assert claims(run)["4-validate"].standing is ClaimedStatus.RUNNING, cut


def test_several_resume_points_are_listed_for_the_user_to_choose() -> None:
    """A phase that left nothing, and a last output that states no result: nobody but the user can know."""
    run = read(
        b"", **{"00-init": "# Status: PASS", "01-analyze": "# Status: PASS", "03-execute": "half a sent"}
    )
    assert list(resume_points(run)) == ["2-plan", "3-execute", "4-validate"]
    chosen = resume_from(run, "4-validate")
    standings = {claim.task: claim.standing for claim in chosen.claims}
    assert (standings["1-analyze"], standings["2-plan"]) == (ClaimedStatus.DONE, ClaimedStatus.SKIPPED)
    assert standings["4-validate"] is ClaimedStatus.PENDING
    assert SEVERAL_RESUME_POINTS not in kinds(chosen)


def test_a_missing_state_is_rebuilt_too() -> None:
    """The outputs alone are recognised, whichever of them is found first."""
    path = f"{HOME}/01-analyze.md"
    documents = {path: b"# Status: PASS", f"{HOME}/00-init.md": b"# Status: PASS\n## Task\nAdd auth\n"}
    assert apex.recognises(path, documents[path])
    run = apex.read(path, documents)
    kit.assert_sound(run)
    assert claims(run)["2-plan"].standing is ClaimedStatus.PENDING


def test_without_any_output_the_way_to_start_fresh_is_named() -> None:
    """Nothing to rebuild from is an error with a way out, and no guess."""
    with pytest.raises(BrokenFileError) as caught:
        read(b"{")
    assert "holdfast run --workflow apex" in caught.value.hint


def test_a_context_file_of_the_wider_family_is_read() -> None:
    """`✓ Complete`, `⏸ Pending`, `⏭ Skip`: the progress table is the state, each phase gets the request."""
    path = f"{HOME}/00-context.md"
    text = (
        "# APEX Task: 01-add-auth\n\n**Task:** Add auth\n\n## User Request\n\n```\nplease add auth\n```\n\n"
        "## Acceptance Criteria\n\n- [ ] AC1: 401\n\n## Progress\n\n| Step | Status | Timestamp |\n|---|---|---|\n"
        "| 00-init | ✓ Complete | t |\n| 01-analyze | ⏸ Pending | |\n| 05-examine | ⏭ Skip | |\n"
    )
    run = apex.read(path, {path: text.encode()})
    kit.assert_sound(run)
    assert [claim.standing.value for claim in run.claims] == ["done", "pending", "skipped"]
    task = run.plan.stages[1].tasks[0]
    assert "please add auth" in task.prompt
    assert task.acceptance == ("AC1: 401",)


def test_a_context_file_is_written_back_row_by_row() -> None:
    """Only the rows of phases that stand otherwise change."""
    path = f"{HOME}/00-context.md"
    text = (
        "# APEX Task: 01-x\n\n**Task:** Add auth\nmine: stays\n\n| Step | Status | Timestamp |\n|---|---|---|\n"
        "| 00-init | ✓ Complete | t |\n| 03-execute | ⏸ Pending | |\n| 09-finish | ⏸ Pending | |\n"
    )
    run = apex.read(path, {path: text.encode()})
    state_now = adopted(run, landed=("0-init", "3-execute"))
    written = apex.write(kit.view_of(state_now), run.documents)
    assert [file.path for file in written] == [path]
    expected = text.replace(
        "| 03-execute | ⏸ Pending | |", "| 03-execute | ✓ Complete | 2025-01-11T10:02:00Z |"
    )
    assert written[0].content.decode() == expected


BACKLOG = b"""project: notes
epics:
  - id: EP-1
    stories: [US-1, US-2, US-3]
stories:
  - id: US-1
    title: Register   # the first
    status: DONE
    acceptance_criteria:
      - {id: AC-1, description: With a password, status: DONE, verified_by: e2e-chrome}
      - {id: AC-2, description: With mail, status: TODO}
    files_touched: [src/register.py]
  - id: US-2
    title: Login
    description: As a user I want to log in
    status: TODO
    depends_on: [US-1]
    mine: kept
  - {id: US-3, title: Reset, status: BLOCKED, depends_on: [US-1, US-9], blocked_by: [no mail service]}
"""


def test_a_backlog_of_stories_is_read() -> None:
    """Stories are tasks that wait for each other; criteria, files and blockers come along."""
    run = apex.read("docs/backlog.yaml", {"docs/backlog.yaml": BACKLOG})
    kit.assert_sound(run)
    found = claims(run)
    assert [found[name].standing.value for name in ("US-1", "US-2", "US-3")] == ["done", "pending", "blocked"]
    tasks = {task.id: task for _, task in run.plan.tasks()}
    assert (tasks["US-2"].needs, tasks["US-1"].acceptance) == (("US-1",), ("With a password", "With mail"))
    assert {"done-with-unfinished-parts", "unknown-need", "blocker"} <= set(kinds(run))


def test_a_backlog_is_written_with_a_backup_and_only_statuses_change() -> None:
    """Comments, order and unknown keys are the user's: they stay byte for byte."""
    run = apex.read("docs/backlog.yaml", {"docs/backlog.yaml": BACKLOG})
    written = apex.write(kit.view_of(adopted(run, landed=("US-1", "US-2"))), run.documents)
    assert [file.path for file in written] == ["docs/backlog.yaml", "docs/backlog.yaml.bak"]
    assert written[1].content == BACKLOG
    expected = BACKLOG.replace(b"log in\n    status: TODO", b"log in\n    status: DONE")
    assert written[0].content == expected.replace(b"status: BLOCKED", b"status: TODO")


def adopted(run: ForeignRun, landed: tuple[str, ...] = ()) -> RunState:
    """Return a run of ours that carries on a foreign one: some of its tasks have landed."""
    state = kit.begun(run.plan)
    for task in landed:
        state.apply(ev.TaskLanded(task=task, attempt=0, commit=f"{task}-merge", head="head"))
    return state


def on_disk(files: list[NativeFile]) -> dict[str, bytes]:
    """Return what the files hold, links left out."""
    return {file.path: file.content for file in files if not (file.link or file.gone)}


def test_the_state_is_written_before_the_links_and_the_links_before_the_outputs() -> None:
    """A crash between any two leaves a state that can be resumed; links are relative."""
    run = kit.begun(kit.two_layers())
    kit.landed(run, "L0-001")
    files = apex.write(kit.view_of(run), {})
    home = ".claude/output/apex/notes"
    assert [file.path for file in files] == [
        f"{home}/state.json", ".claude/apex-state/notes.json", ".claude/apex-state/current.json",
        f"{home}/00-setup.md"]  # fmt: skip
    assert {file.link for file in files[1:3]} == {"../output/apex/notes/state.json"}


def test_the_state_has_every_part_of_the_document() -> None:
    """Flags, stack, current, completed and pending phases, iterations, blockers, files, recovery."""
    run = kit.begun(kit.two_layers())
    kit.landed(run, "L0-001")
    kit.next_stage(run, "0-setup", "1-backend")
    kit.failed(run, "L1-001")
    files = apex.write(kit.view_of(run, files={"L0-001": ("db/schema.sql",)}), {})
    written = json.loads(files[0].content)
    assert list(written)[: len(DOCUMENTED)] == DOCUMENTED
    assert written["completed_phases"][0]["files_changed"] == ["db/schema.sql"]
    current = written["current_phase"]
    assert (current["name"], current["status"], current["error"]) == ("backend", "FAILED", "2 tests fail")
    assert written["blockers"] == ["backend: 2 tests fail"]
    assert written["recovery_info"] == {
        "last_clean_state": "after-setup", "git_branch": "holdfast/01-notes", "git_last_commit": "L0-001-merge",
        "can_resume_from": "backend"}  # fmt: skip


DOCUMENTED = [
    "version", "workflow", "task_id", "project_name", "created_at", "updated_at", "flags", "task_description",
    "tech_stack", "current_phase", "completed_phases", "pending_phases", "iteration_counts", "blockers",
    "files_changed_total", "recovery_info",
]  # fmt: skip


def test_a_run_comes_back_as_it_went_out() -> None:
    """Tasks, needs, stages, standings, attempts, failures and commits survive export and adoption."""
    run = kit.begun(kit.two_layers())
    kit.failed(run, "L0-001")
    kit.landed(run, "L0-001")
    kit.next_stage(run, "0-setup", "1-backend")
    kit.failed(run, "L1-001")
    kit.started(run, "L1-002")
    documents = on_disk(apex.write(kit.view_of(run), {}))
    back = apex.read(".claude/output/apex/notes/state.json", documents)
    kit.assert_sound(back)
    assert back.plan.stages == run.plan.stages
    standings = [(claim.standing.value, claim.attempts, claim.spent) for claim in back.claims]
    assert standings == [("done", 2, 1), ("failed", 1, 1), ("running", 1, 0)]
    assert back.claims[0].commits == ("L0-001-merge",)
    assert [failure.feedback for failure in back.claims[1].failures] == ["expected 201, got 422"]


def test_a_run_with_apexs_own_phases_needs_no_notes_to_be_read_again() -> None:
    """Numbers and names alone give the stages and tasks back: a state of ours is a state of APEX's."""
    run = read(state())
    view = kit.view_of(adopted(run), name=run.name)
    written = json.loads(apex.write(view, {})[0].content)
    assert [phase["number"] for phase in written["pending_phases"]][-3:] == ["8b", "8c", 11]
    assert "holdfast" not in written["pending_phases"][0]


def test_keys_that_nobody_knows_are_written_back() -> None:
    """At the top, in a phase that is done, in the one under way and in one to come."""
    document = state(team={"lead": "ana"})
    for place in (document["completed_phases"][1], document["current_phase"], document["pending_phases"][2]):
        place["mood"] = "good"
    run = read(document)
    view = kit.view_of(adopted(run, ("0-init", "1-analyze", "2-plan", "3-execute")), name=run.name)
    written = json.loads(apex.write(view, run.documents)[0].content)
    assert (written["team"], written["flags"]) == ({"lead": "ana"}, document["flags"])
    assert written["completed_phases"][1]["mood"] == "good"
    assert (written["current_phase"]["mood"], written["pending_phases"][2]["mood"]) == ("good", "good")


def test_a_phase_that_was_finished_over_there_keeps_its_entry() -> None:
    """Its word, times and summary were APEX's to write; an output that exists is not written over."""
    document = state()
    document["completed_phases"][1]["status"] = "WARN"
    run = read(document, **{"01-analyze": "theirs"})
    files = apex.write(kit.view_of(adopted(run, ("0-init", "1-analyze")), name=run.name), run.documents)
    entry = json.loads(files[0].content)["completed_phases"][1]
    assert {key: said for key, said in entry.items() if key != "holdfast"} == document["completed_phases"][1]
    assert f"{HOME}/01-analyze.md" not in [file.path for file in files]


def test_a_completed_run_has_no_phase_under_way_and_nothing_to_resume() -> None:
    """That is how APEX knows the end."""
    plan = Plan(goal="One", stages=(Stage(id="0-init", tasks=(Task(id="0-init", prompt="x"),)),))
    run = kit.begun(plan)
    kit.landed(run, "0-init")
    for event in (ev.StageClosing(stage="0-init"), ev.StageClosed(stage="0-init"), ev.RunCompleted()):
        run.apply(event)
    written = json.loads(apex.write(kit.view_of(run), {})[0].content)
    assert (written["current_phase"], written["recovery_info"]["can_resume_from"]) == (None, None)
    assert written["summary"] == "1/1 phases completed."
    assert apex.read(STATE, {STATE: json.dumps(written).encode()}).finished


def test_a_name_from_a_file_cannot_lead_out_of_its_folder() -> None:
    """A task id or an output file that is a path upwards becomes a plain name."""
    document = state(task_id="../../etc")
    document["completed_phases"][0]["output_file"] = "../../../evil.md"
    run = read(document, main=".claude/apex-state/current.json")
    files = apex.write(kit.view_of(adopted(run, ("0-init",)), name=run.name), run.documents)
    assert all(".." not in file.path and file.path.startswith(".claude/") for file in files)


def test_the_state_of_a_new_project_stays_where_apex_init_keeps_it() -> None:
    """`docs/apex-init/state.json`, with links from the usual folder."""
    main = "docs/apex-init/state.json"
    run = read(state(workflow="apex-init", project_name="My App"), main=main)
    files = apex.write(kit.view_of(adopted(run), name=run.name), run.documents)
    assert [file.path for file in files[:3]] == [
        main, ".claude/apex-state/init-my-app.json", ".claude/apex-state/current.json"]  # fmt: skip
    assert files[1].link == "../../docs/apex-init/state.json"


def test_every_task_of_a_project_is_listed_with_its_last_phase() -> None:
    """As `/apex -r --list` shows them: complete, in progress, failed; what can be resumed is marked."""
    over = state(
        task_id="01-add-auth", current_phase=None, pending_phases=[], updated_at="2025-02-05T10:30:00Z"
    )
    going = state(task_id="02-fix-search", updated_at="2025-02-05T14:22:00Z")
    failed = {"number": 3, "name": "execute", "status": "FAILED"}
    broken = state(
        task_id="03-profiles", current_phase=failed, completed_phases=[], updated_at="2025-02-05T16:45:00Z"
    )
    documents = {
        f".claude/output/apex/{each['task_id']}/state.json": json.dumps(each).encode()
        for each in (broken, over, going)
    }
    documents[".claude/output/apex/04-x/state.json"] = b"{"
    assert apex.list_runs(documents).split("\n") == [
        "Task ID        Status       Last Phase  Updated",
        "01-add-auth    COMPLETE     execute     2025-02-05 10:30",
        "02-fix-search  IN_PROGRESS  validate    2025-02-05 14:22  ← resumable",
        "03-profiles    FAILED       execute     2025-02-05 16:45  ← resumable",
        "04-x           UNREADABLE                                 ← resumable",
    ]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real files is not beside this checkout")
def test_every_real_file_is_read_with_every_row_accounted_for() -> None:
    """Each row of each progress table is a task with its status."""
    for path in sorted(CORPUS.iterdir()):
        data = path.read_bytes()
        assert apex.recognises(path.name, data)
        run = apex.read(path.name, {path.name: data})
        kit.assert_sound(run)
        rows = [line for line in data.decode().splitlines() if line.startswith("| 0")]
        said = [line.split("|")[2].strip() for line in rows]
        assert [claim.said for claim in run.claims] == said
