"""A planner agent writes the plan for a goal: judged, asked again, kept, and never asked twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agents.presets import Preset, agent_names, builtin_presets
from holdfast.core.observations import AgentTrouble
from holdfast.core.plan import Plan
from holdfast.errors import LeaseHeldError
from holdfast.journal.lease import Lease
from holdfast.plans import parse_plan
from holdfast.plans.schema import schema_text
from holdfast.runner.planner import Planned, PlanningError, PlanningOrder, make_plan, plan_record
from tests.support.repositories import Project, fingerprint
from tests.support.scripted_agents import FINISHED, answers, once, refused, say

GOAL = "Add a greeting"
GOOD = 'holdfast: 1\ngoal: Add a greeting\ntasks:\n  - {id: a, run: ["sh", "-c", "echo hi > hi.txt"]}\n'


class PlannerProject:
    """A repository and a scripted planner that counts how often it is asked."""

    def __init__(self, tmp_path: Path, script: str, *, goal: str = GOAL) -> None:
        self.project = Project.create(tmp_path / "p")
        self.calls = tmp_path / "calls"
        self.brief = tmp_path / "brief"
        self.script = f"echo x >> {self.calls}; cat $HOLDFAST_BRIEF > {self.brief}; {script}"
        self.goal = goal
        self.said: list[str] = []

    def plan(self, goal: str = "", stream: str = "raw") -> Planned:
        """Ask for the plan, from a planner that prints a stream."""
        spec = Preset(
            command=("sh", "-c", self.script),
            stream=stream,
            lines={AgentTrouble.LIMIT: ("Limit reached",)},
        )
        work = PlanningOrder(
            goal=goal or self.goal, agent="claude", spec=spec, schema=schema_text(), read=_read
        )
        return make_plan(self.project.open(), work, self.said.append)

    @property
    def asked(self) -> int:
        """How often the planner was started."""
        return self.calls.read_text().count("x")


def _read(data: bytes) -> Plan:
    return parse_plan(data, "plan.yaml", agent_names(builtin_presets()))


def _writes(text: str) -> str:
    return f"cat > plan.yaml <<'END'\n{text}END\n"


def test_a_planner_is_told_the_goal_the_files_and_the_format(tmp_path: Path) -> None:
    """The brief is all it gets: what is wanted, what is there, and how to write it down."""
    planner = PlannerProject(tmp_path, _writes(GOOD))
    planner.plan()
    brief = planner.brief.read_text()
    assert GOAL in brief
    assert "src/b.txt" in brief
    assert "holdfast: 1" in brief
    assert "plan.schema.json" in brief


def test_a_valid_plan_is_kept_and_the_checkout_is_not_touched(tmp_path: Path) -> None:
    """The planner worked elsewhere, and its workspace is gone."""
    planner = PlannerProject(tmp_path, _writes(GOOD) + "echo junk > a.txt")
    before = fingerprint(planner.project.path)
    planned = planner.plan()
    assert planned.tries == 1
    assert planned.path.read_text() == GOOD
    assert fingerprint(planner.project.path) == before
    assert planner.project.git("worktree", "list").count("\n") == 0


def test_nobody_plans_twice_for_the_same_goal(tmp_path: Path) -> None:
    """U1: whatever its case and white space, a goal that has a valid plan is planned."""
    planner = PlannerProject(tmp_path, _writes(GOOD))
    planner.plan()
    again = planner.plan("  add A   GREETING ")
    assert (again.tries, planner.asked) == (0, 1)


def test_a_kept_plan_that_is_no_longer_valid_is_planned_again(tmp_path: Path) -> None:
    """U1: missing or invalid, the planner runs first."""
    planner = PlannerProject(tmp_path, _writes(GOOD))
    plan_record(planner.project.open().state_dir, GOAL).parent.mkdir(parents=True)
    plan_record(planner.project.open().state_dir, GOAL).write_text("holdfast: 1\n")
    assert planner.plan().tries == 1


def test_a_pipe_in_the_place_of_a_kept_plan_is_no_plan(tmp_path: Path) -> None:
    """Reading it would never end; a plan takes its place."""
    planner = PlannerProject(tmp_path, _writes(GOOD))
    record = plan_record(planner.project.open().state_dir, GOAL)
    record.parent.mkdir(parents=True)
    os.mkfifo(record)
    assert planner.plan().tries == 1
    assert record.read_text() == GOOD


def test_what_is_wrong_with_a_plan_goes_back_to_the_planner(tmp_path: Path) -> None:
    """Errors name line and field; the next answer is asked for with them."""
    bad = GOOD.replace("id: a", "idd: a")
    script = f"if grep -q 'answer 1' $HOLDFAST_BRIEF; then {_writes(GOOD)}else {_writes(bad)}fi"
    planner = PlannerProject(tmp_path, script)
    assert planner.plan().tries == 2
    assert "plan.yaml:4: tasks[0]" in planner.brief.read_text()
    assert "not accepted" in "".join(planner.said)


def test_a_plan_that_is_printed_is_taken_from_its_fenced_block(tmp_path: Path) -> None:
    """Some agents may not write files."""
    planner = PlannerProject(tmp_path, f"cat <<'END'\nHere it is:\n```yaml\n{GOOD}```\nGood luck!\nEND\n")
    assert planner.plan().path.read_text() == GOOD


def test_a_plan_that_the_project_has_already_is_no_answer(tmp_path: Path) -> None:
    """Only what the planner itself wrote counts."""
    planner = PlannerProject(tmp_path, "true")
    planner.project.write("plan.yaml", GOOD)
    planner.project.commit("an old plan")
    with pytest.raises(PlanningError, match="was not written"):
        planner.plan()


def test_a_folder_in_the_place_of_the_plan_is_sent_back(tmp_path: Path) -> None:
    """The planner is told, and answers anew; also where the project itself has a folder of that name."""
    script = f"if grep -q 'answer 1' $HOLDFAST_BRIEF; then {_writes(GOOD)}else mkdir plan.yaml; fi"
    planner = PlannerProject(tmp_path, script)
    planner.project.write("plan.yaml/part", "x")
    planner.project.commit("a folder")
    assert planner.plan().tries == 2
    assert "plan.yaml was not written" in planner.brief.read_text()


def test_a_plan_for_another_goal_is_sent_back(tmp_path: Path) -> None:
    """The goal is how a plan is found again."""
    planner = PlannerProject(tmp_path, _writes(GOOD.replace("Add a greeting", "Something else")))
    with pytest.raises(PlanningError, match="goal: it must be exactly: Add a greeting"):
        planner.plan()
    assert planner.asked == 3


def test_an_agent_that_ended_badly_has_written_no_plan(tmp_path: Path) -> None:
    """The file may be the half of one, and half a plan can be valid by accident."""
    planner = PlannerProject(tmp_path, _writes(GOOD) + "exit 3")
    with pytest.raises(PlanningError, match="status 3"):
        planner.plan()
    assert not plan_record(planner.project.open().state_dir, GOAL).exists()


def test_a_planner_whose_stream_was_cut_is_asked_again(tmp_path: Path) -> None:
    """Its exit status is 0 and its file a valid plan, yet it had not finished: tasks may be missing from it."""
    cut = _writes(GOOD) + say(answers("I begin with the first task."))
    whole = _writes(GOOD) + say(answers(), FINISHED)
    planner = PlannerProject(tmp_path, once(tmp_path / "cut", cut, whole))
    assert planner.plan(stream="claude").tries == 2
    assert "ended without its last word" in planner.brief.read_text()


def test_a_plan_is_refused_if_its_planner_never_finishes(tmp_path: Path) -> None:
    """Nothing is kept, and the error says what is missing."""
    planner = PlannerProject(tmp_path, _writes(GOOD) + say(answers()))
    with pytest.raises(PlanningError, match="ended without its last word"):
        planner.plan(stream="claude")
    assert not plan_record(planner.project.open().state_dir, GOAL).exists()


def test_a_planner_that_ended_in_an_error_has_written_no_plan(tmp_path: Path) -> None:
    """Some agents exit with status 0 all the same."""
    planner = PlannerProject(tmp_path, _writes(GOOD) + say(answers(), refused(400, "prompt rejected")))
    with pytest.raises(PlanningError, match="prompt rejected"):
        planner.plan(stream="claude")


def test_after_the_last_try_a_new_request_begins_anew(tmp_path: Path) -> None:
    """A planner that was out of luck, or out of credit, gets all its tries again."""
    ready = tmp_path / "ready"
    planner = PlannerProject(tmp_path, f"test -f {ready} && {_writes(GOOD)}")
    with pytest.raises(PlanningError, match="no valid plan after 3 tries"):
        planner.plan()
    ready.touch()
    assert planner.plan().tries == 1


def test_two_do_not_plan_the_same_goal_at_once(tmp_path: Path) -> None:
    """The second is told who does."""
    planner = PlannerProject(tmp_path, _writes(GOOD))
    state = planner.project.open().state_dir
    lease = Lease.acquire(state.run(f"plan-{plan_record(state, GOAL).stem}").lease)
    with pytest.raises(LeaseHeldError):
        planner.plan()
    lease.release()
    assert planner.plan().tries == 1


def test_a_planner_at_a_limit_is_not_asked_again_at_once(tmp_path: Path) -> None:
    """Its tries are kept for answers: the limit is told, and the next request asks anew."""
    limit = once(tmp_path / "hit", "echo Limit reached, try again in 2h; exit 1", "true")
    planner = PlannerProject(tmp_path, f"{limit}; {_writes(GOOD)}")
    with pytest.raises(PlanningError, match="try again in 2h"):
        planner.plan()
    assert (planner.asked, planner.plan().tries) == (1, 1)
