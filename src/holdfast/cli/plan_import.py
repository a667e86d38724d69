"""`plan import`: a plan file made from an existing task list. The list itself is only read here.

The plan remembers where the list is and which points each task ticks there, if the user wants that (`--tick`).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.agents.presets import installed_presets, presets_of
from holdfast.cli.arguments import JSON, PLAN_OUTPUT, Arguments, flag, option, positional
from holdfast.cli.installed_agents import choose_agent
from holdfast.cli.output import show
from holdfast.core.plan import ListKind, Plan
from holdfast.errors import ExitCode, HoldfastError
from holdfast.formats.discovery import FILE_BYTES_MAX
from holdfast.formats.lists import ImportedPlan, ImportOptions, kind_of, read_list
from holdfast.paths import STATE_DIR
from holdfast.plans.writer import plan_text
from holdfast.repo.discovery import find_repository
from holdfast.repo.files import write_durably
from holdfast.views.text import count, one_line

_IN_FOLDER = ("tasks.md", "tasks.json", "tasks/tasks.json", ".taskmaster/tasks/tasks.json")
_TASK_FOLDERS = (".", "tasks", "backlog/tasks", ".backlog/tasks")
_FILES_MAX = 2_000
_NOTES_MAX = 12
_DEFAULT_AGENT = "claude"


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `plan import --json` prints: the plan file, and the list it was made from."""

    path: str
    source: str
    kind: ListKind
    tasks: int
    stages: int
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    tick: bool = False


