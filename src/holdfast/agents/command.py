"""Turns an agent's template, or a task's own command, into the argv and input of one attempt."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.plan import AgentSpec, Task


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The values that an agent's argv may name."""

    brief_path: str
    brief_text: str
    workspace: str
    task: str
    attempt: int
    run: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """What to execute for one attempt. `stdin_brief` asks for the brief file on standard input."""

    argv: tuple[str, ...]
    stdin_brief: bool
    env: dict[str, str]


def invoke_task(task: Task, agent: AgentSpec | None, values: Placeholders) -> Invocation:
    """Return what an attempt at `task` executes: its own command, or its agent's."""
    if task.run:
        return Invocation(task.run, stdin_brief=False, env={})
    if agent is None:
        raise ValueError(f"task {task.id} has neither a command nor an agent")
    return invoke_agent(agent, values)


def invoke_agent(agent: AgentSpec, values: Placeholders) -> Invocation:
    """Fill in an agent's template. Only the known names are replaced; any other brace is left as it is."""
    replacements = {
        "{brief}": values.brief_text if agent.prompt == "arg" else values.brief_path,
        "{workspace}": values.workspace,
        "{task}": values.task,
        "{attempt}": str(values.attempt),
        "{run}": values.run,
    }
    argv = tuple(_replace(word, replacements) for word in agent.command)
    return Invocation(argv, stdin_brief=agent.prompt == "stdin", env=dict(agent.env))


def _replace(word: str, replacements: dict[str, str]) -> str:
    """Replace in one pass, so that a value which itself looks like a placeholder stays what it is."""
    out: list[str] = []
    at = 0
    while at < len(word):
        name = next((n for n in replacements if word.startswith(n, at)), None)
        out.append(replacements[name] if name else word[at])
        at += len(name) if name else 1
    return "".join(out)
