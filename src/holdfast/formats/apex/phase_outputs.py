"""The Markdown file that each phase writes for people. Also read, to rebuild a task whose state is broken.

The state is written before the output of a phase, so an output means that its phase ended. Every guess is a
finding.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.formats import markdown
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.phases import ApexPhase, order_of, phases_of
from holdfast.formats.apex.state import read_state
from holdfast.formats.exported_run import ExportedRun, NativeFile
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time, node, text
from holdfast.formats.model import SEVERAL_RESUME_POINTS, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.status_words import claimed_status

_ALWAYS_PART = ("init", "analyze", "plan", "execute", "brainstorm", "prd", "architecture", "scaffold")
_SUMMARY_CHARS = 1_000
_Key = tuple[str, str]
"""A phase by its number and its name in lower case."""


@dataclass(frozen=True, slots=True)
class _Output:
    """The output of a phase: its file name and its text."""

    file: str
    text: str

    @property
    def result(self) -> ClaimedStatus | None:
        """The result that it states; empty if none."""
        word = markdown.value(self.text, "Status", "Result", "Verdict")
        return claimed_status(word) if word else None

    @property
    def summary(self) -> str:
        """Its summary section, else its first paragraph that is not a heading."""
        said = markdown.section(self.text, "Summary")
        paragraphs = (part for part in re.split(r"\n\s*\n", self.text) if not part.lstrip().startswith("#"))
        return (said or next(paragraphs, "")).strip()[:_SUMMARY_CHARS]


def rebuild_run(main: str, documents: Mapping[str, bytes], why: str, part: Node) -> ForeignRun:
    """Return the task that the outputs show, and `part`, what is left of its state. Raises BrokenFileError if nothing is."""
    outputs = _outputs(main, documents)
    listed = _listed_phases(part)
    described = text(part.get("task_description"))
    if not outputs and not listed and not described:
        hint = (
            "No phase of this task left an output to rebuild it from. Start fresh with "
            '`holdfast run --workflow apex "what to do"`; the old files are left as they are.'
        )
        raise BrokenFileError(why, hint)
    init = next((found.text for (_, name), found in outputs.items() if name == "init"), "")
    planned = markdown.section(init, "Phase Plan")
    goal = described or markdown.section(init, "Task", "Task Description") or markdown.value(init, "Task")
    expected = _expected(main, outputs, listed, planned.casefold(), part)
    named = {"task_id": text(part.get("task_id")) or layout.task_in(main), "task_description": goal}
    run = read_state(main, {**part, **named, **_lists(outputs, listed, expected)}, documents)
    in_order = sorted(expected, key=lambda key: order_of(key[0]))
    ids = {key: claim.task for key, claim in zip(in_order, run.claims, strict=True)}
    guesses = _guesses(outputs, listed, ids, has_goal=bool(goal), has_plan=bool(planned or part.get("flags")))
    points = _resume_points(outputs, expected, ids) if outputs and not listed else ()
    return replace(run, findings=(_rebuilt(why, len(outputs), part), *guesses, *points, *run.findings))


def _listed_phases(part: Node) -> dict[_Key, ApexPhase]:
    """Return the phases that the rest of a state names. One that was cut off before its name is the one of its number."""
    is_init = text(part.get("workflow")) == "apex-init"
    names = dict(phases.APEX_INIT if is_init else phases.APEX)
    found: dict[_Key, ApexPhase] = {}
    for phase in phases_of(part):
        phase.name = phase.name or names.get(phase.number, "")
        phase.entry = phases.with_number_and_name(phase.entry, phase)
        if phase.name:
            found[phase.key] = phase
    return found


def _rebuilt(why: str, outputs: int, part: Node) -> Finding:
    sources = [
        "the part of the state before that" if part else "",
        f"{outputs} phase output{'' if outputs == 1 else 's'}" if outputs else "",
    ]
    return Finding("rebuilt", f"{why}. The task was rebuilt from {' and '.join(filter(None, sources))}.")


def _outputs(main: str, documents: Mapping[str, bytes]) -> dict[_Key, _Output]:
    """Return the outputs of the task that `main` belongs to, in the order of its phases."""
    wanted = layout.task_in(main)
    found: dict[_Key, _Output] = {}
    for path in sorted(documents):
        phase = layout.phase_of_output(path)
        near = posixpath.dirname(path) == posixpath.dirname(main) or (
            layout.is_link(main) and layout.task_in(path) == wanted
        )
        if phase and near and documents[path].strip():
            output = _Output(posixpath.basename(path), markdown.decoded(documents[path]))
            found[phase[0], phase[1].casefold()] = output
    return found


def _expected(
    main: str, outputs: dict[_Key, _Output], listed: Mapping[_Key, ApexPhase], planned: str, part: Node
) -> list[_Key]:
    """Return the phases of the task: those that its own plan names, else all of the workflow that its flags want.

    Optional phases without an output, before the last output, were skipped and are left out.
    """
    over = {key for key, phase in listed.items() if phase.place == "completed_phases"}
    written = {key[1]: key for key in (*listed, *(key for key in outputs if key not in listed))}
    named = text(part.get("workflow")) or layout.task_in(main)
    is_init = named == "apex-init" or any(name in ("prd", "scaffold") for name in written)
    known = phases.APEX_INIT if is_init else phases.APEX
    unwanted = set() if planned else phases.not_wanted(node(part.get("flags")))
    wanted = [
        key
        for key in known
        if key[1] in written
        or (key[1] not in unwanted and (not planned or re.search(rf"\b{re.escape(key[1])}\b", planned)))
    ]
    names = [name for _, name in wanted]
    last = max((names.index(name) for _, name in (*outputs, *over) if name in names), default=-1)
    expected = [
        written.pop(key[1], key)
        for place, key in enumerate(wanted)
        if key[1] in written or place > last or key[1] in _ALWAYS_PART
    ]
    return [*expected, *written.values()]


def _lists(outputs: dict[_Key, _Output], listed: Mapping[_Key, ApexPhase], expected: list[_Key]) -> Node:
    """Return the probable lists of the state: what it still says, else by the outputs.

    A last output without a result counts as unfinished.
    """
    lists: dict[str, list[Node]] = {key: [] for key in phases.LISTS}
    last = next(reversed(outputs), None)
    for key in expected:
        said = listed.get(key)
        if said is not None and (said.place != "pending_phases" or key not in outputs):
            lists[said.place] += [*said.earlier, said.entry]
            continue
        entry: Node = {"number": key[0], "name": key[1]}
        output = outputs.get(key)
        if output:
            entry |= {"output_file": output.file, "summary": output.summary}
        if output is None or (output.result is None and key == last):
            lists["pending_phases"].append(entry)
        elif output.result is ClaimedStatus.FAILED:
            lists["current_phase"].append(entry | {"status": "FAILED"})
        else:
            lists["completed_phases"].append(entry | {"status": "PASS"})
    return lists


def _guesses(
    outputs: dict[_Key, _Output],
    listed: Mapping[_Key, ApexPhase],
    ids: Mapping[_Key, str],
    *,
    has_goal: bool,
    has_plan: bool,
) -> Iterator[Finding]:
    if not has_goal:
        yield Finding("guessed", "No file says what the task was for; its name stands in for it.")
    if not has_plan:
        said = "No file says which phases were wanted: all that usually follow are taken. Skip those you do not want."
        yield Finding("guessed", said)
    for key, output in outputs.items():
        if output.result is None and key not in listed:
            said = f"{output.file} states no result; that its phase ended is a guess."
            yield Finding("guessed", said, ids[key])


def _resume_points(
    outputs: dict[_Key, _Output], expected: list[_Key], ids: Mapping[_Key, str]
) -> Iterator[Finding]:
    """Yield each place where the run may continue, if there are several: then the user must choose."""
    last = next(reversed(outputs))
    place = expected.index(last)
    reasons = {
        ids[key]: f"`{ids[key]}` left no output although later phases did"
        for key in expected[:place]
        if key not in outputs
    }
    result = outputs[last].result
    if result is None:
        reasons[ids[last]] = f"`{ids[last]}` left an output that states no result"
    elif result is ClaimedStatus.FAILED:
        reasons[ids[last]] = f"`{ids[last]}` failed"
    if result is not ClaimedStatus.FAILED and place + 1 < len(expected):
        following = ids[expected[place + 1]]
        reasons[following] = f"`{following}` comes after the last output"
    if len(reasons) > 1:
        for task, why in reasons.items():
            yield Finding(SEVERAL_RESUME_POINTS, f"The run may continue here: {why}.", task)


def output_of(view: ExportedRun, path: str, name: str, claims: tuple[Claim, ...]) -> NativeFile:
    """Return the output file of a finished phase: result, summary, files, commits."""
    ended = [at for claim in claims if (at := view.times_of(claim.task).ended)]
    when = [f"# Timestamp: {iso_time(max(ended))}"] if ended else []
    head = [f"# Phase: {name}", f"# Task: {view.name}", *when, "# Status: PASS"]
    summaries = [claim.summary for claim in claims if claim.summary]
    summary = ["", "## Summary", "", "\n\n".join(summaries) or "The phase's work landed.", ""]
    files = sorted({path for claim in claims for path in claim.files})
    commits = [commit for claim in claims for commit in claim.commits]
    lines = [*head, *summary, *_listed("Files changed", files), *_listed("Commits", commits)]
    return NativeFile(path=path, content="\n".join(lines).encode())


def _listed(heading: str, points: list[str]) -> list[str]:
    return [f"## {heading}", "", *(f"- {point}" for point in points), ""] if points else []
