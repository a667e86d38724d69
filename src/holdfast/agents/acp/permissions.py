"""Answers permission requests of an ACP agent by a policy, because there is nobody to ask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum


class PermissionPolicy(StrEnum):
    """`allow` says yes; `workspace` only to what touches nothing outside the workspace; `refuse` says no."""

    ALLOW = "allow"
    WORKSPACE = "workspace"
    REFUSE = "refuse"


def is_allowed(policy: PermissionPolicy, paths: Iterable[str], workspace: str) -> bool:
    """Tell whether something that touches these paths may be done."""
    if policy is not PermissionPolicy.WORKSPACE:
        return policy is PermissionPolicy.ALLOW
    return all(_is_within(path, workspace) for path in paths)


def choose_option(options: Mapping[str, str], *, allowed: bool) -> str:
    """Return the option to choose, by its kind; empty if none fits, and then the request is cancelled.

    An answer for this time only is preferred: a permanent rule would outlive its reason.
    """
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    return next((options[kind] for kind in kinds if kind in options), "")


def _is_within(path: str, workspace: str) -> bool:
    """Tell whether a path leads into the workspace, after links and `..` are followed."""
    real = os.path.realpath(os.path.join(workspace, path))  # noqa: PTH118 - the rules of os.path are meant
    root = os.path.realpath(workspace)
    return real == root or real.startswith(root + os.sep)
