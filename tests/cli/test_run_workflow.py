"""`run --workflow`: each way of working from its own inputs to landed work, with a scripted agent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.workflow_project import WorkflowProject
from tests.support.command import Cli, eventually
from tests.support.repositories import write

SPEC = ".auto-claude/specs/001-shelf"
SHORT = "tests,security,examine,docs,cicd"
ON_ITS_OWN = """\
workflow: 1
name: mine
about: A greeting, twice if asked
input: {kind: description}
flags: {twice: {default: false}}
values: {word: {default: hello}}
goal: "Greet {description}"
stages:
  - id: greet
    tasks:
      - {id: one, run: [sh, -c, "echo {word} {description} > one.txt"], verify: ["grep -q {description} one.txt"]}
      - {id: two, when: twice, needs: [one], run: [sh, -c, "cat one.txt one.txt > two.txt"]}
"""


def _spec(project: WorkflowProject, *, planned: bool = True) -> None:
    """Write a spec folder of Auto-Claude, with its plan or without."""
    project.write(f"{SPEC}/spec.md", "# Shelf\n\nA shelf with two boards.\n")
    phases = [
        {
            "id": "phase-1",
            "name": "Wood",
            "subtasks": [{"id": "saw", "description": "Saw it", "status": "pending"}],
        },
        {
            "id": "phase-2",
            "name": "Glue",
            "subtasks": [{"id": "glue", "description": "Glue it", "status": "pending"}],
        },
    ]
    if planned:
        project.write(f"{SPEC}/implementation_plan.json", {"feature": "Shelf", "phases": phases})
    answer = """holdfast: 1
