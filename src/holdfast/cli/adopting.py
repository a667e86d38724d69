"""`adopt`: carrying on what another system began. Its files, branches and working trees are only ever read."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from holdfast.agents.presets import Presets, agent_names, installed_presets, presets_of
from holdfast.cli.asking import choose_key, confirm, is_interactive
from holdfast.cli.foreign_runs import chosen, repository_of, show_list
from holdfast.cli.look import as_json
from holdfast.cli.opening import Opened, opened
from holdfast.cli.resume_point import settle_resume_point
from holdfast.core.adoption import Policy
from holdfast.core.plan import plan_hash
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError
from holdfast.formats.gather import find, read_source
from holdfast.formats.model import ForeignRun
from holdfast.formats.registry import all_formats
from holdfast.runner.adoption.adopt import adopt as make_run, adopted_before, adopted_earlier, plan_of
from holdfast.runner.adoption.survey import Prospect, Wishes, survey
from holdfast.runner.examine import forgotten_runs
from holdfast.runner.mirror.keeping import mirroring_run
from holdfast.views.adoption import (
    adoption_text,
    adoption_view,
    is_doubtful,
    left_to_do,
)
from holdfast.views.text import count


def adopt(args: argparse.Namespace) -> int:
    """Find what another system left, check it against git, and make a run of it. `--dry-run` only tells."""
    path = Path(args.path)
    repo, formats = repository_of(path), all_formats()
    sources = find(path, repo.checkout, formats)
    if args.list:
        return show_list(sources, formats, args)
    foreign = settle_resume_point(read_source(chosen(sources, args), formats), args)
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


def _had_before(place: Opened, prospect: Prospect, args: argparse.Namespace) -> str:
    """Return the run that has these very files, or an empty string. Raises if it was adopted when they were others."""
    if args.fresh:
        return ""
    row = adopted_before(place.journal, prospect.digest)
    if row is not None:
        return "" if row.adopting else row.run
    foreign = prospect.foreign
    ours = mirroring_run(place.repo, foreign.system, foreign.main, foreign.documents.get(foreign.main, b""))
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
            f"there is no agent {shown(named)}{did_you_mean(named, known)}",
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
