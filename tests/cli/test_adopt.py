"""`adopt` as a user gives it: what it finds, says and refuses."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from holdfast.core.plan import Plan, Stage, Task
from holdfast.runner.session import create_run
from tests.support.command import Cli, on_terminal
from tests.support.repositories import Project, fingerprint, git, write
from tests.support.runs import open_project_journal

AGENT = (
    '#!/bin/sh\ncat > /dev/null\necho "by $HOLDFAST_TASK" > "$HOLDFAST_TASK.txt"\n'
    """echo '{"type": "result", "subtype": "success", "result": "done"}'\n"""
)
SPEC = ".auto-claude/specs/001-login/implementation_plan.json"
STATE = "docs/tasks/thing/execute-state.json"


def _cli(tmp_path: Path) -> Cli:
    return Cli(Project.create(tmp_path / "p").path)


def _with_agent(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine on which `claude` is a script."""
    folder = tmp_path / "bin"
    write(folder / "claude", AGENT)
    (folder / "claude").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def _subtask(name: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"id": name, "description": f"Do {name}", "status": status, **more}


def _spec(cli: Cli, *subtasks: dict[str, Any], path: str = SPEC) -> None:
    """Write a spec of Auto-Claude with one phase."""
    phase = {"id": "phase-1", "name": "All", "subtasks": list(subtasks)}
    plan = {"feature": "Login", "workflow_type": "feature", "phases": [phase], "status": "in_progress"}
    write(cli.here / path, json.dumps(plan))


def _execute(cli: Cli, **tasks: Any) -> None:
    state = {"version": "2.0", "status": "in_progress", "tasks": tasks}
    write(cli.here / STATE, json.dumps(state))


def test_a_dry_run_shows_everything_and_changes_nothing(tmp_path: Path) -> None:
    """What would be adopted is told before anything is made."""
    cli = _cli(tmp_path)
    check = {"type": "command", "run": "make check-all"}
    _spec(cli, _subtask("subtask-1-1", "completed"), _subtask("subtask-1-2", verification=check))
    before = fingerprint(cli.here), git(cli.here, "for-each-ref")
    done = cli("adopt", ".", "--dry-run")
    assert done.code == 0
    assert "auto-claude 001-login" in done.out
    assert "no commit is recorded for it" in done.out
    assert "  runs: make check-all\n" in done.err
    assert (fingerprint(cli.here), git(cli.here, "for-each-ref")) == before
    assert not (cli.here / ".holdfast").exists()


def test_an_answer_in_advance_covers_what_adopt_has_listed(tmp_path: Path) -> None:
    """`--yes` lists every command and agent, then goes on; what changes after that is asked about."""
    cli, env = _cli(tmp_path), _with_agent(tmp_path)
    _execute(cli, **{"L1-001": {"status": "in_progress", "title": "One"}})
    done = cli("adopt", STATE, "--agent", "claude", "--yes", **env)
    assert done.code == 0, done.err
    assert "agent claude starts: claude " in done.err
    agents = cli.here / ".holdfast" / "agents.toml"
    agents.write_text(f'[claude]\ncommand = ["touch", "{tmp_path}/evil"]\n')
    assert (cli("resume", **env).code, (tmp_path / "evil").exists()) == (3, False)
    agents.unlink()
    assert cli("resume", **env).code == 0


def test_an_adopted_run_is_resumed_and_completed(tmp_path: Path) -> None:
    """From another system's crashed state to a completed run: two commands."""
    cli, env = _cli(tmp_path), _with_agent(tmp_path)
    cli.project.write("L1-001.txt", "done elsewhere\n")
    commit = cli.project.commit("L1-001: first")
    _execute(
        cli,
        **{
            "L1-001": {"status": "completed", "title": "One", "commit": commit},
            "L1-002": {"status": "in_progress", "title": "Two", "depends_on": ["L1-001"], "attempts": 1},
        },
    )
    done = cli("adopt", STATE, "--agent", "claude", "--yes", **env)
    assert done.code == 0, done.err
    assert "`holdfast resume 1`" in done.out
    assert cli("resume", "--yes", **env).code == 0
    run = cli.json("list")[0]["id"]
    files = git(cli.here, "ls-tree", "-r", "--name-only", f"holdfast/{run}")
    assert {"L1-001.txt", "L1-002.txt"} <= set(files.split())
    assert git(cli.here, "show", f"holdfast/{run}:L1-001.txt") == "done elsewhere"
    assert "done before it was adopted: L1-001" in cli("review").out


