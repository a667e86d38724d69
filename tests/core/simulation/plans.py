"""Random small plans and how the world treats them: what one seed of the simulation stands for.

Most plans are small. What goes wrong between two tasks goes wrong in a plan of two, and many small runs meet more
orders of events than a few large ones.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.core.plan import AgentProvider, Limits, Plan, Stage, Task, Validator

PROVIDERS = {
    "x": AgentProvider("p"),
    "y": AgentProvider("p", fallback="z"),
    "z": AgentProvider("q", resumable=True),
    "w": AgentProvider("r", resumable=True, native=True),
    "v": AgentProvider("q", native=True, fallback="u"),
    "u": AgentProvider("p", fallback="v"),
}
"""Six agents of three providers; some fall back on another, two on each other; one goes on with its own session, one if answered."""
_AGENTS = tuple(PROVIDERS)
_TASKS_PER_STAGE = (1, 1, 1, 1, 1, 2, 2, 3)
_STAGES = (1, 1, 1, 1, 1, 2, 2, 3)
_ATTEMPT_BUDGET_USD = 1.5
"""A run with a larger budget than this gives each attempt as much."""


class FaultRates(NamedTuple):
    """How likely each kind of trouble is, and how many faults and interferences a run meets at most."""

    agent_fails: float
    check_fails: float
    merged_check_fails: float
    conflicts: float
    gate_fails: float
    agent_lost: float
    limits: float
    needs_person: float
    faults: int
    interferences: int


def random_fault_rates(rng: Random) -> FaultRates:
    """Return the fault rates of one run, from none to hopeless."""
    random = rng.random
    trouble = rng.choice((0.0, 0.1, 0.3, 0.6))
    return FaultRates(
        agent_fails=trouble * random(),
        check_fails=trouble * random(),
        merged_check_fails=trouble * random(),
        conflicts=trouble * random(),
        gate_fails=trouble * random(),
        agent_lost=0.8 if random() < 0.04 else 0.0,
        limits=rng.choice((0.0, 0.0, 0.0, 0.2, 0.5)),
        needs_person=trouble * random() / 4,
        faults=rng.choice((0, 1, 1, 2, 3)),
        interferences=rng.choice((0, 0, 1, 2)),
    )


def random_plan(rng: Random) -> Plan:
    """Return a plan of up to three stages with up to three tasks each."""
    random = rng.random
    limits = Limits(
        jobs=rng.randint(1, 3),
        attempts=rng.randint(1, 4),
        keep_going=random() < 0.3,
        retry_delay_s=1.0 if random() < 0.4 else 40.0,
        on_limit="stop" if random() < 0.4 else "wait",
        limit_wait_s=60.0 if random() < 0.6 else 1200.0,
        tokens=rng.randint(5, 40) if random() < 0.1 else None,
        cost_usd=random() * 4 if random() < 0.1 else None,
        attempt_tokens=rng.randint(4, 9) if random() < 0.1 else None,
    )
    if limits.cost_usd is not None and limits.cost_usd > _ATTEMPT_BUDGET_USD:
        limits = replace(limits, attempt_cost_usd=_ATTEMPT_BUDGET_USD)
    verify = ("check",) if random() < 0.3 else ()
    stages: list[Stage] = []
    # A run that begins again in the middle may have a stage of nothing but gates.
    only_gates = random() < 0.06
    for number in range(rng.choice(_STAGES) + only_gates):
        tasks_count = 0 if only_gates and number == 0 else rng.choice(_TASKS_PER_STAGE)
        stages.append(_random_stage(rng, number, stages, tasks_count))
    return Plan(goal="goal", agent=rng.choice(_AGENTS), limits=limits, verify=verify, stages=tuple(stages))


def _random_stage(rng: Random, number: int, before: list[Stage], tasks_count: int) -> Stage:
    random = rng.random
    needs = tuple(stage.id for stage in before if random() < 0.8)
    names = [f"t{number}{letter}" for letter in "abc"[:tasks_count]]
    earlier = [task.id for stage in before if stage.id in needs for task in stage.tasks]
    # Whoever needs whom is independent of the order in the file: a task may come before what it needs.
    ranks = {name: random() for name in names}
    tasks = tuple(_random_task(rng, name, ranks, earlier) for name in names)
    gate = ("gate",) if random() < 0.4 else ()
    return Stage(id=f"s{number}", needs=needs, entry=gate, exit=gate, tasks=tasks)


def _random_task(rng: Random, name: str, ranks: dict[str, float], earlier: list[str]) -> Task:
    random = rng.random
    needs: list[str] = []
    interfaces: list[str] = []
    for other in (*ranks, *earlier):
        if ranks.get(other, -1.0) < ranks[name] and random() < 0.4:
            (interfaces if random() < 0.3 else needs).append(other)
    is_command = random() < 0.2
    return Task(
        id=name,
        prompt="" if is_command else "do it",
        run=("command",) if is_command else (),
        agent=rng.choice(_AGENTS) if random() < 0.35 else "",
        needs=tuple(needs),
        needs_interface=tuple(interfaces),
        verify=("check",) if random() < 0.2 else (),
        validators=_random_validators(rng) if random() < 0.15 else (),
        gate=0.6,
        attempts=rng.randint(1, 2) if random() < 0.1 else None,
        tokens=rng.randint(5, 20) if random() < 0.1 else None,
    )


def _random_validators(rng: Random) -> tuple[Validator, ...]:
    asked = [Validator(id=name, prompt="judge", agent=rng.choice(("", *_AGENTS))) for name in ("v1", "v2")]
    return (*asked[: rng.randint(1, 2)], *(Validator(id="v3", run=("lint",)),)[: rng.randint(0, 1)])
