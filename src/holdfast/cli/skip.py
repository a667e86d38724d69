"""`skip`: declare a task unnecessary. Tasks that need it may start."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, Arguments
from holdfast.cli.retry import decide_about_task
from holdfast.core import events as ev

ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    JSON,
)


def execute(args: Namespace) -> int:
    """Declare a task unnecessary."""
    return decide_about_task(args, "skip", ev.TaskSkipped, "is skipped")
