"""What a plan may take: medians of earlier tasks by agent, laid out along the plan."""

from __future__ import annotations

from holdfast.core.plan import Plan, Stage, Task
from holdfast.reporting.estimates import AttemptSpan
from holdfast.reporting.run_estimate import AgentHistory, agent_histories, estimate_run


def span(task: str, seconds: float, cost: float = 0.0, agent: str = "mine") -> AttemptSpan:
    """Return an attempt that lasted so long."""
    return AttemptSpan(task=task, attempt=1, started=0.0, ended=seconds, heard_usd=cost, agent=agent)


def test_a_task_counts_with_all_its_attempts_and_the_median_counts() -> None:
    """One task that took three attempts, one that hung, one that is under way."""
    first = [span("a", 10, 1.0), span("a", 20, 1.0), span("b", 30), span("c", 9000, 50.0)]
    under_way = AttemptSpan(task="d", attempt=1, started=0.0, agent="mine")
    known = agent_histories([first, [under_way]])
    assert known == {"mine": AgentHistory(agent="mine", tasks=3, seconds=30.0, cost_usd=26.0)}


def test_stages_follow_each_other_and_tasks_share_the_jobs() -> None:
    """Four tasks of a minute by two jobs, then a command of a second."""
    stages = (
        Stage(id="s", tasks=tuple(Task(id=name, prompt="x") for name in "abcd")),
        Stage(id="t", needs=("s",), tasks=(Task(id="e", run=("true",)),)),
    )
    known = agent_histories([[span("a", 60, 0.25), span("z", 1, agent="")]])
    estimate = estimate_run(Plan(goal="g", agent="mine", stages=stages), 2, known)
    assert estimate is not None
    assert (estimate.seconds, estimate.cost_usd) == (121.0, 1.0)


def test_an_agent_without_a_history_is_taken_to_be_like_the_others() -> None:
    """And named; without any history there is no estimate."""
    plan = Plan(goal="g", agent="new", stages=(Stage(id="s", tasks=(Task(id="a", prompt="x"),)),))
    estimate = estimate_run(plan, 1, agent_histories([[span("a", 60)]]))
    assert estimate is not None
    assert (estimate.seconds, estimate.cost_usd, estimate.unknown) == (60.0, None, ("new",))
    assert estimate_run(plan, 1, {}) is None
