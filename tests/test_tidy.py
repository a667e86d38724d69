"""The house rules that no linter knows: who may import whom, how long things get, which doors there are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holdfast.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
MODULES = sorted(SOURCE.rglob("*.py"))

LEAVES = {
    "boot",
    "disk_sync",
    "errors",
    "escapes",
    "folders",
    "locks",
    "mounts",
    "paths",
    "redaction",
    "report_channel",
    "secret_shapes",
    "system_errors",
}
"""Modules that anybody may import and that import nothing of ours."""

ALLOWED = {
    "core": set(),
    "reporting": {"core"},
    "process": set(),
    "journal": {"core"},
    "repo": {"core"},
    "agents": {"core"},
    "plans": {"core"},
    "formats": {"core", "reporting"},
    "workflows": {"core", "plans"},
    "fleet": {"core", "process"},
    "runner": {"core", "reporting", "journal", "repo", "fleet", "agents", "formats"},
    "demo": set(),
    "mcp_server": {"core", "reporting", "journal", "repo", "fleet", "agents", "plans", "runner", "views"},
    "views": {"core", "reporting", "journal", "repo", "fleet", "runner"},
    "web": {
        "core",
        "reporting",
        "journal",
        "repo",
        "fleet",
        "process",
        "agents",
        "plans",
        "runner",
        "views",
    },
    "watch": {"core", "reporting", "journal", "fleet", "process", "agents", "runner", "views"},
    "cli": {
        "core",
        "reporting",
        "journal",
        "repo",
        "fleet",
        "process",
        "agents",
        "plans",
        "formats",
        "workflows",
        "runner",
        "views",
        "demo",
        "mcp_server",
        "watch",
        "web",
    },
    "testing": {"core", "journal", "repo", "fleet", "agents", "plans", "runner"},
    "__main__": {"cli"},
}
"""The dependency direction of docs/architecture.md, as data."""

IMPURE = {
    "os",
    "time",
    "random",
    "asyncio",
    "subprocess",
    "logging",
    "sqlite3",
    "pathlib",
    "datetime",
    "secrets",
    "socket",
}
LINES_MAX = 500
LONG = {
    "core/events.py": "every event in one place, a few lines each",
    "core/task_transitions.py": "the state machine of a task as a whole: its theory, its folds, its table",
}
FUNCTION_LINES_MAX = 70
SMALL_BELOW = 60
SMALL = {
    "core/stored_names.py": "ids as types of a codec, which `holdfast report` must not load",
    "agents/acp/permissions.py": "the policy that answers an agent's requests, apart from the protocol",
    "agents/consent.py": "what an agreement covers; asked by commands, the runner and the MCP server",
    "boot.py": "the one reader of the boot id; supervisors load it, so it stays apart from what is heavier",
    "mounts.py": "the one reader of the table of mounts; supervisors load it, so it stays apart from what is heavier",
    "watch/shown_log.py": "what an agent prints, read as it grows; the screen only shows it",
    "web/commands.py": "how many commands the page starts at once, and how long they may take",
    "views/log_text.py": "what one entry of a log looks like; streams are read, and lines printed, elsewhere",
    "cli/filter_consent.py": "the question about new content filters, asked by three commands",
    "runner/content_filters.py": "which content filters the user accepted, for every command and an agent that leads",
    "core/conflicts.py": "the rule that no side of a conflict is lost",
    "formats/registry.py": "the table of systems",
    "fleet/temporal/carrier.py": "the protocol between the fleet and who carries workspaces by git",
    "fleet/temporal/host_launches.py": "launches that a lease bounds; only a host has them",
    "fleet/copied_launches.py": "which processes a copy of a repository leaves alone; the fleet only asks it",
    "journal/stored_names.py": "read while somebody types: it must not load what its neighbours need",
    "reporting/snapshot_message.py": "the message of a snapshot's commit",
}
"""Modules below sixty lines, each with the reason why it is a subject by itself. Any other belongs into its neighbour.

