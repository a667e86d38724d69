"""Saving on request: whoever asks is told only once what there was at that moment is saved."""

from __future__ import annotations

import asyncio

from holdfast.runner.requests import SaveRequests


def test_who_asks_while_a_save_is_under_way_waits_for_the_next() -> None:
    """A save that began before the question may lack what was written since."""

    async def play() -> None:
        checkpoints = SaveRequests()
        with checkpoints.open_for("t") as wanted:
            with checkpoints.taking("t"):
                asked = asyncio.ensure_future(checkpoints.take())
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (asked.done(), wanted.is_set()) == (False, True)
            with checkpoints.taking("t"):
                assert not wanted.is_set()
            await asked

    asyncio.run(play())


def test_nobody_waits_for_an_attempt_that_has_ended() -> None:
    """What it leaves is kept by its end."""

    async def play() -> None:
        checkpoints = SaveRequests()
        with checkpoints.open_for("t"):
            asked = asyncio.ensure_future(checkpoints.take())
            await asyncio.sleep(0)
        await asked

    asyncio.run(play())
