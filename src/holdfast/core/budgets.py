"""Budgets of a run, a task and an attempt in tokens and money, and the message when one is used up.

`decide.py` asks before it starts anything, `stream_listener.py` while an agent works.
"""

from __future__ import annotations

from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState


def run_overrun(state: RunState, more_tokens: int = 0, more_cost: float = 0.0) -> str:
    """Return which budget of the run is used up, counting what is not in its row yet; empty if none is.

    Nothing new starts once one is.
    """
    row = state.row
    return _over(row.tokens + more_tokens, row.cost_usd + more_cost, state.tokens_max, state.cost_max, "")


def task_overrun(state: RunState, task: TaskRow, more_tokens: int = 0, more_cost: float = 0.0) -> str:
    """Return which budget of a task its attempts have used up since the user last gave it one; empty if none is."""
    spec, forgiven = state.specs[task.id], task.forgiven_spending
    tokens, cost = task.tokens - forgiven.tokens, task.cost_usd - forgiven.cost_usd
    return _over(tokens + more_tokens, cost + more_cost, spec.tokens, spec.cost_usd, " for the task")


def attempt_overrun(state: RunState, task: TaskRow, tokens: int, cost_usd: float) -> str:
    """Return which budget an attempt at work has used up, its own, its task's or the run's; empty if none is.

    `tokens` and `cost_usd` are all that the attempt used, of which its row may know a part.
    """
    limits = state.plan.limits
    more = (max(0, tokens - task.latest.spent.tokens), max(0.0, cost_usd - task.latest.spent.cost_usd))
    own = _over(tokens, cost_usd, limits.attempt_tokens, limits.attempt_cost_usd, " for an attempt")
    return own or task_overrun(state, task, *more) or run_overrun(state, *more)


def _over(tokens: int, cost_usd: float, tokens_max: int | None, cost_max: float | None, whose: str) -> str:
    if cost_max is not None and cost_usd >= cost_max:
        return f"the budget of {cost_max:g} USD{whose} is spent"
    if tokens_max is not None and tokens >= tokens_max:
        return f"the budget of {tokens_max} tokens{whose} is spent"
    return ""
