"""`adopt`: continue a run of another system. Its files, branches and working trees are only read."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from holdfast.agents.presets import Presets, agent_names, installed_presets, presets_of
from holdfast.cli.arguments import JSON, YES, Arguments, flag, option, positional
from holdfast.cli.consent import record_consent, show_commands, show_consent
from holdfast.cli.filter_consent import ask_about_filters
from holdfast.cli.installed_agents import choose_agent
from holdfast.cli.open_repo import OpenRepo, open_repo
from holdfast.cli.output import missing_runs_sentence, note, say, show
from holdfast.cli.prompts import choose_key, choose_number, confirm, is_interactive
from holdfast.core.adoption import SETTLED, TrustPolicy
from holdfast.core.status import RunStatus
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError, RepositoryError, did_you_mean, quoted
from holdfast.formats.discovery import ForeignSource, find_sources, read_source
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ForeignFormat, ForeignRun, all_formats, resume_from, resume_points
from holdfast.formats.registry import System
from holdfast.journal.records_server import place_of
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.adopt import adopt, adopted_before, adopted_earlier, plan_of
from holdfast.runner.adoption.assessment import AdoptionOptions, Assessment, assess
from holdfast.runner.adoption.server_sources import find_records
from holdfast.runner.health import runs_missing_in_journal
from holdfast.runner.mirror.mirror_records import is_server, records_owner
from holdfast.runner.mirror.mirror_writer import mirror_owner
from holdfast.views.adoption import (
    SourceLine,
    adoption_text,
    adoption_view,
    left_to_do,
    second_look,
    sources_text,
)
from holdfast.views.text import count, timestamp

_CHOICES_MAX = 9


ARGUMENTS: Arguments = (
    positional("path", "a state file, a folder with one, a repository, or a redis:// server"),
    flag("--list", "show every run of another system that is there"),
    flag("--dry-run", "say what would be adopted and change nothing"),
    option("--agent", "A", "the agent that works on it (the only one installed)", default=""),
    option("--base", "REV", "continue from there (the branch with the finished work)", default=""),
    flag("--accept-named", "accept a task that the files call done if a commit of the base names it"),
    flag("--trust-claims", "accept every task that the files call done, even without proof in git"),
    flag("--with-checkout", "take the checkout's uncommitted files as the running task's work"),
    option(
        "--from",
        "TASK",
        "continue at this task; the tasks before it count as done",
        dest="resume_at",
        default="",
    ),
    flag("--fresh", "make a new run even if one has these files"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Find another system's run, check it against git, and make a run of it. `--dry-run` only reports."""
    formats = all_formats()
    repo, sources = _found(args.path, formats)
    if args.list:
        return _list_sources(sources, formats, args)
    foreign = _choose_resume_point(read_source(_choose_source(sources, args), formats), args)
    options = AdoptionOptions(
        TrustPolicy(args.trust_claims, args.accept_named), args.base, args.with_checkout
    )
    assessment = assess(repo, foreign, options)
    if args.dry_run:
        show_commands(foreign.plan)
        return show(adoption_view(assessment), adoption_text, args)
    with open_repo(create=True, start=repo.checkout) as found:
        opened = ask_about_filters(found)
        if missing := runs_missing_in_journal(opened.repo, opened.journal):
            # Only git knows whether one of them has these files: they would be adopted again.
            note(missing_runs_sentence(missing))
        known = [listing.row.run for listing in opened.runs()]
        if run := _adopted_as(opened, assessment, args):
            already = f"Run {run} has it already.{_next_step(opened, run)}"
            return show(adoption_view(assessment, run), lambda _: already, args)
        return _adopt(opened, assessment, options, args, known)


def _found(path: str, formats: Mapping[System, ForeignFormat]) -> tuple[Repository, list[ForeignSource]]:
    """Return the repository, and the runs at a path or in a server."""
    if is_server(path):
        return Repository.open(Path.cwd()), find_records(path, formats)
    repo = _repository_of(Path(path))
    return repo, find_sources(Path(path), repo.checkout, formats)