ARGUMENTS: Arguments = (
    positional("file", "tasks.md of spec-kit, tasks.json, a backlog folder, any checklist"),
    PLAN_OUTPUT,
    option(
        "--from", None, "the kind of list (recognized by its content)", dest="kind", choices=list(ListKind)
    ),
    option("--tag", "TAG", "the list of a tasks.json to take (master)", default=""),
    flag("--all", "import finished tasks too"),
    flag("--parallel", "let the points of a checklist run at the same time"),
    option("--agent", "A", "the agent that works (the first one installed)", default=""),
    flag("--tick", "tick its points in the list when a run of the plan lands them"),
    flag("--force", "replace an existing file"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Write a plan file made from a task list. Only `--force` replaces an existing file."""
    checkout = find_repository(Path.cwd()).checkout
    kind, name, documents = _found(Path(args.file), checkout, args.kind)
    options = ImportOptions(keep_done=args.all, parallel=args.parallel, tag=args.tag)
    imported = read_list(kind, name, documents, options)
    target = Path(args.output)
    if target.exists() and not args.force:
        raise HoldfastError(
            f"{target} already exists", "name another file with -o, or use --force to replace it"
        )
    presets = presets_of(checkout)
    installed = installed_presets(presets)
    agent = choose_agent(args.agent, presets) if args.agent else next(iter(installed), _DEFAULT_AGENT)
    plan = _with_ticks(msgspec.structs.replace(imported.plan, agent=agent), checkout, tick=args.tick)
    head = f"# Made from {one_line(name)} ({kind}). To look at it without running anything: holdfast run {target} --dry-run\n"
    write_durably(target, (head + plan_text(plan)).encode())
    result = ImportResult(
        path=str(target),
        source=name,
        kind=kind,
        tasks=sum(len(stage.tasks) for stage in imported.plan.stages),
        stages=len(imported.plan.stages),
        left_out=tuple(f"{one_line(part.what)} ({part.why})" for part in imported.left_out),
        notes=(*(finding.sentence for finding in imported.findings), *(_unticked(plan) if args.tick else ())),
        tick=args.tick,
    )
    show(result, lambda result: "\n".join(_lines(result)), args)
    if not args.agent and not installed and not args.json:
        print(f"No known agent is on the PATH; the plan names {agent}: change `agent:` if you like.")
    return ExitCode.DONE


def _with_ticks(plan: Plan, checkout: Path, *, tick: bool) -> Plan:
    """Return the plan with the user's word about ticks. A list outside of the project is not remembered: nothing is ticked there."""
    listed = plan.task_list
    assert listed is not None, "a plan made from a list"
    full = (checkout / listed.path).resolve()
    if (
        full == checkout / listed.path
        and full.is_relative_to(checkout)
        and not {".git", STATE_DIR}.intersection(full.parts)
    ):
        return msgspec.structs.replace(plan, task_list=msgspec.structs.replace(listed, tick=tick))
    if tick:
        raise HoldfastError(
            f"{listed.path} is not in this repository, so nothing is ticked there",
            "import it without --tick, or copy it into the repository first",
        )
    stages = [
        msgspec.structs.replace(
            stage, tasks=tuple(msgspec.structs.replace(task, points=()) for task in stage.tasks)
        )
        for stage in plan.stages
    ]
    return msgspec.structs.replace(plan, task_list=None, stages=tuple(stages))


def _unticked(plan: Plan) -> list[str]:
    """Return a note for each task whose points cannot be told from others."""
    why = "another point of the list has the same words, so it is not ticked"
    return [f"{task.id}: {why}" for _, task in plan.tasks() if not task.points]


def list_kind_at(path: Path) -> ListKind | None:
    """Return what kind of task list a file is, or None if it is not a list or unreadable."""
    data = _content(path)
    return kind_of(path.name, data) if data is not None else None


def read_list_at(path: Path, checkout: Path, kind: ListKind) -> tuple[str, ImportedPlan]:
    """Return a list's name, and the plan made from it."""
    _, name, documents = _found(path, checkout, kind)
    return name, read_list(kind, name, documents, ImportOptions())


def _found(path: Path, checkout: Path, wanted: str | None) -> tuple[ListKind, str, dict[str, bytes]]:
    """Return the kind of a list, its name, and its files by their names below the repository."""
    for files in _candidates(path):
        documents = {_name(file, checkout): data for file in files if (data := _content(file)) is not None}
        kinds = {name: kind_of(name, data) for name, data in documents.items()}
        if len(files) > 1:
            if ListKind.BACKLOG in kinds.values() and wanted in (None, ListKind.BACKLOG):
                return ListKind.BACKLOG, _name(path, checkout), documents
            continue
        for name, recognized in kinds.items():
            if kind := wanted or recognized:
                return ListKind(kind), name, documents
    raise HoldfastError(
        f"no task list was found in {path}",
        "name a tasks.md of spec-kit, a tasks.json of Task Master, a folder of Backlog.md, or a file with check boxes",
    )


def _candidates(path: Path) -> Iterator[list[Path]]:
    """Yield groups of files that may be a list: the named one, or those that a folder usually has."""
    if not path.exists():
        raise HoldfastError(f"there is no {path}", "name a file, or a folder with a task list")
    if not path.is_dir():
        yield [path]
        return
    yield from ([path / name] for name in _IN_FOLDER if (path / name).is_file())
    for folder in _TASK_FOLDERS:
        files = sorted((path / folder).glob("*.md"))[:_FILES_MAX]
        yield from ([files] if len(files) > 1 else [[file] for file in files])


def _name(path: Path, checkout: Path) -> str:
    full = path.resolve()
    return str(full.relative_to(checkout)) if full.is_relative_to(checkout) else str(path)


def _content(path: Path) -> bytes | None:
    """Return a file's bytes; None if it is not a plain file, too large, or unreadable."""
    try:
        readable = path.is_file() and path.stat().st_size <= FILE_BYTES_MAX
        return path.read_bytes() if readable else None
    except OSError:
        return None


def _lines(result: ImportResult) -> Iterator[str]:
    sizes = f"{count(result.tasks, 'task')} in {count(result.stages, 'stage')}"
    yield f"Wrote {result.path}: {sizes}, from {one_line(result.source)} ({result.kind})."
    for label, lines in (("Left out", result.left_out), ("Note", result.notes)):
        yield from (f"  {label}: {one_line(line, 160)}" for line in lines[:_NOTES_MAX])
        if len(lines) > _NOTES_MAX:
            yield f"  {label}: and {len(lines) - _NOTES_MAX} more; --json names them all"
    if result.tick:
        yield "  What a run of it lands is ticked in the list."
    yield f"Read it, edit it, and start it: `holdfast run {result.path}`."
