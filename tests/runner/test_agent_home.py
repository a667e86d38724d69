"""The private home of an agent: copies of what it needs, written past whatever an agent has put there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.runner.agent_home import furnish_home
from tests.support.repositories import write
from tests.support.users import powerless, require_root


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A user's home with a login."""
    write(tmp_path / "user" / ".tool" / "login", "token")
    return tmp_path / "user"


def furnish(users: Path) -> Path:
    """Furnish the agent's home and return its copy of the login."""
    home = users.parent / "homes" / "A"
    furnish_home(home, users, [users / ".tool" / "login"])
    return home / ".tool" / "login"


def test_only_its_owner_can_read_a_copy(users: Path) -> None:
    """Neither the folder nor the file is open to others, whatever the original is."""
    (users / ".tool" / "login").chmod(0o644)
    copy = furnish(users)
    assert copy.read_text() == "token"
    assert [path.stat().st_mode & 0o077 for path in (copy, copy.parent, copy.parents[1])] == [0, 0, 0]


CLOSED = """
import sys; from pathlib import Path; from holdfast.runner.agent_home import furnish_home
home, users = Path(sys.argv[1]), Path(sys.argv[2])
furnish_home(home, users, [users / ".tool" / "login"])
for folder in (home / ".tool", home):
    folder.chmod(0)
furnish_home(home, users, [users / ".tool" / "login"])
print((home / ".tool" / "login").read_text())
"""


def test_a_home_that_the_agent_closed_is_open_for_the_next_attempt(users: Path) -> None:
    """The user, who is not root, could not write there."""
    require_root()
    done = powerless(users, sys.executable, "-c", CLOSED, str(users.parent / "homes" / "A"), str(users))
    assert done.out == "token\n", done.err


def test_a_login_that_the_agent_renewed_stays_until_the_user_logs_in_again(users: Path) -> None:
    """The newer of the two counts."""
    copy = furnish(users)
    copy.write_text("renewed")
    os.utime(users / ".tool" / "login", ns=(0, copy.stat().st_mtime_ns - 1))
    assert furnish(users).read_text() == "renewed"
    os.utime(users / ".tool" / "login", ns=(0, copy.stat().st_mtime_ns + 1))
    assert furnish(users).read_text() == "token"


@pytest.mark.parametrize("part", [".tool", ".tool/login"])
def test_a_link_that_an_agent_made_is_replaced_and_not_followed(users: Path, part: str) -> None:
    """Else an agent could have us overwrite a file of the user's choosing."""
    copy = furnish(users)
    home = copy.parents[1]
    victim = write_victim(users.parent)
    if part == ".tool":
        copy.unlink()
        copy.parent.rmdir()
        copy.parent.symlink_to(victim.parent)
    else:
        copy.unlink()
        copy.symlink_to(victim)
    assert furnish(users).read_text() == "token"
    assert victim.read_text() == "precious"
    assert not (home / ".tool").is_symlink()


def write_victim(place: Path) -> Path:
    """Make a file that must not change, and return it."""
    write(place / "elsewhere" / "login", "precious")
    return place / "elsewhere" / "login"


def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_replaced(users: Path) -> None:
    """Neither blocks the start of the next agent."""
    copy = furnish(users)
    copy.unlink()
    os.mkfifo(copy)
    assert furnish(users).read_text() == "token"
    copy.unlink()
    write(copy / "inner" / "file", "x")
    assert furnish(users).read_text() == "token"


def test_what_the_home_lacks_or_what_lies_elsewhere_is_left_out(users: Path) -> None:
    """A preset names more than most users have."""
    write(users.parent / "elsewhere" / "login", "token")
    home = users.parent / "homes" / "A"
    furnish_home(home, users, [users / ".other", users / ".tool", users.parent / "elsewhere" / "login"])
    assert list(home.iterdir()) == []
