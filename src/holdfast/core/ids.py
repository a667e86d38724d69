"""The grammar of ids and the names derived from them. No other module spells a ref or an id pattern."""

from __future__ import annotations

import re

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
HOST_PATTERN = r"((\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
"""A host of the network: a name, `*.` and the end of names, an address such as `[fd00::1]`, or one with its only port."""
_ID = re.compile(ID_PATTERN)
_SLUG_MAX = 40
_TAKEN = "-taken"
TAKEN_PREFIX = "taken-"
_RUN_IN_COMMAND = re.compile(
    r"\b(holdfast (?!adopt |plan |run |(?:retry|skip|answer|take|give) [^ ]+(?: -|`|$))[a-z]+)"
    r" 0*([1-9]\d*)-[a-z0-9-]+(?![\w./-])"
)
"""A command and the run that it names; not what is a file, nor the only word after a command that needs a task."""
ALL_RUN_REFS = "refs/holdfast/"
ALL_PLAN_REFS = f"{ALL_RUN_REFS}*/plan"
ALL_RUN_BRANCHES = "refs/heads/holdfast/"


def is_valid_id(text: str) -> bool:
    """Tell whether `text` may name a stage or a task."""
    return _ID.fullmatch(text) is not None


def slug(text: str) -> str:
    """Turn a goal into the readable half of a run id; never empty."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:_SLUG_MAX].rstrip("-") or "run"


def run_id(number: int, goal: str) -> str:
    """Return the id of the `number`-th run: a two-digit counter and a slug of the goal."""
    return f"{number:02d}-{slug(goal)}"


def with_run_numbers(text: str) -> str:
    """Return a text for people in which every command names its run by the number alone: `holdfast resume 3`.

    No two runs of a repository ever had the same number.
    """
    return _RUN_IN_COMMAND.sub(r"\1 \2", text)


def short_name(ref: str) -> str:
    """Return a branch's name as git shows it."""
    return ref.removeprefix("refs/heads/")


def run_branch(run: str) -> str:
    """Return the full ref of the branch that a run lands on."""
    return f"{ALL_RUN_BRANCHES}{run}"


def plan_ref(run: str) -> str:
    """Return the ref whose commit holds what a rebuild needs: the run's plan and its first event."""
    return f"{ALL_RUN_REFS}{run}/plan"


def origin_ref(run: str) -> str:
    """Return the ref whose commit holds the files of the system that an adopted run comes from."""
    return f"{ALL_RUN_REFS}{run}/origin"


def run_of_plan_ref(ref: str) -> str:
    """Return the run that a plan ref belongs to, or an empty string if the ref is of another kind."""
    found = re.fullmatch(rf"{ALL_RUN_REFS}([^/]+)/plan", ref)
    return found[1] if found else ""


def attempt_of_ref(run: str, task: str, ref: str) -> int:
    """Return the attempt that a task ref belongs to, or 0 if the ref is of another kind."""
    number = ref.removeprefix(task_ref(run, task, 0).removesuffix("0"))
    return int(number) if number != ref and number.isdecimal() else 0


def task_of_ref(run: str, ref: str) -> tuple[str, int] | None:
    """Return the task and the attempt that a task ref of a run belongs to, or None if the ref is of another kind."""
    found = re.fullmatch(rf"{ALL_RUN_REFS}{re.escape(run)}/task/([^/]+)/([0-9]+)", ref)
    return (found[1].replace("%2e", "."), int(found[2])) if found else None


def task_ref(run: str, task: str, attempt: int) -> str:
    """Return the ref that keeps one attempt's commit reachable."""
    return f"{ALL_RUN_REFS}{run}/task/{_component(task)}/{attempt}"


def snapshot_ref(run: str, task: str) -> str:
    """Return the ref whose reflog keeps the WIP snapshots of a task."""
    return f"{ALL_RUN_REFS}{run}/wip/{_component(task)}"


