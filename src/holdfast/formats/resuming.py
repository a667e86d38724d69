"""Where a foreign run goes on, if its files leave that open: the places, and what choosing one of them means."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.formats.model import SETTLED, ForeignRun, Standing

SEVERAL = "several-resume-points"
"""The kind of the findings that each name a task where the run may go on; there are two at least, or none."""


def resume_points(run: ForeignRun) -> dict[str, str]:
    """Return the tasks where the run may go on, each with the reason, in the order of the plan."""
    return {finding.task: finding.sentence for finding in run.findings if finding.kind == SEVERAL}


def resume_from(run: ForeignRun, task: str) -> ForeignRun:
    """Return the run as it stands if the user says where to go on: what is before is done with, the rest is not."""
    place = [claim.task for claim in run.claims].index(task)
    before = (
        claim if claim.standing in SETTLED else replace(claim, standing=Standing.SKIPPED)
        for claim in run.claims[:place]
    )
    after = (replace(claim, standing=Standing.PENDING) for claim in run.claims[place:])
    findings = tuple(finding for finding in run.findings if finding.kind != SEVERAL)
    return replace(run, claims=(*before, *after), findings=findings, finished=False)
