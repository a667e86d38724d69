"""The pure half of plans: canonical bytes, the hash, cycles, and the rules between the parts."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.plan import (
    AgentSpec,
    Plan,
    Stage,
    Task,
    decode_plan,
    encode_plan,
    find_cycle,
    plan_hash,
)
from holdfast.core.plan_rules import BrokenRule, broken_rules
from tests.core.builders import plan, task

NAMES = ("a", "b", "c", "d", "e")
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES)).map(tuple))


def _plan(*stages: Stage, **more: object) -> Plan:
    return msgspec.convert({"goal": "g", "stages": stages, **more}, Plan)


def _stage(name: str, *tasks: Task, needs: tuple[str, ...] = ()) -> Stage:
    return Stage(id=name, needs=needs, tasks=tasks)


def _task(name: str, *needs: str) -> Task:
    return Task(id=name, run=("true",), needs=needs)


def _broken(plan: Plan, *known: str) -> list[BrokenRule]:
    return list(broken_rules(plan, known))


def test_a_plan_survives_its_own_encoding() -> None:
    """What is stored is what is read back."""
    plan = _plan(_stage("s", _task("a"), _task("b", "a")))
    assert decode_plan(encode_plan(plan)) == plan


def test_equal_plans_have_equal_hashes_whatever_the_order_of_their_agents() -> None:
    """The hash the user confirmed does not depend on how a mapping was ordered."""
    one, two = AgentSpec(command=("x",)), AgentSpec(command=("y",))
    assert plan_hash(Plan(goal="g", agents={"a": one, "b": two})) == plan_hash(
        Plan(goal="g", agents={"b": two, "a": one})
    )


def test_a_changed_command_changes_the_hash() -> None:
    """A confirmation never covers a command that the user has not seen."""
    plan = _plan(_stage("s", _task("a")))
    assert plan_hash(plan) != plan_hash(msgspec.structs.replace(plan, verify=("rm -r x",)))


def _reaches_itself(edges: dict[str, tuple[str, ...]], start: str) -> bool:
    seen: set[str] = set()
    pending = list(edges[start])
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(edges.get(name, ()))
    return start in seen


@settings(deadline=None)
@given(GRAPHS)
def test_a_cycle_is_found_exactly_when_something_reaches_itself(edges: dict[str, tuple[str, ...]]) -> None:
    """No cycle is missed and none is invented."""
    assert bool(find_cycle(edges)) == any(_reaches_itself(edges, name) for name in edges)


@settings(deadline=None)
@given(GRAPHS)
def test_a_found_cycle_is_a_path_of_real_edges_that_closes(edges: dict[str, tuple[str, ...]]) -> None:
    """The path that is shown can be followed in the plan."""
    path = find_cycle(edges)
    assert path[:1] == path[-1:]
    assert all(after in edges[before] for before, after in pairwise(path))


def test_a_very_long_chain_of_needs_is_no_problem() -> None:
    """Depth costs no stack."""
    chain: dict[str, tuple[str, ...]] = {str(n): (str(n + 1),) for n in range(50_000)}
    assert find_cycle(chain) == []
    assert len(find_cycle({**chain, "50000": ("0",)})) == 50_002


def test_a_sound_plan_breaks_no_rule() -> None:
    """Needs within a stage and to an earlier one are fine, and stage and task ids may be equal."""
    plan = _plan(_stage("a", _task("a"), _task("b", "a")), _stage("b", _task("c", "a"), needs=("a",)))
    assert _broken(plan) == []


def test_task_ids_that_differ_only_by_case_clash_across_stages() -> None:
    """Ids become file names and refs, which some systems compare without case."""
    (broken,) = _broken(_plan(_stage("s", _task("L1")), _stage("t", _task("l1"))))
    assert broken.at == ("stages", 1, "tasks", 0, "id")
    assert broken.first == ("stages", 0, "tasks", 0, "id")
    assert 'differs from "L1" only by case' in broken.what


def test_an_id_outside_the_grammar_is_refused_with_the_grammar() -> None:
    """Nothing that is not an id reaches a ref or a path."""
    (broken,) = _broken(_plan(_stage("s", _task("../x"))))
    assert "[A-Za-z0-9][A-Za-z0-9._-]{0,63}" in broken.what


def test_an_unknown_need_offers_the_nearest_task() -> None:
    """A slip of the keyboard is answered with what was meant."""
    (broken,) = _broken(_plan(_stage("s", _task("model"), _task("api", "modle"))))
    assert broken.at == ("stages", 0, "tasks", 1, "needs", 0)
    assert 'did you mean "model"?' in broken.what


def test_a_task_that_needs_a_stage_is_told_so() -> None:
    """Stages and tasks are separate namespaces."""
    (broken,) = _broken(_plan(_stage("s", _task("a")), _stage("t", _task("b", "s"), needs=("s",))))
    assert '"s" is a stage, and a task needs tasks' in broken.what


def test_a_task_cannot_need_a_task_of_a_later_stage() -> None:
    """Such a need could never be met: the later stage waits for this one."""
    (broken,) = _broken(_plan(_stage("s", _task("a", "b")), _stage("t", _task("b"), needs=("s",))))
    assert "is in a later stage" in broken.what


def test_a_stage_cannot_need_a_later_stage() -> None:
    """Stages are listed in an order in which they can run."""
    (broken,) = _broken(_plan(_stage("s", _task("a"), needs=("t",)), _stage("t", _task("b"))))
    assert broken.at == ("stages", 0, "needs", 0)
    assert "comes later" in broken.what


def test_a_cycle_of_tasks_is_shown_as_its_path() -> None:
    """The reader sees which arrow to remove."""
    (broken,) = _broken(_plan(_stage("s", _task("a", "b"), _task("b", "c"), _task("c", "b"))))
    assert "b → c → b" in broken.what


def test_a_cycle_of_stages_is_shown_as_its_path() -> None:
    """Stages have the same law."""
    stages = (_stage("s", _task("a"), needs=("t",)), _stage("t", _task("b"), needs=("s",)))
    (broken,) = _broken(_plan(*stages))
    assert "s → t → s" in broken.what


def test_an_unknown_agent_offers_the_nearest_one() -> None:
    """Presets and the plan's own agents are both known."""
    task = Task(id="a", prompt="p", agent="claud")
    (broken,) = _broken(_plan(_stage("s", task)), "claude", "codex")
    assert broken.at == ("stages", 0, "tasks", 0, "agent")
    assert 'did you mean "claude"?' in broken.what