Commands and stream readers are not listed: one file per command and one per stream is what people look for.
"""

IMPLEMENTATIONS = {
    "journal": re.compile(r"holdfast\.journal\.(sqlite|memory|redis|postgres)"),
    "fleet": re.compile(r"holdfast\.fleet\.local"),
}
"""What only `open_journal` and `open_fleet` know: which implementations there are."""

ABOUT_ALL_COMMANDS = {
    "bad_input",
    "foreign_commits",
    "forked_commands",
    "full_disk",
    "help",
    "leaving",
    "machine_errors",
    "planted_git_settings",
    "terminal",
}
TESTED_ELSEWHERE = {"acp": "tests/agents/test_acp.py", "mcp": "tests/mcp_server/"}
"""The tests of `tests/cli/` that are about no command by itself, and the commands whose tests are not there."""

SUBJECTS = {
    "fleet/temporal_placement": "which host of a fleet of many machines takes a launch",
    "fleet/temporal_faults": "a fleet of many machines whose hosts, links, server and runner fail",
    "core/simulation": "the whole core, driven through random runs and faults",
    "journal/history": "writers that share a run in a server, under faults",
    "journal/migrations": "files of older versions",
    "journal/open_journal": "which journal an address opens",
    "repo/state_folder": "`.holdfast` in a cloned or hostile repository",
}
"""Test files that are called after no module of their package, and what they are about."""

SPAWNERS = {"subprocess", "multiprocessing", "pty"}
TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
TWICE = {"Command", "Outcome"}
"""Type names that stand for two things until one of them is renamed: a row of cli/commands.py, the words of `inspect`."""

BANNED_NAMES = re.compile(r"Manager|Engine|Coordinator|Service|Helper|[Uu]tils|[Ee]nhanced|[Ll]egacy")


def _part(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module, which many rules look at."""
    return ast.parse(path.read_text())


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _parts_imported(path: Path) -> set[str]:
    names = [name.split(".") for name in _imports(path) if name.startswith("holdfast.")]
    return {name[1] for name in names} - LEAVES - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    """Dependencies point one way, so that a part can be read without those above it."""
    part = _part(path)
    if part == "__init__":
        return
    allowed = set() if part in LEAVES else ALLOWED[part]
    assert _parts_imported(path) - {part} <= allowed


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    """Import cycles make every module of the circle one big module."""
    names = {
        ".".join(("holdfast", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES
    }
    edges = {name: {other for other in _imports(path) if other in names} for name, path in names.items()}
    while leaf := next((name for name, targets in edges.items() if not targets), None):
        del edges[leaf]
        for targets in edges.values():
            targets.discard(leaf)
    assert not edges, f"in or above a circle: {sorted(edges)}"


@pytest.mark.parametrize(
    "path",
    sorted([*(SOURCE / "core").rglob("*.py"), *(SOURCE / "reporting").rglob("*.py")]),
    ids=lambda path: path.name,
)
def test_the_core_has_no_clock_disk_process_or_chance(path: Path) -> None:
    """The same core must give the same answers in production, in the simulator and in every test."""
    assert not {name.split(".")[0] for name in _imports(path)} & IMPURE


def test_processes_are_started_behind_two_doors_only() -> None:
    """Agents go through process/, git through repo/git.py; a third door would escape supervision."""
    users = {
        path.relative_to(SOURCE) for path in MODULES if {n.split(".")[0] for n in _imports(path)} & SPAWNERS
    }
    assert {path for path in users if path.parts[0] != "process"} <= {Path("repo/git.py")}


def test_refs_are_moved_behind_one_door_only() -> None:
    """A ref that is moved elsewhere would hold objects that a power cut can take away."""
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value == "update-ref"
    }
    assert users == {"repo/ref_updates.py"}


def _lines(path: Path) -> int:
    return path.read_text().count("\n")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_and_modules_stay_small(path: Path) -> None:
    """A function fits on a screen, a module in a head."""
    assert _lines(path) <= LINES_MAX or str(path.relative_to(SOURCE)) in LONG
    functions = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert not [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > FUNCTION_LINES_MAX]


def _may_be_small(path: Path) -> bool:
    name = str(path.relative_to(SOURCE))
    commands = {f"cli/{command.replace(' ', '_')}.py" for command in COMMANDS}
    return path.stem in ("__init__", "__main__") or name.startswith("agents/streams/") or name in commands


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_a_subject_and_not_a_fragment(path: Path) -> None:
    """A small module says in `SMALL` why it stands alone; otherwise it belongs into its neighbour."""
    assert _lines(path) >= SMALL_BELOW or _may_be_small(path) or str(path.relative_to(SOURCE)) in SMALL


def test_the_list_of_small_modules_names_no_other() -> None:
    """A module that has grown, or is gone, leaves the list."""
    assert [name for name in SMALL if _lines(SOURCE / name) >= SMALL_BELOW] == []


def _public_types(path: Path) -> Iterator[str]:
    """Yield the classes and the type aliases of a module."""
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_public_type_name_is_used_twice() -> None:
    """One name, one thing: a search for a class or a type alias leads to one place."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for name in _public_types(path):
            if TYPE_NAME.fullmatch(name):
                places.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1 and name not in TWICE} == {}


def test_no_type_of_the_tests_has_the_name_of_another() -> None:
    """A stand-in is called so: `SimulatedRepository`, not `Repository`."""
    ours = {name for path in MODULES for name in _public_types(path) if TYPE_NAME.fullmatch(name)}
    tests = [path for path in (ROOT / "tests").rglob("*.py") if not {"node_modules", "more"} & {*path.parts}]
    names = [name for path in tests for name in _public_types(path) if TYPE_NAME.fullmatch(name)]
    assert sorted(name for name, times in Counter(names).items() if times > 1 or name in ours) == []


@pytest.mark.parametrize("part", IMPLEMENTATIONS)
def test_only_the_package_itself_knows_its_implementations(part: str) -> None:
    """Another journal or fleet is a file and a row of a table; nobody else names one."""
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if _part(path) not in (part, "testing")
        and any(IMPLEMENTATIONS[part].match(name) for name in _imports(path))
    }
    assert users == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_say_what_a_thing_is(path: Path) -> None:
    """Words that fit everything explain nothing."""
    tree = parsed(path)
    names = {
        n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not [name for name in (*names, path.stem) if BANNED_NAMES.search(name)]


def test_a_test_of_the_command_line_is_called_after_its_command() -> None:
    """Who changes a command finds its tests by name; `test_run_workflow.py` is about one option of `run`."""
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "cli").glob("test_*.py")}
    commands = {command.replace(" ", "_") for command in COMMANDS}
    first_words = {name for name in files if name.split("_")[0] in commands}
    assert files - commands - first_words == ABOUT_ALL_COMMANDS
    assert commands - files == TESTED_ELSEWHERE.keys()


@pytest.mark.parametrize(
    "part", ["core", "reporting", "process", "fleet", "journal", "repo", "plans", "views"]
)
def test_a_test_of_a_module_is_called_after_it(part: str) -> None:
    """`test_local_crashes.py` is about `local.py`. What several modules do together has a subject of its own."""
    modules = {path.stem for path in (SOURCE / part).glob("*.py")}
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / part).glob("test_*.py")}
    named = {file for file in files for module in modules if f"{file}_".startswith(f"{module}_")}
    assert [file for file in sorted(files - named) if f"{part}/{file}" not in SUBJECTS] == []


def test_every_module_of_the_product_is_imported_by_another_or_started() -> None:
    """Code that nothing reaches is recovery that nobody calls."""
    imported = {name for path in MODULES for name in _imports(path)}
    started = {
        "holdfast.__main__",
        "holdfast.cli.main",
        "holdfast.demo.agent",
        "holdfast.plans.schema",
        *(f"holdfast.cli.{command.replace(' ', '_')}" for command in COMMANDS),
    }
    names = {".".join(("holdfast", *path.relative_to(SOURCE).with_suffix("").parts)) for path in MODULES}
    lazily = set(re.findall(r"holdfast\.[a-z_.]+", "\n".join(path.read_text() for path in MODULES)))
    modules = {name for name in names if not name.endswith("__init__")}
    assert modules - imported - started - lazily == set()
