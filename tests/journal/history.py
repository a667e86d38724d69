"""Histories of writers that share a run, as with Jepsen: what each asked for and was told, checked against a model.

Writers are processes. Each takes the lease of the run, appends events with names of their own, loses the lease or gives it up,
and begins anew; each reaches the server through a relay of its own. Meanwhile relays are cut, stalled and reset, and writers
are stopped for longer than a lease. `violations` is the model. Times are of the clock that all processes share.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count, pairwise
from math import inf
from pathlib import Path

import msgspec

from holdfast.core import events as ev
from holdfast.errors import LeaseHeldError, LeaseLostError, StoreUnavailableError
from holdfast.journal import open_journal
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import Journal, JournalReader
from tests.contract.journals import RUN, run_row
from tests.support.tcp_relay import NetworkFault, TcpRelay

ROOT = Path(__file__).parents[2]
LEASE_S = 0.5
_CLOCK_S = 0.01
"""By how much the server's clock may differ from ours over the time of a lease."""
_TRIES = 3
_DEADLINE_S = 60.0

TAKE, APPEND, RELEASE = "take", "append", "release"
ASKED, DONE, REFUSED, UNKNOWN = "asked", "done", "refused", "unknown"


class JournalCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a writer: when it began and ended, and how. Unknown: the store did not answer, it may have happened.

    It is also written down before it is made, as asked: a writer may be killed before it can say how it went.
    """

    writer: str
    kind: str
    epoch: int
    began: float
    ended: float
    outcome: str
    marker: str = ""
    """The name that the appended event has."""
    number: int = 0
    """The number that the event got."""


class HistoryWriter:
    """Calls a journal and writes down what it asked for and was told."""

    def __init__(self, name: str, journal: Journal, record: Callable[[JournalCall], None]) -> None:
        self.name = name
        self.journal = journal
        self._record = record
        journal.lease_s = LEASE_S
        self._by = Holder(pid=os.getpid(), boot_id="boot", host=name, lock=name)

    def take(self) -> int | None:
        """Take the run; return the epoch, if it was given to us."""
        return self._call(TAKE, 0, lambda: self.journal.take_epoch(RUN, self._by, hold=True))

    def append(self, epoch: int, marker: str) -> str:
        """Append one event. Repeat it while the store does not answer; return how it went."""
        event = ev.StageOpened(stage=f"{epoch}.{marker}")
        for _ in range(_TRIES):
            self._call(
                APPEND, epoch, lambda: self.journal.append(RUN, epoch, [event], run_row(), [], 1.0), marker
            )
            if self.last.outcome != UNKNOWN:
                break
        return self.last.outcome

    def release(self, epoch: int) -> None:
        """Give the run up."""
        self._call(RELEASE, epoch, lambda: self.journal.release(RUN, epoch))

    def _call(self, kind: str, epoch: int, call: Callable[[], int | None], marker: str = "") -> int | None:
        asked = JournalCall(
            writer=self.name,
            kind=kind,
            epoch=epoch,
            began=time.monotonic(),
            ended=0.0,
            outcome=ASKED,
            marker=marker,
        )
        self._record(asked)
        answer, outcome = None, DONE
        try:
            answer = call()
        except (LeaseHeldError, LeaseLostError):
            outcome = REFUSED
        except StoreUnavailableError:
            outcome = UNKNOWN
        got = {"epoch" if kind == TAKE else "number": answer} if answer else {}
        self.last = msgspec.structs.replace(asked, ended=time.monotonic(), outcome=outcome, **got)
        self._record(self.last)
        return answer


def write(writer: HistoryWriter, dice: random.Random) -> None:
    """Take the run again and again, and write to it until it is lost or given up."""
    serial = 0
    while True:
        if (epoch := writer.take()) is None:
            time.sleep(dice.random() * LEASE_S / 4)
            continue
        for _ in range(dice.randrange(1, 30)):
            serial += 1
            if writer.append(epoch, f"{writer.name}-{serial}") != DONE:
                break
            time.sleep(dice.random() * LEASE_S / 20)
        if dice.random() < 0.5:
            writer.release(epoch)


def violations(history: Sequence[JournalCall], stored: Sequence[str]) -> list[str]:
    """Return what the history shows that a journal must never do. `stored` are the names of the events, in their order."""
    return [
        *_lost_or_doubled(history, stored),
        *_out_of_order(history, stored),
        *_not_fenced(history),
        *_epochs_that_do_not_rise(history),
        *_two_holders(history),
    ]


def _of(history: Sequence[JournalCall], kind: str, outcome: str = DONE) -> list[JournalCall]:
    return [one for one in history if (one.kind, one.outcome) == (kind, outcome)]


def _lost_or_doubled(history: Sequence[JournalCall], stored: Sequence[str]) -> Iterator[str]:
    """What was acknowledged is there once, under its number; what was only refused is not there."""
    for one in _of(history, APPEND):
        name = _name(one)
        # The event with which the run began has the number 1.
        if stored.count(name) != 1:
            yield f"{name} was acknowledged and is there {stored.count(name)} times"
        elif stored.index(name) + 2 != one.number:
            yield f"{name} was acknowledged as {one.number} and is {stored.index(name) + 2}"
    calls = [one for one in history if one.kind == APPEND]
    asked = Counter(_name(one) for one in calls if one.outcome == ASKED)
    answered = Counter(_name(one) for one in calls if one.outcome in (DONE, REFUSED))
    refused = {
        _name(one) for one in calls if one.outcome == REFUSED and asked[_name(one)] <= answered[_name(one)]
    }
    yield from (f"{name} is there, but was refused" for name in stored if name in refused)


def _name(one: JournalCall) -> str:
    return f"{one.epoch}.{one.marker}"


def _out_of_order(history: Sequence[JournalCall], stored: Sequence[str]) -> Iterator[str]:
    """Numbers follow time, and no event of an earlier epoch comes after one of a later epoch."""
    epochs = [int(name.partition(".")[0]) for name in stored]
    for before, after in pairwise(epochs):
        if after < before:
            yield f"an event of epoch {after} comes after one of epoch {before}"
    done = sorted(_of(history, APPEND), key=lambda one: one.number)
    for first, second in pairwise(done):
        if second.ended < first.began:
            yield f"{second.marker} was acknowledged before {first.marker} began, and has a later number"


def _not_fenced(history: Sequence[JournalCall]) -> Iterator[str]:
    """Once somebody has a later epoch, nobody writes with an earlier one."""
    takes = _of(history, TAKE)
    for one in _of(history, APPEND):
        for take in takes:
            if take.epoch > one.epoch and take.ended < one.began:
                yield f"{one.writer} wrote {one.marker} with epoch {one.epoch} after {take.writer} had {take.epoch}"


def _epochs_that_do_not_rise(history: Sequence[JournalCall]) -> Iterator[str]:
    takes = sorted(_of(history, TAKE), key=lambda one: one.began)
    for at, first in enumerate(takes):
        for second in takes[at + 1 :]:
            if second.epoch == first.epoch or (first.ended < second.began and second.epoch < first.epoch):
                yield f"{second.writer} got epoch {second.epoch} after {first.writer} had {first.epoch}"


def _two_holders(history: Sequence[JournalCall]) -> Iterator[str]:
    """Nobody gets a run that another surely holds: the lease began after it was asked for, and was not given up."""
    takes = _of(history, TAKE)
    for first in takes:
        # Also with a later epoch of its own, the same writer may give the run up.
        releases = (
            one.began
            for one in history
            if (one.writer, one.kind) == (first.writer, RELEASE) and one.began > first.began
        )
        surely_until = min(first.began + LEASE_S - _CLOCK_S, *releases, inf)
        for second in takes:
            is_other = second.writer != first.writer
            if is_other and first.ended < second.began and second.ended < surely_until:
                yield f"{second.writer} got the run while {first.writer} held it"


class Workload:
    """Writers as processes, each behind a relay, and what they said so far."""

    def __init__(self, address: JournalAddress, folder: Path, writers: int) -> None:
        self._logs, self._relays, self._processes = [], [], []
        for number in range(writers):
            relay, url = TcpRelay.before(address.url)
            log = folder / f"writer-{number}"
            argv = [
                sys.executable,
                "-m",
                "tests.journal.history",
                url,
                address.repository,
                str(log),
                str(number),
            ]
            self._processes.append(subprocess.Popen(argv, cwd=ROOT))
            self._relays.append(relay)
            self._logs.append(log)

    def history(self) -> list[JournalCall]:
        """Return what was written down in whole lines."""
        return [
            msgspec.json.decode(line, type=JournalCall)
            for log in self._logs
            if log.exists()
            for line in log.read_bytes().splitlines(keepends=True)
            if line.endswith(b"\n")
        ]

    def disturb(self, dice: random.Random, rounds: int, wanted: Collection[tuple[str, str]]) -> None:
        """Bring faults upon the writers, one after the other, and let them get on in between.

        It goes on until every wanted outcome of a call was seen: which faults meet which calls is a matter of time.
        """
        self.await_progress(20)
        for number in count():
            if number >= rounds and {(one.kind, one.outcome) for one in self.history()} >= set(wanted):
                return
            at = dice.randrange(len(self._relays))
            fault = dice.choice([None, *(fault for fault in NetworkFault if fault is not NetworkFault.NONE)])
            self._begin(at, fault)
            time.sleep(dice.choice([0.05, 0.3, LEASE_S * 1.5]))
            self._end(at, fault)
            self.await_progress(5)

    def end(self) -> None:
        """Kill the writers, and close their relays."""
        for process in self._processes:
            process.kill()
            process.wait()
        for relay in self._relays:
            relay.close()

    def _begin(self, at: int, fault: NetworkFault | None) -> None:
        if fault is None:
            self._processes[at].send_signal(signal.SIGSTOP)
        else:
            self._relays[at].set(fault)

    def _end(self, at: int, fault: NetworkFault | None) -> None:
        if fault is None:
            self._processes[at].send_signal(signal.SIGCONT)
        else:
            self._relays[at].set(NetworkFault.NONE)

    def await_progress(self, appends: int) -> None:
        """Wait until so many more events were acknowledged."""
        before, deadline = len(_of(self.history(), APPEND)), time.monotonic() + _DEADLINE_S
        while len(_of(self.history(), APPEND)) < before + appends:
            assert time.monotonic() < deadline, "the writers do not get on"
            assert all(process.poll() is None for process in self._processes), "a writer ended"
            time.sleep(0.02)


def stored_names(reader: JournalReader) -> list[str]:
    """Return the names of the events that were appended, in their order."""
    return [item.event.stage for item in reader.events(RUN) if isinstance(item.event, ev.StageOpened)]


def main() -> None:
    """Run as a process: write to the store `argv[1]` as writer `argv[4]`, and write the history to the file `argv[3]`."""
    url, repository, log, number = sys.argv[1:]
    journal = _opened(JournalAddress(url, repository))
    with Path(log).open("ab", buffering=0) as file:
        write(
            HistoryWriter(f"w{number}", journal, lambda one: _write_line(file.fileno(), one)),
            random.Random(int(number)),
        )


def _write_line(fd: int, one: JournalCall) -> None:
    os.write(fd, msgspec.json.encode(one) + b"\n")


def _opened(address: JournalAddress) -> Journal:
    while True:
        try:
            return open_journal(address)
        except StoreUnavailableError:
            continue


if __name__ == "__main__":
    main()
