"""The fault injector does what it says: without that, no crash test proves anything."""

from __future__ import annotations

import errno
import os
import socketserver
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.crash.faults import (
    SERVER,
    Fault,
    FaultToolError,
    Mode,
    Point,
    Program,
    build,
    end_survivors,
    list_points,
    path_class,
    run_with_fault,
    stratified_sample,
    wait_for_survivors,
)

SCRIPT = "echo one > first; echo two > second; mv second third; rm first"
STATES: list[dict[str, str]] = [
    {},
    {"first": ""},
    {"first": "one\n"},
    {"first": "one\n", "second": ""},
    {"first": "one\n", "second": "two\n"},
    {"first": "one\n", "third": "two\n"},
    {"third": "two\n"},
]
POINTS = range(1, len(STATES))


def shell(root: Path, script: str = SCRIPT, *, leave: bool = False) -> Program:
    """Return a shell script that works in `root`."""
    return Program(["sh", "-c", script], root, root, leave=leave)


def python(root: Path, source: str) -> Program:
    """Return a Python program that works in `root`."""
    return Program([sys.executable, "-I", "-S", "-c", source], root, root)


def contents(root: Path) -> dict[str, str]:
    """Return every file's text by its name."""
    return {path.name: path.read_text() for path in root.iterdir()}


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A named pipe outside every program's root: who reads it is blocked until the test writes to it."""
    path = tmp_path_factory.mktemp("gate") / "gate"
    os.mkfifo(path)
    return path


def test_a_program_has_the_same_points_each_time(tmp_path: Path) -> None:
    """Point N of the counting run is point N of the next run."""
    first, second = (
        [(point.number, point.stratum) for point in list_points(shell(tmp_path, SCRIPT + "; rm third"))]
        for _ in range(2)
    )
    assert first == second
    assert [number for number, _ in first] == list(range(1, 8))


def test_a_point_says_who_did_what_to_which_file(tmp_path: Path) -> None:
    """The list tells the program's own process from its children, and names call and path."""
    points = list_points(shell(tmp_path))
    assert [(point.is_main_process, point.comm, point.path) for point in points[-3:]] == [
        (True, "sh", "second"),
        (False, "mv", "third"),
        (False, "rm", "first"),
    ]
    assert points[1].syscall == "write"


def test_only_changes_below_the_root_count(tmp_path: Path) -> None:
    """Pipes, devices, other directories, and calls that change nothing are no points."""
    root = tmp_path / "root"
    root.mkdir()
    script = "echo a | cat > /dev/null; echo b > ../aside; mkdir ../root; rm -f missing; true >> ../aside"
    assert list_points(shell(root, script + "; true")) == []


def test_a_path_counts_however_it_is_spelled(tmp_path: Path) -> None:
    """Symbolic links, `..`, directory descriptors and absolute paths lead to the same file."""
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to("root")
    source = (
        "import os; fd = os.open('root', os.O_RDONLY)\n"
        "for name, at in (('link/../root/a', None), (os.path.abspath('link/b'), None), ('c', fd)):\n"
        "    os.mkdir(name, dir_fd=at)"
    )
    program = Program([sys.executable, "-I", "-S", "-c", source], tmp_path, tmp_path / "root")
    assert [point.path for point in list_points(program)] == ["a", "b", "c"]


@pytest.mark.parametrize("number", POINTS)
def test_kill_leaves_exactly_what_was_done_before(tmp_path: Path, number: int) -> None:
    """The call at the point does not run, all calls before it have."""
    verdict = run_with_fault(shell(tmp_path), Fault("kill", number))
    assert (verdict.fired, verdict.total) == (True, number)
    assert contents(tmp_path) == STATES[number - 1]


@pytest.mark.parametrize("number", POINTS)
def test_after_leaves_exactly_one_call_more(tmp_path: Path, number: int) -> None:
    """The call at the point runs, and nothing after it."""
    assert run_with_fault(shell(tmp_path), Fault("after", number)).fired
    assert contents(tmp_path) == STATES[number]


def test_torn_writes_the_first_half(tmp_path: Path) -> None:
    """Four bytes to write leave two."""
    verdict = run_with_fault(shell(tmp_path), Fault("torn", 2))
    assert verdict.point is not None
    assert (verdict.point.syscall, verdict.exit_status) == ("write", -9)
    assert contents(tmp_path) == {"first": "on"}


