"""Every recorded stream, cut short: what is not whole is never taken for the end of the work.

A machine that loses power, a supervisor that is killed, a full disk: the log of an attempt may end anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import pytest

from holdfast.core.observations import StreamSummary
from holdfast.core.outcome import OutcomeKind
from tests.agents.recordings import (
    STREAMS,
    agent_of,
    did_without,
    judged_by,
    outcome_of,
    reader_of,
    recorded,
    take_all,
)


class _Cut(NamedTuple):
    """The beginning of a stream: how long it is, whether its last line is whole, and what it tells."""

    size: int
    is_whole_line: bool
    told: StreamSummary


def _cuts(name: str) -> Iterator[_Cut]:
    """Yield every beginning of a stream that ends with a line or in the middle of one, and then the whole.

    Each line is read once: a reader that has come so far is copied, and the copy is told that this was the end.
    """
    reader, size = reader_of(agent_of(name)), 0
    so_far = reader.new_summary()
    for line in [*(STREAMS / name).read_bytes().splitlines(keepends=True), b""]:
        for half in dict.fromkeys((b"", line[: len(line) // 2])):
            ended, told = deepcopy((reader, so_far))
            take_all(told, ended.feed(half))
            take_all(told, ended.close())
            yield _Cut(size + len(half), not half, told)
        take_all(so_far, reader.feed(line))
        size += len(line)


def _last_word_in(cuts: list[_Cut]) -> int:
    """Return how many bytes a stream has up to its last word: from there to its end, it is finished."""
    lines = [cut for cut in cuts if cut.is_whole_line and cut.size]
    unfinished = max((cut.size for cut in lines if not cut.told.finished), default=0)
    return min((cut.size for cut in lines if cut.size > unfinished), default=cuts[-1].size + 1)


@pytest.mark.parametrize("name", [name for name in recorded() if not did_without(name)])
def test_a_cut_stream_is_done_only_with_its_last_word(name: str) -> None:
    """Even if the process ended with status 0 and files were changed. Agents that print plain lines have a last word, too."""
    cuts = list(_cuts(name))
    last_word = _last_word_in(cuts) if outcome_of(name).end is OutcomeKind.DONE else None
    for cut in cuts[:-1]:
        for status in {0, recorded()[name]}:
            if judged_by(cut.told, agent_of(name), status).end is OutcomeKind.DONE:
                assert last_word is not None, (
                    f"{cut.size} bytes of a stream that is not done, status {status}"
                )
                assert cut.size >= last_word, f"{cut.size} bytes, before the last word, status {status}"