def test_list_and_status_say_where_a_run_came_from(tmp_path: Path) -> None:
    """Months later it is still known whose run this was."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    cli("adopt", SPEC, "--agent", "claude")
    assert "(from auto-claude 001-login)" in cli("list").out
    origin = cli.json("status")["run"]["adopted_from"]
    assert (origin["system"], origin["name"], origin["main"]) == ("auto-claude", "001-login", SPEC)


def test_several_runs_are_listed_with_the_commands_to_adopt_them(tmp_path: Path) -> None:
    """Without a terminal nothing is chosen for the user: exit 3, and what to type."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    _execute(cli, **{"L1-001": {"status": "pending", "title": "One"}})
    done = cli("adopt", ".")
    assert done.code == 3
    assert f"holdfast adopt {cli.here / SPEC}" in done.err
    assert f"holdfast adopt {cli.here / STATE}" in done.err
    assert {line["system"] for line in cli.json("adopt", ".", "--list")} == {"auto-claude", "execute"}


def test_the_tasks_of_apex_are_listed_its_own_way(tmp_path: Path) -> None:
    """`adopt --list` shows each APEX task with status, last phase, time, and whether it can be resumed."""
    cli = _cli(tmp_path)
    state = {
        "version": "1.0",
        "task_id": "01-add-auth",
        "updated_at": "2026-01-05T10:35:00Z",
        "completed_phases": [{"number": 0, "name": "init", "status": "PASS"}],
        "current_phase": {"number": 1, "name": "analyze", "status": "IN_PROGRESS"},
        "pending_phases": [{"number": 2, "name": "plan"}],
    }
    write(cli.here / ".claude/output/apex/01-add-auth/state.json", json.dumps(state))
    said = cli("adopt", ".", "--list").out
    assert "01-add-auth  IN_PROGRESS  analyze" in said
    assert "← resumable" in said


def test_a_half_adopted_run_says_everywhere_how_to_complete_it(tmp_path: Path) -> None:
    """Until all that is inherited is taken in, nothing may look as if it began from nothing."""
    cli = _cli(tmp_path)
    plan = Plan(goal="x", stages=(Stage(id="all", tasks=(Task(id="one", run=("true",)),)),))
    repo = cli.project.open()
    with open_project_journal(repo) as journal:
        create_run(repo, journal, plan, STATE, adopting="digest")
    way_out = f"`holdfast adopt {STATE}` completes it"
    assert way_out in cli("status").out
    for command in (("resume", "--yes"), ("resume", "--dry-run")):
        refused = cli(*command)
        assert (refused.code, way_out in refused.err) == (3, True)


def test_an_inherited_attempt_is_not_called_cut_short(tmp_path: Path) -> None:
    """How an attempt elsewhere ended is not known here; the task may have been called done."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1", "completed"))
    assert cli("adopt", ".", "--agent", "claude").code == 0
    foreseen = cli("resume", "--dry-run").out
    assert ("attempt 1 is over" in foreseen, "cut short" in foreseen) == (True, False)


def test_a_second_adoption_of_the_same_files_names_the_run_that_has_them(tmp_path: Path) -> None:
    """Nothing is adopted twice by mistake; --fresh does it on purpose."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    first = cli("adopt", SPEC, "--agent", "claude")
    again = cli("adopt", SPEC, "--agent", "claude")
    assert (first.code, again.code) == (0, 0)
    assert "has it already" in again.out
    assert len(cli.json("list")) == 1
    assert cli("adopt", SPEC, "--agent", "claude", "--fresh").code == 0
    assert len(cli.json("list")) == 2


def test_files_that_changed_since_are_a_decision(tmp_path: Path) -> None:
    """The other system went on after it was adopted: whether to begin anew is for the user to say."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    cli("adopt", SPEC, "--agent", "claude")
    _spec(cli, _subtask("subtask-1-1", "in_progress"))
    done = cli("adopt", SPEC, "--agent", "claude")
    assert done.code == 3
    assert "--fresh" in done.err


def test_the_list_shows_when_a_state_itself_says_it_was_changed(tmp_path: Path) -> None:
    """A copy or a checkout gives files new times; the state's own word is older and true. JSON says which it is."""
    cli = _cli(tmp_path)
    _execute(cli, a={"status": "pending"})
    state = json.loads((cli.here / STATE).read_text())
    write(cli.here / STATE, json.dumps({**state, "updated_at": "2025-01-11T10:15:00Z"}))
    _spec(cli, _subtask("subtask-1-1"))
    lines = {line["system"]: line for line in cli.json("adopt", ".", "--list")}
    assert lines["execute"]["updated_at"].startswith("2025-01-11T10:15:00")
    assert lines["execute"]["updated_by"] == "state"
    assert lines["auto-claude"]["updated_by"] == "file"
    assert lines["auto-claude"]["updated_at"] > "2026"
    assert "(file)" in cli("adopt", ".", "--list").out


