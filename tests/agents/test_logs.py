"""Recorded streams of real agents as people read them: every dialect, every ending, and whatever else comes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import DIALECTS, LogReader
from holdfast.core.observations import EntryKind, LogEntry
from holdfast.views.log_text import entry_lines
from tests.agents.recordings import agent_of, recorded

RECORDED = sorted((Path(__file__).parent / "streams").glob("*.jsonl"))
WORKED = [path for path in RECORDED if path.name.partition(".")[0].endswith("-ok")]


def dialect_of(path: Path) -> str:
    """Return the dialect of a recorded stream."""
    return builtin_presets()[agent_of(path.name)].stream


def read(stream: str, *pieces: bytes) -> list[LogEntry]:
    """Return the entries of an output that comes in pieces."""
    reader = LogReader(stream, ErrorPatterns())
    return [entry for piece in pieces for entry in reader.feed(piece)] + reader.close()


def shown(path: Path) -> list[str]:
    """Return a recorded stream as lines."""
    return [line for entry in read(dialect_of(path), path.read_bytes()) for line in entry_lines(entry)]


@pytest.mark.parametrize("path", WORKED, ids=lambda path: path.name)
def test_work_that_went_well_reads_as_messages_tools_and_an_end(path: Path) -> None:
    """The file that was written, what the agent said, and that it is done."""
    lines = shown(path)
    assert any(line.startswith("> ") and "greeting.txt" in line for line in lines)
    assert "Wrote greeting.txt." in lines
    if dialect_of(path) not in ("vibe", "openhands"):  # their streams have no end
        assert lines[-1] == "= done"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_no_event_is_shown_as_json(path: Path) -> None:
    """Readable means readable, also of the endings that are errors. Who had to be ended may have said nothing."""
    lines = shown(path)
    assert lines or recorded()[path.name] is None
    assert not [line for line in lines if line.lstrip().startswith('{"')]


def test_every_dialect_has_a_recorded_stream_here() -> None:
    """A dialect without one would be a promise that nobody checks; two have no events."""
    assert {dialect_of(path) for path in RECORDED} | {"aider", "mini-swe-agent"} == set(DIALECTS)


@pytest.mark.parametrize("path", WORKED, ids=lambda path: path.name)
def test_where_the_bytes_are_cut_makes_no_difference(path: Path) -> None:
    """A log is followed in pieces of any size."""
    data, rng = path.read_bytes(), random.Random(7)
    cuts = sorted(rng.sample(range(len(data)), 20))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(dialect_of(path), *pieces) == read(dialect_of(path), data)


@pytest.mark.parametrize("stream", DIALECTS)
@pytest.mark.parametrize(
    "garbage", [b'{"type": 7}', b'{"type": "new.kind", "data": [1]}', b"{", b"\xff\xfe", b'{"role": [1]}']
)
def test_what_is_unknown_stops_nothing(stream: str, garbage: bytes) -> None:
    """A newer version of an agent has events that nobody knows: the plain line after them is still shown."""
    entries = read(stream, garbage + b"\nplain words\n")
    assert entries[-1] == LogEntry(EntryKind.PLAIN, "plain words")


def test_an_edit_reads_like_a_diff() -> None:
    """Lines taken away and lines added, below the name of the file."""
    event = (
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":'
        b'{"file_path":"a.py","old_string":"x = 1\\ny = 2","new_string":"x = 3"}}]}}\n'
    )
    (entry,) = read("claude", event)
    assert list(entry_lines(entry)) == ["> Edit a.py", "    -x = 1", "    -y = 2", "    +x = 3"]


def test_long_answers_of_tools_are_cut_and_it_is_said_how_much() -> None:
    """A log is read by people; all of it is in the raw bytes."""
    lines = list(entry_lines(LogEntry(EntryKind.RESULT, "", "\n".join(map(str, range(100))))))
    assert (len(lines), lines[-1]) == (9, "    … 92 more lines")


def test_no_text_of_an_agent_steers_the_terminal() -> None:
    """Whatever the entry is."""
    evil = "a\x1b[2Jb\u202e"
    for kind in EntryKind:
        text = "".join(entry_lines(LogEntry(kind, evil, evil)))
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_pieces_of_a_message_over_acp_are_one_message() -> None:
    """Our own lines: text in pieces, a tool, a refusal, the end."""
    lines = [
        b'{"type":"acp.text","text":"I will "}',
        b'{"type":"acp.text","text":"begin."}',
        b'{"type":"acp.tool","tool":"Edit a.py"}',
        b'{"type":"acp.refused","what":"rm"}',
        b'{"type":"acp.done","stop_reason":"end_turn"}',
    ]
    entries = read("acp", b"\n".join(lines))
    assert [line for entry in entries for line in entry_lines(entry)] == [
        "I will begin.",
        "> Edit a.py",
        "! not allowed: rm",
        "= done",
    ]
