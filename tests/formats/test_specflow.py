"""SpecFlow's files: read in any state, written as its document says, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.plan import AgentSpec
from holdfast.core.state import RunState
from holdfast.formats import specflow
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ClaimedStatus, ForeignRun
from holdfast.formats.specflow.write import with_status
from tests.formats import run_views as kit
from tests.formats.run_views import claims, kinds

STATE = ".specflow/execution/SPEC-001-state.json"
SPEC = ".specflow/specs/SPEC-001.md"
CONTINUE = ".specflow/.continue-here"
STATE_MD = ".specflow/STATE.md"
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "specflow"
SPEC_TEXT = """---
id: SPEC-001
status: running
---

# Handlers of their own

## Task

Split the server into handlers.

## Acceptance Criteria

- [ ] Every handler has its file

### Task Groups

| Group | Tasks | Dependencies | Est. Context |
|-------|-------|--------------|--------------|
| G1 | Create `types.ts` | — | ~15% |
| G2 | Create a handler | G1 | ~20% |
| G3 | Create another | G1 | ~20% |
| G4 | Wire them | G2, G3 | ~25% |
"""


def result(status: str, *commits: str, **more: Any) -> dict[str, Any]:
    """Return the result of a group."""
    return {"status": status, "commits": list(commits), "files_created": [], "error": None, **more}


def state(**more: Any) -> dict[str, Any]:
    """Return a state in its second wave: one group running, one failed, one complete."""
    first = {"G1": result("complete", "abc1234", "def5678", files_created=["src/types.ts"])}
    second = {
        "G2": "running",
        "G3": result("failed", error="context limit"),
        "G4": result("complete", "aaa1111"),
    }
    return {
        "spec_id": "SPEC-001",
        "mode": "orchestrated",
        "started": "2026-01-23T14:30:00Z",
        "waves": [
            {"id": 1, "groups": ["G1"], "status": "complete", "results": first},
            {"id": 2, "groups": ["G2", "G3", "G4"], "status": "in_progress", "results": second},
            {"id": 3, "groups": ["G5"], "status": "pending"},
        ],
        "commits": ["abc1234", "def5678", "aaa1111"],
        "last_checkpoint": "2026-01-23T14:45:00Z",
    } | more


def read(document: Any, main: str = STATE, **beside: str | bytes) -> ForeignRun:
    """Return the run that a state and the files around it tell of, checked for what every reading must give."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    names = {"spec": SPEC, "pause": CONTINUE, "lock": ".specflow/.state.lock", "position": STATE_MD}
    around = {names[name]: text.encode() if isinstance(text, str) else text for name, text in beside.items()}
    run = specflow.read(main, {main: data, **around})
    kit.assert_sound(run)
    return run


def adopted(run: ForeignRun, landed: tuple[str, ...] = ()) -> RunState:
    """Return a run of ours that carries on a foreign one: some of its tasks have landed."""
    state = kit.begun(run.plan)
    for task in landed:
        state.apply(ev.TaskLanded(task=task, attempt=0, commit=f"{task}-merge", head="head"))
    return state


def on_disk(files: list[NativeFile]) -> dict[str, bytes]:
    """Return what the files hold."""
    return {file.path: file.content for file in files if not file.gone}


def test_waves_are_stages_and_groups_are_tasks_with_their_commits_and_files() -> None:
    """A result is a word or an object; a group of a wave that has not begun has none."""
    run = read(state())
    assert [(stage.id, [task.id for task in stage.tasks]) for stage in run.plan.stages] == [
        ("wave-1", ["G1"]), ("wave-2", ["G2", "G3", "G4"]), ("wave-3", ["G5"])]  # fmt: skip
    assert [claim.standing.value for claim in run.claims] == ["done", "running", "failed", "done", "pending"]
    first = claims(run)["G1"]
    assert (first.commits, first.files) == (("abc1234", "def5678"), ("src/types.ts",))
    assert run.commits == ()


def test_a_failed_group_keeps_its_error() -> None:
    """The error goes to the next attempt, and the attempt counts."""
    claim = claims(read(state()))["G3"]
    assert (claim.attempts, claim.spent, claim.failures[0].error) == (1, 1, "context limit")


def test_the_specification_gives_the_groups_their_work_and_their_dependencies() -> None:
    """What a row of the task groups says is what the agent is asked, with the specification as a whole."""
    tasks = {task.id: task for _, task in read(state(), spec=SPEC_TEXT).plan.tasks()}
    assert tasks["G2"].needs == ("G1",)
    assert tasks["G2"].prompt.startswith("Create a handler")
    assert "Split the server into handlers." in tasks["G2"].prompt


