"""One session of a run from the command line: foreground or background, its display, the exit code."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, YES, Arguments, amount, flag, option, positive
from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.output import for_people, new_settings_sentence, note, say, uncommitted_lines
from holdfast.cli.prompts import confirm, is_interactive
from holdfast.cli.sandbox_options import NETWORK, SANDBOX, asked_sandbox, tell_sandbox, tell_unkept_bounds
from holdfast.core.events import RunnerAttached
from holdfast.core.projection import RunRow
from holdfast.core.status import BaseStatus, RunStatus, TaskStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.protocol import StoredRun
from holdfast.process.cgroups import available_groups
from holdfast.process.programs import has_ended, start_in_background
from holdfast.repo.land_run import LandingConflictError
from holdfast.runner.context import Observer
from holdfast.runner.decisions.user_decisions import abandon
from holdfast.runner.health import settings_since_here
from holdfast.runner.landing.result_landing import (
    LandingRequest,
    conflict_refusal,
    land_result,
    landed_sentence,
    result_to_land,
)
from holdfast.runner.mirror.staging_worktree import remove_staging
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.session import RunOptions, execute_run
from holdfast.system_errors import machine_error
from holdfast.views.current_status import places_of_result
from holdfast.views.event_text import json_lines, plain_lines
from holdfast.views.spending_text import spending_words
from holdfast.views.status import status_view
from holdfast.views.status_text import next_steps
from holdfast.views.terminal import supports_live_display
from holdfast.views.text import block

_ATTACH_S = 30.0
_POLL_S = 0.05
_TAIL_CHARS = 2000


class RunResult(msgspec.Struct, frozen=True, kw_only=True, tag="Result", tag_field="kind"):
    """The last line of `run --json`: how the run rests."""

    run: str
    status: RunStatus
    exit_code: int


class Detached(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """What `run --detach --json` prints."""

    run: str
    pid: int
    output: str


FLEET = option("--fleet", "URL", "run agents and checks on the workers of this fleet (see `worker`)")

SESSION_ARGUMENTS: Arguments = (
    option("--jobs", "N", "how many tasks run at the same time", type=positive),
    option(
        "--tokens",
        "N",
        "let the run use this many tokens in all, instead of the plan's budget",
        type=positive,
    ),
    option(
        "--cost-usd", "USD", "let the run cost this much in all, instead of the plan's budget", type=amount
    ),
    SANDBOX,
    NETWORK,
    FLEET,
    flag("--dry-run", "say what would happen and do nothing"),
    flag("--detach", "run in the background"),
    flag(
        "--native-resume",
        "let agents resume their own session where that is possible, instead of starting fresh",
    ),
    flag("--accept-base", "start agents although the base fails its checks"),
    flag("--no-preflight", "start agents without a check of the base"),
    flag("--land", "when completed, merge the result into the branch it began on"),
    YES,
    JSON,
)


def start_session(opened: OpenRepo, run: str, args: Namespace, only: frozenset[str] | None = None) -> int:
    """Execute a run, or `only` some of its tasks, until it rests or, with `--detach`, until it has started."""
    options = RunOptions(
        jobs=args.jobs,
        only=only,
        native_resume=args.native_resume,
        tokens=args.tokens,
        cost_usd=args.cost_usd,
        sandbox=asked_sandbox(args),
        accepts_base=args.accept_base,
        skips_base_check=args.no_preflight,
        accepted_tip=getattr(args, "accept_branch", None) or "",
        tell=note,
    )
    stored = opened.journal.load(run)
    tell_sandbox(args, SandboxSetting.of_plan(stored.plan), SandboxSetting.of_run(stored.row))
    tell_unkept_bounds(stored.plan.limits, available_groups())
    if args.detach:
        words = options_as_typed(
            args, "jobs", "land", "native_resume", "tokens", "cost_usd", "sandbox", "no_sandbox", "network",
            "accept_base", "no_preflight",
        )  # fmt: skip
        words += ["--accept-branch", options.accepted_tip] if options.accepted_tip else []
        words += ["--only", ",".join(sorted(only))] if only else []
        return _run_in_background(opened, run, words, args)
    return _run_in_foreground(opened, run, options, args)


def options_as_typed(args: Namespace, *names: str) -> list[str]:
    """Return the given ones of the named options, as typed."""
    given = {f"--{name.replace('_', '-')}": getattr(args, name) for name in names}
    return [
        word
        for option, value in given.items()
        if value
        for word in ([option] if value is True else [option, str(value)])
    ]


def abandon_run(opened: OpenRepo, run: str, args: Namespace) -> None:
    """Abandon a run without a runner, and say so."""
    abandon(opened.repo, opened.journal, run, plain_lines(sys.stderr))
    say(f"Abandoned {run}; its branch and refs stay.", args)


def _run_in_foreground(opened: OpenRepo, run: str, options: RunOptions, args: Namespace) -> int:
    """Execute a run in the foreground until it rests; return its exit code."""
    with _observer(json=args.json) as observer:
        stored = _execute(opened, run, options, observer)
    if asked := _is_base_to_be_asked_about(stored, args):
        print(for_people("\n".join(block(stored.row.reason, "  "))))
        if confirm("Start the agents all the same?", yes=False):
            with _observer(json=args.json) as observer:
                stored = _execute(opened, run, replace(options, accepts_base=True), observer)
            asked = False
    code = exit_code(stored, chosen=options.only is not None)
    if found := settings_since_here(opened.repo, opened.journal, run):
        note(new_settings_sentence(run, found))
    if args.land and stored.row.status is RunStatus.COMPLETED:
        say(land_now(opened, stored.row), args)
    if args.json:
        print(msgspec.json.encode(RunResult(run=run, status=stored.row.status, exit_code=code)).decode())
    else:
        _summarise(opened, stored, is_told=asked)
        if (written := opened.directory(run).note).exists():
            print(f"  {written} says how far it is")
    return code


def _is_base_to_be_asked_about(stored: StoredRun, args: Namespace) -> bool:
    """Tell whether somebody at a terminal can say that agents may start although the base fails a check."""
    check = stored.row.base_check
    if stored.row.status is not RunStatus.BLOCKED or check.status is not BaseStatus.FAILED:
        return False
    return not (check.unrunnable or check.setup or args.json) and is_interactive()


def execute_visibly(opened: OpenRepo, run: str, options: RunOptions, *, json: bool) -> StoredRun:
    """Execute a run in the foreground until it rests, as a part of another command. With `json`, its lines are no result."""
    shown = nullcontext(plain_lines(sys.stderr)) if json else _observer(json=False)
    with shown as observer:
        return _execute(opened, run, options, observer)


def land_now(opened: OpenRepo, row: RunRow) -> str:
    """Merge a run's result into the branch where the run began, and return what became of it."""
    result = result_to_land(opened.repo, opened.journal, LandingRequest(row))
    try:
        landed = land_result(opened.repo, opened.journal, result)
    except LandingConflictError as conflict:
        raise conflict_refusal(result, conflict.files) from conflict
    return landed_sentence(result, landed) + remove_staging(opened.repo, row)


