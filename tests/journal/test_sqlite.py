"""Files that are not ours, damaged, newer, on the wrong disk, or on one with no room."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.event_codec import encode_event
from holdfast.core.status import RunStatus
from holdfast.errors import JournalError
from holdfast.journal import sqlite_schema
from holdfast.journal.filesystem_checks import network_filesystem
from holdfast.journal.maintenance import open_draft
from holdfast.journal.sqlite import SqliteJournal
from holdfast.journal.sqlite_read import consistent_read
from holdfast.locks import folder_locked
from tests.contract.journals import RUN, begin, run_row, write_for_ever
from tests.journal.full_disk import SCENES, check_unchanged_by_looking, leave_a_log_behind
from tests.support.command import eventually
from tests.support.power_cut import left_in
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage

ROOT = Path(__file__).parents[2]
MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw shared:9 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/me/local\\040disk rw - xfs /dev/vdb rw
32 22 0:41 / /mnt/share rw - cifs //nas/share rw
33 22 0:42 / /mnt/ssh rw - fuse.sshfs me@host: rw
34 22 0:43 / /mnt/c rw master:1 propagate_from:2 - 9p drvfs rw
35 22 0:44 / /data rw - nfs server:/data rw
36 35 254:2 / /data rw - ext4 /dev/vdc rw
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal's place in a state folder that does not exist yet."""
    return tmp_path / "state" / "journal.db"


def written(path: Path) -> int:
    """Write a journal with some events, close it, and return the last event's number."""
    journal = SqliteJournal.open(path)
    begin(journal)
    last = list(write_for_ever(journal, batches=30))[-1]
    journal.close()
    return last


def database(path: Path, *statements: str) -> None:
    """Run statements on a SQLite file that SQLite makes if need be."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def overwrite(path: Path, offset: int) -> None:
    """Scribble over a file from `offset` to its end."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * (path.stat().st_size - offset))


def check_refused_and_kept(path: Path, message: str, hint: str) -> None:
    """Both ways of opening say what is wrong and how to go on, and leave the folder byte for byte as it was."""
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    for opening in (SqliteJournal.open, SqliteJournal.open_read_only):
        with pytest.raises(JournalError, match=message) as caught:
            opening(path)
        assert hint in caught.value.hint
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"not a database " * 1000], ids=["empty", "short", "long"]
)
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    """SQLite alone would take the short ones for new databases and write into them."""
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    check_refused_and_kept(path, "not a Holdfast journal", "holdfast rebuild")


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_another_programs_database_is_refused_and_kept(tmp_path: Path, mode: str) -> None:
    """A database without our mark is not ours, whatever tables it has."""
    path = tmp_path / "journal.db"
    database(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE runs (x)")
    check_refused_and_kept(path, "another program", "holdfast rebuild")


def test_a_newer_journal_is_refused_and_kept(path: Path) -> None:
    """An old program never touches what it does not understand."""
    written(path)
    database(path, "PRAGMA user_version = 99")
    check_refused_and_kept(path, "newer Holdfast", "upgrade")


def test_a_damaged_header_is_refused_and_kept(path: Path) -> None:
    """The first bytes gone: the file is not opened."""
    written(path)
    overwrite(path, 0)
    check_refused_and_kept(path, "not a Holdfast journal", "holdfast rebuild")


def test_damaged_pages_are_an_error_with_a_way_out(path: Path) -> None:
    """Reading a broken page says so, and the damaged file is kept as it is."""
    written(path)
    overwrite(path, 4096)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="damaged") as caught:
        SqliteJournal.open_read_only(path).load(RUN)
    assert "holdfast rebuild" in caught.value.hint
    assert path.read_bytes() == before


def test_a_record_that_cannot_be_read_is_an_error_with_a_way_out(path: Path) -> None:
    """An event of an unknown kind is not skipped in silence."""
    written(path)
    database(
        path, """UPDATE events SET body = '[{"kind": "Mystery"}]' WHERE key = (SELECT max(key) FROM events)"""
    )
    with pytest.raises(JournalError, match="Mystery"):
        list(SqliteJournal.open_read_only(path).events(RUN))


