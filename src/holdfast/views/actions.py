"""What a person can do about a run or a task: one table of the commands behind the buttons of a page or a terminal view.

An action stands for a command of the command line and decides nothing: the command does. Which ones are possible now is
concluded from the run, so that no button leads to a refusal that was known before.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from holdfast.core import events as ev
from holdfast.core.base_check import base_obstacle
from holdfast.core.budgets import raising_command, run_overrun
from holdfast.core.people import lacks_merge, open_questions
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus, TaskStatus
from holdfast.core.task_transitions import TASK_EVENTS, IllegalEventError, allowed_move
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.reporting.recovery_report import failed_tasks
from holdfast.reporting.run_ending import INTERRUPTED
from holdfast.views.status import RunView, StatusView

_PAUSE_WAIT_S = 2
_Kind = Literal["text", "line", "choice", "flag"]
_Values = Mapping[str, str]
_TRUE = ("true", "1", "yes", "on")
_UNSAID = ("--json", "--yes", "--no-shell")
"""What a program adds, and nobody types."""


class ActionField(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person can say with an action: a text, a line, one of `options`, or whether it is to be so."""

    name: str
    label: str
    kind: _Kind = "line"
    required: bool = False
    options: tuple[str, ...] = ()


class ActionView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be done now: `command` does the same on the command line. `primary`: it is the one to do first.

    `task` is the task that it is about, null for the whole run. `confirm` is what to ask before; empty if nothing.
    """

    name: str
    label: str
    command: str
    task: str | None = None
    fields: tuple[ActionField, ...] = ()
    primary: bool = False
    danger: bool = False
    confirm: str = ""


class ActionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `words` are those of the command after the run and the task, made from what the person said."""

    label: str
    verb: str
    about_task: bool = False
    fields: tuple[ActionField, ...] = ()
    words: Callable[[_Values], Sequence[str]] = lambda _: ()
    danger: bool = False
    confirm: str = ""


def _given(**options: str) -> Callable[[_Values], list[str]]:
    """Return what makes options of fields: with `=`, so that no value is taken for an option. A flag ends without `=`."""

    def words(values: _Values) -> list[str]:
        said = ((option, values.get(name, "").strip()) for name, option in options.items())
        return [
            option if option[-1] != "=" else f"{option}{value}"
            for option, value in said
            if (value if option[-1] == "=" else value.lower() in _TRUE)
        ]

    return words


def _detached(more: Callable[[_Values], Sequence[str]] = lambda _: ()) -> Callable[[_Values], list[str]]:
    return lambda values: [*more(values), "--detach", "--yes"]


def _answer(values: _Values) -> list[str]:
    """Return the answer as one word. A space before a dash keeps it from being taken for an option, and is not kept."""
    text = values.get("answer", "").strip()
    return [f" {text}" if text.startswith("-") else text]


def _landing(values: _Values) -> list[str]:
    shape = {"one commit": ["--squash"], "one commit per task": ["--rebase"]}.get(values.get("how", ""), [])
    return [*shape, *_given(into="--into=", delete_branch="--delete-branch")(values), "--yes"]