def _execute(opened: OpenRepo, run: str, options: RunOptions, observer: Observer) -> StoredRun:
    with _resumable(run):
        execute_run(opened.repo, opened.journal, run, options, observer)
    return opened.journal.load(run)


@contextmanager
def _resumable(run: str) -> Iterator[None]:
    """Point to `resume` if the machine ends a session: typed again, `run` would begin with a question."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise machine_error(error, f"`holdfast resume {run}`", f"carry on with run {run}") from error


def _run_in_background(opened: OpenRepo, run: str, arguments: list[str], args: Namespace) -> int:
    """Start a runner that outlives this command; return once it has attached to the run."""
    output = opened.directory(run).root / "runner.log"
    before = opened.journal.load(run).last_seq
    pid = start_in_background(["resume", run, "--yes", *arguments], output)
    _await_attachment(opened, run, before, pid, output)
    if args.json:
        print(msgspec.json.encode(Detached(run=run, pid=pid, output=str(output))).decode())
    else:
        print(f"{run} runs in the background (pid {pid}); its output is in {output}")
        say(
            f"`holdfast status {run} -f` follows it; `holdfast stop {run}` stops it; it can resume.",
            args,
        )
    return ExitCode.DONE


def exit_code(stored: StoredRun, *, chosen: bool = False) -> ExitCode:
    """Return the exit code for the state of a resting run. `chosen`: only some of its tasks were to be done.

    Stopped and paused are 130: the work is incomplete because somebody interrupted it, and `resume` continues. A script
    must not take that for done. A run that rests after the chosen tasks did all it was asked to: 0. Blocked is 1 if a
    task failed for good, else 3: a gate failed or the machine is in the way, and a person must decide.
    """
    status = stored.row.status
    if status is RunStatus.STOPPED or (status is RunStatus.PAUSED and not chosen):
        return ExitCode.INTERRUPTED
    if status is RunStatus.BLOCKED:
        failed = any(task.status is TaskStatus.ABANDONED for task in stored.tasks)
        return ExitCode.TASKS_FAILED if failed else ExitCode.NEEDS_DECISION
    return ExitCode.TASKS_FAILED if status is RunStatus.ABANDONED else ExitCode.DONE


def _observer(*, json: bool) -> AbstractContextManager[Observer]:
    if json:
        return nullcontext(json_lines(sys.stdout))
    if supports_live_display(sys.stdout):
        from holdfast.views.live import LiveTable

        return LiveTable()
    return nullcontext(plain_lines(sys.stdout))


def _await_attachment(opened: OpenRepo, run: str, before: int, pid: int, output: Path) -> None:
    """Return once the runner `pid` has recorded that it attached, even if it has ended since."""
    deadline = time.monotonic() + _ATTACH_S
    while True:
        over = has_ended(pid) or time.monotonic() > deadline
        events = (record.event for record in opened.journal.events(run, after=before))
        if any(isinstance(event, RunnerAttached) and event.pid == pid for event in events):
            return
        if over:
            said = (
                output.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:].strip()
                or "it ended without a message"
            )
            raise HoldfastError(f"the runner did not start: {said}", f"its output is in {output}")
        time.sleep(_POLL_S)


def _summarise(opened: OpenRepo, stored: StoredRun, *, is_told: bool = False) -> None:
    """Say how a run rests, and what to do next. `is_told`: why it rests was told before."""
    places = places_of_result(opened.repo.checkout, stored.row)
    view = status_view(stored, None, time.time(), places=places)
    metrics = view.metrics
    skipped = sum(task.status is TaskStatus.SKIPPED for task in view.tasks)
    print(
        f"{view.run.id} {view.run.status}: {metrics.completed} of {metrics.tasks} landed, {metrics.failed} failed"
        + (f", {skipped} skipped" if skipped else "")
        + (f"; {spent}" if (spent := spending_words(metrics.spending)) else "")
    )
    if view.run.detail and not is_told:
        print(for_people("\n".join(block(view.run.detail, "  "))))
    for line in (*next_steps(view), *uncommitted_lines(opened.repo, stored.row.run)):
        print(for_people(f"  {line}"))
