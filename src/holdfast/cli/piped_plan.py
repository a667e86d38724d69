"""A plan from standard input or a pipe: `holdfast run -`, `holdfast run <(command)`.

A pipe in the place of a plan file would keep a command waiting, and is refused like all that is no file. The run keeps
the plan in its journal and in git, so nothing has to be read a second time after a crash.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.agents.presets import agent_names, presets_of
from holdfast.core.plan import Plan
from holdfast.errors import PlanError
from holdfast.plans import parse_plan
from holdfast.plans.source import MAX_SIZE

STANDARD_INPUT = "-"
_OPEN_FILES = ("/dev/fd/", "/proc/self/fd/")


def is_piped(named: str | None) -> bool:
    """Tell whether the plan that was named comes through a pipe that the shell has opened for us.

    A pipe with a name of its own may have nobody at its other end, and would keep the command waiting for ever.
    """
    return named is not None and (named == STANDARD_INPUT or named.startswith(_OPEN_FILES))


def plan_from_pipe(named: str, agent: str, checkout: Path) -> Plan:
    """Read a plan to the end of its pipe, but no more than a plan may have; `agent` replaces its default agent."""
    try:
        return parse_plan(_content(named), named, agent_names(presets_of(checkout)), agent)
    except PlanError as error:
        raise PlanError(
            error.message, "correct what is written to the pipe; `--dry-run` looks at it without running it"
        ) from None


def _content(named: str) -> bytes:
    if named != STANDARD_INPUT:
        with Path(named).open("rb") as pipe:
            return pipe.read(MAX_SIZE + 1)
    if sys.stdin.isatty():
        print("Reading the plan from the terminal; Ctrl-D ends it.", file=sys.stderr)
    return sys.stdin.buffer.read(MAX_SIZE + 1)
