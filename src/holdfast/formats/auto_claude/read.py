"""From the files of a spec to a run: one plan, a claim for every task, and what is odd about the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.core.ids import slug
from holdfast.formats import notes
from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.documents import Papers, sort_out
from holdfast.formats.auto_claude.layout import Kind
from holdfast.formats.auto_claude.memory import Memory, claim_of, remember
from holdfast.formats.auto_claude.needs import Needs
from holdfast.formats.auto_claude.oddities import oddities
from holdfast.formats.auto_claude.phases import Phase, phases_of
from holdfast.formats.auto_claude.salvage import all_in_one, from_remains
from holdfast.formats.auto_claude.tasks import context_of, task_of
from holdfast.formats.drafts import StageDraft, TaskDraft, assemble
from holdfast.formats.loose import BrokenFileError, Node, commits, first, line, node, nodes, text
from holdfast.formats.model import SETTLED, Claim, Finding, ForeignRun, Standing, System
from holdfast.formats.words import standing_of

_NO_GOAL = "A spec of Auto-Claude whose goal is not told"
_GOAL_CHARS = 200
_UNFINISHED = (Standing.PENDING, Standing.FAILED, Standing.BLOCKED)


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that a spec's files tell of. Raises BrokenFileError if nothing can be made of them."""
    papers = sort_out(main, documents)
    memory = remember(papers.nodes.get(Kind.ATTEMPTS, {}), papers.nodes.get(Kind.COMMITS, {}))
    goal = _goal(papers)
    document = _document(papers, memory, goal, main)
    phases = phases_of(document)
    needs = Needs(phases)
    drafts, unused = _drafts(phases, needs, memory, context_of(papers.plan or {}, _spec(papers), goal))
    noted = {phase.id: notes.of(phase.node) for phase in phases}
    assembly = assemble(goal or _NO_GOAL, _stage_drafts(phases, needs), drafts)
    assembly = notes.plan(assembly, notes.of(papers.plan or {}), noted)
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
            *oddities(papers, phases, memory, assembly.claims),
        ),
        main=papers.plan_path or main,
        documents=dict(documents),
    )


def _document(papers: Papers, memory: Memory, goal: str, main: str) -> Node:
    """Return the plan to go by: the one that was made, else what the rest tells, else one task for everything."""
    if papers.plan is not None and phases_of(papers.plan):
        return papers.plan
    is_broken = any(path == main for path, _ in papers.broken)
    remains = from_remains(memory, papers.texts.get(Kind.PROGRESS, ""))
    if not remains and not goal and is_broken:
        raise next(error for path, error in papers.broken if path == main)
    if not remains and papers.plan is None and not papers.nodes and not papers.texts:
        raise BrokenFileError(
            f"{main}: there is nothing of Auto-Claude in it",
            f"Point adopt at a folder below {layout.SPECS} or at an {layout.PLAN}.",
        )
    is_planless = papers.plan is not None or bool(papers.texts) or Kind.REQUIREMENTS in papers.nodes
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


def _goal(papers: Papers) -> str:
    """Return what the spec is for, in one line: the plan's name for it, else the spec's, else the request."""
    plan = papers.plan or {}
    told = text(first(plan, "feature", "title", "task_name", "spec_name", "spec_id", "description"))
    heading = next((each for each in _spec(papers).splitlines() if each.startswith("# ")), "")
    spoken = text(first(papers.nodes.get(Kind.REQUIREMENTS, {}), "task_description", "description"))
    spec = text(papers.nodes.get(Kind.STATUS, {}).get("spec"))
    goal = told or heading.removeprefix("# ").removeprefix("Specification:").strip() or spoken or spec
    return line(_spoken(goal), _GOAL_CHARS)


def _spoken(goal: str) -> str:
    """Return the name of a spec folder as words; any other text as it is."""
    found = re.fullmatch(r"\d+-([a-z0-9-]+)", goal)
    return found[1].replace("-", " ").strip().capitalize() if found else goal


def _about(papers: Papers) -> str:
    spoken = text(first(papers.nodes.get(Kind.REQUIREMENTS, {}), "task_description", "description"))
    return text(first(papers.plan or {}, "description", "overview")) or spoken


def _spec(papers: Papers) -> str:
    return papers.texts.get(Kind.SPEC, "")


def _name(main: str, papers: Papers) -> str:
    told = text(first(papers.plan or {}, "spec_id", "spec_name"))
    status = papers.nodes.get(Kind.STATUS, {})
    return layout.spec_name(papers.plan_path or main) or told or text(status.get("spec"))


def _stage_drafts(phases: list[Phase], needs: Needs) -> list[StageDraft]:
    return [
        notes.stage(
            StageDraft(native=phase.id, title=phase.title, needs=needs.stages.get(phase.id)),
            notes.of(phase.node),
        )
        for phase in phases
    ]


def _drafts(
    phases: list[Phase], needs: Needs, memory: Memory, context: str
) -> tuple[list[TaskDraft], list[str]]:
    """Return a draft for each subtask, and the commands that cannot be checks."""
    drafts: list[TaskDraft] = []
    unused: list[str] = []
    for phase in phases:
        for part in phase.parts:
            made = task_of(part, needs.tasks[part.id], context)
            note = notes.of(part.node)
            drafts.append(
                TaskDraft(
                    native=part.native,
                    stage=phase.id,
                    task=notes.task(made.task, note),
                    claim=notes.claim(claim_of(part, memory), note),
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
    at_hand = next((claim for claim in claims if claim.standing is Standing.RUNNING), None)
    at_hand = at_hand or next((claim for claim in claims if claim.standing in _UNFINISHED), None)
    return tuple(
        msgspec.structs.replace(claim, worktree=worktree) if claim is at_hand else claim for claim in claims
    )


def _is_finished(papers: Papers, claims: tuple[Claim, ...]) -> bool:
    """Tell whether the files call the whole done: by their status, or by the plan's where every part is done."""
    plan = papers.plan or {}
    status, _ = standing_of(text(first(plan, "status", "xstateState", "executionPhase")))
    planned, _ = standing_of(text(plan.get("planStatus")))
    settled = all(claim.standing in SETTLED for claim in claims)
    return status is Standing.DONE or (planned is Standing.DONE and settled)


def _fixes(plan: Node) -> tuple[str, ...]:
    """Return the commits that reviewers' findings were mended with; they belong to no subtask."""
    fixed = nodes(node(plan.get("qa_signoff")).get("issues_fixed"))
    return commits([one.get("fix_commit") for one in fixed])
