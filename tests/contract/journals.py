"""The journals under contract, what the tests write into them, and the writer process they kill."""

from __future__ import annotations

import enum
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.core import events as ev, stored_names
from holdfast.core.event_codec import EVENT_KINDS
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal
from tests.support.servers import SERVERS, address_in

RUN = "01-add-auth"
PLAN = Plan(
    goal="add auth",
    stages=(
        Stage(id="s", tasks=(Task(id="b", prompt="do b"), Task(id="a", prompt="do a"))),
        Stage(id="t", tasks=tuple(Task(id=f"t{n}", prompt="do it") for n in range(9))),
    ),
)


EMBEDDED = {"memory": "memory://", "sqlite": "sqlite://{folder}/journal.db"}
"""How each embedded journal is reached in a test's folder."""
KINDS = [*EMBEDDED, *SERVERS]
"""The journals of the product, each by one of its schemes."""
DURABLE = [kind for kind in KINDS if kind != "memory"]


def open_in(folder: Path, kind: str) -> Journal:
    """Open the journal of one kind that belongs to a folder."""
    return open_journal(
        EMBEDDED[kind].format(folder=folder) if kind in EMBEDDED else address_in(folder, kind)
    )


def run_row(run: str = RUN, **changes: object) -> RunRow:
    """Return the row of a run that has just begun."""
    row = RunRow(run=run, goal="add auth", plan_hash="h1", base="b" * 40, branch=f"refs/heads/holdfast/{run}")
    return msgspec.structs.replace(row, **changes)


def started(run: str = RUN) -> ev.RunStarted:
    """Return the first event of a run."""
    return ev.RunStarted(
        run=run, goal="add auth", plan_hash="h1", base="b" * 40, branch=f"refs/heads/holdfast/{run}"
    )


def begin(journal: Journal, run: str = RUN) -> int:
    """Create a run and take its first epoch."""
    journal.create_run(PLAN, run_row(run), started(run), 100.0)
    return journal.take_epoch(run)


def one_of_each() -> list[ev.Event]:
    """Return an event of every class there is, each field filled."""
    return [_filled(kind) for kind in EVENT_KINDS]


def _filled(kind: type[typing.Any]) -> typing.Any:
    return kind(**{field.name: _value(field.type) for field in msgspec.structs.fields(kind)})


_CHECKED = {
    stored_names.Id: "L1.x_2-b",
    stored_names.OptionalId: "L1.x_2-b",
    stored_names.RunBranch: "refs/heads/holdfast/01-x",
    stored_names.ObjectName: "c" * 40,
    stored_names.BranchName: "é/b",
}


def _value(kind: typing.Any) -> object:
    """Return a value of a field's type that differs from any default."""
    if kind in _CHECKED:
        return _CHECKED[kind]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return (_value(arguments[0]),) * 2
    if typing.get_origin(kind) is dict:
        return {_value(arguments[0]): _value(arguments[1])}
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _value(arguments[0])
    if typing.get_origin(kind) is typing.Literal:
        return arguments[-1]
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    plain: dict[object, object] = {str: 'é"\\\n', int: 7, float: 1.5, bool: True}
    return plain[kind] if kind in plain else _filled(kind)


def write_for_ever(journal: Journal, run: str = RUN, batches: int = sys.maxsize) -> Iterator[int]:
    """Append batches of growing and shrinking size, each with matching rows; yield what `append` returned."""
    epoch, last = journal.take_epoch(run), journal.load(run).last_seq
    for batch in range(batches):
        size = batch * 7 % 5 + 1
        events = [
            ev.AttemptStarted(task=f"t{n % 9}", attempt=n, token="x" * 300, workspace_number=0, start="s")
            for n in range(last + 1, last + size + 1)
        ]
        tasks = [TaskRow(id=event.task, status=TaskStatus.RUNNING, attempt=event.attempt) for event in events]
        row = run_row(run, status=RunStatus.RUNNING, queue_number=last + size)
        last = journal.append(run, epoch, events, row, tasks, 200.0 + batch)
        yield last


def main() -> None:
    """Run as a process: open journal `argv[1]` in folder `argv[2]` and write to run `argv[3]`, saying what is safe."""
    name, folder, run, batches = sys.argv[1:]
    journal = open_in(Path(folder), name)
    for last in write_for_ever(journal, run, int(batches)):
        sys.stdout.write(f"{last}\n")
        sys.stdout.flush()
    journal.close()


if __name__ == "__main__":
    main()
