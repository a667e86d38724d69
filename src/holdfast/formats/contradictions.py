"""Findings that the readers of several systems share: contradictions, unknown words, damaged files.

The user reads them. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.formats.lenient_json import BrokenFileError, Node, count
from holdfast.formats.model import Claim, ClaimedStatus, Finding
from holdfast.formats.status_words import claimed_status, is_known

_NAMED_MAX = 5


def some_of(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def done_with_unfinished_parts(what: str, said: str, unfinished: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding if a whole is marked done while parts of it are not. `what` begins the sentence."""
    if said and unfinished and claimed_status(said) is ClaimedStatus.DONE:
        sentence = f"{what} is marked {said}, but this is not done: {some_of(unfinished)}."
        yield Finding("done-with-unfinished-parts", sentence)


def unknown_words(claims: Iterable[Claim]) -> Iterator[Finding]:
    """Yield a finding for each task with an unknown status word."""
    for claim in claims:
        yield from unknown_word(claim.task, claim.said, claim.task, counts_as=claim.standing)


def unknown_word(
    what: str, said: str, task: str = "", counts_as: ClaimedStatus | None = None
) -> Iterator[Finding]:
    """Yield a finding if a status word is unknown; it says what the word counts as."""
    if not is_known(said):
        meaning = counts_as or claimed_status(said)
        sentence = f"{what} is marked {said!r}, which nobody knows; it counts as {meaning}."
        yield Finding("unknown-status", sentence, task)


def counters_differ(whose: str, counters: Node, keys: Iterable[str], known: int) -> Iterator[Finding]:
    """Yield a finding for each counter, by any of its names, that differs from what the tasks add up to."""
    for key in keys:
        if key in counters and count(counters[key]) != known:
            sentence = f"{whose}: {key} is {counters[key]}, but the tasks add up to {known}."
            yield Finding("counters-differ", sentence)


def unreadable(error: BrokenFileError) -> Finding:
    """Return the finding that this file, unlike others, could not be read."""
    return Finding("unreadable", f"{error.message}. The file is left as it is; the others are used.")


def truncated(error: BrokenFileError) -> Finding:
    """Return the finding that only the beginning of a file could be used."""
    return Finding("salvaged", f"{error.message}. The part before that is used; the rest is lost.")
