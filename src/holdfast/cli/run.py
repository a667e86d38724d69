"""`run` and `resume`: starting a plan, and carrying on with what was started."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.asking import confirm, is_interactive
from holdfast.cli.carrying import background, foreground, say
from holdfast.cli.look import as_json
from holdfast.cli.opening import Opened, choose, glimpse, opened
from holdfast.cli.plan_file import find_plan, load_plan, require_commands, require_consent, source_of
from holdfast.core.plan import Plan, plan_hash
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import HoldfastError, LeaseHeldError, NeedsDecisionError
from holdfast.journal.protocol import RunListing
from holdfast.repo.repository import Repository
from holdfast.runner.session import Choices, create_run, tidy_up
from holdfast.runner.steering import abandon
from holdfast.runner.waiving import waive_gates
from holdfast.views.lines import plain_lines


def run(args: argparse.Namespace) -> int:
    """Start a plan, or carry on an unfinished run of it."""
    checkout = glimpse().checkout
    path = find_plan(args.plan, checkout)
    plan = load_plan(path, args.agent)
    if args.dry_run:
        return _show_plan(plan, args)
    require_commands(plan)
    source = source_of(path, checkout)
    with opened(create=True) as place:
        unfinished = _unfinished(place, plan, source)
        if unfinished is not None and not args.fresh and _wants_to_resume(unfinished, args):
            say(f"Resuming {unfinished.row.run}.", args)
            return _carry_on(place, unfinished.row.run, args, Choices(jobs=args.jobs))
        for notice in place.repo.notices():
            print(f"Note: {notice}", file=sys.stderr)
        place.repo.resolve(plan.base)
        require_consent(place.journal, plan, yes=args.yes)
        if unfinished is not None:
            _give_up(place, unfinished, args)
        name = create_run(place.repo, place.journal, plan, source)
        say(f"Run {name} begins.", args)
        return _carry_on(place, name, args, Choices(jobs=args.jobs))


def resume(args: argparse.Namespace) -> int:
    """Carry an unfinished run on. One that is completed needs nothing, which is no error."""
    if args.dry_run:
        return _show_forecast(args)
    with opened() as place:
        listing = choose(place.journal.runs(), args.run)
        name, status = listing.row.run, listing.row.status
        if status is RunStatus.ABANDONED:
            raise HoldfastError(f"run {name} was abandoned", "`holdfast run` starts its plan anew")
        if status is RunStatus.COMPLETED and not args.land:
            tidy_up(place.repo, name)
            say(f"Run {name} is completed; there is nothing to resume.", args)
            return 0
        if args.accept and waive_gates(place.repo, place.journal, name, args.accept.split(",")):
            say(f"Asked the runner of {name}. `holdfast status {name}` shows what it does.", args)
            return 0
        _refuse_if_held(place, listing)
        require_consent(place.journal, place.journal.load(name).plan, yes=args.yes)
        only = frozenset(args.only.split(",")) if args.only else None
        return _carry_on(place, name, args, Choices(jobs=args.jobs, only=only))


def _carry_on(place: Opened, name: str, args: argparse.Namespace, choices: Choices) -> int:
    if not args.detach:
        return foreground(place, name, choices, args)
    arguments = ["--jobs", str(choices.jobs)] if choices.jobs else []
    arguments += ["--only", ",".join(sorted(choices.only))] if choices.only else []
    arguments += ["--land"] if args.land else []
    return background(place, name, arguments, args)


def _unfinished(place: Opened, plan: Plan, source: str) -> RunListing | None:
    """Return the latest unfinished run of this plan: the same content, or the same file with other content."""
    digest = plan_hash(plan)
    found = [
        listing
        for listing in place.journal.runs()
        if listing.row.status not in RUN_IS_OVER
        and (listing.row.plan_hash == digest or listing.row.plan_source == source)
    ]
    if found:
        _refuse_if_held(place, found[-1])
    return found[-1] if found else None


def _refuse_if_held(place: Opened, listing: RunListing) -> None:
    name = listing.row.run
    if (held := place.holder(name)) is not None:
        raise LeaseHeldError(
            f"run {name} is held by another runner: {held}",
            f"`holdfast status {name}` shows what it does; `holdfast stop {name}` ends it",
        )


def _wants_to_resume(unfinished: RunListing, args: argparse.Namespace) -> bool:
    name, status = unfinished.row.run, unfinished.row.status
    state = "interrupted" if status is RunStatus.RUNNING else str(status)
    if args.yes:
        return True
    if not is_interactive():
        raise NeedsDecisionError(
            f"run {name} of this plan is unfinished ({state})",
            f"`holdfast resume {name}` carries it on; `holdfast run --fresh` gives it up and starts anew",
        )
    if confirm(f"Run {name} of this plan is unfinished ({state}). Resume it?", yes=False):
        return True
    if confirm("Give it up and start anew? Its branch and refs stay.", yes=False):
        return False
    raise NeedsDecisionError("nothing was done", f"`holdfast resume {name}` carries the run on")


def _give_up(place: Opened, unfinished: RunListing, args: argparse.Namespace) -> None:
    abandon(place.repo, place.journal, unfinished.row.run, plain_lines(sys.stderr))
    say(f"Gave up {unfinished.row.run}; its branch and refs stay.", args)


def _show_plan(plan: Plan, args: argparse.Namespace) -> int:
    from holdfast.core.news import without_secrets
    from holdfast.core.plan import encode_plan
    from holdfast.views.plan_text import execution_plan

    print(encode_plan(without_secrets(plan)).decode() if args.json else execution_plan(plan))
    return 0


def _show_forecast(args: argparse.Namespace) -> int:
    """Say what resuming would do to each task. Journal, git and processes are only looked at."""
    from holdfast.fleet.local import LocalFleet
    from holdfast.runner.forecast import forecast
    from holdfast.views.text import table

    place = glimpse()
    journal = place.require_journal()
    name = choose(journal.runs(), args.run).row.run
    lines = forecast(Repository.open(place.checkout), LocalFleet(place.state), journal.load(name))
    if args.json:
        print(as_json(lines))
        return 0
    rows = [("TASK", "WOULD", "BECAUSE"), *((line.task, line.move, line.why) for line in lines)]
    print("\n".join([f"Resuming {name} would:", *table(rows)]))
    return 0
