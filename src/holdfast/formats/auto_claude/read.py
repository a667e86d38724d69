"""From the files of a spec to a run: one plan, a claim for every task, and what is odd about the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.core.ids import slug
from holdfast.formats import extra_fields
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.contradictions import contradictions
from holdfast.formats.auto_claude.documents import AutoClaudeDocuments, sort_documents
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.auto_claude.memory import Memory, claim_of, read_memory
from holdfast.formats.auto_claude.phases import Dependencies, PlanPhase, phases_of
from holdfast.formats.auto_claude.tasks import context_of, task_of
from holdfast.formats.lenient_json import BrokenFileError, Node, commits, first, line, node, nodes, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

ALL_IN_ONE = "build"
_SPEC_CHARS = 20_000
_COMPLETED = re.compile(r"^\W*(?:sub-?task|chunk) completed:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_NEXT = re.compile(r"^\W*next (?:sub-?task|chunk):\s*(.+)$", re.IGNORECASE | re.MULTILINE)


def from_remains(memory: Memory, progress: str) -> Node:
    """Return a plan of what memory and progress notes name, or an empty object if they name nothing."""
    found = {name: _remembered(memory, name) for name in memory.names()}
    for noted, status in (*_noted(_COMPLETED, progress, "completed"), *_noted(_NEXT, progress, "pending")):
        name, words = _taken_apart(noted)
        entry = found.setdefault(name, {"id": name, "status": status})
        entry.setdefault("description", words or f"Do subtask {name}.")
    return {"subtasks": list(found.values())} if found else {}


def _noted(line: re.Pattern[str], progress: str, status: str) -> list[tuple[str, str]]:
    return [(said.strip(), status) for said in line.findall(progress) if said.strip()]


def _taken_apart(line: str) -> tuple[str, str]:
    """Return the name and the words of a line such as `subtask-1-2 - Add the button`."""
    found = re.fullmatch(r"(\S+?)(?::|\s+\W)\s+(.*)", line)
    return (found[1], found[2]) if found else (line.split()[0], line)


def _remembered(memory: Memory, name: str) -> Node:
    entry = memory.attempts.get(name, {})
    tried = nodes(entry.get("attempts"))
    words = next((said for one in tried if (said := text(one.get("approach")))), "")
    status = text(entry.get("status")) or ("completed" if name in memory.commits else "pending")
    told = {"description": words.removeprefix("Implemented:").strip()} if words else {}
    return {"id": name, "status": status, **told}


def all_in_one(goal: str, about: str, spec: str, *, is_planless: bool) -> Node:
    """Return a plan of one task that is the whole spec: what planning would have taken apart.

    If a plan was made and merely is not here, the task is blocked: doing it would do everything twice.
    """
    told = "\n\n".join(part for part in (goal, about if about != goal else "", spec[:_SPEC_CHARS]) if part)
    status = "pending" if is_planless else "blocked"
    asked = f"Plan this first, in steps that you can check; then do it all.\n\n{told}"
    return {"subtasks": [{"id": ALL_IN_ONE, "title": goal, "description": asked, "status": status}]}


_NO_GOAL = "A spec of Auto-Claude whose goal is not told"
_GOAL_CHARS = 200
_UNFINISHED = (ClaimedStatus.PENDING, ClaimedStatus.FAILED, ClaimedStatus.BLOCKED)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a spec's files tell of. Raises BrokenFileError if nothing can be made of them."""
    papers = sort_documents(main, documents)
    memory = read_memory(
        papers.nodes.get(AutoClaudeFile.ATTEMPTS, {}), papers.nodes.get(AutoClaudeFile.COMMITS, {})
    )
    goal = _goal(papers)
    document = _document(papers, memory, goal, main)
    phases = phases_of(document)
    needs = Dependencies(phases)
    drafts, unused = _drafts(phases, needs, memory, context_of(papers.plan or {}, _spec(papers), goal))
    noted = {phase.id: extra_fields.of(phase.node) for phase in phases}
    assembly = assemble(goal or _NO_GOAL, _stage_drafts(phases, needs), drafts)
    assembly = extra_fields.plan(assembly, extra_fields.of(papers.plan or {}), noted)
    name = _name(main, papers) or slug(goal)
    return ForeignRun(
        system=System.AUTO_CLAUDE,
        name=name,
        plan=assembly.plan,
        claims=_with_worktree(assembly.claims, name, documents),
        finished=_is_finished(papers, assembly.claims),
        branches=(layout.branch_of(name),),
        commits=(*memory.loose, *_fixes(papers.plan or {})),
        findings=(
            *papers.findings,
            *assembly.findings,
            *_unused_checks(unused),
            *contradictions(papers, phases, memory, assembly.claims),
        ),
        main=papers.plan_path or main,
        documents=dict(documents),
    )


def _document(papers: AutoClaudeDocuments, memory: Memory, goal: str, main: str) -> Node:
    """Return the plan to go by: the one that was made, else what the rest tells, else one task for everything."""
    if papers.plan is not None and phases_of(papers.plan):
        return papers.plan
    is_broken = any(path == main for path, _ in papers.broken)
    remains = from_remains(memory, papers.texts.get(AutoClaudeFile.PROGRESS, ""))
    if not remains and not goal and is_broken:
        raise next(error for path, error in papers.broken if path == main)
    if not remains and papers.plan is None and not papers.nodes and not papers.texts:
        raise BrokenFileError(
            f"{main}: there is nothing of Auto-Claude in it",
            f"Point adopt at a folder below {layout.SPECS} or at an {layout.PLAN}.",
        )
    is_planless = papers.plan is not None or bool(papers.texts) or AutoClaudeFile.REQUIREMENTS in papers.nodes
    papers.findings.append(_no_plan(main, goal, is_salvaged=bool(remains), is_planless=is_planless))
    return remains or all_in_one(goal or _NO_GOAL, _about(papers), _spec(papers), is_planless=is_planless)


