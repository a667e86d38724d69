"""Every key of a plan file: one table for the reader and for the JSON Schema. Run as a module to write the schema file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan import (
    PORTS_MAX,
    STREAMS,
    Limits,
    ListKind,
    Occasion,
    OnLimit,
    PromptMode,
    ResumeMode,
)
from holdfast.core.plan_rules import Where
from holdfast.core.status import NetworkAccess, SandboxLevel
from holdfast.plans.field_types import (
    ARGV,
    BOOLEAN,
    HOST,
    Field,
    FormatVersion,
    RecordType,
    ValueType,
    amount,
    choice,
    count,
    duration,
    list_of,
    map_of,
    share,
    size,
    text,
    texts,
    variable_fault,
    word_of,
)
from holdfast.plans.problems import Problems

VERSION = FormatVersion("holdfast", "plan", 1)
_LIMITS = Limits()
_ID = text(ID_PATTERN)
_IDS = texts(_ID)
_CHECKS_TOO = ("check", "checks", "test", "tests")
_CHECKS = texts(single=True)
# A plan can only ask for one: that there is none is the user's decision.
_SANDBOX_LEVELS = tuple(str(level) for level in SandboxLevel if level is not SandboxLevel.OFF)
_VARIABLES = texts(text(r"[A-Za-z_][A-Za-z0-9_]*\*?"))

NETWORK = RecordType(
    "network",
    {
        "access": Field(
            word_of((str(NetworkAccess.ALLOW), str(NetworkAccess.OFF))),
            "allow: only the hosts of the list; off: none.",
            default=str(NetworkAccess.ALLOW),
        ),
        "allow": Field(
            texts(HOST),
            "Hosts to add to the list: api.example.com, *.example.com or 127.0.0.1:8000. You agree to them with the plan.",
        ),
    },
)


def _network() -> ValueType:
    """Return the type of `network:`, which is a record or its `access` alone."""
    access = NETWORK.fields["access"].type

    def read(value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        if isinstance(value, dict):
            given = NETWORK.read(value, at, problems)
            return None if given is None else {"access": NetworkAccess.ALLOW, **given}
        word = access.read(value, at, problems)
        return None if word is None else {"access": word}

    return ValueType({"oneOf": [access.schema, NETWORK.schema]}, read)


_TOKENS = count(10**12)
_MONEY = amount()

AGENT = RecordType(
    "agent",
    {
        "command": Field(
            ARGV,
            "The program and its arguments, never a shell line. {brief} {workspace} {task} {attempt} {run} are filled in."
            " Give this, `preset` or both.",
        ),
        "preset": Field(
            text(), "The known agent that this one is, with the changes that the other keys make."
        ),
        "prompt": Field(
            choice(get_args(PromptMode)),
            "How the agent gets its brief: file ({brief} is a path), stdin, or arg ({brief} is the text)."
            " Default: the preset's, else file.",
        ),
        "stream": Field(
            choice(STREAMS),
            "How to read the agent's output: raw, or the event stream of a known agent. Default: the preset's, else raw.",
        ),
        "model": Field(text(), "The model that the agent of a preset uses."),
        "args": Field(texts(), "More arguments for the agent of a preset."),
        "env": Field(
            map_of(text(empty=True), "{NAME: text}", "[^=]+", variable_fault),
            "Variables added to the agent's environment.",
        ),
        "fallback": Field(
            text(),
            "The agent that works in its place while this one's provider is at a limit or out of reach.",
        ),
        "pass_env": Field(
            _VARIABLES,
            "Your own variables that this agent gets besides those of its preset; NAME_* takes a family.",
        ),
        "native_resume": Field(
            BOOLEAN, "Whether the next attempt resumes the agent's own session where that is possible."
        ),
        "closing_line": Field(
            BOOLEAN,
            "Whether this agent's work counts as done only if its last message ends with a line that its brief asks for. "
            "Default: the preset's, or that of its stream's agent.",
        ),
        "resume": Field(
            choice(get_args(ResumeMode)),
            "After this agent was cut short, the next attempt continues its half-done work, or starts clean.",
            default="continue",
        ),
    },
)

LIMITS = RecordType(
    "limits",
    {
        "jobs": Field(count(), "How many tasks run at the same time.", default=_LIMITS.jobs),
        "attempts": Field(count(), "How many fresh agents a task may use up.", default=_LIMITS.attempts),
        "timeout": Field(
            duration(), "Longest time of one attempt, such as 60m.", into="timeout_s", default="60m"
        ),
        "stall": Field(
            duration(), "Longest silence of one attempt, such as 10m.", into="stall_s", default="10m"
        ),
        "check_timeout": Field(
            duration(), "Longest time of one check.", into="check_timeout_s", default="30m"
        ),
        "retry_delay": Field(
            duration(zero=True),
            "Wait before the second attempt; it grows after.",
            into="retry_delay_s",
            default="1s",
        ),
        "snapshot": Field(
            duration(),
            "How often a working agent's unfinished work is saved, such as 30s.",
            into="snapshot_s",
            default="30s",
        ),
        "cost_usd": Field(_MONEY, "What the whole run may cost, in dollars."),
        "tokens": Field(_TOKENS, "How many tokens the whole run may use."),
        "attempt_cost_usd": Field(_MONEY, "What one attempt may cost, in dollars; then it is ended."),
        "attempt_tokens": Field(_TOKENS, "How many tokens one attempt may use; then it is ended."),
        "on_limit": Field(
            choice(get_args(OnLimit)),
            "When a provider's usage limit is reached: wait until it ends, or stop and say when that is. With stop, an outage is"
            " waited for up to ten minutes.",
            default=_LIMITS.on_limit,
        ),
        "limit_wait": Field(
            duration(),
            "Wait at a limit whose end is not known; it doubles each time, up to an hour. In an outage the first wait is a quarter of"
            " it, and the longest ten minutes.",
            into="limit_wait_s",
            default="60s",
        ),
        "limit_patience": Field(
            duration(),
            "How long an agent may try to get past a limit or an outage by itself. Then it is ended, and its task waits without it.",
            into="limit_patience_s",
            default="2m",
        ),
        "restart_below": Field(
            share(100.0),
            "An attempt lost to a crash below this reported progress, in percent, starts clean.",
            default=_LIMITS.restart_below,
        ),
        "pids": Field(
            count(1_000_000),
            "Processes and threads that an attempt or a check in a sandbox may have at once.",
            default=_LIMITS.pids,
        ),
        "memory": Field(size(), "Memory that an attempt or a check may use, such as 4GB. Default: no bound."),
        "cpus": Field(
            amount(), "Processors that an attempt or a check may use, such as 1.5. Default: no bound."
        ),
        "keep_going": Field(
            BOOLEAN,
            "Run what does not depend on a failed task, instead of stopping.",
            default=_LIMITS.keep_going,
        ),
    },
)

WORKSPACE = RecordType(
    "workspace",
    {
        "setup": Field(
            _CHECKS,
            "Shell lines that make a workspace ready, such as `npm ci`: they run before the first agent in it, and for checks.",
        ),
        "setup_when": Field(
            texts(single=True),
            "Files of the repository, or globs such as **/package.json: when one changes, set-up runs again.",
        ),
        "copy": Field(
            texts(single=True),
            "Files or folders of your checkout, ignored ones too, that are copied into each workspace, such as .env.",
        ),
        "link": Field(
            texts(single=True),
            "Files or folders of your checkout that each workspace gets a symbolic link to, such as node_modules.",
        ),
        "keep": Field(
            texts(single=True),
            "What set-up makes and a workspace keeps from one task to the next, such as .venv. It never lands.",
        ),
        "env": Field(
            map_of(text(empty=True), "{NAME: text}", "[^=]+", variable_fault),
            "Variables for agents, set-up and checks.",
        ),
        "ports": Field(
            count(PORTS_MAX),
            "How many network ports each workspace gets to itself, as HOLDFAST_PORT_1, HOLDFAST_PORT_2, …; PORT is the first.",
        ),
    },
)

VALIDATOR = RecordType(
    "validator",
    {
        "id": Field(_ID, "The name of the validator.", required=True),
        "prompt": Field(text(), "What an agent is asked to score. Give this or `run`."),
        "run": Field(ARGV, "A command that gives the score. Give this or `prompt`."),
        "agent": Field(text(), "The agent that gives the score: a preset or an entry of `agents:`."),
    },
    one_of=("prompt", "run"),
)

NOTIFY = RecordType(
    "notify",
    {
        "command": Field(ARGV, "A command that gets each notification as JSON on its standard input."),
        "webhook": Field(
            text(r"(?:https?://\S+|\$[A-Za-z_][A-Za-z0-9_]*)"),
            "An address that each notification is posted to, as JSON, or `$NAME`, the variable that holds it.",
        ),
        "on": Field(
            texts(choice(get_args(Occasion)), single=True),
            "What to notify about: the run finished, needs_decision or is waiting_limit; an outage of a provider that lasts, and its"
            " end; a question of an agent; a task_abandoned after its last attempt; each task_failed attempt. Default: the first"
            " five, and with `keep_going` task_abandoned.",
        ),
    },
)

TASK_LIST = RecordType(
    "task list",
    {
        "path": Field(text(), "The file or folder, from the root of the repository.", required=True),
        "kind": Field(
            choice(tuple(str(kind) for kind in ListKind)), "What kind of list it is.", required=True
        ),
        "tag": Field(text(), "Which list of a tasks.json it is."),
        "tick": Field(BOOLEAN, "Whether a task that lands ticks its points there.", default=False),
    },
)

TASK = RecordType(
    "task",
    {
        "id": Field(_ID, "The name of the task, unique without regard to case.", required=True),
        "title": Field(text(), "One line for people."),
        "prompt": Field(text(), "What an agent is asked to do. Give this or `run`."),
        "run": Field(ARGV, "A command that does the task itself, no model needed. Give this or `prompt`."),
        "agent": Field(text(), "The agent of this task: a preset or an entry of `agents:`."),
        "resume": Field(
            choice(get_args(ResumeMode)),
            "After an attempt was cut short, the next one continues its half-done work, or starts clean."
            " Default: as the agent says; clean for `run`.",
        ),
        "needs": Field(_IDS, "Tasks that must have landed first, of the same or an earlier stage."),
        "needs_interface": Field(
            _IDS, "Tasks whose published interface, or landing, is enough to start; they still land first."
        ),
        "slot": Field(_ID, "The slot of `slots:` that this task's checks hold while they run."),
        "validators": Field(list_of(VALIDATOR), "Who scores the work after the checks."),
        "gate": Field(share(1.0), "The mean score, from 0 to 1, that the validators must give.", default=0.8),
        "files": Field(texts(), "Deliverables: relative paths that must exist when the task ends."),
        "verify": Field(
            _CHECKS, "Checks of this task: shell lines, run in its workspace.", other_names=_CHECKS_TOO
        ),
        "acceptance": Field(
            texts(single=True), "What must be true when the task is done, in words for the agent."
        ),
        "points": Field(
            texts(single=True),
            "The points of `task_list:` that this task ticks when it lands, by their text.",
        ),
        "allow_empty": Field(BOOLEAN, "Whether the task may end without a change. Default: true for `run`."),
        "attempts": Field(count(), "How many fresh agents this task may use up. Default: as `limits:` says."),
        "timeout": Field(duration(), "Longest time of one attempt of this task.", into="timeout_s"),
        "stall": Field(duration(), "Longest silence of one attempt of this task.", into="stall_s"),
        "cost_usd": Field(_MONEY, "What all attempts at this task may cost together, in dollars."),
        "tokens": Field(_TOKENS, "How many tokens all attempts at this task may use together."),
    },
    one_of=("prompt", "run"),
)

STAGE = RecordType(
    "stage",
    {
        "id": Field(_ID, "The name of the stage, unique without regard to case.", required=True),
        "title": Field(text(), "One line for people."),
        "needs": Field(_IDS, "Stages that must be done first. Default: the stage before."),
        "entry": Field(_CHECKS, "Checks that must hold before the stage opens: shell lines."),
        "exit": Field(_CHECKS, "Checks that must hold before the stage closes: shell lines."),
        "tasks": Field(
            list_of(TASK),
            "The tasks of the stage; they run in parallel as their needs allow.",
            required=True,
        ),
    },
)

PLAN = RecordType(
    "plan",
    {
        "holdfast": Field(VERSION.type, "The plan format: `holdfast: 1`.", required=True),
        "goal": Field(text(), "What the whole run is for, in a sentence.", required=True),
        "base": Field(
            text(), "The branch or commit to start from. Default: the commit that HEAD is on.", default="HEAD"
        ),
        "agent": Field(text(), "The default agent: a preset or an entry of `agents:`."),
        "agents": Field(map_of(AGENT.ref, "{NAME: {command: […]}}"), "Agents of your own, by name."),
        "limits": Field(LIMITS, "Bounds of the run."),
        "slots": Field(
            map_of(count(), "{tests: 1}"),
            "Named slots that checks share, also between runs, and how many may hold one at once.",
        ),
        "notify": Field(NOTIFY, "Where to send notifications of the run, and about what."),
        "syntax": Field(BOOLEAN, "Check the syntax of changed files.", default=True),
        "sandbox": Field(
            choice(_SANDBOX_LEVELS),
            "The least sandbox that agents and checks of this plan get; the user's own level may be stricter.",
        ),
        "network": Field(
            _network(),
            "What agents and checks of this plan reach at most: off, or allow for the hosts of a list (the agent's provider, "
            "the package registries of the repository, and these); the user's own setting may be stricter.",
        ),
        "pass_env": Field(
            _VARIABLES,
            "Your own variables that every agent and check gets besides the ordinary ones; NAME_* takes a family.",
        ),
        "workspace": Field(WORKSPACE, "What makes a workspace ready for an agent, and for checks."),
        "verify": Field(
            _CHECKS,
            "Checks for every task: shell lines, run in its workspace and on the merged tree.",
            other_names=_CHECKS_TOO,
        ),
        "task_list": Field(
            TASK_LIST,
            "The list that `plan import` made the plan from, and whether its points are ticked there.",
        ),
        "stages": Field(list_of(STAGE), "The stages, in order. Give this or `tasks`."),
        "tasks": Field(
            list_of(TASK),
            "The tasks of a plan with one stage, which is named `main`. Give this or `stages`.",
        ),
    },
    one_of=("stages", "tasks"),
)

SCHEMA_FILE = Path("schema") / "holdfast-plan.schema.json"


def plan_schema() -> dict[str, Any]:
    """Return the schema, with a description of every key for editors to show."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast plan",
        "description": "A plan of coding tasks: stages in order, tasks in parallel, each verified and landed.",
        **PLAN.schema,
        "$defs": {record.name: record.schema for record in (AGENT, STAGE, TASK, VALIDATOR)},
    }


def schema_text() -> str:
    """Return the text of the schema file."""
    return json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(root: Path) -> Path:
    """Write the schema below a repository's root. Idempotent."""
    target = root / SCHEMA_FILE
    target.parent.mkdir(exist_ok=True)
    target.write_text(schema_text(), encoding="utf-8")
    return target


if __name__ == "__main__":
    write_schema(Path.cwd())
