"""`holdfast worker` and `--fleet`: a run whose agents and checks work on hosts ends as one on this machine does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.command import Cli, run_program
from tests.support.fleet_hosts import remote_setup, shared_worker, until
from tests.support.repositories import git
from tests.support.temporal_server import temporal_port

pytestmark = pytest.mark.temporal


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """The address of a fleet with one worker."""
    git(tmp_path, "init", "--quiet", "--bare", str(tmp_path / "exchange.git"))
    label = shared_worker().labels
    return f"temporal://127.0.0.1:{temporal_port()}?git={tmp_path}/exchange.git&ttl=60&labels={label}"


def tree_of(cli: Cli) -> str:
    """Return the files of the run's branch."""
    return cli.project.git("ls-tree", "-r", "holdfast/01-try-it")


def shell(script: str) -> list[str]:
    """Return a task's command."""
    return ["sh", "-c", script]


TASKS = (
    {
        "id": "T1",
        "run": shell("cat made-by-setup && echo one > one.txt && rm a.txt && mkdir d && echo x > d/x"),
    },
    {
        "id": "T2",
        "run": shell(
            "printf 'a\\000b' > two.bin; chmod +x two.bin; git add two.bin; git commit -qm mine; echo 3 > three"
        ),
    },
    {
        "id": "T3",
        "needs": ["T1", "T2"],
        "run": shell("cat one.txt three > four; holdfast report progress 40; pwd"),
    },
)
PLAN = {
    "verify": ["test -f made-by-setup && touch built.log", "test -f built.log"],
    "workspace": {"setup": ["echo s > made-by-setup"]},
}


def test_what_lands_is_what_lands_on_one_machine(tmp_path: Path, fleet: str) -> None:
    """New, changed, removed and binary files, an agent's own commit, set-up, and checks that build on each other."""
    here, there = (Cli.of(tmp_path / name, *TASKS, **PLAN) for name in ("here", "there"))
    assert here("run", "--yes", "--no-sandbox").code == 0
    done = there("run", "--yes", "--no-sandbox", "--fleet", fleet)
    assert done.code == 0, done.out + done.err
    assert tree_of(there) == tree_of(here)
    assert str(shared_worker().home) in there("logs", "1", "T3").out
    said = msgspec.json.decode(there("inspect", "1", "T3", "--json").out)
    assert '"progress":40' in msgspec.json.encode(said).decode()


def test_a_runner_that_was_killed_goes_on_with_the_same_agent(tmp_path: Path, fleet: str) -> None:
    """The agent is on its host meanwhile. `resume` needs no --fleet: a run stays on the one that it began on."""
    ran, gate = tmp_path / "ran", tmp_path / "gate"
    os.mkfifo(gate)
    cli = Cli.of(
        tmp_path / "project", {"id": "T1", "run": shell(f"echo $$ >> {ran}; cat {gate}; echo 1 > one")}
    )
    runner = cli.start("run", "--yes", "--no-sandbox", "--fleet", fleet)
    until(lambda: ran.exists() and ran.read_text() != "", "the agent began")
    runner.kill()
    runner.wait()
    refused = cli("resume", "1", "--yes", "--fleet", "local")
    assert refused.code == 3
    assert "began on temporal://" in refused.err
    resumed = cli.start("resume", "1", "--yes", "--no-sandbox")
    gate.write_text("go\n")
    assert resumed.wait() == 0
    assert len(ran.read_text().split()) == 1


def test_a_stop_ends_an_agent_on_its_host_and_keeps_its_work(tmp_path: Path, fleet: str) -> None:
    """As on one machine: `resume` continues from what it had made."""
    up, gate = tmp_path / "up", tmp_path / "gate"
    os.mkfifo(gate)
    cli = Cli.of(
        tmp_path / "project",
        {
            "id": "T1",
            "resume": "continue",
            "run": shell(f"echo 1 > half; echo $$ > {up}; cat {gate}; test -f half && echo 2 > whole"),
        },
    )
    runner = cli.start("run", "--yes", "--no-sandbox", "--fleet", fleet)
    until(lambda: up.exists() and up.read_text() != "", "the agent began")
    agent = int(up.read_text())
    assert cli("stop", "1").code == 0
    assert runner.wait() == 130
    assert not Path(f"/proc/{agent}").exists()
    assert cli.project.git("show", "refs/holdfast/01-try-it/wip/T1:half") == "1"


def test_a_task_whose_host_dies_is_done_by_another_from_what_was_saved(tmp_path: Path) -> None:
    """One attempt more, not charged; what lands was made once, on both."""
    up, gate = tmp_path / "up", tmp_path / "gate"
    script = f"test -f half && echo 2 > whole && exit; echo 1 > half; echo $$ > {up}; cat {gate}"
    with remote_setup(tmp_path / "fleet", ttl_s=6.0) as setup:
        worker = setup.worker()
        os.mkfifo(gate)
        task = {"id": "T1", "resume": "continue", "run": shell(script)}
        cli = Cli.of(tmp_path / "project", task)
        runner = cli.start("run", "--yes", "--no-sandbox", "--fleet", setup.url)
        saved = "refs/holdfast/01-try-it/carried/0"
        until(lambda: "half" in cli.project.git("ls-tree", "-r", saved, check=False), "its work was saved")
        setup.worker()
        worker.kill()
        assert runner.wait() == 0
    assert tree_of(cli).count("half") == tree_of(cli).count("whole") == 1
    assert cli.json("status")["metrics"]["attempts"] == 2


