"""Writes docs/commands.md from the table of commands: `python -m tests.commands_page`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.arguments import Argument, OneOf
from holdfast.cli.commands import COMMANDS, module_of

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
_HEAD = """\
# Commands

`python -m tests.commands_page` writes this page from the table of commands. `holdfast COMMAND --help` says what each option
does.

- **RUN** is always optional, and comes before TASK. A number is enough (`holdfast resume 3`), or the beginning of its name.
  Without it a command takes the run that fits: to look, the one in which something happened last; to continue or steer, the
  latest unfinished one; for results, the latest; with a task alone, the latest that has it.
- **TASK** may be shortened to the beginning of its id.
- `--json` prints JSON with whole ids and exact times in UTC. People get numbers and local times.
- `--yes` answers every question. Without a terminal the safe answer is taken and said.
- Exit codes: 0 done, 1 tasks failed, 2 bad input, 3 waits for a decision, 4 another runner holds the run, 130 interrupted
  or paused, and resumable.

[Shell completion](completion.md) knows all of this.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_groups()]) + "\n"


def _groups() -> Iterator[str]:
    for group in dict.fromkeys(row.group for row in COMMANDS.values()):
        yield f"## {group.capitalize()}\n"
        yield "| Command | Does | Options |\n|---|---|---|"
        for name, row in COMMANDS.items():
            if row.group == group:
                yield _line(name, row.summary)
        yield ""


def _line(name: str, summary: str) -> str:
    arguments = [Argument(*one) for one in _flat(name)]
    places = [_place(details) for names, details in arguments if not names[0].startswith("-")]
    options = [f"`{max(names, key=len)}`" for names, _ in arguments if names[0].startswith("-")]
    typed = " ".join([name, *filter(None, places)]).replace("|", "\\|")
    return f"| `{typed}` | {summary} | {' '.join(options)} |"


def _place(details: dict[str, object]) -> str:
    shown = str(details.get("metavar") or "…")
    return f"[{shown}]" if details.get("nargs") == "?" else shown


def _flat(name: str) -> Iterator[Argument]:
    for one in module_of(name).ARGUMENTS:
        yield from one.arguments if isinstance(one, OneOf) else [one]


if __name__ == "__main__":
    PAGE.write_text(page())
