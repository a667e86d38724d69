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
    """Return which budget an attempt at work has used up, its own or its task's, and by whose word; empty if neither is.

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
    spent = own or task_overrun(state, task, more)
    return f"{spent}: {_source(task, heard, in_money=_in_money(spent))}" if spent else ""


def shared_overrun(state: RunState, task: TaskRow, heard: Spent = _NOTHING) -> str:
    """Return that the budget of the run is used up while an attempt is at work, and by how much; empty if it is not.

    All agents spend it together: it says nothing against this one, which may have spent nothing. `heard` as above.
    """
    more = heard.beyond(task.latest.spent)
    spent = run_overrun(state, more)
    if not spent:
        return ""
    used = Spent(tokens=state.row.tokens, cost_usd=state.row.cost_usd).plus(more)
    return f"{spent}: the run used {_words(used, in_money=_in_money(spent))}"


def _source(task: TaskRow, heard: Spent, *, in_money: bool) -> str:
    """Say by whose word the attempt used what: of its stream, or of its reports."""
    spent, reported = task.latest.spent, task.latest.reported
    used = spent.plus(heard.beyond(spent))
    words = _words(used, in_money=in_money)
    by_report = reported.cost_usd >= used.cost_usd if in_money else reported.tokens >= used.tokens
    return f"its agent reported {words}" if by_report else f"its stream says {words}"


def _in_money(overrun: str) -> bool:
    return " USD" in overrun


def _words(used: Spent, *, in_money: bool) -> str:
    return f"{used.cost_usd:.6g} USD" if in_money else f"{used.tokens} tokens"


def _over(used: Spent, tokens_max: int | None, cost_max: float | None, whose: str, key: str) -> str:
    if cost_max is not None and used.cost_usd >= cost_max:
        return f"the budget of {cost_max:g} USD{whose}{_named(key, 'cost_usd')} is spent"
    if tokens_max is not None and used.tokens >= tokens_max:
        return f"the budget of {tokens_max} tokens{whose}{_named(key, 'tokens')} is spent"
    return ""


def _named(key: str, part: str) -> str:
    return f" ({key}{part})" if key else ""
