"""Every recorded stream, cut short: what is not whole is never taken for the end of the work.

A machine that loses power, a supervisor that is killed, a full disk: the log of an attempt may end anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.outcome import OutcomeKind
from tests.agents.recordings import STREAMS, agent_of, did_without, heard, judged, outcome_of, recorded


def _cuts(name: str) -> Iterator[bytes]:
    """Yield every beginning of a stream that ends with a line or in the middle of one, but not the whole."""
    before = b""
    for line in (STREAMS / name).read_bytes().splitlines(keepends=True):
        yield before
        yield before + line[: len(line) // 2]
        before += line


def _last_word_of(name: str) -> int:
    """Return how many bytes a stream has up to its last word: from there to its end, it is finished."""
    lines = (STREAMS / name).read_bytes().splitlines(keepends=True)
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    whole = b"".join(lines)
    unfinished = [end for end in ends if not heard(whole[:end], agent_of(name)).finished]
    return min((end for end in ends if end > max(unfinished, default=0)), default=len(whole) + 1)


@pytest.mark.parametrize("name", [name for name in recorded() if not did_without(name)])
@pytest.mark.parametrize("code", ["0", "recorded"])
def test_a_cut_stream_is_done_only_with_its_last_word(name: str, code: str) -> None:
    """Even if the process ended with status 0 and files were changed. Agents that print plain lines have a last word, too."""
    status = 0 if code == "0" else recorded()[name]
    last_word = _last_word_of(name) if outcome_of(name).end is OutcomeKind.DONE else None
    for cut in _cuts(name):
        if judged(cut, agent_of(name), status).end is OutcomeKind.DONE:
            assert last_word is not None, f"{len(cut)} bytes of a stream that is not done"
            assert len(cut) >= last_word, f"{len(cut)} bytes, before the last word"
