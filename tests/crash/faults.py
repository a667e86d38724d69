"""Break a program at one chosen file-changing system call: the Python side of `fault_injector.c`.

Here: building the tool, running a program under it, its verdict, and choosing points. What must hold after a crash is the
business of the tests that use this.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.errors import HoldfastError

HERE = Path(__file__).parent
BUILD_DIR = HERE / "build"
SOURCES = ("fault_injector.c", "recording.c", "syscall_points.c")
HEADERS = ("recording.h", "syscall_points.h", "arch.h")
GRACE_S = 10.0
SERVER = "the server"
"""The path of a point that is a message to the server, or from it."""

Mode = Literal["kill", "after", "torn", "main_process", "errno"]


class FaultToolError(HoldfastError):
    """The fault could not be injected at all, so the run proves nothing."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: its points are the changes it makes below `root`.

    With `leave`, the run ends when the program's own process does; without, when the last of its descendants does.
    `start` makes the program's process instead of a new start: given the file for its output, and whether to tell how
    processes notice each other, it returns a process that has stopped itself, and installs the filter when it goes on.
    With a `server_port`, each message to and from the server there is a point, too; `start` then sees to that filter.
    """

    argv: Sequence[str]
    cwd: Path
    root: Path
    env: Mapping[str, str] | None = None
    timeout_s: float = 60.0
    leave: bool = False
    start: Callable[[Path, bool], int] | None = None
    server_port: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at which point; `error` is for `errno` alone, `lasting` makes it fail all later points too.

    A lasting ENOSPC or EDQUOT fails only the calls that need room: a full disk still lets files be removed.
    """

    mode: Mode
    point: int
    error: int = 0
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One file-changing call: `path` is relative to the program's root. Or a message: then it is `SERVER`.

    `exchanges` counts what had passed between the main process and the others before it; only listings tell. `is_alone`
    says that no other process was alive. Only a call that `needs_room` can fail because the disk is full; a sync is
    one, too.
    """

    number: int
    pid: int
    is_main_process: bool
    comm: str
    syscall: str
    path: str
    exchanges: int = 0
    is_alone: bool = False
    needs_room: bool = False

    @property
    def stratum(self) -> tuple[str, str]:
        """What this point has in common with others that break the same way."""
        return self.syscall, path_class(self.path)


@dataclass(frozen=True, slots=True)
class FaultResult:
    """What became of a run. A fault that did not fire proves nothing: look at `fired` first.

    `point` is where it fired first. `exit_status` is that of the program's own process, negative for a signal.
    `survivors` counts the threads that `main_process` or `leave` let run on; they are traced by the process `tracer`.
    """

    fired: bool
    hits: int
    total: int
    exit_status: int
    survivors: int
    tracer: int
    point: Point | None
    output: str = ""


@cache
def build() -> Path:
    """Compile the tool and return its path; a build of these very sources is used again."""
    return _built("fault-injector", SOURCES)


@cache
def build_filter() -> Path:
    """Compile the filter as a library, for programs that install it themselves."""
    return _built("syscall-filter", ("syscall_points.c",), "-shared", "-fPIC")


def _built(name: str, sources: Sequence[str], *options: str) -> Path:
    digest = hashlib.sha256(b"".join((HERE / file).read_bytes() for file in SOURCES + HEADERS)).hexdigest()
    binary = BUILD_DIR / f"{name}-{digest[:16]}"
    if not binary.exists():
        BUILD_DIR.mkdir(exist_ok=True)
        _compile(binary, sources, options)
    return binary


def _compile(binary: Path, sources: Sequence[str], options: Sequence[str]) -> None:
    """Make the binary appear whole or not at all: two test processes may build at once."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FaultToolError(
            "No C compiler: `cc` is not on PATH.", "Install gcc or clang, with the kernel headers."
        )
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", *options, "-o", str(unfinished)]
    made = subprocess.run(command + [str(HERE / name) for name in sources], capture_output=True, text=True)
    if made.returncode != 0:
        raise FaultToolError(
            f"`{compiler}` cannot build {binary.name}:\n{made.stderr}", "The first error line says why."
        )
    unfinished.replace(binary)


def run_with_fault(program: Program, fault: Fault | None) -> FaultResult:
    """Run the program and break it as told; without a fault its points are only counted."""
    with tempfile.TemporaryDirectory(prefix="fault-injector-") as scratch:
        return run_tool(program, _fault_options(fault), Path(scratch))


def list_points(program: Program, exit_status: int = 0) -> list[Point]:
    """Run the program unbroken and return its points, in order."""
    with tempfile.TemporaryDirectory(prefix="fault-injector-") as scratch:
        listing = Path(scratch, "points")
        verdict = run_tool(program, ["-l", str(listing)], Path(scratch))
        lines = listing.read_text("utf-8", "replace").splitlines()
    if verdict.exit_status != exit_status:
        raise FaultToolError(
            f"{program.argv[0]} failed with {verdict.exit_status} and no fault:\n{verdict.output}",
            "Make the program succeed on its own first.",
        )
    return [msgspec.json.decode(line, type=Point) for line in lines]


