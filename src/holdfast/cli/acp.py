"""`acp`: run an agent that speaks the Agent Client Protocol as the agent of an attempt."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from holdfast.cli.arguments import Arguments, option, positional
from holdfast.errors import HoldfastError

ARGUMENTS: Arguments = (
    option("--brief", "FILE", "the brief (standard input)", default=""),
    option("--session", "ID", "resume this session of the agent", default=""),
    option(
        "--permissions",
        None,
        "the answer to an agent that asks (allow); workspace: yes, except for files outside it",
        choices=("allow", "workspace", "refuse"),
        default="allow",
    ),
    positional("agent_command", "the command that starts the agent", metavar="-- COMMAND", nargs="*"),
)


def execute(args: Namespace) -> int:
    """Give the brief to an ACP agent and print its progress as lines of JSON. Exit 0 if it says that it is done."""
    if not args.agent_command:
        raise HoldfastError(
            "no agent was named", "`holdfast acp -- gemini --acp`: its command comes after `--`"
        )
    try:
        # The protocol's library takes most of a second to load, so only this command imports it.
        import asyncio
        import logging

        from holdfast.agents.acp.client import AcpTurn, run_turn
        from holdfast.agents.acp.permissions import PermissionPolicy
    except ModuleNotFoundError as error:
        raise HoldfastError(
            f"the ACP library is missing ({error.name})", "install it with `pip install 'holdfast[acp]'`"
        ) from None
    # The library logs what we report ourselves, with a traceback if nobody listens.
    logging.getLogger().addHandler(logging.NullHandler())
    turn = AcpTurn(
        argv=tuple(args.agent_command),
        brief=Path(args.brief).read_text(encoding="utf-8") if args.brief else sys.stdin.read(),
        workspace=str(Path.cwd()),
        policy=PermissionPolicy(args.permissions),
        session=args.session,
    )
    return asyncio.run(run_turn(turn))