_HINT = ActionField(name="hint", label="What the next agent should know", kind="text")
_CLEAN = ActionField(name="clean", label="Start without the work so far", kind="flag")
ACTIONS: dict[str, ActionRow] = {
    "answer": ActionRow(
        label="Answer",
        verb="answer",
        about_task=True,
        fields=(ActionField(name="answer", label="Your answer", kind="text", required=True),),
        words=_answer,
    ),
    "retry": ActionRow(
        label="Retry",
        verb="retry",
        about_task=True,
        fields=(_HINT, ActionField(name="agent", label="Another agent"), _CLEAN),
        words=lambda values: [
            *_given(hint="--hint=", agent="--agent=", clean="--clean")(values),
            "--yes",
        ],
    ),
    "skip": ActionRow(
        label="Skip",
        verb="skip",
        about_task=True,
        danger=True,
        confirm="Skip the task? Tasks that need it may start without it.",
    ),
    "take": ActionRow(label="Take it over", verb="take", about_task=True, words=lambda _: ["--no-shell"]),
    "give": ActionRow(
        label="Give it back",
        verb="give",
        about_task=True,
        fields=(
            ActionField(name="message", label="What you did"),
            ActionField(name="back", label="Return it to the agents instead of landing it", kind="flag"),
        ),
        words=_given(message="--message=", back="--back"),
    ),
    "pause": ActionRow(
        label="Pause",
        verb="pause",
        fields=(ActionField(name="now", label="End agents now; their work is kept", kind="flag"),),
        words=lambda values: [*_given(now="--now")(values), f"--wait={_PAUSE_WAIT_S}"],
    ),
    "stop": ActionRow(
        label="Stop", verb="stop", danger=True, confirm="End the agents of the run? Their work is kept."
    ),
    "resume": ActionRow(
        label="Resume",
        verb="resume",
        fields=(ActionField(name="accept_base", label="Start agents although the base fails", kind="flag"),),
        words=_detached(_given(accept_base="--accept-base")),
    ),
    "resume_failed": ActionRow(
        label="Restart failed tasks", verb="resume", words=_detached(lambda _: ["--failed-only"])
    ),
    "accept_gate": ActionRow(
        label="Continue anyway",
        verb="resume",
        fields=(ActionField(name="stage", label="Stage", kind="choice", required=True),),
        words=_detached(_given(stage="--accept=")),
        confirm="Continue although a check of the stage failed?",
    ),
    "amend_budget": ActionRow(
        label="Raise the budget",
        verb="resume",
        fields=(
            ActionField(name="cost_usd", label="US dollars in all"),
            ActionField(name="tokens", label="Tokens in all"),
        ),
        words=_detached(_given(cost_usd="--cost-usd=", tokens="--tokens=")),
    ),
    "abandon": ActionRow(
        label="Abandon",
        verb="abandon",
        words=lambda _: ["--yes"],
        danger=True,
        confirm="Abandon the run? Its branch and its work stay, and it can not be resumed.",
    ),
    "land": ActionRow(
        label="Land",
        verb="land",
        fields=(
            ActionField(
                name="how", label="As", kind="choice", options=("merge", "one commit", "one commit per task")
            ),
            ActionField(name="into", label="Into another branch"),
            ActionField(name="delete_branch", label="Remove the run branch afterwards", kind="flag"),
        ),
        words=_landing,
    ),
    "discard": ActionRow(
        label="Discard",
        verb="discard",
        words=lambda _: ["--yes"],
        danger=True,
        confirm="Discard the result? Its branch is archived, not deleted.",
    ),
    "reset": ActionRow(
        label="Start again from nothing",
        verb="reset",
        about_task=True,
        words=lambda _: ["--yes"],
        danger=True,
        confirm="Start the task again from nothing? Its work so far stays at its refs.",
    ),
    "save": ActionRow(label="Save all work now", verb="save"),
    "review": ActionRow(label="Review", verb="review"),
}
"""Every action by its name."""


def argv_of(name: str, run: str, task: str | None, values: _Values) -> list[str]:
    """Return the words of the command behind an action, without `holdfast`. Raises HoldfastError if they cannot be made."""
    row = ACTIONS.get(name)
    if row is None:
        raise HoldfastError(f"there is no action {quoted(name)}{did_you_mean(name, list(ACTIONS))}", "")
    if row.about_task != (task is not None):
        wanted = "needs a task" if row.about_task else "is about a whole run"
        raise HoldfastError(f"{name} {wanted}", "`task` says which task it is about, and is left out else")
    for field in row.fields:
        if field.required and not values.get(field.name, "").strip():
            raise HoldfastError(f"{name} needs {quoted(field.name)}", f"say it in `fields`: {field.label}")
    if unknown := sorted(values.keys() - {field.name for field in row.fields}):
        raise HoldfastError(f"{name} has no field {quoted(unknown[0])}", "leave it out")
    return [row.verb, run, *([task] if task is not None else []), *row.words(values), "--json"]


def run_actions(state: RunState, view: StatusView) -> tuple[ActionView, ...]:
    """Return what can be done about a run now, without what is about one task; the most sensible comes first."""
    return tuple(_made(name, state, fields=fields) for name, fields in _possible(state, view))


def task_actions(state: RunState, task: str, view: RunView) -> tuple[ActionView, ...]:
    """Return what can be done about a task now; the most sensible comes first."""
    return tuple(_made(name, state, task, fields) for name, fields in _possible_for(state, task, view))


