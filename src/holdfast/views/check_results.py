"""What the checks and validators of one attempt said, from its events and from what the checks printed on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.state import RunState
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import LaunchKey
from holdfast.redaction import redact
from holdfast.views.read_only_repo import ReadOnlyRepo

_OUTPUT_BYTES_MAX = 64 * 1024
_STEP = re.compile(r"check-(\d{1,9})\.(\d{1,9})")


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check; `passed` is null if it has not been run to its end. `output` is the end of what it printed."""

    command: str
    passed: bool | None
    output: str


class ValidatorResult(msgspec.Struct, frozen=True, kw_only=True):
    """One validator; without a score, `words` say why."""

    name: str
    score: float | None
    words: str


class AttemptResults(msgspec.Struct, frozen=True, kw_only=True):
    """How the work of one attempt was judged."""

    attempt: int
    checks: tuple[CheckResult, ...]
    validators: tuple[ValidatorResult, ...]


def attempt_results(
    opened: ReadOnlyRepo, state: RunState, task: str, attempt: int, recorded: Iterable[Recorded]
) -> AttemptResults:
    """Return how the work of an attempt was judged; `recorded` are the events of the run."""
    events = [
        record.event
        for record in recorded
        if getattr(record.event, "task", "") == task and getattr(record.event, "attempt", attempt) == attempt
    ]
    return AttemptResults(
        attempt=attempt,
        checks=tuple(_checks(opened, state, task, attempt, events)),
        validators=tuple(_validators(events)),
    )


def _checks(
    opened: ReadOnlyRepo, state: RunState, task: str, attempt: int, events: Sequence[ev.Event]
) -> list[CheckResult]:
    commands = state.checks_of(task)
    failed, passed = _verdict(events)
    ran = (
        len(commands)
        if passed
        else commands.index(failed.check) + 1
        if failed and failed.check in commands
        else 0
    )
    printed = _printed(opened, state.row.run, task, attempt)
    outputs = printed[-ran:] if ran else printed[-len(commands) :]
    found = []
    for at, command in enumerate(commands):
        said = outputs[at] if at < len(outputs) else ""
        verdict = True if passed or at < ran - 1 else False if failed and at == ran - 1 else None
        if verdict is False and failed is not None and not said:
            said = failed.detail
        found.append(CheckResult(command=redact(command), passed=verdict, output=redact(said)))
    refused = next((event for event in reversed(events) if isinstance(event, ev.MergeRefused)), None)
    if refused is not None:
        words = f"{refused.error}\n{refused.detail}".strip()
        found.append(CheckResult(command="on the merged tree", passed=False, output=redact(words)))
    return found


def _verdict(events: Sequence[ev.Event]) -> tuple[ev.ChecksFailed | None, bool]:
    """Return the failure of the checks, if that is what they came to last, and whether all of them held."""
    failed, passed = None, False
    for event in events:
        if isinstance(event, ev.ChecksStarted | ev.ChecksFailed):
            failed, passed = (event if isinstance(event, ev.ChecksFailed) else None), False
        elif isinstance(event, ev.ChecksSucceeded | ev.TaskVerified | ev.TaskLanded):
            failed, passed = None, True
    return failed, passed


def _printed(opened: ReadOnlyRepo, run: str, task: str, attempt: int) -> list[str]:
    """Return what the executions of checks printed, in the order in which they were started, as far as it is here."""
    folder = opened.directory(run).attempts / task / str(attempt)
    if not folder.is_dir():
        return []
    fleet = open_fleet(opened.state_dir.fleet)
    steps = sorted(
        (int(found[1]), int(found[2]), path.name)
        for path in folder.iterdir()
        if (found := _STEP.fullmatch(path.name))
    )
    keys = [LaunchKey(run, task, attempt, step) for _, _, step in steps]
    ends = [fleet.output(key, 0, 0).end for key in keys]
    return [
        fleet.output(key, max(0, end - _OUTPUT_BYTES_MAX), _OUTPUT_BYTES_MAX).data.decode(errors="replace")
        for key, end in zip(keys, ends, strict=True)
    ]


def _validators(events: Sequence[ev.Event]) -> list[ValidatorResult]:
    found: dict[str, ValidatorResult] = {}
    for event in events:
        if isinstance(event, ev.ValidatorScored):
            words = redact(event.feedback)
            found[event.validator] = ValidatorResult(name=event.validator, score=event.score, words=words)
        elif isinstance(event, ev.ValidatorFailed):
            words = redact(event.error)
            found[event.validator] = ValidatorResult(name=event.validator, score=None, words=words)
    return list(found.values())
