"""X6: an agent that orchestrates by itself leads a run over MCP, from opening it to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import ids
from tests.mcp_server.lead_client import STARTED, RefusedError, asks, leading, led, plan_of
from tests.support.command import Cli
from tests.support.repositories import Project, write
from tests.support.runs import Trial

CHAIN = 20
TWO = plan_of(asks("a"), asks("b", needs=["a"]))


def test_a_whole_run_is_led_by_a_client(tmp_path: Path) -> None:
    """Tasks become ready in the plan's order, and what is completed is checked, merged and landed."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path, "--yes", server=STARTED) as leader:
            opened = await leader(
                "open_run", plan=plan_of(asks("a"), asks("b", needs=["a"]), verify=["test -f a.txt"])
            )
            assert [ready["task"] for ready in opened["standing"]["ready"]] == ["a"]
            for task in ("a", "b"):
                assert (await leader.work(task))["status"] == "completed"
            assert (await leader("list_ready", wait_s=60))["status"] == "completed"

    led(play)
    trial = Trial(project, "01-try-it")
    assert trial.landed() == ["a", "b"]
    assert trial.show("b.txt") == "b"
    assert trial.violations() == []


def test_a_dependent_can_be_claimed_right_after_what_it_needs(tmp_path: Path) -> None:
    """Completing answers when the landing is decided, and claiming waits for the workspace and the gates behind it."""
    names = [f"t{number}" for number in range(CHAIN)]
    in_line = [
        asks(name, **({"needs": [before]} if before else {}))
        for name, before in zip(names, ["", *names], strict=False)
    ]
    stages = [
        {"id": f"s{at}", "tasks": [_first_free(task) for task in in_line[at : at + 5]]}
        for at in range(0, CHAIN, 5)
    ]
    plan = msgspec.json.decode(plan_of())
    del plan["tasks"]
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path, "--yes") as leader:
            await leader("open_run", plan=msgspec.json.encode({**plan, "stages": stages}).decode(), jobs=2)
            for name in names:
                claim = await leader("claim_task", task=name)
                write(Path(claim["workspace"]) / f"{name}.txt", name)
                done = await leader("complete_task", task=name, token=claim["token"])
                assert done["status"] == "completed"

    led(play)
    assert Trial(project, "01-try-it").landed() == names


def _first_free(task: dict[str, Any]) -> dict[str, Any]:
    """Return the first task of a stage without needs: its stage waits for the one before."""
    return {key: part for key, part in task.items() if key != "needs" or int(task["id"][1:]) % 5}


