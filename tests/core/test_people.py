"""What a task needs from a person: questions and tasks that are taken, and that neither is tried without the person."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core import events as ev
from holdfast.core.brief import BriefFacts, build_brief
from holdfast.core.commands import HandOver, StartAttempt
from holdfast.core.decide import decide, leads_on
from holdfast.core.facts import BranchFacts, Facts
from holdfast.core.people import QUESTIONS_MAX, asked_in_latest, needed_from_person, open_questions
from holdfast.core.plan import AgentProvider, Limits
from holdfast.core.projection import Taken
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import AttemptKind, FailureKind, RunStatus, TaskStatus
from holdfast.core.task_transitions import IllegalEventError
from tests.core.builders import ATTACHED, begin, failed, plan, settle, start, task, walk


def _asked(question: str = "Which?", *options: str) -> ev.QuestionAsked:
    return ev.QuestionAsked(task="a", attempt=1, question=question, options=options)


def _asking(limits: Limits | None = None) -> RunState:
    """Return a run whose task `a` ended at its question."""
    state = begin(plan((task("a"), task("b")), limits=limits))
    state.apply_all([start("a", 1), _asked("Which?", "this", "that")])
    state.apply(ev.AttemptAsked(task="a", attempt=1, token="a-token1", carry="half"))
    return state


def _taken() -> RunState:
    """Return a run whose task `a` a person has, with a workspace."""
    state = begin(plan((task("a"),)))
    state.apply_all([ev.TaskTaken(task="a"), ev.HandOverStarted(task="a", start="base")])
    state.apply(ev.TaskHandedOver(task="a", place="p"))
    return state


def test_an_attempt_that_asked_ends_uncharged_and_its_task_waits() -> None:
    """Its work is kept, and other tasks go on."""
    state = _asking()
    row = state.tasks["a"]
    assert (row.status, row.charged, row.carry) == (TaskStatus.BLOCKED, 0, "half")
    assert settle(state) == ["b"]


def test_a_run_that_waits_for_answers_rests_with_the_question_and_the_command() -> None:
    """Whoever reads the reason knows what to type."""
    state = _asking()
    settle(state)
    state.apply(failed("b", 1))
    state.apply(ev.TaskSkipped(task="b"))
    settle(state)
    assert state.row.status is RunStatus.BLOCKED
    assert "a asks: Which?  [1] this  [2] that" in state.row.reason
    assert "`holdfast answer 01-run a" in state.row.reason


def test_a_resume_alone_does_not_try_a_task_with_an_open_question() -> None:
    """A new runner changes nothing about what is open."""
    state = _asking()
    state.apply(ev.RunnerAttached(epoch=2, pid=1, host="h", boot_id="b"))
    assert settle(state) == ["b"]


def test_an_answered_task_starts_at_once_from_what_was_left() -> None:
    """Its next attempt continues the work."""
    state = _asking()
    state.apply(ev.QuestionAnswered(task="a", answer="that"))
    started = [one for one in decide(state, 0.0) if isinstance(one, StartAttempt) and one.task == "a"]
    assert [one.start for one in started] == ["half"]


def test_two_questions_need_two_answers() -> None:
    """The oldest is answered first."""
    state = begin(plan((task("a"),)))
    state.apply_all([start("a", 1), _asked("One?"), _asked("Two?"), _asked("Two?")])
    state.apply(ev.AttemptAsked(task="a", attempt=1, token="a-token1"))
    state.apply(ev.QuestionAnswered(task="a", answer="1"))
    assert [one.question for one in open_questions(state.tasks["a"])] == ["Two?"]
    assert settle(state) == []
    state.apply(ev.RunnerAttached(epoch=2, pid=1, host="h", boot_id="b"))
    state.apply(ev.QuestionAnswered(task="a", answer="2"))
    assert settle(state) == ["a"]


def test_an_answer_without_a_question_is_refused() -> None:
    """Somebody else answered it a moment ago."""
    state = _asking()
    state.apply(ev.QuestionAnswered(task="a", answer="that"))
    with pytest.raises(IllegalEventError):
        state.apply(ev.QuestionAnswered(task="a", answer="this"))


def test_a_question_survives_a_crash_of_the_attempt() -> None:
    """It is open although the attempt never came to its end."""
    state = begin(plan((task("a"),)))
    state.apply_all([start("a", 1), _asked(), ev.AttemptLost(task="a", attempt=1)])
    assert state.tasks["a"].status is TaskStatus.BLOCKED
    assert settle(state) == []


def test_a_retry_closes_the_question_and_says_so_in_the_brief() -> None:
    """The user does not want to answer: the next agent decides, and knows that."""
    state = _asking()
    state.apply(ev.TaskRetried(task="a"))
    assert open_questions(state.tasks["a"]) == ()
    assert "a" in settle(state)
    assert "Nobody answered. Decide it yourself" in build_brief(state, state.tasks["a"], BriefFacts())


def test_an_answer_stands_in_every_later_brief() -> None:
    """It was decided for the task, not for an attempt."""
    state = _asking()
    state.apply(ev.QuestionAnswered(task="a", answer="that one"))
    state.apply_all([start("a", 2), failed("a", 2), start("a", 3)])
    brief = build_brief(state, state.tasks["a"], BriefFacts())
    assert brief.index("Which?") < brief.index("The answer: that one")


def test_an_agent_that_can_is_answered_in_its_own_session() -> None:
    """Without --native-resume, too: the answer is the next message."""
    state = begin(plan((task("a"),)))
    state.providers = {"": AgentProvider("p", resumable=True)}
    observed = ev.AgentObserved(task="a", attempt=1, session="its own")
    state.apply_all([start("a", 1), observed, _asked()])
    state.apply(ev.AttemptAsked(task="a", attempt=1, token="a-token1", carry="half"))
    state.apply(ev.QuestionAnswered(task="a", answer="that"))
    [started] = [one for one in decide(state, 0.0) if isinstance(one, StartAttempt)]
    assert (started.session, started.start, started.workspace_number) == ("its own", "half", 0)


def test_an_agent_cannot_ask_without_end() -> None:
    """What it asks beyond the bound is not heard."""
    state = begin(plan((task("a"),)))
    state.apply(start("a", 1))
    state.apply_all(_asked(f"{number}?") for number in range(QUESTIONS_MAX + 5))
    assert len(state.tasks["a"].questions) == QUESTIONS_MAX


def test_an_attempt_is_heard_however_often_earlier_ones_asked() -> None:
    """Not heard, it would count as done, although it waits for an answer."""
    state = begin(plan((task("a"),)))
    for number in range(1, QUESTIONS_MAX + 2):
        token = f"a-token{number}"
        state.apply_all([start("a", number), replace(_asked(f"{number}?"), attempt=number)])
        state.apply(ev.AttemptAsked(task="a", attempt=number, token=token, carry=""))
        state.apply(ev.QuestionAnswered(task="a", answer="that"))
    assert asked_in_latest(state.tasks["a"])


def test_a_task_that_is_taken_gets_a_workspace_and_is_left_alone() -> None:
    """Also by a resume."""
    state = begin(plan((task("a"),)))
    state.apply(ev.TaskTaken(task="a"))
    assert decide(state, 0.0) == [HandOver("a", "base")]
    settle(state)
    state.apply(ev.TaskHandedOver(task="a", place="p"))
    state.apply(ev.RunnerAttached(epoch=2, pid=1, host="h", boot_id="b"))
    assert settle(state) == []
    assert "a is taken by you, in p" in state.row.reason


def test_what_set_aside_work_there_is_goes_to_the_person() -> None:
    """An agent would start without it."""
    state = begin(plan((task("a"),)))
    state.apply_all([start("a", 1), ev.TaskTaken(task="a")])
    state.apply(ev.AttemptLost(task="a", attempt=1, set_aside="half", cause="stop"))
    assert decide(state, 0.0) == [HandOver("a", "half")]


def test_an_attempt_under_way_ends_before_the_person_gets_the_task() -> None:
    """Two never work on it at the same time."""
    state = begin(plan((task("a"),)))
    state.apply_all([start("a", 1), ev.TaskTaken(task="a")])
    assert (state.tasks["a"].status, decide(state, 0.0)) == (TaskStatus.RUNNING, [])


def test_work_that_is_handed_over_holds_nobody_back_any_more() -> None:
    """Its check could not run, so nothing else started. As soon as a person has it, the others do."""
    state = begin(plan((task("a"), task("b")), limits=Limits(jobs=1)))
    walk(state, "a", "verifying")
    state.apply(
        ev.VerificationBlocked(task="a", attempt=1, failure=FailureKind.UNRUNNABLE, error="no program")
    )
    state.apply(ev.TaskTaken(task="a"))
    taken = decide(state, 0.0)
    assert (taken, leads_on(taken)) == ([HandOver("a", "a-head1")], True)
    state.apply(ev.HandOverStarted(task="a", start="a-head1"))
    assert settle(state) == ["b"]


def test_a_hand_over_that_was_cut_short_begins_again() -> None:
    """Nobody had been told of the workspace."""
    state = begin(plan((task("a"),)))
    state.apply(ev.TaskTaken(task="a"))
    settle(state)
    state.apply_all(reconcile(state, Facts(branch=BranchFacts(tip="base"))))
    assert decide(state, 0.0) == [HandOver("a", "base")]


def test_what_is_given_is_an_attempt_of_the_person() -> None:
    """Its number is the next one, and it starts where the person did."""
    state = _taken()
    state.apply(ev.TaskGiven(task="a", message="by hand"))
    [given] = decide(state, 0.0)
    assert isinstance(given, StartAttempt)
    assert (given.attempt, given.attempt_kind, given.agent, given.start) == (
        1,
        AttemptKind.PERSON,
        "you",
        "base",
    )


def test_nobody_is_told_to_give_what_was_given() -> None:
    """The run may rest before it has taken it in."""
    state = _taken()
    state.apply(ev.TaskGiven(task="a"))
    needed = needed_from_person(state.row.run, state.tasks["a"])
    assert "a is given by you; it is taken in when the run goes on" in needed
    assert "holdfast give" not in needed


def test_a_check_that_fails_charges_nothing_and_the_task_stays_with_the_person() -> None:
    """The feedback is the reason that is shown."""
    state = _taken()
    state.apply(ev.TaskGiven(task="a"))
    settle(state)
    done = ev.AttemptDone(task="a", attempt=1, token="a-token1", head="mine", tree="t")
    state.apply_all([done, ev.ChecksStarted(task="a", attempt=1)])
    state.apply(ev.ChecksFailed(task="a", attempt=1, check="c", error="it broke"))
    row = state.tasks["a"]
    assert (row.status, row.charged, row.carry) == (TaskStatus.BLOCKED, 0, "mine")
    assert row.taken == Taken(start="base", ready=True, place="p")
    assert settle(state) == []
    assert "it broke" in state.row.reason


@pytest.mark.parametrize("failure", [FailureKind.ENVIRONMENT, FailureKind.UNRUNNABLE])
def test_what_is_given_anew_takes_the_place_of_work_that_waits_for_its_checks(failure: FailureKind) -> None:
    """It is taken in; what waited is not checked beside it."""
    state = _taken()
    state.apply(ev.TaskGiven(task="a"))
    settle(state)
    done = ev.AttemptDone(task="a", attempt=1, token="a-token1", head="mine", tree="t")
    state.apply_all([done, ev.ChecksStarted(task="a", attempt=1)])
    state.apply(ev.VerificationBlocked(task="a", attempt=1, failure=failure, error="no program"))
    state.apply_all([ev.TaskGiven(task="a"), replace(ATTACHED, epoch=state.row.epoch + 1)])
    assert settle(state) == ["a"]
    assert (state.tasks["a"].attempt, state.tasks["a"].status) == (2, TaskStatus.RUNNING)


def test_a_task_that_is_given_back_has_all_attempts_and_the_persons_work() -> None:
    """The agents continue from it."""
    state = _taken()
    state.tasks["a"].charged = 2
    state.apply(ev.TaskGiven(task="a", back=True))
    settle(state)
    state.apply(ev.AttemptReturned(task="a", attempt=1, token="a-token1", carry="mine"))
    row = state.tasks["a"]
    assert (row.status, row.charged, row.taken, row.carry) == (TaskStatus.PENDING, 0, None, "mine")
    assert settle(state) == ["a"]


@pytest.mark.parametrize(
    "decision", [ev.TaskSkipped(task="a"), ev.TaskRetried(task="a"), ev.TaskRewound(task="a")]
)
def test_other_decisions_end_the_taking(decision: ev.Event) -> None:
    """What is in the person's workspace stays there; the task is nobody's any more."""
    state = _taken()
    state.apply(decision)
    assert state.tasks["a"].taken is None
    with pytest.raises(IllegalEventError):
        state.apply(ev.TaskGiven(task="a"))


@pytest.mark.parametrize(
    "event", [ev.TaskGiven(task="a"), ev.TaskHandedOver(task="a"), ev.HandOverStarted(task="a", start="b")]
)
def test_nothing_is_given_that_was_not_taken(event: ev.Event) -> None:
    """A request that comes too late changes nothing."""
    state = begin(plan((task("a"),)))
    with pytest.raises(IllegalEventError):
        state.apply(event)


def test_a_task_whose_needs_have_not_landed_cannot_be_taken() -> None:
    """There is nothing to build on yet."""
    state = begin(plan((task("a"), task("b", "a"))))
    with pytest.raises(IllegalEventError, match="needs"):
        state.apply(ev.TaskTaken(task="b"))
