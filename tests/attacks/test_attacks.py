"""Every attack of the catalogue, by a real agent on a real run, at every level of the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.status import SandboxLevel
from holdfast.process.sandbox import BY_VARIABLE, LANDLOCK
from tests.attacks.__main__ import PAGE, page
from tests.attacks.attacked_run import attacked_run
from tests.attacks.catalogue import ATTACKS
from tests.support.git_tools import needs_newer_git, with_newer_git
from tests.support.sandboxes import needs_landlock, needs_sandbox

LANDLOCK_ATTACKS = [
    name
    for name, attack in ATTACKS.items()
    if name.startswith(("reads", "writes")) and attack.until is SandboxLevel.WORKSPACE
]
LEVELS = [
    pytest.param(level, marks=() if level is SandboxLevel.OFF else needs_sandbox) for level in SandboxLevel
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_succeeds_only_below_the_level_that_prevents_it(
    tmp_path: Path, name: str, level: SandboxLevel
) -> None:
    """Below that level it does succeed: so the attack is a real one, and its failure above proves something."""
    attack, levels = ATTACKS[name], list(SandboxLevel)
    with attacked_run(tmp_path, level) as aim:
        done = aim.attack(attack.script, attack.task, attack.plan, attack.env)
        assert aim.was_tried(), done.err
        assert attack.succeeded(aim) is (levels.index(level) < levels.index(attack.until)), done.out


@needs_landlock
@pytest.mark.parametrize("name", LANDLOCK_ATTACKS)
def test_landlock_alone_prevents_what_bubblewrap_does_but_for_sockets_that_are_files(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel cannot forbid to connect to those."""
    monkeypatch.setenv(BY_VARIABLE, LANDLOCK)
    attack = ATTACKS[name]
    with attacked_run(tmp_path, SandboxLevel.WORKSPACE) as aim:
        done = aim.attack(attack.script, attack.task, attack.plan, attack.env)
        assert aim.was_tried(), done.err
        assert attack.succeeded(aim) is (name == "reads: a socket of the user's"), done.out


@needs_newer_git
@pytest.mark.parametrize("name", [name for name in ATTACKS if name.startswith("has run")])
def test_a_newer_git_runs_nothing_that_an_agent_planted(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows more ways to name a program than the oldest that we support."""
    monkeypatch.setenv("PATH", with_newer_git())
    attack = ATTACKS[name]
    with attacked_run(tmp_path, SandboxLevel.OFF) as aim:
        done = aim.attack(attack.script, attack.task, attack.plan, attack.env)
        assert aim.was_tried(), done.err
        assert not attack.succeeded(aim), done.out


def test_the_page_on_security_tells_the_attacks_as_they_are() -> None:
    """`python -m tests.attacks` writes it."""
    assert PAGE.read_text() == page()
