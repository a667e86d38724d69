"""The state machine of tasks: what may happen when, and that nothing else can."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.core.commands import StartAttempt
from holdfast.core.decide import decide
from holdfast.core.event_codec import EVENT_KINDS, decode_event, encode_event
from holdfast.core.projection import (
    AttemptRow,
    LandingConflict,
    Question,
    Taken,
    TaskRow,
    decode_run_row,
    decode_task_row,
    encode_row,
)
from holdfast.core.run_transitions import RUN_EVENTS, STAGE_EVENTS, first_row
from holdfast.core.state import RunState, replay
from holdfast.core.status import AttemptKind, FailureKind, RunStatus, TaskStatus
from holdfast.core.task_transitions import TASK_EVENTS, IllegalEventError
from tests.core.builders import ATTACHED, STARTED, begin, done, failed, plan, queues, start, task, walk

_FIELDS: dict[str, Any] = {
    "task": "a", "attempt": 1, "token": "a-token1", "workspace_number": 0, "start": "base", "not_before": 0.0, "clock": 0.0, "head": "head", "tree": "tree",
    "failure": FailureKind.AGENT, "error": "it broke", "check": "check", "commit": "commit", "onto": "base",
    "carry": "carry", "files": (), "validator": "v", "score": 0.5, "name": "api", "contract": "f()", "proof": "tree",
    "attempts": 1, "provider": "p", "question": "Which?", "answer": "this",
}  # fmt: skip


def _event(kind: type[ev.Event], **fields: Any) -> Any:
    """Return an event of a kind that fits attempt 1 of task `a`."""
    given = {**_FIELDS, **fields}
    return kind(**{name: given[name] for name in kind.__struct_fields__ if name in given})


_TAKEN = {
    ev.HandOverStarted: Taken(),
    ev.HandOverInterrupted: Taken(start="base"),
    ev.TaskHandedOver: Taken(start="base"),
    ev.TaskGiven: Taken(start="base", ready=True),
}
"""How a task must have been taken for what its person does next."""


def _at(status: TaskStatus, kind: type[ev.Event] = ev.Event) -> RunState:
    """Return a run whose task `a` has a status, at the attempt that the events of `_event` speak of."""
    of = plan((task("a"), task("b", "a")))
    waits = status in TASK_EVENTS[ev.VerificationRestarted].moves
    latest = AttemptRow(token="a-token1")
    row = TaskRow(id="a", status=status, attempt=1, latest=latest, queue_number=1, recheck=waits)
    row.taken = _TAKEN.get(kind)
    if kind is ev.QuestionAnswered:
        row.questions = (Question(attempt=1, question="Which?"),)
    return RunState(of, begin(of).row, [row])


def _snapshot(state: RunState) -> bytes:
    return (
        encode_row(state.row) + b"".join(map(encode_row, state.tasks.values())) + repr(queues(state)).encode()
    )


def _pairs(*, legal: bool) -> list[tuple[type[ev.Event], TaskStatus]]:
    return [
        (kind, status)
        for kind, rule in TASK_EVENTS.items()
        for status in TaskStatus
        if (status in rule.moves) is legal
    ]


@pytest.mark.parametrize(("kind", "status"), _pairs(legal=False))
def test_what_the_table_does_not_allow_is_refused_and_changes_nothing(
    kind: type[ev.Event], status: TaskStatus
) -> None:
    """Every pair of event and status outside the table leaves rows and queues as they were."""
    state = _at(status)
    before = _snapshot(state)
    attempt = 2 if kind is ev.AttemptStarted else 1
    with pytest.raises(IllegalEventError):
        state.apply(_event(kind, attempt=attempt))
    assert _snapshot(state) == before
    assert state.take_changed() == []


@pytest.mark.parametrize(("kind", "status"), _pairs(legal=True))
def test_what_the_table_allows_leads_where_it_says(kind: type[ev.Event], status: TaskStatus) -> None:
    """Every pair inside the table moves the task to its target."""
    state = _at(status, kind)
    state.apply(_event(kind, attempt=2 if kind is ev.AttemptStarted else 1))
    assert state.tasks["a"].status is TASK_EVENTS[kind].moves[status]
    assert state.take_changed() == [state.tasks["a"]]


def test_every_event_has_exactly_one_row() -> None:
    """An event without a row could be stored and never be replayed."""
    rows = [*TASK_EVENTS, *STAGE_EVENTS, *RUN_EVENTS]
    assert sorted(kind.__name__ for kind in rows) == sorted(
        kind.__name__ for kind in EVENT_KINDS if kind is not ev.RunStarted
    )


@pytest.mark.parametrize("kind", [k for k in TASK_EVENTS if "attempt" in k.__struct_fields__])
def test_the_word_of_an_earlier_attempt_is_refused(kind: type[ev.Event]) -> None:
    """Only the newest attempt may change its task. A landing is not its word but git's."""
    if kind is ev.TaskLanded:
        return
    for status in TASK_EVENTS[kind].moves:
        state = _at(status)
        state.tasks["a"].attempt = 3
        before = _snapshot(state)
        with pytest.raises(IllegalEventError):
            state.apply(_event(kind))
        assert _snapshot(state) == before


