"""The errors that every journal raises, each with its way out, and what makes one of a record that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

from holdfast.errors import EventsLostError, JournalError, LeaseHeldError, LeaseLostError, RunExistsError
from holdfast.journal.lease import Holder

REBUILD = "the journal is kept as it is; `holdfast rebuild` restores the state from git"
_SHOWN_MAX = 200


def run_exists(run: str) -> RunExistsError:
    """Return the error for a run id that is taken."""
    return RunExistsError(f"run {run} already exists", "`holdfast resume` continues it")


def no_such_run(run: str) -> JournalError:
    """Return the error for a run that the journal does not have."""
    return JournalError(f"there is no run {run}", "`holdfast list` shows the runs there are")


def no_plan(plan_hash: str) -> JournalError:
    """Return the error for a plan that is missing although a run has it."""
    return JournalError(f"plan {plan_hash[:12]} is missing from the journal", REBUILD)


def lease_lost(run: str) -> LeaseLostError:
    """Return the error for a writer whose epoch is over."""
    return LeaseLostError(f"another runner took over run {run}", "`holdfast status` shows what it does there")


def run_held(run: str, holder: Holder, left_s: float) -> LeaseHeldError:
    """Return the error for a run whose lease another runner has in the store."""
    where = f" on {holder.host}" if holder.host else ""
    return LeaseHeldError(
        f"run {run} is held by another runner: {holder}",
        f"`holdfast stop {run}`{where} ends it; if it is gone, wait {ceil(left_s)} s and run the command again",
    )


def events_lost(name: str, run: str) -> EventsLostError:
    """Return the error for a store that no longer has what it acknowledged, or has what it never did."""
    return EventsLostError(
        f"{name} lost events of run {run} that it had acknowledged, or went back to an older state",
        f"`holdfast resume {run}` compares with git and carries on",
    )


def unreadable(name: str, error: Exception) -> JournalError:
    """Return the error for a stored record that is not what we wrote."""
    return JournalError(f"{name}: it holds a record that cannot be read ({_shortened(str(error))})", REBUILD)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn an error about a stored record into a JournalError with a hint: of a codec, of a number, of what is nested too deep."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(name, error) from error
