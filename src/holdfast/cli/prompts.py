"""Questions to the user. They are asked on a terminal only; elsewhere the safe answer is taken, and said."""

from __future__ import annotations

import os
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
    except KeyboardInterrupt:
        # The shell's prompt must not stand behind the question.
        print()
        raise
    return answer.strip().lower() in _YES


def choose_key(question: str, keys: str, *, default: str) -> str:
    """Ask for one key on the terminal and return it; Enter is the default, the end of input the last of `keys`."""
    print(question, end=" ", flush=True)
    while True:
        pressed = _read_key()
        key = {"": keys[-1], "\x04": keys[-1], "\n": default, "\r": default}.get(pressed, pressed.lower())
        if key in keys:
            print(key)
            return key


def _read_key() -> str:
    """Read one key without waiting for Enter. What was typed ahead counts; the terminal is left as it was."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        return os.read(terminal, 1).decode(errors="replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