def test_looking_at_a_run_needs_nothing_of_temporal(tmp_path: Path) -> None:
    """Its client takes half a second to import, which nobody waits for who uses one machine, or only looks."""
    cli = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"], "allow_empty": True})
    program = "import sys; from holdfast.cli.main import main; main(sys.argv[1:]); assert 'temporalio' not in sys.modules"
    for words in (["run", "--yes", "--no-sandbox"], ["status"]):
        done = run_program(cli.here, [sys.executable, "-c", program, *words])
        assert done.code == 0, done.err


def test_a_sandbox_that_somebody_asks_for_is_refused(tmp_path: Path, fleet: str) -> None:
    """Nothing is started without it."""
    done = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"]})(
        "run", "--yes", "--sandbox", "strict", "--fleet", fleet
    )
    assert done.code != 0
    assert "workers run agents and checks without a sandbox so far" in done.err


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("temporal://127.0.0.1:1", "the address of the fleet names none"),
        ("cloud://x", "there is no fleet for"),
        ("temporal://x?gti=y", 'did you mean "git"'),
        ("temporal://x?git=https://me:secret@server/x.git", "has a password"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_way_out(
    tmp_path: Path, address: str, said: str
) -> None:
    """Before anything is started, and without a word of a password."""
    cli = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"]})
    done = cli("run", "--yes", "--no-sandbox", "--fleet", address)
    assert done.code != 0
    assert said in done.err
    assert "secret" not in done.err
    assert not cli.project.git("for-each-ref", "refs/holdfast")


def test_what_a_fleet_cannot_bring_into_a_workspace_is_refused(tmp_path: Path, fleet: str) -> None:
    """Links into the user's checkout lead nowhere on a host, and copies of files that git ignores must not travel by git."""
    cli = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"]}, workspace={"copy": ["a.txt"]})
    done = cli("run", "--yes", "--no-sandbox", "--fleet", fleet)
    assert done.code != 0
    assert "workspace.copy" in done.err


def test_one_home_has_one_worker(fleet: str) -> None:
    """A second one would take over what the first sees through."""
    second = Cli(Path("/"))("worker", "--fleet", fleet, "--home", str(shared_worker().home))
    assert second.code == 4
    assert "a worker is at work in" in second.err


def test_a_worker_needs_a_fleet(tmp_path: Path) -> None:
    """The message says how one is named."""
    done = Cli(tmp_path)("worker", HOLDFAST_FLEET="", XDG_CONFIG_HOME=str(tmp_path))
    assert done.code == 2
    assert "holdfast worker --fleet" in done.err


def test_a_secret_that_a_plan_writes_down_does_not_travel(tmp_path: Path, fleet: str) -> None:
    """Whoever may look into Temporal could read it. What `pass_env` names is taken from the environment of the worker."""
    setting = {"env": {"DEPLOY_TOKEN": "hunter2-hunter2"}}
    cli = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"]}, workspace=setting)
    done = cli("run", "--yes", "--no-sandbox", "--fleet", fleet)
    assert done.code != 0
    assert "DEPLOY_TOKEN" in done.err + done.out
    assert "hunter2" not in done.err + done.out


def test_a_validator_judges_on_a_worker(tmp_path: Path, fleet: str) -> None:
    """Its score comes back as on one machine."""
    said = '{"score": 0.25, "summary": "no"}'
    judge = {"id": "judge", "run": shell(f"grep -q one one.txt && echo '{said}'")}
    task = {"id": "T1", "run": shell("echo one > one.txt"), "validators": [judge], "gate": 0.2}
    cli = Cli.of(tmp_path / "project", task)
    done = cli("run", "--yes", "--no-sandbox", "--fleet", fleet)
    assert done.code == 0, done.out + done.err
    assert "0.25" in cli("inspect", "1", "T1").out


def test_a_variable_that_is_passed_on_has_the_value_of_the_host(tmp_path: Path, fleet: str) -> None:
    """What the runner has in it, a key or a password, never travels; this host has nothing in it."""
    task = {"id": "T1", "run": shell('echo "got:${DEPLOY_KEY:-nothing}" > got.txt')}
    cli = Cli.of(tmp_path / "project", task, pass_env=["DEPLOY_KEY"])
    assert cli("run", "--yes", "--no-sandbox", "--fleet", fleet, DEPLOY_KEY="of-the-runner").code == 0
    assert cli.project.git("show", "holdfast/01-try-it:got.txt") == "got:nothing"


def test_the_users_settings_name_the_fleet_of_new_runs(tmp_path: Path) -> None:
    """As they name the store; an option or a variable goes first."""
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "settings.toml").write_text('fleet = "temporal://server"\n')
    cli = Cli.of(tmp_path / "project", {"id": "T1", "run": ["true"], "allow_empty": True})
    done = cli("run", "--yes", "--no-sandbox", XDG_CONFIG_HOME=str(tmp_path))
    assert "the address of the fleet names none" in done.err
    assert cli("run", "--yes", "--no-sandbox", "--fleet", "local", XDG_CONFIG_HOME=str(tmp_path)).code == 0


def test_a_run_that_began_on_this_machine_goes_on_here_and_says_so(tmp_path: Path, fleet: str) -> None:
    """A variable for new runs must not send away half of an old one."""
    cli = Cli.of(
        tmp_path / "project",
        {"id": "T1", "run": shell("test -e ../../../../go && echo 1 > one")},
        limits={"attempts": 1},
    )
    assert cli("run", "--yes", "--no-sandbox").code == 1
    (cli.here / "go").touch()
    done = cli("retry", "1", "T1", "--yes", HOLDFAST_FLEET=fleet)
    resumed = cli("resume", "1", "--yes", "--no-sandbox", HOLDFAST_FLEET=fleet)
    assert "goes on here, where it began" in done.err + resumed.err
    assert cli.run_status() == "completed"