def test_what_waits_for_the_client_itself_is_refused_at_once(tmp_path: Path) -> None:
    """A claim does not wait for what only the client can bring about, nor for a task that is not there."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), asks("b", needs=["a"])))
            with pytest.raises(RefusedError, match="task b is not ready"):
                await leader("claim_task", task="b", wait_s=600)
            claim = await leader("claim_task", task="a")
            with pytest.raises(RefusedError, match="task b is not ready"):
                await leader("claim_task", task="b", wait_s=600)
            with pytest.raises(RefusedError, match="there is no task c"):
                await leader("claim_task", task="c", wait_s=600)
            await leader("release_task", task="a", token=claim["token"])

    led(play)


def test_a_plan_to_be_led_needs_no_agent(tmp_path: Path) -> None:
    """The client works itself. The same plan is the same run, also when it is opened again."""
    project = Project.create(tmp_path / "p")
    plan = msgspec.json.encode(
        {"holdfast": 1, "goal": "Try it", "tasks": [asks("a"), asks("b", needs=["a"])]}
    ).decode()

    async def play() -> None:
        async with leading(project.path) as leader:
            assert not (await leader("open_run", plan=plan))["resumed"]
            assert (await leader.work("a"))["status"] == "completed"
            await leader("pause_run", now=True)
            assert (await leader("open_run", plan=plan))["resumed"]
            assert (await leader.work("b"))["status"] == "completed"

    led(play)
    assert Trial(project, "01-try-it").landed() == ["a", "b"]


def test_a_plan_file_of_the_repository_can_be_opened(tmp_path: Path) -> None:
    """Opened again later, it is the same run."""
    project = Project.create(tmp_path / "p")
    write(project.path / "plan.json", TWO)

    async def play() -> None:
        async with leading(project.path) as leader:
            assert not (await leader("open_run", plan_file="plan.json"))["resumed"]
            await leader.work("a")
            assert (await leader("pause_run", now=True))["status"] == "paused"
            again = await leader("open_run", plan_file="plan.json")
            assert (again["run"], again["resumed"]) == ("01-try-it", True)
            assert (await leader.work("b"))["status"] == "completed"

    led(play)
    assert Trial(project, "01-try-it").landed() == ["a", "b"]


def test_failed_checks_make_the_task_ready_again_with_feedback(tmp_path: Path) -> None:
    """The leading agent learns at once that its work did not hold, and the next brief says why."""
    project = Project.create(tmp_path / "p")
    plan = plan_of(asks("a", verify=["grep good a.txt || { echo it is not good; false; }"]))

    async def play() -> None:
        async with leading(project.path, "--yes") as leader:
            await leader("open_run", plan=plan)
            refused = await leader.work("a", "bad\n")
            assert refused["status"] == "failed"
            assert "grep good" in refused["error"]
            claim = await leader.claim("a")
            assert "it is not good" in claim["brief"]
            assert (Path(claim["workspace"]) / "a.txt").read_text() == "bad\n"
            write(Path(claim["workspace"]) / "a.txt", "good\n")
            done = await leader("complete_task", task="a", token=claim["token"])
            assert done["status"] == "completed"

    led(play)


def test_a_checkpoint_saves_the_work_and_says_how_far_it_is(tmp_path: Path) -> None:
    """Both are known to everybody while the task is under way."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "a.txt", "half\n")
            token = claim["token"]
            kept = await leader("checkpoint", task="a", token=token, progress=50, section_next="the rest")
            assert project.git("show", f"{kept['commit']}:a.txt") == "half"
            assert Cli(project.path).task("a")["progress"] == 50
            same = await leader("checkpoint", task="a", token=token)
            assert same["commit"] == kept["commit"]

    led(play)


def test_a_claim_that_reports_more_than_its_budget_is_ended(tmp_path: Path) -> None:
    """Money over MCP binds like any other: the claim is over, its work is kept, and the next one is told why."""
    project = Project.create(tmp_path / "p")
    plan = plan_of(asks("a"), limits={"attempt_cost_usd": 1})

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan)
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "a.txt", "half\n")
            await leader("checkpoint", task="a", token=claim["token"], cost_usd=0.75)
            await leader("checkpoint", task="a", token=claim["token"], cost_usd=0.75)
            again = (await leader("list_ready", wait_s=30))["ready"]
            assert [task["task"] for task in again] == ["a"]
            with pytest.raises(RefusedError, match="not held any more"):
                await leader("complete_task", task="a", token=claim["token"])
            second = await leader.claim("a")
            assert "its agent reported $1.50" in second["brief"]
            assert (Path(second["workspace"]) / "a.txt").read_text() == "half\n"

    led(play)


def test_a_checkpoint_that_could_not_be_saved_is_refused_with_the_reason(tmp_path: Path) -> None:
    """The agent must not take the checkpoint before it for this one. It still holds its claim."""
    project = Project.create(tmp_path / "p")
    lock = project.git_dir / f"{ids.snapshot_ref('01-try-it', 'a')}.lock"

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "a.txt", "half\n")
            write(lock, "")
            with pytest.raises(RefusedError, match="could not save a: ") as refused:
                await leader("checkpoint", task="a", token=claim["token"])
            assert refused.value.kind == "NotSavedError"
            lock.unlink()
            assert (await leader("checkpoint", task="a", token=claim["token"]))["commit"]

    led(play)


def test_a_failed_task_tells_the_next_attempt_why(tmp_path: Path) -> None:
    """The reason reaches the brief, the work is kept."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "part.txt", "part\n")
            failed = await leader(
                "fail_task", task="a", token=claim["token"], reason="the API has no such call"
            )
            assert failed["error"] == "the API has no such call"
            claim = await leader.claim("a")
            assert "the API has no such call" in claim["brief"]
            assert (Path(claim["workspace"]) / "part.txt").exists()

    led(play)


def test_a_released_task_is_ready_again_and_charged_nothing(tmp_path: Path) -> None:
    """Giving a task back costs no attempt, even where there is only one."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), limits={"attempts": 1}))
            for _ in range(2):
                claim = await leader.claim("a")
                await leader("release_task", task="a", token=claim["token"])
            assert (await leader.work("a"))["status"] == "completed"

    led(play)


