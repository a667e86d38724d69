"""What the core raises when an event may not happen."""

from __future__ import annotations


class IllegalEventError(Exception):
    """An event contradicts the state it was applied to: a result that came too late, or a defect of ours."""
