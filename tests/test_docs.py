"""Documents that cannot drift: features name real tests, generated pages are current, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli.commands import COMMANDS, parse
from holdfast.views.event_text import _SENTENCES
from tests.features import PAGES, TO_COME, Feature, features

ROOT = Path(__file__).parents[1]
PAGES_OF_OURS = sorted(
    path
    for folder in (".", "docs", "docs/decisions", "skills/holdfast", "commands")
    for path in (ROOT / folder).glob("*.md")
)
TIMELINE = re.compile(r"^\d\d:\d\d:\d\d  (.*)$", re.M)
TYPED = re.compile(r"^\$ (holdfast [^#|<\n]+?)(?: {2,}#.*)?$|`(holdfast [a-z][^`<]*)`", re.M)
SHORTENED = re.compile(r"[…|>]|--help")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("feature", features(), ids=lambda one: one.id)
def test_each_feature_names_existing_tests(feature: Feature) -> None:
    """A promise without a test is none: one or two to read first, and each exists under the name given."""
    assert 1 <= len(feature.best) <= 2
    for test in feature.tests:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {name}\(", text, re.M), f"no {name} in tests/{file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_pages_of_features_are_current(page: Path) -> None:
    """`python -m tests.features` writes them."""
    assert page.read_text() == PAGES[page]()


def test_every_id_of_the_mission_is_shown_or_listed_as_to_come() -> None:
    """Nothing of the mission is forgotten, and nothing is in both lists."""
    shown = {one.id for one in features()}
    assert not shown & set(TO_COME)
    mission = ROOT.parent / "shared" / "FEATURES.md"
    if not mission.exists():
        pytest.skip("the mission document is not beside this checkout")
    assert set(re.findall(r"^- ([AECUSX]\d+) ", mission.read_text(), re.M)) <= shown | set(TO_COME)


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    """A renamed page takes its links along."""
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def _sentences() -> list[re.Pattern[str]]:
    """Return what a line of a timeline may say: the sentences of events, and those of agents that were found again."""
    fixed = ["re-attached to .+", "collecting .+, which ended meanwhile", "pause requested: .+"]
    fixed += [
        "the base (holds(, as an earlier run found)?|fails a check: .+)",
        "set-up fails on the base: .+",
    ]
    fixed.append("a check of the plan cannot be executed: .+")
    made = [re.sub(r"\\\{.*?\\\}", ".*", re.escape(text)) for text in _SENTENCES.values() if text]
    made = [text for text in made if text != ".*"]
    fixed += [r"\w+ is at its limit until .+", r"\w+ is unreachable since .+", r"\w+ answers again"]
    return [re.compile(text) for text in [*fixed, *made]]


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_printed_timeline_says_what_the_program_says(page: Path) -> None:
    """Output in a document is real output; a reworded sentence is reworded there too."""
    said = TIMELINE.findall(page.read_text())
    assert [line for line in said if not any(sentence.fullmatch(line) for sentence in _sentences())] == []


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_a_document_exists_with_its_flags(page: Path) -> None:
    """What a document tells a user to type is what the program understands."""
    typed = [first or second for first, second in TYPED.findall(page.read_text())]
    for line in typed:
        words = shlex.split(line.replace("$ARGUMENTS", "something"))[1:]
        if " ".join(words) not in COMMANDS and not SHORTENED.search(line):
            parse(words)
