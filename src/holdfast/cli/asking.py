"""Questions to the user. They are asked on a terminal only; elsewhere the safe answer is taken, and said."""

from __future__ import annotations

import sys

_YES = frozenset({"y", "yes"})


def is_interactive() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, *, yes: bool) -> bool:
    """Ask a question whose safe answer is no. `yes` answers it in advance."""
    if yes:
        return True
    if not is_interactive():
        print(f"{question} No terminal to ask on: taken as no.", file=sys.stderr)
        return False
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in _YES
