"""A SpecFlow state as a run: waves become stages, groups become tasks, results become claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import extra_fields, markdown
from holdfast.formats.lenient_json import Key, Node, commits, message, node, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, ForeignRun, PastFailure
from holdfast.formats.plan_assembly import Assembly, StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.specflow import contradictions, layout
from holdfast.formats.specflow.specification import Spec, parse_spec
from holdfast.formats.specflow.waves import Group, Wave, groups_of
from holdfast.formats.status_words import claim_from, claimed_status

_SPEC_ID = Key("spec_id", "specId", "spec")
_ATTEMPTS = Key("attempts", "attempt")
_COMMITS = Key("commits", "commit")


@dataclass(frozen=True, slots=True)
class ParsedState:
    """A state with its specification: the groups, and the plan and claims that they amount to, in the same order."""

    spec: Spec | None
    groups: list[Group]
    made: Assembly

    @property
    def groups_by_task(self) -> dict[str, Group]:
        """The groups by the ids of their tasks."""
        return dict(zip(self.made.ids, self.groups, strict=True))

    @property
    def waves_by_stage(self) -> dict[str, Node]:
        """The entries of the waves by the ids of their stages."""
        entries = {group.wave.name: group.wave.entry for group in self.groups}
        return {stage: entries[wave] for wave, stage in self.made.stages.items()}


def read_state(main: str, document: Node, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a state file tells of, together with the files around it."""
    name = spec_id(document, main)
    parsed = parse_state(name, document, documents, main)
    made = parsed.made
    claims = {claim.task: claim for claim in made.claims}
    known = {commit for claim in made.claims for commit in claim.commits}
    findings = (
        *contradictions.in_state(document, parsed.groups, [claims[task] for task in made.ids]),
        *contradictions.with_other_files(main, name, made, parsed.spec, documents),
    )
    unclaimed = tuple(commit for commit in commits(document.get("commits")) if commit not in known)
    return made.as_run(System.SPECFLOW, name, main, documents, findings, commits=unclaimed)


def spec_id(document: Node, main: str) -> str:
    """Return the id of the specification that a run implements."""
    return _SPEC_ID.text(document) or layout.spec_in(main) or "SPEC"


def parse_state(name: str, document: Node, documents: Mapping[str, bytes], main: str = "") -> ParsedState:
    """Return the waves as stages, one after the other, the groups as their tasks, and what the state claims of them."""
    spec = _spec_of(name, main, documents)
    groups = groups_of(document, spec)
    waves = {group.wave.name: group.wave for group in groups}
    extra = {wave.name: node(extra_fields.of(wave.entry).get("stage")) for wave in waves.values()}
    stages = [
        extra_fields.stage(StageDraft(native=wave.name), extra[wave.name])
        for wave in sorted(waves.values(), key=_late_waves_last)
    ]
    drafts = [_draft(group, name, spec, document) for group in groups]
    made = assemble(spec.title if spec and spec.title else name, stages, drafts)
    return ParsedState(spec, groups, extra_fields.plan(made, extra_fields.of(document), extra))


def _spec_of(name: str, main: str, documents: Mapping[str, bytes]) -> Spec | None:
    """Return the specification, if it is among the documents: by its name, or because it is the file itself."""
    if main.endswith(".md"):
        spec = parse_spec(markdown.decoded(documents[main]))
        if layout.is_spec(main) or spec.groups:
            return spec
    found = next((path for path in documents if layout.is_spec(path, name)), None)
    return parse_spec(markdown.decoded(documents[found])) if found else None


def _late_waves_last(wave: Wave) -> int:
    """Waves keep the order of the state; those that only the specification knows follow by their numbers."""
    if wave.entry:
        return 0
    number = wave.name.removeprefix("wave-")
    return int(number) if number.isdecimal() and len(number) < 6 else 1


def _draft(group: Group, name: str, spec: Spec | None, document: Node) -> TaskDraft:
    """Return a group as a task: its row in the specification, and the specification as a whole."""
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
    extra = extra_fields.of(group.entry)
    claim = extra_fields.claim(_claim(group, document), extra)
    return TaskDraft(
        native=group.name, stage=group.wave.name, task=extra_fields.task(task, extra), claim=claim
    )


def _claim(group: Group, document: Node) -> Claim:
    """Return what the state says of a group. A run that is one group by itself has all commits of the state."""
    entry = group.entry
    # Where a group has no word of its own, a wave or a whole run that is called complete speaks for it.
    whole = group.wave.said if group.wave.entry else text(document.get("status"))
    said = text(entry.get("status")) or (whole if claimed_status(whole) is ClaimedStatus.DONE else "")
    claim = claim_from(said, _ATTEMPTS.count(entry))
    error = message(entry.get("error"))
    is_whole_run = not group.wave.entry and group.planned is None
    return replace(
        claim,
        failures=(PastFailure(attempt=max(claim.attempts, 1), error=error),) if error else (),
        commits=commits(document.get("commits") if is_whole_run else _COMMITS.raw(entry)),
        files=(*texts(entry.get("files_created")), *texts(entry.get("files_modified"))),
        summary="\n".join((*texts(entry.get("criteria_met")), *texts(entry.get("deviations")))),
    )
