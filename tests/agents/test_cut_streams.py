"""Every recorded stream, cut short: what is not whole is never taken for the end of the work.

A machine that loses power, a supervisor that is killed, a full disk: the log of an attempt may end anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.core.outcome import OutcomeKind
from tests.agents.recordings import STREAMS, agent_of, did_without, heard, judged, outcome_of, recorded

KILLED = -9


def _has_last_word(name: str) -> bool:
    return builtin_presets()[agent_of(name)].stream != "raw"


WITH_LAST_WORD = [name for name in recorded() if _has_last_word(name) and not did_without(name)]
PLAIN = [name for name in recorded() if not _has_last_word(name)]


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


@pytest.mark.parametrize("name", WITH_LAST_WORD)
@pytest.mark.parametrize("code", ["0", "recorded"])
def test_a_cut_stream_is_done_only_with_its_last_word(name: str, code: str) -> None:
    """Even if the process ended with status 0 and files were changed."""
    status = 0 if code == "0" else recorded()[name]
    last_word = _last_word_of(name) if outcome_of(name).end is OutcomeKind.DONE else None
    for cut in _cuts(name):
        if judged(cut, agent_of(name), status).end is OutcomeKind.DONE:
            assert last_word is not None, f"{len(cut)} bytes of a stream that is not done"
            assert len(cut) >= last_word, f"{len(cut)} bytes, before the last word"


@pytest.mark.parametrize("name", PLAIN)
def test_a_cut_plain_stream_is_not_done_for_its_process_was_killed(name: str) -> None:
    """Plain output has no last word, so no cut of it can be told from the whole: status 0 says that the agent came to its end.

    That is why these agents rest on their exit status and on error lines, and why a cut of what they print is judged
    with the end that cuts it: a process that was killed.
    """
    for cut in _cuts(name):
        assert judged(cut, agent_of(name), KILLED).end is not OutcomeKind.DONE
