"""Reads an Execute run as a plan and claims, and reports where its files contradict each other.

Contradictions are findings: counters, lists, a queue, paths. Git decides what is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import dirname

from holdfast.formats.contradictions import (
    counters_differ,
    done_with_unfinished_parts,
    unknown_word,
    unknown_words,
)
from holdfast.formats.execute.claims import GIVES_UP_AFTER, listed, listed_statuses
from holdfast.formats.execute.documents import TASK_REFERENCE, ExecuteDocuments, parse_documents
from holdfast.formats.execute.tasks import collect_tasks, layer_name, state_tasks
from holdfast.formats.lenient_json import BrokenFileError, Key, Node, node, nodes, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

_BRANCH = Key("base_branch", "target_branch", "main_branch")
_TOTALS = ("tasks_total", "total_tasks", "total")
_DONES = ("tasks_completed", "completed_tasks", "merged", "completed")
_FAILED = (ClaimedStatus.FAILED, ClaimedStatus.ABANDONED)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents describe. Raises BrokenFileError if none of them names a task."""
    parsed = parse_documents(main, documents)
    tasks = collect_tasks(parsed)
    if not tasks.drafts:
        hint = "Adopt the folder, so that the plan of the run is found too."
        raise BrokenFileError(f"{main}: no task is named here", hint)
    by_native = {claim.native: claim for claim in tasks.assembly.claims}
    layers: dict[str, list[str]] = {}
    for draft in tasks.drafts:
        layers.setdefault(draft.stage, []).append(draft.native)
    return tasks.assembly.as_run(
        System.EXECUTE,
        parsed.slug or "execute",
        parsed.state_path or main,
        documents,
        findings=(*parsed.findings, *tasks.findings, *_contradictions(parsed, by_native, layers)),
        finished=claimed_status(text(parsed.state.get("status"))) is ClaimedStatus.DONE,
        branches=tuple(filter(None, [_BRANCH.text(parsed.state)])),
    )


def _contradictions(
    documents: ExecuteDocuments, claims: Mapping[str, Claim], layers: Mapping[str, list[str]]
) -> Iterator[Finding]:
    """Yield the contradictions. `claims` are by native name; `layers` hold native names of tasks."""
    state = documents.state
    yield from unknown_words(claims.values())
    yield from _of_attempts(claims)
    if documents.ledger:
        yield from _of_ledger(documents, claims)
    yield from _of_merge_queue(state, claims)
    yield from _of_lists(state, claims)
    yield from _of_layers(state, claims, layers)
    everything = list(claims.values())
    yield from _of_counters("The metrics", node(state.get("metrics")), everything)
    yield from _of_path(documents)
    said = text(state.get("status"))
    yield from unknown_word("The run", said)
    yield from done_with_unfinished_parts("The run", said, _unfinished(everything))


def _of_counters(whose: str, counters: Node, claims: list[Claim]) -> Iterator[Finding]:
    yield from counters_differ(whose, counters, _TOTALS, len(claims))
    done = sum(claim.standing is ClaimedStatus.DONE for claim in claims)
    yield from counters_differ(whose, counters, _DONES, done)


def _unfinished(claims: list[Claim]) -> list[str]:
    return [claim.native for claim in claims if claim.standing not in SETTLED]


def _of_attempts(claims: Mapping[str, Claim]) -> Iterator[Finding]:
    for name, claim in claims.items():
        if claim.standing is ClaimedStatus.ABANDONED and claimed_status(claim.said) is ClaimedStatus.FAILED:
            sentence = f"{name} failed {'once' if claim.attempts == 1 else f'{claim.attempts} times'}; after {GIVES_UP_AFTER} it counts as abandoned."
            yield Finding("attempts-used-up", sentence, claim.task)


def _of_ledger(documents: ExecuteDocuments, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    recorded = {TASK_REFERENCE.text(line) for line in documents.ledger}
    for name, claim in claims.items():
        is_done = claimed_status(claim.said) is ClaimedStatus.DONE
        if is_done and name not in recorded:
            sentence = f"{name} is marked done, but the ledger has no line for it."
            yield Finding("not-in-ledger", sentence, claim.task)
        elif claim.said and not is_done and name in recorded:
            sentence = (
                f"The state has {name} as {claim.said!r}, but the ledger records its merge, which counts."
            )
            yield Finding("copies-differ", sentence, claim.task)


def _of_merge_queue(state: Node, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    for entry in nodes(state.get("merge_queue")):
        name = TASK_REFERENCE.text(entry)
        claim = claims.get(name)
        if claim is None:
            sentence = f"The merge queue names {name or 'a task without a name'}, which is nowhere described."
            yield Finding("unknown-task", sentence)
        elif text(entry.get("status")) == "merged" and claim.standing is not ClaimedStatus.DONE:
            sentence = f"The merge queue calls {name} merged, but it is {claim.standing}."
            yield Finding("copies-differ", sentence, claim.task)


def _of_lists(state: Node, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    entries = state_tasks(state)
    for name, status in listed_statuses(state).items():
        claim = claims[name]
        if name in entries and claim.standing is not status:
            sentence = (
                f"A list calls {name} {status}, but its entry says {claim.said or 'nothing'}, which counts."
            )
            yield Finding("copies-differ", sentence, claim.task)
    for name in listed(state.get("missing_commits")):
        sentence = f"The state says that the commit of {name} is missing; git decides."
        yield Finding("missing-commit", sentence, claims[name].task if name in claims else "")


def _of_layers(
    state: Node, claims: Mapping[str, Claim], layers: Mapping[str, list[str]]
) -> Iterator[Finding]:
    for layer in nodes(state.get("layers")):
        whose = f"Layer {layer_name(layer)}"
        tasks = [claims[task] for task in layers.get(layer_name(layer), ())]
        yield from done_with_unfinished_parts(whose, text(layer.get("status")), _unfinished(tasks))
        yield from _of_counters(whose, layer, tasks)
        failed = sum(claim.standing in _FAILED for claim in tasks)
        yield from counters_differ(whose, layer, ("tasks_failed",), failed)


def _of_path(documents: ExecuteDocuments) -> Iterator[Finding]:
    """Report a path that is not where the files are: they were moved, or come from another machine."""
    said = text(documents.state.get("tasks_path")).replace("\\", "/").rstrip("/")
    folder = dirname(documents.state_path)
    if said and folder and not f"/{said}".endswith(f"/{folder}"):
        yield Finding("path-elsewhere", f"The state says it lies in {said}, but it was found in {folder}.")
