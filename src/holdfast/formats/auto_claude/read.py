"""Reads the files of a spec as a run: one plan, and a claim for every task.

A spec without a readable plan is read from its memory and its progress notes, else as one task for everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.core.ids import slug
from holdfast.core.plan import Task
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.contradictions import contradictions
from holdfast.formats.auto_claude.documents import AutoClaudeDocuments, parse_documents
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.auto_claude.memory import Memory, claim_of, read_memory
from holdfast.formats.auto_claude.phases import Dependencies, PlanPhase, Subtask, phases_of
from holdfast.formats.auto_claude.tasks import OVERVIEW, context_of, task_of
from holdfast.formats.lenient_json import BrokenFileError, Key, Node, commits, line, node, nodes, text
from holdfast.formats.markdown import paragraphs
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

_ALL_IN_ONE = "build"
_SPEC_CHARS = 20_000
_NO_GOAL = "A spec of Auto-Claude that names no goal"
_GOAL_CHARS = 200
_COMPLETED = re.compile(r"^\W*(?:sub-?task|chunk) completed:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_NEXT = re.compile(r"^\W*next (?:sub-?task|chunk):\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_UNFINISHED = (ClaimedStatus.RUNNING, ClaimedStatus.PENDING, ClaimedStatus.FAILED, ClaimedStatus.BLOCKED)

_GOAL = Key("feature", "title", "task_name", "spec_name", "spec_id", "description")
_REQUEST = Key("task_description", "description")
_SPEC_NAME = Key("spec_id", "spec_name")
_STATUS = Key("status", "xstateState", "executionPhase")


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a spec's files describe. Raises BrokenFileError if they are unusable."""
    parsed = parse_documents(main, documents)
    plan = parsed.plan
    memory = read_memory(parsed.node(AutoClaudeFile.ATTEMPTS), parsed.node(AutoClaudeFile.COMMITS))
    goal = _goal(parsed)
    phases = phases_of(_plan_document(parsed, memory, goal, main))
    needs = Dependencies(phases)
    context = context_of(plan, parsed.text(AutoClaudeFile.SPEC), goal)
    tasks = [
        (phase, subtask, *task_of(subtask, needs.tasks[subtask.id], context))
        for phase in phases
        for subtask in phase.subtasks
    ]
    drafts = [_draft(phase, subtask, task, memory) for phase, subtask, task, _ in tasks]
    made = assemble(goal or _NO_GOAL, [_stage_draft(phase, needs) for phase in phases], drafts)
    extra = {phase.id: extra_fields.of(phase.entry) for phase in phases}
    made = extra_fields.plan(made, extra_fields.of(plan), extra)
    said = _SPEC_NAME.text(plan) or text(parsed.node(AutoClaudeFile.STATUS).get("spec"))
    name = layout.spec_name(parsed.plan_path or main) or said or slug(goal)
    fixed = nodes(node(plan.get("qa_signoff")).get("issues_fixed"))
    findings = (
        *parsed.findings,
        *_unused_checks([command for *_, unused in tasks for command in unused]),
        *contradictions(parsed, phases, memory, made.claims),
    )
    return made.as_run(
        System.AUTO_CLAUDE,
        name,
        parsed.plan_path or main,
        documents,
        findings,
        claims=_with_worktree(made.claims, name, documents),
        finished=_is_finished(plan, made.claims),
        branches=(layout.branch_of(name),),
        # Fixes of the reviewers' findings belong to no subtask either.
        commits=(*memory.unnamed, *commits([one.get("fix_commit") for one in fixed])),
    )


def _goal(parsed: AutoClaudeDocuments) -> str:
    """Return the goal in one line: the plan's name, else the spec's title, else the request."""
    lines = parsed.text(AutoClaudeFile.SPEC).splitlines()
    heading = next((each for each in lines if each.startswith("# ")), "")
    goal = (
        _GOAL.text(parsed.plan)
        or heading.removeprefix("# ").removeprefix("Specification:").strip()
        or _REQUEST.text(parsed.node(AutoClaudeFile.REQUIREMENTS))
        or text(parsed.node(AutoClaudeFile.STATUS).get("spec"))
    )
    folder_name = re.fullmatch(r"\d+-([a-z0-9-]+)", goal)
    return line(folder_name[1].replace("-", " ").strip().capitalize() if folder_name else goal, _GOAL_CHARS)


def _stage_draft(phase: PlanPhase, needs: Dependencies) -> StageDraft:
    draft = StageDraft(native=phase.id, title=phase.title, needs=needs.stages.get(phase.id))
    return extra_fields.stage(draft, extra_fields.of(phase.entry))


def _draft(phase: PlanPhase, subtask: Subtask, task: Task, memory: Memory) -> TaskDraft:
    extra = extra_fields.of(subtask.entry)
    return TaskDraft(
        native=subtask.native,
        stage=phase.id,
        task=extra_fields.task(task, extra),
        claim=extra_fields.claim(claim_of(subtask, memory), extra),
        names=(subtask.id,),
    )


