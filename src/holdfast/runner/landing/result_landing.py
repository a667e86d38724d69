"""A run's result lands in a branch of the user: which commit that is, what proves it, and what its commits say.

The merge queue, which brings tasks onto the run branch, is another module. Nothing here asks the user anything.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.ids import archived_branch_ref, run_branch, short_name
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import ForeignCommitsError, HoldfastError, NeedsDecisionError
from holdfast.journal.protocol import JournalReader
from holdfast.repo.land_run import LandedRun, LandingMethod, discard_run, land_on_branch
from holdfast.repo.landed_results import RESULT_TRAILER, RunTip, holds_result, is_recorded
from holdfast.repo.landing import RUN_TRAILER
from holdfast.repo.landing_lock import landing_lock
from holdfast.repo.refs import result_places
from holdfast.repo.repository import Repository
from holdfast.reporting.result_messages import merge_message, squash_message


@dataclass(frozen=True, slots=True)
class LandingRequest:
    """What a user asks to land: a run, in the branch where it began or `into` another.

    `accepted_tip`: as in `require_recorded_tip`. `options` say in which shape, as `land` takes them.
    """

    row: RunRow
    into: str = ""
    accepted_tip: str = ""
    options: tuple[str, ...] = ()

    def command(self, *more: str) -> str:
        """Return the command that asks for this again, with other options besides."""
        into = ("--into", self.into) if self.into else ()
        accept = ("--accept-branch", self.accepted_tip) if self.accepted_tip else ()
        return shlex.join(("holdfast", "land", self.row.run, *self.options, *into, *accept, *more))


@dataclass(frozen=True, slots=True)
class ResultToLand:
    """The result of a run for one branch: the commit that holds it, and the runs whose results that are, the run first.

    The others resolved conflicts between the run and the branch.
    """

    request: LandingRequest
    target: str
    commit: str
    results: tuple[RunTip, ...]

    @property
    def row(self) -> RunRow:
        """The run."""
        return self.request.row

    @property
    def is_empty(self) -> bool:
        """Whether nothing has landed on the run branch."""
        return self.commit == self.row.base

    @property
    def is_resolved(self) -> bool:
        """Whether a run of its own resolved conflicts with the branch."""
        return len(self.results) > 1

    def is_in(self, repo: Repository) -> bool:
        """Tell whether the branch holds the result already."""
        tip = repo.read_ref(f"refs/heads/{self.target}")
        return bool(tip) and holds_result(repo, self.results[0], tip)


def run_landed_by(journal: JournalReader, row: RunRow) -> RunRow:
    """Return the run whose result a run lands: of one that resolves conflicts at `land`, the other; else itself."""
    rows = {listing.row.run: listing.row for listing in journal.runs()}
    while row.resolves is not None and row.resolves.run in rows:
        row = rows[row.resolves.run]
    return row


def result_to_land(repo: Repository, journal: JournalReader, request: LandingRequest) -> ResultToLand:
    """Return what of a run would land where. Raises HoldfastError if there is no branch to land in, or nothing to land.

    A completed run that resolved the conflicts between this result and the branch stands for it.
    """
    row = request.row
    target = request.into or row.target
    if not target:
        raise HoldfastError(
            f"run {row.run} began on no branch",
            f"name the branch: `{request.command('--into', 'BRANCH')}`",
        )
    tip = _result_tip(repo, request)
    results, commit = [RunTip(row.run, tip)], tip
    for resolving in reversed(resolving_runs(journal, row.run, tip, target)):
        if resolving.status is RunStatus.COMPLETED and not _is_discarded(repo, resolving):
            resolved = _result_tip(repo, replace(request, row=resolving))
            commit = resolved if commit == tip else commit
            results.append(RunTip(resolving.run, resolved))
    return ResultToLand(request, target, commit, tuple(results))


def resolving_runs(journal: JournalReader, run: str, tip: str, target: str) -> list[RunRow]:
    """Return the runs that resolve conflicts of a run's result with a branch, oldest first, without abandoned ones."""
    rows = [listing.row for listing in journal.runs()]
    return [
        row
        for row in rows
        if row.resolves is not None
        and (row.resolves.run, row.resolves.tip, row.target) == (run, tip, target)
        and row.status is not RunStatus.ABANDONED
    ]


def waiting_run(repo: Repository, journal: JournalReader) -> RunRow | None:
    """Return the latest completed run whose result is on its run branch alone; None if there is none."""
    rows = [listing.row for listing in journal.runs() if listing.row.status is RunStatus.COMPLETED]
    for row in reversed(rows):
        on_its_branch = row.tip != row.base and repo.read_ref(row.branch)
        if on_its_branch and not result_places(repo.checkout, row).branches:
            return run_landed_by(journal, row)
    return None


def land_result(
    repo: Repository,
    journal: JournalReader,
    result: ResultToLand,
    method: LandingMethod = LandingMethod.MERGE,
) -> LandedRun:
    """Bring a result into its branch. Idempotent. Raises LandingConflictError, with nothing changed.

    What an agent resolved has no line of commits per task any more: instead of rebased, it is squashed.
    """
    if method is LandingMethod.REBASE and result.is_resolved:
        method = LandingMethod.SQUASH
    if method is LandingMethod.SQUASH:
        message = squash_message(journal.load(result.row.run).state(), result_trailers(result))
    else:
        message = merge_message(result.row, f"{RUN_TRAILER}: {result.row.run}\n")
    return land_on_branch(repo, result.commit, result.target, message, method, result.results)


