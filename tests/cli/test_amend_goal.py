"""`amend "goal"`: a planner changes the plan of a run, with a scripted `claude` on the PATH. Shown before it is taken."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import Cli, Done, eventually, is_alive, on_terminal
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import Fifo
from tests.support.scripted_agents import FINISHED, say

RUN = "01-web-shop"
GOAL = "also add rate limiting"
PLAN = """\
holdfast: 1
goal: Web shop
limits: {attempts: 1}
# Comments are the user's own.
stages:
  - id: main
    tasks:
      - id: cart
        run: [sh, -c, "echo cart > cart.txt"]
      - id: search
        needs: [cart]
        run: [sh, -c, "test -e go && echo search > search.txt"]
"""
RATES = """\
      - id: rates
        needs: [cart]
        run: [sh, -c, "echo rates > rates.txt"]
"""
ADDS = f"cat >> plan.yaml <<'END'\n{RATES}END\n"


@dataclass(frozen=True, slots=True)
class Shop:
    """A user with a run of a web shop, in which `cart` landed, and an agent that plans."""

    cli: Cli
    root: Path

    @classmethod
    def create(cls, root: Path, *, plan: str = PLAN) -> Shop:
        """Make the project; nothing runs yet, and the planner adds the task `rates`."""
        shop = cls(Cli(Project.create(root / "p").path), root)
        shop.file.write_text(plan)
        (root / "bin").mkdir()
        shop.planner(ADDS)
        return shop

    @classmethod
    def blocked(cls, root: Path) -> Shop:
        """Make the project and a run that rests: `cart` landed, `search` was given up."""
        shop = cls.create(root)
        assert shop("run", "--yes").code == 1
        return shop

    def planner(self, script: str) -> None:
        """Let the planner run this script; it finds the plan in `plan.yaml`."""
        program = self.root / "bin" / "claude"
        program.write_text(
            f"#!/bin/sh\necho x >> {self.root}/calls\ncat > {self.root}/brief\n{script}\n{say(FINISHED)}\n"
        )
        program.chmod(0o755)

    def answers(self, plan: str) -> None:
        """Let the planner answer with this plan."""
        self.planner(f"cat > plan.yaml <<'END'\n{plan}END\n")

    @property
    def file(self) -> Path:
        """The plan file of the run."""
        return self.cli.here / "plan.yaml"

    @property
    def asked(self) -> int:
        """How often the planner was started."""
        calls = self.root / "calls"
        return calls.read_text().count("x") if calls.exists() else 0

    @property
    def path(self) -> str:
        """The PATH with the planner on it."""
        return f"{self.root / 'bin'}:{os.environ['PATH']}"

    def __call__(self, *args: str) -> Done:
        """Give a command."""
        return self.cli(*args, PATH=self.path)

    def start(self, *args: str) -> ForkedProcess:
        """Start a command that a test will end."""
        return self.cli.start(*args, PATH=self.path)

    def tasks(self) -> list[str]:
        """Return the tasks of the run."""
        return [task["id"] for task in self.cli.json("status")["tasks"]]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A run that rests: `cart` landed, `search` was given up."""
    return Shop.blocked(tmp_path)


def test_what_a_planner_adds_is_shown_taken_and_lands(shop: Shop) -> None:
    """One command from words to another task; what landed is not done again, and the file has the plan of the run."""
    landed = shop.cli.task("cart")["merge_commit"]
    done = shop("amend", GOAL, "--yes")
    assert (done.code, "+ task rates: new" in done.out) == (0, True), done.err
    assert f"{RUN} has the amended plan; plan.yaml holds it." in done.out
    assert shop.file.read_text() == PLAN + RATES
    assert shop("skip", "search").code == 0
    assert shop("resume", "--yes").code == 0
    assert shop.cli.task("cart")["merge_commit"] == landed
    assert shop.cli.project.git("show", f"holdfast/{RUN}:rates.txt") == "rates"