def test_without_a_wave_column_a_group_comes_after_the_last_of_those_it_needs() -> None:
    """A specification that never ran is read by itself: its waves follow from its dependencies."""
    run = specflow.read(SPEC, {SPEC: SPEC_TEXT.encode()})
    kit.assert_sound(run)
    assert [[task.id for task in stage.tasks] for stage in run.plan.stages] == [["G1"], ["G2", "G3"], ["G4"]]
    assert run.plan.goal == "Handlers of their own"
    assert {claim.standing for claim in run.claims} == {ClaimedStatus.PENDING}


def test_a_wave_column_is_followed() -> None:
    """Groups that could run earlier were put later on purpose."""
    text = SPEC_TEXT.replace("| Group | Tasks |", "| Group | Wave | Tasks |").replace(
        "|-------|-------|", "|--|--|--|"
    )
    for group, wave in (("G1", 1), ("G2", 2), ("G3", 3), ("G4", 4)):
        text = text.replace(f"| {group} | ", f"| {group} | {wave} | ")
    run = specflow.read(SPEC, {SPEC: text.encode()})
    assert [[task.id for task in stage.tasks] for stage in run.plan.stages] == [
        ["G1"],
        ["G2"],
        ["G3"],
        ["G4"],
    ]


def test_a_group_that_only_the_specification_knows_is_added_and_told() -> None:
    """The state may have lost it; the work is still asked for."""
    text = SPEC_TEXT + "| G6 | Write the docs | G4 | ~5% |\n"
    run = read(state(), spec=text)
    assert claims(run)["G6"].standing is ClaimedStatus.PENDING
    assert "missing-group" in kinds(run, "G6")


def test_a_state_that_drifted_is_one_group_with_all_its_commits() -> None:
    """No waves, a status, a note: what it says of the whole is claimed of the whole."""
    run = read({"spec_id": "SPEC-071", "mode": "orchestrated", "status": "complete", "commits": ["f34572a"]})
    assert [(claim.task, claim.standing, claim.commits) for claim in run.claims] == [
        ("SPEC-071", ClaimedStatus.DONE, ("f34572a",))]  # fmt: skip
    assert "drifted" in kinds(run)


def test_a_stale_state_is_told() -> None:
    """A specification that is done knows better than the state of its run: git decides, and the user sees a finding."""
    stale = state(waves=[{"id": 1, "groups": ["G1"], "status": "pending", "results": {}}], commits=[])
    assert "copies-differ" in kinds(read(stale, spec=SPEC_TEXT.replace("running", "done")))


def test_a_wave_that_is_complete_with_an_unfinished_group_is_told() -> None:
    """The group's own word counts."""
    document = state()
    document["waves"][1]["status"] = "complete"
    assert "done-with-unfinished-parts" in kinds(read(document))


def test_unknown_words_are_shown_and_mapped() -> None:
    """`partial` is unfinished work; a word that nobody knows counts as not begun."""
    document = state()
    document["waves"][1]["results"] |= {"G2": "pondering", "G3": result("partial")}
    run = read(document)
    assert (claims(run)["G2"].standing, claims(run)["G3"].standing) == (
        ClaimedStatus.PENDING,
        ClaimedStatus.RUNNING,
    )
    assert "unknown-status" in kinds(run, "G2")
    assert "partial" in kinds(run, "G3")


def test_a_pause_leads_to_the_state_it_names() -> None:
    """`.continue-here` says where it stopped; commits that no group has are reported."""
    pause = {"spec_id": "SPEC-001", "state_file": STATE, "paused_at": {"wave": 2, "group": "G3"},
             "commits_completed": ["abc1234", "fff9999"]}  # fmt: skip
    documents = {CONTINUE: json.dumps(pause).encode(), STATE: json.dumps(state()).encode()}
    run = specflow.read(CONTINUE, documents)
    assert (run.main, run.name) == (STATE, "SPEC-001")
    assert {"paused", "copies-differ"} <= set(kinds(run))


def test_a_pause_without_its_state_continues_from_the_specification() -> None:
    """Nothing counts as done; the commits it recorded stay for git to decide."""
    pause = json.dumps({"spec_id": "SPEC-001", "commits_completed": ["abc1234"]})
    run = read(pause.encode(), main=CONTINUE, spec=SPEC_TEXT)
    assert (len(run.claims), run.commits) == (4, ("abc1234",))
    assert "state-missing" in kinds(run)


