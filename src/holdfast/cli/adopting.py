"""`adopt`: carrying on what another system began. Its files, branches and working trees are only ever read."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.agents.presets import Presets, agent_names, installed_presets, presets_of
from holdfast.cli.asking import choose_key, confirm, is_interactive
from holdfast.cli.look import as_json
from holdfast.cli.opening import Opened, opened
from holdfast.cli.resume_point import settle_resume_point
from holdfast.core.adoption import Policy
from holdfast.core.claims import Standing
from holdfast.core.plan import plan_hash
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError, RepositoryError
from holdfast.formats.gather import Source, find, read_source
from holdfast.formats.loose import BrokenFileError
from holdfast.formats.model import ForeignRun, Format, System
from holdfast.formats.registry import all_formats
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.adopt import adopt as make_run, adopted_before, adopted_earlier, plan_of
from holdfast.runner.adoption.survey import Prospect, Wishes, survey
from holdfast.runner.examine import forgotten_runs
from holdfast.views.adoption import (
    SourceLine,
    adoption_text,
    adoption_view,
    is_doubtful,
    left_to_do,
    sources_text,
)
from holdfast.views.text import count
from holdfast.views.times import timestamp


def adopt(args: argparse.Namespace) -> int:
    """Find what another system left, check it against git, and make a run of it. `--dry-run` only tells."""
    path = Path(args.path)
    repo, formats = _repository(path), all_formats()
    sources = find(path, repo.checkout, formats)
    if args.list:
        return _show_list(sources, formats, args)
    foreign = settle_resume_point(read_source(_chosen(sources, args), formats), args)
    wishes = Wishes(Policy(args.trust_claims, args.accept_named), args.base, args.with_checkout)
    prospect = survey(repo, foreign, wishes)
    if args.dry_run:
        view = adoption_view(prospect)
        print(as_json(view) if args.json else adoption_text(view))
        return ExitCode.DONE
    with opened(create=True, start=repo.checkout) as place:
        _note_forgotten(place)
        if told := _had_before(place, prospect, args):
            print(
                as_json(adoption_view(prospect, told))
                if args.json
                else f"Run {told} has it already.{_next(told)}"
            )
            return ExitCode.DONE
        return _adopt(place, prospect, wishes, args)


def _note_forgotten(place: Opened) -> None:
    """Say so if the journal was lost: what was adopted before is known to git alone, and would be adopted again."""
    if forgotten := forgotten_runs(place.repo, place.journal):
        names = ", ".join(forgotten)
        note = f"Note: git knows {names}, the journal does not: `holdfast rebuild` brings it back."
        print(note, file=sys.stderr)


def _repository(path: Path) -> Repository:
    """Open the repository that the files lie in; for files that lie in none, the one around the user."""
    folder = path if path.is_dir() else path.parent
    try:
        return Repository.open(folder)
    except RepositoryError:
        return Repository.open(Path.cwd())


def _show_list(sources: Sequence[Source], formats: Mapping[System, Format], args: argparse.Namespace) -> int:
    """Show every run that was found; the tasks of APEX also in its own way."""
    lines = [_line(source, formats) for source in sources]
    print(as_json(lines) if args.json else sources_text(lines))
    tasks = {source.main: source.documents[source.main] for source in sources if source.system is System.APEX}
    if tasks and not args.json:
        from holdfast.formats.apex import as_text, listing

        print("", as_text(listing(tasks)), sep="\n")
    return ExitCode.DONE


def _chosen(sources: Sequence[Source], args: argparse.Namespace) -> Source:
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
    commands = "\n".join(f"holdfast adopt {source.path}" for source in sources)
    raise NeedsDecisionError(
        f"{args.path} holds {count(len(sources), 'run')} of other systems; name one", commands
    )


def _had_before(place: Opened, prospect: Prospect, args: argparse.Namespace) -> str:
    """Return the run that has these very files, or an empty string. Raises if it was adopted when they were others."""
    if args.fresh:
        return ""
    row = adopted_before(place.journal, prospect.digest)
    if row is not None:
        return "" if row.adopting else row.run
    earlier = adopted_earlier(place.journal, prospect.foreign)
    if earlier is not None:
        raise NeedsDecisionError(
            f"run {earlier.run} was adopted from {prospect.foreign.main} before it changed, and is unfinished",
            f"`holdfast resume {earlier.run}` carries that on; --fresh adopts what is there now as a new run",
        )
    return ""


def _adopt(place: Opened, prospect: Prospect, wishes: Wishes, args: argparse.Namespace) -> int:
    agent = _agent(prospect.foreign, args.agent, presets_of(place.repo.checkout))
    if is_interactive() and not args.json and not args.yes:
        wishes = _asked(prospect, wishes)
        prospect = survey(place.repo, prospect.foreign, wishes)
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


def _asked(prospect: Prospect, wishes: Wishes) -> Wishes:
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
    policy = Policy(wishes.policy.trust_claims or key == "t", wishes.policy.accept_named or key in "nt")
    return replace(wishes, policy=policy)


def _agent(foreign: ForeignRun, named: str, presets: Presets) -> str:
    """Return who works on the run: the named agent, or the only one that is installed."""
    known = agent_names(presets)
    if named and named not in known:
        raise HoldfastError(
            f"there is no agent {shown(named)}{did_you_mean(named, known)}", "name a preset with --agent"
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


def _line(source: Source, formats: Mapping[System, Format]) -> SourceLine:
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
    settled = (Standing.DONE, Standing.SKIPPED)
    open_tasks = {claim.task for claim in run.claims if claim.standing not in settled}
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


def _next(run: str) -> str:
    return f" `holdfast resume {run}` carries it on."
