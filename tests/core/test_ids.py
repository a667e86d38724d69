"""Names: run ids, and refs that git accepts for every id a plan may use."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.core.ids import is_valid_id, run_id, slug, task_ref, with_run_numbers


def test_a_run_id_is_a_two_digit_counter_and_a_slug_of_the_goal() -> None:
    """A2: readable, sortable, and safe as a branch name and a folder."""
    assert run_id(1, "Add JWT auth to every route!") == "01-add-jwt-auth-to-every-route"
    assert run_id(123, "Ünïcode?") == "123-n-code"


def test_a_goal_without_a_letter_still_has_a_slug() -> None:
    """No goal can make an empty name."""
    assert slug("…!") == "run"


@pytest.mark.parametrize(
    "name", ["a", "L1-001", "a..b", "a.", "x.lock", "a.lock.lock", "v1.2_rc-3", "A" * 64]
)
def test_every_id_makes_a_ref_that_git_accepts(name: str) -> None:
    """Dots that git forbids are escaped; git itself is the judge."""
    assert is_valid_id(name)
    checked = subprocess.run(["git", "check-ref-format", task_ref("01-run", name, 1)], check=False)
    assert checked.returncode == 0


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "a" * 65, "ä", "a\n"])
def test_what_could_be_misread_is_no_id(name: str) -> None:
    """Ids reach folders, refs and command lines, so their grammar is narrow."""
    assert not is_valid_id(name)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("`holdfast resume 03-add-jwt-auth` continues it", "`holdfast resume 3` continues it"),
        ("`holdfast retry 12-x b`; `holdfast stop 100-y`", "`holdfast retry 12 b`; `holdfast stop 100`"),
        ("`holdfast inspect 01-try-it b --wip`", "`holdfast inspect 1 b --wip`"),
        ("run 03-add-jwt-auth is held", "run 03-add-jwt-auth is held"),
        ("`holdfast run 03-plan.yaml`", "`holdfast run 03-plan.yaml`"),
        ("`holdfast adopt 001-login`", "`holdfast adopt 001-login`"),
        ("`holdfast retry 01-model`", "`holdfast retry 01-model`"),
        ("`holdfast resume --accept 03-execute`", "`holdfast resume --accept 03-execute`"),
    ],
)
def test_commands_in_a_hint_name_runs_by_number(text: str, short: str) -> None:
    """A number is enough to type. Files, tasks and stages that look like runs keep their names."""
    assert with_run_numbers(text) == short