def _repository_of(path: Path) -> Repository:
    """Open the repository that the files are in, or else the one around the current directory."""
    folder = path if path.is_dir() else path.parent
    try:
        return Repository.open(folder)
    except RepositoryError:
        return Repository.open(Path.cwd())


def _list_sources(
    sources: Sequence[ForeignSource], formats: Mapping[System, ForeignFormat], args: Namespace
) -> int:
    """Show every run that was found. A system with its own list shows that, too."""
    show([_line(source, formats) for source in sources], sources_text, args)
    for system, own in formats.items():
        states = {source.main: source.documents[source.main] for source in sources if source.system is system}
        if own.list_runs and states and not args.json:
            print("", own.list_runs(states), sep="\n")
    return ExitCode.DONE


def _line(source: ForeignSource, formats: Mapping[System, ForeignFormat]) -> SourceLine:
    said = source.updated
    updated = timestamp(said or source.touched_at)
    by: Literal["state", "file"] = "state" if said else "file"
    try:
        run = read_source(source, formats)
    except BrokenFileError as error:
        return SourceLine(
            system=source.system,
            main=source.main,
            updated_at=updated,
            updated_by=by,
            error=error.message,
        )
    open_tasks = {claim.task for claim in run.claims if claim.standing not in SETTLED}
    stages = [stage.id for stage, task in run.plan.tasks() if task.id in open_tasks]
    return SourceLine(
        system=source.system,
        name=run.name,
        main=source.main,
        tasks=len(run.claims),
        done=len(run.claims) - len(open_tasks),
        stage=next(iter(stages), ""),
        updated_at=updated,
        updated_by=by,
        resumable=bool(open_tasks),
    )


def _choose_source(sources: Sequence[ForeignSource], args: Namespace) -> ForeignSource:
    """Return the only run, or the one that the user picks on a terminal."""
    if len(sources) == 1:
        return sources[0]
    if is_interactive() and not args.json and len(sources) <= _CHOICES_MAX:
        lines = [f"{source.system}  {source.main}" for source in sources]
        picked = choose_number("Which one?", lines, quit_key="q")
        if picked is not None:
            return sources[picked]
        raise NeedsDecisionError("nothing was adopted", "`holdfast adopt PATH --list` shows what there is")
    commands = "\n".join(f"holdfast adopt {shlex.quote(source.named)}" for source in sources)
    where = place_of(args.path) if is_server(args.path) else args.path
    raise NeedsDecisionError(
        f"{where} holds {count(len(sources), 'run')} of other systems; name one", commands
    )


def _choose_resume_point(foreign: ForeignRun, args: Namespace) -> ForeignRun:
    """Return the run with one place to continue: the named one, the one picked on a terminal, else the earliest."""
    if args.resume_at:
        tasks = [claim.task for claim in foreign.claims]
        if args.resume_at not in tasks:
            raise HoldfastError(
                f"there is no task {quoted(args.resume_at)}{did_you_mean(args.resume_at, tasks)}",
                "`holdfast adopt PATH --dry-run` names the tasks",
            )
        return resume_from(foreign, args.resume_at)
    points = list(resume_points(foreign).items())[:_CHOICES_MAX]
    if not points or not is_interactive() or args.json or args.yes or args.dry_run:
        return foreign
    picked = choose_number("Where does it continue?", [f"{task}  {why}" for task, why in points])
    return resume_from(foreign, points[picked or 0][0])


