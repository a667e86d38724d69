"""Questions to the user, asked only on a terminal. Elsewhere the safe answer is taken and reported."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import dataclass

from holdfast.errors import NeedsDecisionError
from holdfast.escapes import without_controls
from holdfast.views.terminal import flush_output

_YES = frozenset({"y", "yes"})


@dataclass(slots=True)
class _Keyboard:
    """Whether the answer before was one key. Many people press Enter after it, which must not answer the next question."""

    ends_with_key: bool = False


_KEYBOARD = _Keyboard()


def is_interactive() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, *, yes: bool) -> bool:
    """Ask a question whose safe answer is no. `yes` answers it in advance."""
    if yes:
        return True
    if not is_interactive():
        flush_output()
        print(f"{question} No terminal to ask on, so the answer is no.", file=sys.stderr)
        return False
    asked = f"{without_controls(question)} [y/N] "
    after_key, _KEYBOARD.ends_with_key = _KEYBOARD.ends_with_key, False
    try:
        # On a terminal the question does not go through standard output.
        answer = input(asked) or (input(asked) if after_key else "")
    except EOFError:
        print()
        return False
    except KeyboardInterrupt:
        # The shell's prompt must start on a new line.
        print()
        raise
    return answer.strip().lower() in _YES


def require_yes(question: str, args: Namespace, refusal: str = "nothing was done") -> None:
    """Ask, unless `--yes` was given. Raises NeedsDecisionError with `refusal` if the answer is no."""
    if not confirm(question, yes=args.yes):
        raise NeedsDecisionError(refusal, "use --yes to do it without being asked")


def choose_key(question: str, keys: str, *, default: str) -> str:
    """Ask for one key on the terminal and return it; Enter is the default, the end of input the last of `keys`."""
    print(question, end=" ", flush=True)
    while True:
        pressed = _read_key()
        key = {"": keys[-1], "\x04": keys[-1], "\n": default, "\r": default}.get(pressed, pressed.lower())
        if key in keys:
            print(key)
            _KEYBOARD.ends_with_key = bool(pressed.strip())
            return key


def choose_number(question: str, lines: list[str], *, quit_key: str = "") -> int | None:
    """Show numbered lines and return the index of the one that the user picks; None for `quit_key`.

    Enter quits where that is possible, else it takes the first. One key is read, so there are at most nine lines.
    """
    print("\n".join(f"  {number}  {line}" for number, line in enumerate(lines, 1)))
    keys = "".join(str(number) for number in range(1, len(lines) + 1))
    way_out = quit_key or keys[0]
    hint = f", {quit_key}" if quit_key else ""
    key = choose_key(f"{question} [1-{len(lines)}{hint}]", keys + way_out, default=way_out)
    return None if key == quit_key else int(key) - 1


def _read_key() -> str:
    """Read one key without waiting for Enter. Keys typed ahead count; the terminal is left as it was."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        return os.read(terminal, 1).decode(errors="replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