def test_a_pause_in_single_mode_is_read_from_its_note() -> None:
    """Single mode has no state: the note names the specification."""
    note = (
        b"# Session Pause\n\n## Context\n\n- **Specification:** SPEC-001 (Handlers)\n- **Status:** running\n"
    )
    path = ".specflow/sessions/PAUSE-20260123-144500.md"
    run = read(note, main=path, spec=SPEC_TEXT)
    assert (run.name, len(run.claims)) == ("SPEC-001", 4)
    assert "paused" in kinds(run)


def test_a_lock_names_who_may_still_be_at_work() -> None:
    """The lock is a file with a process id; somebody must look."""
    run = read(state(), lock="4711\n")
    assert "4711" in next(finding.sentence for finding in run.findings if finding.kind == "locked")


def test_a_table_that_says_otherwise_is_told() -> None:
    """STATE.md may call a run complete that its state does not."""
    table = POSITION.replace("SPEC-3", "SPEC-001")
    assert "copies-differ" in kinds(read(state(), position=table))


def test_a_broken_state_is_read_from_its_specification() -> None:
    """What is left is used, and the damage is told; without a specification it is an error with a way out."""
    run = read(b'{"spec_id": "SPEC-0', spec=SPEC_TEXT)
    assert (run.main, len(run.claims)) == (STATE, 4)
    assert "unreadable" in kinds(run)
    with pytest.raises(BrokenFileError):
        read(b'{"spec_id": "SPEC-0')


def test_a_state_that_breaks_off_keeps_the_waves_before() -> None:
    """What was complete and proven before the break need not be done again, and nothing is called done as a whole."""
    whole = json.dumps(state()).encode()
    run = read(whole[: whole.index(b'"running"')], spec=SPEC_TEXT)
    assert run.claims[0].commits == ("abc1234", "def5678")
    assert (len(run.claims), run.finished) == (4, False)
    assert "salvaged" in kinds(run)


def second_wave(status: str = "") -> RunState:
    """Return a run in its second wave, one attempt failed on the way; paused or finished if asked."""
    run = kit.begun(kit.two_layers())
    kit.failed(run, "L0-001")
    kit.landed(run, "L0-001")
    kit.next_stage(run, "0-setup", "1-backend")
    if status == "paused":
        run.apply(ev.RunPaused())
    return run


def test_the_state_tells_waves_groups_commits_and_files() -> None:
    """The schema of the document, readable by people, and a specification so that SpecFlow can go on."""
    files = specflow.write(kit.view_of(second_wave(), "SPEC-7", {"L0-001": ("db/schema.sql", "x.py")}), {})
    assert [file.path for file in files] == [
        ".specflow/execution/SPEC-7-state.json", ".specflow/specs/SPEC-7.md", CONTINUE]  # fmt: skip
    written = json.loads(files[0].content)
    assert list(written)[:6] == ["spec_id", "mode", "started", "waves", "commits", "last_checkpoint"]
    first = written["waves"][0]
    assert (first["id"], first["groups"], first["status"]) == (1, ["L0-001"], "complete")
    group = first["results"]["L0-001"]
    assert (group["commits"], group["files_created"], group["files_modified"]) == (
        ["L0-001-merge"], ["db/schema.sql"], ["x.py"])  # fmt: skip
    assert b'\n  "mode"' in files[0].content


def test_a_paused_run_leaves_continue_here_and_a_running_one_takes_it_away() -> None:
    """It says where to go on and which commits to look for."""
    paused = specflow.write(kit.view_of(second_wave("paused"), "SPEC-7"), {})[-1]
    pause = json.loads(paused.content)
    assert pause["paused_at"] == {"wave": 2, "group": "L1-001", "status": "pending"}
    assert (pause["spec_id"], pause["commits_completed"]) == ("SPEC-7", ["L0-001-merge"])
    running = specflow.write(kit.view_of(second_wave(), "SPEC-7"), {})[-1]
    assert (running.path, running.gone) == (CONTINUE, True)


