"""Where an Execute state contradicts itself: counters, lists, a queue, paths. Told to the user, never followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import dirname

from holdfast.formats.contradictions import unknown_word, unknown_words
from holdfast.formats.execute.claims import GIVES_UP_AFTER, listed, listed_standings
from holdfast.formats.execute.documents import ExecuteDocuments
from holdfast.formats.execute.tasks import layer_name, state_tasks
from holdfast.formats.lenient_json import Node, count, first, node, nodes, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding
from holdfast.formats.status_words import claimed_status

_TOTALS = ("tasks_total", "total_tasks", "total")
_DONES = ("tasks_completed", "completed_tasks", "merged", "completed")


def contradictions(
    papers: ExecuteDocuments, claims: Mapping[str, Claim], layers: Mapping[str, list[str]]
) -> Iterator[Finding]:
    """Yield what does not fit. `claims` are by native name; `layers` are the native names of their tasks."""
    yield from _of_statuses(papers, claims)
    yield from _of_lists(papers, claims)
    yield from _of_layers(papers.state, claims, layers)
    yield from _of_metrics(papers.state, claims)
    yield from _of_paths(papers)
    yield from _of_the_whole(papers.state, claims)


def _of_statuses(papers: ExecuteDocuments, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    yield from unknown_words(claims.values())
    for name, claim in claims.items():
        if claim.standing is ClaimedStatus.ABANDONED and claimed_status(claim.said) is ClaimedStatus.FAILED:
            sentence = f"{name} failed {claim.attempts} times; after {GIVES_UP_AFTER} it counts as abandoned."
            yield Finding(kind="attempts-used-up", sentence=sentence, task=claim.task)
    if papers.ledger:
        yield from _of_the_ledger(papers, claims)


def _of_the_ledger(papers: ExecuteDocuments, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    recorded = {text(line.get("task_id")) for line in papers.ledger}
    for name, claim in claims.items():
        said = claimed_status(claim.said)
        if said is ClaimedStatus.DONE and name not in recorded:
            sentence = f"{name} is marked done, but the ledger has no line for it."
            yield Finding(kind="not-in-ledger", sentence=sentence, task=claim.task)
        elif claim.said and said is not ClaimedStatus.DONE and name in recorded:
            sentence = (
                f"{name} is {claim.said!r} in the state, but the ledger records its merge, which counts."
            )
            yield Finding(kind="copies-differ", sentence=sentence, task=claim.task)


def _of_lists(papers: ExecuteDocuments, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    state = papers.state
    for entry in nodes(state.get("merge_queue")):
        name = text(first(entry, "task_id", "task", "id"))
        if name not in claims:
            sentence = f"The merge queue names {name or 'a task without a name'}, which is nowhere described."
            yield Finding(kind="unknown-task", sentence=sentence)
        elif text(entry.get("status")) == "merged" and claims[name].standing is not ClaimedStatus.DONE:
            sentence = f"The merge queue calls {name} merged, but it is {claims[name].standing}."
            yield Finding(kind="copies-differ", sentence=sentence, task=claims[name].task)
    entries = state_tasks(state)
    for name, standing in listed_standings(state).items():
        if name in entries and claims[name].standing is not standing:
            sentence = f"A list calls {name} {standing}, but its entry says {claims[name].said or 'nothing'}, which counts."
            yield Finding(kind="copies-differ", sentence=sentence, task=claims[name].task)
    for name in listed(state.get("missing_commits")):
        sentence = f"The state says that the commit of {name} is missing; git decides."
        yield Finding(
            kind="missing-commit", sentence=sentence, task=claims[name].task if name in claims else ""
        )


def _of_layers(
    state: Node, claims: Mapping[str, Claim], layers: Mapping[str, list[str]]
) -> Iterator[Finding]:
    for layer in nodes(state.get("layers")):
        name = layer_name(layer)
        tasks = [claims[task] for task in layers.get(name, ())]
        open_ = [claim.native for claim in tasks if claim.standing not in SETTLED]
        if claimed_status(text(layer.get("status"))) is ClaimedStatus.DONE and open_:
            sentence = f"Layer {name} is marked completed, but {', '.join(open_)} is not."
            yield Finding(kind="done-with-unfinished-parts", sentence=sentence)
        for key, known in (
            (_TOTALS, len(tasks)),
            (_DONES, sum(claim.standing is ClaimedStatus.DONE for claim in tasks)),
            (
                ("tasks_failed",),
                sum(claim.standing in (ClaimedStatus.FAILED, ClaimedStatus.ABANDONED) for claim in tasks),
            ),
        ):
            yield from _miscount(layer, key, known, f"Layer {name}")


def _of_metrics(state: Node, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    metrics = node(state.get("metrics"))
    done = sum(claim.standing is ClaimedStatus.DONE for claim in claims.values())
    yield from _miscount(metrics, _TOTALS, len(claims), "The metrics")
    yield from _miscount(metrics, _DONES, done, "The metrics")


def _miscount(counters: Node, keys: tuple[str, ...], known: int, whose: str) -> Iterator[Finding]:
    for key in keys:
        if key in counters and count(counters[key]) != known:
            sentence = f"{whose} say{'s' if whose != 'The metrics' else ''} {key} {counters[key]}, but the tasks add up to {known}."
            yield Finding(kind="counters-differ", sentence=sentence)


def _of_paths(papers: ExecuteDocuments) -> Iterator[Finding]:
    """Tell of paths that cannot be where the files were found: they were moved, or come from another machine."""
    said = text(papers.state.get("tasks_path")).replace("\\", "/").rstrip("/")
    folder = dirname(papers.state_at)
    if said and folder and not f"/{said}".endswith(f"/{folder}"):
        sentence = f"The state says it lies in {said}, but it was found in {folder}."
        yield Finding(kind="path-elsewhere", sentence=sentence)


def _of_the_whole(state: Node, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    word = text(state.get("status"))
    standing = claimed_status(word)
    yield from unknown_word("The run", word)
    unfinished = [name for name, claim in claims.items() if claim.standing not in SETTLED]
    if standing is ClaimedStatus.DONE and unfinished:
        sentence = f"The run is marked {word}, but {len(unfinished)} of {len(claims)} tasks are not."
        yield Finding(kind="done-with-unfinished-parts", sentence=sentence)
