"""The project that the page is tested with: a small shop, a plan in three stages, and gates that hold its agents."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import Cli, eventually
from tests.support.repositories import Project

AGENT = Path(__file__).with_name("shop_agent.py")
TITLES = {
    "schema": "Tables for payments and refunds",
    "client": "A client of the payment service",
    "checkout": "Check-out pays through the client",
    "refunds": "Refunds",
    "receipts": "Receipts by mail",
    "webhooks": "Calls of the service are verified",
    "docs": "Say how payments work",
}
STAGES = {
    "foundation": ["schema", "client"],
    "features": ["checkout", "refunds", "receipts", "webhooks"],
    "polish": ["docs"],
}
NEEDS = {"checkout": ["client"], "receipts": ["schema"], "refunds": ["schema", "client"]}
CART = '''"""The cart."""

from shop.legacy import legacy_charge


def total_of(cart):
    return sum(line.price * line.count for line in cart.lines)


def pay(cart, card):
    total = total_of(cart)
    if total <= 0:
        raise ValueError("nothing to pay")
    receipt = legacy_charge(card, total)
    cart.close(receipt)
    return receipt
'''


@dataclass(frozen=True, slots=True)
class PaymentShop:
    """A shop's repository and the folder of its gates."""

    cli: Cli
    gates: Path

    @classmethod
    def create(cls, path: Path, *held: str, **plan: Any) -> PaymentShop:
        """Make the repository and its plan; the agents of the tasks in `held` wait until they are let go."""
        gates = path / "gates"
        gates.mkdir(parents=True)
        for task in held:
            os.mkfifo(gates / task)
        project = Project.create(path / "shop")
        project.write("shop/cart.py", CART)
        project.commit("The shop")
        cli = Cli(project.path)
        cli.plan(**shop_plan(gates) | plan)
        return cls(cli, gates)

    def start(self) -> str:
        """Start the plan in the background and return the run."""
        return str(self.cli.json("run", "--detach", "--yes")["run"])

    def release(self, task: str) -> None:
        """Let the agent of a task go on. Later ones are not held."""
        gate = self.gates / task
        with gate.open("w") as file:
            file.write("g")
        gate.unlink()

    def wait_for(self, task: str, status: str) -> None:
        """Wait until a task has a status."""
        eventually(lambda: self.cli.task(task)["status"] == status, f"{task} is {status}")

    def runner(self) -> int:
        """Return the process that runs the run."""
        holder = re.match(r"pid (\d+)", str(self.cli.json("status")["run"]["held_by"]))
        assert holder is not None
        return int(holder[1])


def shop_plan(gates: Path) -> dict[str, Any]:
    """Return the plan as a user would write it."""
    return {
        "goal": "Move the shop to the new payment service",
        "agent": "shopkeeper",
        "agents": {
            "shopkeeper": {
                "command": [sys.executable, "-P", str(AGENT), str(gates)],
                "prompt": "stdin",
                "stream": "claude",
            }
        },
        "limits": {"jobs": 4, "attempts": 2, "timeout": "5m"},
        "verify": ["! grep -rn BROKEN shop"],
        "stages": [
            {"id": stage, "tasks": [_task(name) for name in tasks]} for stage, tasks in STAGES.items()
        ],
    }


def _task(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "title": TITLES[name],
        "prompt": f"{TITLES[name]}. Keep the cart as it is where you can.",
        "needs": NEEDS.get(name, []),
    }