def _unused_checks(unused: list[str]) -> Iterator[Finding]:
    if unused:
        why = (
            "they name places of another machine, have blanks to fill in, or do not tell by their exit status"
        )
        example = f"such as `{unused[0][:100]}`"
        yield Finding(
            "checks-not-taken",
            f"{len(unused)} verification commands cannot be checks ({example}): {why}. "
            "They are acceptance criteria instead.",
        )


def _with_worktree(claims: tuple[Claim, ...], name: str, documents: Mapping[str, bytes]) -> tuple[Claim, ...]:
    """Set where unfinished work is. A spec has one worktree, so changes in it belong to the current task."""
    copies = [worktree for path in documents if (worktree := layout.worktree_of(path))]
    worktree, *others = dict.fromkeys((*copies, *layout.worktrees(name)))
    unfinished = [claim for claim in claims if claim.standing in _UNFINISHED]
    running = [claim for claim in unfinished if claim.standing is ClaimedStatus.RUNNING]
    current = next(iter(running or unfinished), None)
    found = {
        "worktree": worktree,
        "other_worktrees": tuple(others),
        "worktree_branch": layout.branch_of(name),
    }
    return tuple(replace(claim, **found) if claim is current else claim for claim in claims)


def _is_finished(plan: Node, claims: tuple[Claim, ...]) -> bool:
    """Tell whether all is done: by the files' status, or by the plan's if every subtask is done."""
    is_done = claimed_status(_STATUS.text(plan)) is ClaimedStatus.DONE
    is_planned_done = claimed_status(text(plan.get("planStatus"))) is ClaimedStatus.DONE
    return is_done or (is_planned_done and all(claim.standing in SETTLED for claim in claims))


def _plan_document(parsed: AutoClaudeDocuments, memory: Memory, goal: str, main: str) -> Node:
    """Return the existing plan; else one from what the other files name; else one task for everything."""
    if phases_of(parsed.plan):
        return parsed.plan
    named = _from_memory(memory, parsed.text(AutoClaudeFile.PROGRESS))
    if not named and not goal and main in parsed.broken:
        raise parsed.broken[main]
    if not (named or parsed.plan_path or parsed.nodes or parsed.texts):
        raise BrokenFileError(
            f"{main}: there is nothing of Auto-Claude in it",
            f"Point adopt at a folder below {layout.SPECS} or at an {AutoClaudeFile.PLAN}.",
        )
    is_planless = bool(parsed.plan_path or parsed.texts or AutoClaudeFile.REQUIREMENTS in parsed.nodes)
    if named:
        said = "there is no plan to read; the tasks are those that the memory and the progress notes name."
    elif is_planless:
        said = "planning was not done, so the whole spec is one task. For a plan of several tasks, "
        said += f'run `holdfast plan "{goal.replace(chr(34), chr(39)) or "…"}"` instead.'
    else:
        said = "this belongs to a plan that is not here, so the one task is blocked; point adopt at the spec folder."
    parsed.findings.append(Finding("no-plan", f"{main}: {said}"))
    return named or _all_in_one(goal or _NO_GOAL, parsed, is_planless=is_planless)


def _from_memory(memory: Memory, progress: str) -> Node:
    """Return a plan from memory and progress notes, or an empty object if they name nothing."""
    found = {name: _remembered(memory, name) for name in memory.names()}
    for pattern, status in ((_COMPLETED, "completed"), (_NEXT, "pending")):
        for said in filter(None, map(str.strip, pattern.findall(progress))):
            apart = re.fullmatch(r"(\S+?)(?::|\s+\W)\s+(.*)", said)  # `subtask-1-2 - Add the button`
            name, words = (apart[1], apart[2]) if apart else (said.split()[0], said)
            entry = found.setdefault(name, {"id": name, "status": status})
            entry.setdefault("description", words or f"Do subtask {name}.")
    return {"subtasks": list(found.values())} if found else {}


def _remembered(memory: Memory, name: str) -> Node:
    entry = memory.entry(name)
    approaches = (text(one.get("approach")) for one in nodes(entry.get("attempts")))
    words = next(filter(None, approaches), "").removeprefix("Implemented:").strip()
    status = text(entry.get("status")) or ("completed" if name in memory.commits else "pending")
    return {"id": name, "status": status, **({"description": words} if words else {})}


def _all_in_one(goal: str, parsed: AutoClaudeDocuments, *, is_planless: bool) -> Node:
    """Return a plan with one task for the whole spec, which planning would have split.

    If a plan was made but is missing here, the task is blocked: it would do everything twice.
    """
    about = OVERVIEW.text(parsed.plan) or _REQUEST.text(parsed.node(AutoClaudeFile.REQUIREMENTS))
    spec = parsed.text(AutoClaudeFile.SPEC)[:_SPEC_CHARS]
    described = paragraphs(goal, about if about != goal else "", spec)
    return {
        "subtasks": [
            {
                "id": _ALL_IN_ONE,
                "title": goal,
                "description": f"Plan this first, in steps that you can check; then do it all.\n\n{described}",
                "status": "pending" if is_planless else "blocked",
            }
        ]
    }
