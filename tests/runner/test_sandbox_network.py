"""The network of agents and checks, and the level strict: who decides, and what is reached."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast.core.status import SandboxLevel
from holdfast.repo.repository import Repository
from holdfast.runner.allowed_hosts import hosts_in_environment, hosts_of_repository
from holdfast.runner.sandbox import Sandbox
from holdfast.runner.sandbox_setting import SandboxSetting
from tests.support.command import Cli, Done, writes
from tests.support.repositories import Project, write
from tests.support.runs import sh
from tests.support.sandboxes import needs_sandbox
from tests.support.scripted_agents import claude, refused, say

LIMITS = {"attempts": 1}
FAILS = {"id": "A", "run": ["sh", "-c", "exit 1"]}


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a program on this machine that says hello to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_greet, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _greet(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"hello")


def connects(port: int) -> str:
    """Return a command that holds if this port of the machine is reached, without a proxy."""
    code = f"import socket; assert socket.create_connection(('127.0.0.1', {port})).recv(9) == b'hello'"
    return f'python3 -c "{code}"'


def run(cli: Cli, *options: str, **env: str) -> Done:
    """Run the plan with these options."""
    return cli("run", "--yes", "--auto-continue", *options, **env)


@needs_sandbox
def test_the_network_is_open_unless_somebody_closes_it(tmp_path: Path, port: int) -> None:
    """For agents and checks alike; `status` shows what is in force, and `resume` keeps it."""
    cli = Cli.of(tmp_path / "p", sh("A", f"{connects(port)} && echo a > A.txt"), limits=LIMITS)
    assert run(cli, "--sandbox", "workspace", "--network", "off").code == 1
    assert "  sandbox: workspace, network: off\n" in cli("status").out
    assert cli("resume", "--failed-only", "--yes", "--sandbox", "workspace", "--network", "allow").code == 1
    assert cli("resume", "--failed-only", "--yes").code == 1
    assert "network: allow" in cli("status").out
    assert cli("resume", "--failed-only", "--yes", "--network", "on", HOLDFAST_SANDBOX="workspace").code == 0


@needs_sandbox
def test_a_check_is_kept_from_the_network_too(tmp_path: Path, port: int) -> None:
    """It runs what an agent wrote."""
    cli = Cli.of(tmp_path / "p", writes("A", verify=[connects(port)]), limits=LIMITS)
    assert run(cli, HOLDFAST_SANDBOX="", HOLDFAST_NETWORK="off").code == 1
    assert "exited with 1" in cli.task("A")["error"]


@needs_sandbox
def test_what_the_user_allows_is_reached(tmp_path: Path, port: int) -> None:
    """By a variable of their own, or because a variable that agents get names the place of their model."""
    cli = Cli.of(tmp_path / "p", sh("A", f"{connects(port)} && echo a > A.txt"), limits=LIMITS)
    assert run(cli, "--network", "allow", HOLDFAST_NETWORK_ALLOW=f"example.com, 127.0.0.1:{port}").code == 0
    cli = Cli.of(
        tmp_path / "q",
        sh("A", f"{connects(port)} && echo a > A.txt"),
        limits=LIMITS,
        pass_env=["OPENAI_BASE_URL"],
    )
    assert run(cli, "--network", "allow", OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1").code == 0


@needs_sandbox
def test_a_plan_can_close_the_network_and_never_open_it(tmp_path: Path, port: int) -> None:
    """Even with the user's own option, and in YAML, where `off` without quotes is no text."""
    cli = Cli.of(tmp_path / "p")
    task = f"  - {{id: A, run: [python3, -c, \"import socket; socket.create_connection(('127.0.0.1', {port}))\"]}}\n"
    write(
        cli.here / "plan.yaml",
        f"holdfast: 1\ngoal: Try it\nlimits: {{attempts: 1}}\nnetwork: off\ntasks:\n{task}",
    )
    assert run(cli, "plan.yaml", "--network", "on").code == 1
    assert cli.json("status")["run"]["network"] == "off"
    assert cli.json("status")["run"]["sandbox"] == "workspace"


@needs_sandbox
def test_hosts_of_a_plan_count_and_the_user_is_asked_about_them(tmp_path: Path, port: int) -> None:
    """With everything else that the user agrees to."""
    network = {"allow": [f"127.0.0.1:{port}"]}
    cli = Cli.of(
        tmp_path / "p", sh("A", f"{connects(port)} && echo a > A.txt"), limits=LIMITS, network=network
    )
    asked = cli("run", HOLDFAST_SANDBOX="workspace")
    assert f"agents and checks may reach: 127.0.0.1:{port}" in asked.err
    assert run(cli, "--sandbox", "strict").code == 0
    refused = Cli.of(tmp_path / "q", writes("A"), network={"allow": ["http://x/"]})
    assert "network" in run(refused).err


