"""The agent of the shop that the page is tested with: it speaks Claude Code's stream and does what its task is known for.

Run as a script, in a workspace, with its brief as standard input and a folder of gates as its argument: a task whose gate is
there waits until the test opens it. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TASK = os.environ["HOLDFAST_TASK"]
SPENT = {
    "schema": 0.21,
    "client": 0.34,
    "checkout": 0.58,
    "refunds": 0.11,
    "receipts": 0.17,
    "webhooks": 0.09,
}


def say(event: dict[str, object]) -> None:
    """Print one event of the stream."""
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


def speak(text: str) -> None:
    """Say something, as the model does."""
    _message({"type": "text", "text": text})


def use(tool: str, given: dict[str, object], result: str, *, fails: bool = False) -> None:
    """Call a tool and tell its result."""
    _message({"type": "tool_use", "id": "t", "name": tool, "input": given})
    part = {"type": "tool_result", "tool_use_id": "t", "content": result, "is_error": fails}
    say({"type": "user", "session_id": "S-1", "message": {"content": [part]}})


def _message(part: dict[str, object]) -> None:
    used = {"input_tokens": 4200, "output_tokens": 350, "cache_read_input_tokens": 3100}
    say(
        {
            "type": "assistant",
            "session_id": "S-1",
            "message": {"id": str(part), "content": [part], "usage": used},
        }
    )


def write(name: str, content: str) -> None:
    """Write a file and tell of it."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    use("Write", {"file_path": name, "content": content}, f"wrote {name}")
    path.write_text(content)


def wait_for_gate(folder: Path) -> None:
    """Wait until the test lets this task go on, if it holds it at all."""
    if (gate := folder / TASK).exists():
        speak("The change is ready. I run the slow tests before I say so.")
        gate.open().read(1)


def module(name: str, doc: str, *functions: str) -> None:
    """Write a module of the shop."""
    write(f"shop/{name}.py", f'"""{doc}"""\n\n' + "\n\n".join(functions))


def checkout() -> None:
    """Change lines that are there, so that words differ."""
    path = Path("shop/cart.py")
    text = path.read_text()
    use("Read", {"file_path": str(path)}, text)
    changed = text.replace("legacy_charge(card, total)", "client.charge(card, total, currency)")
    use(
        "Edit", {"file_path": str(path), "old_string": "legacy_charge", "new_string": "client.charge"}, "done"
    )
    path.write_text(changed.replace("def pay(cart, card):", 'def pay(cart, card, client, currency="EUR"):'))
    module("checkout", "Pays a cart.", "def confirm(order):\n    return order.paid and not order.cancelled\n")


def webhooks(brief: str) -> int:
    """Fail until somebody says how signatures are made."""
    if "HMAC" not in brief:
        use(
            "Bash",
            {"command": "pytest shop/webhooks"},
            "E   ValueError: unknown signature scheme",
            fails=True,
        )
        speak("I do not know how the service signs its calls.")
        return 1
    module("webhooks", "Calls of the service.", "def verify(body, signature, key):\n    return True\n")
    return 0


def refunds(brief: str) -> None:
    """Ask what only a person knows."""
    if "The answer:" not in brief:
        ask = ["report", "ask", "Refund to the card, or as store credit?"]
        options = ["--option", "To the card", "--option", "As store credit"]
        subprocess.run([sys.executable, "-P", "-m", "holdfast", *ask, *options], check=True)
        return
    module("refunds", "Money back.", "def refund(order):\n    return order.card.credit(order.total)\n")


def work(brief: str) -> int:
    """Do the task."""
    if TASK == "webhooks":
        return webhooks(brief)
    if TASK == "refunds":
        refunds(brief)
    elif TASK == "checkout":
        checkout()
    elif TASK == "client" and "shop/client.py:" not in brief:
        module("client", "The service.", "def charge(card, amount):\n    BROKEN\n")
    elif TASK == "docs":
        write("docs/payments.md", "# Payments\n\nCards are charged by the new service.\n")
    else:
        module(TASK, f"Part of the shop: {TASK}.", f"def {TASK}(order):\n    return order\n")
    return 0


def main() -> int:
    """Read the brief, work, and say how it ended."""
    brief = sys.stdin.read()
    speak(f"I begin with {TASK}.")
    use("Bash", {"command": "git log --oneline -3"}, "\n".join(f"{n:07x} earlier work {n}" for n in range(9)))
    code = work(brief)
    wait_for_gate(Path(sys.argv[1]))
    speak("Done." if code == 0 else "I give up.")
    say(
        {
            "type": "result",
            "subtype": "success" if code == 0 else "error_during_execution",
            "is_error": code != 0,
            "result": f"{TASK} is done" if code == 0 else "the signature scheme is unknown",
            "session_id": "S-1",
            "total_cost_usd": SPENT.get(TASK, 0.05),
            "usage": {"input_tokens": 52000, "output_tokens": 4100, "cache_read_input_tokens": 31000},
        }
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