def test_a_leader_asks_a_person_about_a_task(tmp_path: Path) -> None:
    """The task waits, with its work, and is ready again with the answer in its brief."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), asks("b"), limits={"attempts": 1}))
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "half.txt", "half\n")
            question = {"question": "Postgres or SQLite?", "options": ["Postgres", "SQLite"]}
            asked = await leader("ask_person", task="a", token=claim["token"], **question)
            assert (asked["status"], asked["question"]) == ("blocked", "Postgres or SQLite?")
            answered = await asyncio.to_thread(Cli(project.path), "answer", "a", "2")
            assert answered.code == 0, answered.err
            claim = await leader.claim("a")
            assert "The answer: SQLite" in claim["brief"]
            assert (Path(claim["workspace"]) / "half.txt").exists()

    led(play)


def test_a_stale_token_is_refused(tmp_path: Path) -> None:
    """Whoever lost a claim can change nothing, though the same task is claimed again."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            old = (await leader.claim("a"))["token"]
            await leader("release_task", task="a", token=old)
            await leader.claim("a")
            for tool in ("heartbeat", "checkpoint", "complete_task", "release_task"):
                with pytest.raises(RefusedError, match="not held any more") as refused:
                    await leader(tool, task="a", token=old)
                assert refused.value.kind == "ClaimError"
                assert "claim anew" in refused.value.hint

    led(play)


def test_a_task_held_in_silence_is_taken_back_and_its_work_kept(tmp_path: Path) -> None:
    """Without a sign of life for the stall time the attempt is over; the next one goes on from what was there."""
    project = Project.create(tmp_path / "p")
    plan = plan_of(asks("a"), limits={"stall": "1s", "retry_delay": "0s"})

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan)
            claim = await leader.claim("a")
            write(Path(claim["workspace"]) / "half.txt", "half\n")
            again = await leader.claim("a")
            assert "no sign of life" in again["brief"]
            assert (Path(again["workspace"]) / "half.txt").exists()
            with pytest.raises(RefusedError, match="not held any more"):
                await leader("complete_task", task="a", token=claim["token"])

    led(play)


def test_two_clients_cannot_lead_the_same_run(tmp_path: Path) -> None:
    """The second is told who holds it; the first is not disturbed."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as first, leading(project.path) as second:
            await first("open_run", plan=TWO)
            with pytest.raises(RefusedError, match="held by another") as refused:
                await second("open_run", plan=TWO)
            assert refused.value.kind == "LeaseHeldError"
            assert (await first.work("a"))["status"] == "completed"

    led(play)


def test_commands_of_a_plan_need_the_users_agreement(tmp_path: Path) -> None:
    """A plan is no way round what an agent may run; the user agrees once, to that very plan."""
    project = Project.create(tmp_path / "p")
    write(project.path / "plan.json", plan_of(asks("a"), verify=["touch ran"]))

    async def play() -> None:
        async with leading(project.path) as leader:
            with pytest.raises(RefusedError, match="touch ran") as refused:
                await leader("open_run", plan_file="plan.json")
            assert "holdfast mcp --agree" in refused.value.hint
            assert Cli(project.path)("mcp", "--agree", "plan.json", "--yes").code == 0
            await leader("open_run", plan_file="plan.json")
            assert (await leader.work("a"))["status"] == "completed"

    led(play)


def test_only_plan_files_of_the_repository_are_read(tmp_path: Path) -> None:
    """A client cannot have files from elsewhere read, or quoted in an error."""
    project = Project.create(tmp_path / "p")
    write(tmp_path / "plan.json", TWO)

    async def play() -> None:
        async with leading(project.path) as leader:
            for path in ("../plan.json", "/etc/passwd", ".holdfast/plan.json", "nothing.yaml"):
                with pytest.raises(RefusedError) as refused:
                    await leader("open_run", plan_file=path)
                assert refused.value.kind == "PlanError"

    led(play)


def test_commands_run_by_themselves_while_the_rest_is_led(tmp_path: Path) -> None:
    """A task that is a command needs no agent: it is done when its turn comes."""
    project = Project.create(tmp_path / "p")
    plan = plan_of({"id": "made", "run": ["sh", "-c", "echo made > made.txt"]}, asks("a", needs=["made"]))

    async def play() -> None:
        async with leading(project.path, "--yes") as leader:
            await leader("open_run", plan=plan)
            claim = await leader.claim("a")
            assert (Path(claim["workspace"]) / "made.txt").exists()

    led(play)


def test_a_pause_from_outside_lets_claims_finish_and_takes_offers_back(tmp_path: Path) -> None:
    """`holdfast pause` works on a led run: nothing more is offered, what is claimed may be completed."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), asks("b"), asks("c", needs=["a"])))
            claim = await leader.claim("a")
            assert Cli(project.path)("pause", "--wait", "0").code == 0
            while (await leader("list_ready"))["ready"]:
                continue
            write(Path(claim["workspace"]) / "a.txt", "a\n")
            await leader("complete_task", task="a", token=claim["token"])
            assert (await leader("list_ready", wait_s=60))["status"] == "paused"

    led(play)
    assert Trial(project, "01-try-it").landed() == ["a"]


