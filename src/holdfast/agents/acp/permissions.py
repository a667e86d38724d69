"""Answers permission requests of an ACP agent by a policy, because there is nobody to ask.

What an agent says about its request is believed only against it: a request that names no file, or names one in a way
that is not plainly a path in the workspace, is refused where the policy is `workspace`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

_FILE_KINDS = frozenset({"read", "edit", "delete", "move", "search"})
"""Kinds of tool calls that touch the files they name and nothing else. A command or a download may touch anything."""


class PermissionPolicy(StrEnum):
    """`allow` says yes; `workspace` only to what touches nothing outside the workspace; `refuse` says no."""

    ALLOW = "allow"
    WORKSPACE = "workspace"
    REFUSE = "refuse"


class NamedToolCall(NamedTuple):
    """What an agent said of a tool call: its kind, and every path that it named."""

    kind: str | None = None
    paths: frozenset[str] = frozenset()


def is_allowed(policy: PermissionPolicy, call: NamedToolCall, workspace: str) -> bool:
    """Tell whether a tool call may be made."""
    if policy is not PermissionPolicy.WORKSPACE:
        return policy is PermissionPolicy.ALLOW
    names_files = call.kind in _FILE_KINDS and bool(call.paths)
    return names_files and all(_is_within(path, workspace) for path in call.paths)


def choose_option(options: Mapping[str, str], *, allowed: bool) -> str:
    """Return the option to choose, by its kind; empty if none fits, and then the request is cancelled.

    An answer for this time only is preferred: a permanent rule would outlive its reason.
    """
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    return next((options[kind] for kind in kinds if kind in options), "")


def _is_within(path: str, workspace: str) -> bool:
    """Tell whether a path leads into the workspace, after links and `..` are followed.

    `~`, a variable or an address means a place that only the agent knows: it is not within.
    """
    if not path or path.startswith(("~", "$")) or ":" in path.partition("/")[0] or "\0" in path:
        return False
    real = os.path.realpath(os.path.join(workspace, path))  # noqa: PTH118 - the rules of os.path are meant
    root = os.path.realpath(workspace)
    return real == root or real.startswith(root + os.sep)
