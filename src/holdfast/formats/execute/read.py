"""An Execute run as a plan and claims: versions 1 to 3 of its state, and the plan files it was made from."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.plan import Limits
from holdfast.formats import extra_fields
from holdfast.formats.execute.contradictions import contradictions
from holdfast.formats.execute.documents import ExecuteDocuments, ExecuteFile, kind_of, sort_documents
from holdfast.formats.execute.tasks import CollectedTasks, collect_tasks
from holdfast.formats.lenient_json import BrokenFileError, count, first, node, text
from holdfast.formats.model import ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import Assembly, assemble
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

_JOBS_MAX = 64


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is a state, plan or ledger of Execute. Task files alone say too little."""
    kind = kind_of(path, data)
    return kind is not None and kind is not ExecuteFile.TASK


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the run that the documents tell of. Raises BrokenFileError if none of them names a task."""
    papers = sort_documents(main, documents)
    roster = collect_tasks(papers)
    if not roster.drafts:
        raise BrokenFileError(
            f"{main}: no task is named here", "Adopt the folder, so that the plan of the run is found too."
        )
    made = assemble_run(papers, roster)
    return ForeignRun(
        system=System.EXECUTE,
        name=papers.slug or "execute",
        plan=made.plan,
        claims=made.claims,
        finished=claimed_status(text(papers.state.get("status"))) is ClaimedStatus.DONE,
        branches=tuple(
            filter(None, [text(first(papers.state, "base_branch", "target_branch", "main_branch"))])
        ),
        findings=_findings(papers, roster, made),
        main=papers.state_at or main,
        documents=dict(documents),
    )


def assemble_run(papers: ExecuteDocuments, roster: CollectedTasks) -> Assembly:
    """Return the plan and the claims. The writer asks for the same, to find its tasks again."""
    options = node(papers.state.get("options"))
    jobs = count(first(options, "max_parallel", "parallel")) or Limits().jobs
    made = assemble(_goal(papers), roster.stages, roster.drafts, limits=Limits(jobs=min(jobs, _JOBS_MAX)))
    return extra_fields.plan(made, extra_fields.of(papers.layer_plan), roster.notes)


def _goal(papers: ExecuteDocuments) -> str:
    prd = node(papers.manifest.get("prd"))
    said = text(first(prd, "title", "name", "description")) or text(
        first(papers.manifest, "title", "project_name", "goal")
    )
    return said or text(first(papers.layer_plan, "goal", "title", "project_name")) or papers.slug or "Execute"


def _findings(papers: ExecuteDocuments, roster: CollectedTasks, made: Assembly) -> tuple[Finding, ...]:
    by_native = {claim.native: claim for claim in made.claims}
    layers: dict[str, list[str]] = {}
    for draft in roster.drafts:
        layers.setdefault(draft.stage, []).append(draft.native)
    return (*papers.findings, *roster.findings, *made.findings, *contradictions(papers, by_native, layers))
