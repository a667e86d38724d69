"""Commands with a folder mounted into another one: in a mount namespace of their own, so that nothing of it is left afterwards."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support.command import Done, run_program


def run_mounted(source: Path, place: Path, *commands: list[str]) -> Done:
    """Mount a folder at a place, which is made, and run commands one after the other, in the folder above `source`.

    All of them are run; the code is that of the last.
    """
    place.mkdir(parents=True)
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = "; ".join(_script(source, place, *commands))
    return run_program(source.parent, ["unshare", *as_root, "--mount", "sh", "-c", script])


def _script(source: Path, place: Path, *commands: list[str]) -> Iterator[str]:
    yield f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(place))} || exit 99"
    for command in commands:
        yield shlex.join(command)
