"""What becomes of an effect that fails for a reason of ours, not the agent's: the run rests, nothing is charged."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from holdfast.core import events as ev
from holdfast.errors import HoldfastError, JournalError, LeaseLostError


class OvertakenError(Exception):
    """What an effect wanted to record may no longer happen; it must not act on it."""


async def guarded(
    effect: Coroutine[Any, Any, list[ev.AnyEvent]], put_back: Sequence[ev.AnyEvent]
) -> list[ev.AnyEvent]:
    """Run an effect; turn trouble with git or the disk into a blocked run that `resume` carries on.

    `put_back` undoes the effect's intent. A lost lease and a journal that cannot be written stay exceptions:
    after them nothing may be recorded.
    """
    try:
        return await effect
    except OvertakenError:
        return []
    except (LeaseLostError, JournalError):
        raise
    except HoldfastError as error:
        reason = f"{error.message}. {error.hint}".strip()
        return [*put_back, ev.StopRequested(blocked_by=reason)]