@needs_sandbox
@pytest.mark.parametrize("said", [503, 403])
def test_an_agent_whose_provider_is_not_on_the_allow_list_blocks_and_names_the_host(
    tmp_path: Path, said: int
) -> None:
    """It looks like an outage, or like a refused key, and it is neither: nothing is parked, and the fix is told."""
    cli = Cli.of(
        tmp_path / "p", {"id": "A", "prompt": "x"}, agent="c", agents={"c": asks("model.example", said)}
    )
    assert run(cli, "--network", "allow").code == 3
    error = cli.task("A")["error"]
    assert "an allow-list, and that lacks model.example:80. HOLDFAST_NETWORK_ALLOW=model.example" in error
    assert (cli.json("status")["providers"], cli.task("A")["status"]) == ([], "blocked")


@needs_sandbox
def test_an_outage_beside_a_refused_host_is_one_and_tells_of_the_host(tmp_path: Path, port: int) -> None:
    """Telemetry may be refused while the provider itself is out of order: it is waited for, and its words say both."""
    agent = asks("telemetry.example", 503, first=connects(port))
    limits = {"on_limit": "stop", "limit_wait": "2h"}
    cli = Cli.of(tmp_path / "p", {"id": "A", "prompt": "x"}, agent="c", agents={"c": agent}, limits=limits)
    assert run(cli, "--network", "allow", HOLDFAST_NETWORK_ALLOW=f"127.0.0.1:{port}").code == 3
    assert cli.json("status")["run"]["ending"] == "outage"
    [provider] = cli.json("status")["providers"]
    assert provider["error"].startswith(
        "API Error: 503; the allow-list of its network lacks telemetry.example:80"
    )


def asks(host: str, said: int, *, first: str = "true") -> dict[str, Any]:
    """Return an agent that asks for a host, in vain, and says that its request came to an HTTP status."""
    asked = f"python3 -c 'import urllib.request as u; u.urlopen(\"http://{host}/\")' 2>/dev/null"
    return claude(f"{first}; {asked} || {{ {say(refused(said))}; exit 1; }}")


def test_strict_shows_no_folder_of_the_root_but_the_systems(tmp_path: Path) -> None:
    """Projects and data may lie in any other."""
    repo = Project.create(tmp_path / "p").open()
    strict = Sandbox(
        repo, repo.state_dir.run("01-run"), SandboxSetting(SandboxLevel.STRICT), repo.resolve("HEAD")
    )
    policy = strict.policy(tmp_path, ("sh",), {"HOME": "/root"})
    system = ("bin", "sbin", "lib", "usr", "opt", "nix", "gnu", "snap", "proc", "sys", "dev")
    others = {path for path in Path("/").iterdir() if path.is_dir() and not path.name.startswith(system)}
    assert {Path("/etc"), Path("/srv"), Path("/var")} <= others
    assert others <= {*policy.covered, *policy.scratch}


