"""How permission requests of an ACP agent are answered: by a policy, because nobody is there to ask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class PermissionPolicy(StrEnum):
    """`allow` says yes; `workspace` only to what touches nothing outside the workspace; `refuse` says no."""

    ALLOW = "allow"
    WORKSPACE = "workspace"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One answer that the agent offers. Its kind is one of the protocol's: allow_once, reject_always …"""

    option: str
    kind: str


def is_allowed(policy: PermissionPolicy, paths: Iterable[str], workspace: str) -> bool:
    """Tell whether something that touches these paths may be done."""
    if policy is not PermissionPolicy.WORKSPACE:
        return policy is PermissionPolicy.ALLOW
    return all(_is_within(path, workspace) for path in paths)


def choose_option(choices: Sequence[PermissionChoice], *, allowed: bool) -> str:
    """Return the option to choose; empty if none fits, and then the request is cancelled.

    An answer for this time only is preferred: a permanent rule would outlive its reason.
    """
    wanted = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    by_kind = {choice.kind: choice.option for choice in reversed(choices)}
    return next((by_kind[kind] for kind in wanted if kind in by_kind), "")


def _is_within(path: str, workspace: str) -> bool:
    """Tell whether a path leads into the workspace, after links and `..` are followed."""
    real = os.path.realpath(os.path.join(workspace, path))  # noqa: PTH118 - the rules of os.path are meant
    root = os.path.realpath(workspace)
    return real == root or real.startswith(root + os.sep)
