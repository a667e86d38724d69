"""The accounts of attempts, tasks and the run: how what agents tell of tokens, money and time gets into the rows.

An attempt has one account with two sources, its stream and its reports. Of each part the larger source counts, so an agent that
tells by both ways is not charged twice. How an amount is written is here, too. Budgets are in `budgets.py`, what people see of
the accounts in `reporting/spending.py`.
"""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.projection import PastAttempt, RunRow, Spent, TaskRow

_CENTS_FROM, _SMALL_FROM = 0.1, 0.001


def money(usd: float) -> str:
    """Return an amount as it is written everywhere: `$2.46`, `$0.0123`, `$0.000400`."""
    if usd >= _CENTS_FROM or not usd:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= _SMALL_FROM else f"${usd:.6f}"


def add_streamed(run: RunRow, task: TaskRow, event: ev.AgentObserved) -> None:
    """Take in what an attempt's stream says: totals, which never get smaller."""
    attempt = task.latest
    said = Spent(tokens=event.tokens, cost_usd=event.cost_usd, cache_read=event.cache_read)
    attempt.heard = attempt.heard.plus(said.beyond(attempt.heard))
    _raise_account(run, task, attempt.heard)


def add_reported(run: RunRow, task: TaskRow, event: ev.ProgressReported) -> None:
    """Take in what an attempt reports: what it used since its last report."""
    attempt = task.latest
    attempt.reported = attempt.reported.plus(Spent(tokens=event.tokens, cost_usd=event.cost_usd))
    _raise_account(run, task, attempt.reported)


def add_validation(run: RunRow, task: TaskRow, event: ev.ValidatorScored | ev.ValidatorFailed) -> None:
    """Take in what a validator used. It belongs to the task, not to the attempt that it judged."""
    used = Spent(tokens=event.tokens, cost_usd=event.cost_usd, cache_read=event.cache_read)
    if used == Spent():
        return
    before = task.validation_spent.get(event.agent, Spent())
    task.validation_spent = {**task.validation_spent, event.agent: before.plus(used)}
    _add_to_totals(run, task, used)


def add_time(run: RunRow, task: TaskRow, seconds: float) -> None:
    """Take in how long an attempt's agent worked."""
    task.latest.worked_s += seconds
    task.worked_s += seconds
    run.worked_s += seconds


def file_attempt(task: TaskRow) -> None:
    """Keep what the latest attempt used, before another one replaces its row."""
    before = task.latest
    if before.token:
        used = PastAttempt(
            attempt=task.attempt, agent=before.agent, spent=before.spent, worked_s=before.worked_s
        )
        task.past = [*task.past, used]


def _raise_account(run: RunRow, task: TaskRow, source: Spent) -> None:
    """Bring an attempt's account up to what one of its sources says."""
    more = source.beyond(task.latest.spent)
    task.latest.spent = task.latest.spent.plus(more)
    _add_to_totals(run, task, more)


def _add_to_totals(run: RunRow, task: TaskRow, more: Spent) -> None:
    for row in (task, run):
        row.tokens += more.tokens
        row.cost_usd += more.cost_usd
        row.cache_read += more.cache_read
