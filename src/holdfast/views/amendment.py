"""An amendment before it is taken: what is added, changed and dropped, and what becomes of each task, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.plan_difference import FieldChange, PartChange, PlanDifference
from holdfast.redaction import redact
from holdfast.runner.decisions.amend import PlannedAmendment
from holdfast.views.text import one_line

_MARKS = {"added": "+", "changed": "~", "dropped": "-"}
_VALUE_CHARS = 60
_SECRET_FIELDS = ("notify.webhook",)


class AmendmentView(msgspec.Struct, frozen=True, kw_only=True):
    """What `amend --json` prints. `fates` says what becomes of each task; `ignored` is what no run can change.

    `amended`: it was taken; `by_runner`: by a live runner.
    """

    run: str
    difference: PlanDifference
    fates: Mapping[str, str]
    ignored: tuple[FieldChange, ...]
    restart: bool
    amended: bool
    by_runner: bool = False


def amendment_view(
    run: str, planned: PlannedAmendment, *, restart: bool, amended: bool, by_runner: bool = False
) -> AmendmentView:
    """Return an amendment for programs, without secrets."""
    shown = msgspec.structs.replace(
        planned.difference, fields=tuple(_without_secret(one) for one in planned.difference.fields)
    )
    return AmendmentView(
        run=run,
        difference=shown,
        fates=planned.fates,
        ignored=planned.ignored,
        restart=restart,
        amended=amended,
        by_runner=by_runner,
    )


def _without_secret(one: FieldChange) -> FieldChange:
    if one.field not in _SECRET_FIELDS:
        return one
    return FieldChange(field=one.field, before="…", after="…")


def amendment_text(view: AmendmentView) -> str:
    """Return an amendment as lines: the plan's own fields, stages, tasks, then what is not taken."""
    lines = [_field(one, "  ") for one in view.difference.fields]
    for stage in view.difference.stages:
        lines += _part(stage, f"stage {stage.id}", "")
    known = {one.id for one in view.difference.tasks}
    for task in view.difference.tasks:
        lines += _part(task, f"task {task.id}", view.fates.get(task.id, ""))
    lines += [f"= task {one_line(name)}: {fate}" for name, fate in view.fates.items() if name not in known]
    for one in view.ignored:
        lines.append(
            f"! {one.field}: {_value(one.after)} is not taken; a run keeps its {one.field} ({_value(one.before)})"
        )
    return "\n".join(lines)


def _part(part: PartChange, name: str, fate: str) -> Iterator[str]:
    yield f"{_MARKS[part.change]} {one_line(name)}" + (f": {fate}" if fate else "")
    yield from (_field(one, "      ") for one in part.fields)


def _field(one: FieldChange, indent: str) -> str:
    before, after = _words(one.before), _words(one.after)
    skipped = _alike(before, after)
    return f"{indent}{one.field}: {_from(before, skipped)} → {_from(after, skipped)}"


def _alike(before: str, after: str) -> int:
    """Return how much of the beginning of two long texts to leave out, so that what differs is seen."""
    if max(len(before), len(after)) <= _VALUE_CHARS:
        return 0
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    shortest = min(len(before), len(after))
    return max(0, (shortest if same is None else same) - _VALUE_CHARS // 2)


def _from(words: str, skipped: int) -> str:
    return one_line(("…" if skipped else "") + words[skipped:], _VALUE_CHARS)


def _value(value: Any) -> str:
    """Return a value of a plan in one short line."""
    return _from(_words(value), 0)


def _words(value: Any) -> str:
    """Return a value of a plan in words, without secrets."""
    if value is None or value in ("", [], (), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        words = ", ".join(value)
    elif isinstance(value, str | int | float):
        words = f"{value:g}" if isinstance(value, float) else str(value)
    else:
        words = msgspec.json.encode(value).decode()
    return " ".join(redact(words).split())
