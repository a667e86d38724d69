"""`inspect`: which of its two sides is asked for. Looking at a run needs no git, so each is imported by itself."""

from __future__ import annotations

import argparse


def inspect(args: argparse.Namespace) -> int:
    """Show a run or a task whole; or a task's brief, its snapshots, or the files of one in a new directory."""
    if args.brief or args.wip or args.restore:
        from holdfast.cli.salvage import salvage

        return salvage(args)
    from holdfast.cli.look import inspect as show_whole

    return show_whole(args)
