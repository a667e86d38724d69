"""What a measurement yields: figures with units, some of them with a bound to reach."""

from __future__ import annotations

from typing import Literal

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured number. `bound` says what it must be at least (`>=`) or at most (`<=`)."""

    workload: str
    name: str
    value: float
    unit: str
    bound: float | None = None
    sense: Literal[">=", "<="] = ">="
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the bound is kept, or None when there is none."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.sense == ">=" else self.value <= self.bound


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and under what load the figures were taken: other work on the machine makes them worse, never better."""

    cpus: int
    python: str
    git: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the benchmark. `skipped` says of each workload that could not be measured why not."""

    taken_at: str
    command: str
    quick: bool
    machine: Machine
    figures: list[Figure]
    skipped: dict[str, str]


def table(figures: list[Figure]) -> str:
    """Return the figures as Markdown, one row each."""
    rows: list[tuple[str, ...]] = [("", "figure", "value", "unit", "to reach", "", "note"), ("-",) * 7]
    rows += [_row(figure) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return "\n".join(_line(row, widths) for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    bound = "" if figure.bound is None else f"{figure.sense} {_number(figure.bound)}"
    verdict = {True: "reached", False: "NOT reached", None: ""}[figure.reached]
    return (
        figure.workload,
        figure.name,
        _number(figure.value),
        figure.unit,
        bound,
        verdict,
        figure.note,
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    fill = "-" if row[0] == "-" else " "
    cells = (
        cell.rjust(width, fill) if column in (2, 4) else cell.ljust(width, fill)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
