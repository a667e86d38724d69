"""What an agent last said about its own progress. Believed for display and for briefs, never as proof."""

from __future__ import annotations

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last that an agent said about its own progress, each part as last reported."""

    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""
