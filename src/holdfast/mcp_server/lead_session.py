"""Which run the leading agent means, and whether its plan may run: found, or created from a plan, under its lease."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.agents.presets import agent_names, presets_of
from holdfast.core.plan import Plan, plan_hash
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError, NeedsDecisionError, PlanError
from holdfast.journal.protocol import Journal, RunListing
from holdfast.journal.sqlite import SqliteJournal
from holdfast.mcp_server.led_run import LedRun
from holdfast.mcp_server.tool_results import OpenResult
from holdfast.paths import STATE_DIR
from holdfast.plans import parse_plan, read_plan
from holdfast.repo.repository import Repository
from holdfast.runner.session import RunOptions, RunSession, create_run, unfinished_run
from holdfast.views.plan_text import commands_of

_INLINE = "the plan"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run whose lease is ours. `notice` is what the agent should know before it goes on."""

    turn: RunSession
    resumed: bool
    notice: str = ""


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the leading agent asks for: a run by its id, or the run of a plan; without either, the latest unfinished run."""

    run: str = ""
    plan_file: str = ""
    plan: str = ""
    agent: str = ""
    jobs: int | None = None


def open_led_run(repo: Repository, journal: Journal, wish: OpenRequest, *, agreed: bool) -> OpenedRun:
    """Take the lease of the run that is meant, which begins unless it had before. `agreed`: the user agrees to any plan."""
    if len([given for given in (wish.run, wish.plan_file, wish.plan) if given]) > 1:
        raise PlanError("more than one of run, plan_file and plan was given", "say which run in one way")
    if wish.jobs is not None and wish.jobs < 1:
        raise PlanError(f"jobs is {wish.jobs}", "give a number above 0, or leave it out")
    plan, source = _given_plan(repo, wish)
    found = unfinished_run(journal, plan, source) if plan is not None else _unfinished_run(journal, wish.run)
    meant = plan if found is None else journal.load(found.row.run).plan
    assert meant is not None
    _require_agreement(journal, meant, agreed=agreed)
    name = create_run(repo, journal, meant, source) if found is None else found.row.run
    turn = RunSession.begin(repo, journal, name, RunOptions(jobs=wish.jobs))
    return OpenedRun(turn, found is not None, _notice(plan, meant, name))


def _notice(given: Plan | None, meant: Plan, run: str) -> str:
    """Return what must be said when another plan was given than the run has: it never changes on the way."""
    if given is None or plan_hash(given) == plan_hash(meant):
        return ""
    return (
        f"The plan has changed since {run} began, which keeps its own. `holdfast abandon {run}` gives it up."
    )


def _given_plan(repo: Repository, wish: OpenRequest) -> tuple[Plan | None, str]:
    """Return the plan that was given, and how a run remembers where it is from."""
    known = agent_names(presets_of(repo.checkout))
    if wish.plan:
        name = f"{_INLINE}.json" if wish.plan.lstrip().startswith("{") else _INLINE
        return parse_plan(wish.plan.encode(), name, known, wish.agent), ""
    if not wish.plan_file:
        return None, ""
    path = (repo.checkout / wish.plan_file).resolve()
    if not path.is_relative_to(repo.checkout) or STATE_DIR in path.relative_to(repo.checkout).parts:
        raise PlanError(
            f"{wish.plan_file} is not a plan of this repository",
            f"name a file below {repo.checkout}, or give the plan itself",
        )
    return read_plan(path, known, wish.agent), str(path.relative_to(repo.checkout))


def _unfinished_run(journal: Journal, run: str) -> RunListing:
    """Return the run of that id, or the latest that is unfinished."""
    listings = [listing for listing in journal.runs() if listing.row.status not in RUN_IS_OVER]
    found = [listing for listing in listings if run in ("", listing.row.run)]
    if not found:
        names = ", ".join(listing.row.run for listing in listings[-_SHOWN:]) or "none"
        what = f"there is no unfinished run {run}" if run else "there is no unfinished run"
        raise HoldfastError(what, f"unfinished runs: {names}. Give a plan or a plan file to begin one")
    return found[-1]


def _require_agreement(journal: Journal, plan: Plan, *, agreed: bool) -> None:
    """Raise NeedsDecisionError if the plan would run commands that the user has not agreed to.

    An agent may not be allowed to run a command; writing it into a plan must not be a way round that.
    """
    runs = [*commands_of(plan), *([plan.notify.webhook] if plan.notify.webhook else [])]
    judged = any(judge.prompt for _, task in plan.tasks() for judge in task.validators)
    if agreed or not (runs or judged) or journal.is_confirmed(plan_hash(plan)):
        return
    raise NeedsDecisionError(
        f"the user has not agreed to what this plan runs: {'; '.join(runs[:_SHOWN]) or 'validators'}",
        "ask the user to read it and to type `holdfast mcp --agree PLAN` (write the plan to a file first), "
        "or to start this server as `holdfast mcp --yes`",
    )


def require_outside_workspace(repo: Repository, here: Path) -> None:
    """Raise HoldfastError where a task's own agent stands: it must not begin runs inside a run."""
    if here.resolve().is_relative_to((repo.checkout / STATE_DIR).resolve()):
        raise HoldfastError(
            "this is the workspace of a task: no run can be led from here",
            "report on the task instead; the variables HOLDFAST_REPORT and HOLDFAST_BELL must reach this server",
        )


_SETTLING_S = 5.0


class LeadSession:
    """At most one open run, of the repository around `here`. `agreed`: the user agrees to whatever a plan runs."""

    def __init__(self, here: Path, *, agreed: bool) -> None:
        self._here = here
        self._agreed = agreed
        self._run: LedRun | None = None
        self._journal: SqliteJournal | None = None

    async def open(self, wish: OpenRequest) -> OpenResult:
        """Open a run and wait a moment until it is known what is ready. Raises LeaseHeldError if another leads it."""
        if self._run is not None and not self._run.is_over:
            raise HoldfastError(
                f"run {self._run.name} is open", "go on with it, or pause it before you open another one"
            )
        repo = Repository.open(self._here)
        require_outside_workspace(repo, self._here)
        repo.require_own_state_dir()
        repo.hide_state_dir()
        begun = open_led_run(repo, self._open_journal(repo), wish, agreed=self._agreed)
        self._run = run = LedRun(begun.turn)
        await run.ready(_SETTLING_S)
        return OpenResult(run=run.name, resumed=begun.resumed, notice=begun.notice, standing=run.standing())

    def _open_journal(self, repo: Repository) -> SqliteJournal:
        """Open the journal anew: since the last run it may have been replaced."""
        if self._journal is not None:
            self._journal.close()
        self._journal = SqliteJournal.open(repo.state.journal)
        return self._journal

    @property
    def run(self) -> LedRun:
        """The open run. One that has come to rest can still be looked at."""
        if self._run is None:
            raise HoldfastError("no run is open", "open one first")
        return self._run

    async def let_go(self) -> None:
        """The agent is gone: keep all work. Nothing stays claimed."""
        if self._run is not None:
            await self._run.let_go()
