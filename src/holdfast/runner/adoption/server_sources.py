"""Finds the runs of other systems whose state is in a Redis server. It only reads.

Each run becomes a source like one on the disk: its records are one document.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.formats.discovery import ForeignSource, NothingFoundError
from holdfast.formats.model import Finding, ForeignFormat, ServerFormat
from holdfast.formats.registry import System
from holdfast.journal.address import joined_url, split_url
from holdfast.journal.records_server import RecordsServer
from holdfast.runner.mirror.mirror_records import open_server

_RUN_OPTION = "run"
_RECORDS_MAX = 20_000
_BYTES_MAX = 48 * 1024 * 1024
_ALIVE_S = 120.0
"""An agent that gave a sign within this time may still be at work: so long its own system takes it for alive, too."""


def find_records(url: str, formats: Mapping[System, ForeignFormat]) -> list[ForeignSource]:
    """Return the runs in a server; with the option `run` in the address, only that one. Raises NothingFoundError."""
    url, wanted = _without_run(url)
    found: list[ForeignSource] = []
    with closing(open_server(url)) as server:
        for system, own in formats.items():
            if own.server is not None:
                found += _sources(server, system, own.server)
    if not found:
        raise NothingFoundError(
            f"{server.place} holds no records of another system",
            "name the server and its database, such as redis://localhost:6379/0",
        )
    if not wanted:
        return found
    if chosen := [source for source in found if source.main == wanted]:
        return chosen
    names = [source.main for source in found]
    raise NothingFoundError(
        f"{server.place} has no {quoted(wanted)}{did_you_mean(wanted, names)}",
        "`holdfast adopt redis://… --list` shows what there is",
    )


def _sources(server: RecordsServer, system: System, own: ServerFormat) -> Iterator[ForeignSource]:
    problems: list[Finding] = []
    records = dict(_texts(server, own, problems))
    now = time.time()
    for main, document in own.split(records).items():
        told = [*problems]
        if (beat := own.heartbeat(document)) and abs(now - beat) < _ALIVE_S:
            said = f"An agent gave a sign {round(abs(now - beat))} s ago: it may still be at work. Stop it before you resume."
            told.append(Finding("alive", said))
        separator = "&" if "?" in server.place else "?"
        address = f"{server.place}{separator}{_RUN_OPTION}={quote(main, safe=':')}"
        yield ForeignSource(system, main, Path(), {main: document}, tuple(told), address, now)


def _texts(server: RecordsServer, own: ServerFormat, problems: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the records by their keys. Raises HoldfastError if there are too many."""
    count = size = 0
    for pattern in own.patterns:
        for key, value in server.read(pattern):
            if value is None:
                problems.append(Finding("unreadable", f"{key} is no text; this record is left out."))
                continue
            count, size = count + 1, size + len(value)
            if count > _RECORDS_MAX or size > _BYTES_MAX:
                raise HoldfastError(
                    f"{server.place} holds too many records to read them all",
                    "save the keys of one epic as a JSON file, and adopt that",
                )
            yield key, value


def _without_run(url: str) -> tuple[str, str]:
    """Return an address without the option that names a run, and that name."""
    parts = split_url(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    others = [(name, value) for name, value in options if name != _RUN_OPTION]
    wanted = next((value for name, value in options if name == _RUN_OPTION), "")
    return joined_url(parts._replace(query=urlencode(others, safe="/"))), wanted
