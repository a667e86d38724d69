"""Money, tokens and time as text: a sentence, the columns of a table, and the table of agents. What is unknown is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.accounts import money
from holdfast.reporting.spending import AgentSpending, Spending
from holdfast.views.text import count, duration, table

UNKNOWN = "-"


def tokens(number: int | None) -> str:
    """Return `560,000`, or a dash if it is unknown."""
    return UNKNOWN if number is None else f"{number:,}"


def _cost(usd: float | None) -> str:
    return UNKNOWN if usd is None else money(usd)


def share(part: float | None) -> str:
    """Return `82 %`, or a dash if it is unknown."""
    return UNKNOWN if part is None else f"{part:.0%}".replace("%", " %")


def spending_words(spent: Spending) -> str:
    """Return `$2.46, 560,000 tokens (82 % from cache), agents worked 12m 05s`; empty if nothing is known."""
    parts = []
    if spent.cost_usd is not None:
        untold = f" (told by all but {count(spent.untold, 'attempt')})" if spent.untold else ""
        parts.append(f"{money(spent.cost_usd)}{untold}")
    if spent.tokens is not None:
        cached = f" ({share(spent.cache_share)} from cache)" if spent.cache_share else ""
        parts.append(f"{tokens(spent.tokens)} tokens{cached}")
    if spent.worked_s is not None:
        parts.append(f"agents worked {duration(spent.worked_s)}")
    return ", ".join(parts)


class SpendingColumns:
    """The columns TIME, TOKENS and COST of a table. Those about which no row knows anything are left out."""

    def __init__(self, rows: Sequence[Spending]) -> None:
        self._tokens = any(row.tokens is not None for row in rows)
        self._cost = any(row.cost_usd is not None for row in rows)

    @property
    def heading(self) -> list[str]:
        """The names of the columns."""
        return ["TIME", *(["TOKENS"] if self._tokens else []), *(["COST"] if self._cost else [])]

    def cells(self, spent: Spending) -> list[str]:
        """Return the cells of one row."""
        worked = UNKNOWN if spent.worked_s is None else duration(spent.worked_s)
        used = [tokens(spent.tokens)] if self._tokens else []
        return [worked, *used, *([_cost(spent.cost_usd)] if self._cost else [])]


def agents_table(agents: Sequence[AgentSpending]) -> Iterator[str]:
    """Yield what each agent used, if any of them told."""
    if not any(agent.tokens or agent.cost_usd for agent in agents):
        return
    columns = SpendingColumns(agents)
    cached = any(agent.cache_share for agent in agents)
    rows = [["AGENT", "ATTEMPTS", *columns.heading, *(["FROM CACHE"] if cached else [])]]
    for agent in agents:
        more = [share(agent.cache_share)] if cached else []
        rows.append([agent.agent, str(agent.attempts), *columns.cells(agent), *more])
    yield ""
    yield from table(rows)