def test_a_broken_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    """Half a JSON file is refused with the reason and a way out."""
    cli = _cli(tmp_path)
    write(cli.here / SPEC, '{"feature": "Login", "phases": [{')
    done = cli("adopt", SPEC)
    assert done.code == 2
    assert "breaks off" in done.err
    assert (cli.here / SPEC).read_text() == '{"feature": "Login", "phases": [{'


def test_a_broken_file_is_named_once_in_the_list(tmp_path: Path) -> None:
    """What is wrong with it stands below the list, under its name."""
    cli = _cli(tmp_path)
    write(cli.here / STATE, "{")
    said = cli("adopt", ".", "--list").out
    assert said.count(STATE) == 2, "once in the table, once with the reason"


def test_commands_to_adopt_are_quoted_for_the_shell(tmp_path: Path) -> None:
    """Whoever copies the line gets the file that was meant."""
    cli = _cli(tmp_path)
    for folder in ("my tasks", "others"):
        write(cli.here / folder / "execute-state.json", json.dumps({"tasks": {"a": {"status": "pending"}}}))
    path = cli.here / "my tasks/execute-state.json"
    assert f"holdfast adopt '{path}'" in cli("adopt", ".").err


def test_a_place_without_any_state_says_so(tmp_path: Path) -> None:
    """The error names what was looked for."""
    cli = _cli(tmp_path)
    for path in (".", "a.txt", "nowhere"):
        done = cli("adopt", path)
        assert done.code == 2
        assert "holdfast:" in done.err
    assert "holds no state file" in cli("adopt", ".").err


def test_nobody_to_work_is_a_decision(tmp_path: Path) -> None:
    """Without an agent on the machine, adopt asks for one rather than guess."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("git", "sh"):
        found = shutil.which(name)
        assert found
        (bare / name).symlink_to(found)
    done = cli("adopt", SPEC, PATH=str(bare))
    assert done.code == 3
    assert "--agent" in done.err


def test_a_living_process_is_warned_of(tmp_path: Path) -> None:
    """Two systems at work on the same files would undo each other."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    write(cli.here / SPEC.replace("implementation_plan.json", "build.lock"), f'{{"pid": {os.getpid()}}}')
    assert f"Process {os.getpid()} holds" in cli("adopt", SPEC, "--dry-run").out


def test_a_state_file_outside_any_repository_is_adopted_here(tmp_path: Path) -> None:
    """A copy that somebody sent is as good as the file at its place."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    elsewhere = tmp_path / "inbox" / "implementation_plan.json"
    elsewhere.parent.mkdir()
    shutil.move(cli.here / SPEC, elsewhere)
    done = cli("adopt", str(elsewhere), "--agent", "claude")
    assert done.code == 0, done.err
    assert cli.json("list")[0]["adopted_from"]["main"] == "implementation_plan.json"


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    """A state file that is a link to somewhere else is not read."""
    cli = _cli(tmp_path)
    secret = tmp_path / "secret.json"
    secret.write_text('{"feature": "x", "phases": [{"subtasks": [{"id": "a"}]}]}')
    (cli.here / SPEC).parent.mkdir(parents=True)
    (cli.here / SPEC).symlink_to(secret)
    assert cli("adopt", ".").code == 2


def test_on_a_terminal_the_user_chooses_which_run_and_what_counts(tmp_path: Path) -> None:
    """One key for the run, one for the tasks that are called done without proof."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1", "completed"), _subtask("subtask-1-2"))
    _execute(cli, **{"L1-001": {"status": "pending", "title": "One"}})
    code, screen = on_terminal(cli, "adopt", ".", "--agent", "claude", answers="1t")
    assert code == 0, screen
    assert "Which one?" in screen
    assert cli.task("subtask-1-1")["status"] == "completed"


def test_one_task_without_proof_is_it_and_several_are_them(tmp_path: Path) -> None:
    """The summary says what happens to the tasks that are called done, in the right number."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1", "completed"), _subtask("subtask-1-2"))
    shown = cli("adopt", SPEC, "--dry-run").out
    assert "1 task called done without proof. An agent looks at it again, unless" in shown
    _spec(cli, _subtask("subtask-1-1", "completed"), _subtask("subtask-1-2", "completed"))
    shown = cli("adopt", SPEC, "--dry-run").out
    assert "2 tasks called done without proof. An agent looks at them again, unless" in shown


def test_quitting_on_the_terminal_adopts_nothing(tmp_path: Path) -> None:
    """The question has a way out that changes nothing."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1", "completed"))
    code, _ = on_terminal(cli, "adopt", SPEC, "--agent", "claude", answers="q")
    assert code == 3
    assert cli.json("list") == []


