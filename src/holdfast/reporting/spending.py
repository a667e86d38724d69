"""What attempts, tasks, stages, agents and a run used: tokens, money, and time. From rows alone, so the cost is that of the rows.

All of it is agents' word; there are no prices here. What no agent told is unknown, and stays so in every sum: it is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.core.projection import RunRow, Spent, TaskRow


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, each part null if unknown. `cache_read` are the tokens from a cache; `worked_s` is agents' time.

    `untold` counts the attempts whose agent told no money: the sum is at least as much.
    """

    tokens: int | None = None
    cost_usd: float | None = None
    cache_read: int | None = None
    worked_s: float | None = None
    untold: int = 0

    @property
    def cache_share(self) -> float | None:
        """Which share of the tokens came from a cache, from 0 to 1; None if unknown."""
        return self.cache_read / self.tokens if self.cache_read and self.tokens else None


class AttemptSpending(Spending, frozen=True, kw_only=True):
    """What one attempt used. `agent` is empty for a command."""

    attempt: int
    agent: str


class AgentSpending(Spending, frozen=True, kw_only=True):
    """What all attempts of one agent used, and what it used as a validator."""

    agent: str
    attempts: int


_Kind = TypeVar("_Kind", bound=Spending)


AtWork = Mapping[str, float]
"""For each task whose attempt is not over in the journal: how many seconds its agent has worked, as far as is known."""
_NOBODY: AtWork = {}


def attempts_of(task: TaskRow, at_work: AtWork = _NOBODY) -> tuple[AttemptSpending, ...]:
    """Return what each attempt at a task used. `at_work` tells how long one that is not over has worked."""
    return tuple(
        _of(AttemptSpending, spent, seconds, agent=agent, attempt=attempt)
        for attempt, agent, spent, seconds in _attempts(task, at_work)
    )


def spending_of(task: TaskRow, at_work: AtWork = _NOBODY) -> Spending:
    """Return what a task used, its validators included."""
    return spending_of_tasks([task], at_work)


def spending_of_tasks(tasks: Iterable[TaskRow], at_work: AtWork = _NOBODY) -> Spending:
    """Return what some tasks used together, such as those of a stage."""
    spent, seconds, untold = Spent(), 0.0, 0
    for task in tasks:
        spent = spent.plus(Spent(tokens=task.tokens, cost_usd=task.cost_usd, cache_read=task.cache_read))
        attempts = list(_attempts(task, at_work))
        seconds += sum(worked for *_, worked in attempts)
        untold += sum(bool(agent) and not used.cost_usd for _, agent, used, _ in attempts)
    return _of(Spending, spent, seconds, untold=untold)


def spending_by_agent(tasks: Iterable[TaskRow], at_work: AtWork = _NOBODY) -> tuple[AgentSpending, ...]:
    """Return what each agent used, those of commands apart, in the order of their names."""
    spent: dict[str, Spent] = {}
    seconds: dict[str, float] = {}
    counts: dict[str, tuple[int, int]] = {}
    for task in tasks:
        for _, agent, used, worked in _attempts(task, at_work):
            spent[agent] = spent.get(agent, Spent()).plus(used)
            seconds[agent] = seconds.get(agent, 0.0) + worked
            attempts, untold = counts.get(agent, (0, 0))
            counts[agent] = (attempts + 1, untold + (not used.cost_usd))
        for agent, used in task.validation_spent.items():
            spent[agent] = spent.get(agent, Spent()).plus(used)
    return tuple(
        _of(
            AgentSpending,
            spent[agent],
            seconds.get(agent, 0.0),
            agent=agent,
            attempts=counts.get(agent, (0, 0))[0],
            untold=counts.get(agent, (0, 0))[1],
        )
        for agent in sorted(filter(None, spent))
    )


def spending_of_run(row: RunRow) -> Spending:
    """Return what a run used, from its own row alone: for lists of many runs."""
    spent = Spent(tokens=row.tokens, cost_usd=row.cost_usd, cache_read=row.cache_read)
    return _of(Spending, spent, row.worked_s)


def _attempts(task: TaskRow, at_work: AtWork) -> Iterator[tuple[int, str, Spent, float]]:
    """Yield number, agent, spending and seconds of each attempt."""
    for past in task.past:
        yield past.attempt, past.agent, past.spent, past.worked_s
    latest = task.latest
    if latest.token:
        yield task.attempt, latest.agent, latest.spent, at_work.get(task.id, latest.worked_s)


def _of(kind: type[_Kind], spent: Spent, seconds: float, **more: Any) -> _Kind:
    return kind(
        tokens=spent.tokens or None,
        cost_usd=round(spent.cost_usd, 6) or None,
        cache_read=spent.cache_read or None,
        worked_s=round(seconds, 3) or None,
        **more,
    )
