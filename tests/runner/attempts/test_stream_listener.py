"""What agents' streams lead to while real processes write them: budgets, refusals, full contexts, sessions."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, start_runner
from tests.support.scripted_agents import DONE, SAID, THREAD, codex, fails, once, say, trial, uses, work

FOREVER = "sleep 600"


def test_an_error_with_exit_status_zero_is_a_failure(tmp_path: Path) -> None:
    """Exit status and word are hints; the error event counts, and the next attempt is told of it."""
    script = once(tmp_path / "hit", f"echo x > f.txt; {say(fails('stream closed'))}; exit 0", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert (failed.failure, "stream closed" in failed.error) == (FailureKind.AGENT, True)
    assert "stream closed" in run.brief("t", 2)


def test_output_that_is_skipped_takes_the_last_word_back(tmp_path: Path) -> None:
    """An error that came after the last word went down in a flood of output: nobody read it, and nothing lands."""
    go_on, flood = Fifo(tmp_path / "on"), "yes 'a line of a program that never ends' | head -c 20000000"
    script = f"echo x > f.txt; {say(THREAD, SAID, DONE)}; {go_on.take}; {say(fails('no'))}; {flood}"
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"attempts": 1})
    runner = start_runner(run)
    while run.state().tasks["t"].latest.session != "T-1":
        assert runner.poll() is None
    go_on.release()
    assert runner.communicate()[0].decode().strip() == "blocked"
    (failure,) = run.state().tasks["t"].failures
    assert failure.kind in (FailureKind.UNFINISHED, FailureKind.AGENT)


def test_done_without_a_change_is_fed_back(tmp_path: Path) -> None:
    """An agent that says it is done and changed nothing is told so."""
    script = once(tmp_path / "hit", say(THREAD, DONE), work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    assert [failed.failure for failed in run.of_kind(ev.AttemptFailed)] == [FailureKind.NO_CHANGE]


def test_a_full_context_is_followed_by_a_fresh_agent_with_what_was_achieved(tmp_path: Path) -> None:
    """The work is kept, the brief says what happened, and the attempt is charged."""
    full = fails("Codex ran out of room in the model's context window.")
    script = once(
        tmp_path / "hit", f"echo half > half.txt; {say(full)}; exit 1", f"test -f half.txt && {work()}"
    )
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    assert "context window was full" in run.brief("t", 2)
    assert run.state().tasks["t"].charged == 1


def test_refused_credentials_block_the_run_with_the_way_out(tmp_path: Path) -> None:
    """No attempt is burnt; the second task does not even start; after a resume it goes on."""
    script = once(tmp_path / "hit", f"{say(fails('unexpected status 401 Unauthorized'))}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", "u", agents={"a": codex(script)}, limits={"jobs": 1})
    assert run.execute() is RunStatus.BLOCKED
    row = run.stored().row
    assert "401" in row.reason
    assert "holdfast resume" in row.reason
    assert (run.state().tasks["t"].charged, run.state().tasks["u"].attempt) == (0, 0)
    assert run.execute() is RunStatus.COMPLETED


def test_an_agent_that_waits_for_permission_is_ended_and_reported(tmp_path: Path) -> None:
    """Nobody will answer: it is not waited for in silence, and what it wanted is named."""
    asks = {
        "type": "message",
        "message": {"content": [{"type": "toolConfirmationRequest", "toolName": "rm"}]},
    }
    agent = {"command": ["sh", "-c", f"{say(asks)}; {FOREVER}"], "stream": "goose"}
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": agent})
    assert run.execute() is RunStatus.BLOCKED
    assert "use rm" in run.stored().row.reason
    assert run.state().tasks["t"].charged == 0


def test_an_agent_that_spends_its_budget_is_ended_while_it_works(tmp_path: Path) -> None:
    """Tokens per attempt are a bound as time is; the failure says so and the work is kept."""
    script = once(tmp_path / "hit", f"echo half > half.txt; {say(THREAD, uses(500))}; {FOREVER}", work())
    run = trial(
        Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"attempt_tokens": 400}
    )
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert (failed.failure, failed.error) == (
        FailureKind.BUDGET,
        "the budget of 400 tokens for an attempt (limits.attempt_tokens) is spent: its stream says 500 tokens",
    )
    assert run.show("half.txt") == "half"


def test_a_run_that_spends_its_tokens_ends_its_agents_and_blocks(tmp_path: Path) -> None:
    """The budget of the run is enforced while agents work."""
    script = f"echo x > $HOLDFAST_TASK.txt; {say(uses(500))}; {FOREVER}"
    run = trial(Project.create(tmp_path / "p"), "t", "u", agents={"a": codex(script)}, limits={"tokens": 900})
    assert run.execute() is RunStatus.BLOCKED
    assert "900 tokens" in run.stored().row.reason
    assert run.stored().row.tokens == 1000


def test_a_run_whose_budget_is_spent_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    """Without one it blocks again and says how; the plan itself never changes."""
    script = once(tmp_path / "hit", f"echo half > half.txt; {say(THREAD, uses(500))}; {FOREVER}", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"tokens": 400})
    assert run.execute() is RunStatus.BLOCKED
    assert run.execute() is RunStatus.BLOCKED
    assert "--tokens N` raises it to N" in run.stored().row.reason
    assert run.execute(tokens=5_000) is RunStatus.COMPLETED


def test_tokens_and_cost_are_recorded_with_the_attempt(tmp_path: Path) -> None:
    """What the stream told is on the task's and the run's account once."""
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(work())})
    run.execute()
    task = run.state().tasks["t"]
    assert (task.tokens, run.stored().row.tokens, task.latest.session) == (100, 100, "T-1")


def test_a_killed_runners_tokens_are_counted_once(tmp_path: Path) -> None:
    """The next runner reads the whole stream again; the totals stay what they are."""
    at_work, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    script = f"{say(THREAD, uses(70))}; {at_work.give}; {go_on.take}; echo x > t.txt; {say(uses(100))}"
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    runner = start_runner(run)
    at_work.wait()
    while not run.state().tasks["t"].tokens:
        assert runner.poll() is None
    runner.kill()
    runner.communicate()
    go_on.release()
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["t"].tokens == 100


def _message(name: str, tokens: int) -> dict[str, object]:
    usage = {"input_tokens": tokens, "output_tokens": 0}
    return {"type": "assistant", "session_id": "S-1", "message": {"id": name, "usage": usage}}


def test_a_long_stream_that_is_not_read_again_keeps_what_was_heard_of_it(tmp_path: Path) -> None:
    """The next runner goes on near the end of many megabytes: tokens and session of the rest are those on record."""
    at_work, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    flood = "yes 'a line that says nothing at all, as long as it is' | head -c 12000000"
    end = {"type": "result", "subtype": "success", "result": "done"}
    first, then = f"{say(_message('m1', 70))}; {at_work.give}; {go_on.take}", say(_message("m2", 50), end)
    script = f"{first}; {flood}; echo; {then}; echo x > t.txt"
    agent = {"command": ["sh", "-c", script], "stream": "claude"}
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": agent})
    runner = start_runner(run)
    at_work.wait()
    while not run.state().tasks["t"].tokens:
        assert runner.poll() is None
    runner.kill()
    runner.communicate()
    go_on.release()
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert (task.tokens, task.latest.session) == (120, "S-1")


def _resuming(tmp_path: Path, first: str) -> tuple[str, Path]:
    """Return a script that fails first and then notes how it was started."""
    told = tmp_path / "argv"
    return once(tmp_path / "hit", first, f'echo "$@" > {told}; {work()}'), told


def _codex_file(project: Project, script: str) -> None:
    state = project.path / ".holdfast"
    state.mkdir(exist_ok=True)
    words = json.dumps(["sh", "-c", script, "sh"])
    resume = json.dumps(["sh", "-c", script, "sh", "resume", "{session}"])
    (state / "agents.toml").write_text(
        f'[mine]\npreset = "codex"\ncommand = {words}\nresume = {resume}\nprompt = "file"\n'
    )


def test_native_resume_goes_on_with_the_agents_own_session(tmp_path: Path) -> None:
    """Asked for, and the workspace unchanged: the next attempt names the session, and the brief knows it."""
    project = Project.create(tmp_path / "p")
    script, told = _resuming(tmp_path, f"{say(THREAD, fails('oops'))}; echo half > half.txt; exit 1")
    _codex_file(project, script)
    agents = {"a": {"preset": "mine"}}
    run = trial(project, "t", agents=agents, known=["mine"])
    assert run.execute(native_resume=True) is RunStatus.COMPLETED
    assert told.read_text().split() == ["resume", "T-1"]
    assert "your own session" in run.brief("t", 2)


def test_a_fresh_agent_is_the_default(tmp_path: Path) -> None:
    """Nobody asked: the next attempt knows nothing but its brief."""
    project = Project.create(tmp_path / "p")
    script, told = _resuming(tmp_path, f"{say(THREAD, fails('oops'))}; echo half > half.txt; exit 1")
    _codex_file(project, script)
    run = trial(project, "t", agents={"a": {"preset": "mine"}}, known=["mine"])
    assert run.execute() is RunStatus.COMPLETED
    assert told.read_text().split() == []


def test_an_agent_without_a_known_session_starts_fresh_and_it_is_said(tmp_path: Path) -> None:
    """Which of the two it was is on record."""
    project = Project.create(tmp_path / "p")
    script, _ = _resuming(tmp_path, f"{say(fails('oops'))}; exit 1")
    _codex_file(project, script)
    agents = {"a": {"preset": "mine", "native_resume": True}}
    run = trial(project, "t", agents=agents, known=["mine"])
    assert run.execute() is RunStatus.COMPLETED
    second = run.of_kind(ev.AttemptStarted)[1]
    assert (second.session, second.fresh_because) == ("", "no session of the last attempt is known")
