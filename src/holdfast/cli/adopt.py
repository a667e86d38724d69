"""Asking where to go on, when what another system left allows several answers."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.agents.presets import Presets, agent_names, installed_presets, presets_of
from holdfast.cli.open_repo import OpenRepo, open_repo
from holdfast.cli.prompts import choose_key, confirm, is_interactive
from holdfast.cli.status import as_json
from holdfast.core.adoption import TrustPolicy
from holdfast.core.claims import SETTLED
from holdfast.core.plan import plan_hash
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError, RepositoryError, did_you_mean, quoted
from holdfast.formats.discovery import ForeignSource, find_sources, read_source
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import ForeignFormat, ForeignRun, all_formats, resume_from, resume_points
from holdfast.formats.registry import System
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.adopt import adopt as make_run, adopted_before, adopted_earlier, plan_of
from holdfast.runner.adoption.assessment import AdoptionOptions, Assessment, assess
from holdfast.runner.mirror.mirror_writer import mirror_owner
from holdfast.runner.recovery.invariant_evidence import runs_missing_in_journal
from holdfast.views.adoption import (
    SourceLine,
    adoption_text,
    adoption_view,
    is_doubtful,
    left_to_do,
    sources_text,
)
from holdfast.views.text import count, timestamp


def choose_resume_point(foreign: ForeignRun, args: argparse.Namespace) -> ForeignRun:
    """Return the run with one place to go on: the named one, the one chosen on a terminal, else the earliest."""
    if args.resume_at:
        return resume_from(foreign, _known(foreign, args.resume_at))
    points = list(resume_points(foreign).items())[:9]
    if not points or not is_interactive() or args.json or args.yes or args.dry_run:
        return foreign
    print("\n".join(f"  {number}  {task}  {why}" for number, (task, why) in enumerate(points, 1)))
    keys = "".join(str(number) for number in range(1, len(points) + 1))
    key = choose_key(f"Where does it go on? [1-{len(points)}]", keys + keys[0], default=keys[0])
    return resume_from(foreign, points[int(key) - 1][0])


def _known(foreign: ForeignRun, named: str) -> str:
    tasks = [claim.task for claim in foreign.claims]
    if named not in tasks:
        raise HoldfastError(
            f"there is no task {quoted(named)}{did_you_mean(named, tasks)}",
            "`holdfast adopt PATH --dry-run` names the tasks",
        )
    return named


def repository_of(path: Path) -> Repository:
    """Open the repository that the files lie in; for files that lie in none, the one around the user."""
    folder = path if path.is_dir() else path.parent
    try:
        return Repository.open(folder)
    except RepositoryError:
        return Repository.open(Path.cwd())


def list_sources(
    sources: Sequence[ForeignSource], formats: Mapping[System, ForeignFormat], args: argparse.Namespace
) -> int:
    """Show every run that was found. A system that has a list of its own shows that as well."""
    lines = [_line(source, formats) for source in sources]
    print(as_json(lines) if args.json else sources_text(lines))
    for system, own in formats.items():
        states = {source.main: source.documents[source.main] for source in sources if source.system is system}
        if own.list_runs and states and not args.json:
            print("", own.list_runs(states), sep="\n")
    return ExitCode.DONE


def choose_source(sources: Sequence[ForeignSource], args: argparse.Namespace) -> ForeignSource:
    """Return the run that is meant: the only one, or the one that the user picks on a terminal."""
    if len(sources) == 1:
        return sources[0]
    lines = [f"{number}  {source.system}  {source.main}" for number, source in enumerate(sources, 1)]
    if is_interactive() and not args.json and len(sources) < 10:
        print("\n".join(f"  {line}" for line in lines))
        keys = "".join(str(number) for number in range(1, len(sources) + 1)) + "q"
        key = choose_key(f"Which one? [1-{len(sources)}, q]", keys, default="q")
        if key != "q":
            return sources[int(key) - 1]
        raise NeedsDecisionError("nothing was adopted", "`holdfast adopt PATH --list` shows what there is")
    commands = "\n".join(f"holdfast adopt {shlex.quote(str(source.path))}" for source in sources)
    raise NeedsDecisionError(
        f"{args.path} holds {count(len(sources), 'run')} of other systems; name one", commands
    )


def _line(source: ForeignSource, formats: Mapping[System, ForeignFormat]) -> SourceLine:
    updated = timestamp(source.path.stat().st_mtime)
    try:
        run = read_source(source, formats)
    except BrokenFileError as error:
        return SourceLine(
            system=source.system,
            name="?",
            main=source.main,
            tasks=0,
            done=0,
            stage="",
            updated_at=updated,
            resumable=False,
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
        stage=stages[0] if stages else "",
        updated_at=updated,
        resumable=bool(open_tasks),
    )


def adopt(args: argparse.Namespace) -> int:
    """Find what another system left, check it against git, and make a run of it. `--dry-run` only tells."""
    path = Path(args.path)
    repo, formats = repository_of(path), all_formats()
    sources = find_sources(path, repo.checkout, formats)
    if args.list:
        return list_sources(sources, formats, args)
    foreign = choose_resume_point(read_source(choose_source(sources, args), formats), args)
    wishes = AdoptionOptions(TrustPolicy(args.trust_claims, args.accept_named), args.base, args.with_checkout)
    prospect = assess(repo, foreign, wishes)
    if args.dry_run:
        view = adoption_view(prospect)
        print(as_json(view) if args.json else adoption_text(view))
        return ExitCode.DONE
    with open_repo(create=True, start=repo.checkout) as place:
        _note_forgotten(place)
        if told := _had_before(place, prospect, args):
            print(
                as_json(adoption_view(prospect, told))
                if args.json
                else f"Run {told} has it already.{_next(told)}"
            )
            return ExitCode.DONE
        return _adopt(place, prospect, wishes, args)


def _note_forgotten(place: OpenRepo) -> None:
    """Say so if the journal was lost: what was adopted before is known to git alone, and would be adopted again."""
    if forgotten := runs_missing_in_journal(place.repo, place.journal):
        names = ", ".join(forgotten)
        note = f"Note: git knows {names}, the journal does not: `holdfast rebuild` brings it back."
        print(note, file=sys.stderr)


def _had_before(place: OpenRepo, prospect: Assessment, args: argparse.Namespace) -> str:
    """Return the run that has these very files, or an empty string. Raises if it was adopted when they were others."""
    if args.fresh:
        return ""
    row = adopted_before(place.journal, prospect.digest)
    if row is not None:
        return "" if row.adopting else row.run
    foreign = prospect.foreign
    ours = mirror_owner(place.repo, foreign.system, foreign.main, foreign.documents.get(foreign.main, b""))
    if ours:
        raise NeedsDecisionError(
            f"{foreign.main} is what Holdfast itself writes for run {ours}",
            f"`holdfast resume {ours}` carries that on; --fresh makes a new run of it",
        )
    earlier = adopted_earlier(place.journal, prospect.foreign)
    if earlier is not None:
        raise NeedsDecisionError(
            f"run {earlier.run} was adopted from {prospect.foreign.main} before it changed, and is unfinished",
            f"`holdfast resume {earlier.run}` carries that on; --fresh adopts what is there now as a new run",
        )
    return ""


def _adopt(place: OpenRepo, prospect: Assessment, wishes: AdoptionOptions, args: argparse.Namespace) -> int:
    agent = _agent(prospect.foreign, args.agent, presets_of(place.repo.checkout))
    if is_interactive() and not args.json and not args.yes:
        wishes = _asked(prospect, wishes)
        prospect = assess(place.repo, prospect.foreign, wishes)
    known = agent_names(presets_of(place.repo.checkout))
    plan = plan_of(prospect, agent, {}, known)
    run = make_run(place.repo, place.journal, prospect, wishes, plan, prospect.foreign.main)
    if args.yes:
        place.journal.confirm_plan(plan_hash(place.journal.load(run).plan), time.time())
    view = adoption_view(prospect, run)
    print(as_json(view) if args.json else adoption_text(view))
    if not args.json:
        work = (
            count(len(prospect.shelters), "task") + " with unfinished work kept" if prospect.shelters else ""
        )
        print(f"\nAdopted as {run}: {left_to_do(view)} left to do{', ' + work if work else ''}.{_next(run)}")
    return ExitCode.DONE


def _asked(prospect: Assessment, wishes: AdoptionOptions) -> AdoptionOptions:
    """Show what was found and let the user choose what counts. Raises NeedsDecisionError if nothing is to be done."""
    view = adoption_view(prospect)
    print(adoption_text(view))
    key = "a"
    if is_doubtful(view):
        question = "[a]dopt, an agent looks at them again; accept [n]amed commits; [t]rust the files; [q]uit?"
        key = choose_key(question, "antq", default="a")
    elif not confirm("Make a run of it?", yes=False):
        key = "q"
    if key == "q":
        raise NeedsDecisionError("nothing was adopted", "say --yes to adopt without being asked")
    policy = TrustPolicy(wishes.policy.trust_claims or key == "t", wishes.policy.accept_named or key in "nt")
    return replace(wishes, policy=policy)


def _agent(foreign: ForeignRun, named: str, presets: Presets) -> str:
    """Return who works on the run: the named agent, or the only one that is installed."""
    known = agent_names(presets)
    if named and named not in known:
        raise HoldfastError(
            f"there is no agent {quoted(named)}{did_you_mean(named, known)}",
            "name a preset with --agent, or describe yours in .holdfast/agents.toml",
        )
    needs_one = any(task.prompt and not task.agent for _, task in foreign.plan.tasks())
    if named or not needs_one:
        return named
    installed = installed_presets(presets)
    if len(installed) == 1:
        return installed[0]
    found = f"{', '.join(installed)} are installed" if installed else "no known agent is on the PATH"
    raise NeedsDecisionError(
        f"{found}, and {foreign.main} does not say who works",
        "name the agent: `holdfast adopt PATH --agent NAME`",
    )


def _next(run: str) -> str:
    return f" `holdfast resume {run}` carries it on."
