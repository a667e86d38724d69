"""What a sandbox of Landlock alone allows: the policy of a launch as rules for files, and the environment that goes with it.

Rules only allow, and hold for all that lies below a path. So nothing is shown that has something hidden in it: its entries
are shown one by one, as far as they may be. Nothing has another place than outside, so a launch gets a folder of its own
for temporary files and, unless it has a private one, for its home.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from holdfast.process.landlock import DEVICE, READ, WRITE
from holdfast.process.sandbox import TEMPORARY_VARIABLES, SandboxPolicy, is_below, real_place
from holdfast.process.scratch_folder import home_in, temporary_in

_ROOT, _DEVICES = Path("/"), Path("/dev")
_HARMLESS_DEVICES = tuple(_DEVICES / name for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""Not the terminals: whoever may open those reads what the user types."""
_HIDDEN = 0
_ENTRIES_MAX = 4000


def file_rules(policy: SandboxPolicy) -> list[tuple[str, int]]:
    """Return what may be opened under a policy, and how: paths, with what is allowed there and below."""
    wanted = {
        **_each((*policy.covered, *policy.scratch, _DEVICES), _HIDDEN),
        **_each((home for home, _ in policy.replaced), _HIDDEN),
        **_each(policy.readable, READ),
        **_each(_HARMLESS_DEVICES, DEVICE),
        **_each((*policy.writable, *(copy for _, copy in policy.replaced)), WRITE),
        **_each(policy.withheld, _HIDDEN),
    }
    return [(str(path), allowed) for path, allowed in _rules(_ROOT, READ, wanted)]


def _each(paths: Iterator[Path] | tuple[Path, ...], allowed: int) -> dict[Path, int]:
    return dict.fromkeys((place for place in map(real_place, paths) if place != _ROOT), allowed)


def _rules(path: Path, around: int, wanted: Mapping[Path, int]) -> Iterator[tuple[Path, int]]:
    """Yield the rules for a path and all below it, where `around` is allowed unless something else is wanted."""
    allowed = wanted.get(path, around)
    inner = {other: what for other, what in wanted.items() if other != path and is_below(other, [path])}
    if allowed not in (_HIDDEN, READ):
        yield path, allowed
    elif allowed and _HIDDEN not in inner.values():
        yield path, allowed
        yield from ((other, what) for other, what in inner.items() if what != allowed)
    else:
        named = {path / other.parts[len(path.parts)] for other in inner}
        for entry in sorted(named | set(_entries(path) if allowed else ())):
            yield from _rules(entry, allowed, inner)


def _entries(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder. Where links lead is shown or hidden on its own. Of a folder without end nothing is shown."""
    try:
        with os.scandir(folder) as found:
            entries = list(islice(found, _ENTRIES_MAX + 1))
    except OSError:
        return
    for entry in entries if len(entries) <= _ENTRIES_MAX else ():
        if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            yield folder / entry.name


def environment_inside(policy: SandboxPolicy, env: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return the environment of a launch: temporary files and the home are where it may write.

    What else leads into the hidden home leads into the other one, such as the folder for an agent's settings.
    """
    home, new = _homes(policy, env, scratch)
    kept = tuple(map(real_place, (*policy.covered, *policy.readable, *policy.writable)))
    moved = {
        name: new + value[len(home) :]
        for name, value in env.items()
        if home and f"{value}/".startswith(f"{home}/") and not is_below(real_place(Path(value)), kept)
    }
    own = {"HOME": new} if home else {}  # also if the project is the home itself
    return {**env, **moved, **own, **dict.fromkeys(TEMPORARY_VARIABLES, temporary_in(scratch))}


def home_links(policy: SandboxPolicy, env: Mapping[str, str], scratch: str) -> list[tuple[str, str]]:
    """Return what is shown of the hidden home, each with its name in the other one: tool chains look for themselves there."""
    home, new = _homes(policy, env, scratch)
    project = tuple(map(real_place, policy.covered))
    return sorted(
        (str(place), new + str(path)[len(home) :])
        for path, place in ((path, real_place(path)) for path in policy.readable)
        if home and str(path).startswith(f"{home}/") and not is_below(place, project)
    )


def _homes(policy: SandboxPolicy, env: Mapping[str, str], scratch: str) -> tuple[str, str]:
    """Return the home that is hidden from a launch, and the one that it has instead; nothing if it keeps its own."""
    home = env.get("HOME", "").rstrip("/")
    if not home or real_place(Path(home)) not in map(real_place, policy.scratch):
        return "", ""
    return home, next((str(copy) for _, copy in policy.replaced), home_in(scratch))
