"""Which fleet runs the agents of a run: the one that the user names, else the one that the run began on, else this machine.

A plan never says it: whoever writes plans would decide where the code of the user goes. A run stays on its fleet: somebody else
could not see which of its agents still live.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.core.plan import Plan
from holdfast.errors import HoldfastError, LaunchError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import Fleet
from holdfast.fleet.temporal import open_carried_fleet
from holdfast.fleet.temporal.address import NO_SANDBOX, SCHEME, FleetAddress, start_ref
from holdfast.fleet.temporal.carrier import SentWorkspace, TakenState
from holdfast.paths import RunDir
from holdfast.repo.exchange import (
    WorkspacePlace,
    carried_ref,
    drop_states,
    fetch_state,
    note_place,
    place_of,
    prepared_state,
    push_state,
    read_pieces,
    read_state,
    save_state,
    take_over,
)
from holdfast.repo.files import read_regular, write_durably
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.store_choice import FLEET_VARIABLE, user_setting

LOCAL = "local"
"""What names this machine."""


def open_chosen_fleet(
    repo: Repository, run: str, plan: Plan, tell: Callable[[str], None], *, is_new: bool
) -> Fleet:
    """Return the fleet of a run. Raises HoldfastError if another one is named than the run began on.

    Until anything of a run `is_new`, the user's settings count.
    """
    directory = repo.state_dir.run(run)
    began_on = _began_on(directory)
    named = (
        os.environ.get(FLEET_VARIABLE, "") or began_on or (user_setting("fleet") if is_new else "") or LOCAL
    )
    if began_on and named != began_on:
        raise NeedsDecisionError(
            f"run {run} began on {began_on}, not on {named}, and its agents may live there",
            f"leave out --fleet and {FLEET_VARIABLE}; {_way_off(directory)}",
        )
    if not began_on and not is_new and named != LOCAL:
        tell(f"run {run} goes on here, where it began, and not on {named}.")
        named = LOCAL
    if named == LOCAL:
        return open_fleet(repo.state_dir.fleet)
    address = _require_usable(named, plan)
    tell(f"No sandbox: {NO_SANDBOX}. They see, and may change, all that a worker can.")
    write_durably(directory.fleet, named.encode())
    try:
        return open_carried_fleet(named, repo.state_dir, GitCarrier(repo, address.git), tell)
    except LaunchError as error:
        raise LaunchError(error.message, f"{error.hint}; {_way_off(directory)}") from error


def require_usable_fleet(plan: Plan) -> None:
    """Raise HoldfastError if a new run of a plan cannot use the fleet that the user names: asked before the run is made."""
    named = os.environ.get(FLEET_VARIABLE, "") or user_setting("fleet") or LOCAL
    if named != LOCAL:
        _require_usable(named, plan)


def _require_usable(named: str, plan: Plan) -> FleetAddress:
    """Return what the address of a fleet says. Raises HoldfastError if it lacks what a run needs, or workers what the plan needs."""
    _require_portable(plan)
    if urlsplit(named).scheme != SCHEME:
        raise LaunchError(f"there is no fleet for {named!r}", f"use {LOCAL}, or {SCHEME}://HOST:PORT?git=URL")
    address = FleetAddress.parse(named)
    if not address.git:
        raise LaunchError(
            "workspaces travel through a git server, and the address of the fleet names none",
            f"add one that you and the workers may push to: {named}?git=ssh://git@server/exchange.git",
        )
    if "://" in address.git and urlsplit(address.git).password:
        raise LaunchError(
            "the address of the git server has a password, which would go to every worker",
            "leave it out, and let a credential helper or an ssh key log in on each machine",
        )
    return address


def _require_portable(plan: Plan) -> None:
    """Raise HoldfastError if the plan brings into its workspaces what workers do not have."""
    setting = plan.workspace
    wanted = {"copy": setting.copy, "link": setting.link, "keep": setting.keep, "ports": setting.ports}
    if named := [f"workspace.{name}" for name, value in wanted.items() if value]:
        raise HoldfastError(
            f"workers cannot bring {' and '.join(named)} into a workspace so far",
            "let `workspace.setup` make it there, or run this plan on this machine",
        )


def _way_off(directory: RunDir) -> str:
    """Return how a run gets off a fleet that will never answer again."""
    return f"if that fleet is gone for good, and all its agents with it, remove {directory.fleet}"


def _began_on(directory: RunDir) -> str:
    return read_regular(directory.fleet).decode(errors="replace") if os.path.lexists(directory.fleet) else ""


class GitCarrier:
    """Takes the workspaces of one clone of a repository to the git server and back."""

    def __init__(self, repo: Repository, url: str) -> None:
        self._repo = repo
        self._url = url
        self._name = _clone_name(repo)

    @property
    def clone(self) -> str:
        """The permanent name of this clone: another one has runs of the same names."""
        return self._name

    def send(self, workspace: Path) -> SentWorkspace:
        """Push the state of a workspace, unless the host that worked in it last has the very same.

        Files that git ignores are not pushed. So a workspace in which something was made stays on its host.
        """
        place = self._workspace(workspace)
        state, known = prepared_state(self._repo, place), place_of(place)
        if state.problems:
            raise HoldfastError(
                f"{workspace} cannot be sent to a worker: {'; '.join(state.problems)}", "remove it"
            )
        if known.host and state.work == known.work:
            return SentWorkspace("", known.host)
        commit = save_state(self._repo, state)
        push_state(self._repo, self._url, start_ref(self._name, commit), commit)
        return SentWorkspace(commit, known.host, known.work)

    def take(self, workspace: Path, ref: str, commit: str, host: str) -> TakenState:
        """Fetch what a host saved and bring the workspace to it. Idempotent."""
        place = self._workspace(workspace)
        fetch_state(self._repo, self._url, ref, commit, carried_ref(workspace.parent.name, workspace.name))
        state = read_state(self._repo, commit)
        take_over(self._repo, place, state)
        note_place(place, WorkspacePlace(host, state.work))
        return TakenState(read_pieces(self._repo, state, "output"), read_pieces(self._repo, state, "reports"))

    def drop(self, *refs: str) -> None:
        """Remove refs of a launch that is over from the git server."""
        drop_states(self._repo, self._url, *refs)

    def _workspace(self, path: Path) -> Workspace:
        return Workspaces(self._repo, path.parent).get(path.name)


def _clone_name(repo: Repository) -> str:
    """Return the name of this clone, made when it is first needed.

    It depends on the file itself: a copy of the repository, which has that too, must not take the original's launches for its own.
    """
    file = repo.state_dir.clone_name
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        write_durably(file, os.urandom(8).hex().encode())
    content = read_regular(file) + str(file.stat().st_ino).encode()
    return hashlib.sha256(content).hexdigest()[:16]
