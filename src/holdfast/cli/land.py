"""`land`: bring a run's result into a branch of the user, merged, squashed, rebased, or as a pull request."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import presets_of
from holdfast.cli.arguments import ACCEPT_BRANCH, JSON, YES, Arguments, flag, one_of, option, positional
from holdfast.cli.consent import is_agreed, require_consent
from holdfast.cli.open_repo import OpenRepo, choose_latest_run, open_repo
from holdfast.cli.output import CommandResult, as_json, command_result, say
from holdfast.cli.prompts import confirm, is_interactive, require_yes
from holdfast.cli.run_session import execute_visibly, exit_code
from holdfast.core.ids import short_name
from holdfast.core.status import RUN_IS_OVER, RunStatus, TaskStatus
from holdfast.errors import ExitCode, HoldfastError, LeaseHeldError, NeedsDecisionError
from holdfast.repo.land_run import LandingConflictError, LandingMethod, require_branch
from holdfast.reporting.needs_you import needs_you
from holdfast.runner.landing.conflict_run import (
    RESOLVE_TASK,
    conflict_plan,
    conflicting_files,
    create_conflict_run,
)
from holdfast.runner.landing.result_landing import (
    LandingRequest,
    ResultToLand,
    conflict_refusal,
    land_result,
    landed_sentence,
    nothing_landed,
    remove_landed_branches,
    resolving_runs,
    result_to_land,
    run_landed_by,
    waiting_run,
)
from holdfast.runner.mirror.staging_worktree import remove_staging
from holdfast.runner.sandbox_setting import SandboxRequest
from holdfast.runner.session import RunOptions, finish_completed, require_history

ARGUMENTS: Arguments = (
    positional(
        "runs",
        "run ids, numbers or beginnings of their names, landed one after the other (the latest)",
        nargs="*",
        metavar="RUN",
    ),
    option("--into", "BRANCH", "the branch to land in (where the run began)"),
    one_of(
        flag("--squash", "land the whole run as one commit"),
        flag("--rebase", "land each task as one commit, without merges"),
        flag("--pr", "push the run branch and open a pull request, with `gh` or `glab` if they are there"),
    ),
    option("--remote", "NAME", "with --pr: where to push to (the remote of the target branch, or origin)"),
    flag("--resolve", "let an agent resolve conflicts with the branch, in a run of its own"),
    option("--agent", "AGENT", "with --resolve: the agent (the plan's)"),
    flag("--delete-branch", "remove the run branch once its result is in the branch; its tip stays archived"),
    ACCEPT_BRANCH,
    YES,
    JSON,
)
_QUESTIONS = {
    LandingMethod.MERGE: "Merge {branch} into {target}?",
    LandingMethod.SQUASH: "Land {branch} in {target} as one commit?",
    LandingMethod.REBASE: "Land {branch} in {target} as one commit per task?",
}


class ConflictRunRestsError(Exception):
    """The run that resolves conflicts rests without a result. `code` is how it ended."""

    def __init__(self, run: str, code: ExitCode) -> None:
        super().__init__(run)
        self.run = run
        self.code = code


def execute(args: Namespace) -> int:
    """Land runs one after the other. Idempotent: what has landed before is named, and not asked about."""
    _refuse_lonely_options(args)
    with open_repo() as opened:
        requests = [_request(opened, name, args) for name in args.runs or [None]]
        done: list[CommandResult] = []
        try:
            for request in requests:
                done.append(_land_or_push(opened, request, args))
                _print_for_people(done[-1], args)
        except ConflictRunRestsError as rests:
            request = requests[len(done)]
            way_on = _way_on(opened, request, rests.run)
            say(f"{request.row.run} has not landed: run {rests.run} rests. {way_on}", args)
            return rests.code
        finally:
            _print_for_programs(done, requests, args)
    return ExitCode.DONE


def _land_or_push(opened: OpenRepo, request: LandingRequest, args: Namespace) -> CommandResult:
    if not args.pr:
        return command_result(opened, request.row.run, _land(opened, request, args))
    from holdfast.cli.pull_request import make_pull_request

    return make_pull_request(opened, request, args)


def _request(opened: OpenRepo, named: str | None, args: Namespace) -> LandingRequest:
    """Return what to land. A run that resolves conflicts stands for the run whose result it lands.

    If it is named, that goes into the branch for which it resolved them. Raises NeedsDecisionError if no run is named, and
    the latest has nothing while another result waits.
    """
    chosen = choose_latest_run(opened, named)
    row = run_landed_by(opened.journal, chosen)
    if named is None and row.tip == row.base and (waiting := waiting_run(opened.repo, opened.journal)):
        instead = LandingRequest(waiting, args.into or "", options=_shape(args))
        raise NeedsDecisionError(
            f"nothing of {row.run} has landed yet, and run {waiting.run} waits to be landed",
            f"`{instead.command()}` lands the result that waits",
        )
    if opened.journal.lease_s is not None:
        require_history(opened.repo, row)
    resolved_for = chosen.target if named is not None and row.run != chosen.run else ""
    return LandingRequest(row, args.into or resolved_for, args.accept_branch or "", _shape(args))


def _shape(args: Namespace) -> tuple[str, ...]:
    """Return the options that say how to land, so that what is hinted at does it in the same way."""
    flags = {
        "--squash": args.squash,
        "--rebase": args.rebase,
        "--pr": args.pr,
        "--delete-branch": args.delete_branch,
    }
    remote = ("--remote", args.remote) if args.remote else ()
    return (*(name for name, is_set in flags.items() if is_set), *remote)


def _way_on(opened: OpenRepo, request: LandingRequest, resting: str) -> str:
    """Return what lets the run go on that resolves the conflicts of another: what it waits for comes first."""
    state = opened.journal.load(resting).state()
    again = f"`{request.command('--resolve')}` goes on"
    if needs := needs_you(state):
        return f"{needs[0].task} {needs[0].words}: `{needs[0].command}`; then {again}."
    if any(task.status is TaskStatus.ABANDONED for task in state.tasks.values()):
        return (
            f"`holdfast inspect {resting} {RESOLVE_TASK}` shows why its agents failed; "
            f"`holdfast retry {resting} {RESOLVE_TASK}` lets them try again (--hint and --agent help); then {again}."
        )
    return f"`holdfast resume {resting}` or `{request.command('--resolve')}` continues it."


def _refuse_lonely_options(args: Namespace) -> None:
    if args.remote and not args.pr:
        raise HoldfastError("--remote is for pull requests", "add --pr, or leave it out")
    if args.agent and not args.resolve:
        raise HoldfastError(
            "--agent is for conflicts that an agent resolves", "add --resolve, or leave it out"
        )
    if args.pr and (args.resolve or args.delete_branch):
        raise HoldfastError(
            "with --pr nothing lands here: there is nothing to resolve or to remove yet",
            "leave --resolve and --delete-branch out",
        )


def _print_for_people(one: CommandResult, args: Namespace) -> None:
    """Print what became of a run as soon as that is so: what comes next may fail."""
    if not args.json:
        print(
            "\n".join([one.detail, *(f"  {name}: {where}" for name, where in one.kept.items())]), flush=True
        )


def _print_for_programs(
    done: Sequence[CommandResult], requests: Sequence[LandingRequest], args: Namespace
) -> None:
    """Print what became of the runs: of one, an object; of several, a list, which is shorter if one was refused."""
    if args.json and (done or len(requests) > 1):
        print(as_json(done[0] if len(requests) == 1 else list(done)))


def _land(opened: OpenRepo, request: LandingRequest, args: Namespace) -> str:
    """Land one run and return what became of it. Nothing is asked if there is nothing to do."""
    row, result = request.row, result_to_land(opened.repo, opened.journal, request)
    if result.is_empty:
        return nothing_landed(row, f"there is nothing to bring into {result.target}")
    method = (
        LandingMethod.SQUASH if args.squash else LandingMethod.REBASE if args.rebase else LandingMethod.MERGE
    )
    require_branch(opened.repo, result.target)
    if not result.is_in(opened.repo):
        if row.status is not RunStatus.COMPLETED and not args.yes:
            raise NeedsDecisionError(
                f"run {row.run} is {row.status}, not completed",
                f"`holdfast resume {row.run}` finishes it; --yes lands what there is",
            )
        question = _QUESTIONS[method].format(branch=short_name(row.branch), target=result.target)
        require_yes(question, args, "nothing was landed")
    sentence = _land_or_resolve(opened, result, method, args) + remove_staging(opened.repo, row)
    if args.delete_branch:
        # What was resolved meanwhile belongs to the result as well.
        result = result_to_land(opened.repo, opened.journal, request)
        removed = remove_landed_branches(opened.repo, result)
        sentence += f" Removed {', '.join(removed)}." if removed else ""
    return sentence


def _land_or_resolve(opened: OpenRepo, result: ResultToLand, method: LandingMethod, args: Namespace) -> str:
    """Land a result. As long as it conflicts with the branch, have the conflicts resolved and try again."""
    while True:
        for resolving in result.results[1:]:
            with suppress(LeaseHeldError):  # its runner lives, and does this itself
                finish_completed(opened.repo, opened.journal, resolving.run)
        try:
            landed = land_result(opened.repo, opened.journal, result, method)
        except LandingConflictError as conflict:
            _resolve(opened, result, conflict, args)
            result = result_to_land(opened.repo, opened.journal, result.request)
        else:
            return landed_sentence(result, landed)


def _resolve(opened: OpenRepo, result: ResultToLand, conflict: LandingConflictError, args: Namespace) -> None:
    """Execute the run that resolves the conflicts until it is completed; make it if there is none yet.

    Raises NeedsDecisionError if the user does not want that, ConflictRunRestsError if that run rests.
    """
    files = conflicting_files(opened.repo, result, conflict.onto)
    if not files:
        raise NeedsDecisionError(
            f"task by task, {result.row.run} conflicts with {result.target} in {', '.join(conflict.files)}; as a whole it does not",
            f"`{replace(result.request, options=('--squash',)).command()}` lands it as one commit",
        )
    first = result.results[0]
    begun = resolving_runs(opened.journal, first.run, first.tip, result.target)
    resting = next((row.run for row in reversed(begun) if row.status not in RUN_IS_OVER), "")
    _require_resolve(result, files, resting, args)
    run = resting or _new_run(opened, result, conflict, args)
    opened.require_free(run)
    say(f"Run {run} resolves conflicts in {', '.join(files)}.", args)
    # What the user chose for the run holds for what lands it, too.
    sandbox = SandboxRequest(result.row.sandbox, result.row.network)
    stored = execute_visibly(opened, run, RunOptions(sandbox=sandbox), json=args.json)
    if stored.row.status is not RunStatus.COMPLETED:
        raise ConflictRunRestsError(run, exit_code(stored))


def _require_resolve(result: ResultToLand, files: Sequence[str], resting: str, args: Namespace) -> None:
    if args.resolve:
        return
    if is_interactive() and not args.yes:
        who = f"run {resting} go on and resolve them" if resting else "an agent resolve them"
        if confirm(f"Conflicts in {', '.join(files)}. Let {who}?", yes=False):
            return
    raise conflict_refusal(result, files, resting)


def _new_run(opened: OpenRepo, result: ResultToLand, conflict: LandingConflictError, args: Namespace) -> str:
    """Make the run that resolves conflicts. Who agreed to the plan of the run agreed to its agents and checks."""
    known = [listing.row.run for listing in opened.runs()]
    stored = opened.journal.load(result.row.run)
    plan = conflict_plan(stored, result, conflict.onto, args.agent or "")
    presets = presets_of(opened.checkout)
    agreed = not args.agent and is_agreed(opened.journal, stored.plan, presets, opened.checkout)
    if agreed:
        import time

        opened.journal.confirm_plan(consent_digest(plan, presets), time.time())
    else:
        require_consent(opened.journal, plan, opened.checkout, yes=args.yes)
    return create_conflict_run(opened.repo, opened.journal, result, conflict.onto, plan, known)