def _fault_options(fault: Fault | None) -> list[str]:
    if fault is None:
        return []
    mode = f"errno={fault.error}" if fault.mode == "errno" else fault.mode
    return ["-m", mode, "-f" if fault.lasting else "-n", str(fault.point)]


def run_tool(program: Program, options: list[str], scratch: Path) -> FaultResult:
    """Run the program under the tool, with options of its own, and return its verdict; `scratch` is an empty folder.

    Output goes to a file, not a pipe: a survivor that keeps it open must not keep us waiting.
    """
    told, output = scratch / "verdict", scratch / "output"
    command = [str(build()), "-r", str(program.root), "-o", str(told), *options]
    command += ["-d"] if program.leave else []
    command += [] if program.server_port is None else ["-s", str(program.server_port)]
    with output.open("wb") as sink:
        if program.start is None:
            command += ["--", *program.argv]
        else:
            command += ["-p", str(program.start(output, bool({"-l", "-t"} & set(options))))]
        tool = subprocess.Popen(
            command, cwd=program.cwd, env=program.env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        in_time = _wait(tool, program.timeout_s)
    text = output.read_text("utf-8", "replace")
    if not in_time:
        raise FaultToolError(
            f"{program.argv[0]} did not end in {program.timeout_s} s:\n{text}",
            "Everything it started was killed.",
        )
    if not told.exists():
        raise FaultToolError(
            f"fault_injector gave no verdict:\n{text}", "Does this system allow ptrace and seccomp?"
        )
    verdict = msgspec.json.decode(told.read_text("utf-8", "replace"), type=FaultResult)
    return replace(verdict, output=text)


def _wait(tool: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Return whether the tool ended in time; if not, it has killed everything it traced, and ended."""
    try:
        tool.wait(timeout_s)
    except subprocess.TimeoutExpired:
        tool.terminate()
        try:
            tool.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            tool.kill()
            tool.wait()
        return False
    return True


def wait_for_survivors(verdict: FaultResult, timeout_s: float) -> bool:
    """Wait until nothing of the run lives; return whether that came true. Done at once if it already is."""
    tracer = _open_tracer(verdict)
    if tracer is None:
        return True
    try:
        return bool(select.select([tracer], [], [], timeout_s)[0])
    finally:
        os.close(tracer)


def end_survivors(verdict: FaultResult) -> None:
    """Kill all that the run left alive, and wait for its end. Nothing happens if all have ended."""
    tracer = _open_tracer(verdict)
    if tracer is None:
        return
    try:
        signal.pidfd_send_signal(tracer, signal.SIGTERM)
        select.select([tracer], [], [], GRACE_S)
    finally:
        os.close(tracer)


def _open_tracer(verdict: FaultResult) -> int | None:
    """Return a handle on the run's tracer, or None if it has ended; by now its pid may be another's."""
    try:
        handle = os.pidfd_open(verdict.tracer)
    except ProcessLookupError:
        return None
    if _is_tool(verdict.tracer):
        return handle
    os.close(handle)
    return None


def _is_tool(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink() == build()
    except OSError:
        return False


_PLACEHOLDERS = (
    (re.compile(r"(?<=objects/)[0-9a-f]{2}(?=/|$)"), "H"),
    (re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{7,64}(?![0-9A-Za-z])"), "H"),
    (re.compile(r"(?<=tmp_obj_)\w{6}|(?<=tmp_pack_)\w{6}|(?<=tmp_idx_)\w{6}|(?<=bulk-fsync-)\w{6}"), "R"),
    (re.compile(r"(?<=\.holdfast-)[0-9]+-[0-9]+-\w{8}(?=/|$)|(?<=\.capture-)\w{8}(?=/|$)"), "R"),
    (re.compile(r"(?<=holdfast-private/staging/)(.+)\.\w{8}(?=/|$)"), r"\1.R"),
    (re.compile(r"(?<![0-9A-Za-z])tmp[a-z0-9_]{8}(?![0-9A-Za-z])"), "tmpR"),
    (re.compile(r"[0-9]+"), "N"),
)


def path_class(path: str) -> str:
    """Return the path with object ids, random parts and numbers blotted out."""
    for pattern, placeholder in _PLACEHOLDERS:
        path = pattern.sub(placeholder, path)
    return path


def stratified_sample(points: Sequence[Point], n: int, seed: int) -> list[Point]:
    """Choose `n` points so that each kind of call on each kind of file has its turn before any has a second.

    The same seed gives the same choice for the same points; another seed starts with other kinds.
    """
    rng = random.Random(seed)
    strata: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        strata[point.stratum].append(point)
    for stratum in strata.values():
        rng.shuffle(stratum)
    turns = [(turn, rng.random(), point) for stratum in strata.values() for turn, point in enumerate(stratum)]
    chosen = [point for _, _, point in sorted(turns, key=lambda item: item[:2])[:n]]
    return sorted(chosen, key=lambda point: point.number)
