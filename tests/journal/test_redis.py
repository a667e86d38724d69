"""The journal in Redis: faults of the server and of the way to it, and what only this journal has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.projection import TaskRow
from holdfast.errors import JournalError, LeaseHeldError, LeaseLostError, StoreUnavailableError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from holdfast.journal.redis import RedisJournal
from tests.contract.journals import PLAN, RUN, begin, run_row, started
from tests.journal.history import Workload, stored_names, violations
from tests.support.command import eventually
from tests.support.redis_server import RedisServerProcess
from tests.support.servers import address_in, running
from tests.support.tcp_relay import NetworkFault, TcpRelay
from tests.support.tiny_disk import tiny_disk

REPOSITORY = "5" * 40


@pytest.fixture
def server() -> Iterator[RedisServerProcess]:
    """A server of the test's own, to be killed and changed."""
    with running(RedisServerProcess.start) as started:
        yield started


def opened(server: RedisServerProcess, repository: str = REPOSITORY) -> RedisJournal:
    """Open the journal of a repository."""
    return RedisJournal.open(JournalAddress(server.url, repository))


def append(journal: RedisJournal, epoch: int, stage: str = "s") -> int:
    """Append one event."""
    return journal.append(RUN, epoch, [ev.StageOpened(stage=stage)], run_row(), [TaskRow(id="a")], 101.0)


def stages(journal: RedisJournal) -> list[str]:
    """Return the names in the appended events."""
    return [item.event.stage for item in journal.events(RUN) if isinstance(item.event, ev.StageOpened)]


def test_what_was_acknowledged_survives_a_kill_of_the_server(server: RedisServerProcess) -> None:
    """The journal goes on with the server that comes back, without being opened again; the lease is still its own."""
    journal = opened(server)
    begin(journal)
    epoch = journal.take_epoch(RUN, Holder(pid=1, host="here"), hold=True)
    acknowledged = [append(journal, epoch, str(number)) for number in range(50)][-1]
    server.kill()
    for call in (lambda: append(journal, epoch), lambda: journal.load(RUN)):
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            call()
    server.launch()
    assert journal.load(RUN).last_seq == acknowledged
    assert stages(journal) == [str(number) for number in range(50)]
    journal.renew(RUN, epoch)
    assert append(journal, epoch) == acknowledged + 1
    journal.close()


def test_an_append_whose_answer_was_lost_is_stored_once(server: RedisServerProcess) -> None:
    """The caller repeats it, and gets the number that it has."""
    relay, url = TcpRelay.before(server.url)
    journal = RedisJournal.open(JournalAddress(url, REPOSITORY))
    epoch = begin(journal)
    with closing(opened(server)) as other, closing(relay):
        append(journal, epoch, "first")  # after it, an append is a single call
        relay.set(NetworkFault.NO_ANSWER)
        with pytest.raises(StoreUnavailableError):
            append(journal, epoch, "once")
        assert stages(other) == ["first", "once"]
        relay.set(NetworkFault.NONE)
        assert append(journal, epoch, "once") == 3
        assert append(journal, epoch, "then") == 4
        assert stages(other) == ["first", "once", "then"]
    journal.close()


@pytest.mark.parametrize("fault", [NetworkFault.CUT, NetworkFault.RESET])
def test_a_lost_connection_is_made_again_by_the_next_call(
    server: RedisServerProcess, fault: NetworkFault
) -> None:
    """The error says that the same call may be repeated."""
    relay, url = TcpRelay.before(server.url)
    journal = RedisJournal.open(JournalAddress(url, REPOSITORY))
    epoch = begin(journal)
    relay.set(fault)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            append(journal, epoch)
    relay.set(NetworkFault.NONE)
    assert append(journal, epoch) == 2
    journal.close()
    relay.close()


def test_a_connection_that_the_server_ended_meanwhile_is_no_outage(server: RedisServerProcess) -> None:
    """As hosted servers do with idle ones: nothing was under way, so the next call simply makes another one."""
    with closing(opened(server)) as journal:
        epoch = begin(journal)
        append(journal, epoch, "before")
        with server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        assert append(journal, epoch, "after") == 3
        assert stages(journal) == ["before", "after"]


