"""A task whose state.json is broken or gone, put together again from what its phases wrote. Every guess is told.

The state is written before the output of a phase, so an output means that its phase had ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.formats import markdown
from holdfast.formats.apex import layout, phases
from holdfast.formats.apex.state import read_state
from holdfast.formats.lenient_json import BrokenFileError, Node, iso_time
from holdfast.formats.model import (
    SEVERAL_RESUME_POINTS,
    Claim,
    ClaimedStatus,
    ExportedRun,
    Finding,
    ForeignRun,
    NativeFile,
)
from holdfast.formats.status_words import claimed_status

_CORE = ("init", "analyze", "plan", "execute", "brainstorm", "prd", "architecture", "scaffold")
_SUMMARY_CHARS = 1_000
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PhaseOutput:
    """What a phase wrote: its file, the result it states (or none), and its beginning."""

    file: str
    text: str

    @property
    def result(self) -> ClaimedStatus | None:
        """What it says of its own end, or nothing."""
        word = markdown.value(self.text, "Status", "Result", "Verdict")
        return claimed_status(word) if word else None

    @property
    def summary(self) -> str:
        """Its summary section, else its first paragraph that is no heading."""
        said = markdown.section(self.text, "Summary")
        paragraphs = [part for part in re.split(r"\n\s*\n", self.text) if not part.lstrip().startswith("#")]
        return (said or (paragraphs[0] if paragraphs else "")).strip()[:_SUMMARY_CHARS]


def read_from_outputs(main: str, documents: Mapping[str, bytes], why: str) -> ForeignRun:
    """Return the task as its outputs show it. Raises BrokenFileError where there are none."""
    outputs = _outputs(main, documents)
    if not outputs:
        hint = (
            "No phase of this task left an output to rebuild it from. Start fresh with "
            '`holdfast run --workflow apex "what to do"`; the old files are left as they are.'
        )
        raise BrokenFileError(why, hint)
    init = next((found for (_, name), found in outputs.items() if name == "init"), None)
    expected = _expected(main, outputs, init)
    document = _document(main, outputs, expected, init)
    run = read_state(main, document, documents)
    told = Finding(kind="rebuilt", sentence=f"{why}. The task was rebuilt from {len(outputs)} phase outputs.")
    ids = {key: claim.task for key, claim in zip(sorted(expected, key=_order), run.claims, strict=True)}
    guesses = (*_guesses(outputs, init, document, ids), *_resume_points(outputs, expected, ids))
    return replace(run, findings=(told, *guesses, *run.findings))


def _outputs(main: str, documents: Mapping[str, bytes]) -> dict[_Key, PhaseOutput]:
    """Return the outputs of the task that `main` belongs to, in the order of its phases."""
    wanted = layout.task_in(main)
    home = layout.home_in(main)
    found: dict[_Key, PhaseOutput] = {}
    for path in sorted(documents):
        phase = layout.phase_of_output(path)
        near = layout.home_in(path) == home or (layout.is_link(main) and layout.task_in(path) == wanted)
        if phase and near and documents[path].strip():
            found[phase[0], phase[1].casefold()] = PhaseOutput(
                path.rpartition("/")[2], markdown.decoded(documents[path])
            )
    return found


def _expected(main: str, outputs: dict[_Key, PhaseOutput], init: PhaseOutput | None) -> list[_Key]:
    """Return the phases of the task: those its own plan names, else all of the workflow; optional ones that were
    passed over are left out."""
    known = phases.APEX_INIT if _is_init(main, outputs) else phases.APEX
    planned = markdown.section(init.text, "Phase Plan").casefold() if init else ""
    wanted = [key for key in known if not planned or re.search(rf"\b{re.escape(key[1])}\b", planned)]
    names = [name for _, name in wanted]
    last = max((names.index(name) for _, name in outputs if name in names), default=-1)
    written = {name: key for key in outputs for name in [key[1]]}
    kept = [
        written.pop(key[1], key)
        for place, key in enumerate(wanted)
        if key[1] in written or place > last or key[1] in _CORE
    ]
    return [*kept, *written.values()]


def _is_init(main: str, outputs: dict[_Key, PhaseOutput]) -> bool:
    return layout.task_in(main) == "apex-init" or any(name in ("prd", "scaffold") for _, name in outputs)


def _document(
    main: str, outputs: dict[_Key, PhaseOutput], expected: list[_Key], init: PhaseOutput | None
) -> Node:
    """Return the state file as it may have been. A last output that states no result counts as unfinished."""
    lists: Node = {"completed_phases": [], "current_phase": [], "pending_phases": []}
    last = next(reversed(outputs))
    for key in expected:
        entry: Node = {"number": key[0], "name": key[1]}
        output = outputs.get(key)
        if output is None:
            lists["pending_phases"].append(entry)
            continue
        entry |= {"output_file": output.file, "summary": output.summary}
        if output.result is ClaimedStatus.FAILED:
            lists["current_phase"].append(entry | {"status": "FAILED"})
        elif output.result is None and key == last:
            lists["pending_phases"].append(entry)
        else:
            lists["completed_phases"].append(entry | {"status": "PASS"})
    goal = _goal(init)
    return {"task_id": layout.task_in(main), "task_description": goal, **lists}


def _goal(init: PhaseOutput | None) -> str:
    if init is None:
        return ""
    return markdown.section(init.text, "Task", "Task Description") or markdown.value(init.text, "Task")


def _guesses(
    outputs: dict[_Key, PhaseOutput], init: PhaseOutput | None, document: Node, ids: Mapping[_Key, str]
) -> Iterator[Finding]:
    if not document["task_description"]:
        said = "What the task was for is written nowhere; its name stands in for it."
        yield Finding(kind="guessed", sentence=said)
    if init is None or not markdown.section(init.text, "Phase Plan"):
        said = "Which phases were asked for is written nowhere: all that usually follow are taken. Skip what you do not want."
        yield Finding(kind="guessed", sentence=said)
    for key, output in outputs.items():
        if output.result is None:
            said = f"{output.file} states no result; that its phase ended is a guess."
            yield Finding(kind="guessed", task=ids[key], sentence=said)


def _resume_points(
    outputs: dict[_Key, PhaseOutput], expected: list[_Key], ids: Mapping[_Key, str]
) -> Iterator[Finding]:
    """Yield each place where the run may go on, if there is more than one: the user is asked."""
    last = next(reversed(outputs))
    place = expected.index(last)
    reasons: dict[str, str] = {}
    for key in expected[:place]:
        if key not in outputs:
            reasons[ids[key]] = f"`{ids[key]}` left no output although later phases did"
    result = outputs[last].result
    if result is None:
        reasons[ids[last]] = f"`{ids[last]}` left an output that states no result"
    elif result is ClaimedStatus.FAILED:
        reasons[ids[last]] = f"`{ids[last]}` failed"
    if result is not ClaimedStatus.FAILED and place + 1 < len(expected):
        following = ids[expected[place + 1]]
        reasons[following] = f"`{following}` comes after the last output"
    if len(reasons) > 1:
        yield from (
            Finding(kind=SEVERAL_RESUME_POINTS, task=task, sentence=f"The run may go on here: {why}.")
            for task, why in reasons.items()
        )


def _order(key: _Key) -> tuple[int, str]:
    found = re.fullmatch(r"(\d+)(.*)", key[0])
    return (int(found[1]), found[2]) if found else (0, key[0])


def output_of(view: ExportedRun, path: str, name: str, claims: tuple[Claim, ...]) -> NativeFile:
    """Return the output file of a finished phase: result, summary, files, commits."""
    ended = [times.ended for claim in claims if (times := view.task_times.get(claim.task)) and times.ended]
    head = [f"# Phase: {name}", f"# Task: {view.name}", "# Status: PASS"]
    if ended:
        head.insert(2, f"# Timestamp: {iso_time(max(ended))}")
    return NativeFile(path=path, content="\n".join([*head, "", *_body(claims)]).encode())


def _body(claims: tuple[Claim, ...]) -> Iterator[str]:
    summaries = [claim.summary for claim in claims if claim.summary]
    yield from ("## Summary", "", "\n\n".join(summaries) or "The phase's work landed.", "")
    files = sorted({path for claim in claims for path in claim.files})
    if files:
        yield from ("## Files changed", "", *(f"- {path}" for path in files), "")
    commits = [commit for claim in claims for commit in claim.commits]
    if commits:
        yield from ("## Commits", "", *(f"- {commit}" for commit in commits), "")