def _adopted_as(opened: OpenRepo, assessment: Assessment, args: Namespace) -> str:
    """Return the run that was made from exactly these files, or an empty string.

    Raises NeedsDecisionError if a run was made from them before they changed, or if they are our own mirror.
    """
    if args.fresh:
        return ""
    row = adopted_before(opened.journal, assessment.digest)
    if row is not None:
        return "" if row.adopting else row.run
    foreign = assessment.foreign
    state, runs = foreign.documents.get(foreign.main, b""), (one.row.run for one in opened.runs())
    ours = mirror_owner(opened.repo, foreign.system, foreign.main, state) or records_owner(
        opened.repo, runs, foreign.system, state
    )
    if ours:
        raise NeedsDecisionError(
            f"Holdfast itself writes {foreign.main} for run {ours}",
            f"`holdfast resume {ours}` continues that run; --fresh makes a new one from the file",
        )
    earlier = adopted_earlier(opened.journal, foreign)
    if earlier is not None:
        raise NeedsDecisionError(
            f"run {earlier.run} was adopted from {foreign.main} before it changed, and is unfinished",
            f"`holdfast resume {earlier.run}` continues that run; --fresh adopts the file as it is now",
        )
    return ""


def _adopt(
    opened: OpenRepo, assessment: Assessment, options: AdoptionOptions, args: Namespace, known: Sequence[str]
) -> int:
    presets = presets_of(opened.repo.checkout)
    agent = _agent(assessment.foreign, args.agent, presets)
    if is_interactive() and not args.json and not args.yes:
        options = _ask_about_claims(assessment, options)
        assessment = assess(opened.repo, assessment.foreign, options)
    plan = plan_of(assessment, agent, {}, agent_names(presets))
    run = adopt(opened.repo, opened.journal, assessment, options, plan, assessment.foreign.main, known)
    if args.yes:
        # The answer in advance covers what is listed, and nothing else.
        stored = opened.journal.load(run).plan
        show_consent(stored, presets, opened.repo.checkout)
        record_consent(opened.journal, stored, presets, opened.repo.checkout)
    view = adoption_view(assessment, run)
    show(view, adoption_text, args)
    if not args.json:
        saved = len(assessment.unfinished)
        work = f", {count(saved, 'task')} with unfinished work" if saved else ""
        say(f"\nAdopted as {run}: {left_to_do(view)} left to do{work}.{_next_step(opened, run)}", args)
    return ExitCode.DONE


def _ask_about_claims(assessment: Assessment, options: AdoptionOptions) -> AdoptionOptions:
    """Show what was found and let the user choose what counts as done. Quitting raises NeedsDecisionError."""
    view = adoption_view(assessment)
    print(adoption_text(view))
    key = "a"
    if look := second_look(view):
        question = f"[a]dopt, {look}; accept [n]amed commits; [t]rust the files; [q]uit?"
        key = choose_key(question, "antq", default="a")
    elif not confirm("Make a run of it?", yes=False):
        key = "q"
    if key == "q":
        raise NeedsDecisionError("nothing was adopted", "use --yes to adopt without being asked")
    policy = options.policy
    trust = TrustPolicy(policy.trust_claims or key == "t", policy.accept_named or key in "nt")
    return replace(options, policy=trust)


def _agent(foreign: ForeignRun, named: str, presets: Presets) -> str:
    """Return the agent that works on the run: the named one, or the only one that is installed."""
    if named:
        return choose_agent(named, presets)
    if not any(task.prompt and not task.agent for _, task in foreign.plan.tasks()):
        return ""
    installed = installed_presets(presets)
    if len(installed) == 1:
        return installed[0]
    found = f"{', '.join(installed)} are installed" if installed else "no known agent is on the PATH"
    raise NeedsDecisionError(
        f"{found}, and {foreign.main} names no agent",
        "name the agent: `holdfast adopt PATH --agent NAME`",
    )


def _next_step(opened: OpenRepo, run: str) -> str:
    """Say what to do with a run: one that is over is not continued."""
    status = opened.journal.load(run).row.status
    if status is RunStatus.COMPLETED:
        return f" It is completed: `holdfast review {run}` shows the result; --fresh adopts the files again."
    if status is RunStatus.ABANDONED:
        return " It was abandoned; --fresh adopts the files again."
    return f" `holdfast resume {run}` continues it."
