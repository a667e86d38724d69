"""`mcp`: Holdfast's tools for agents that speak the Model Context Protocol.

Only this command loads its library.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

from holdfast.cli.arguments import Arguments, flag, option
from holdfast.errors import ExitCode, HoldfastError

ARGUMENTS: Arguments = (
    option("--agree", "PLAN", "show what a plan runs, record that you agree, and end"),
    flag("--yes -y", "agree to every plan that an agent opens"),
)


def execute(args: Namespace) -> int:
    """Serve one client on standard input and output until it leaves, or record that the user agrees to a plan."""
    if args.agree is not None:
        return _agree(args)
    try:
        from holdfast.mcp_server.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise HoldfastError(
            "the MCP server needs a package that is not installed", "`pip install 'holdfast[mcp]'` adds it"
        ) from None
    asyncio.run(serve(Path.cwd(), agreed=args.yes))
    return ExitCode.DONE


def _agree(args: Namespace) -> int:
    """Show what a plan runs and record the user's agreement, so that an agent may lead a run of it."""
    from holdfast.agents.presets import agent_names, presets_of
    from holdfast.cli.consent import require_consent
    from holdfast.cli.open_repo import open_repo
    from holdfast.mcp_server.lead_session import AGENT_IF_NONE
    from holdfast.plans import read_plan

    with open_repo(create=True) as opened:
        known = agent_names(presets_of(opened.repo.checkout))
        plan = read_plan(Path(args.agree), known, if_none=AGENT_IF_NONE)
        require_consent(opened.journal, plan, opened.repo.checkout, yes=args.yes)
    print(f"Agreed: an agent may lead a run of {args.agree}.")
    return ExitCode.DONE