def test_a_planner_is_told_what_is_asked_the_plan_and_where_its_tasks_stand(shop: Shop) -> None:
    """It sees what landed in its own folder, too."""
    shop.planner(f"cp cart.txt {shop.root}/seen\n{ADDS}")
    assert shop("amend", "1", "--goal", GOAL, "--dry-run").code == 0
    brief = (shop.root / "brief").read_text()
    for text in (GOAL, "# Comments are the user's own.", "cart: landed", "search: abandoned: "):
        assert text in brief
    assert (shop.root / "seen").read_text() == "cart\n"


@pytest.mark.parametrize("option", [(), ("--agent", "mine")], ids=["by default", "by name"])
def test_an_agent_of_the_plan_itself_can_plan(tmp_path: Path, option: tuple[str, ...]) -> None:
    """No agent has to be installed, nor be in agents.toml."""
    mine = tmp_path / "mine"
    own = f"agent: mine\nagents: {{mine: {{command: [{mine}]}}}}\n"
    shop = Shop.create(tmp_path, plan=PLAN.replace("stages:", f"{own}stages:"))
    (tmp_path / "bin" / "claude").rename(mine)
    assert shop("run", "--yes").code == 1
    done = shop("amend", GOAL, "--yes", *option)
    assert (done.code, "+ task rates: new" in done.out) == (0, True), done.err
    assert shop.asked == 1


def test_a_dry_run_takes_nothing_and_its_answer_is_not_asked_for_again(shop: Shop) -> None:
    """What was shown is exactly what the same words take later."""
    shown = shop("amend", GOAL, "--dry-run")
    assert (shown.code, "+ task rates: new" in shown.out) == (0, True)
    assert (shop.file.read_text(), shop.tasks()) == (PLAN, ["cart", "search"])
    assert shop("amend", "1", GOAL.upper(), "--yes").code == 0
    assert (shop.asked, shop.tasks()) == (1, ["cart", "search", "rates"])


def test_a_goal_that_the_run_has_taken_is_not_planned_again(shop: Shop) -> None:
    """A command that was killed at its very end is given again; nothing is added twice."""
    assert shop("amend", GOAL, "--yes").code == 0
    again = shop("amend", GOAL, "--yes")
    assert (again.code, "has this plan already" in again.out, shop.asked) == (0, True, 1)


def test_refused_at_the_prompt_nothing_changes(shop: Shop) -> None:
    """The commands that are new are shown before the question."""
    code, said = on_terminal(shop.cli, "amend", GOAL, answers="n\n", PATH=shop.path)
    assert (code, "runs: sh -c 'echo rates > rates.txt'" in said) == (3, True)
    assert (shop.file.read_text(), shop.tasks()) == (PLAN, ["cart", "search"])
    unasked = shop("amend", GOAL)
    assert (unasked.code, shop.asked, shop.file.read_text()) == (3, 1, PLAN)


def test_a_landed_task_that_a_planner_drops_stays(shop: Shop) -> None:
    """In the plan of the run and in the file that is written; the rest of the answer is taken."""
    shop.answers(PLAN[: PLAN.index("      - id: cart")] + RATES.replace("        needs: [cart]\n", ""))
    done = shop("amend", GOAL, "--yes")
    assert (done.code, "= task cart: already landed, unchanged" in done.out) == (0, True)
    written = shop.cli.here / "plan-amended.yaml"
    assert (sorted(shop.tasks()), "id: cart" in written.read_text()) == (["cart", "rates"], True)
    assert "has this plan already" in shop("amend", written.name).out


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo nonsense > plan.yaml\n", "a plan is a mapping"),
        ("echo I have no idea\n", "plan.yaml was not changed"),
        ("echo '# done' >> plan.yaml\n", "the plan is the same as before"),
        (
            "sed -i 's/goal: .*/goal: Another/; s/attempts: 1/attempts: 2/' plan.yaml\n",
            "goal: it must be exactly",
        ),
    ],
    ids=["no-plan", "nothing", "the-same", "another-goal"],
)
def test_an_answer_that_is_no_good_is_asked_for_again_and_then_told(
    shop: Shop, script: str, why: str
) -> None:
    """The planner gets its tries, told what was wrong; then nothing has changed."""
    shop.planner(script)
    done = shop("amend", GOAL, "--yes")
    assert (done.code, why in done.err, shop.asked) == (1, True, 3), done.err
    assert (shop.file.read_text(), shop.tasks()) == (PLAN, ["cart", "search"])
    assert why in (shop.root / "brief").read_text()


