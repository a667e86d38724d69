"""`retry`: give a task all its attempts again, with a hint, with another agent, or from a clean start."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, YES, Arguments, flag, option
from holdfast.cli.open_repo import OpenRepo, choose_task, open_repo
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.core.people import open_questions
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.runner.decisions.user_decisions import apply_decision, record_decision, require_possible
from holdfast.runner.requests import Request, ask_runner
from holdfast.views.event_text import retry_words
from holdfast.views.text import one_line

_WORDS_CHARS = 200
ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    option("--hint", "TEXT", "tell the next agents this, until the task lands", default=""),
    option("--agent", "A", "let this agent work on it instead, until the task lands", default=""),
    flag("--clean", "start from what landed; earlier work stays at its refs"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Give a task all its attempts again."""

    def decision(task: str) -> ev.TaskRetried:
        return ev.TaskRetried(task=task, hint=args.hint.strip(), agent=args.agent, clean=args.clean)

    return decide_about_task(args, "retry", decision, "has all its attempts again")


def decide_about_task(
    args: Namespace,
    action: Literal["retry", "skip"],
    decision: Callable[..., ev.TaskRetried | ev.TaskSkipped],
    done: str,
) -> int:
    """Record a user's decision about a task, or ask the live runner to; `done` describes the result."""
    with open_repo() as opened:
        stored, task = choose_task(opened, args.run, args.task)
        run, event = stored.row.run, decision(task=task)
        state = stored.state()
        if isinstance(event, ev.TaskRetried) and event.agent:
            require_possible(stored, event)
            _agree_to_agent(opened, state, event, args)
        waits = isinstance(event, ev.TaskRetried) and state.tasks[task].recheck and not event.clean
        done = "is checked again: its work is finished" if waits else done
        if isinstance(event, ev.TaskRetried):
            done += one_line(retry_words(event), _WORDS_CHARS)
        unanswered = bool(open_questions(state.tasks[task])) and not getattr(event, "hint", "")
        if (held := opened.holder(run)) is None:
            record_decision(opened.repo, opened.journal, run, event)
            detail = f"{task} {done}. `holdfast resume {run}` continues the run."
        else:
            # A decision that the state does not allow is refused here, not by the runner.
            apply_decision(state, event)
            ask_runner(opened.directory(run), _request(action, event))
            detail = f"{task} {done}. The runner of {run} ({held}) goes on with it."
        if unanswered:
            detail += " Its question stays without an answer."
        return print_result(opened, run, detail, args, task=task)


def _request(action: Literal["retry", "skip"], event: ev.TaskRetried | ev.TaskSkipped) -> Request:
    request = Request(action=action, task=event.task)
    if isinstance(event, ev.TaskSkipped):
        return request
    return replace(request, hint=event.hint, agent=event.agent, clean=event.clean)


def _agree_to_agent(opened: OpenRepo, state: RunState, event: ev.TaskRetried, args: Namespace) -> None:
    """Make sure that the agent is known, and that the user agreed to what the plan starts with it."""
    from holdfast.agents.presets import find_agent, presets_of
    from holdfast.cli.consent import require_consent
    from holdfast.cli.plan_file import require_commands

    presets, name = presets_of(opened.checkout), event.agent
    if state.specs[event.task].run:
        raise HoldfastError(f"task {event.task} is a command and takes no agent", "leave --agent out")
    if find_agent(name, state.plan.agents, presets) is None:
        known = [*state.plan.agents, *presets]
        raise HoldfastError(
            f"there is no agent {quoted(name)}{did_you_mean(name, known)}",
            "name a preset, or an agent of the plan or of agents.toml",
        )
    state.tasks[event.task].agent = name
    plan = state.plan_as_run()
    require_commands(plan, opened.checkout)
    require_consent(opened.journal, plan, opened.checkout, yes=args.yes)