def test_torn_cuts_a_vector_in_its_first_piece(tmp_path: Path) -> None:
    """A gathered write leaves a true beginning of its bytes."""
    program = python(
        tmp_path, "import os; os.writev(os.open('f', os.O_CREAT | os.O_WRONLY), [b'abcd', b'efgh'])"
    )
    assert run_with_fault(program, Fault("torn", 2)).fired
    assert contents(tmp_path) == {"f": "ab"}


def test_an_error_reaches_the_program(tmp_path: Path) -> None:
    """The call fails with the chosen error, has no effect, and the program goes on."""
    source = "import sys\ntry: open('f', 'w')\nexcept OSError as failure: sys.exit(failure.errno)"
    verdict = run_with_fault(python(tmp_path, source), Fault("errno", 1, error=errno.EROFS))
    assert (verdict.fired, verdict.exit_status) == (True, errno.EROFS)
    assert contents(tmp_path) == {}


def test_a_full_disk_stays_full_but_lets_files_go(tmp_path: Path) -> None:
    """A lasting ENOSPC fails every later call that needs room, and no other."""
    script = "echo a > old; echo b > new; rm old; echo c > newer; true"
    verdict = run_with_fault(shell(tmp_path, script), Fault("errno", 3, error=errno.ENOSPC, lasting=True))
    assert verdict.hits == 2
    assert contents(tmp_path) == {}


def test_main_process_kills_the_program_and_spares_its_children(tmp_path: Path) -> None:
    """A child in its own session finishes its file after its parent was killed at the child's first write."""
    script = "setsid sh -c 'echo begun > log; echo done >> log' & wait"
    verdict = run_with_fault(shell(tmp_path, script), Fault("main_process", 2))
    assert verdict.fired
    assert verdict.exit_status == -9
    assert wait_for_survivors(verdict, 30)
    assert contents(tmp_path) == {"log": "begun\ndone\n"}


def test_a_left_process_runs_on_after_the_verdict(tmp_path: Path, gate: Path) -> None:
    """With `leave`, the verdict comes when the program ends, and what it left behind keeps working."""
    verdict = run_with_fault(shell(tmp_path, f"(read x; echo $x > log) < {gate} &", leave=True), None)
    assert contents(tmp_path) == {}
    gate.write_text("done\n")
    assert wait_for_survivors(verdict, 30)
    assert contents(tmp_path) == {"log": "done\n"}


def test_survivors_can_be_ended(tmp_path: Path, gate: Path) -> None:
    """What the run left alive ends on demand, before it did its work, and ending it again is harmless."""
    verdict = run_with_fault(shell(tmp_path, f"(read x; echo $x > log) < {gate} &", leave=True), None)
    assert verdict.survivors == 1
    end_survivors(verdict)
    end_survivors(verdict)
    assert wait_for_survivors(verdict, 0)
    assert contents(tmp_path) == {}


def test_a_fault_past_the_end_says_so(tmp_path: Path) -> None:
    """The program runs whole, and the verdict denies the fault."""
    verdict = run_with_fault(shell(tmp_path), Fault("kill", len(STATES)))
    assert (verdict.fired, verdict.hits, verdict.point) == (False, 0, None)
    assert (verdict.total, verdict.exit_status) == (len(STATES) - 1, 0)
    assert contents(tmp_path) == STATES[-1]


def test_the_exit_status_and_output_come_through(tmp_path: Path) -> None:
    """An unbroken program is seen as if it ran alone."""
    verdict = run_with_fault(shell(tmp_path, "echo hello; exit 7"), None)
    assert (verdict.exit_status, verdict.output) == (7, "hello\n")


def test_a_program_that_hangs_is_killed_whole(tmp_path: Path, gate: Path) -> None:
    """A run over its time is an error, and nothing of it lives on."""
    script = f"setsid sh -c 'exec 3<> {gate}; read x <&3'"
    with pytest.raises(FaultToolError, match="did not end"):
        run_with_fault(Program(["sh", "-c", script], tmp_path, tmp_path, timeout_s=0.5), None)
    with pytest.raises(OSError, match="No such device"):  # nobody has the pipe open
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)