def test_a_plan_file_with_edits_of_the_user_is_left_alone(shop: Shop) -> None:
    """The run's own plan is what the planner changes, and the result is a file beside it; later goals go on there."""
    edited = PLAN.replace("attempts: 1", "attempts: 7")
    shop.file.write_text(edited)
    shop.answers(PLAN + RATES)
    assert shop("amend", GOAL, "--yes").code == 0
    beside = shop.cli.here / "plan-amended.yaml"
    assert (shop.file.read_text(), "id: rates" in beside.read_text()) == (edited, True)
    shop.planner(ADDS.replace("rates", "prices"))
    assert "plan-amended.yaml holds it" in shop("amend", "and prices", "--yes").out
    assert (shop.file.read_text(), "id: prices" in beside.read_text()) == (edited, True)
    assert shop.tasks() == ["cart", "search", "rates", "prices"]


def test_no_comment_of_the_user_is_lost(shop: Shop) -> None:
    """Neither to a planner that drops it, nor one that was written while the planner worked."""
    shop("amend", GOAL, "--dry-run")
    commented = PLAN.replace("- id: search", "- id: search  # ask Ada first")
    shop.file.write_text(commented)
    done = shop("amend", GOAL, "--yes")
    assert ("plan-amended.yaml holds it" in done.out, "was left alone" in done.err) == (True, True)
    assert (shop.file.read_text(), shop.tasks()) == (commented, ["cart", "search", "rates"])


def test_a_plan_file_that_is_gone_is_written_again(shop: Shop) -> None:
    """Whoever deleted it gets the plan of the run."""
    shop.file.unlink()
    shop.answers(PLAN + RATES)
    assert "plan.yaml holds it" in shop("amend", GOAL, "--yes").out
    assert "id: rates" in shop.file.read_text()
    assert "has this plan already" in shop("amend").out


def test_a_plan_in_json_stays_json(blocked: Cli, tmp_path: Path) -> None:
    """The planner may answer in YAML; the file of the run is still what its name says."""
    shop = Shop(blocked, tmp_path)
    (tmp_path / "bin").mkdir()
    shop.planner("sed -i 's/attempts: 1/attempts: 2/' plan.yaml\n")
    view = blocked(*("amend", "try twice", "--yes", "--json"), PATH=shop.path)
    assert ('"path": "plan.json"' in view.out, '"amended": true' in view.out) == (True, True), view.err
    assert '"attempts": 2' in (blocked.here / "plan.json").read_text()
    assert "has this plan already" in blocked("amend").out


def test_a_live_runner_takes_what_a_planner_adds(tmp_path: Path) -> None:
    """It is done beside the task under way, which no answer may drop."""
    at_work = Fifo(tmp_path / "at-work")
    shop = Shop.create(tmp_path, plan=PLAN.replace("test -e go", f"{at_work.give}; sleep 60"))
    runner = shop.start("run", "--yes")
    agent = int(at_work.wait())
    drops = "if grep -q 'answer 1' $HOLDFAST_BRIEF; then true; else sed -i '/id: search/,$d' plan.yaml; fi\n"
    shop.planner(drops + ADDS)
    done = shop("amend", GOAL, "--yes")
    assert (done.code, "Its runner goes on with it" in done.out) == (0, True), done.err
    assert ("task search is running and cannot be dropped" in done.out, shop.asked) == (True, 2)
    eventually(lambda: shop.cli.task("rates")["status"] == "completed", "rates landed")
    assert is_alive(agent)
    shop("stop")
    runner.wait()


