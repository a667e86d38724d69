"""The session of one leading agent: it opens a run, found or created from a plan, and holds at most one open run.

It finds the run that the agent means and refuses a plan without the user's consent. led_run has the open run.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import agent_names, presets_of
from holdfast.core.plan import Plan
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError, NeedsDecisionError, PlanError
from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal, RunListing
from holdfast.mcp_server.led_run import LedRun
from holdfast.mcp_server.tool_results import OpenResult
from holdfast.paths import STATE_DIR
from holdfast.plans import parse_plan, read_plan
from holdfast.repo.repository import Repository
from holdfast.runner.content_filters import accept_filters
from holdfast.runner.decisions.amend import is_amended
from holdfast.runner.session import RunOptions, RunSession, create_run, unfinished_run
from holdfast.runner.store_choice import chosen_store, remember_store, require_same_repository
from holdfast.views.plan_text import commands_of, notice_command

AGENT_IF_NONE = "claude"
"""Who is named in a plan that names no agent. The leading agent works itself; this one would if nobody leads.

Always the same, so that the same plan is the same run.
"""
_INLINE = "the plan"
_SHOWN = 5
_FIRST_TASK_S = 5.0


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which run to open: by its id, or by its plan. Without either, the latest unfinished run is meant."""

    run: str = ""
    plan_file: str = ""
    plan: str = ""
    agent: str = ""
    jobs: int | None = None


def open_session(
    repo: Repository, journal: Journal, request: OpenRequest, *, agreed: bool
) -> tuple[RunSession, bool, str]:
    """Take the lease of the requested run; create it if there is none. `agreed`: the user agrees to any plan.

    Returns the session, whether the run had begun before, and what the agent should know first.
    """
    if len([given for given in (request.run, request.plan_file, request.plan) if given]) > 1:
        raise PlanError("more than one of run, plan_file and plan was given", "give only one of them")
    if request.jobs is not None and request.jobs < 1:
        raise PlanError(f"jobs is {request.jobs}", "give a number above 0, or none")
    plan, source = _given_plan(repo, request)
    known = [listing.row.run for listing in journal.runs()]
    found = (
        unfinished_run(journal, plan, source) if plan is not None else _unfinished_run(journal, request.run)
    )
    meant = plan if found is None else journal.load(found.row.run).plan
    assert meant is not None
    _require_agreement(journal, meant, repo, agreed=agreed)
    name = create_run(repo, journal, meant, source, known=known) if found is None else found.row.run
    session = RunSession.open(repo, journal, name, RunOptions(jobs=request.jobs))
    notice = ""
    if plan is not None and not is_amended(session.state, plan):
        notice = f"The plan has changed since {name} began. The run goes on with its own; a person can `holdfast amend {name}`."
    return session, found is not None, notice


def _given_plan(repo: Repository, request: OpenRequest) -> tuple[Plan | None, str]:
    """Return the given plan, and the file that the run remembers as its source."""
    known = agent_names(presets_of(repo.checkout))
    if request.plan:
        name = f"{_INLINE}.json" if request.plan.lstrip().startswith("{") else _INLINE
        return parse_plan(request.plan.encode(), name, known, request.agent, AGENT_IF_NONE), ""
    if not request.plan_file:
        return None, ""
    path = (repo.checkout / request.plan_file).resolve()
    if not path.is_relative_to(repo.checkout) or STATE_DIR in path.relative_to(repo.checkout).parts:
        raise PlanError(
            f"{request.plan_file} is not a plan of this repository",
            f"name a file below {repo.checkout}, or give the plan itself",
        )
    return read_plan(path, known, request.agent, AGENT_IF_NONE), str(path.relative_to(repo.checkout))


def _unfinished_run(journal: Journal, run: str) -> RunListing:
    """Return the unfinished run with that id, or the latest one."""
    listings = [listing for listing in journal.runs() if listing.row.status not in RUN_IS_OVER]
    found = [listing for listing in listings if run in ("", listing.row.run)]
    if not found:
        names = ", ".join(listing.row.run for listing in listings[-_SHOWN:]) or "none"
        what = f"there is no unfinished run {run}" if run else "there is no unfinished run"
        raise HoldfastError(what, f"unfinished runs: {names}. Give a plan or a plan file to start one")
    return found[-1]


def _require_agreement(journal: Journal, plan: Plan, repo: Repository, *, agreed: bool) -> None:
    """Raise NeedsDecisionError if the plan would run commands that the user has not agreed to.

    An agent must not get around its own permissions by writing a command into a plan.
    """
    runs = [*commands_of(plan), *filter(None, (notice_command(plan), plan.notify.webhook))]
    asks_validators = any(one.prompt for _, task in plan.tasks() for one in task.validators)
    if agreed or not (runs or asks_validators):
        return
    if journal.is_confirmed(consent_digest(plan, presets_of(repo.checkout))):
        return
    raise NeedsDecisionError(
        f"the user has not agreed to what this plan runs: {'; '.join(runs[:_SHOWN]) or 'validators'}",
        "ask the user to read it and to type `holdfast mcp --agree PLAN` (write the plan to a file first), "
        "or to start this server as `holdfast mcp --yes`",
    )


def require_outside_workspace(repo: Repository, here: Path) -> None:
    """Raise HoldfastError inside a task's workspace: the agent of a task must not start runs inside a run."""
    if here.resolve().is_relative_to((repo.checkout / STATE_DIR).resolve()):
        raise HoldfastError(
            "this is the workspace of a task: no run can be led from here",
            "report on the task instead; the variables HOLDFAST_REPORT and HOLDFAST_BELL must reach this server",
        )


class LeadSession:
    """At most one open run of the repository around `here`. `agreed`: the user agrees to all that a plan runs."""

    def __init__(self, here: Path, *, agreed: bool) -> None:
        self._here = here
        self._agreed = agreed
        self._run: LedRun | None = None
        self._journal: Journal | None = None

    async def open(self, request: OpenRequest) -> OpenResult:
        """Open a run and wait a moment for its first ready task. Raises LeaseHeldError if another process holds the run."""
        if self._run is not None and not self._run.is_over:
            raise HoldfastError(
                f"run {self._run.name} is open", "continue with it, or pause it before you open another one"
            )
        repo = Repository.open(self._here)
        require_outside_workspace(repo, self._here)
        repo.prepare_state_dir()
        journal = self._open_journal(repo)
        repo = accept_filters(repo, journal, lambda _: False)  # an agent asks, so nobody can be asked
        session, resumed, notice = open_session(repo, journal, request, agreed=self._agreed)
        self._run = run = LedRun(session)
        await run.ready(_FIRST_TASK_S)
        return OpenResult(run=run.name, resumed=resumed, notice=notice, standing=run.status())

    def _open_journal(self, repo: Repository) -> Journal:
        """Open the journal again: it may have been replaced since the last run."""
        if self._journal is not None:
            self._journal.close()
        store = chosen_store(repo.state_dir, repo.id)
        self._journal = open_journal(store)
        require_same_repository(repo, self._journal)
        remember_store(repo.state_dir, store)
        return self._journal

    @property
    def run(self) -> LedRun:
        """The open run. One that has come to rest can still be read."""
        if self._run is None:
            raise HoldfastError("no run is open", "open one first")
        return self._run

    async def close(self) -> None:
        """Keep all work and give every claim back: the agent is gone."""
        if self._run is not None:
            await self._run.release_all()
