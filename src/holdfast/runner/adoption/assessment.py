"""A foreign run as it would be adopted: its claims judged by git, and where its unfinished work lies. Read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.adoption import (
    FINISHED,
    UNPROVEN,
    ClaimedStatus,
    CommitFact,
    Finding,
    JudgedClaim,
    Proofs,
    TrustPolicy,
    claim_findings,
    judge_claim,
    missing_file_findings,
)
from holdfast.core.plan import Plan
from holdfast.formats.model import ForeignRun
from holdfast.repo.ancestry import (
    branch_with_all,
    commits_naming,
    commits_outside,
    resolve_hashes,
    same_changes,
)
from holdfast.repo.landing import merge
from holdfast.repo.refs import local_branches
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.unfinished_work import UnfinishedWork, find_unfinished_work

HEAD = "HEAD"
_MISSING = "missing-commit"


@dataclass(frozen=True, slots=True)
class AdoptionOptions:
    """The user's options. `base` names the commit to continue from; `checkout`: it holds unfinished work."""

    policy: TrustPolicy = field(default_factory=TrustPolicy)
    base: str = ""
    checkout: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """A foreign run as it would be adopted: from which commit, with which tasks done, with which work found."""

    foreign: ForeignRun
    digest: str
    base: str
    base_name: str
    judged: Mapping[str, JudgedClaim]
    unfinished: Mapping[str, UnfinishedWork]
    missing: Mapping[str, tuple[str, ...]]
    findings: tuple[Finding, ...]

    @property
    def finished(self) -> list[str]:
        """The tasks that count as done, in plan order."""
        return [name for name, one in self.judged.items() if one.verdict in FINISHED]


def assess(repo: Repository, foreign: ForeignRun, options: AdoptionOptions) -> Assessment:
    """Judge a foreign run by what git shows. Costs a handful of git processes for any number of tasks."""
    recorded = [commit for claim in foreign.claims for commit in claim.commits]
    known = resolve_hashes(repo, [*recorded, *foreign.commits])
    heads = local_branches(repo)
    base_name, base = _choose_base(repo, foreign, options, list(dict.fromkeys(known.values())), heads)
    proofs = _proofs(repo, foreign, base, known)
    judged = {claim.task: judge_claim(claim, proofs, options.policy) for claim in foreign.claims}
    unfinished, noticed = find_unfinished_work(
        repo, foreign.claims, judged, base, heads, with_checkout=options.checkout
    )
    missing = _missing_files(repo, foreign.plan, judged, base)
    found = (
        *_without_doubles(foreign.findings, judged),
        *claim_findings(foreign.claims, judged, foreign.plan),
        *missing_file_findings(missing),
        *_overall(foreign, judged),
        *noticed,
    )
    return Assessment(foreign, digest_of(foreign), base, base_name, judged, unfinished, missing, found)


def _without_doubles(findings: Sequence[Finding], judged: Mapping[str, JudgedClaim]) -> list[Finding]:
    """Leave out a state's findings about missing commits of tasks that git judges better."""
    unproven = {name for name, one in judged.items() if one.verdict in UNPROVEN}
    return [one for one in findings if one.kind != _MISSING or one.task not in unproven]


def _missing_files(
    repo: Repository, plan: Plan, judged: Mapping[str, JudgedClaim], base: str
) -> dict[str, tuple[str, ...]]:
    promised = [
        (task.id, path)
        for _, task in plan.tasks()
        if judged[task.id].verdict in FINISHED
        for path in task.files
        if "\n" not in path
    ]
    blobs = repo.ids_of(*(f"{base}:{path}" for _, path in promised)) if promised else []
    missing: dict[str, tuple[str, ...]] = {}
    for (task, path), blob in zip(promised, blobs, strict=True):
        if not blob:
            missing[task] = (*missing.get(task, ()), path)
    return missing


def digest_of(foreign: ForeignRun) -> str:
    """Return the digest of a foreign run's files: equal files, equal digests."""
    digest = hashlib.sha256(foreign.system.encode())
    for path, data in sorted(foreign.documents.items()):
        name = path.encode("utf-8", "surrogateescape")
        digest.update(b"%d %b %d " % (len(name), name, len(data)) + data)
    return digest.hexdigest()


def _choose_base(
    repo: Repository,
    foreign: ForeignRun,
    options: AdoptionOptions,
    known: list[str],
    heads: Mapping[str, str],
) -> tuple[str, str]:
    """Return the commit to continue from: the branch with the finished work, unless HEAD has it all."""
    if options.base:
        return options.base, repo.resolve(options.base)
    head = repo.resolve(HEAD)
    astray = commits_outside(repo, known, head)
    lacking = astray - same_changes(repo, sorted(astray), head).keys()
    staging = next(((name, heads[name]) for name in foreign.branches if name in heads), ("", ""))
    if lacking and not staging[0]:
        staging = branch_with_all(repo, known)
    if staging[0] and (lacking or _has_more(repo, staging[1], head)):
        return staging
    return HEAD, head


def _has_more(repo: Repository, tip: str, head: str) -> bool:
    """Tell whether a branch holds anything that HEAD lacks. One that was squashed into it does not."""
    if not commits_outside(repo, [tip], head):
        return False
    merged = merge(repo, head, tip) if repo.merge_base(head, tip) else None
    return merged != repo.tree_of(head)


def _proofs(repo: Repository, foreign: ForeignRun, base: str, known: Mapping[str, str]) -> Proofs:
    done = [claim for claim in foreign.claims if claim.standing is ClaimedStatus.DONE]
    ids = dict.fromkeys(known[commit] for claim in done for commit in claim.commits if commit in known)
    astray = commits_outside(repo, list(ids), base)
    same = same_changes(repo, sorted(astray), base)
    facts = {
        recorded: CommitFact(commit, commit not in astray, same.get(commit, ""))
        for recorded, commit in known.items()
    }
    unproven = {claim.task: claim.native or claim.task for claim in done if not claim.commits}
    named = commits_naming(repo, base, unproven)
    return Proofs(base, facts, frozenset(foreign.documents), named)


def _overall(foreign: ForeignRun, judged: Mapping[str, JudgedClaim]) -> list[Finding]:
    settled = {claim.task for claim in foreign.claims if claim.standing is ClaimedStatus.SKIPPED}
    left = [name for name, one in judged.items() if one.verdict not in FINISHED and name not in settled]
    if not (foreign.finished and left):
        return []
    sentence = f"The whole run is called done, but {len(left)} of {len(judged)} tasks are not proven to be."
    return [Finding(kind="finished-with-open-tasks", sentence=sentence)]
