"""W1 beside what others do in the same server: 1,000 no-op tasks, 8 in flight, in turn with Holdfast, at the same moment.

Time that a peer's workers take to start is not counted. That Holdfast opens its journal is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from statistics import median

import msgspec

from bench import store, w1_journal
from bench.measurement import ROOT, Figure, environment
from bench.noop import Outcome
from bench.peers.environment import PEERS, Peer
from bench.peers.worker import NAME_VARIABLE, URL_VARIABLE

_TIMES_AS_FAST = 3


class PeerOutcome(msgspec.Struct, kw_only=True):
    """What a peer's run cost: wall time, and processor time of all its processes."""

    completed: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class _Round:
    """Both, one after the other."""

    ours: Outcome
    peer: PeerOutcome

    @property
    def wall_ratio(self) -> float:
        return self.peer.wall_s / self.ours.span.wall_s

    @property
    def cpu_ratio(self) -> float:
        return self.peer.cpu_s / self.ours.span.cpu_s


def names() -> tuple[str, ...]:
    """Return the peers that use the kind of server that was chosen."""
    return tuple(peer.name for peer in PEERS if peer.server == store.server_kind())


def workloads() -> dict[str, Callable[..., list[Figure]]]:
    """Return what measures each peer, by its name."""
    return {peer.name: _measuring(peer) for peer in PEERS}


def missing() -> dict[str, Callable[[], str]]:
    """Return what says why a peer cannot be measured here; it is installed if it can be."""
    return {peer.name: _preparing(peer) for peer in PEERS}


def _preparing(peer: Peer) -> Callable[[], str]:
    def prepare() -> str:
        if peer.server != store.server_kind():
            return f"{peer.name} is measured in a server: --store {peer.server}…"
        return peer.install()

    return prepare


def _measuring(peer: Peer) -> Callable[..., list[Figure]]:
    def measure(*, quick: bool) -> list[Figure]:
        tasks, rounds = (100, 1) if quick else (1_000, 5)
        return _figures(peer, tasks, [_round(peer, tasks) for _ in range(rounds)])

    return measure


def _round(peer: Peer, tasks: int) -> _Round:
    return _Round(w1_journal.run(tasks, 1, 1), _run_peer(peer, tasks))


def _run_peer(peer: Peer, tasks: int) -> PeerOutcome:
    env = environment() | {URL_VARIABLE: store.peer_url(), NAME_VARIABLE: f"bench-{token_hex(4)}"}
    argv = [str(peer.python), "-W", "ignore", "-m", "bench.peers", peer.module, str(tasks)]
    done = subprocess.run(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True)
    outcome = msgspec.json.decode(done.stdout.splitlines()[-1], type=PeerOutcome)
    assert outcome.completed == tasks
    return outcome


def _figures(peer: Peer, tasks: int, rounds: list[_Round]) -> list[Figure]:
    name, what = peer.name, f"{tasks:,} no-op tasks"
    ours = median(taken.ours.completed / taken.ours.span.wall_s for taken in rounds)
    theirs = median(taken.peer.completed / taken.peer.wall_s for taken in rounds)
    return [
        Figure(name, f"Holdfast, {what}", ours, "tasks/s", note="in turn with the peer"),
        Figure(name, f"{peer.version}, {what}", theirs, "tasks/s"),
        Figure(
            name,
            f"Holdfast / {name}, wall",
            median(taken.wall_ratio for taken in rounds),
            "x",
            bound=_TIMES_AS_FAST,
            note=f"median of {len(rounds)} pairs",
        ),
        Figure(name, f"Holdfast / {name}, CPU", median(taken.cpu_ratio for taken in rounds), "x"),
    ]