def test_events_that_somebody_removed_are_missed_by_the_next_append(server: RedisServerProcess) -> None:
    """As a server may that evicts keys. What it still says about the run is right, so only the events themselves tell."""
    with closing(opened(server)) as journal, server.client() as client:
        epoch = begin(journal)
        append(journal, epoch)
        client.delete(f"holdfast:{{{REPOSITORY}}}:events:{RUN}")
        with pytest.raises(JournalError, match="lost events"):
            append(journal, epoch)
        assert client.exists(f"holdfast:{{{REPOSITORY}}}:events:{RUN}") == 0


def test_a_server_that_is_stopped_blocks_nobody_for_ever(server: RedisServerProcess) -> None:
    """What it does after it was continued happened once."""
    journal = opened(server)
    epoch = begin(journal)
    server.pause()
    with pytest.raises(StoreUnavailableError, match="Timeout"):
        append(journal, epoch, "late")
    server.go_on()
    assert append(journal, epoch, "late") == 2
    assert stages(journal) == ["late"]
    journal.close()


def test_an_empty_server_is_never_taken_for_one_where_nothing_happened(server: RedisServerProcess) -> None:
    """Who wrote to it before is told that it lost events, and how to go on."""
    journal = opened(server)
    epoch = begin(journal)
    append(journal, epoch)
    server.kill()
    server.forget()
    server.launch()
    assert journal.runs() == []
    for call in (lambda: append(journal, epoch), lambda: journal.renew(RUN, epoch)):
        with pytest.raises(JournalError, match="lost events") as caught:
            call()
        assert f"holdfast resume {RUN}" in caught.value.hint
    with pytest.raises(JournalError, match="no run"):
        journal.load(RUN)
    journal.close()


