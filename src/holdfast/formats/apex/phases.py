"""The table of phases that APEX knows, and the phases of a state.json as one list.

Reader and writer both use this module, so they give a phase the same id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.formats import extra_fields
from holdfast.formats.lenient_json import Key, Node, items, text
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.plan_assembly import task_ids
from holdfast.formats.status_words import claimed_status

_WHAT = {
    "init": "Load what is known of the project: conventions, documents, tech stack, and what the task touches.",
    "analyze": "Find what exists for this task: patterns, files, dependencies, risks. Change nothing.",
    "plan": "Write the steps, the files to create and to modify, and the acceptance criteria. Change no code.",
    "execute": "Carry the plan out, step by step.",
    "validate": "Build, type-check and lint; fix what fails, and check every acceptance criterion.",
    "examine": "Review the work as an adversary would, and list what is wrong.",
    "resolve": "Fix what the examination found.",
    "security": "Look for vulnerabilities in what was changed, and fix those that are real.",
    "review": "Review the changes for correctness, clarity and fit, and fix what you find.",
    "tests": "Write the tests that this task needs.",
    "run-tests": "Run the tests and fix what fails until they pass.",
    "e2e-chrome": "Walk through the acceptance criteria in a browser, and fix what fails.",
    "playwright": "Write or update the end-to-end tests that run in CI.",
    "docs": "Bring the documentation up to date with the changes.",
    "cicd": "Check the CI pipeline against the changes, and update it where it needs to be.",
    "finish": "Sum up what was done, and see that nothing is left half-finished.",
    "brainstorm": "Explore the idea: users, scope, constraints, alternatives.",
    "prd": "Write the product requirements and the stories.",
    "architecture": "Decide and write down the architecture.",
    "scaffold": "Create the project's structure and boilerplate.",
    "mvp-implement": "Implement the stories of the first release.",
    "mvp-validate": "Build and check the first release; fix what fails.",
    "docker": "Write the container files.",
    "deploy": "Write the deployment manifests.",
}
_MAY_BE_EMPTY = re.compile(
    r"init|context|analy.*|plan|brainstorm|research|(.*-)?validate|security|review|examine|resolve|run-tests|e2e.*|"
    r"audit|check|verify|finish"
)

APEX = (
    ("0", "init"), ("1", "analyze"), ("2", "plan"), ("3", "execute"), ("4", "validate"), ("5", "security"),
    ("6", "review"), ("7", "tests"), ("8", "run-tests"), ("8b", "e2e-chrome"), ("8c", "playwright"), ("9", "docs"),
    ("10", "cicd"), ("11", "finish"),
)  # fmt: skip
APEX_INIT = (
    ("0", "init"), ("1", "brainstorm"), ("2", "prd"), ("3", "architecture"), ("4", "scaffold"), ("5", "validate"),
    ("6", "mvp-implement"), ("7", "mvp-validate"), ("7b", "e2e-chrome"), ("7c", "playwright"), ("8", "docker"),
    ("9", "deploy"), ("10", "cicd"), ("11", "docs"), ("12", "finish"),
)  # fmt: skip

_PHASES_OF_FLAG: dict[str, tuple[str, ...] | None] = {
    "auto": None, "examine": ("review", "examine"), "tests": ("tests",), "security": ("security",), "docs": ("docs",),
    "cicd": ("cicd",), "pr": (), "save": None, "docker": ("docker",), "helm": (), "kustomize": (),
    "mvp": ("mvp-implement",),
}  # fmt: skip
"""The phases that each flag asks for.

No flag is always set: we save every phase and ask nothing in between.
"""


def prompt_for(name: str) -> str:
    """Return what an agent is asked to do in a phase."""
    what = _WHAT.get(name.casefold(), "Do what this phase of the work is for.")
    return f"This is the phase `{name}`. {what}"


def may_be_empty(name: str) -> bool:
    """Tell whether a phase can be done without changing a file: analysis, planning and checks can."""
    return _MAY_BE_EMPTY.fullmatch(name.casefold()) is not None


def flags_of(names: list[str]) -> dict[str, bool]:
    """Return the flags that ask for these phases."""
    return {
        flag: phases is None or not set(phases).isdisjoint(names) for flag, phases in _PHASES_OF_FLAG.items()
    }


def not_wanted(flags: Node) -> set[str]:
    """Return the phases that a state's flags turn off. A flag that it lacks says nothing."""
    asked = {
        flag: phases
        for flag, phases in _PHASES_OF_FLAG.items()
        if phases and isinstance(flags.get(flag), bool)
    }
    wanted = {name for flag, phases in asked.items() if flags[flag] for name in phases}
    return {name for flag, phases in asked.items() if not flags[flag] for name in phases} - wanted


