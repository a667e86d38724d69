"""An agent that lands one task, gets half-way through the next and waits to be killed: `interrupted_client DIRECTORY PLAN SERVER…`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.mcp_server.lead_client import leading
from tests.support.repositories import write


async def main(here: Path, plan: str, server: list[str]) -> None:
    """Land `a`, write half of `b`, say so, wait."""
    async with leading(here, server=server) as leader:
        await leader("open_run", plan=plan)
        await leader.work("a")
        claim = await leader.claim("b")
        write(Path(claim["workspace"]) / "b.txt", "half\n")
        sys.stdout.write(claim["token"] + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
