"""Writers that share a run under faults do nothing that a journal must never do; and the checker would notice it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.journal import open_journal
from holdfast.journal.address import JournalAddress
from holdfast.journal.postgres import PostgresJournal
from holdfast.journal.postgres_functions import FUNCTIONS_1
from holdfast.journal.protocol import Journal
from holdfast.journal.redis import RedisJournal
from tests.contract.journals import begin
from tests.journal.history import (
    APPEND,
    DONE,
    LEASE_S,
    REFUSED,
    RELEASE,
    TAKE,
    UNKNOWN,
    HistoryWriter,
    JournalCall,
    Workload,
    stored_names,
    violations,
)
from tests.support.command import eventually
from tests.support.servers import PROTOCOLS, address_in

_IS_OWNER = "if not is_owner(epoch, fence) then return {'fenced'} end"


class UnfencedRedisJournal(RedisJournal):
    """A journal with a defect: its append checks neither the epoch nor what the writer knows."""

    def _run(self, script: str, run: str, values: Sequence[str | bytes | int]) -> tuple[bytes, list[object]]:
        if "XADD', EVENTS, string.format" in script:
            assert _IS_OWNER in script
            script = script.replace(_IS_OWNER, "").replace("stored[1] ~= expected", "false")
            script = script.replace("tonumber(expected)", "tonumber(stored[1])")
        return super()._run(script, run, values)


def unfenced_postgres_journal(address: JournalAddress) -> Journal:
    """Return a journal with the same defect: the functions in its schema are changed."""
    journal = PostgresJournal.open(JournalAddress(f"{address.url}?schema=unfenced", address.repository))
    journal.confirm_plan("h", 1.0)
    for function in FUNCTIONS_1:
        defective = function.replace("locked.epoch < p_epoch", "false").replace(
            "locked.epoch > p_epoch", "false"
        )
        defective = defective.replace("locked.fence IS DISTINCT FROM p_fence", "false")
        defective = defective.replace("stored.last_seq <> p_last", "false").replace("{s}", "unfenced")
        journal._connection.script(defective.replace("CREATE", "CREATE OR REPLACE", 1))
    return journal


DEFECTIVE: dict[str, Callable[[JournalAddress], Journal]] = {
    "redis": UnfencedRedisJournal,
    "postgresql": unfenced_postgres_journal,
}
"""For each kind of store, a journal that does not check the epoch."""


OUTCOMES = {(TAKE, DONE), (TAKE, REFUSED), (APPEND, DONE), (APPEND, REFUSED), (APPEND, UNKNOWN)}


@pytest.mark.crash
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_writers_under_faults_lose_double_and_overwrite_nothing(kind: str, tmp_path: Path) -> None:
    """Connections are cut, stalled, reset, left half-open and without answers; writers are stopped for longer than a lease."""
    address = address_in(tmp_path, kind)
    with closing(open_journal(address)) as journal:
        begin(journal)
        workload = Workload(address, tmp_path, writers=3)
        try:
            workload.disturb(random.Random(14), 12, OUTCOMES)
        finally:
            workload.end()
        history, stored = workload.history(), stored_names(journal)
    assert violations(history, stored) == []
    assert {(one.kind, one.outcome) for one in history} >= OUTCOMES


def _overtaken(one: Journal, other: Journal) -> list[str]:
    """A writer comes too late; return what the checker says of it."""
    history: list[JournalCall] = []
    late, heir = HistoryWriter("late", one, history.append), HistoryWriter("heir", other, history.append)
    begin(one)
    epoch = late.take()
    assert epoch is not None
    late.append(epoch, "a")
    eventually(lambda: heir.take() is not None, "the lease ended")
    heir.append(heir.last.epoch, "b")
    late.append(epoch, "c")
    return violations(history, stored_names(other))


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_writer_that_comes_too_late_is_no_violation(kind: str, tmp_path: Path) -> None:
    """It is refused."""
    address = address_in(tmp_path, kind)
    with closing(open_journal(address)) as one, closing(open_journal(address)) as other:
        assert _overtaken(one, other) == []


@pytest.mark.parametrize("kind", DEFECTIVE)
def test_a_journal_that_does_not_check_the_epoch_is_caught(kind: str, tmp_path: Path) -> None:
    """The same writers and the same checker, with a defect planted in the store."""
    address = address_in(tmp_path, kind)
    with closing(DEFECTIVE[kind](address)) as one, closing(DEFECTIVE[kind](address)) as other:
        found = _overtaken(one, other)
    assert "an event of epoch 2 comes after one of epoch 3" in found
    assert "late wrote c with epoch 2 after heir had 3" in found


def _operation(kind: str, began: float, **more: object) -> JournalCall:
    given = {"writer": "w", "epoch": 1, "ended": began + 0.01, "outcome": DONE, **more}
    return JournalCall(kind=kind, began=began, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "stored", "words"),
    [
        ([_operation(APPEND, 1, marker="a", number=2)], [], "is there 0 times"),
        ([_operation(APPEND, 1, marker="a", number=2)], ["1.a", "1.a"], "is there 2 times"),
        ([_operation(APPEND, 1, marker="a", number=3)], ["1.a"], "acknowledged as 3 and is 2"),
        ([_operation(APPEND, 1, marker="a", outcome=REFUSED)], ["1.a"], "was refused"),
        ([_operation(APPEND, 2, marker="a", number=2), _operation(APPEND, 1, marker="b", number=3)], ["1.a", "1.b"], "has a later number"),
        ([_operation(TAKE, 1, epoch=5), _operation(TAKE, 2, epoch=5)], [], "got epoch 5 after"),
        ([_operation(TAKE, 1, epoch=5), _operation(TAKE, 2, epoch=4)], [], "got epoch 4 after"),
        ([_operation(TAKE, 1), _operation(TAKE, 1 + LEASE_S / 2, epoch=2, writer="v")], [], "while w held it"),
    ],
)  # fmt: skip
def test_each_kind_of_violation_is_recognised(
    history: list[JournalCall], stored: list[str], words: str
) -> None:
    """The model itself, without a store."""
    assert words in "; ".join(violations(history, stored))


def test_what_may_happen_is_no_violation() -> None:
    """An unanswered append that is there or not, a lease that ended or was given up, calls that overlap."""
    assert violations([_operation(APPEND, 1, marker="a", outcome=UNKNOWN)], ["1.a"]) == []
    assert violations([_operation(APPEND, 1, marker="a", outcome=UNKNOWN)], []) == []
    ended = [_operation(TAKE, 1), _operation(TAKE, 1 + LEASE_S, epoch=2, writer="v")]
    given_up = [
        _operation(TAKE, 1),
        _operation(RELEASE, 1.1),
        _operation(TAKE, 1.2, epoch=2, writer="v"),
    ]
    assert violations(ended, []) == violations(given_up, []) == []