def _no_plan(main: str, goal: str, *, is_salvaged: bool, is_planless: bool) -> Finding:
    if is_salvaged:
        said = "there is no plan to read; the tasks are those that the memory and the progress notes name."
    elif is_planless:
        said = "planning was not done, so the whole spec is one task. For a plan of several tasks, "
        said += f'run `holdfast plan "{goal.replace(chr(34), chr(39)) or "…"}"` instead.'
    else:
        said = "this goes with a plan that is not here, so the one task is blocked; point adopt at the spec folder."
    return Finding(kind="no-plan", sentence=f"{main}: {said}")


def _goal(papers: AutoClaudeDocuments) -> str:
    """Return what the spec is for, in one line: the plan's name for it, else the spec's, else the request."""
    plan = papers.plan or {}
    told = text(first(plan, "feature", "title", "task_name", "spec_name", "spec_id", "description"))
    heading = next((each for each in _spec(papers).splitlines() if each.startswith("# ")), "")
    spoken = text(first(papers.nodes.get(AutoClaudeFile.REQUIREMENTS, {}), "task_description", "description"))
    spec = text(papers.nodes.get(AutoClaudeFile.STATUS, {}).get("spec"))
    goal = told or heading.removeprefix("# ").removeprefix("Specification:").strip() or spoken or spec
    return line(_spoken(goal), _GOAL_CHARS)


def _spoken(goal: str) -> str:
    """Return the name of a spec folder as words; any other text as it is."""
    found = re.fullmatch(r"\d+-([a-z0-9-]+)", goal)
    return found[1].replace("-", " ").strip().capitalize() if found else goal


def _about(papers: AutoClaudeDocuments) -> str:
    spoken = text(first(papers.nodes.get(AutoClaudeFile.REQUIREMENTS, {}), "task_description", "description"))
    return text(first(papers.plan or {}, "description", "overview")) or spoken


def _spec(papers: AutoClaudeDocuments) -> str:
    return papers.texts.get(AutoClaudeFile.SPEC, "")


def _name(main: str, papers: AutoClaudeDocuments) -> str:
    told = text(first(papers.plan or {}, "spec_id", "spec_name"))
    status = papers.nodes.get(AutoClaudeFile.STATUS, {})
    return layout.spec_name(papers.plan_path or main) or told or text(status.get("spec"))


def _stage_drafts(phases: list[PlanPhase], needs: Dependencies) -> list[StageDraft]:
    return [
        extra_fields.stage(
            StageDraft(native=phase.id, title=phase.title, needs=needs.stages.get(phase.id)),
            extra_fields.of(phase.node),
        )
        for phase in phases
    ]


def _drafts(
    phases: list[PlanPhase], needs: Dependencies, memory: Memory, context: str
) -> tuple[list[TaskDraft], list[str]]:
    """Return a draft for each subtask, and the commands that cannot be checks."""
    drafts: list[TaskDraft] = []
    unused: list[str] = []
    for phase in phases:
        for part in phase.parts:
            made = task_of(part, needs.tasks[part.id], context)
            note = extra_fields.of(part.node)
            drafts.append(
                TaskDraft(
                    native=part.native,
                    stage=phase.id,
                    task=extra_fields.task(made.task, note),
                    claim=extra_fields.claim(claim_of(part, memory), note),
                    names=(part.id,),
                )
            )
            unused += made.unused
    return drafts, unused


def _unused_checks(unused: list[str]) -> Iterator[Finding]:
    if unused:
        yield Finding(
            kind="checks-not-taken",
            sentence=f"{len(unused)} verification commands cannot be checks, for they name places of another machine, "
            f"have blanks to fill in, or do not tell by their exit status (such as `{unused[0][:100]}`); "
            "they are acceptance criteria instead.",
        )


def _with_worktree(claims: tuple[Claim, ...], name: str, documents: Mapping[str, bytes]) -> tuple[Claim, ...]:
    """Say where unfinished work lies: one worktree serves a spec, so what is dirty there is of the task at hand."""
    copies = [worktree for path in documents if (worktree := layout.worktree_of(path))]
    worktree = copies[0] if copies else layout.worktrees(name)[0]
    at_hand = next((claim for claim in claims if claim.standing is ClaimedStatus.RUNNING), None)
    at_hand = at_hand or next((claim for claim in claims if claim.standing in _UNFINISHED), None)
    return tuple(
        msgspec.structs.replace(claim, worktree=worktree) if claim is at_hand else claim for claim in claims
    )


def _is_finished(papers: AutoClaudeDocuments, claims: tuple[Claim, ...]) -> bool:
    """Tell whether the files call the whole done: by their status, or by the plan's where every part is done."""
    plan = papers.plan or {}
    status = claimed_status(text(first(plan, "status", "xstateState", "executionPhase")))
    planned = claimed_status(text(plan.get("planStatus")))
    settled = all(claim.standing in SETTLED for claim in claims)
    return status is ClaimedStatus.DONE or (planned is ClaimedStatus.DONE and settled)


def _fixes(plan: Node) -> tuple[str, ...]:
    """Return the commits that reviewers' findings were mended with; they belong to no subtask."""
    fixed = nodes(node(plan.get("qa_signoff")).get("issues_fixed"))
    return commits([one.get("fix_commit") for one in fixed])