def result_trailers(result: ResultToLand) -> str:
    """Return the last paragraph of a message by which Holdfast knows the result again."""
    return f"{RUN_TRAILER}: {result.row.run}\n{RESULT_TRAILER}: {result.results[0].tip}\n"


def landed_sentence(result: ResultToLand, landed: LandedRun) -> str:
    """Return what became of a result."""
    run = result.row.run
    if landed.kind == "already there":
        return f"{run} is in {result.target} (already there, {landed.commit[:12]})."
    by = f", conflicts resolved by {result.results[1].run}" if result.is_resolved else ""
    what = run if result.row.status in RUN_IS_OVER else f"What {run} has landed so far"
    return f"{what} is in {result.target} ({landed.kind}, {landed.commit[:12]}{by})."


def nothing_landed(row: RunRow, so: str) -> str:
    """Return that a run ended without a result. Raises NeedsDecisionError if it can still get one: it was asked for."""
    if row.status in RUN_IS_OVER:
        return f"Nothing of {row.run} has landed: {so}."
    raise NeedsDecisionError(
        f"nothing of {row.run} has landed yet: {so}", f"`holdfast status {row.run}` shows what it waits for"
    )


def conflict_refusal(result: ResultToLand, files: Sequence[str], resting: str = "") -> NeedsDecisionError:
    """Return the error for a result that conflicts with its branch: an agent can resolve that, or a person.

    `resting` is the run that has begun to.
    """
    run, target = result.row.run, result.target
    begun = f" (run {resting} has begun)" if resting else ""
    return NeedsDecisionError(
        f"{target} and {run} changed the same lines of {', '.join(files)}",
        f"`{result.request.command('--resolve')}` lets an agent resolve them{begun}; "
        f"by hand: `git switch {target}`, then `git merge {result.commit[:12]}`",
    )


def remove_landed_branches(repo: Repository, result: ResultToLand) -> list[str]:
    """Remove the branches of a result that is in its branch, and return those that are gone. Their tips stay archived.

    One that git does not prove to be there, or that somebody else moved, stays.
    """
    removed = []
    with landing_lock(repo):
        tip = repo.read_ref(f"refs/heads/{result.target}")
        for one in result.results:
            branch = run_branch(one.run)
            if tip and repo.read_ref(branch) == one.tip and is_recorded(repo, one, tip):
                discard_run(repo, one.run)
                removed.append(short_name(branch))
    return removed


# -- the tip of a run branch ------------------------------------------------------------------------------------


def _result_tip(repo: Repository, request: LandingRequest) -> str:
    """Return the commit with a run's result: of its branch, or of the archive if that was removed after it landed.

    Raises NeedsDecisionError if the user discarded it, ForeignCommitsError as `require_recorded_tip` does.
    """
    row = request.row
    # Read once: another `land --delete-branch` may take the branch away at any moment.
    if tip := repo.read_ref(row.branch):
        require_recorded_tip(request, tip)
        return tip
    if repo.read_ref(archived_branch_ref(row.run, row.tip)) and result_places(repo.checkout, row).branches:
        return row.tip
    raise no_branch(repo, row)


def _is_discarded(repo: Repository, row: RunRow) -> bool:
    return not repo.read_ref(row.branch) and not result_places(repo.checkout, row).branches


def require_recorded_tip(request: LandingRequest, tip: str) -> None:
    """Raise ForeignCommitsError if a run branch is not where the run's last landing left it, at `tip` instead.

    Somebody moved it then, and nobody checked what it holds. The user may accept this tip.
    """
    row, accepted = request.row, request.accepted_tip
    if tip == row.tip or (accepted and tip.startswith(accepted)):
        return
    again = replace(request, accepted_tip=tip[:12]).command()
    cut_short = (
        ""
        if row.status is RunStatus.COMPLETED
        else f" If a runner was killed, `holdfast resume {row.run}` sets it right."
    )
    raise ForeignCommitsError(
        moved_branch(row, tip),
        f"`git diff {row.tip[:12]} {tip[:12]}` shows the difference. `git update-ref {row.branch} {row.tip}` puts it back; "
        f"`{again}` lands it as it is.{cut_short}",
    )


def moved_branch(row: RunRow, tip: str) -> str:
    """Return the sentence about a run branch that is not where its run left it."""
    return f"branch {short_name(row.branch)} is at {tip[:12]}, not at {row.tip[:12]}, where the run left it: somebody moved it"


def no_branch(repo: Repository, row: RunRow) -> HoldfastError:
    """Return the error for a run whose branch is gone: discarded, or deleted by somebody else."""
    archive = archived_branch_ref(row.run, row.tip)
    if repo.read_ref(archive):
        return NeedsDecisionError(
            f"run {row.run} was discarded; its result is archived at {archive}",
            f"`git log {archive}` shows it; `git branch {short_name(row.branch)} {archive}` brings it back",
        )
    return HoldfastError(
        f"run {row.run} has no branch {short_name(row.branch)}",
        f"`git for-each-ref refs/holdfast/{row.run}` shows what is kept",
    )
