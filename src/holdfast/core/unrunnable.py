"""Whose fault it is that a command could not be executed: the plan's and the machine's, or the agent's whose work it ran on.

Pure. A shell that cannot execute a program says so and ends with 126 or 127. What it named decides: a program of the machine
is nobody's work; a file of the tree may be what the attempt broke, deleted, or was to create.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

CANNOT_EXECUTE = (126, 127)
"""The statuses with which a shell ends that found a command but cannot execute it, or found none."""

_LINES = 40
_SAID = re.compile(
    r"""^(?:
      (?:\S*/)?(?:sh|dash|bash|ash|ksh|zsh)(?:\[\d+\])?:\s(?:(?:line\s)?\d+:\s)?   # who says it, and in which line
      (?P<shell>[^:\s][^:]*?):\s
      (?:(?:/[^:]*:\s)?bad\sinterpreter:\s)?
      (?:command\snot\sfound|not\sfound|No\ssuch\sfile\sor\sdirectory|Permission\sdenied|cannot\sexecute.*
         |Is\sa\sdirectory|Exec\sformat\serror)
    | (?:\S*/)?env:\s['\u2018"]?(?P<env>[^:'\u2019"]+)['\u2019"]?:\s(?:No\ssuch\sfile\sor\sdirectory|Permission\sdenied)
    )\s*$""",
    re.VERBOSE,
)


class CommandFault(StrEnum):
    """Whose fault it is. `UNSURE`: the task may have been to create it; the agent gets one more attempt."""

    AGENT = "agent"
    PLAN = "plan"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class TreePath:
    """What git shows of the file that the shell named: before the task's work, and in the tree that was checked."""

    before: bool
    now: bool
    changed: bool


def program_named(code: int, output: str) -> str:
    """Return the program that a shell could not execute, as it named it; empty if it says nothing of the kind."""
    found = _line_said(output) if code in CANNOT_EXECUTE else None
    return (found["shell"] or found["env"]).strip() if found else ""


def words_said(output: str) -> str:
    """Return the line in which a shell says that it cannot execute something."""
    found = _line_said(output)
    return found.string if found else ""


def _line_said(output: str) -> re.Match[str] | None:
    lines = reversed(output.splitlines()[-_LINES:])
    return next((found for line in lines if (found := _SAID.match(line))), None)


def lacks_program(command: str, code: int, output: str) -> bool:
    """Tell whether a shell could not execute a program of the machine that the command itself names.

    A program of the tree is another matter: a task may write it, or make it executable.
    """
    named = program_named(code, output)
    return bool(named) and not tree_path(named) and _names(command, named)


def tree_path(program: str) -> str:
    """Return the path in the tree that a program's name stands for; empty if it is a program of the machine."""
    if "/" not in program or program.startswith(("/", "~")):
        return ""
    parts = [part for part in program.split("/") if part not in ("", ".")]
    return "" if ".." in parts else "/".join(parts)


def fault_of(program: str, command: str, file: TreePath | None) -> CommandFault:
    """Return whose fault it is that a program of a command, or of a script that it runs, could not be executed.

    `file` is what git shows if the program is a file of the tree.
    """
    if file is None:
        return CommandFault.PLAN if _names(command, program) else CommandFault.UNSURE
    if not file.now:
        return CommandFault.AGENT if file.before else CommandFault.UNSURE
    return CommandFault.AGENT if file.changed else CommandFault.PLAN


def _names(command: str, program: str) -> bool:
    """Tell whether a command itself names a program: the plan wrote that, no agent."""
    return re.search(rf"(?<![\w./-]){re.escape(program)}(?![\w/-])", command) is not None