def test_a_stopped_child_goes_on_when_told(tmp_path: Path) -> None:
    """Stopping and continuing a traced process works, and its parent sees it stop."""
    source = (
        "import os, signal\npid = os.fork()\n"
        "if pid == 0: os.kill(os.getpid(), signal.SIGSTOP); os.mkdir('after'); os._exit(0)\n"
        "assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])\n"
        "os.kill(pid, signal.SIGCONT); os.waitpid(pid, 0)"
    )
    assert [point.path for point in list_points(python(tmp_path, source))] == ["after"]


def test_a_thread_may_execute_another_program(tmp_path: Path) -> None:
    """The new program is the same process, whatever thread started it."""
    source = (
        "import os, threading\n"
        "threading.Thread(target=os.execv, args=('/bin/sh', ['sh', '-c', 'true > made'])).start()\n"
        "threading.Event().wait()"
    )
    verdict = run_with_fault(python(tmp_path, source), Fault("after", 1))
    assert verdict.point is not None
    assert (verdict.point.is_main_process, verdict.point.path, contents(tmp_path)) == (
        True,
        "made",
        {"made": ""},
    )


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each run counts and kills its own processes only."""
    roots = [tmp_path / str(number) for number in POINTS]
    for root in roots:
        root.mkdir()
    with ThreadPoolExecutor(len(roots)) as pool:
        verdicts = list(pool.map(lambda n: run_with_fault(shell(roots[n - 1]), Fault("kill", n)), POINTS))
    assert all(verdict.fired for verdict in verdicts)
    assert [contents(root) for root in roots] == STATES[:-1]


SQLITE_PROGRAM = """
import sqlite3, threading
def insert(thread):
    journal = sqlite3.connect("journal.db", timeout=30, isolation_level=None)
    journal.execute("PRAGMA synchronous=FULL")
    for number in range(2):
        journal.execute("INSERT INTO facts VALUES (?)", (thread * 10 + number,))
        print(thread * 10 + number, flush=True)