def test_a_server_that_went_back_is_noticed_by_the_next_append(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """As after a failover that lost the last second. Nothing is written on top of the older state."""
    journal = opened(server)
    epoch = begin(journal)
    append(journal, epoch, "kept")
    server.kill()
    shutil.copytree(server.folder, tmp_path / "older")
    server.launch()
    assert stages(journal) == ["kept"]
    append(journal, epoch, "lost")
    server.kill()
    server.forget()
    shutil.copytree(tmp_path / "older", server.folder, dirs_exist_ok=True)
    server.launch()
    assert stages(journal) == ["kept"]
    with pytest.raises(JournalError, match="lost events"):
        append(journal, epoch, "next")
    assert stages(journal) == ["kept"]
    journal.close()


def test_two_runners_with_the_same_epoch_are_told_apart(server: RedisServerProcess, tmp_path: Path) -> None:
    """As after a failover that lost the taking of an epoch: the same number is given again, but not the same fence."""
    late, heir = opened(server), opened(server)
    begin(late)
    server.kill()
    shutil.copytree(server.folder, tmp_path / "older")
    server.launch()
    assert late.load(RUN).last_seq == 1
    epoch = late.take_epoch(RUN)
    server.kill()
    server.forget()
    shutil.copytree(tmp_path / "older", server.folder, dirs_exist_ok=True)
    server.launch()
    assert heir.load(RUN).last_seq == late.load(RUN).last_seq
    assert heir.take_epoch(RUN) == epoch
    for call in (
        lambda: append(late, epoch),
        lambda: late.renew(RUN, epoch),
        lambda: late.remove_run(RUN, epoch),
    ):
        with pytest.raises(LeaseLostError):
            call()
    assert append(heir, epoch) == 2
    late.close()
    heir.close()


@pytest.mark.parametrize(
    ("setting", "value", "back"),
    [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")],
)
def test_a_server_that_takes_no_writes_now_is_unavailable(
    server: RedisServerProcess, setting: str, value: str, back: str
) -> None:
    """Out of memory, or short of replicas: no part of a write is left behind, and the same call works later."""
    journal = opened(server)
    epoch = begin(journal)
    server.set(setting, value)
    with pytest.raises(StoreUnavailableError, match="takes nothing now"):
        append(journal, epoch)
    stored = journal.load(RUN)
    assert (stored.last_seq, stored.tasks) == (1, [])
    server.set(setting, back)
    assert append(journal, epoch) == 2
    journal.close()


def test_a_server_whose_disk_is_full_is_unavailable_until_there_is_room(tmp_path: Path) -> None:
    """What it acknowledged before is there, and the same call works when there is room again."""
    with tiny_disk(tmp_path / "disk", megabytes=16) as disk:
        server = RedisServerProcess.start(folder=disk.root, appendfsync="everysec")
        try:
            journal = opened(server)
            epoch = begin(journal)
            disk.fill()
            acknowledged = _fill(journal, epoch)
            with pytest.raises(StoreUnavailableError, match="takes nothing now"):
                append(journal, epoch, "again")
            disk.free()
            eventually(lambda: _takes(journal, epoch), "the server writes again")
            assert stages(journal) == [*(str(number) for number in range(acknowledged)), "again"]
            journal.close()
        finally:
            server.stop()


def test_a_server_that_ends_for_want_of_room_has_what_it_acknowledged(tmp_path: Path) -> None:
    """Redis gives up where it may not acknowledge without a sync. Nothing is lost by that."""
    with tiny_disk(tmp_path / "disk", megabytes=16) as disk:
        server = RedisServerProcess.start(folder=disk.root)
        try:
            journal = opened(server)
            epoch = begin(journal)
            disk.fill()
            acknowledged = _fill(journal, epoch)
            server.wait()
            disk.free()
            server.launch()
            found = stages(journal)
            assert found in ([str(n) for n in range(acknowledged)], [str(n) for n in range(acknowledged + 1)])
            journal.close()
        finally:
            server.stop()


def _fill(journal: RedisJournal, epoch: int) -> int:
    """Append until the store takes no more; return how many events it acknowledged."""
    for number in count():
        try:
            append(journal, epoch, str(number))
        except StoreUnavailableError:
            return number
    raise AssertionError


def _takes(journal: RedisJournal, epoch: int) -> bool:
    with suppress(StoreUnavailableError):
        return append(journal, epoch, "again") > 0
    return False


@pytest.mark.crash
def test_writers_lose_nothing_while_the_server_is_killed_again_and_again(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """A history of three writers that share a run: what was acknowledged is there once, and nobody holds what another has."""
    address = JournalAddress(server.url, REPOSITORY)
    begin(journal := opened(server))
    workload = Workload(address, tmp_path, writers=3)
    try:
        for _ in range(8):
            workload.await_progress(15)
            server.kill()
            server.launch()
        workload.await_progress(15)
    finally:
        workload.end()
    assert violations(workload.history(), stored_names(journal)) == []
    journal.close()


def test_a_server_with_too_many_clients_is_unavailable(server: RedisServerProcess) -> None:
    """One more connection than it takes."""
    server.set("maxclients", "1")
    with server.client() as client:
        client.ping()
        with pytest.raises(StoreUnavailableError, match="max number of clients"):
            opened(server)


def test_a_server_that_forgot_the_scripts_is_sent_them_again(server: RedisServerProcess) -> None:
    """As after a restart."""
    journal = opened(server)
    epoch = begin(journal)
    with server.client() as client:
        client.script_flush()
    assert append(journal, epoch) == 2
    journal.close()


def test_a_forked_process_has_a_connection_of_its_own(server: RedisServerProcess) -> None:
    """Two processes on one connection would get each other's answers."""
    journal = opened(server)
    begin(journal)
    child = os.fork()
    if not child:
        os._exit(0 if journal.load(RUN).last_seq == 1 and journal._connection._pid == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert journal.load(RUN).last_seq == 1
    journal.close()


def test_opening_a_journal_writes_nothing(server: RedisServerProcess) -> None:
    """The record of the version comes with the first run."""
    address = JournalAddress(server.url, REPOSITORY)
    with (
        closing(opened(server)) as journal,
        closing(open_reader(address)) as reader,
        server.client() as client,
    ):
        assert (journal.runs(), reader.runs(), client.dbsize()) == ([], [], 0)
        begin(journal)
        assert client.get(f"holdfast:{{{REPOSITORY}}}:format") == b"1"


def test_no_key_ever_expires(server: RedisServerProcess) -> None:
    """Not of a run that goes on, and not of one that ended. A lease is a time in a record."""
    journal = opened(server)
    epoch = begin(journal)
    journal.confirm_plan("h1", 1.0)
    append(journal, epoch)
    journal.take_epoch(RUN, Holder(pid=1, host="here"), hold=True)
    with server.client() as client:
        ages = {key: client.ttl(key) for key in client.scan_iter()}
    assert len(ages) == 7
    assert set(ages.values()) == {-1}
    journal.close()


def test_repositories_and_prefixes_in_one_server_do_not_see_each_other(server: RedisServerProcess) -> None:
    """Nor do its databases."""
    first = JournalAddress(server.url, REPOSITORY)
    others = [
        JournalAddress(server.url, "6" * 40),
        JournalAddress(f"{server.url}?prefix=other", REPOSITORY),
        JournalAddress(server.url.replace("/0", "/3"), REPOSITORY),
    ]
    with closing(open_journal(first)) as journal:
        begin(journal)
        for number, address in enumerate(others):
            with closing(open_journal(address)) as other:
                assert other.runs() == []
                begin(other, f"0{number}-other")
        assert [listing.row.run for listing in journal.runs()] == [RUN]


@pytest.mark.parametrize(("name", "words"), [("format", ("SET", "x")), ("format", ("RPUSH", "x")), ("runs", ("SET", "x"))])  # fmt: skip
def test_keys_of_others_below_our_prefix_are_left_alone(
    server: RedisServerProcess, name: str, words: tuple[str, str]
) -> None:
    """The way out is another prefix."""
    key = f"holdfast:{{{REPOSITORY}}}:{name}"
    with server.client() as client:
        client.execute_command(words[0], key, words[1])
        before = client.dump(key)
        for opening in (open_journal, open_reader):
            with pytest.raises(JournalError, match="not") as caught:
                opening(JournalAddress(server.url, REPOSITORY))
            assert "prefix" in caught.value.hint
        assert (client.dump(key), client.dbsize()) == (before, 1)


def test_a_journal_of_a_newer_holdfast_is_neither_read_nor_written(server: RedisServerProcess) -> None:
    """Also by who opened it before it became one."""
    journal = opened(server)
    epoch = begin(journal)
    with server.client() as client:
        client.set(f"holdfast:{{{REPOSITORY}}}:format", "2")
    for opening in (open_journal, open_reader):
        with pytest.raises(JournalError, match="newer Holdfast"):
            opening(JournalAddress(server.url, REPOSITORY))
    with pytest.raises(JournalError, match="newer Holdfast"):
        append(journal, epoch)
    journal.close()


def test_who_waits_for_changes_is_woken_by_them(server: RedisServerProcess) -> None:
    """Long before the time is over."""
    journal = opened(server)
    epoch = begin(journal)
    with closing(journal._watch()) as watch:
        append(journal, epoch)
        began = time.monotonic()
        watch.wait(120)
        assert time.monotonic() - began < 60
    journal.close()


def test_who_waits_looks_again_after_a_lost_connection(server: RedisServerProcess) -> None:
    """What happened meanwhile is not missed: the wait ends at once, and the next ones are woken as before."""
    relay, url = TcpRelay.before(server.url)
    with closing(open_reader(JournalAddress(url, REPOSITORY))) as reader, closing(opened(server)) as journal:
        epoch = begin(journal)
        with closing(reader._watch()) as watch:
            relay.set(NetworkFault.CUT)
            began = time.monotonic()
            watch.wait(120)
            relay.set(NetworkFault.NONE)
            watch.wait(120)
            append(journal, epoch)
            watch.wait(120)
            assert time.monotonic() - began < 60
    relay.close()


def test_a_draft_takes_the_place_of_the_journal_and_the_old_one_is_kept(server: RedisServerProcess) -> None:
    """Nothing of the old one is deleted, and whoever wrote to it is fenced off."""
    address = JournalAddress(server.url, REPOSITORY)
    old = opened(server)
    epoch = begin(old)
    append(old, epoch)
    begin(old, "02-gone")
    with closing(RedisJournal.open_draft(address)) as draft:
        begin(draft)
        assert [listing.row.run for listing in old.runs()] == [RUN, "02-gone"]
    assert RedisJournal.put_in_place(address) == "damaged-1"
    assert [(listing.row.run, listing.last_seq) for listing in old.runs()] == [(RUN, 1)]
    assert old.load(RUN).plan == PLAN
    with pytest.raises(LeaseLostError):
        append(old, epoch)
    with server.client() as client:
        kept = f"holdfast:{{{REPOSITORY}}}:damaged-1:"
        assert client.zrange(f"{kept}runs", 0, -1) == [RUN.encode(), b"02-gone"]
        assert client.xlen(f"{kept}events:{RUN}") == 2
    old.close()


def test_putting_a_draft_in_place_can_be_repeated(server: RedisServerProcess) -> None:
    """After a crash nobody knows whether it happened. Without a draft there is nothing to do."""
    address = JournalAddress(server.url, REPOSITORY)
    names = []
    for _ in range(3):
        RedisJournal.open_draft(address).close()
        names += [RedisJournal.put_in_place(address), RedisJournal.put_in_place(address)]
    assert names == [None, None, "damaged-1", None, "damaged-2", None]


def test_what_an_earlier_draft_left_is_dropped(server: RedisServerProcess) -> None:
    """A rebuild that was killed begins anew."""
    address = JournalAddress(server.url, REPOSITORY)
    with closing(RedisJournal.open_draft(address)) as draft:
        begin(draft, "09-half")
    with closing(RedisJournal.open_draft(address)) as draft:
        draft.create_run(PLAN, run_row(), started(), 1.0)
    RedisJournal.put_in_place(address)
    with closing(open_reader(address)) as reader, server.client() as client:
        assert [listing.row.run for listing in reader.runs()] == [RUN]
        assert [key for key in client.scan_iter() if b"09-half" in key] == []


def test_a_draft_overwrites_nothing_that_no_run_accounts_for(server: RedisServerProcess) -> None:
    """Keys of a damaged journal that its list of runs does not name are kept, too."""
    address = JournalAddress(server.url, REPOSITORY)
    base = f"holdfast:{{{REPOSITORY}}}:"
    with closing(opened(server)) as old, server.client() as client:
        begin(old)
        client.delete(f"{base}runs")
        with closing(RedisJournal.open_draft(address)) as draft:
            begin(draft)
        assert RedisJournal.put_in_place(address) == "damaged-1"
        assert client.exists(f"{base}damaged-1:run:{RUN}", f"{base}damaged-1:events:{RUN}") == 2


def test_readers_see_the_old_journal_or_the_new_one(server: RedisServerProcess) -> None:
    """Never something in between, however often one takes the place of the other."""
    begin(journal := opened(server))
    swap = "for _ in range(30):\n d = J.open_draft(a); begin(d); d.close(); J.put_in_place(a)"
    code = f"from tests.contract.journals import begin\nfrom holdfast.journal.redis import RedisJournal as J\nfrom holdfast.journal.address import JournalAddress as A\na = A({server.url!r}, {REPOSITORY!r})\n{swap}"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    while child.poll() is None:
        assert [listing.row.run for listing in journal.runs()] == [RUN]
        assert journal.load(RUN).last_seq == 1
    assert child.returncode == 0
    journal.close()


def test_an_amended_plan_of_thousands_of_tasks_is_one_append(tmp_path: Path) -> None:
    """Lua hands a bounded number of values on at once."""
    from holdfast.core.plan import Plan, Stage, Task

    journal = open_journal(address_in(tmp_path, "redis"))
    epoch = begin(journal)
    plan = Plan(goal="g", stages=(Stage(id="s", tasks=tuple(Task(id=f"n{n}") for n in range(5000))),))
    rows = [TaskRow(id=f"n{n}", attempt=n) for n in range(5000)]
    event = ev.PlanAmended(plan=plan, plan_hash="h2")
    journal.append(RUN, epoch, [event], run_row(plan_hash="h2", first_plan="h1"), rows, 102.0)
    assert [task.attempt for task in journal.load(RUN).tasks] == list(range(5000))
    journal.close()


def test_a_journal_in_redis_needs_no_library(server: RedisServerProcess) -> None:
    """Loading one would take longer than what most commands do with the journal."""
    begin(journal := opened(server))
    code = (
        "import sys\n"
        "from holdfast.journal import open_reader\nfrom holdfast.journal.address import JournalAddress\n"
        f"print(open_reader(JournalAddress({server.url!r}, {REPOSITORY!r})).runs()[0].row.run)\n"
        "print(sorted({'redis', 'hiredis', 'ssl'} & sys.modules.keys()))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"{RUN}\n[]\n"
    journal.close()


def test_the_lease_of_a_holder_that_is_gone_is_not_told(server: RedisServerProcess) -> None:
    """A view asks the server, whose clock decides."""
    journal = opened(server)
    begin(journal)
    journal.lease_s = 0.05
    journal.take_epoch(RUN, Holder(pid=1, host="here"), hold=True)
    with closing(open_reader(JournalAddress(server.url, REPOSITORY))) as reader:
        eventually(lambda: reader.holder(RUN) is None, "the lease ended")
    journal.close()


def test_a_lease_that_nobody_signed_is_held_all_the_same(server: RedisServerProcess) -> None:
    """Who took the run without a name, and renewed it, is said to be somebody: it is no damage to the journal."""
    first, second = opened(server), opened(server)
    begin(first)
    first.renew(RUN, first.take_epoch(RUN))
    with pytest.raises(LeaseHeldError, match="just starting"):
        second.take_epoch(RUN)
    first.close()
    second.close()