def test_an_agent_that_forgot_everything_is_told_what_it_holds(tmp_path: Path) -> None:
    """After a compaction the brief gives back goal, landed work, claims with their tokens, and what is ready."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), asks("b", needs=["a"]), asks("c", needs=["a"])))
            await leader.work("a")
            claim = await leader.claim("b")
            text = (await leader("resume_brief"))["text"]
            assert "Try it" in text
            assert "a: landed as" in text
            assert claim["token"] in text
            assert claim["workspace"] in text

    led(play)


def test_the_stream_of_the_plans_agent_is_not_asked_of_a_leader(tmp_path: Path) -> None:
    """A plan for an agent whose own event stream would be judged is led all the same: a claim has no stream."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=plan_of(asks("a"), asks("b", agent="codex"), agent="claude"))
            for task in ("a", "b"):
                assert (await leader.work(task))["status"] == "completed"

    led(play)


def test_a_wait_that_is_no_number_holds_nothing_up(tmp_path: Path) -> None:
    """A timer set to it would keep all others of the server from going off, a checkpoint's among them."""
    project = Project.create(tmp_path / "p")

    async def play() -> None:
        async with leading(project.path) as leader:
            await leader("open_run", plan=TWO)
            claim = await leader.claim("a")
            assert (await leader("list_ready", wait_s="nan"))["ready"] == []
            write(Path(claim["workspace"]) / "a.txt", "half\n")
            assert (await leader("checkpoint", task="a", token=claim["token"]))["commit"]

    led(play)


@pytest.mark.parametrize("text", ["a\0b", "x" * 5000, "\x1b]0;x\x07", "../" * 2000])
def test_a_text_that_nothing_can_be_called_is_refused_by_every_tool(tmp_path: Path, text: str) -> None:
    """Each tool says so; the server lives on, and prints no trace of its own calls."""

    async def play() -> None:
        project = Project.create(tmp_path / "p")
        async with leading(project.path, "--yes") as leader:
            for name in ("run", "plan_file", "plan", "agent"):
                with pytest.raises(RefusedError):
                    await leader(
                        "open_run",
                        **({"plan": plan_of(asks("a"))} if name == "agent" else {}),
                        **{name: text},
                    )
            await leader("open_run", plan=plan_of(asks("a")))
            claim = await leader.claim("a")
            with pytest.raises(RefusedError):
                await leader("claim_task", task=text)
            for tool in ("heartbeat", "checkpoint", "complete_task", "release_task"):
                with pytest.raises(RefusedError):
                    await leader(tool, task=text, token=claim["token"])
                with pytest.raises(RefusedError):
                    await leader(tool, task="a", token=text)
            assert (await leader("release_task", task="a", token=claim["token"])) is not None

    led(play)
