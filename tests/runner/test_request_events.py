"""Each request of another process becomes the one event that is meant."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from holdfast.core import events as ev
from holdfast.runner.requests import Request, event_for

_ACTIONS = get_args(get_type_hints(Request)["action"])


@pytest.mark.parametrize("action", [name for name in _ACTIONS if name not in ("skip", "save")])
def test_only_a_request_to_skip_skips_a_task(action: str) -> None:
    """An action that somebody adds and forgets to handle must not skip a task."""
    request = Request(action=action, task="a", stage="s", system="apex")  # type: ignore[arg-type]
    assert not isinstance(event_for(request), ev.TaskSkipped)


def test_a_request_to_skip_skips_the_task_that_it_names() -> None:
    """The user's word about one task is about that task alone."""
    assert event_for(Request(action="skip", task="a")) == ev.TaskSkipped(task="a")


def test_an_unknown_request_is_refused() -> None:
    """Nothing is done for a request that nobody understands."""
    with pytest.raises(KeyError):
        event_for(Request(action="restart", task="a"))  # type: ignore[arg-type]