def test_a_finished_run_is_archived_before_its_live_state_goes() -> None:
    """At every instant one of the two is there."""
    run = second_wave()
    for task in ("L1-001", "L1-002"):
        kit.landed(run, task)
    for event in (ev.StageClosing(stage="1-backend"), ev.StageClosed(stage="1-backend"), ev.RunCompleted()):
        run.apply(event)
    files = specflow.write(kit.view_of(run, "SPEC-7"), {".specflow/specs/SPEC-7.md": b""})
    assert [(file.path, file.gone) for file in files[:2]] == [
        (".specflow/execution/archive/SPEC-7-state.json", False), (".specflow/execution/SPEC-7-state.json", True)]  # fmt: skip
    assert json.loads(files[0].content)["waves"][1]["status"] == "complete"


def test_no_secret_of_the_plan_is_in_what_is_written() -> None:
    """How agents are started, and with what, is nobody's business here."""
    secret = AgentSpec(command=("agent", "--key", "s3cr3t"), env={"API_KEY": "s3cr3t"})
    run = kit.begun(replace(kit.two_layers(), agents={"mine": secret}))
    files = specflow.write(kit.view_of(run), {})
    assert not [file for file in files if b"s3cr3t" in file.content]


def test_a_run_comes_back_as_it_went_out() -> None:
    """Tasks, needs, stages, standings, attempts, failures and commits survive export and adoption."""
    run = second_wave()
    kit.failed(run, "L1-001")
    kit.started(run, "L1-002")
    documents = on_disk(specflow.write(kit.view_of(run), {}))
    back = specflow.read(".specflow/execution/SPEC-notes-state.json", documents)
    kit.assert_sound(back)
    assert back.plan.stages == run.plan.stages
    standings = [(claim.standing.value, claim.attempts, claim.spent) for claim in back.claims]
    assert standings == [("done", 2, 1), ("failed", 1, 1), ("running", 1, 0)]
    assert back.claims[0].commits == ("L0-001-merge",)
    assert [failure.feedback for failure in back.claims[0].failures] == ["expected 201, got 422"]


def test_what_was_skipped_is_complete_over_there_and_skipped_when_it_comes_back() -> None:
    """SpecFlow has no word for it; a deviation says so, and a note keeps it."""
    run = second_wave()
    run.apply(ev.TaskSkipped(task="L1-002"))
    documents = on_disk(specflow.write(kit.view_of(run), {}))
    main = ".specflow/execution/SPEC-notes-state.json"
    entry = json.loads(documents[main])["waves"][1]["results"]["L1-002"]
    assert (entry["status"], entry["deviations"]) == ("complete", ["skipped by the user"])
    assert claims(specflow.read(main, documents))["L1-002"].standing is ClaimedStatus.SKIPPED


def test_keys_that_nobody_knows_and_words_that_still_hold_are_kept() -> None:
    """At the top, in a wave, in a result; a bare `running` stays a bare word."""
    document = state(reviewer="ana")
    document["waves"][0]["mood"] = "good"
    document["waves"][1]["results"]["G3"]["model"] = "small"
    run = read(document)
    now = adopted(run, ("G1",))
    now.apply(ev.StageClosing(stage="wave-1"))
    for event in (
        ev.StageClosed(stage="wave-1"),
        ev.StageOpening(stage="wave-2"),
        ev.StageOpened(stage="wave-2"),
    ):
        now.apply(event)
    kit.started(now, "G2")
    files = specflow.write(kit.view_of(now, name=run.name), run.documents)
    written = json.loads(on_disk(files)[STATE])
    assert (written["reviewer"], written["waves"][0]["mood"]) == ("ana", "good")
    results = written["waves"][1]["results"]
    assert results["G3"]["model"] == "small"
    assert results["G2"] == "running"


def test_a_hash_that_was_cut_short_gives_way_to_the_whole_one() -> None:
    """The same commit is not recorded twice."""
    run = read(state())
    now = kit.begun(run.plan)
    now.apply(ev.TaskLanded(task="G1", attempt=0, commit="def5678" + "0" * 33, head="head"))
    written = json.loads(on_disk(specflow.write(kit.view_of(now, name=run.name), run.documents))[STATE])
    assert written["waves"][0]["results"]["G1"]["commits"] == ["abc1234", "def5678" + "0" * 33]


def test_a_note_gives_way_to_what_the_file_says_now() -> None:
    """SpecFlow may carry an exported run on: its word for a group stands above ours."""
    run = second_wave()
    run.apply(ev.TaskSkipped(task="L1-002"))
    main = ".specflow/execution/SPEC-notes-state.json"
    documents = on_disk(specflow.write(kit.view_of(run), {}))
    changed = json.loads(documents[main])
    changed["waves"][1]["results"]["L1-002"]["status"] = "failed"
    back = specflow.read(main, documents | {main: json.dumps(changed).encode()})
    assert claims(back)["L1-002"].standing is ClaimedStatus.FAILED


