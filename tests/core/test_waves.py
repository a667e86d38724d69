"""The batches that a plan's needs impose."""

from __future__ import annotations

from holdfast.core.waves import waves
from tests.core.build import plan, task


def test_a_batch_holds_what_may_run_side_by_side() -> None:
    """Each task comes as early as its needs allow."""
    (only,) = waves(plan((task("a"), task("b", "a"), task("c"), task("d", "b", "c"))))
    assert [[item.id for item in batch] for batch in only.batches] == [["a", "c"], ["b"], ["d"]]


def test_a_need_from_an_earlier_stage_delays_nothing_within_its_own() -> None:
    """The stage before has landed by then."""
    first, second = waves(plan((task("a"),), (task("b", "a"), task("c"))))
    assert [len(stage.batches) for stage in (first, second)] == [1, 1]


def test_every_task_is_in_exactly_one_batch() -> None:
    """A long chain is no matter of recursion."""
    chain = tuple(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(3000))
    (only,) = waves(plan(chain))
    assert [batch[0].id for batch in only.batches] == [item.id for item in chain]
