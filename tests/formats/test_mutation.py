"""Damaged files of other systems: a run with a sound plan, or a typed error, never anything else."""

from __future__ import annotations

import pytest

from tests.formats.mutation import sweep

CHUNK = 60


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_gives_a_run_or_a_typed_error(seed: int) -> None:
    """Whatever hands, models and crashes did to a file, nobody sees a traceback."""
    counts = sweep(CHUNK, seed)
    assert counts["crash"] == 0
    assert counts["read"] > 0
    assert counts["typed error"] > 0