@pytest.mark.parametrize("kind", [ev.AttemptDone, ev.AttemptFailed])
def test_a_result_with_another_token_is_refused(kind: type[ev.Event]) -> None:
    """The right attempt number with the wrong token is somebody else's process."""
    state = _at(TaskStatus.RUNNING)
    with pytest.raises(IllegalEventError, match="token"):
        state.apply(_event(kind, token="forged"))
    assert state.tasks["a"].status is TaskStatus.RUNNING


def test_an_attempt_cannot_start_before_its_needs_are_met() -> None:
    """The state itself refuses it, whoever decides."""
    state = begin(plan((task("a"), task("b", "a"))))
    with pytest.raises(IllegalEventError, match="needs"):
        state.apply(start("b", 1))


def test_an_attempt_cannot_start_before_its_stage_is_open() -> None:
    """A gate that has not been passed stops every task behind it."""
    state = begin(plan((task("a"),), (task("b"),)))
    with pytest.raises(IllegalEventError, match="needs"):
        state.apply(start("b", 1))


@pytest.mark.parametrize("event", [ev.StageOpening(stage="s9"), ev.StageClosed(stage="s1"), STARTED])
def test_a_run_event_out_of_place_is_refused(event: ev.Event) -> None:
    """An unknown stage, a gate that is not being checked, and a second beginning."""
    state = begin(plan((task("a"),)))
    before = _snapshot(state)
    with pytest.raises(IllegalEventError):
        state.apply(event)
    assert _snapshot(state) == before


def test_a_task_that_is_not_in_the_plan_is_refused() -> None:
    """An event about an unknown task says so."""
    with pytest.raises(IllegalEventError, match="not in the plan"):
        begin(plan((task("a"),))).apply(start("z", 1))


def test_a_history_begins_with_its_run() -> None:
    """A journal that lost its beginning is not guessed at."""
    with pytest.raises(IllegalEventError, match="RunStarted"):
        replay(plan((task("a"),)), [ATTACHED])


def test_attempt_numbers_are_never_given_out_twice() -> None:
    """A landing of an earlier attempt does not turn the count back: numbers name launches."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1))
    walk(state, "a", "running")
    state.apply(ev.TaskLanded(task="a", attempt=1, commit="merge", head="head"))
    assert state.tasks["a"].attempt == 2


def test_a_crash_charges_no_attempt() -> None:
    """A lost attempt counts as lost, not as failed, and leaves its work to the next one."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1, carry="wip"))
    row = state.tasks["a"]
    assert (row.charged, row.crash_count, row.carry) == (0, 1, "wip")


