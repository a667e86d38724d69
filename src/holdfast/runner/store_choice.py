"""Which store keeps the runs of a repository: the one that the user names, else the one that it has used before.

A plan never says it: whoever writes plans would decide where state goes. Passwords are never written down here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from holdfast.errors import HoldfastError, NeedsDecisionError, did_you_mean, quoted
from holdfast.journal import SERVERS
from holdfast.journal.address import JournalAddress, password_of, split_url, storable_url, with_password
from holdfast.paths import StateDir
from holdfast.repo.files import read_regular, write_durably

if TYPE_CHECKING:
    from holdfast.journal.protocol import JournalReader
    from holdfast.repo.repository import Repository

STORE_VARIABLE = "HOLDFAST_STORE"
FLEET_VARIABLE = "HOLDFAST_FLEET"
PASSWORD_VARIABLE = "HOLDFAST_STORE_PASSWORD"  # noqa: S105 - its name
_POSTGRES_PASSWORD_VARIABLE = "PGPASSWORD"  # noqa: S105 - its name
RECORDS_PASSWORD_VARIABLE = "HOLDFAST_CFN_PASSWORD"  # noqa: S105 - its name
OF_STORES = frozenset({STORE_VARIABLE, PASSWORD_VARIABLE, RECORDS_PASSWORD_VARIABLE})
"""What no agent gets, whatever a plan asks for: who has it can write what became of every run."""
_PASSWORD_CHARS_MIN = 8
ACCEPT_VARIABLE = "HOLDFAST_ACCEPT_VOLATILE"
_EMBEDDED = "sqlite"
_KEYS = ("fleet", "store")

Store = Path | JournalAddress
"""Where a journal is: the file in the repository's own folder, or a server."""


class UsedStore(msgspec.Struct, frozen=True, kw_only=True):
    """The server that a repository has used, and its id there."""

    url: str
    repository: str
    accept_volatile: bool = False


def chosen_store(state: StateDir, repository_id: Callable[[], str]) -> Store:
    """Return where the journal of a repository is. `repository_id` is asked only if nobody wrote the id down."""
    used = used_store(state)
    named = os.environ.get(STORE_VARIABLE, "")
    if not named and used is None and not state.journal.exists():
        named = user_setting("store")
    if not named:
        return state.journal if used is None else _address(used.url, used.repository, used)
    return named_store(state, named, repository_id)


def named_store(state: StateDir, named: str, repository_id: Callable[[], str]) -> Store:
    """Return the store that a user named: `sqlite` for the file in the repository's own folder, or an address."""
    if named.removesuffix("://") == _EMBEDDED:
        return state.journal
    if (scheme := split_url(named).scheme) not in SERVERS:
        raise HoldfastError(
            f"there is no store of kind {quoted(scheme)}{did_you_mean(scheme, SERVERS)}",
            f"{_EMBEDDED} is the file in .holdfast; servers: {', '.join(SERVERS)}",
        )
    used = used_store(state)
    if used is not None and used.url == storable_url(named):
        return _address(named, used.repository, used)
    return _address(named, repository_id(), None)


def used_store(state: StateDir) -> UsedStore | None:
    """Return the server that a repository has used, if it was one."""
    if not os.path.lexists(state.store):
        return None
    body = read_regular(state.store)
    try:
        return msgspec.json.decode(body, type=UsedStore)
    except msgspec.DecodeError as error:
        raise HoldfastError(
            f"{state.store} cannot be read: {error}",
            f"name the store with --store or {STORE_VARIABLE}, then remove the file",
        ) from error


def remember_store(state: StateDir, store: Store) -> bool:
    """Write down which store a repository uses from now on; tell whether that is new. The embedded file needs no note."""
    if isinstance(store, Path):
        state.store.unlink(missing_ok=True)
        return False
    used = UsedStore(
        url=storable_url(store.url), repository=store.repository, accept_volatile=store.accept_volatile
    )
    if used == used_store(state):
        return False
    write_durably(state.store, msgspec.json.encode(used))
    return True


def is_unknown_here(state: StateDir, store: Store) -> bool:
    """Tell whether a server was named in a clone that has neither a journal nor a note of a store."""
    return isinstance(store, JournalAddress) and used_store(state) is None and not state.journal.exists()


def require_only_store(state: StateDir, store: Store, *, has_runs: Callable[[Path], bool]) -> None:
    """Raise NeedsDecisionError if new runs would go into another store than those of this repository, and hide them."""
    used = used_store(state)
    if isinstance(store, JournalAddress) and used is None:
        if state.journal.exists() and has_runs(state.journal):
            raise _second_store(str(state.journal), str(store))
    elif used is not None and (isinstance(store, Path) or used.url != storable_url(store.url)):
        raise _second_store(used.url, str(store))


def require_same_repository(repo: Repository, journal: JournalReader) -> None:
    """Raise HoldfastError if the runs in a store are of another repository, to which its user gave the same name.

    Each would be shown the other's runs, and steer them.
    """
    if not repo.first_commit_of_named():
        return
    from holdfast.core.events import RunStarted  # few repositories have such a name

    for listing in journal.runs()[-1:]:
        started = journal.first_event(listing.row.run).event
        theirs = started.first_commit if isinstance(started, RunStarted) else ""
        if theirs and not repo.exists(theirs):
            raise HoldfastError(
                f"{journal.name} has runs of another repository under the name {repo.id()}: it began with {theirs[:12]}",
                "`git config holdfast.repository NAME` gives this one another name",
            )


def _second_store(before: str, now: str) -> NeedsDecisionError:
    return NeedsDecisionError(
        f"the runs of this repository are in {before}, not in {now}",
        f"`holdfast move --to {now}` takes them there; if {before} is lost, `holdfast rebuild --store {now}` restores them",
    )


def _address(url: str, repository: str, used: UsedStore | None) -> JournalAddress:
    if (password := os.environ.get(PASSWORD_VARIABLE, "")) and not password_of(url):
        url = with_password(url, password)
    accepted = bool(os.environ.get(ACCEPT_VARIABLE)) or (used is not None and used.accept_volatile)
    return JournalAddress(url, repository, accepted)


def store_passwords() -> tuple[str, ...]:
    """Return the passwords of stores in the environment, in every spelling: nothing that prints one may be kept.

    One of a few characters is left out: it would redact half of what is printed.
    """
    url = os.environ.get(STORE_VARIABLE, "")
    in_url = password_of(url) if "://" in url else ""
    names = (PASSWORD_VARIABLE, RECORDS_PASSWORD_VARIABLE, _POSTGRES_PASSWORD_VARIABLE)
    found = (in_url, *(os.environ.get(name, "") for name in names))
    spelled = dict.fromkeys(text for password in found for text in (password, quote(password, safe="")))
    return tuple(text for text in spelled if len(text) >= _PASSWORD_CHARS_MIN)


def settings_file() -> Path:
    """Return the user's settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "holdfast" / "settings.toml"


def user_setting(name: str) -> str:
    """Return what the user's settings say for what is new, such as the store of repositories without runs; empty for nothing."""
    path = settings_file()
    if not path.is_file():
        return ""
    import tomllib

    try:
        settings: Mapping[str, object] = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{path}: {error}", "correct it, or remove it") from error
    for key in settings:
        if key not in _KEYS:
            raise HoldfastError(
                f"{path}: there is no setting {quoted(key)}{did_you_mean(key, _KEYS)}", "remove it"
            )
    said = settings.get(name, "")
    if not isinstance(said, str):
        raise HoldfastError(f"{path}: {name} is no text", 'such as store = "redis://localhost:6379/0"')
    return said