@needs_sandbox
def test_strict_shows_less_of_the_system_and_work_goes_on_there(tmp_path: Path) -> None:
    """Programs find their libraries, users, names and certificates; passwords, logs and machine ids are not there."""
    script = """
        for f in /etc/shadow /etc/machine-id /var/log/dpkg.log /run/docker.sock; do test ! -e $f || exit 1; done
        python3 -c 'import ssl, pwd, socket; assert ssl.create_default_context().get_ca_certs(); pwd.getpwuid(0)' || exit 2
        touch /tmp/x /var/tmp/x ~/x || exit 3
        echo a > A.txt && git add A.txt && git commit -qm 'by the agent'"""
    cli = Cli.of(tmp_path / "p", sh("A", script, verify=["git log -1 >&2"]), limits=LIMITS)
    done = run(cli, "--sandbox", "strict")
    assert done.code == 0, cli("logs", "1", "A").out
    assert "  sandbox: strict, network: allow\n" in cli("status").out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--no-sandbox", "--network", "off"), "only in a sandbox"),
        (("--sandbox", "strict", "--network", "on"), "no open network"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    """Neither is given up silently, and no run exists."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    done = run(cli, *options)
    assert done.code != 0
    assert why in done.err
    assert not (cli.here / ".holdfast" / "runs").exists()
    both = {
        "HOLDFAST_SANDBOX": options[1] if options[0] == "--sandbox" else "off",
        "HOLDFAST_NETWORK": options[-1],
    }
    assert why in run(cli, **both).err
    assert why in cli("doctor", **both).out


WRONG = {
    "HOLDFAST_SANDBOX": "lax",
    "HOLDFAST_NETWORK": "of",
    "HOLDFAST_NETWORK_ALLOW": "http://x/",
    "HOLDFAST_SANDBOX_SHOW": "fixtures",
}


@pytest.mark.parametrize("variable", WRONG)
def test_a_variable_that_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, variable: str
) -> None:
    """The unfinished run that `--fresh` would abandon stays, and `doctor` names the variable, too."""
    cli = Cli.of(tmp_path / "p", FAILS, limits=LIMITS)
    assert cli("run", "--yes").code == 1
    wrong = {variable: WRONG[variable]}
    for words in (("run", "--yes", "--fresh"), ("resume", "1", "--yes")):
        refused = cli(*words, **wrong)
        assert refused.code == 2, words
        assert f"{variable} " in refused.err
    assert [path.name for path in (cli.here / ".holdfast" / "runs").iterdir()] == ["01-try-it"]
    assert cli.run_status() == "blocked"
    examined = cli("doctor", **wrong)
    assert (examined.code, variable in examined.out) == (1, True)


@needs_sandbox
def test_what_no_option_names_stays_as_it_was(tmp_path: Path) -> None:
    """`resume --network off` after `run --sandbox strict` is still strict; `--no-sandbox` gives up both."""
    cli = Cli.of(tmp_path / "p", FAILS, limits=LIMITS)

    def in_force(*words: str) -> tuple[str, str]:
        assert cli(*words, "--yes").code == 1
        row = cli.json("status")["run"]
        return row["sandbox"], row["network"]

    again = ("resume", "1", "--failed-only")
    assert in_force("run", "--sandbox", "strict") == ("strict", "allow")
    assert in_force(*again, "--network", "off") == ("strict", "off")
    assert in_force(*again, "--sandbox", "workspace") == ("workspace", "off")
    assert in_force(*again, "--no-sandbox") == ("off", "on")


@needs_sandbox
def test_the_user_is_told_what_is_in_force_if_the_options_say_less(tmp_path: Path) -> None:
    """A plan or a variable can ask for more than `--no-sandbox`; then nobody says that there is no sandbox."""
    plan = Cli.of(tmp_path / "p", writes("A"), network="off")("run", "--yes", "--no-sandbox")
    named = Cli.of(tmp_path / "q", writes("A"))("run", "--yes", "--no-sandbox", HOLDFAST_NETWORK="off")
    for done, who in ((plan, "the plan"), (named, "HOLDFAST_NETWORK")):
        assert done.code == 0, done.err
        assert f"The sandbox is workspace, the network off: {who} asks for it." in done.err
        assert "No sandbox" not in done.err


@needs_sandbox
def test_strict_is_refused_where_the_network_cannot_be_closed(tmp_path: Path) -> None:
    """Some containers allow namespaces, but none of the network. The reason is told, and nothing starts."""
    real, fake = shutil.which("bwrap"), tmp_path / "bin" / "bwrap"
    refuse = 'case "$*" in *--unshare-net*) echo loopback: Failed RTM_NEWADDR >&2; exit 1;; esac'
    write(fake, f'#!/bin/sh\n{refuse}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    cli = Cli.of(tmp_path / "p", writes("A"))
    path = f"{fake.parent}:/usr/bin:/bin"
    done = run(cli, "--sandbox", "strict", PATH=path)
    assert done.code != 0
    assert "cannot close the network" in done.err
    assert "RTM_NEWADDR" in done.err
    assert run(cli, "--sandbox", "workspace", PATH=path).code == 0


def test_the_registries_are_those_of_the_repositorys_ecosystems(tmp_path: Path) -> None:
    """By the files of the commit that the run began on, wherever they are. What an agent adds later opens nothing."""
    cli = Cli.of(tmp_path / "p")
    repo = Repository.open(cli.here)
    assert hosts_of_repository(repo, repo.resolve("HEAD")) == ()
    write(cli.here / "services/web/package.json", "{}")
    write(cli.here / "requirements-dev.txt", "")
    before = repo.resolve("HEAD")
    cli.project.git("add", "-A")
    cli.project.git("commit", "-qm", "two ecosystems")
    found = hosts_of_repository(repo, repo.resolve("HEAD"))
    assert {"pypi.org", "files.pythonhosted.org", "registry.npmjs.org"} <= set(found)
    assert "crates.io" not in found
    assert hosts_of_repository(repo, before) == ()


def test_only_the_users_own_values_name_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan can set a variable of its agents, but it opens nothing by that."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.com/v1")
    monkeypatch.setenv("GOPROXY", "https://go.example.com,direct")
    env = {
        "OPENAI_BASE_URL": "https://evil.example/v1",
        "GOPROXY": "https://go.example.com,direct",
        "EDITOR": "https://x/",
    }
    assert list(hosts_in_environment(env)) == ["go.example.com:443"]


@needs_sandbox
def test_a_task_that_fails_without_a_network_is_told_so(tmp_path: Path) -> None:
    """Its agent may say something that does not sound like it."""
    cli = Cli.of(tmp_path / "p", FAILS, limits=LIMITS)
    assert "the network was closed (--network off)" in run(cli, "--network", "off").out
    other = Cli.of(tmp_path / "q", FAILS, limits=LIMITS)
    assert "the network was closed" not in run(other).out
