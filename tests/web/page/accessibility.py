"""axe-core in a page: what it finds is a violation of WCAG 2.2 AA or of good practice."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def missing_axe() -> str:
    """Return why no page can be judged here; empty if one can."""
    return "" if AXE.exists() else "axe-core is not installed: `make test` installs it by npm"


def violations(page: Page) -> list[str]:
    """Return what axe-core finds, each with the elements that it is about."""
    # The page's own rules let no foreign script in, which is as it must be: this one comes through the debugger.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})",
        _RULES,
    )
    return [
        f"{one['id']}: {one['help']}: "
        + "; ".join(
            f"{' '.join(map(str, node['target']))} ({node['failureSummary']})" for node in one["nodes"][:4]
        )
        for one in found["violations"]
    ]
