"""Ports and database names: no two live workspaces of the machine have the same, and a workspace keeps its own."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

from holdfast.core.plan import PlanWorkspace
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.workspace_variables import WorkspaceVariables, database_name
from tests.support.repositories import PreparedWorkspace

TWO = PlanWorkspace(ports=2)


def other_pool(prepared: PreparedWorkspace) -> Workspaces:
    """Return the pool of another run of the same repository."""
    return Workspaces(prepared.repo, prepared.repo.state_dir.run("02-other").workspaces)


def test_runs_at_the_same_time_get_different_ports(tmp_path: Path) -> None:
    """The kernel says whose a block of ports is; when its owner is gone, it is free again."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    place = prepared.workspace.path
    with closing(WorkspaceVariables(prepared.pool, TWO)) as first:
        ports = first.ports(place)
        with closing(WorkspaceVariables(prepared.pool, TWO)) as second:
            assert not set(ports) & set(second.ports(place))
        pool = other_pool(prepared)
        pool.prepare("0", prepared.base)
        with closing(WorkspaceVariables(pool, TWO)) as third:
            assert not set(ports) & set(third.ports(pool.path("0")))


def test_a_workspace_keeps_its_ports_when_another_runner_takes_over(tmp_path: Path) -> None:
    """An agent that outlived its runner still listens there, and its checks must find it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    with closing(WorkspaceVariables(prepared.pool, TWO)) as first:
        ports = first.ports(prepared.workspace.path)
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", ports[0]))
        listening.listen()
        with closing(WorkspaceVariables(prepared.pool, TWO)) as second:
            assert second.ports(prepared.workspace.path) == ports


def test_a_port_that_another_program_uses_is_not_given_out(tmp_path: Path) -> None:
    """The next free ones are."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    place = prepared.workspace.path
    with closing(WorkspaceVariables(prepared.pool, TWO)) as first:
        ports = first.ports(place)
    prepared.workspace.ports_file.unlink()
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", ports[1]))
        listening.listen()
        with closing(WorkspaceVariables(prepared.pool, TWO)) as second:
            assert not set(ports) & set(second.ports(place))


def test_the_plan_s_own_variables_come_last(tmp_path: Path) -> None:
    """A plan that sets PORT by itself means it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    setting = PlanWorkspace(ports=1, env={"PORT": "80"})
    with closing(WorkspaceVariables(prepared.pool, setting)) as variables:
        given = variables.of(prepared.workspace.path)
    assert given["PORT"] == "80"
    assert set(given) == {"PORT", "HOLDFAST_PORT_1", "HOLDFAST_DATABASE"}


def test_names_of_databases_fit_every_server() -> None:
    """At most 63 letters, digits and `_`; long names of runs are cut, and two workspaces never share one."""
    names = {
        database_name(Path(f"/work/12-{'Überaus-long goal ' * 9}", number))
        for number in ("0", "1", "0-checks")
    }
    assert len(names) == 3
    assert all(name.isidentifier() and name.isascii() and len(name) <= 63 for name in names)
