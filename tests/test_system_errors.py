"""An error of the system says what was being done, on which file, what the system said, and the way out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.errors import ExitCode
from holdfast.system_errors import doing, machine_error, way_out, way_out_of


def refused(number: int, path: str | None = None, other: str | None = None) -> OSError:
    """Return the error that Python raises when the system refuses something."""
    return OSError(number, os.strerror(number), path, None, other)


def test_the_message_has_act_file_and_what_the_system_said() -> None:
    """And the hint goes on to the next step."""
    with pytest.raises(OSError, match="No space left") as caught, doing("write the plan"):
        raise refused(errno.ENOSPC, "/data/plan.yaml")
    error = machine_error(caught.value, "run the command again")
    assert error.message == "could not write the plan: /data/plan.yaml: No space left on device"
    assert error.hint == "The disk is full: free some space, then run the command again."
    assert error.exit_code is ExitCode.NEEDS_DECISION


def test_acts_within_acts_are_told_from_the_outermost_on() -> None:
    """The user asked for the first one."""
    with pytest.raises(OSError, match="Input") as caught, doing("land a"), doing("write its index"):
        raise refused(errno.EIO, "/x")
    assert (
        machine_error(caught.value, "y").message
        == "could not land a: write its index: /x: Input/output error"
    )


def test_an_error_without_a_name_gets_that_of_the_act() -> None:
    """A failed write says only that it failed."""
    with pytest.raises(OSError, match="quota") as caught, doing("write the note", Path("/note")):
        raise refused(errno.EDQUOT)
    assert machine_error(caught.value, "y").message == "could not write the note: /note: Disk quota exceeded"


def test_of_two_names_the_new_one_is_told() -> None:
    """What was to be made says more than the draft that it was to be made from."""
    assert machine_error(refused(errno.EIO, "/draft", "/real"), "y").message == "/real: Input/output error"


def test_an_error_that_the_system_did_not_number_keeps_its_words() -> None:
    """Python raises some itself."""
    error = machine_error(OSError("no temporary directory"), "try again", "lend an index")
    assert error.message == "could not lend an index: no temporary directory"
    assert error.hint == "Fix that, then try again."


def test_other_errors_pass_untouched() -> None:
    """What is no error of the system is none of its business."""
    with pytest.raises(ValueError, match="no") as caught, doing("count"):
        raise ValueError("no")
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_what_a_file_system_lacks_is_told_with_its_type(number: int) -> None:
    """`/proc` is there on every machine and no ordinary disk."""
    assert way_out(number, "/proc/self").startswith("The file system there (proc) cannot do this")
    assert "Linux 5.4" in way_out(number)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("fatal: Unable to create '/r/.git/x.lock': Read-only file system", "The file system is read-only"),
        ("error: unable to write file: Too many open files", "ulimit -n"),
        ("fatal: cannot mkdir: File name too long", "too long"),
        ("fatal: couldn't find remote ref", ""),
        ("hint: .git/hooks: No such file or directory", ""),
    ],
)
def test_the_words_of_another_program_are_understood_if_they_are_clear(said: str, cause: str) -> None:
    """A name that is not there is everyday business of git, and no cause."""
    found = way_out_of(said)
    assert cause in found
    assert bool(found) == bool(cause)
