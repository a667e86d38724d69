"""The API of what is done by commands: actions, reports that are rarely asked for, and new runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.paths import StateDir
from holdfast.views.actions import ACTIONS, argv_of
from holdfast.views.command_answer import CommandAnswer
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.recap import Recap
from holdfast.views.recovery_text import RecoveryView
from holdfast.views.review import Review
from holdfast.web.answers import RefusedRequestError, body_of, json_answer
from holdfast.web.dashboard import Endpoint, dashboard_of, read, repository_of
from holdfast.web.repositories import load_run, require_task
from holdfast.web.run_endpoints import RUN_PATH, run_name

REPOSITORY_PATH = "/repositories/{repository}"
_PLAN_ENDINGS = (".yaml", ".yml", ".json")
_PLANS_MAX = 200
_LOOKED_AT_MAX = 2_000
_HEAD_BYTES = 65_536
_MARKS = (b"holdfast:", b'"holdfast"')
_VALUE_CHARS_MAX = 20_000
_JOBS_MAX = 1_000

_Value = Annotated[str, msgspec.Meta(max_length=_VALUE_CHARS_MAX)]


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action by its name, the task that it is about, and what the person said. A flag is said as `true`."""

    name: Annotated[str, msgspec.Meta(max_length=40)]
    task: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    fields: dict[Annotated[str, msgspec.Meta(max_length=40)], _Value | bool] = {}


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan file of the repository, as the list of plans has it."""

    path: _Value


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan file of the repository, and how to run it. `fresh`: an unfinished run of it is abandoned."""

    path: _Value
    agent: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    jobs: Annotated[int, msgspec.Meta(ge=1, le=_JOBS_MAX)] | None = None
    fresh: bool = False


class PlanFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The plan files of a repository, by their paths below its checkout."""

    plans: tuple[str, ...]


async def act(request: Request) -> Response:
    """Do what a button stands for: start its command, and answer with what it printed."""
    served, run, dashboard = repository_of(request), run_name(request), dashboard_of(request)
    wanted = await body_of(request, ActionRequest)

    def words(opened: ReadOnlyRepo) -> list[str]:
        state = load_run(opened, run).state()
        if wanted.task is not None:
            require_task(state, wanted.task)
        values = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in wanted.fields.items()
        }
        return argv_of(wanted.name, run, wanted.task, _cleaned(values))

    answer = await dashboard.commands.run(served, await read(served, words))
    dashboard.look_again(served, run)
    return json_answer(answer)


def _cleaned(values: dict[str, str]) -> dict[str, str]:
    """Return what was typed as words of a command can be: without the character that ends them."""
    return {name: value.replace("\0", "") for name, value in values.items()}


async def recovery(request: Request) -> Response:
    """Answer with what resuming the run would do."""
    return await _printed(request, "resume", "--dry-run")


async def recap(request: Request) -> Response:
    """Answer with what happened in the run."""
    return await _printed(request, "recap")


async def review(request: Request) -> Response:
    """Answer with what the run changed, task by task."""
    return await _printed(request, "review")


async def _printed(request: Request, verb: str, *options: str) -> Response:
    served, run = repository_of(request), run_name(request)
    await read(served, lambda opened: load_run(opened, run))
    return json_answer(await dashboard_of(request).commands.view(served, [verb, run, *options, "--json"]))


async def plans(request: Request) -> Response:
    """Answer with the plan files of a repository."""
    return json_answer(
        await read(repository_of(request), lambda opened: PlanFiles(plans=tuple(_plans(opened))))
    )


def _plans(opened: ReadOnlyRepo) -> list[str]:
    """Return the plan files that people have: at the top of the checkout, in its `plans`, and those that planners wrote."""
    checkout = opened.checkout
    folders = (checkout, checkout / "plans", StateDir.of_checkout(checkout).plans)
    return [
        str(path.relative_to(checkout)) for folder in folders for path in _files_in(folder) if _is_plan(path)
    ][:_PLANS_MAX]


def _files_in(folder: Path) -> Iterator[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return
    with os.scandir(folder) as found:
        names = [
            one.name
            for one, _ in zip(found, range(_LOOKED_AT_MAX), strict=False)
            if one.is_file(follow_symlinks=False)
        ]
    yield from (folder / name for name in sorted(names) if name.lower().endswith(_PLAN_ENDINGS))


def _is_plan(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return any(mark in head for mark in _MARKS)


async def show_plan(request: Request) -> Response:
    """Answer with what a run of a plan would do."""
    served = repository_of(request)
    path = await _known_plan(request, (await body_of(request, PlanRequest)).path)
    return json_answer(
        await dashboard_of(request).commands.view(served, ["run", path, "--dry-run", "--json"])
    )


async def start(request: Request) -> Response:
    """Start a run in the background."""
    served, dashboard = repository_of(request), dashboard_of(request)
    wanted = await body_of(request, StartRequest)
    words = ["run", await _known_plan(request, wanted.path)]
    words += [f"--agent={wanted.agent}"] if wanted.agent else []
    words += [f"--jobs={wanted.jobs}"] if wanted.jobs else []
    words += ["--fresh"] if wanted.fresh else []
    return json_answer(await dashboard.commands.run(served, [*words, "--detach", "--yes", "--json"]))


async def _known_plan(request: Request, path: str) -> str:
    """Return a path of the list of plans, as the command line takes it. Raises RefusedRequestError if it is not there."""
    known = await read(repository_of(request), _plans)
    if path not in known:
        raise RefusedRequestError(404, "there is no such plan", "the list of plans has all that can be run")
    return f"./{path}"


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST", f"{RUN_PATH}/actions", act, f"Do one of {', '.join(ACTIONS)}", CommandAnswer, ActionRequest
    ),
    Endpoint("GET", f"{RUN_PATH}/recovery", recovery, "What resuming the run would do", RecoveryView),
    Endpoint("GET", f"{RUN_PATH}/recap", recap, "What happened, and whether git proves it", Recap),
    Endpoint("GET", f"{RUN_PATH}/review", review, "What the run changed, task by task", Review),
    Endpoint("GET", f"{REPOSITORY_PATH}/plans", plans, "Plan files of the repository", PlanFiles),
    Endpoint(
        "POST",
        f"{REPOSITORY_PATH}/plans/preview",
        show_plan,
        "The plan whole, with what it executes and what it may take",
        dict[str, Any],
        PlanRequest,
    ),
    Endpoint(
        "POST", f"{REPOSITORY_PATH}/runs", start, "Start a run in the background", CommandAnswer, StartRequest
    ),
)
