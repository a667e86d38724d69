"""The brief of a planner agent, which writes a plan or changes that of a run, and how to recognise its answer and its goal.

Pure: text comes out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from holdfast.core import ids
from holdfast.core.amended_rows import STANDS, UNDER_WAY
from holdfast.core.brief import clip, quote
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState

PLAN_FILE = "plan.yaml"
_FEEDBACK_CHARS = 6_000
_SPECIFICATION_CHARS = 60_000
_STANDINGS_CHARS = 20_000
_ERROR_CHARS = 200
_FENCE = re.compile(r"(`{3,}|~{3,})\s*ya?ml", re.I)

_EXAMPLE = """\
holdfast: 1
goal: Add JWT auth to every protected route
agent: claude
limits: {jobs: 4, attempts: 3}
verify: ["pytest -q"]
stages:
  - id: foundation
    tasks:
      - id: user-model
        title: User model
        prompt: |
          Create the user model in src/user.py, with a hashed password. Done when tests/test_user.py passes.
        files: [src/user.py, tests/test_user.py]
      - id: tokens
        prompt: Issue and check signed tokens in src/tokens.py, with tests in tests/test_tokens.py.
        files: [src/tokens.py, tests/test_tokens.py]
  - id: routes
    exit: ["pytest -q"]
    tasks:
      - id: protect-routes
        needs: [user-model, tokens]
        prompt: Require a valid token on every route below /api. Cover it in tests/test_routes.py.
        acceptance: [A request without a token gets 401]
"""


def same_goal(one: str, other: str) -> bool:
    """Tell whether two goals are the same, without regard to white space and case."""
    return _folded(one) == _folded(other)


def goal_key(goal: str, specification: str = "") -> str:
    """Return the name under which everything about a goal is kept: readable, and unique per goal."""
    digest = hashlib.sha256((_folded(goal) + specification).encode(errors="replace")).hexdigest()[:12]
    return f"{ids.slug(goal)}-{digest}"


def _folded(goal: str) -> str:
    return " ".join(goal.split()).casefold()


def planning_brief(
    goal: str, agent: str, files: str, schema_path: str, feedback: Sequence[str], specification: str = ""
) -> str:
    """Return the brief of a planner, as Markdown; `feedback` says what was wrong with its earlier answers."""
    return "\n\n".join(_sections(goal, agent, files, schema_path, feedback, specification)) + "\n"


def _sections(
    goal: str, agent: str, files: str, schema_path: str, feedback: Sequence[str], specification: str
) -> Iterator[str]:
    yield "# Write a plan"
    yield (
        f"Break this goal into tasks that coding agents can do in parallel, and write the plan to `{PLAN_FILE}` in "
        "your current directory. Write no other file and change no code: others do the work later."
    )
    yield "## Goal\n\n" + quote(goal)
    if specification.strip():
        yield "## The specification\n\n" + quote(clip(specification, _SPECIFICATION_CHARS))
    yield (
        "## Rules\n\n"
        f"- The file starts with `holdfast: 1`, has `goal:` with exactly the goal above, and `agent: {agent}`.\n"
        + _rules(schema_path)
    )
    yield "## An example\n\n" + quote(_EXAMPLE, "yaml")
    yield from _end(files, feedback)


def _rules(schema_path: str) -> str:
    """Return the rules for the tasks of every plan."""
    return (
        "- A task is one focused change that lands by itself. Each agent sees only its own `prompt`, so say there all it "
        "needs: which files, which behaviour, how it can tell that it is done.\n"
        "- Tasks of a stage run at the same time: they must not edit the same files. Order them with `needs`, or put "
        "them into different stages; a stage begins when the one before it is complete.\n"
        "- `files` names what the task creates or changes and must exist in the end. `verify` is for commands that "
        "prove the work; use those that this project really has.\n"
        "- Ids are letters, digits, `.`, `_`, `-`, at most 64 of them, unique without regard to case.\n"
        "- Few good tasks are better than many small ones. Unknown keys are errors.\n"
        f"- The JSON Schema of the format is in `{schema_path}`."
    )


def _end(files: str, feedback: Sequence[str]) -> Iterator[str]:
    yield "## Files of the repository\n\n" + quote(files or "(none yet)")
    for number, wrong in enumerate(feedback, start=1):
        yield f"## What was wrong with answer {number}\n\n" + quote(clip(wrong, _FEEDBACK_CHARS))
    yield f"Write `{PLAN_FILE}` now, then exit. If you cannot write files, print it as one fenced `yaml` block."


def amending_brief(
    request: str, agent: str, plan: str, standings: str, files: str, schema_path: str, feedback: Sequence[str]
) -> str:
    """Return the brief of a planner that changes the plan of a run, as Markdown. `plan` is its text, `standings` where its tasks stand."""
    parts = (request, agent, plan, standings, files, schema_path, feedback)
    return "\n\n".join(_amending_sections(*parts)) + "\n"


def _amending_sections(
    request: str, agent: str, plan: str, standings: str, files: str, schema_path: str, feedback: Sequence[str]
) -> Iterator[str]:
    yield "# Change a plan"
    yield (
        f"Coding agents work on the plan in `{PLAN_FILE}` in your current directory. Edit that file so that the plan also does "
        "what is asked below. Write no other file and change no code: others do the work later."
    )
    yield "## What is asked\n\n" + quote(request)
    yield "## Where the tasks stand\n\n" + quote(clip(standings, _STANDINGS_CHARS))
    yield (
        "## Rules\n\n"
        f"- `{PLAN_FILE}` stays the whole plan. Leave everything as it is that has nothing to do with what is asked: tasks, their "
        "ids, stages, limits, comments, and `goal:`.\n"
        "- What has landed is in your current directory. It stays: never drop or change a landed task; new work builds on it. "
        "A task that is under way cannot be dropped.\n"
        "- A new task goes into the last stage of which something has landed, or into a later one.\n"
        f"- If a new task needs an agent and the plan has no `agent:`, give the task `agent: {agent}`.\n"
        + _rules(schema_path)
    )
    yield "## The plan as it is\n\n" + quote(clip(plan, _SPECIFICATION_CHARS), "yaml")
    yield from _end(files, feedback)


def task_standings(state: RunState) -> str:
    """Return a line for each task of a run: whether it landed, is under way, waits, or why it goes no further."""
    return "\n".join(f"{name}: {_standing(row)}" for name, row in state.tasks.items())


def _standing(row: TaskRow) -> str:
    if row.status in STANDS:
        return "landed"
    if row.status in UNDER_WAY or row.taken is not None:
        return "under way"
    tried = f" after {row.attempt} attempts" if row.attempt > 1 else ""
    why = f": {clip(' '.join(row.error.split()), _ERROR_CHARS)}" if row.error else ""
    return f"{row.status}{tried}{why}"


def fenced_yaml(output: str) -> str:
    """Return the last fenced YAML block of a text, or an empty string. One that is never closed does not count."""
    found, fence = "", ""
    block: list[str] = []
    for line in output.splitlines(keepends=True):
        word = line.strip()
        if fence and word == fence:
            found, fence = "".join(block), ""
        elif fence:
            block.append(line)
        elif opening := _FENCE.fullmatch(word):
            fence, block = opening[1], []
    return found
