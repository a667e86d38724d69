"""`answer`: answer what an agent asked. Its task goes on at once, or with the next `resume`."""

from __future__ import annotations

import shlex
from argparse import Namespace

from holdfast.cli.arguments import JSON, RUN_OF_TASK, TASK, Arguments, positional
from holdfast.cli.open_repo import OpenRepo, choose_task, names_a_run, open_repo, run_with_task
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.core.people import open_questions
from holdfast.core.projection import Question
from holdfast.errors import HoldfastError
from holdfast.escapes import without_controls
from holdfast.journal.protocol import StoredRun
from holdfast.redaction import redact
from holdfast.runner.decisions.user_decisions import apply_decision, record_decision
from holdfast.runner.requests import Request, ask_runner
from holdfast.views.text import one_line

ANSWER_CHARS_MAX = 16_000
ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    positional("answer", "what the agent is told, in quotes; a number chooses an option", nargs="+"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Record the answer to the oldest open question of a task, or ask the live runner to."""
    with open_repo() as opened:
        _refuse_without_quotes(opened, args)
        stored, task = choose_task(opened, args.run, args.task)
        run, row = stored.row.run, stored.state().tasks[task]
        asked = open_questions(row)
        if not asked:
            raise HoldfastError(
                f"task {task} has not asked anything that is open", f"`holdfast status {run}` shows who has"
            )
        answer = chosen(asked[0], person_words(args.answer[0], "the answer"))
        event = ev.QuestionAnswered(task=task, answer=answer)
        then = decide_now(opened, stored, event, Request(action="answer", task=task, words=answer))
        detail = f'{task} is answered: "{one_line(answer)}". {then}'
        if len(asked) > 1:
            detail = f"{task} is answered. It also asks: {one_line(asked[1].question)}"
        return print_result(opened, run, detail, args, task=task)


def _refuse_without_quotes(opened: OpenRepo, args: Namespace) -> None:
    """Raise HoldfastError if the answer is typed as several words, the first of which then look like a run and a task."""
    typed = [word for word in (args.run, args.task, *args.answer) if word is not None]
    named = 1
    if args.run is not None and (names_a_run(opened, args.run) or run_with_task(opened, args.run) is None):
        named = 2
    if len(typed) > named + 1:
        command = shlex.join(["holdfast", "answer", *typed[:named], " ".join(typed[named:])])
        raise HoldfastError("the answer must be one word, or in quotes", f"`{command}`")


def decide_now(opened: OpenRepo, stored: StoredRun, event: ev.TaskEvent, request: Request) -> str:
    """Record what a person decided about a task, or ask the live runner to; return how it goes on."""
    run = stored.row.run
    if (held := opened.holder(run)) is None:
        record_decision(opened.repo, opened.journal, run, event)
        return f"`holdfast resume {run}` goes on with it."
    # A decision that the state does not allow is refused here, not by the runner.
    apply_decision(stored.state(), event)
    ask_runner(opened.directory(run), request)
    return f"The runner of {run} ({held}) goes on with it."


def chosen(asked: Question, answer: str) -> str:
    """Return the answer in words: a number stands for the option with that number."""
    if asked.options and answer.isdecimal():
        if not 1 <= int(answer) <= len(asked.options):
            raise HoldfastError(
                f"there is no option {answer}", f"give a number from 1 to {len(asked.options)}, or a text"
            )
        return asked.options[int(answer) - 1]
    return answer


def person_words(text: str, what: str) -> str:
    """Return what a person typed as it may be kept and shown to agents. Raises HoldfastError if it says nothing."""
    words = redact(without_controls(text.encode(errors="replace").decode())).strip()
    if not words or len(words) > ANSWER_CHARS_MAX:
        raise HoldfastError(
            f"{what} is {'too long' if words else 'empty'}", f"give 1 to {ANSWER_CHARS_MAX} characters"
        )
    return words
