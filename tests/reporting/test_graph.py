"""The plan as a picture: nothing overlaps, edges lead one way, and the longest path is the one by time."""

from __future__ import annotations

import time
from itertools import combinations

from hypothesis import given, settings, strategies as st

from holdfast.core import events as ev
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.state import RunState, replay
from holdfast.reporting.graph import Graph, GraphNode, plan_graph
from tests.core.builders import ATTACHED, STARTED, begin, plan, start, task, walk

MANY = 1_000
CPU_MAX_S = 0.05


def _graph(of: Plan) -> Graph:
    return plan_graph(replay(of, [STARTED, ATTACHED]))


def _nodes(graph: Graph) -> dict[str, GraphNode]:
    return {node.task: node for node in graph.nodes}


def _works(state: RunState, name: str, seconds: float) -> None:
    """Take a task to its landing, with an agent that worked so long."""
    state.apply(start(name, 1))
    done = ev.AttemptDone(
        task=name, attempt=1, token=f"{name}-token1", head="head", tree="tree", duration_s=seconds
    )
    state.apply(done)
    state.apply(ev.TaskVerified(task=name, attempt=1))
    state.apply(ev.LandingStarted(task=name, attempt=1))
    state.apply(ev.TaskLanded(task=name, attempt=1, commit=f"{name}-merge", head="head"))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan whose stages and tasks need some of those before them."""
    stages: list[Stage] = []
    known: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        tasks = []
        for index in range(draw(st.integers(0, 16))):
            needs = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
            tasks.append(task(f"t{number}-{index}", *needs))
            known.append(tasks[-1].id)
        below = [stage.id for stage in stages]
        needed = draw(st.lists(st.sampled_from(below), max_size=2, unique=True)) if below else []
        stages.append(Stage(id=f"s{number}", needs=tuple(needed), tasks=tuple(tasks)))
    return Plan(goal="goal", stages=tuple(stages))


@settings(max_examples=40, deadline=None)
@given(plans())
def test_no_two_cards_overlap_and_each_is_inside_its_stage(of: Plan) -> None:
    """A card that hides another hides a failure."""
    graph = _graph(of)
    for one, other in combinations(graph.nodes, 2):
        beside = abs(one.x - other.x) >= one.width
        assert beside or abs(one.y - other.y) >= one.height
    home = {task.id: stage.id for stage, task in of.tasks()}
    stages = {stage.id: stage for stage in graph.stages}
    for node in graph.nodes:
        stage = stages[home[node.task]]
        assert stage.x < node.x
        assert node.x + node.width < stage.x + stage.width <= graph.width
        assert stage.y < node.y
        assert node.y + node.height < stage.y + stage.height <= graph.height


@settings(max_examples=40, deadline=None)
@given(plans())
def test_every_edge_leads_to_the_right_or_down(of: Plan) -> None:
    """Who reads from left to right reads what comes first first."""
    graph = _graph(of)
    nodes, stages = _nodes(graph), {stage.id: stage for stage in graph.stages}
    for edge in graph.edges:
        if edge.kind == "stage":
            assert stages[edge.source].x + stages[edge.source].width <= stages[edge.target].x
        else:
            source, target = nodes[edge.source], nodes[edge.target]
            down = source.x == target.x and source.y < target.y
            assert source.x + source.width <= target.x or down


@settings(max_examples=40, deadline=None)
@given(plans())
def test_the_edges_are_the_needs_of_the_plan_and_each_barrier_is_told(of: Plan) -> None:
    """No need is left out or told twice, and a stage that waits for another shows it somehow."""
    graph = _graph(of)
    needs = [(edge.source, edge.target) for edge in graph.edges if edge.kind == "needs"]
    assert sorted(needs) == sorted((need, task.id) for _, task in of.tasks() for need in task.needs)
    home = {task.id: stage.id for stage, task in of.tasks()}
    told = {(home[source], home[target]) for source, target in needs}
    told |= {(edge.source, edge.target) for edge in graph.edges if edge.kind == "stage"}
    assert told >= {(need, stage.id) for stage in of.stages for need in stage.needs}


@settings(max_examples=40, deadline=None)
@given(plans())
def test_the_longest_path_is_a_chain_that_the_edges_show(of: Plan) -> None:
    """Between two tasks of it there is an edge, of the tasks or of their stages; stages without tasks may lie between."""
    graph = _graph(of)
    home = {task.id: stage.id for stage, task in of.tasks()}
    order = [stage.id for stage in of.stages]
    edges = {(edge.source, edge.target) for edge in graph.edges if edge.critical and edge.kind == "needs"}
    assert bool(graph.critical) == bool(graph.nodes)
    for first, then in zip(graph.critical, graph.critical[1:], strict=False):
        assert (first, then) in edges or order.index(home[first]) < order.index(home[then])


def test_a_stage_is_right_of_what_it_needs_and_below_what_it_does_not() -> None:
    """Stages that may be worked on at once stand above each other."""
    stages = (
        Stage(id="base", tasks=(task("a"),)),
        Stage(id="left", needs=("base",), tasks=(task("b"),)),
        Stage(id="right", needs=("base",), tasks=(task("c"),)),
        Stage(id="end", needs=("left", "right"), tasks=(task("d"),)),
    )
    base, left, right, end = _graph(Plan(goal="goal", stages=stages)).stages
    assert base.x + base.width < left.x == right.x < end.x
    assert left.y + left.height < right.y


def test_a_barrier_gets_an_edge_only_where_no_task_tells_it() -> None:
    """An edge between stages that repeats one between their tasks is a line too many."""
    told = _graph(plan((task("a"),), (task("b", "a"),)))
    untold = _graph(plan((task("a"),), (task("b"),)))
    assert [(edge.kind, edge.source, edge.target) for edge in told.edges] == [("needs", "a", "b")]
    assert [(edge.kind, edge.source, edge.target) for edge in untold.edges] == [("stage", "s1", "s2")]
    assert untold.edges[0].critical


def test_tasks_are_ordered_so_that_their_edges_do_not_cross() -> None:
    """The plan lists them the other way round."""
    above = tuple(task(f"a{n}") for n in range(6))
    below = tuple(task(f"b{n}", f"a{5 - n}") for n in range(6))
    nodes = _nodes(_graph(plan((*above, *below))))
    heights = sorted((nodes[f"a{n}"].y, nodes[f"b{5 - n}"].y) for n in range(6))
    assert heights == sorted(heights, key=lambda pair: pair[1])


def test_a_tall_stage_wraps_into_columns_and_a_deep_one_goes_down() -> None:
    """A hundred tasks side by side, or one after the other, still fit on a screen or two."""
    wide = _graph(plan(tuple(task(f"t{n}") for n in range(96))))
    deep = _graph(plan(tuple(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(96))))
    assert (wide.width, wide.height) == (deep.width, deep.height)
    assert len({node.x for node in wide.nodes}) == 8


def test_the_longest_path_goes_by_measured_time() -> None:
    """Two ways lead to the end: the one with fewer tasks takes longer."""
    tasks = (task("a"), task("slow", "a"), task("b", "a"), task("c", "b"), task("end", "slow", "c"))
    state = begin(plan(tasks))
    for name, seconds in (("a", 1.0), ("slow", 90.0), ("b", 2.0), ("c", 3.0)):
        _works(state, name, seconds)
    graph = plan_graph(state)
    assert graph.critical == ("a", "slow", "end")
    assert [(e.source, e.target) for e in graph.edges if e.critical] == [("a", "slow"), ("slow", "end")]


def test_nothing_moves_while_a_run_goes_on() -> None:
    """Only the longest path may become another one."""
    state = begin(plan((task("a"), task("b", "a"), task("c"))))
    before = plan_graph(state)
    for name in ("a", "b", "c"):
        walk(state, name, "completed")
    assert (plan_graph(state).nodes, plan_graph(state).stages) == (before.nodes, before.stages)


def test_a_task_that_is_added_at_the_end_moves_no_other() -> None:
    """A plan that is amended stays where people look for it."""
    tasks: tuple[Task, ...] = (task("a"), task("b", "a"), task("c"))
    before, after = _nodes(_graph(plan(tasks))), _nodes(_graph(plan((*tasks, task("d")))))
    assert {name: after[name] for name in before} == before


def test_an_interface_that_a_task_waits_for_is_an_edge() -> None:
    """It may start before the other lands, and still needs it."""
    waits = Task(id="b", prompt="do it", needs_interface=("a",))
    graph = _graph(plan((task("a"), waits)))
    assert [(edge.source, edge.target, edge.kind) for edge in graph.edges] == [("a", "b", "needs")]


def test_a_thousand_tasks_are_placed_in_a_moment() -> None:
    """The page asks for it when it is opened."""
    tasks = tuple(
        task(f"t{n}", *{f"t{max(0, n - 37)}", f"t{max(0, n - 120)}"} if n > 120 else ()) for n in range(MANY)
    )
    state = replay(plan(tasks[:400], tasks[400:700], tasks[700:]), [STARTED, ATTACHED])
    spent = []
    for _ in range(3):
        begun = time.process_time()
        assert len(plan_graph(state).nodes) == MANY
        spent.append(time.process_time() - begun)
    assert min(spent) < CPU_MAX_S