journal = sqlite3.connect("journal.db", isolation_level=None)
journal.execute("PRAGMA journal_mode=WAL")
journal.execute("CREATE TABLE facts (number)")
threads = [threading.Thread(target=insert, args=(thread,)) for thread in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_sqlite_keeps_what_it_acknowledged_at_every_point(tmp_path: Path) -> None:
    """Threads that write a WAL database: killed anywhere, it is sound and holds every row that was reported."""
    (tmp_path / "count").mkdir()
    points = list_points(python(tmp_path / "count", SQLITE_PROGRAM))
    assert 10 < len(points) <= 60
    for point in points:
        root = tmp_path / str(point.number)
        root.mkdir()
        verdict = run_with_fault(python(root, SQLITE_PROGRAM), Fault("kill", point.number))
        assert verdict.fired
        assert rows(root / "journal.db") >= {int(line) for line in verdict.output.split()}


def rows(database: Path) -> set[int]:
    """Return the rows of a sound database, none if its table was never made."""
    connection = sqlite3.connect(database)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return {row[0] for row in connection.execute("SELECT number FROM facts")} if tables else set()
    finally:
        connection.close()


def test_git_commits_under_the_tool(tmp_path: Path) -> None:
    """A real git repository gets its commit, through more than ten points."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("text")
    subprocess.run([*git, "add", "file"], check=True)
    points = list_points(Program([*git, "commit", "-qm", "first"], tmp_path, tmp_path))
    assert len(points) > 10
    assert subprocess.check_output([*git, "log", "--format=%s"]) == b"first\n"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".git/objects/a1/dffc7a64c0b2d395484bf452e9aeb1da3a18f2", ".git/objects/H/H"),
        (".git/objects/a1/tmp_obj_tji9ez", ".git/objects/H/tmp_obj_R"),
        (".holdfast/runs/01-goal/attempts/L1-001.2", ".holdfast/runs/N-goal/attempts/LN-N.N"),
        (".git/refs/heads/master.lock", ".git/refs/heads/master.lock"),
    ],
)
def test_a_path_class_forgets_ids(path: str, expected: str) -> None:
    """Files that play the same part have the same class."""
    assert path_class(path) == expected


def points_of(counts: dict[str, int]) -> list[Point]:
    """Return so many write points for each path."""
    paths = [path for path, count in counts.items() for _ in range(count)]
    return [Point(number, 1, True, "sh", "write", path) for number, path in enumerate(paths, 1)]


def test_a_sample_takes_every_kind_before_a_second_of_any() -> None:
    """A rare kind of point is never crowded out by a common one."""
    sample = stratified_sample(points_of({"log": 1000, "ref": 3, "lock": 1}), 5, seed=1)
    assert [[point.path for point in sample].count(path) for path in ("log", "ref", "lock")] == [2, 2, 1]


def test_a_sample_depends_on_its_seed_alone() -> None:
    """The seed that a failure prints brings back the same points."""
    points = points_of({"log": 1000, "ref": 100})
    assert stratified_sample(points, 20, seed=1) == stratified_sample(points, 20, seed=1)
    assert stratified_sample(points, 20, seed=1) != stratified_sample(points, 20, seed=2)


def test_the_tool_is_built_once() -> None:
    """The same sources are not compiled again."""
    assert build().stat().st_mtime_ns == build().stat().st_mtime_ns


def test_a_missing_compiler_is_named(tmp_path: Path) -> None:
    """Without `cc` the error says what to install."""
    source = f"import pathlib; from tests.crash import faults; faults._compile(pathlib.Path({str(tmp_path / 'tool')!r}), (), ())"
    environment = {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    failed = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True)
    assert "No C compiler: `cc` is not on PATH." in failed.stderr


class Answering(socketserver.BaseRequestHandler):
    """Answers the first message, and keeps all that comes."""

    def handle(self) -> None:
        """Serve one client until it is gone."""
        said: bytes = self.request.recv(64)
        if said:
            with suppress(ConnectionResetError):  # it died with the answer unread
                self.request.sendall(b"answer")
                said += self.request.recv(64)
        self.server.said.put(said)  # type: ignore[attr-defined]


@pytest.fixture
def server() -> Iterator[tuple[int, SimpleQueue[bytes]]]:
    """A server on this machine: its port, and what each of its clients said."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answering) as listener:
        said: SimpleQueue[bytes] = SimpleQueue()
        listener.said = said  # type: ignore[attr-defined]
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield listener.server_address[1], said
        listener.shutdown()


def asking(root: Path, port: int, *, points: bool = True) -> Program:
    """Return a program that asks the server, waits for its answer, and writes it down."""
    source = (
        "import select, socket\n"
        f"with socket.create_connection(('127.0.0.1', {port})) as server:\n"
        "    server.sendall(b'question')\n"
        "    select.select([server], [], [])\n"
        "    open('answer', 'wb', buffering=0).write(server.recv(64))"
    )
    return replace(python(root, source), server_port=port if points else None)


def test_messages_of_a_server_are_points_if_it_is_named(
    tmp_path: Path, server: tuple[int, SimpleQueue[bytes]]
) -> None:
    """What is asked, and what is answered; among the changes of files, in order."""
    points = list_points(asking(tmp_path, server[0]))
    found = [(point.syscall, point.path) for point in points]
    messages = [("sendto", SERVER), ("openat", "answer"), ("recvfrom", SERVER), ("write", "answer")]
    assert found == messages
    (tmp_path / "answer").unlink()
    unnamed = list_points(asking(tmp_path, server[0], points=False))
    assert [(point.syscall, point.path) for point in unnamed] == [messages[1], messages[3]]


@pytest.mark.parametrize(
    ("mode", "point", "said"),
    [
        ("kill", 1, b""),
        ("torn", 1, b"ques"),
        ("after", 1, b"question"),
        ("kill", 3, b"question"),
        ("after", 3, b"question"),
    ],
)
def test_a_program_dies_at_a_message(
    tmp_path: Path, server: tuple[int, SimpleQueue[bytes]], mode: Mode, point: int, said: bytes
) -> None:
    """Before the server was asked, in the middle of the question, when it knows it, and with the answer in hand."""
    port, heard = server
    verdict = run_with_fault(asking(tmp_path, port), Fault(mode, point))
    assert (verdict.fired, heard.get(timeout=30)) == (True, said)
    assert not any(path.read_bytes() for path in tmp_path.iterdir())


def test_no_message_fails_because_a_disk_is_full(
    tmp_path: Path, server: tuple[int, SimpleQueue[bytes]]
) -> None:
    """Such a fault waits for a call that needs room."""
    verdict = run_with_fault(asking(tmp_path, server[0]), Fault("errno", 1, errno.ENOSPC, lasting=True))
    assert verdict.point is not None
    assert (verdict.point.number, verdict.point.path) == (2, "answer")