def test_a_prompt_without_any_agent_says_once_how_to_set_one() -> None:
    """Two hundred tasks without an agent are one mistake."""
    tasks = (Task(id="a", prompt="p"), Task(id="b", prompt="p"))
    (broken,) = _broken(_plan(_stage("s", *tasks)), "claude")
    assert "add `agent: claude` at the top of the plan" in broken.what


def test_a_command_task_takes_no_agent() -> None:
    """A key that would be ignored is refused."""
    task = Task(id="a", run=("true",), agent="claude")
    (broken,) = _broken(_plan(_stage("s", task)), "claude")
    assert "takes no agent" in broken.what


def test_an_unknown_placeholder_offers_the_nearest_one() -> None:
    """An agent is never started with a placeholder nobody fills in."""
    plan = Plan(goal="g", agents={"b": AgentSpec(command=("x", "--in={breif}"))})
    (broken,) = _broken(plan)
    assert broken.at == ("agents", "b", "command", 1)
    assert '{breif} is not a placeholder; did you mean "brief"?' in broken.what


def test_a_brief_passed_as_argument_needs_its_place_in_the_command() -> None:
    """`prompt: arg` without {brief} would start an agent that knows nothing."""
    plan = Plan(goal="g", agents={"b": AgentSpec(command=("x",), prompt="arg")})
    (broken,) = _broken(plan)
    assert 'add "{brief}" to the command' in broken.what


def test_deliverables_stay_inside_the_workspace() -> None:
    """A deliverable is a path of the repository, so it cannot leave it."""
    task = Task(id="a", run=("true",), files=("ok/..name", "/etc/passwd", "a/../../b"))
    faults = _broken(_plan(_stage("s", task)))
    assert [broken.at[-1] for broken in faults] == [1, 2]


def test_a_base_cannot_look_like_an_option() -> None:
    """What a plan says is never read by git as a flag."""
    (broken,) = _broken(_plan(_stage("s", _task("a")), base="--upload-pack=x"))
    assert broken.at == ("base",)


def test_a_batch_holds_what_may_run_side_by_side() -> None:
    """Each task comes as early as its needs allow."""
    (only,) = plan((task("a"), task("b", "a"), task("c"), task("d", "b", "c"))).stages
    assert [[item.id for item in batch] for batch in only.batches()] == [["a", "c"], ["b"], ["d"]]


def test_a_need_from_an_earlier_stage_delays_nothing_within_its_own() -> None:
    """The stage before has landed by then."""
    stages = plan((task("a"),), (task("b", "a"), task("c"))).stages
    assert [len(list(stage.batches())) for stage in stages] == [1, 1]


def test_every_task_is_in_exactly_one_batch() -> None:
    """A long chain is no matter of recursion."""
    chain = tuple(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(3000))
    (only,) = plan(chain).stages
    assert [batch[0].id for batch in only.batches()] == [item.id for item in chain]


AGENTS = {"tidy": AgentSpec(command=("x",), resume="clean"), "own": AgentSpec(command=("x",))}


@pytest.mark.parametrize(
    ("wanted", "of", "agent"),
    [
        ("continue", Task(id="t", prompt="x"), ""),
        ("continue", Task(id="t", prompt="x", agent="own"), ""),
        ("continue", Task(id="t", prompt="x", agent="claude"), ""),
        ("clean", Task(id="t", prompt="x", agent="tidy"), ""),
        ("clean", Task(id="t", prompt="x", agent="own"), "tidy"),
        ("continue", Task(id="t", prompt="x", agent="tidy", resume="continue"), ""),
        ("clean", Task(id="t", prompt="x", resume="clean"), ""),
        ("clean", Task(id="t", run=("x",)), ""),
        ("continue", Task(id="t", run=("x",), resume="continue"), ""),
    ],
)
def test_agents_continue_and_commands_start_clean_unless_the_plan_says_otherwise(
    wanted: str, of: Task, agent: str
) -> None:
    """The task's word stands above that of the agent that worked on it; a preset says nothing."""
    made = Plan(goal="g", agents=AGENTS, stages=(Stage(id="s", tasks=(of,)),))
    assert made.resume_mode(of, agent) == wanted


def test_a_plan_that_does_not_say_how_to_resume_keeps_its_hash() -> None:
    """What the user agreed to before there was such a key is still agreed to."""
    made = _plan(_stage("s", _task("a")), agents={"own": {"command": ["x"]}})
    assert b"resume" not in encode_plan(made)