def test_a_stop_by_the_user_counts_as_no_loss() -> None:
    """Stopping and resuming for ever never uses a task up."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1, cause="stop"))
    assert state.tasks["a"].crash_count == 0


def test_a_vanished_landing_leaves_its_work_to_the_next_attempt() -> None:
    """What was landed and taken off the branch is not done from scratch."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "completed")
    state.apply(ev.LandingVanished(task="a", commit="a-merge1"))
    assert state.tasks["a"].carry == "a-head1"


def test_a_task_taken_back_opens_its_stage_again() -> None:
    """A stage is only as complete as its tasks, and what builds on it waits for it."""
    state = begin(plan((task("a"),), (task("b"),)))
    state.apply(ev.TaskSkipped(task="a"))
    for event in (ev.StageClosing(stage="s1"), ev.StageClosed(stage="s1")):
        state.apply(event)
    assert list(state.current_stages) == ["s2"]
    state.apply(ev.TaskRetried(task="a"))
    assert list(state.current_stages) == ["s1"]
    assert state.stage("s1").status == "running"


def _story() -> tuple[list[ev.Event], RunState]:
    """Return a history with a bit of everything, and the live state that it led to."""
    of = plan((task("b", "a"), task("a"), task("c"), task("d"), task("e")), (task("f", "c"),))
    events: list[ev.Event] = [
        ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1"), start("c", 1), start("a", 1, workspace=1),
        done("a", 1), ev.TaskVerified(task="a", attempt=1), done("c", 1), ev.ChecksStarted(task="c", attempt=1),
        ev.LandingStarted(task="a", attempt=1), ev.MergePrepared(task="a", attempt=1, commit="m", onto="base"),
        ev.TaskLanded(task="a", attempt=1, commit="m", head="a-head1"), start("d", 1, workspace=1),
        failed("d", 1, FailureKind.ENVIRONMENT, clock=5.0), start("e", 1, workspace=1),
        ev.SnapshotSaved(task="e", attempt=1, commit="wip"), ev.TaskVerified(task="c", attempt=1),
        ev.LandingStarted(task="c", attempt=1), ev.LandingInterrupted(task="c", attempt=1),
        ev.BranchMoved(commit="x"), ev.TaskSkipped(task="b"), ev.TaskRetried(task="b"),
    ]  # fmt: skip
    state = replay(of, [STARTED, ATTACHED])
    for event in events:
        state.apply(event)
    return [STARTED, ATTACHED, *events], state


def test_the_live_state_is_the_fold_of_its_events() -> None:
    """Replaying a history gives the same rows and the same queues."""
    events, live = _story()
    replayed = replay(live.plan, events)
    assert (replayed.row, replayed.tasks) == (live.row, live.tasks)
    assert queues(replayed) == queues(live)


def test_a_state_restored_from_its_rows_is_the_live_state() -> None:
    """Rows go through their codec and come back with the same queues, whatever the order of the plan."""
    _, live = _story()
    rows = [decode_task_row(encode_row(row)) for row in live.take_changed()]
    restored = RunState(live.plan, decode_run_row(encode_row(live.row)), rows)
    assert (restored.row, restored.tasks) == (live.row, live.tasks)
    assert queues(restored) == queues(live)


def test_every_event_survives_its_codec() -> None:
    """What the journal reads is what was written."""
    events, _ = _story()
    assert [decode_event(encode_event(event)) for event in events] == events


def test_a_new_run_is_pending_at_its_base() -> None:
    """Nothing has happened yet, and the branch is where it starts."""
    row = first_row(STARTED)
    assert (row.status, row.tip) == (RunStatus.PENDING, STARTED.base)


def test_only_changed_rows_are_handed_to_the_journal() -> None:
    """Storing a turn costs what the turn changed."""
    state = begin(plan((task("a"), task("b"))))
    walk(state, "b", "verifying")
    assert [row.id for row in state.take_changed()] == ["b"]
    assert state.take_changed() == []


