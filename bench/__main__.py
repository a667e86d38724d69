"""`python -m bench [W1 … W13 raw] [--quick] [--store URL [--peers]]`: measure, print a table, keep the figures as JSON."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import (
    machine,
    store,
    w1_journal,
    w1_peers,
    w2_processes,
    w4_resume,
    w5_start,
    w6_landing,
    w7_checkpoint,
    w8_agents,
    w9_sandbox,
    w10_setup,
    w11_dashboard,
    w12_page,
    w13_watch,
)
from bench.measurement import RESULTS, Figure, Machine, Report, table
from holdfast.journal.address import without_password

_WORKLOADS: dict[str, Callable[..., list[Figure]]] = {
    "raw": machine.measure,
    "W1": w1_journal.measure,
    "W2": w2_processes.measure,
    "W3": w1_journal.measure_stages,
    "W4": w4_resume.measure,
    "W5": w5_start.measure,
    "W6": w6_landing.measure,
    "W7": w7_checkpoint.measure,
    "W8": w8_agents.measure,
    "W9": w9_sandbox.measure,
    "W10": w10_setup.measure,
    "W11": w11_dashboard.measure,
    "W12": w12_page.measure,
    "W13": w13_watch.measure,
}
_PEERS = w1_peers.workloads()
_MISSING: dict[str, Callable[[], str]] = {
    "W8": w8_agents.missing,
    "W9": w9_sandbox.missing,
    "W12": w12_page.missing,
    **w1_peers.missing(),
}
"""Why a workload cannot be measured here, for workloads with special requirements."""


def main() -> None:
    """Run the chosen workloads, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"some of {', '.join(_WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, not how fast")
    parser.add_argument(
        "--store", metavar="URL", help=f"journals in this server; {', '.join(store.WORKLOADS)} only"
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="and others in the same server, with the work of W1; pip installs them",
    )
    options = parser.parse_args()
    known = list(_WORKLOADS) if options.store is None else store.WORKLOADS
    if unknown := set(options.workloads).difference(known):
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.peers and options.store is None:
        parser.error("--peers needs --store: others are measured in the same server")
    if options.store is not None:
        store.choose(options.store)
    peers = w1_peers.names() if options.peers else ()
    report = _measure([*(options.workloads or known), *peers], quick=options.quick)
    skips = [f"{name} SKIPPED: {reason}" for name, reason in report.skipped.items()]
    print(_heading(report), table(report.figures), *skips, f"written to {_write(report)}", sep="\n\n")


def _measure(workloads: list[str], *, quick: bool) -> Report:
    before = os.getloadavg()
    figures: list[Figure] = []
    skipped = {name: reason for name in workloads if name in _MISSING and (reason := _MISSING[name]())}
    for name in (name for name in workloads if name not in skipped):
        print(f"measuring {name} …", file=sys.stderr)
        figures += (_WORKLOADS | _PEERS)[name](quick=quick)
    machine = Machine(
        cpus=os.cpu_count() or 0,
        python=platform.python_version(),
        git=subprocess.check_output(["git", "--version"], text=True).split()[-1],
        load_before=before,
        load_after=os.getloadavg(),
    )
    return Report(
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=" ".join(["python -m bench", *map(_shown, sys.argv[1:])]),
        quick=quick,
        machine=machine,
        figures=figures,
        skipped=skipped,
    )


def _shown(word: str) -> str:
    return without_password(word) if "://" in word else word


def _heading(report: Report) -> str:
    machine = report.machine
    loads = " → ".join(f"{load[0]:.1f}" for load in (machine.load_before, machine.load_after))
    return (
        f"{machine.cpus} CPUs, Python {machine.python}, git {machine.git}, load {loads} "
        "(beyond the bench's own, other work slows every figure down)"
        + ("; quick sizes, too small to reach anything" if report.quick else "")
    )


def _write(report: Report) -> Path:
    stamp = report.taken_at.replace(":", "").replace("+0000", "Z")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{stamp}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return path


main()
