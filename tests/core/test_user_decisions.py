"""Going back to a stage or a task: what it takes in, and what is left of the plan."""

from __future__ import annotations

import pytest

from holdfast.core import events as ev
from holdfast.core.brief import BriefFacts, build_brief
from holdfast.core.plan import Plan, Stage
from holdfast.core.status import StageStatus, TaskStatus
from holdfast.core.user_decisions import (
    RewindScope,
    first_redone,
    remaining_plan,
    rewind_events,
    rewind_scope,
)
from tests.core.builders import begin, plan, settle, start, task, walk

THREE = plan((task("a"), task("b", "a"), task("c")), (task("d"),), (task("e"),))


@pytest.mark.parametrize(
    ("name", "stages", "tasks"),
    [
        ("s1", ("s1", "s2", "s3"), "abcde"),
        ("s3", ("s3",), "e"),
        ("a", ("s2", "s3"), "abde"),
        ("c", ("s2", "s3"), "cde"),
        ("e", (), "e"),
    ],
)
def test_a_new_beginning_takes_in_all_that_builds_on_it(
    name: str, stages: tuple[str, ...], tasks: str
) -> None:
    """Later stages follow their stage; tasks follow the tasks they need; the rest stays."""
    assert rewind_scope(THREE, name) == RewindScope(stages, tuple(tasks))


def test_a_name_that_the_plan_does_not_have_has_no_scope() -> None:
    """The caller says so to the user."""
    assert rewind_scope(THREE, "z") is None


def test_a_rewound_task_starts_clean_with_a_new_number() -> None:
    """Carry, head and failures are forgotten; attempt numbers are never given out twice."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "verified")
    for event in rewind_events(state, RewindScope(("s1",), ("a",))):
        state.apply(event)
    row = state.tasks["a"]
    assert (row.status, row.attempt, row.latest.head, row.carry, row.base) == (
        TaskStatus.PENDING,
        1,
        "",
        "",
        "",
    )
    assert state.stage("s1").status is StageStatus.PENDING
    assert state.next_to_land(9) == []
    assert settle(state) == []
    state.apply(ev.StageOpened(stage="s1"))
    assert settle(state) == ["a"]


def test_rewinding_what_was_never_touched_records_nothing() -> None:
    """Nothing is written about tasks that have not begun."""
    assert rewind_events(begin(THREE), RewindScope(("s2", "s3"), ("d", "e"))) == []


def test_a_rewound_stage_holds_back_what_builds_on_it() -> None:
    """A closed stage that begins again is not done."""
    state = begin(plan((task("a"),), (task("b"),)))
    state.apply(ev.TaskSkipped(task="a"))
    for event in (ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    for rewound in rewind_events(state, RewindScope(("s1", "s2"), ("a", "b"))):
        state.apply(rewound)
    assert list(state.current_stages) == ["s1"]


def test_the_first_landing_to_be_redone_is_found() -> None:
    """Whatever landed before it stays."""
    places = {"a": 0, "b": 1, "c": 2}
    assert first_redone(places, RewindScope((), ("c", "b"))) == 1
    assert first_redone(places, RewindScope((), ("z",))) is None


def test_a_cut_plan_has_only_what_is_left() -> None:
    """Done tasks go, and every need of them; a stage without tasks goes, and what needed it needs what it needed."""
    rest = remaining_plan(THREE, {"a", "c", "d"}, {"s2"})
    assert [stage.id for stage in rest.stages] == ["s1", "s3"]
    assert [t.id for _, t in rest.tasks()] == ["b", "e"]
    assert rest.stages[0].tasks[0].needs == ()
    assert rest.stages[1].needs == ("s1",)


def test_a_stage_whose_exit_checks_never_held_is_kept_without_tasks() -> None:
    """Its tasks are done, but nobody said that it is."""
    one = Stage(id="s1", entry=("e",), exit=("x",), tasks=(task("a"),))
    two = Stage(id="s2", needs=("s1",), tasks=(task("b"),))
    rest = remaining_plan(Plan(goal="g", stages=(one, two)), {"a"}, set())
    assert [(stage.id, stage.entry, stage.exit) for stage in rest.stages] == [
        ("s1", (), ("x",)),
        ("s2", (), ()),
    ]
    assert [
        stage.id for stage in remaining_plan(Plan(goal="g", stages=(one, two)), {"a"}, {"s1"}).stages
    ] == ["s2"]


def test_the_brief_of_a_rewound_task_promises_no_earlier_work() -> None:
    """A clean start is told as one."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "verified")
    state.apply(ev.TaskRewound(task="a"))
    state.apply(start("a", 2))
    said = build_brief(state, state.tasks["a"], BriefFacts())
    assert "nothing of earlier attempts" in said
