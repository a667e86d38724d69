"""What a task needs from a person: the answer to a question of its agent, or that the person who took it gives it back.

Pure. Such a task is `blocked` wherever it would otherwise rest, and no resume starts it: `state.py` and `decide.py` ask here.
What their events change is here, too; their rows are in `task_transitions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.plan import Limits
from holdfast.core.projection import Question, RunRow, Taken, TaskRow
from holdfast.core.status import FailureKind, TaskStatus

PERSON = "you"
"""Stands for the agent of an attempt that a person made by hand."""
QUESTIONS_MAX = 20
"""How many questions an attempt may ask. An agent that asks more is not heard."""
_MERGED_FAILURES = (FailureKind.CONFLICT, FailureKind.SIDE_LOST, FailureKind.MERGED_CHECK)


def open_questions(task: TaskRow) -> tuple[Question, ...]:
    """Return the questions that nobody has answered and that somebody still may."""
    return tuple(one for one in task.questions if not one.answer and not one.closed)


def asked_in_latest(task: TaskRow) -> bool:
    """Tell whether the latest attempt asked something: then it ended there, and what it left is not finished work."""
    return any(one.attempt == task.attempt for one in task.questions)


def has_new_answer(task: TaskRow) -> bool:
    """Tell whether the latest attempt asked and was answered: its agent's own session is the best to continue."""
    return any(one.attempt == task.attempt and one.answer for one in task.questions)


def waits_for_person(task: TaskRow) -> bool:
    """Tell whether a task at rest must not be tried: its question is open, or a person has it and has not given it back."""
    return bool(open_questions(task)) or (task.taken is not None and not task.taken.given)


def start_by_hand(run: RunRow, task: TaskRow) -> str:
    """Return what a person who takes a task begins with: all that there is of it, also what an agent would start without."""
    finished = task.latest.head if task.recheck else ""
    return finished or task.set_aside or task.carry or run.tip


def is_being_handed_over(task: TaskRow) -> bool:
    """Tell whether the workspace of the person who took a task is being made."""
    return task.taken is not None and bool(task.taken.start) and not task.taken.ready


def needed_from_person(run: str, task: TaskRow) -> str:
    """Return what a blocked task needs from a person, with the command for it; empty if it is neither asking nor taken.

    What was given needs no command: it is taken in when the run goes on.
    """
    if asked := open_questions(task):
        return f'{task.id} asks: {question_line(asked[0])} (`holdfast answer {run} {task.id} "…"`)'
    if task.taken is None:
        return ""
    command = "" if task.taken.given else f" (`{next_command(run, task)}`)"
    return f"{task.id} is {taken_words(task)}{command}"


def next_command(run: str, task: TaskRow) -> str:
    """Return what the person who took a task types next."""
    return f"holdfast {'take' if lacks_merge(task) else 'give'} {run} {task.id}"


def lacks_merge(task: TaskRow) -> bool:
    """Tell whether a person's work did not merge, and what it met was not put into the workspace yet: `take` again does that."""
    taken, last = task.taken, task.failures[-1] if task.failures else None
    if taken is None or not taken.ready or taken.given or last is None:
        return False
    return last.attempt == task.attempt and last.kind in _MERGED_FAILURES and taken.start != task.carry


def question_line(asked: Question) -> str:
    """Return a question with its numbered options, on one line."""
    options = (" ".join(option.split()) for option in asked.options)
    choices = "  ".join(f"[{number}] {option}" for number, option in enumerate(options, start=1))
    question = " ".join(asked.question.split())
    return f"{question}  {choices}" if choices else question


def taken_words(task: TaskRow) -> str:
    """Return how a taken task stands, as words after "it is"."""
    if task.taken is not None and task.taken.given:
        return "given by you; it is taken in when the run goes on"
    place = f", in {task.taken.place}" if task.taken is not None and task.taken.place else ""
    return f"taken by you{place}" + (f": {task.error}" if task.error else "")


# -- what the events of people change --------------------------------------------------------------------------

EVENTS = frozenset(
    {
        ev.QuestionAnswered,
        ev.TaskTaken,
        ev.HandOverStarted,
        ev.HandOverInterrupted,
        ev.TaskHandedOver,
        ev.TaskGiven,
    }
)
"""The events that ask for more than a status of the task: see `obstacle`."""


def obstacle(kind: type[ev.Event], task: TaskRow) -> str:
    """Return why one of `EVENTS` may not happen to a task now, as words after "the task"; empty if it may."""
    taken = task.taken
    if kind is ev.QuestionAnswered:
        return "" if open_questions(task) else "has no open question"
    if kind is ev.TaskTaken:
        # One that is ready may be taken anew, to get what the run made of the person's work.
        busy = taken is not None and (task.status is TaskStatus.RUNNING or not taken.ready or taken.given)
        return "is taken already" if busy else ""
    if taken is None:
        return "is not taken by anybody"
    fits = {
        ev.HandOverStarted: not taken.start,
        ev.HandOverInterrupted: is_being_handed_over(task),
        ev.TaskHandedOver: is_being_handed_over(task),
        # Until it is taken in, a person may give it otherwise: to the agents, or with another message.
        ev.TaskGiven: taken.ready,
    }
    return "" if fits[kind] else "is given already" if taken.given else "is being handed over"


def fold(_run: RunRow, _limits: Limits, task: TaskRow, event: ev.TaskEvent) -> None:
    """Change a task's row by a question, an answer, or what a person who takes a task does."""
    taken = task.taken or Taken()
    match event:
        case ev.QuestionAsked():
            _ask(task, event)
        case ev.QuestionAnswered():
            first = open_questions(task)[0]
            task.questions = tuple(
                replace(one, answer=event.answer) if one is first else one for one in task.questions
            )
        case ev.TaskTaken() | ev.HandOverInterrupted():
            task.taken = Taken(message=taken.message)
        case ev.HandOverStarted():
            # Finished work that waits for its checks is the person's to continue from here on.
            task.carry = task.latest.head if task.recheck else task.carry
            task.taken, task.recheck = Taken(start=event.start, message=taken.message), False
        case ev.TaskHandedOver():
            task.taken = replace(taken, ready=True, place=event.place)
        case ev.TaskGiven():
            message = event.message or taken.message
            task.taken = replace(taken, given="back" if event.back else "check", message=message)


def _ask(task: TaskRow, event: ev.QuestionAsked) -> None:
    asked = Question(attempt=event.attempt, question=event.question, options=event.options)
    task.questions = (*task.questions, *heard_questions(task, [asked]))


def heard_questions(task: TaskRow, asked: Iterable[Question]) -> list[Question]:
    """Return which questions of the latest attempt are heard: each once as long as it is open, and no flood of them."""
    still_open = {(one.question, one.options) for one in open_questions(task)}
    new = {(one.question, one.options): one for one in asked}
    room = QUESTIONS_MAX - sum(one.attempt == task.attempt for one in task.questions)
    return [one for words, one in new.items() if words not in still_open][: max(0, room)]


def close_questions(task: TaskRow) -> None:
    """Note that nobody needs to answer what is still open: something else is asked of the task now, or it is settled."""
    still_open = open_questions(task)
    task.questions = tuple(replace(one, closed=True) if one in still_open else one for one in task.questions)


def release(task: TaskRow) -> None:
    """Settle whatever a person was asked or had taken. What is in the person's workspace stays there."""
    close_questions(task)
    task.taken = None


def end_given(task: TaskRow) -> None:
    """Note that what a person gave has been taken in. Unless it lands, the task is the person's still, with its message."""
    if task.taken is not None and task.taken.given:
        task.taken = replace(task.taken, given="")