goal: Implement the specification 001-shelf
agent: worker
stages:
- {id: wood, tasks: [{id: saw, prompt: Saw it}]}
- {id: shop, tasks: [{id: glue, prompt: Glue it}]}
"""
    write(project.root / "answer.yaml", answer)


# -- APEX ----------------------------------------------------------------------------------------------------


def test_apex_runs_phase_by_phase_and_hands_its_summaries_on(project: WorkflowProject) -> None:
    """A1, A2, A9: the run is named by counter and slug; a phase gets all that the phases before it reported."""
    done = project.run("apex", "Add a door", "--without", SHORT)
    assert done.code == 0, done.err
    assert "01-add-a-door completed: 6 of 6 landed" in done.out
    assert project.lines("order") == [
        "00-init",
        "01-analyze",
        "02-plan",
        "03-execute",
        "04-validate",
        "11-finish",
    ]
    told = project.brief("03-execute")
    assert "Found by 02-plan:\n- the second line of it" in told
    assert "Found by 01-analyze:\n- the second line of it" in told


def test_apex_without_auto_waits_until_its_plan_is_accepted(project: WorkflowProject) -> None:
    """Nothing is built before a person says so, and saying so is one command."""
    waits = project.run("apex", "Add a door", "--without", f"{SHORT},auto")
    assert waits.code == 3
    assert "resume --accept 03-execute" in waits.out
    assert project.lines("order")[-1] == "02-plan"
    assert project("resume", "--accept", "03-execute", "--yes").code == 0
    assert project.lines("order")[-1] == "11-finish"


def test_a_phase_is_capped_at_its_own_number_of_attempts(project: WorkflowProject) -> None:
    """Validation is tried twice, whatever the run allows."""
    done = project.run("apex", "Add a door", "--without", SHORT, "--set", "check=false")
    assert done.code == 1
    assert project.cli.task("04-validate")["attempts"] == 2


def test_a_dry_run_shows_the_plan_that_a_workflow_makes(project: WorkflowProject) -> None:
    """What is confirmed by its hash is an ordinary plan, and it can be read first."""
    done = project(
        "run", "--agent", "worker", "--workflow", "apex", "Add a door", "--with", "docker", "--dry-run"
    )
    assert "10-docker: A container image [agent worker, needs 10-cicd]" in done.out
    assert not (project.cli.here / ".holdfast" / "journal.db").exists()


def test_a_workflows_run_is_unfinished_like_any_other(project: WorkflowProject) -> None:
    """A7: the same words find the run that was begun with them."""
    project.run("apex", "Add a door", "--without", f"{SHORT},auto")
    again = project(
        "run", "--agent", "worker", "--workflow", "apex", "Add a door", "--without", f"{SHORT},auto"
    )
    assert again.code == 3
    assert "run 01-add-a-door of this plan is unfinished" in again.err


def test_apex_keeps_its_own_state_and_an_output_of_each_phase(project: WorkflowProject) -> None:
    """A1: with `--mirror apex` every finished phase has its markdown at its place, with what was reported."""
    done = project.run("apex", "Add a door", "--without", SHORT, "--mirror", "apex")
    assert done.code == 0, done.err
    home = project.cli.here / ".claude" / "output" / "apex" / "01-add-a-door"
    names = ["00-init.md", "01-analyze.md", "02-plan.md", "03-execute.md", "04-validate.md", "11-finish.md"]
    assert sorted(path.name for path in home.glob("*.md")) == names
    assert "Found by 02-plan:" in (home / "02-plan.md").read_text()
    assert (project.cli.here / ".claude" / "apex-state" / "current.json").exists()


def test_a_resumed_run_may_be_mirrored_as_well(project: WorkflowProject) -> None:
    """The option means the same whether the run is new or not."""
    words = ("apex", "Add a door", "--without", f"{SHORT},auto", "--mirror", "apex")
    assert project.run(*words).code == 3
    assert project.run(*words).code == 3
    assert (project.cli.here / ".claude" / "output" / "apex" / "01-add-a-door" / "02-plan.md").exists()


# -- Execute -------------------------------------------------------------------------------------------------


def test_execute_runs_a_folder_of_layer_tasks(project: WorkflowProject) -> None:
    """E1: layers in order; a task file is the prompt of its task, and its verification is run."""
    layers = [
        {
            "id": "0-setup",
            "name": "Setup",
            "tasks": [{"id": "L0-001", "name": "Skeleton", "description": "x"}],
        },
        {
            "id": "1-base",
            "name": "Base",
            "tasks": [{"id": "L1-001", "name": "Model", "depends_on": ["L0-001"]}],
        },
    ]
    project.write("docs/tasks/shelf/layer_plan.json", {"layers": layers})
    check = "## Verification\n\n```bash\ntest -f work-L0-001.txt\n```\n"
    project.write("docs/tasks/shelf/L0-001.md", f"# L0-001: Skeleton\n\nCreate all of it.\n\n{check}")
    done = project.run("execute", "docs/tasks/shelf")
    assert done.code == 0, done.err
    assert project.lines("order") == ["L0-001", "L1-001"]
    assert "Create all of it." in project.brief("L0-001")
    assert "test -f work-L0-001.txt" in project.brief("L0-001")


# -- CFN Loop ------------------------------------------------------------------------------------------------


def test_cfn_sprints_are_implemented_tested_and_judged(project: WorkflowProject) -> None:
    """C4, C6: a sprint waits for the one it needs; its tests hold the slot; two validators judge each."""
    sprints = [
        {"id": "auth", "name": "Auth", "dependencies": [], "acceptanceCriteria": ["Login works"]},
        {"id": "cart", "name": "Cart", "dependencies": ["auth"]},
    ]
    project.write("epic.json", {"epicId": "shop", "name": "Shop", "sprints": sprints})
    done = project.run("cfn", "epic.json", "--set", "test=ls work-*.txt")
    assert done.code == 0, done.err
    assert project.lines("order") == ["auth", "cart"]
    assert sorted(project.lines("judged")) == ["auth", "auth", "cart", "cart"]
    assert "Login works" in project.brief("auth")


# -- SpecFlow ------------------------------------------------------------------------------------------------

GROUPS = """# SPEC-001: Shelf

---
id: SPEC-001
status: audited
---

## Task

Build a shelf.

## Implementation Tasks

