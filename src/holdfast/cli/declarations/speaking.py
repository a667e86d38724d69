"""What agents call."""

from __future__ import annotations

import argparse

from holdfast.cli.shared_arguments import Commands, Parser


def _mcp(command: Parser) -> None:
    command.add_argument(
        "--agree", metavar="PLAN", help="show what a plan runs, note that you agree to it, and end"
    )
    command.add_argument(
        "--yes", "-y", action="store_true", help="agree to whatever the plans run that an agent opens"
    )


def _report(command: Parser) -> None:
    # Only for the list of commands: `report` reads its own arguments, see `cli/main.py`.
    command.add_argument("words", nargs=argparse.REMAINDER)


def _acp(command: Parser) -> None:
    command.add_argument("--brief", metavar="FILE", default="", help="what is to be done (standard input)")
    command.add_argument("--session", metavar="ID", default="", help="go on with this session of the agent's")
    command.add_argument(
        "--permissions",
        choices=("allow", "workspace", "refuse"),
        default="allow",
        help="how to answer an agent that asks (allow); workspace: yes, but for files outside it",
    )
    command.add_argument("agent_command", metavar="-- COMMAND", nargs="*", help="how the agent is started")


COMMANDS: Commands = {
    "report": ("holdfast.cli.report:report", "for agents: tell how far you are", _report),
    "acp": ("holdfast.cli.acp:acp", "for plans: run an agent that speaks the Agent Client Protocol", _acp),
    "mcp": ("holdfast.cli.mcp:mcp", "for agents: report, or lead a run, over MCP", _mcp),
}
