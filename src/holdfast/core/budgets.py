"""Budgets of a run, a task and an attempt in tokens and money, and the message when one is used up.

`decide.py` asks before it starts anything, `stream_listener.py` while an agent works. What was used comes from agents alone:
from their streams and from their reports. Of both the larger counts, for each attempt.
"""

from __future__ import annotations

from holdfast.core.projection import Spent, TaskRow
from holdfast.core.state import RunState

_NOTHING = Spent()


def run_overrun(state: RunState, more: Spent = _NOTHING) -> str:
    """Return which budget of the run is used up, counting what is not in its row yet; empty if none is.

    Nothing new starts once one is.
    """
    row = state.row
    used = Spent(tokens=row.tokens, cost_usd=row.cost_usd).plus(more)
    return _over(used, state.tokens_max, state.cost_max, "", "")


def task_overrun(state: RunState, task: TaskRow, more: Spent = _NOTHING) -> str:
    """Return which budget of a task its attempts have used up since the user last gave it one; empty if none is."""
    spec = state.specs[task.id]
    used = Spent(tokens=task.tokens, cost_usd=task.cost_usd).beyond(task.forgiven_spending).plus(more)
    return _over(used, spec.tokens, spec.cost_usd, " for the task", "")


def attempt_overrun(state: RunState, task: TaskRow, heard: Spent = _NOTHING) -> str:
    """Return which budget an attempt at work has used up, its own, its task's or the run's, and by whose word; empty if none is.

    `heard` is what its stream says, of which its row may know a part.
    """
    limits, known = state.plan.limits, task.latest.spent
    more = heard.beyond(known)
    own = _over(
        known.plus(more),
        limits.attempt_tokens,
        limits.attempt_cost_usd,
        " for an attempt",
        "limits.attempt_",
    )
    spent = own or task_overrun(state, task, more) or run_overrun(state, more)
    return f"{spent}: {_source(task, heard, in_money=' USD' in spent)}" if spent else ""


def _source(task: TaskRow, heard: Spent, *, in_money: bool) -> str:
    """Say by whose word the attempt used what: of its stream, or of its reports."""
    spent, reported = task.latest.spent, task.latest.reported
    used = spent.plus(heard.beyond(spent))
    if in_money:
        words, by_report = f"{used.cost_usd:.6g} USD", reported.cost_usd >= used.cost_usd
    else:
        words, by_report = f"{used.tokens} tokens", reported.tokens >= used.tokens
    return f"its agent reported {words}" if by_report else f"its stream says {words}"


def _over(used: Spent, tokens_max: int | None, cost_max: float | None, whose: str, key: str) -> str:
    if cost_max is not None and used.cost_usd >= cost_max:
        return f"the budget of {cost_max:g} USD{whose}{_named(key, 'cost_usd')} is spent"
    if tokens_max is not None and used.tokens >= tokens_max:
        return f"the budget of {tokens_max} tokens{whose}{_named(key, 'tokens')} is spent"
    return ""


def _named(key: str, part: str) -> str:
    return f" ({key}{part})" if key else ""
