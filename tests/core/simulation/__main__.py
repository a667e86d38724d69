"""Tells what happened in the run of one seed: `python -m tests.core.simulation SEED`."""

from __future__ import annotations

import sys

from holdfast.core.plan import Plan
from tests.core.simulation.judge import ViolatedError
from tests.core.simulation.simulation import Simulation


def main(arguments: list[str]) -> int:
    """Play a seed and print its plan, its rates of faults, and its story: time, epoch, event; faults with a star."""
    simulation = Simulation(int(arguments[0]))
    simulation.story = []
    try:
        simulation.run()
    except ViolatedError as error:
        simulation.story.append(f"VIOLATED {error}")
    print("\n".join([*_plan_in_words(simulation.plan), str(simulation.rates), *simulation.story]))
    return int(simulation.story[-1].startswith("VIOLATED"))


def _plan_in_words(plan: Plan) -> list[str]:
    lines = [f"{plan.limits}", f"agent {plan.agent}, verify {plan.verify}"]
    for stage in plan.stages:
        lines.append(f"stage {stage.id} needs {stage.needs} entry {stage.entry} exit {stage.exit}")
        lines += [f"  {task}" for task in stage.tasks]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