def test_a_restored_task_goes_on_above_every_number_that_was_used() -> None:
    """What git remembers of a task: how many attempts there were, and their work; failures are not charged."""
    state = begin(plan((task("a"),)))
    state.apply(ev.TaskRestored(task="a", attempts=3, carry="work", base="below"))
    row = state.tasks["a"]
    assert (row.attempt, row.carry, row.base, row.charged) == (3, "work", "below", 0)
    state.apply(start("a", 4))


def test_a_restored_run_rests_and_fences_off_the_runners_before_it() -> None:
    """Its epoch begins above all that were, and it is resumable."""
    started = ev.RunStarted(run="r", goal="g", plan_hash="h", base="b", branch="x", epoch=9)
    row = replay(plan((task("a"),)), [started, ev.RunRestored()]).row
    assert (row.epoch, row.status, row.reason) == (9, RunStatus.STOPPED, "rebuilt from git")


def test_work_that_was_set_aside_changes_nothing_of_what_is_carried() -> None:
    """What an earlier attempt left at its own end is the clean start of all that come after it."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(msgspec.structs.replace(failed("a", 1), carry="earlier"))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=2, set_aside="half"))
    row = state.tasks["a"]
    assert (row.carry, row.set_aside, row.base, row.wasted) == ("earlier", "half", "base", 1)
    walk(state, "a", "verifying")
    assert (row.carry, row.set_aside) == ("earlier", "")


def test_a_task_whose_only_work_was_set_aside_begins_anew() -> None:
    """Its next attempt starts from the branch as it is then, so nothing that others landed counts as its work."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1, set_aside="half"))
    state.apply(msgspec.structs.replace(start("a", 2), start="tip"))
    assert state.tasks["a"].base == "tip"


def test_what_others_landed_between_two_attempts_is_no_work_of_a_task() -> None:
    """The first attempt left nothing: the second is compared with the branch that it starts from."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(failed("a", 1))
    state.apply(msgspec.structs.replace(start("a", 2), start="tip"))
    assert state.tasks["a"].base == "tip"


def test_a_session_is_not_resumed_where_its_work_was_set_aside() -> None:
    """The agent would remember files that are not there."""
    state = begin(plan((task("a"),)))
    walk(state, "a", "running")
    state.apply(ev.AttemptLost(task="a", attempt=1, set_aside="half"))
    assert state.tasks["a"].latest.session_commit == "half"


def _resolving() -> RunState:
    """Return a run whose task `a` resolves a conflict at `land`."""
    conflict = LandingConflict(run="01-other", tip="tip", task="a", commit="merged", files=("x.py",))
    started = msgspec.structs.replace(STARTED, resolves=conflict)
    state = replay(plan((task("a"), task("b"))), [started, ATTACHED])
    for event in (ev.StageOpening(stage="s1"), ev.StageOpened(stage="s1")):
        state.apply(event)
    return state


def test_a_task_that_resolves_a_conflict_at_land_begins_with_the_merge() -> None:
    """Its first attempt is a conflict's, from the commit with the markers; other tasks begin as ever."""
    state = _resolving()
    first, other = (one for one in decide(state, 0.0) if isinstance(one, StartAttempt))
    assert (first.start, first.attempt_kind) == ("merged", AttemptKind.CONFLICT)
    assert state.tasks["a"].conflict_files == ("x.py",)
    assert (other.start, other.attempt_kind) == ("base", AttemptKind.IMPLEMENTATION)


def test_a_reset_or_a_lost_journal_does_not_take_the_conflict_away() -> None:
    """Both bring the task back to its beginning, and that is the merge."""
    state = _resolving()
    state.apply(start("a", 1))
    state.apply(failed("a", 1))
    state.apply(ev.TaskRewound(task="a"))
    assert (state.tasks["a"].carry, state.tasks["a"].conflict) == ("merged", "merged")
    rebuilt = _resolving()
    rebuilt.apply(ev.TaskRestored(task="a", attempts=1))
    assert (rebuilt.tasks["a"].carry, rebuilt.tasks["a"].base) == ("merged", "base")
