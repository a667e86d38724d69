"""What all events share: their base, and the closed sets that several of them name."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

Gate = Literal["entry", "exit"]


class FailureKind(StrEnum):
    """Why an attempt did not lead to a landing. The retry policy and the next brief depend on it."""

    AGENT = "agent"
    KILLED = "killed"
    NO_CHANGE = "no_change"
    MISSING_FILES = "missing_files"
    CHECK = "check"
    MERGED_CHECK = "merged_check"
    CONFLICT = "conflict"
    SIDE_LOST = "side_lost"
    SYNTAX = "syntax"
    VALIDATION = "validation"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    REJECTED = "rejected"
    ENVIRONMENT = "environment"
    LIMIT = "limit"
    CONTEXT = "context"
    BUDGET = "budget"
    PERMISSION = "permission"
    AUTH = "auth"


class AttemptKind(StrEnum):
    """What a fresh agent is asked for: new work, a repair of earlier work, or both sides of a conflict."""

    IMPLEMENTATION = "implementation"
    FIX = "fix"
    CONFLICT = "conflict"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all events; the class name is the `kind` in the journal."""
