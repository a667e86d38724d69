"""Tests that need bubblewrap are skipped, with the reason, where it does not work."""

from __future__ import annotations

import pytest

from holdfast.process.sandbox import probe_sandbox

needs_sandbox = pytest.mark.skipif(not probe_sandbox().program, reason=probe_sandbox().obstacle)