def next_action(state: RunState, view: StatusView) -> ActionView | None:
    """Return the one most sensible action about a run, its tasks included; None if nothing waits for a person.

    A run that was cut short is resumed first: its other agents wait for that, whatever one of them asks.
    """
    actions = {one.name: one for one in run_actions(state, view)}
    if view.run.ending in INTERRUPTED and "resume" in actions:
        return msgspec.structs.replace(actions["resume"], primary=True)
    for need in view.needs_you:
        wanted = "answer" if need.question else "take" if lacks_merge(state.tasks[need.task]) else "give"
        found = [one for one in task_actions(state, need.task, view.run) if one.name == wanted]
        if found:
            return msgspec.structs.replace(found[0], primary=True)
    first = ("accept_gate", "amend_budget", "resume_failed", "resume", "land")
    chosen = next((actions[name] for name in first if name in actions), None)
    return msgspec.structs.replace(chosen, primary=True) if chosen else None


_Possible = Iterator[tuple[str, tuple[ActionField, ...]]]


def _possible(state: RunState, view: StatusView) -> _Possible:
    run = view.run
    if run.status in RUN_IS_OVER:
        yield from _possible_with_result(state, run)
        return
    if gates := tuple(stage.id for stage in view.stages if stage.gate):
        yield "accept_gate", _with_options("accept_gate", gates)
    if run.resumable and not run.adopting:
        yield from _ways_to_resume(state)
    if run.held_by:
        if not (state.row.pausing or state.row.stopping):
            yield "pause", ACTIONS["pause"].fields
        yield "save", ()
    if run.held_by or run.status is RunStatus.INTERRUPTED:
        yield "stop", ()
    if state.row.tip != state.row.base:
        yield "review", ()
    if not run.adopting:
        yield "abandon", ()


def _possible_with_result(state: RunState, run: RunView) -> _Possible:
    """Yield what can be done about a run that is over: only one that has a result of its own has something to land."""
    if state.row.tip == state.row.base or run.branch_removed:
        return
    if run.status is RunStatus.COMPLETED and not run.landed_in:
        yield "land", ACTIONS["land"].fields
    yield "review", ()
    # Of an abandoned one nobody asks git each time whether its branch is still there.
    if run.status is RunStatus.COMPLETED and not run.archived_at:
        yield "discard", ()


def _ways_to_resume(state: RunState) -> _Possible:
    """Yield how a run at rest goes on. What is known to be in the way of just resuming it takes its place."""
    if run_overrun(state):
        asked = raising_command(state)
        fields = {"cost_usd": "--cost-usd" in asked, "tokens": "--tokens" in asked}
        wanted = tuple(field for field in ACTIONS["amend_budget"].fields if fields[field.name])
        yield "amend_budget", tuple(msgspec.structs.replace(field, required=True) for field in wanted)
        return
    if failed_tasks(state):
        yield "resume_failed", ()
    yield "resume", ACTIONS["resume"].fields if base_obstacle(state) else ()


def _possible_for(state: RunState, task: str, view: RunView) -> _Possible:
    row, held = state.tasks[task], view.held_by is not None
    if view.status in RUN_IS_OVER or view.adopting:
        return
    if asked := open_questions(row):
        yield "answer", _with_options("answer", asked[0].options)
    if _may(state, ev.TaskGiven(task=task)):
        yield "give", ACTIONS["give"].fields
    tried = row.attempt > 0 or row.status is not TaskStatus.PENDING
    if tried and _may(state, ev.TaskRetried(task=task)):
        yield "retry", ACTIONS["retry"].fields
    if _may(state, ev.TaskTaken(task=task)):
        yield "take", ()
    if _may(state, ev.TaskSkipped(task=task)):
        yield "skip", ()
    if tried and not held and _may(state, ev.TaskRewound(task=task)):
        yield "reset", ()


def _may(state: RunState, event: ev.TaskEvent) -> bool:
    try:
        allowed_move(TASK_EVENTS[type(event)], state.tasks[event.task], event)
    except IllegalEventError:
        return False
    return True


def _with_options(name: str, options: Sequence[str]) -> tuple[ActionField, ...]:
    return tuple(msgspec.structs.replace(field, options=tuple(options)) for field in ACTIONS[name].fields)


def _made(
    name: str, state: RunState, task: str | None = None, fields: tuple[ActionField, ...] = ()
) -> ActionView:
    row = ACTIONS[name]
    shown = {field.name: "…" for field in fields if field.required}
    words = [word for word in argv_of(name, state.row.run, task, shown) if word not in _UNSAID]
    return ActionView(
        name=name,
        label=row.label,
        command=shlex.join(["holdfast", *words]).replace("'…'", '"…"'),
        task=task,
        fields=fields,
        danger=row.danger,
        confirm=row.confirm,
    )