| Group | Tasks | Dependencies |
|-------|-------|--------------|
| G1 | Types | — |
| G2 | Wood | G1 |
| G3 | Glue | G1 |
| G4 | Paint | G2, G3 |
"""


@pytest.mark.parametrize("name", [".specflow/specs/SPEC-001.md", "docs/shelf.md"])
def test_specflow_runs_its_groups_in_waves_with_checks_before_and_after(
    project: WorkflowProject, name: str
) -> None:
    """S1: a group's wave follows from what it needs; each wave is checked before it opens and before it closes."""
    project.write(name, GROUPS)
    done = project.run("specflow", name, "--set", "before=test -f a.txt", "--set", "after=ls work-*.txt")
    assert done.code == 0, done.err
    assert [stage["tasks"] for stage in project.cli.json("status")["stages"]] == [1, 2, 1]
    assert (project.lines("order")[0], project.lines("order")[-1]) == ("G1", "G4")
    assert "Build a shelf." in project.brief("G2")


def test_a_wave_whose_check_fails_waits_for_a_decision(project: WorkflowProject) -> None:
    """A failing check after a wave keeps the next one closed."""
    project.write("shelf.md", GROUPS)
    assert project.run("specflow", "shelf.md", "--set", "after=test -f nowhere").code == 3
    assert project.lines("order") == ["G1"]


# -- Auto-Claude ---------------------------------------------------------------------------------------------


def test_a_valid_plan_of_auto_claude_is_never_planned_again(project: WorkflowProject) -> None:
    """U1, U5, U8 (plan, no worktree): no planner; one subtask after the other; QA comes last and knows the spec."""
    _spec(project)
    done = project.run("auto-claude", SPEC)
    assert done.code == 0, done.err
    assert project.lines("planned") == []
    assert project.lines("order") == ["saw", "glue", "final-qa"]
    assert "A shelf with two boards." in project.brief("final-qa")


@pytest.mark.parametrize("broken", [None, "", '{"feature": "Shelf", "phases": [{"id": 1, "subtasks": [{"id"'])
def test_a_spec_without_a_valid_plan_is_planned_first_and_once(
    project: WorkflowProject, broken: str | None
) -> None:
    """U1, U8 (no plan): the planner reads the spec; a fresh start does not plan again."""
    _spec(project, planned=False)
    if broken is not None:
        project.write(f"{SPEC}/implementation_plan.json", broken)
    assert project.run("auto-claude", SPEC, "--without", "qa").code == 0
    assert project.run("auto-claude", SPEC, "--without", "qa", "--fresh").code == 0
    assert project.lines("planned") == ["planned"]
    assert "A shelf with two boards." in (project.root / "planning.md").read_text()
    assert project.lines("order") == ["saw", "glue", "saw", "glue"]


def test_a_changed_spec_is_planned_anew(project: WorkflowProject) -> None:
    """A plan is for what the spec said when it was made."""
    _spec(project, planned=False)
    project.run("auto-claude", SPEC, "--without", "qa")
    project.write(f"{SPEC}/spec.md", "# Shelf\n\nThree boards.\n")
    project.run("auto-claude", SPEC, "--without", "qa", "--fresh")
    assert project.lines("planned") == ["planned", "planned"]


def test_a_run_continues_after_a_crash_while_coding(project: WorkflowProject) -> None:
    """U8 (both; crash while coding): what landed stays, the rest is done, nobody plans."""
    _spec(project)
    hold = project.root / "hold-glue"
    hold.touch()
    env = {"XDG_CONFIG_HOME": str(project.root / "config")}
    words = ("run", "--agent", "worker", "--workflow", "auto-claude", SPEC, "--yes")
    runner = project.cli.start(*words, **env)
    eventually(lambda: "glue" in project.lines("order"), "the second subtask begins")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    hold.unlink()
    done = project("run", "--agent", "worker", "--workflow", "auto-claude", SPEC, "--auto-continue", "--yes")
    assert done.code == 0, done.err
    assert project.lines("order").count("saw") == 1
    assert "work-glue.txt" in project.landed()
    assert project.lines("planned") == []