def test_a_run_without_its_plan_is_an_error_with_a_way_out(path: Path) -> None:
    """A run whose plan is gone cannot be carried on, and that is said."""
    written(path)
    database(path, "DELETE FROM plans")
    with pytest.raises(JournalError, match="is missing from the journal") as caught:
        SqliteJournal.open_read_only(path).load(RUN)
    assert "holdfast rebuild" in caught.value.hint


def test_looking_where_no_journal_is_says_how_to_begin(path: Path) -> None:
    """A view never creates a journal."""
    with pytest.raises(JournalError, match="no journal") as caught:
        SqliteJournal.open_read_only(path)
    assert "holdfast run" in caught.value.hint
    assert not path.parent.exists()


def test_a_journal_is_for_its_user_only(path: Path) -> None:
    """Folder 0700; the file and what SQLite puts beside it 0600."""
    journal = SqliteJournal.open(path)
    begin(journal)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("journal.db", "journal.db-wal", "journal.db-shm"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    journal.close()


def test_a_journal_is_made_once(path: Path) -> None:
    """Opening it where one exists, as two starting processes may, changes nothing and leaves no debris."""
    last = written(path)
    SqliteJournal.open(path).close()
    assert SqliteJournal.open_read_only(path).load(RUN).last_seq == last
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_an_older_journal_is_migrated_with_everything_in_it(path: Path) -> None:
    """The next version's migration is applied once, and the data stays."""
    last = written(path)
    later = (
        *sqlite_schema.MIGRATIONS,
        ("ALTER TABLE runs ADD COLUMN note TEXT", "UPDATE runs SET note = run"),
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        sqlite_schema.migrate(db, path, later)
        sqlite_schema.migrate(db, path, later)
        assert sqlite_schema.check_version(db, path, later) == len(later)
        assert db.execute("SELECT note, last_seq FROM runs").fetchall() == [(RUN, last)]
    check_refused_and_kept(path, "newer Holdfast", "upgrade")


def test_a_failed_migration_changes_nothing(path: Path) -> None:
    """All statements of all pending migrations, or none."""
    last = written(path)
    later = (*sqlite_schema.MIGRATIONS, ("CREATE TABLE extra (x)",), ("NONSENSE",))
    with closing(sqlite3.connect(path, isolation_level=None)) as db, pytest.raises(sqlite3.Error):
        sqlite_schema.migrate(db, path, later)
    journal = SqliteJournal.open(path)
    assert journal.load(RUN).last_seq == last
    journal.close()


def test_a_failed_append_leaves_nothing_and_the_journal_usable(path: Path) -> None:
    """When the file may not grow, the batch is refused whole; when it may again, the same batch goes in."""
    journal = SqliteJournal.open(path)
    epoch, big = begin(journal), [ev.StageOpened(stage="s" * 9000) for _ in range(30)]
    journal._db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(JournalError, match="disk is full") as caught:
        journal.append(RUN, epoch, big, run_row(tip="big"), [], 2.0)
    assert "holdfast resume" in caught.value.hint
    assert (journal.load(RUN).last_seq, journal.load(RUN).row) == (1, run_row())
    journal._db.execute("PRAGMA max_page_count = 100000")
    assert journal.append(RUN, epoch, big, run_row(), [], 2.0) == 31
    journal.close()


def test_a_look_beside_a_live_writer_sees_every_append_at_once(path: Path) -> None:
    """A view is never behind what was acknowledged, and leaves no trace."""
    journal = SqliteJournal.open(path)
    begin(journal)
    reader = SqliteJournal.open_read_only(path)
    for last in write_for_ever(journal, batches=300):
        assert reader.load(RUN).last_seq == last
    check_unchanged_by_looking(path, reader.load(RUN).last_seq)
    journal.close()


def test_a_reader_carries_on_while_writers_come_and_go(path: Path) -> None:
    """The same view works on a resting journal, under a writer, and after it."""
    reader_last = written(path)
    reader = SqliteJournal.open_read_only(path)
    for _ in range(5):
        assert reader.load(RUN).last_seq == reader_last
        journal = SqliteJournal.open(path)
        reader_last = list(write_for_ever(journal, batches=5))[-1]
        assert reader.load(RUN).last_seq == reader_last
        journal.close()


def test_a_look_at_a_resting_journal_leaves_no_file_behind(path: Path) -> None:
    """With no writer there is the one file, before and after."""
    last = written(path)
    check_unchanged_by_looking(path, last)
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_what_a_killed_writer_left_is_readable_and_left_alone(path: Path) -> None:
    """The log of a dead writer is read where it lies."""
    check_unchanged_by_looking(path, leave_a_log_behind(path))


HOLD = """
import fcntl, os, struct, sys, time
shared = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(shared, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 128, 1, 0))
print("held", flush=True)
time.sleep(600)
"""
"""A program that holds the shared index as a writer does that has just made it and not filled it yet."""


def test_a_look_waits_for_a_writer_that_is_just_starting(path: Path) -> None:
    """SQLite refuses to read beside a shared index that is still empty. A moment later all is well."""
    leave_a_log_behind(path)
    shared = path.with_name("journal.db-shm")
    os.truncate(shared, 0)
    refused = []
    with subprocess.Popen([sys.executable, "-c", HOLD, str(shared)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()

        def count_runs(db: sqlite3.Connection) -> int:
            try:
                return int(db.execute("SELECT count(*) FROM runs").fetchone()[0])
            except sqlite3.OperationalError as error:
                refused.append(error.sqlite_errorname)
                writer.kill()
                writer.wait()
                raise

        assert consistent_read(path, count_runs) == 1
    assert refused == ["SQLITE_READONLY_RECOVERY"]


def test_a_view_in_the_writers_process_does_not_loosen_its_locks(path: Path) -> None:
    """Were they lost, another process that closes the journal would remove the log under the writer."""
    journal = SqliteJournal.open(path)
    epoch = begin(journal)
    SqliteJournal.open_read_only(path).load(RUN)
    code = "import sys, pathlib, holdfast.journal.sqlite as s; s.SqliteJournal.open(pathlib.Path(sys.argv[1])).close()"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert path.with_name("journal.db-wal").exists()
    journal.append(RUN, epoch, [ev.RunPaused()], run_row(), [], 2.0)
    assert SqliteJournal.open_read_only(path).load(RUN).last_seq == 2
    journal.close()


def test_a_stopped_reader_does_not_hold_up_the_writer(path: Path) -> None:
    """A view that hangs in the middle of its events holds no lock and no snapshot."""
    written(path)
    journal = SqliteJournal.open(path)
    reading = SqliteJournal.open_read_only(path).events(RUN)
    next(reading)
    list(write_for_ever(journal, batches=5))
    journal.close()
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


@pytest.mark.parametrize("scene", [scene.__name__ for scene in SCENES])
def test_on_a_small_disk(scene: str, tmp_path: Path) -> None:
    """Each scene of `full_disk.py`, on a real file system of one megabyte."""
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1"'
    if subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not allow mounting in a user namespace")
    script = f'{mount} && exec "$2" -m tests.journal.full_disk "$3" "$1"'
    argv = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, scene]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/home/me/repo", "nfs4"), ("/mnt/share/x", "cifs"), ("/mnt/ssh", "fuse.sshfs"), ("/mnt/c/repo", "9p"),
        ("/home/me/local disk/repo", ""), ("/homestead", ""), ("/data/repo", ""), ("/srv", ""),
    ],
)  # fmt: skip
def test_network_file_systems_are_told_from_local_ones(where: str, kind: str) -> None:
    """The deepest mount decides, names may hold spaces, and of two mounts on one spot the later counts."""
    assert network_filesystem(Path(where), MOUNTS) == kind


_CONFIRMS = "import sys; from holdfast.journal.sqlite import SqliteJournal; SqliteJournal.open(sys.argv[1]).confirm_plan('late', 0.0)"
_REPLACES = "import sys, pathlib; from holdfast.journal.maintenance import put_in_place; put_in_place(pathlib.Path(sys.argv[1]))"


@contextmanager
def meanwhile(program: str, path: Path) -> Iterator[None]:
    """Run a program that works on the journal while its folder is locked, up to where it waits; then let it end."""
    with folder_locked(path.parent):
        late = subprocess.Popen([sys.executable, "-c", program, str(path)])
        eventually(
            lambda: f"FLOCK  ADVISORY  WRITE {late.pid} " in waiting_locks() or late.poll() == 0, "it waits"
        )
        yield
    assert late.wait() == 0


def test_a_journal_that_appears_while_another_is_made_is_not_replaced(path: Path, tmp_path: Path) -> None:
    """Two processes that create it at once get the same one, and nobody's first words are lost."""
    written(tmp_path / "ready" / "journal.db")
    path.parent.mkdir()
    with meanwhile(_CONFIRMS, path):
        (tmp_path / "ready" / "journal.db").rename(path)
    journal = SqliteJournal.open_read_only(path)
    assert (journal.load(RUN).row.run, journal.is_confirmed("late")) == (RUN, True)


def test_who_opens_a_journal_while_it_is_replaced_writes_to_the_new_one(path: Path, tmp_path: Path) -> None:
    """Otherwise its words would go to the file that was put aside."""
    SqliteJournal.open(path).close()
    written(tmp_path / "ready" / "journal.db")
    with meanwhile(_CONFIRMS, path):
        path.rename(tmp_path / "aside.db")
        (tmp_path / "ready" / "journal.db").rename(path)
    journal = SqliteJournal.open_read_only(path)
    assert (journal.load(RUN).row.run, journal.is_confirmed("late")) == (RUN, True)


def test_a_journal_is_replaced_only_between_two_that_open_it(path: Path) -> None:
    """Who is at it has not looked yet which file it was."""
    written(path)
    with closing(open_draft(path)) as draft:
        draft.confirm_plan("new", 0.0)
    with meanwhile(_REPLACES, path):
        assert not SqliteJournal.open_read_only(path).is_confirmed("new")
    assert SqliteJournal.open_read_only(path).is_confirmed("new")


def waiting_locks() -> str:
    """Return the lines of those that wait for a lock."""
    lines = Path("/proc/locks").read_text().splitlines()
    return "\n".join(line for line in lines if "->" in line)


def test_a_journal_that_is_taken_away_promises_nothing_more(tmp_path: Path) -> None:
    """Writing to a deleted file would succeed and be lost: the writer is told instead, and pointed at rebuild."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal.open(path)
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(JournalError, match="deleted or replaced") as caught:
        journal.confirm_plan("hash", 0.0)
    journal.close()
    assert "rebuild" in caught.value.hint


def test_a_checkpoint_takes_less_than_a_kilobyte(tmp_path: Path) -> None:
    """Every event of a run with checks, a failure and a retry, feedback aside, stays below 1 KB."""
    script = "if [ -f A.txt ]; then echo good > A.txt; else echo bad > A.txt; fi"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script), *(sh(f"T{n}", f"echo {n} > {n}.txt") for n in range(8))),
        verify=["test ! -f A.txt || grep -q good A.txt"],
    )
    assert trial.execute() is RunStatus.COMPLETED
    reader = SqliteJournal.open_read_only(trial.project.open().state_dir.journal)
    sizes = [len(encode_event(record.event)) for record in reader.events(trial.run)]
    assert max(sizes) < 1024


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "journal.close()", "journal.close(); again = write(); again.close()"]
)
def test_what_was_written_survives_a_power_cut(tmp_path: Path, end: str) -> None:
    """The names of journal, log and folders are on disk, not only their content; also when the log was removed again."""
    (tmp_path / "checkout").mkdir()
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from holdfast.journal.maintenance import open_draft
from holdfast.journal.sqlite import SqliteJournal
from holdfast.journal.sqlite_read import consistent_read
from tests.contract.journals import begin, write_for_ever
path = Path.cwd() / ".holdfast" / "journal.db"
def write():
    journal = SqliteJournal.open(path)
    if not list(journal.runs()):
        begin(journal)
    Path("last").write_text(str(list(write_for_ever(journal, batches=3))[-1]))
    return journal
journal = write()
{end}
"""
    left = left_in(tmp_path / "checkout", code)
    last = int((tmp_path / "checkout" / "last").read_text())
    events = SqliteJournal.open_read_only(left / ".holdfast" / "journal.db").events(RUN)
    assert max(event.seq for event in events) == last
