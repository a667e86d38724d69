"""Tests that need bubblewrap, or Landlock, are skipped where it does not work, with the reason."""

from __future__ import annotations

import pytest

from holdfast.process.landlock import landlock_obstacle
from holdfast.process.sandbox import BY_VARIABLE, LANDLOCK, probe_bubblewrap

needs_sandbox = pytest.mark.skipif(not probe_bubblewrap().program, reason=probe_bubblewrap().obstacle)
needs_landlock = pytest.mark.skipif(bool(landlock_obstacle()), reason=landlock_obstacle())
BY_LANDLOCK = {BY_VARIABLE: LANDLOCK}
"""What a user's environment says who wants no namespaces."""
