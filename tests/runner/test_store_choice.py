"""Which store a repository uses: named by the user, remembered without a password, never taken from a plan."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.agents.invocation import Invocation
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.fleet.protocol import LaunchKey
from holdfast.journal.address import JournalAddress
from holdfast.paths import StateDir
from holdfast.redaction import redact
from holdfast.runner.launch import workspace_launch
from holdfast.runner.store_choice import (
    ACCEPT_VARIABLE,
    PASSWORD_VARIABLE,
    STORE_VARIABLE,
    Store,
    chosen_store,
    remember_store,
    require_only_store,
)
from tests.support.command import Cli, writes
from tests.support.repositories import Project, write

URL = "redis://me:s3cret@h:1/0"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDir:
    """The folder of a repository that has used no store yet, of a user without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (STORE_VARIABLE, PASSWORD_VARIABLE, ACCEPT_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return StateDir(tmp_path / ".holdfast")


def _chosen(state: StateDir) -> Store:
    return chosen_store(state, lambda: "id-of-it")


def test_without_a_word_the_journal_is_the_file_in_the_repositorys_folder(state: StateDir) -> None:
    """SQLite is the default."""
    assert _chosen(state) == state.journal


def test_the_variable_names_a_server(state: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the repository is known there by its id."""
    monkeypatch.setenv(STORE_VARIABLE, URL)
    assert _chosen(state) == JournalAddress(URL, "id-of-it")


def test_a_store_that_was_used_is_used_again_without_its_password_being_kept(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password comes from a variable of its own, if one is needed."""
    remember_store(state, JournalAddress("redis://me:s3cret@h:1/0", "id-of-it"))
    assert b"s3cret" not in state.store.read_bytes()
    assert _chosen(state) == JournalAddress("redis://me@h:1/0", "id-of-it")
    monkeypatch.setenv(PASSWORD_VARIABLE, "an0ther")
    chosen = _chosen(state)
    assert isinstance(chosen, JournalAddress)
    assert (chosen.url, chosen.repository) == ("redis://me:an0ther@h:1/0", "id-of-it")


def test_the_users_settings_are_for_repositories_without_runs(state: StateDir, tmp_path: Path) -> None:
    """One that has a journal keeps it."""
    write(tmp_path / "config/holdfast/settings.toml", 'store = "redis://h:2/0"\n')
    assert _chosen(state) == JournalAddress("redis://h:2/0", "id-of-it")
    write(state.journal, "")
    assert _chosen(state) == state.journal


@pytest.mark.parametrize(
    ("settings", "said"),
    [('stor = "x"', "did you mean"), ("store = 7", "no text"), ("store =", "settings.toml")],
)
def test_settings_that_are_wrong_are_refused_with_their_file(
    state: StateDir, tmp_path: Path, settings: str, said: str
) -> None:
    """A typing mistake must not make a run somewhere else."""
    write(tmp_path / "config/holdfast/settings.toml", settings)
    with pytest.raises(HoldfastError, match=said):
        _chosen(state)


def test_that_a_volatile_server_is_accepted_is_remembered(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever accepted it once is not asked with every command."""
    monkeypatch.setenv(STORE_VARIABLE, "redis://h:1/0")
    monkeypatch.setenv(ACCEPT_VARIABLE, "1")
    remember_store(state, _chosen(state))
    monkeypatch.delenv(ACCEPT_VARIABLE)
    chosen = _chosen(state)
    assert isinstance(chosen, JournalAddress)
    assert chosen.accept_volatile


def test_new_runs_do_not_go_into_a_second_store(state: StateDir) -> None:
    """The way out is to move them all."""
    remember_store(state, JournalAddress("redis://h:1/0", "id-of-it"))
    with pytest.raises(NeedsDecisionError, match="are in redis://h:1/0") as caught:
        require_only_store(state, JournalAddress("redis://h:2/0", "id-of-it"), has_runs=lambda _: True)
    assert "holdfast move --to redis://h:2/0" in caught.value.hint


def test_a_repository_with_runs_in_its_file_goes_to_no_server(state: StateDir) -> None:
    """They would be hidden, finished or not: `move` takes them along. A file without runs hides nothing."""
    write(state.journal, "")
    server = JournalAddress("redis://h:2/0", "id-of-it")
    with pytest.raises(NeedsDecisionError):
        require_only_store(state, server, has_runs=lambda _: True)
    require_only_store(state, server, has_runs=lambda _: False)


def test_a_repository_is_known_by_its_first_commit_in_every_clone(tmp_path: Path) -> None:
    """Whatever branch it is on; a name that its user configured comes first."""
    project = Project.create(tmp_path / "p")
    project.commit("Second")
    project.git("clone", "-q", str(project.path), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone")
    clone.git("checkout", "-q", "-b", "elsewhere")
    assert clone.open().id() == project.open().id() == project.git("rev-list", "--max-parents=0", "HEAD")
    clone.git("config", "holdfast.repository", "ours")
    assert clone.open().id() == "ours"


def test_a_shallow_clone_says_how_it_can_be_known(tmp_path: Path) -> None:
    """Its first commit is not there."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    cli.project.commit("Second")
    cli.project.git("clone", "-q", "--depth=1", f"file://{cli.here}", str(tmp_path / "clone"))
    refused = Cli(tmp_path / "clone")("list", "--store", "redis://127.0.0.1:1/0")
    assert (refused.code, "git fetch --unshallow" in refused.err) == (2, True), refused


def test_a_plan_cannot_say_where_state_goes(tmp_path: Path) -> None:
    """Whoever writes plans would decide it."""
    refused = Cli.of(tmp_path / "p", writes("a"), store="redis://127.0.0.1:1/0")("run", "--yes")
    assert (refused.code, "store" in refused.err) == (2, True), refused


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis:/nowhere", "is not the address of a store"),
        ("mysql://h/db", "there is no store of kind"),
        ("memory://", "there is no store of kind"),
        ("sqlite:///elsewhere.db", "there is no store of kind"),
        ("redis://127.0.0.1:1/0", "does not answer"),
    ],
)
def test_a_wrong_address_is_named_with_the_way_out_and_nothing_is_made(
    tmp_path: Path, url: str, said: str
) -> None:
    """Neither a run nor a note of the store."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    refused = cli("run", "--yes", "--store", url)
    assert (refused.code in (2, 3), said in refused.err) == (True, True), refused
    assert not (cli.here / ".holdfast/store.json").exists()
    assert cli.project.git("for-each-ref", "refs/holdfast", "refs/heads/holdfast") == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--store=redis://:topsecret@127.0.0.1:1/0", "list"),
        ("--stor=redis://:topsecret@127.0.0.1:1/0", "list"),
        ("list", "redis://:topsecret@127.0.0.1:1/0"),
        ("run", "redis://:topsecret@127.0.0.1:1/0"),
        ("list", "--", "--store", "redis://me:topsecret@127.0.0.1:1/0"),
        ("list", "--store", "host=127.0.0.1 password=topsecret"),
    ],
)
def test_a_password_in_the_wrong_place_is_not_repeated(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The error is read by others: in the log of a CI, over a shoulder."""
    refused = Cli.of(tmp_path / "p", writes("a"))(*words)
    assert refused.code != 0
    assert "topsecret" not in refused.out + refused.err


def test_the_store_may_stand_before_the_command(tmp_path: Path) -> None:
    """The overview lists it as an option of the program; one behind the command counts for more."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    refused = cli("--accept-volatile", "--store", "redis://127.0.0.1:1/0", "list")
    assert "store redis://127.0.0.1:1/0 does not answer" in refused.err, refused
    assert cli("--store=redis://127.0.0.1:1/0", "list", "--store", "sqlite").code == 0
    assert cli("--store").code == 2


def test_an_option_that_names_no_store_is_refused(tmp_path: Path) -> None:
    """As where it comes from a variable that nobody set: the runs would go into the file, unnoticed."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    refused = cli("run", "--yes", "--store", "")
    assert (refused.code, "names no store" in refused.err) == (2, True), refused
    assert not (cli.here / ".holdfast").exists()


@pytest.mark.parametrize("store", ["", "redis://:p%40ss-of-the-st0re@127.0.0.1:1/0"])
def test_no_agent_gets_the_store_or_its_password_and_none_that_it_prints_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """Whatever a plan passes on, and wherever the agent found it."""
    password = "p@ss-of-the-st0re"
    monkeypatch.setenv(STORE_VARIABLE, store)
    monkeypatch.setenv(PASSWORD_VARIABLE, "" if store else password)
    found = tmp_path / "found"
    found.write_text(f"{password} {quote(password, safe='')}\n")
    how = Invocation(("cat", str(found)), pass_env=("HOLDFAST_*",))
    spec = workspace_launch(LaunchKey("r", "a", 1, "agent"), how, tmp_path, timeout_s=9)
    assert not {STORE_VARIABLE, PASSWORD_VARIABLE} & spec.env.keys()
    shown = redact(found.read_text(), [secret.encode() for secret in spec.secrets])
    assert (password in shown, quote(password, safe="") in shown) == (False, False)