def test_the_progress_of_a_run_is_the_wave_it_is_at() -> None:
    """`Wave 2/2 (100%)` is the last wave at work; a finished, paused or failed run says so."""
    states = (kit.begun(kit.two_layers()), second_wave(), second_wave("paused"))
    tables = [with_status("", kit.view_of(state), "SPEC-7") for state in states]
    progress = [table.split("\n")[-2].split(" | ")[2] for table in tables]
    assert progress == ["Wave 1/2 (50%)", "Wave 2/2 (100%)", "Paused"]


def test_the_status_table_is_the_one_of_the_document() -> None:
    """Four columns, one row per run, times to the minute."""
    text = with_status("# Mine\n", kit.view_of(kit.begun(kit.two_layers())), "SPEC-7")
    assert text.split("\n") == [
        "# Mine",
        "",
        "## Execution Status",
        "",
        "| Spec ID | Mode | Progress | Last Updated |",
        "|---------|------|----------|--------------|",
        "| SPEC-7 | orchestrated | Wave 1/2 (50%) | 2025-01-11 10:20 |",
        "",
    ]


POSITION = """## Decisions

| Date | Decision |
|---|---|
| — | — |

## Execution Status

Track progress:

| Spec ID | Mode | Progress | Last Updated |
|---------|------|----------|--------------|
| SPEC-3 | orchestrated | Complete | 2025-01-01 09:00 |
| SPEC-7 | orchestrated | Wave 1/9 (11%) | long ago |

**Notes:** mine
"""


def test_in_state_md_only_the_row_of_the_run_changes() -> None:
    """Other sections, other runs and the user's own words stay; a placeholder gives way, a section is added."""
    view = kit.view_of(second_wave())
    line = "| SPEC-7 | orchestrated | Wave 2/2 (100%) | 2025-01-11 10:20 |"
    assert with_status(POSITION, view, "SPEC-7") == POSITION.replace(
        "| SPEC-7 | orchestrated | Wave 1/9 (11%) | long ago |", line
    )
    empty = POSITION.split("| SPEC-3")[0] + "| — | — | — | — |\n"
    assert with_status(empty, view, "SPEC-7") == empty.replace("| — | — | — | — |", line)
    assert with_status("# Mine\n", view, "SPEC-7").endswith(f"--|\n{line}\n")


def test_the_table_of_an_existing_state_md_is_mirrored_along() -> None:
    """Where the project keeps the table, an export keeps it up to date."""
    files = specflow.write(kit.view_of(second_wave(), "SPEC-7"), {STATE_MD: POSITION.encode()})
    assert b"Wave 2/2" in on_disk(files)[STATE_MD]
    assert STATE_MD not in on_disk(specflow.write(kit.view_of(second_wave(), "SPEC-7"), {}))


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real files is not beside this checkout")
def test_every_real_state_is_read_with_every_group_status_and_commit_accounted_for() -> None:
    """Each group of each wave is a task with its word and its commits; a state without waves is one."""
    for path in sorted(CORPUS.glob("*.json")):
        document = json.loads(path.read_bytes())
        run = specflow.read(path.name, {path.name: path.read_bytes()})
        kit.assert_sound(run)
        waves = document.get("waves", [])
        groups = [
            (group, wave.get("results", {}).get(group, {})) for wave in waves for group in wave["groups"]
        ]
        assert [claim.task for claim in run.claims] == [group for group, _ in groups] or not groups
        said = [(held.get("status", ""), tuple(held.get("commits", ()))) for _, held in groups]
        assert [(claim.said, claim.commits) for claim in run.claims if groups] == said
        recorded = {commit for claim in run.claims for commit in claim.commits} | set(run.commits)
        assert recorded == set(document["commits"])


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real files is not beside this checkout")
def test_a_real_position_with_nothing_under_way_says_so() -> None:
    """An idle STATE.md is recognised; there is nothing in it to carry on."""
    path = CORPUS / "topgun-STATE-md-1.md"
    assert specflow.recognises(path.name, path.read_bytes())
    with pytest.raises(BrokenFileError, match="nothing is under way"):
        specflow.read(path.name, {path.name: path.read_bytes()})
