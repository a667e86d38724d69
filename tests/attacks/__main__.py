"""`python -m tests.attacks` writes the table of attacks in docs/security.md from the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.core.status import SandboxLevel
from tests.attacks.catalogue import ATTACKS, Attack

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_TABLE = re.compile(r"^\| An agent .*?(?=\n\n)", re.M | re.S)


def page() -> str:
    """Return the page with the table as the catalogue has it."""
    levels = list(SandboxLevel)
    head = f"| An agent … | {' | '.join(map(str, levels))} |\n|---|{'---|' * len(levels)}"
    rows = "\n".join(f"| {name} | {_cells(attack, levels)} |" for name, attack in ATTACKS.items())
    return _TABLE.sub(lambda _: f"{head}\n{rows}", PAGE.read_text(), count=1)


def _cells(attack: Attack, levels: list[SandboxLevel]) -> str:
    needed = levels.index(attack.until)
    return " | ".join("prevented" if at >= needed else "**succeeds**" for at, _ in enumerate(levels))


if __name__ == "__main__":
    PAGE.write_text(page())
