"""Budgets of a run, a task and an attempt in tokens and money, and the message when one is used up.

`decide.py` asks before it starts anything, `stream_listener.py` while an agent works. What was used comes from agents alone:
from their streams and from their reports. Of both the larger counts, for each attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.accounts import money
from holdfast.core.projection import Spent, TaskRow
from holdfast.core.state import RunState

_NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Overrun:
    """A budget that is used up: what to say of it, what was used, and whether it is one of money or of tokens."""

    message: str
    used: Spent
    in_money: bool

    @property
    def used_words(self) -> str:
        """What was used, in the budget's own unit."""
        return money(self.used.cost_usd) if self.in_money else f"{self.used.tokens:,} tokens"


def run_overrun(state: RunState, more: Spent = _NOTHING) -> Overrun | None:
    """Return the budget of the run that is used up, counting what is not in its row yet; None if none is.

    Nothing new starts once one is.
    """
    used = Spent(tokens=state.row.tokens, cost_usd=state.row.cost_usd).plus(more)
    return _over(used, state.tokens_max, state.cost_max, "", "")


def raising_command(state: RunState) -> str:
    """Return the command that raises the budgets of a run that are used up to N.

    All of them are named, also one that was raised for this runner: the next one knows the plan's alone.
    """
    row, limits = state.row, state.plan.limits
    in_money = any(most is not None and row.cost_usd >= most for most in (limits.cost_usd, state.cost_max))
    in_tokens = any(most is not None and row.tokens >= most for most in (limits.tokens, state.tokens_max))
    options = (" --cost-usd N" if in_money else "", " --tokens N" if in_tokens else "")
    return f"holdfast resume {row.run}{''.join(options)}"


def task_overrun(state: RunState, task: TaskRow, more: Spent = _NOTHING) -> Overrun | None:
    """Return the budget of a task that its attempts have used up since the user last gave it one; None if none is."""
    spec = state.specs[task.id]
    used = Spent(tokens=task.tokens, cost_usd=task.cost_usd).beyond(task.forgiven_spending).plus(more)
    return _over(used, spec.tokens, spec.cost_usd, " for the task", "")


def attempt_overrun(state: RunState, task: TaskRow, heard: Spent = _NOTHING) -> str:
    """Return which budget an attempt at work has used up, its own or its task's, and by whose word; empty if neither is.

    `heard` is what its stream says, of which its row may know a part.
    """
    limits, known = state.plan.limits, task.latest.spent
    more = heard.beyond(known)
    used = known.plus(more)
    tokens, cost = limits.attempt_tokens, limits.attempt_cost_usd
    over = _over(used, tokens, cost, " for an attempt", "limits.attempt_") or task_overrun(state, task, more)
    if over is None:
        return ""
    reported, own = task.latest.reported, replace(over, used=used)
    by_report = reported.cost_usd >= used.cost_usd if own.in_money else reported.tokens >= used.tokens
    return f"{own.message}: its {'agent reported' if by_report else 'stream says'} {own.used_words}"


def shared_overrun(state: RunState, task: TaskRow, heard: Spent = _NOTHING) -> str:
    """Return that the budget of the run is used up while an attempt is at work, and by how much; empty if it is not.

    All agents spend it together: it says nothing against this one, which may have spent nothing. `heard` as above.
    """
    over = run_overrun(state, heard.beyond(task.latest.spent))
    return "" if over is None else f"{over.message}: the run used {over.used_words}"


def _over(
    used: Spent, tokens_max: int | None, cost_max: float | None, whose: str, key: str
) -> Overrun | None:
    if cost_max is not None and used.cost_usd >= cost_max:
        named = _named(key, "cost_usd")
        return Overrun(f"the budget of {money(cost_max)}{whose}{named} is spent", used, in_money=True)
    if tokens_max is not None and used.tokens >= tokens_max:
        named = _named(key, "tokens")
        return Overrun(f"the budget of {tokens_max:,} tokens{whose}{named} is spent", used, in_money=False)
    return None


def _named(key: str, part: str) -> str:
    return f" ({key}{part})" if key else ""