def test_a_lost_journal_is_told_of_before_the_same_files_are_adopted_again(tmp_path: Path) -> None:
    """Git still knows the run: rebuilding it is better than a second one."""
    cli = _cli(tmp_path)
    _spec(cli, _subtask("subtask-1-1"))
    cli("adopt", SPEC, "--agent", "claude")
    (cli.here / ".holdfast" / "journal.db").unlink()
    assert "`holdfast rebuild` restores it" in cli("adopt", SPEC, "--agent", "claude").err


def test_many_tasks_cost_no_more_git_processes_than_few(tmp_path: Path) -> None:
    """A state of a thousand tasks is adopted in well under a second: git is asked about all of them at once."""

    def processes(tasks: int) -> int:
        cli = _cli(tmp_path / str(tasks))
        commit = cli.project.commit("all of it")
        done = {"status": "completed", "title": "Done", "commit": commit}
        _execute(cli, **{f"L1-{number:03}": done for number in range(tasks)})
        log = tmp_path / f"{tasks}.log"
        write(tmp_path / "bin" / "git", f'#!/bin/sh\necho x >> {log}\nexec {shutil.which("git")} "$@"\n')
        (tmp_path / "bin" / "git").chmod(0o755)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        assert cli("adopt", STATE, "--agent", "claude", PATH=path).code == 0
        return len(log.read_text().splitlines())

    assert processes(150) == processes(2)


HOME = ".claude/output/apex/01-add-auth"


def _half_lost(tmp_path: Path) -> Cli:
    """Return a project whose APEX task lost its state and the output of one phase."""
    cli = Cli(Project.create(tmp_path / "p").path)
    write(
        cli.here / HOME / "00-init.md",
        "# Status: PASS\n\n## Task\nAdd auth\n\n## Phase Plan\n- plan\n- execute\n- finish\n",
    )
    write(cli.here / HOME / "01-analyze.md", "# Status: PASS\n")
    write(cli.here / HOME / "03-execute.md", "it wor")
    return cli


def _open_tasks(cli: Cli) -> list[str]:
    tasks: list[dict[str, Any]] = cli.json("status")["tasks"]
    return [task["id"] for task in tasks if task["status"] != "skipped"]


def test_a_task_whose_state_is_gone_is_found_by_its_outputs(tmp_path: Path) -> None:
    """What its phases wrote is enough, and each place where it may go on is named."""
    shown = _half_lost(tmp_path)("adopt", ".", "--dry-run", "--agent", "claude")
    assert shown.code == 0
    assert "state.json is missing" in shown.out
    assert shown.out.count("The run may continue here") == 3


def test_the_user_is_asked_where_to_continue(tmp_path: Path) -> None:
    """On a terminal one key chooses; what is before the choice is done with."""
    cli = _half_lost(tmp_path)
    code, screen = on_terminal(cli, "adopt", ".", "--agent", "claude", answers="3y\n")
    assert (code, "Where does it continue?" in screen) == (0, True)
    assert "11-finish" in _open_tasks(cli)
    assert "3-execute" not in _open_tasks(cli)


def test_the_place_can_be_named_at_once(tmp_path: Path) -> None:
    """`--from` needs no terminal; a name that is none of the tasks is answered with the nearest."""
    cli = _half_lost(tmp_path)
    wrong = cli("adopt", ".", "--agent", "claude", "--from", "3-exekute")
    assert (wrong.code, "3-execute" in wrong.err) == (2, True)
    told = cli("adopt", ".", "--agent", "claude", "--from", "3-execute", "--yes", "--json")
    assert json.loads(told.out)
    assert _open_tasks(cli)[-2:] == ["3-execute", "11-finish"]
    assert "2-plan" not in _open_tasks(cli)


def test_without_a_terminal_the_earliest_place_is_taken(tmp_path: Path) -> None:
    """Doing something again is safe; leaving something out is not."""
    cli = _half_lost(tmp_path)
    assert cli("adopt", ".", "--agent", "claude", "--yes").code == 0
    assert {"2-plan", "3-execute", "11-finish"} <= set(_open_tasks(cli))


def test_a_run_that_is_completed_is_not_offered_to_be_continued(tmp_path: Path) -> None:
    """Adopting the same files again tells where the result is instead."""
    cli = _cli(tmp_path)
    _execute(cli, first={"status": "pending", "prompt": "Do it"})
    env = _with_agent(tmp_path)
    assert cli("adopt", STATE, "--agent", "claude", "--yes", **env).code == 0
    assert cli("resume", "--yes", "--no-sandbox", **env).code == 0
    said = cli("adopt", STATE, "--agent", "claude").out
    assert "It is completed: `holdfast review 1` shows the result" in said
    assert "resume" not in said
