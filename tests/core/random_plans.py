"""Random small plans and how the world treats them: what one seed of the simulation stands for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from holdfast.core.plan import AgentProvider, Limits, Plan, Stage, Task

PROVIDERS = {
    "x": AgentProvider("p"),
    "y": AgentProvider("p", fallback="z"),
    "z": AgentProvider("q"),
    "w": AgentProvider("r", resumable=True, native=True),
}
"""Four agents of three providers; one falls back on another, one goes on with its own session."""


@dataclass(frozen=True)
class FaultRates:
    """How likely each kind of trouble is, and how many faults a run meets at most."""

    agent_fails: float
    check_fails: float
    merged_check_fails: float
    conflicts: float
    gate_fails: float
    limits: float
    needs_person: float
    crashes: int
    interferences: int


def random_fault_rates(rng: Random) -> FaultRates:
    """Return the fault rates of one run, from none to hopeless."""
    trouble = rng.choice((0.0, 0.1, 0.3, 0.6))
    return FaultRates(
        agent_fails=trouble * rng.random(),
        check_fails=trouble * rng.random(),
        merged_check_fails=trouble * rng.random(),
        conflicts=trouble * rng.random(),
        gate_fails=trouble * rng.random() / 2,
        limits=rng.choice((0.0, 0.0, 0.2, 0.5)),
        needs_person=trouble * rng.random() / 4,
        crashes=rng.choice((0, 1, 2, 4, 8)),
        interferences=rng.choice((0, 2, 4)),
    )


def random_plan(rng: Random) -> Plan:
    """Return a plan of up to three stages with up to five tasks each."""
    limits = Limits(
        jobs=rng.randint(1, 4),
        attempts=rng.randint(1, 3),
        keep_going=rng.random() < 0.3,
        on_limit=rng.choice(("wait", "wait", "stop")),
    )
    verify = ("check",) if rng.random() < 0.4 else ()
    stages: list[Stage] = []
    for number in range(rng.randint(1, 3)):
        stages.append(_random_stage(rng, number, stages))
    return Plan(
        goal="goal", agent=rng.choice((*PROVIDERS,)), limits=limits, verify=verify, stages=tuple(stages)
    )


def _random_stage(rng: Random, number: int, before: list[Stage]) -> Stage:
    needs = tuple(stage.id for stage in before if rng.random() < 0.8)
    names = [f"t{number}{letter}" for letter in "abcde"[: rng.randint(1, 5)]]
    earlier = [task.id for stage in before if stage.id in needs for task in stage.tasks]
    # Whoever needs whom is independent of the order in the file: a task may come before what it needs.
    ranks = {name: rng.random() for name in names}
    tasks = tuple(
        Task(
            id=name,
            prompt="do it",
            agent=rng.choice(("", *PROVIDERS)),
            needs=tuple(
                n for n in [*names, *earlier] if ranks.get(n, -1.0) < ranks[name] and rng.random() < 0.3
            ),
            verify=("check",) if rng.random() < 0.2 else (),
        )
        for name in names
    )
    gate = ("gate",) if rng.random() < 0.3 else ()
    return Stage(id=f"s{number}", needs=needs, entry=gate, exit=gate, tasks=tasks)