def test_an_interrupted_planner_is_ended_and_nothing_changes(shop: Shop) -> None:
    """Ctrl-C: nobody goes on spending, and the next request plans anew."""
    at_work, go_on = Fifo(shop.root / "at-work"), Fifo(shop.root / "go-on")
    shop.planner(f"{at_work.give}; {go_on.take}\n{ADDS}")
    command = shop.start("amend", GOAL, "--yes")
    agent = int(at_work.wait())
    command.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert not is_alive(agent)
    assert (shop.file.read_text(), shop.tasks()) == (PLAN, ["cart", "search"])
    go_on.release()
    assert shop("amend", GOAL, "--yes").code == 0
    assert (shop.asked, shop.tasks()) == (2, ["cart", "search", "rates"])


def test_a_killed_command_is_taken_up_where_it_was(shop: Shop) -> None:
    """The planner outlives it, and is asked once."""
    at_work, go_on = Fifo(shop.root / "at-work"), Fifo(shop.root / "go-on")
    shop.planner(f"{at_work.give}; {go_on.take}\n{ADDS}")
    command = shop.start("amend", GOAL, "--yes")
    at_work.wait()
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()
    go_on.release()
    assert shop("amend", GOAL, "--yes").code == 0
    assert (shop.asked, shop.tasks()) == (1, ["cart", "search", "rates"])


@pytest.mark.parametrize("killed", [False, True], ids=["at work", "killed"])
def test_clean_leaves_a_planner_that_works(shop: Shop, *, killed: bool) -> None:
    """Also one that outlived its command: it is paid once, and a second command of the same words waits for the first."""
    at_work, go_on = Fifo(shop.root / "at-work"), Fifo(shop.root / "go-on")
    shop.planner(f"{at_work.give}; {go_on.take}\n{ADDS}")
    command = shop.start("amend", GOAL, "--yes")
    at_work.wait()
    if killed:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
    assert shop("clean", "--all", "--yes").code == 0
    if not killed:
        assert shop("amend", GOAL, "--yes").code == 4
    go_on.release()
    assert shop("amend", GOAL, "--yes").code == 0 if killed else command.wait() == 0
    assert (shop.asked, shop.tasks()) == (1, ["cart", "search", "rates"])


def test_clean_removes_what_a_planner_left(shop: Shop) -> None:
    """Its answer is kept elsewhere: the same words do not set it to work again."""
    assert shop("amend", GOAL, "--dry-run").code == 0
    assert shop("clean", "--all", "--yes").code == 0
    assert [folder.name for folder in (shop.cli.here / ".holdfast" / "runs").iterdir()] == [RUN]
    assert shop("amend", GOAL, "--yes").code == 0
    assert shop.asked == 1


def test_words_are_a_goal_and_names_are_not(shop: Shop) -> None:
    """A slip in the name of a run or a file sets no agent to work; a goal and a file at once are refused."""
    for words in (["rates"], ["my plan.yaml"], ["1", "other.yaml"], ["1", "plan.yaml", "--goal", GOAL]):
        assert shop("amend", *words, "--yes").code == 2, words
    assert shop.asked == 0


def test_a_planner_that_is_limited_to_a_sandbox_needs_a_goal(shop: Shop) -> None:
    """Nobody takes `amend --no-sandbox` for a change of the run."""
    done = shop("amend", "--no-sandbox", "--yes")
    assert (done.code, "--goal" in done.err) == (2, True)


def test_what_the_planner_used_is_told(shop: Shop) -> None:
    """The sum over its answers, as far as its stream says."""
    result = '{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":0.25,"usage":{"input_tokens":1000}}'
    shop.planner(f"grep -q 'answer 1' {shop.root}/brief && {{ {ADDS}}}\necho '{result}'\n")
    done = shop("amend", GOAL, "--dry-run")
    assert (done.code, shop.asked, "claude used $0.50, 2,000 tokens." in done.out) == (0, 2, True), done.out