LISTS = {"completed_phases": "PASS", "current_phase": "IN_PROGRESS", "pending_phases": ""}
"""The lists of a state, in reading order, each with the status for entries that have none."""
_NUMBER = Key("number", "phase", "phase_number", "step")
_NAME = Key("name", "phase_name", "title")
_NUMBER_PARTS = re.compile(r"(\d{1,6})([a-z]{0,2})")


@dataclass(slots=True)
class ApexPhase:
    """One phase: the list that counts, its entry there, and the earlier entries of the same phase (its iterations).

    `listed_twice` says that it is listed as finished and as still to do. `pending_entry` is its entry among the
    pending ones, where APEX also lists the current phase; empty if there is none.
    """

    number: str
    name: str
    place: str
    entry: Node
    earlier: list[Node] = field(default_factory=list)
    listed_twice: bool = False
    pending_entry: Node = field(default_factory=dict)
    id: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the phase: its number, and its name in lower case."""
        return self.number, self.name.casefold()

    @property
    def label(self) -> str:
        """Its number and name: its id, unless another phase has the same."""
        return "-".join(part for part in (self.number, self.name) if part)

    @property
    def status(self) -> str:
        """The status word of its entry."""
        return text(self.entry.get("status"))

    @property
    def said(self) -> str:
        """The status word of its entry; if it has none, the default of its list."""
        return self.status or LISTS[self.place]

    @property
    def standing(self) -> ClaimedStatus:
        """Its status. A phase that is still listed as pending is not done, even if its entry says so."""
        standing = claimed_status(self.said)
        is_open = self.place == "pending_phases" and standing is ClaimedStatus.DONE
        return ClaimedStatus.PENDING if is_open else standing


def is_state(document: Node) -> bool:
    """Tell whether an object has the lists that only an APEX state has."""
    return not document.keys().isdisjoint(LISTS)


def phases_of(document: Node) -> list[ApexPhase]:
    """Return the phases in the order of their numbers, or as listed where some have none, each with its id."""
    found: dict[tuple[str, str], ApexPhase] = {}
    for place, entry in _entries(document):
        _add_entry(found, place, entry)
    phases = list(found.values())
    if all(_NUMBER_PARTS.fullmatch(phase.number) for phase in phases):
        phases.sort(key=lambda phase: order_of(phase.number))
    natives = [text(extra_fields.of(phase.entry).get("id")) or phase.label for phase in phases]
    for phase, name in zip(phases, task_ids(natives, "phase"), strict=True):
        phase.id = name
    return phases


def order_of(number: str) -> tuple[int, str]:
    """Return the sort key of a phase by its number: 8, 8b, 8c, 9."""
    found = _NUMBER_PARTS.fullmatch(number)
    return (int(found[1]), found[2]) if found else (0, "")


def _entries(document: Node) -> Iterator[tuple[str, Node]]:
    """Yield every entry with its list. A phase may be given by its bare name or number."""
    for place in LISTS:
        for item in items(document.get(place)):
            entry = item if isinstance(item, dict) else _named(text(item))
            if entry:
                yield place, entry


def _named(word: str) -> Node:
    """Return an entry for `4`, `validate` or `4-validate`."""
    found = re.fullmatch(r"(\d{1,3}[a-z]?)(?:[-_ ]+(.+))?", word)
    if found:
        return {"number": found[1], "name": found[2] or ""}
    return {"name": word} if word else {}


def _add_entry(found: dict[tuple[str, str], ApexPhase], place: str, entry: Node) -> None:
    """Add an entry. APEX also lists the current phase among the pending ones; then "current" wins."""
    number, name = _NUMBER.text(entry).casefold(), _NAME.text(entry)
    known = found.setdefault(_key(found, number, name), ApexPhase(number, name, place, entry))
    known.number, known.name = known.number or number, known.name or name
    if place == "pending_phases":
        known.pending_entry = entry
    if known.entry is entry or (place, known.place) == ("pending_phases", "current_phase"):
        return
    known.listed_twice = known.listed_twice or place != known.place
    known.earlier.append(known.entry)
    known.place, known.entry = place, entry


def _key(found: dict[tuple[str, str], ApexPhase], number: str, name: str) -> tuple[str, str]:
    """Return the key of a phase. Lists that omit its number or its name mean the same phase."""
    key = (number, name.casefold())
    if key in found:
        return key
    for other in found:
        pairs = [pair for pair in zip(key, other, strict=True) if all(pair)]
        if pairs and all(mine == theirs for mine, theirs in pairs):
            return other
    return key


def with_number_and_name(entry: Node, phase: ApexPhase) -> Node:
    """Return an entry with the number and the name of its phase, where it lacks them."""
    number = phase.number
    missing: Node = {}
    if number and not _NUMBER.text(entry):
        # The document has integers, and text such as `8b`.
        missing["number"] = int(number) if re.fullmatch(r"0|[1-9][0-9]{0,5}", number) else number
    if phase.name and not _NAME.text(entry):
        missing["name"] = phase.name
    return missing | entry