def attempts_of_ref(ref: str) -> str:
    """Return the beginning of the refs of all attempts at the task that a task ref or a snapshot ref is of; of others, the ref."""
    run, kind, name = [*ref.removeprefix(ALL_RUN_REFS).split("/"), "", ""][:3]
    return f"{ALL_RUN_REFS}{run}/task/{name}/" if kind in ("task", "wip") else ref


def is_work_ref(ref: str) -> bool:
    """Tell whether a ref holds what a task has done: an attempt's commit, or the landings of a run."""
    return ref.startswith(ALL_RUN_BRANCHES) or ref.removeprefix(ALL_RUN_REFS).split("/")[1:2] == ["task"]


def archive_ref(run: str, name: str) -> str:
    """Return a ref that keeps a commit reachable that would otherwise be lost."""
    return f"{ALL_RUN_REFS}{run}/archive/{_component(name)}"


def merged_ref(run: str, task: str, attempt: int) -> str:
    """Return the ref that keeps the merge of an attempt that did not land, with its conflicts or its failed check."""
    return archive_ref(run, f"{task}-merged-{attempt}")


def archived_branch_ref(run: str, tip: str) -> str:
    """Return the ref that keeps the tip of a run branch that was removed."""
    return archive_ref(run, f"branch-{tip[:12]}")


def landed_refs_prefix(run: str, tip: str = "") -> str:
    """Return the beginning of the refs that keep the commits by which a run landed otherwise than merged; `tip` narrows it."""
    return f"{ALL_RUN_REFS}{run}/landed/" + (f"{tip}/" if tip else "")


def landed_ref(run: str, tip: str, commit: str) -> str:
    """Return the ref that keeps the commit of a user's branch that holds all of the run branch up to `tip`."""
    return f"{landed_refs_prefix(run, tip)}{commit[:12]}"


def pushed_ref(run: str, remote: str) -> str:
    """Return the ref that keeps what we pushed of a run branch to a remote."""
    return f"{ALL_RUN_REFS}{run}/pushed/{_component(remote)}"


def tip_of_landed_ref(run: str, ref: str) -> str:
    """Return the tip of the run branch that a landed ref is about."""
    return ref.removeprefix(landed_refs_prefix(run)).partition("/")[0]


def cut_short_ref(run: str, task: str, attempt: int) -> str:
    """Return the ref that keeps the half-done work of one attempt, which the next one starts without."""
    return archive_ref(run, f"{task}-cut-short-{attempt}")


def taken_workspace_name(task: str) -> str:
    """Return the name of the workspace of a person who took a task. Those of agents are numbers."""
    return f"{TAKEN_PREFIX}{task}"


def taken_ref(run: str, task: str) -> str:
    """Return the ref that keeps what a person left in the workspace of a task taken by hand. `clean` leaves it."""
    return archive_ref(run, f"{task}{_TAKEN}")


def taken_commit_ref(run: str, task: str, commit: str) -> str:
    """Return the ref that keeps a commit of a person: one that was given, made there and moved off again, or saved before another.

    `clean` leaves it unless the commit has landed.
    """
    return archive_ref(run, f"{task}-{commit[:12]}{_TAKEN}")


def is_taken_ref(ref: str) -> bool:
    """Tell whether a ref keeps what a person left in a workspace."""
    return "/archive/" in ref and ref.endswith(_TAKEN)


def is_taken_commit_ref(ref: str, commit: str) -> bool:
    """Tell whether a ref that holds `commit` keeps it alone, as a commit of a person."""
    return is_taken_ref(ref) and ref.endswith(f"-{commit[:12]}{_TAKEN}")


def run_refs_prefix(run: str) -> str:
    """Return the prefix under which every private ref of a run lives."""
    return f"{ALL_RUN_REFS}{run}/"


def _component(name: str) -> str:
    """Escape the few dots that git forbids in a ref: doubled, trailing, or before `lock` at the end."""
    return re.sub(r"\.(?=\.|$|lock$)", "%2e", name)
