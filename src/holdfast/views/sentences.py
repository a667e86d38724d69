"""Each event as one sentence for people. The words are data; an event without words is not worth a line."""

from __future__ import annotations

import msgspec

from holdfast.core import events as ev
from holdfast.views.text import one_line

_WORDS: dict[type[ev.Event], str] = {
    ev.RunStarted: "run {run} begins at {base:.12}",
    ev.RunnerAttached: "runner attached (pid {pid} on {host})",
    ev.AgentsAdopted: "",
    ev.StageOpening: "",
    ev.StageOpened: "stage {stage} opened",
    ev.StageClosing: "",
    ev.StageClosed: "stage {stage} completed",
    ev.StageGateFailed: "stage {stage} is blocked, its {gate} check failed: {error}",
    ev.StageGateReset: "stage {stage}: the {gate} check will run again",
    ev.AttemptStarted: "{task}: attempt {attempt} started ({reason})",
    ev.AttemptDone: "{task}: attempt {attempt} done, {head:.12}",
    ev.AttemptFailed: "{task}: attempt {attempt} failed ({failure}): {error}",
    ev.AttemptLost: "{task}: attempt {attempt} cut short by a {cause}; what it wrote is kept",
    ev.ChecksStarted: "",
    ev.ChecksPassed: "{task}: verified",
    ev.ChecksFailed: "{task}: check failed: {error}",
    ev.ChecksInterrupted: "{task}: checks cut short; they run again",
    ev.LandingStarted: "",
    ev.MergePrepared: "",
    ev.MergeConflicted: "{task}: conflicts in {files}; a fresh agent resolves them",
    ev.MergeRefused: "{task}: the merged tree failed: {error}",
    ev.LandingInterrupted: "{task}: landing cut short; back in the merge queue",
    ev.TaskLanded: "{task}: landed as {commit:.12}",
    ev.LandingVanished: "{task}: {commit:.12} is no longer on the run branch; the task is open again",
    ev.TaskAbandoned: "{task}: abandoned, {error}",
    ev.TaskSkipped: "{task}: skipped",
    ev.TaskReset: "{task}: reset, it has all its attempts again",
    ev.WipSaved: "{task}: unfinished work saved, {commit:.12}",
    ev.IntrusionNoticed: "changed in {place} while {tasks} ran: {paths}",
    ev.BranchMoved: "the run branch was moved to {commit:.12} by somebody else",
    ev.PauseRequested: "pause requested: what is under way may finish",
    ev.StopRequested: "stop requested: running agents end, their work is kept",
    ev.RunPaused: "run paused",
    ev.RunStopped: "run stopped",
    ev.RunBlocked: "run blocked: {reason}",
    ev.RunCompleted: "run completed",
    ev.RunAbandoned: "run abandoned; its branch and refs stay",
}


def sentence(event: ev.AnyEvent) -> str:
    """Return an event in words, as one line; empty if it is not worth telling."""
    if isinstance(event, ev.AgentsAdopted):
        return _adopted(event)
    fields = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(event).items()
    }
    return one_line(_WORDS[type(event)].format_map(fields), width=200)


def _adopted(event: ev.AgentsAdopted) -> str:
    parts = [
        f"re-attached to {', '.join(event.working)}" if event.working else "",
        f"collecting {', '.join(event.finished)}, finished meanwhile" if event.finished else "",
    ]
    return "; ".join(part for part in parts if part)
