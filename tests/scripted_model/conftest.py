"""The model that most tests of the scripted model talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scripted_model import ScriptedModel
from tests.scripted_model.requests_by_hand import SCRIPT


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model with a script for T1."""
    with ScriptedModel({"T1": SCRIPT}) as serving:
        yield serving
