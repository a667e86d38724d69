"""A run that another process executes, followed by reading its journal as it grows. It changes nothing.

On a terminal it is drawn as `run` draws it. Leaving, with Ctrl-C, ends only the following.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

from holdfast.cli.output import note
from holdfast.core.event_codec import Recorded, encode_event
from holdfast.core.state import RunState
from holdfast.errors import StoreUnavailableError
from holdfast.views.event_text import event_sentence, showable
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.terminal import supports_live_display, write_line
from holdfast.views.text import time_of_day

_SHOWN_FIRST = 12
"""How many of the latest events are told to somebody who comes late."""
_AGAIN_S = 0.5
"""How long after a store did not answer it is asked again."""

_Show = Callable[[Sequence[Recorded], RunState], None]


def follow_run(opened: ReadOnlyRepo, run: str, args: Namespace) -> None:
    """Show what happens in a run until no runner holds it any more."""
    journal = opened.require_journal()
    stored = journal.load(run)
    earlier = list(journal.events(run, upto=stored.last_seq))
    with _display(earlier, json=args.json) as show:
        show([] if args.json else earlier[-_SHOWN_FIRST:], stored.state())
        seen, is_away = stored.last_seq, False
        while True:
            try:
                for told in _until_over(opened, run, seen):
                    is_away = False
                    if told:
                        show(told, journal.load(run).state())
                        seen = _last(told, seen)
            except StoreUnavailableError as error:
                if not is_away:
                    note(f"{error.message}; the run goes on, and is shown again once the store answers")
                is_away = True
                time.sleep(_AGAIN_S)
            else:
                return


def _until_over(opened: ReadOnlyRepo, run: str, seen: int) -> Iterator[list[Recorded]]:
    """Yield what happens after an event until no runner holds the run. Raises StoreUnavailableError while its server is away."""
    journal = opened.require_journal()
    with closing(journal.follow(run, seen)) as followed:
        for happened in followed:
            seen = _last(happened, seen)
            if opened.holder(run) is not None:
                yield happened
                continue
            # Read once more after that was seen, so that the last ones are shown.
            yield [*happened, *journal.events(run, after=seen)]
            return


def _last(happened: Sequence[Recorded], seen: int) -> int:
    return happened[-1].seq if happened else seen


def _display(earlier: Sequence[Recorded], *, json: bool) -> AbstractContextManager[_Show]:
    if json:
        return nullcontext(_show_json)
    if not supports_live_display(sys.stdout):
        return nullcontext(_show_lines)
    return _Drawn(earlier)


class _Drawn(AbstractContextManager[_Show]):
    """The live view, fed from a journal."""

    def __init__(self, earlier: Sequence[Recorded]) -> None:
        from holdfast.views.live import LiveTable

        self._table = LiveTable()
        self._table.remember([(record.at, record.event) for record in earlier])

    def __enter__(self) -> _Show:
        self._table.__enter__()
        return lambda happened, state: self._table.show([(one.at, one.event) for one in happened], state)

    def __exit__(self, *exc: object) -> None:
        self._table.__exit__(*exc)


def _show_json(happened: Sequence[Recorded], _state: RunState) -> None:
    for record in happened:
        write_line(encode_event(showable(record.event)).decode(), sys.stdout)


def _show_lines(happened: Sequence[Recorded], _state: RunState) -> None:
    for record in happened:
        if words := event_sentence(record.event):
            write_line(f"{time_of_day(record.at)}  {words}", sys.stdout)
