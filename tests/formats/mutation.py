"""Other systems' files, damaged in every way that hands, models and crashes damage files; the readers must take it.

`python -m tests.formats.mutation` reads 50,000 of them. Each gives a run with a sound plan, or a typed error.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.core.plan_rules import broken_rules
from holdfast.core.projection import RunRow, TaskRow
from holdfast.errors import HoldfastError
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.model import ForeignFormat, ForeignRun, all_formats
from holdfast.formats.registry import System
from tests.formats.samples import SAMPLES

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 1.5, float("1e308"), "", " ", "\x00", "../../etc/passwd", "Ünïcödé ☃", "-rf",
    "x" * 5_000, [], {}, [[]], [None], {"": None}, [{}], {"id": {"id": []}}, ["a", "a"], "done", "8b", "2-backend",
)  # fmt: skip
_JUNK = (
    b"\x00",
    b"\xff\xfe",
    b"<<<<<<< HEAD\n",
    b"}",
    b"{",
    b'"',
    b",",
    b"\\",
    b"\xef\xbb\xbf",
    b"NaN",
    b"|",
    b"#",
)


def seeds() -> list[tuple[str, bytes]]:
    """Return sound files to damage: samples of our own, and the corpus of real ones where it is there."""
    real = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.name != "INDEX.md")
    return [*SAMPLES.items(), *((path.name, path.read_bytes()) for path in real)]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return the file after one to four misfortunes."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice((_bytes_damaged, _value_damaged, _value_damaged))(rng, data)
    return data[:200_000]


def _bytes_damaged(rng: random.Random, data: bytes) -> bytes:
    at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    how: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at],
        lambda: data[:at] + data[min(to, at + 200) :],
        lambda: data[:at] + data[at : at + 200] + data[at:],
        lambda: data[:at] + rng.choice(_JUNK) + data[at:],
        lambda: data[:at] + bytes(rng.randrange(256) for _ in range(8)) + data[at + 8 :],
        lambda: data[:at] + b"[" * rng.choice((10, 3_000)) + data[at:],
    )
    return rng.choice(how)()


def _value_damaged(rng: random.Random, data: bytes) -> bytes:
    """Change one value somewhere in the tree; what is no JSON is damaged as bytes."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes_damaged(rng, data)
    places = _places(tree)
    if not places:
        return _bytes_damaged(rng, data)
    holder, key = rng.choice(places)
    action = rng.randrange(5)
    if action == 0:
        holder[key] = rng.choice(ODD)
    elif action == 1:
        del holder[key]
    elif action == 2 and isinstance(holder, dict):
        holder[rng.choice(("id", "status", "tasks", "subtasks", "depends_on", "unheard_of", ""))] = (
            holder.pop(key)
        )
    elif action == 3:
        other, other_key = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[other_key])) if _has(other, other_key) else None
    else:
        holder[key] = [holder[key], holder[key]]
    return json.dumps(tree).encode()


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        found += [(at, key) for key in keys]
        waiting += [at[key] for key in keys]
    return found


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def outcome(formats: Mapping[System, ForeignFormat], name: str, data: bytes) -> str:
    """Read a file as whoever recognises it would, and as everybody else would; return what came of it.

    Raises whatever a reader or a writer raises that is no error of ours.
    """
    knowing = [system for system, one in formats.items() if one.recognises(name, data)]
    for one in formats.values():
        one.companions(name)
        _read(one, name, data)
    return _read(formats[knowing[0]], name, data) if knowing else "not recognised"


def _read(one: ForeignFormat, name: str, data: bytes) -> str:
    try:
        run = one.read(name, {name: data})
    except HoldfastError as error:
        return "typed error" if error.message else "error without words"
    _check(run)
    one.write(view_of(run), run.documents)
    return "read"


def _check(run: ForeignRun) -> None:
    broken = list(broken_rules(run.plan, {"", "agent"}))
    serious = [rule for rule in broken if "agent" not in rule.what]
    assert not serious, serious
    names = [task.id for _, task in run.plan.tasks()]
    assert [claim.task for claim in run.claims] == names
    assert {finding.task for finding in run.findings} - {""} <= set(names)


def view_of(run: ForeignRun) -> ExportedRun:
    """Return the run as writers are given it, just adopted."""
    row = RunRow(
        run="01-x", goal=run.plan.goal, plan_hash="", base="0" * 40, branch="refs/heads/holdfast/01-x"
    )
    tasks = {claim.task: TaskRow(id=claim.task, attempt=claim.attempts) for claim in run.claims}
    return ExportedRun(
        plan=run.plan,
        row=row,
        tasks=tasks,
        name=run.name,
        project="/p",
        started=0.0,
        updated=1.0,
        written_at=2.0,
    )


def sweep(count: int, seed: int) -> Counter[str]:
    """Read `count` damaged files, the same ones for the same seed, and count what came of them.

    What crashed is printed with its seed and number, which make it again.
    """
    formats, sound = all_formats(), seeds()
    counts: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")
        name, data = rng.choice(sound)
        try:
            counts[outcome(formats, name, damaged(rng, data))] += 1
        except Exception:
            counts["crash"] += 1
            print(f"--- seed {seed}, number {number}, {name}\n{traceback.format_exc()}", file=sys.stderr)
    return counts


def main() -> int:
    """Sweep as the command line says; exit 1 if anything crashed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts = sweep(args.count, args.seed)
    print(", ".join(f"{what}: {number}" for what, number in sorted(counts.items())))
    return 1 if counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