def test_subtasks_run_beside_each_other_when_asked(project: WorkflowProject) -> None:
    """U5: `--jobs` is the parallel mode."""
    rows = [{"id": name, "description": name, "status": "pending"} for name in ("a", "b")]
    _spec(project)
    phase = {"id": "p", "name": "P", "parallel_safe": True, "subtasks": rows}
    project.write(f"{SPEC}/implementation_plan.json", {"feature": "Shelf", "phases": [phase]})
    (project.root / "hold-a").touch()
    env = {"XDG_CONFIG_HOME": str(project.root / "config")}
    words = (
        "run",
        "--agent",
        "worker",
        "--workflow",
        "auto-claude",
        SPEC,
        "--jobs",
        "2",
        "--yes",
        "--without",
        "qa",
    )
    runner = project.cli.start(*words, **env)
    eventually(lambda: sorted(project.lines("order")) == ["a", "b"], "both subtasks are under way")
    (project.root / "hold-a").unlink()
    assert runner.wait() == 0


def test_what_a_plan_says_is_done_is_pointed_out(project: WorkflowProject) -> None:
    """A workflow begins anew; whoever wants to carry on is told how."""
    _spec(project)
    row = {"id": "saw", "description": "Saw", "status": "completed"}
    project.write(
        f"{SPEC}/implementation_plan.json", {"feature": "S", "phases": [{"id": "p", "subtasks": [row]}]}
    )
    done = project("run", "--agent", "worker", "--workflow", "auto-claude", SPEC, "--dry-run")
    assert (
        f"1 of 1 task is marked as done there. This run does them all again; `holdfast adopt {SPEC}`"
        in done.err
    )


# -- one's own -----------------------------------------------------------------------------------------------


def test_a_workflow_of_ones_own_needs_no_agent(project: WorkflowProject) -> None:
    """Users write their own: flags, values, commands, checks."""
    project.write("mine.yaml", ON_ITS_OWN)
    words = ("--workflow", "./mine.yaml", "Ann", "--with", "twice", "--set", "word=bye", "--yes")
    assert project("run", *words).code == 0
    assert sorted(project.landed()) == ["one.txt", "two.txt"]
    branch = project.cli.json("status")["run"]["branch"].removeprefix("refs/heads/")
    assert project.cli.project.git("show", f"{branch}:one.txt") == "bye Ann"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workflow", "apx", "x"), 'there is no workflow "apx"; did you mean "apex"?'),
        (("--workflow", "apex", "x", "--with", "tets"), 'no flag "tets"; did you mean "tests"?'),
        (("--workflow", "apex", "x", "--set", "check"), '"check" sets nothing'),
        (("plan.yaml", "--with", "tests"), "are for workflows, and none is named"),
        (("--workflow", "apex"), "needs its input: what is to be built"),
        (("--workflow", "execute", "nowhere"), "nowhere"),
        (("--workflow", "bad.yaml", "x"), "bad.yaml:3: aboot: unknown key"),
    ],
)
def test_what_is_wrong_is_met_with_words(project: WorkflowProject, words: tuple[str, ...], said: str) -> None:
    """A slip changes nothing and is named."""
    project.write("bad.yaml", ON_ITS_OWN.replace("about", "aboot"))
    done = project("run", "--agent", "worker", *words)
    assert done.code == 2
    assert said in done.err


def test_a_list_can_be_the_input_of_a_workflow(project: WorkflowProject) -> None:
    """Readers are one vocabulary: a workflow goes through a checklist as it goes through layers."""
    body = "{id: all, tasks: [{each: tasks, id: '{task.id}', run: [touch, '{task.id}.txt']}]}"
    head = "workflow: 1\nname: touch\nabout: x\ninput: {kind: document, readers: checklist}\n"
    project.write("touch.yaml", f"{head}goal: '{{goal}}'\nstages: [{body}]\n")
    project.write("TODO.md", "# List\n\n- [ ] Begin\n")
    assert project("run", "--workflow", "touch.yaml", "TODO.md", "--yes").code == 0
    assert project.landed() == ["01-begin.txt"]


def test_a_wrong_agent_of_a_workflow_gets_the_nearest_one(tmp_path: Path) -> None:
    """The workflow is fine; it is the option that has a typing mistake."""
    done = Cli.of(tmp_path / "p")("run", "--workflow", "apex", "Add a door", "--agent", "clade")
    assert (done.code, 'did you mean "claude"?' in done.err) == (2, True), done.err
    assert "--agent" in done.err
