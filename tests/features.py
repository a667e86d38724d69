"""The features of the mission and the tests that show them: `python -m tests.features` writes the two pages.

`features.toml` is the source. docs/features.md names the one or two best tests of each feature, docs/feature-tests.md all.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = Path(__file__).with_name("features.toml")
GROUPS = {
    "A": "APEX: phases, state file, resume",
    "E": "Execute: layers, worktrees, merge queue",
    "C": "CFN Loop: checkpoints, reports, validators, recovery commands",
    "U": "Auto-Claude: plan, staging worktree, memory",
    "S": "SpecFlow: waves, gates, pause",
    "X": "Beyond all five",
}
TO_COME = {
    "X7": "many machines",
    "X14": "a merge queue that checks ahead",
}
_HEAD = """\
# Features and the tests that show them

Each line of the mission has an id. It counts as done when a test shows it on real parts: a real repository, real
processes, a real `kill -9`. This page names the best one or two tests of each feature; [all of them](feature-tests.md)
are on a page of their own. Both pages are written by `python -m tests.features` from `tests/features.toml`, and a test
checks that every named test exists.
"""
_ALL_HEAD = """\
# All tests of each feature

Written by `python -m tests.features` from `tests/features.toml`. [Features](features.md) names the best ones.
"""


@dataclass(frozen=True, slots=True)
class Feature:
    """One line of the mission. Tests are spelled `file.py::test_name`, relative to `tests/`."""

    id: str
    promise: str
    best: tuple[str, ...]
    more: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[str, ...]:
        """Every test that shows the feature."""
        return self.best + self.more


def features() -> list[Feature]:
    """Read the features, in the order of the mission."""
    table = tomllib.loads(SOURCE.read_text())
    return [
        Feature(name, row["promise"], tuple(row["best"]), tuple(row.get("more", ())))
        for name, row in table.items()
    ]


def features_page() -> str:
    """Return docs/features.md."""
    parts = [_HEAD]
    for letter, title in GROUPS.items():
        rows = [_row(one) for one in features() if one.id.startswith(letter)]
        parts.append(f"## {title}\n\n| Id | Promise | Shown by |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    coming = "\n".join(f"- {name}: {what}" for name, what in TO_COME.items())
    return "\n".join([*parts, f"## To come\n\n{coming}\n"])


def _row(feature: Feature) -> str:
    return f"| {feature.id} | {feature.promise} | {'<br>'.join(map(_link, feature.best))} |"


def all_tests_page() -> str:
    """Return docs/feature-tests.md."""
    parts = [_ALL_HEAD]
    for one in features():
        tests = "\n".join(f"- {_link(test)}" for test in one.tests)
        parts.append(f"## {one.id}\n\n{one.promise}.\n\n{tests}\n")
    return "\n".join(parts)


def _link(test: str) -> str:
    file, _, name = test.partition("::")
    return f"[`{name}`](../tests/{file})"


PAGES = {
    ROOT / "docs" / "features.md": features_page,
    ROOT / "docs" / "feature-tests.md": all_tests_page,
}


def main() -> None:
    """Write both pages."""
    for path, page in PAGES.items():
        path.write_text(page())


if __name__ == "__main__":
    main()
