"""Reading a SpecFlow run: waves into stages, groups into tasks, results into claims."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.plan import Task
from holdfast.formats import extra_fields, lenient_json, markdown
from holdfast.formats.lenient_json import Node
from holdfast.formats.model import (
    SETTLED,
    UNBEGUN,
    Claim,
    ClaimedStatus,
    ForeignRun,
    PastFailure,
    spent_of,
)
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.contradictions import companion_contradictions, state_contradictions
from holdfast.formats.specflow.specification import Spec, parse_spec
from holdfast.formats.specflow.waves import Group, Wave, groups_of
from holdfast.formats.status_words import claimed_status


def read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file tells of, together with what lies around it."""
    name = spec_id(document, main)
    spec = spec_of(name, main, documents)
    groups = groups_of(document, spec)
    made = assembled(name, document, spec, groups)
    claims = {claim.task: claim for claim in made.claims}
    attributed = {commit for claim in made.claims for commit in claim.commits}
    return ForeignRun(
        system=System.SPECFLOW,
        name=name,
        plan=made.plan,
        claims=made.claims,
        finished=all(claim.standing in SETTLED for claim in made.claims),
        commits=tuple(c for c in lenient_json.commits(document.get("commits")) if c not in attributed),
        findings=(
            *state_contradictions(document, groups, [claims[task] for task in made.ids]),
            *companion_contradictions(main, name, made, spec, documents),
            *made.findings,
        ),
        main=main,
        documents=dict(documents),
    )


def spec_id(document: Node, main: str) -> str:
    """Return the id of the specification that a run carries out."""
    return (
        lenient_json.text(lenient_json.first(document, "spec_id", "specId", "spec"))
        or layout.spec_in(main)
        or "SPEC"
    )


def spec_of(name: str, main: str, documents: Mapping[str, bytes]) -> Spec | None:
    """Return the specification, if it is among the documents: by its name, or because it is the file itself."""
    wanted = [path for path in documents if layout.is_spec(path) and layout.spec_in(path) == name]
    if main.endswith(".md") and (
        layout.is_spec(main) or parse_spec(markdown.decoded(documents[main])).groups
    ):
        wanted = [main]
    return parse_spec(markdown.decoded(documents[wanted[0]])) if wanted else None


def assembled(name: str, document: Node, spec: Spec | None, groups: list[Group]) -> Assembly:
    """Return the waves as stages, one after the other, the groups as their tasks, and what is claimed of them."""
    waves = {group.wave.name: group.wave for group in groups}
    noted = {
        wave.name: lenient_json.node(extra_fields.of(wave.entry).get("stage")) for wave in waves.values()
    }
    stages = [
        extra_fields.stage(StageDraft(native=wave.name), noted[wave.name])
        for wave in sorted(waves.values(), key=_late_waves_last)
    ]
    drafts = [
        TaskDraft(native=group.name, stage=group.wave.name, task=_task(group, name, spec), claim=group_claim(group, document))
        for group in groups
    ]  # fmt: skip
    made = assemble(spec.title if spec and spec.title else name, stages, drafts)
    return extra_fields.plan(made, extra_fields.of(document), noted)


def _late_waves_last(wave: Wave) -> int:
    """Waves keep the order of the state; those that only the specification knows follow by their numbers."""
    if wave.entry:
        return 0
    number = wave.name.removeprefix("wave-")
    return int(number) if number.isdecimal() and len(number) < 6 else 1


def _task(group: Group, name: str, spec: Spec | None) -> Task:
    """Return a group as a task: what its row says, and the specification as a whole."""
    tasks = group.planned.tasks if group.planned else ""
    place = f"This is group {group.name} of {name}." if group.planned or not spec else ""
    whole = f"The specification:\n\n{spec.whole}" if spec and spec.whole else ""
    task = Task(
        id="",
        title=tasks if len(tasks) <= 80 else group.name,
        prompt="\n\n".join(part for part in (tasks, place, whole) if part),
        needs=group.planned.needs if group.planned else (),
        acceptance=spec.criteria if spec and not spec.groups else (),
    )
    return extra_fields.task(task, group.note)


def group_claim(group: Group, document: Node) -> Claim:
    """Return what the state says of a group."""
    entry = group.entry
    said = _word(group, document)
    standing = claimed_status(said)
    attempts = lenient_json.count(lenient_json.first(entry, "attempts", "attempt")) or int(
        standing not in UNBEGUN
    )
    error = lenient_json.message(entry.get("error"))
    claim = Claim(
        task="",
        standing=standing,
        said=said,
        attempts=attempts,
        spent=spent_of(standing, attempts),
        failures=(PastFailure(attempt=max(attempts, 1), error=error),) if error else (),
        commits=_commits(group, document),
        files=(
            *lenient_json.texts(entry.get("files_created")),
            *lenient_json.texts(entry.get("files_modified")),
        ),
        summary="\n".join(
            (*lenient_json.texts(entry.get("criteria_met")), *lenient_json.texts(entry.get("deviations")))
        ),
    )
    return extra_fields.claim(claim, group.note)


def _word(group: Group, document: Node) -> str:
    """Return the word for a group: its own, else that of a wave or of a whole run that is called complete."""
    if said := lenient_json.text(group.entry.get("status")):
        return said
    wholes = [group.wave.said] if group.wave.entry else [lenient_json.text(document.get("status"))]
    return next((said for said in wholes if claimed_status(said) is ClaimedStatus.DONE), "")


def _commits(group: Group, document: Node) -> tuple[str, ...]:
    """Return the commits of a group; a run that is one group by itself has all that the state names."""
    is_whole = not group.wave.entry and group.planned is None
    return lenient_json.commits(
        document.get("commits") if is_whole else lenient_json.first(group.entry, "commits", "commit")
    )
