"""Providers at their limit: who waits, how long, and what clocks and crashes do to it."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from holdfast.core import events as ev
from holdfast.core.budgets import attempt_overrun, shared_overrun
from holdfast.core.commands import RecordEvent, StartAttempt, ValidateTask, intents
from holdfast.core.decide import decide, next_wake
from holdfast.core.facts import BranchFacts, Facts
from holdfast.core.native_resume import session_for
from holdfast.core.plan import AgentProvider, Limits, Plan, Task, Validator
from holdfast.core.projection import Parked, RunRow, Spent, decode_run_row, encode_row
from holdfast.core.provider_limits import (
    KNOWN_WAIT_MAX_S,
    default_wait,
    park_provider,
    park_unreachable,
    provider_answered,
)
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import FailureKind, ParkReason, RunStatus, TaskStatus
from tests.core.builders import ATTACHED, begin, done, failed, plan, settle, start, task

WALL = 1_800_000_000.0


def _two(limits: Limits | None = None) -> RunState:
    """Return a run with a task of agent a, which has started through provider p, and one of agent b through q."""
    of = plan((task("t"), task("u")), limits=limits)
    stages = (
        msgspec.structs.replace(
            of.stages[0], tasks=(_by(task("t"), "a"), _by(task("u"), "a"), _by(task("v"), "b"))
        ),
    )
    state = begin(msgspec.structs.replace(of, stages=stages))
    state.providers = {"a": AgentProvider("p"), "b": AgentProvider("q")}
    state.apply(msgspec.structs.replace(start("t", 1), agent="a", provider="p"))
    return state


def _by(spec: Task, agent: str) -> Task:
    return msgspec.structs.replace(spec, agent=agent)


def _limit(
    state: RunState, until: float | None = None, wall: float = WALL, clock: float = 0.0
) -> ev.ProviderParked:
    row = state.tasks["t"]
    parked = msgspec.structs.replace(
        park_provider(state, "p", row.latest.token, until, wall, clock), words="p is at its limit"
    )
    state.apply(parked)
    state.apply(
        ev.AttemptLimited(task="t", attempt=row.attempt, token=row.latest.token, provider="p", error="limit")
    )
    return parked


def test_nothing_starts_through_a_parked_provider_and_the_others_go_on() -> None:
    """Of three tasks one hit the limit: the second waits unstarted, the third is another provider's."""
    state = _two()
    _limit(state, WALL + 100)
    assert settle(state, now=1.0) == ["v"]
    assert state.tasks["t"].status is TaskStatus.WAITING_LIMIT


def test_a_limit_charges_nothing() -> None:
    """No attempt and no failure is on the task's account."""
    state = _two()
    _limit(state, WALL + 100)
    row = state.tasks["t"]
    assert (row.charged, row.failures, row.limited) == (0, [], 1)


def test_the_run_wakes_when_the_limit_ends_and_starts_what_waited() -> None:
    """Nothing polls: the next thing to do is known to the second."""
    state = _two()
    parked = _limit(state, WALL + 100)
    wake = next_wake(state, 0.0)
    assert wake == parked.wait_s
    assert 100 <= parked.wait_s <= 110
    assert settle(state, now=wake) == ["t", "u", "v"]


def _full(on_limit: Literal["wait", "stop"]) -> RunState:
    """Return a run whose only workspace holds work that waits for a validator at a limit, and a task that is due."""
    judged = msgspec.structs.replace(task("t"), validators=(Validator(id="v", prompt="judge", agent="a"),))
    state = begin(plan((judged, task("u")), limits=Limits(jobs=1, on_limit=on_limit)))
    state.apply_all([start("u", 1), failed("u", 1), start("t", 1), done("t", 1)])
    parked = park_provider(state, "a", "token", WALL + 100, WALL, 0.0)
    state.apply(msgspec.structs.replace(parked, words="a is at its limit"))
    return state


def test_a_task_that_waits_for_a_workspace_hides_no_limit() -> None:
    """It is due already, and nothing but the end of the limit will free the workspace."""
    state = _full("wait")
    assert decide(state, 1.0) == []
    wake = next_wake(state, 1.0)
    assert wake == state.row.parked["a"].not_before
    assert decide(state, wake) == [ValidateTask("t", 1)]


def test_a_task_that_waits_for_a_workspace_keeps_no_run_from_blocking() -> None:
    """Nobody waits for the limit, so nobody will ever free the workspace."""
    assert decide(_full("stop"), 1.0) == [RecordEvent(ev.RunBlocked(reason="a is at its limit"))]


def test_several_attempts_that_run_into_one_limit_are_one_hit() -> None:
    """The default wait grows with limits, not with the number of agents that met one."""
    state = _two()
    first = _limit(state)
    second = park_provider(state, "p", "token", None, WALL + 1, 1.0)
    assert (first.hits, second.hits) == (1, 1)
    assert second.clock + second.wait_s == pytest.approx(first.wait_s)


def test_the_default_wait_doubles_from_a_minute_to_an_hour() -> None:
    """When nobody says how long, patience grows."""
    assert [default_wait(hits, 60.0) for hits in (1, 2, 3, 7, 50)] == [60, 120, 240, 3600, 3600]


def _outage(state: RunState, clock: float, *, probed: bool, wall: float = WALL) -> ev.ProviderParked:
    parked = park_unreachable(state, "p", "token", "503", wall + clock, clock, probed=probed)
    state.apply(parked)
    return parked


def test_an_outage_is_no_reason_to_forget_a_limit() -> None:
    """A limit with a known end stays one, and one that is met in an outage is a first one."""
    state = _two()
    limit = _limit(state, WALL + 1000)
    again = _outage(state, 10.0, probed=False)
    assert (again.reason, again.reckoned, again.until) == (ParkReason.LIMIT, True, limit.until)
    other = _two()
    for at in (0.0, 100.0, 200.0):
        _outage(other, at, probed=True)
    assert park_provider(other, "p", "token", None, WALL, 1000.0).hits == 1


def test_a_provider_that_refuses_us_stays_shut_whatever_others_met_before() -> None:
    """An agent that ends in an outage does not open what refused credentials shut."""
    state = _two()
    state.apply(ev.ProviderShut(provider="p", words="log in"))
    _outage(state, 10.0, probed=False)
    assert state.row.parked["p"].words == "log in"


def test_a_limit_whose_end_nobody_knows_is_tried_by_one_agent_first() -> None:
    """All of them would run into it at once; with the first answer the others start."""
    state = _two()
    parked = _limit(state)
    commands = [one for one in decide(state, parked.wait_s) if isinstance(one, StartAttempt)]
    assert [(one.task, one.probes) for one in commands] == [("t", True), ("v", False)]
    for command in commands:
        state.apply(intents(command, f"{command.task}-token{command.attempt}")[0])
    assert decide(state, parked.wait_s) == []
    [answered] = provider_answered(state, "p")
    state.apply(answered)
    assert settle(state, now=parked.wait_s) == ["u"]


def test_a_reset_time_beyond_reason_is_a_wrong_clock() -> None:
    """No limit is waited for longer than the longest that there is."""
    assert _limit(_two(), WALL + 10**9).wait_s <= KNOWN_WAIT_MAX_S + 30


def test_work_that_goes_well_forgets_the_limit() -> None:
    """The next limit is the first again."""
    state = _two()
    _limit(state)
    state.apply(msgspec.structs.replace(start("t", 2), agent="a", provider="p"))
    state.apply(ev.AttemptDone(task="t", attempt=2, token="t-token2", head="h", tree="h"))
    assert state.row.parked == {}


@pytest.mark.parametrize(("until", "clock", "stays"), [(100, 50, True), (100, 200, False), (None, 50, False)])
def test_work_that_goes_well_ends_no_wait_whose_end_is_known(
    until: float | None, clock: float, stays: bool
) -> None:
    """Nothing starts during the wait: this work was begun before it, and says nothing of the limit. A guess it corrects."""
    state = _two()
    state.apply(msgspec.structs.replace(start("u", 1), agent="a", provider="p"))
    _limit(state, None if until is None else WALL + until)
    state.apply(msgspec.structs.replace(done("u", 1), clock=clock))
    assert ("p" in state.row.parked) is stays


def _resumed(state: RunState, wall: float) -> float:
    """Return how long is still waited after a restart at a wall time, the run's clock standing where it was."""
    facts = Facts(branch=BranchFacts(tip="base"), wall=wall)
    for event in reconcile(state, facts):
        state.apply(event)
    assert reconcile(state, facts) == []
    return state.row.parked["p"].not_before - state.row.clock


@pytest.mark.parametrize(
    ("later", "left"),
    [(0.0, 1000.0), (400.0, 600.0), (5000.0, 0.0), (86400.0, 0.0), (-86400.0, 1000.0)],
)
def test_a_restart_waits_for_what_is_left_and_never_longer(later: float, left: float) -> None:
    """Time that went by while nobody ran counts; a clock set back a day stretches nothing."""
    state = _two()
    parked = _limit(state, WALL + 1000)
    jitter = parked.wait_s - 1000
    assert _resumed(state, WALL + later) == pytest.approx(
        min(parked.wait_s, max(0.0, left + jitter) if later < 5000 else 0.0)
    )


def test_the_opt_out_blocks_the_run_with_the_time() -> None:
    """`on_limit: stop`: what can go on goes on, then a person is told."""
    state = _two(Limits(on_limit="stop"))
    _limit(state, WALL + 100)
    state.apply(ev.TaskSkipped(task="v"))
    settle(state, now=1.0)
    assert (state.row.status, state.row.reason) == (RunStatus.BLOCKED, "p is at its limit")


def test_a_fallback_starts_what_its_agent_cannot() -> None:
    """Declared in the plan, it takes over at once, and the agent itself is preferred again afterwards."""
    state = _two()
    state.providers = {"a": AgentProvider("p", fallback="b"), "b": AgentProvider("q")}
    parked = _limit(state, WALL + 100)
    assert _chosen(state, 1.0) == {"t": "b", "u": "b", "v": "b"}
    assert _chosen(state, parked.wait_s) == {"t": "a", "u": "a", "v": "b"}


def _chosen(state: RunState, now: float) -> dict[str, str]:
    starts = [command for command in decide(state, now) if isinstance(command, StartAttempt)]
    return {command.task: command.agent for command in starts}


def test_refused_credentials_shut_the_provider_until_somebody_resumes() -> None:
    """No second attempt is burnt on a key that is wrong; the run blocks with the hint, and resuming tries again."""
    state = _two()
    state.apply(ev.ProviderShut(provider="p", words="log in"))
    state.apply(
        ev.AttemptBlocked(task="t", attempt=1, token="t-token1", failure=FailureKind.AUTH, error="401")
    )
    assert settle(state) == ["v"]
    state.apply(ev.AttemptLost(task="v", attempt=1, cause="stop"))
    state.apply(ev.TaskSkipped(task="v"))
    settle(state)
    assert (state.row.status, state.row.reason) == (RunStatus.BLOCKED, "log in")
    state.apply(msgspec.structs.replace(ATTACHED, epoch=2))
    assert settle(state) == ["t", "u"]


def test_a_missing_permission_is_told_and_not_tried_again_blindly() -> None:
    """The run goes on with the rest and then says what was wanted."""
    state = begin(plan((task("t"),)))
    state.apply(start("t", 1))
    blocked = ev.AttemptBlocked(
        task="t", attempt=1, token="t-token1", failure=FailureKind.PERMISSION, error="wants Bash"
    )
    state.apply(blocked)
    settle(state)
    assert (state.row.status, state.row.reason) == (RunStatus.BLOCKED, "t: wants Bash")
    assert state.tasks["t"].charged == 0


def test_what_is_parked_is_stored_with_the_run() -> None:
    """The row that the journal keeps has the wait in it."""
    row = RunRow(
        run="r",
        goal="g",
        plan_hash="h",
        base="b",
        branch="refs/heads/holdfast/r",
        parked={"p": Parked(until=1.0, hits=2)},
    )
    assert decode_run_row(encode_row(row)) == row


# -- budgets ------------------------------------------------------------------------------------------------


def _spending(limits: Limits, **of_task: int) -> RunState:
    spec = msgspec.structs.replace(task("t"), **of_task)
    of = plan((spec,), limits=limits)
    state = begin(Plan(goal="g", stages=of.stages, limits=limits))
    state.apply(start("t", 1))
    return state


def _observe(state: RunState, tokens: int, attempt: int = 1) -> None:
    state.apply(ev.AgentObserved(task="t", attempt=attempt, tokens=tokens, cost_usd=tokens / 100))


@pytest.mark.parametrize(
    ("limits", "of_task", "whose"),
    [
        (Limits(attempt_tokens=100), {}, "an attempt"),
        (Limits(attempt_cost_usd=1.0), {}, "an attempt"),
        (Limits(), {"tokens": 100}, "the task"),
        (Limits(), {"cost_usd": 1}, "the task"),
        (Limits(tokens=100), {}, "the run"),
        (Limits(cost_usd=1.0), {}, "the run"),
    ],
)
def test_a_budget_is_spent_when_it_is_reached(limits: Limits, of_task: dict[str, int], whose: str) -> None:
    """Of an attempt, a task and the run, in tokens and in money; what is not recorded yet counts."""
    state = _spending(limits, **of_task)
    _observe(state, 60)
    overrun = shared_overrun if whose == "the run" else attempt_overrun
    assert overrun(state, state.tasks["t"], Spent(tokens=99, cost_usd=0.99)) == ""
    assert whose in overrun(state, state.tasks["t"], Spent(tokens=100, cost_usd=1.0))


def test_totals_told_twice_count_once() -> None:
    """A restarted runner reads the stream from its beginning and says the same again."""
    state = _spending(Limits())
    for tokens in (60, 60, 40, 80):
        _observe(state, tokens)
    assert (state.tasks["t"].tokens, state.row.tokens) == (80, 80)
    assert state.row.cost_usd == pytest.approx(0.8)


def test_a_task_over_its_budget_is_abandoned_and_a_retry_gives_it_a_new_one() -> None:
    """All its attempts share one budget; the user may renew it."""
    state = _spending(Limits(), tokens=100)
    _observe(state, 100)
    budget = FailureKind.BUDGET
    state.apply(ev.AttemptFailed(task="t", attempt=1, token="t-token1", failure=budget, error="spent"))
    settle(state)
    assert state.tasks["t"].status is TaskStatus.ABANDONED
    state.apply(msgspec.structs.replace(ATTACHED, epoch=2))
    state.apply(ev.TaskRetried(task="t"))
    assert settle(state) == ["t"]


def test_a_task_that_spent_its_budget_before_it_was_answered_is_not_tried_again() -> None:
    """No agent is started only to be ended at once, with nothing spent and the blame for it."""
    state = _spending(Limits(), tokens=100)
    _observe(state, 100)
    state.apply(ev.QuestionAsked(task="t", attempt=1, question="Which?"))
    state.apply(ev.AttemptAsked(task="t", attempt=1, token="t-token1", carry="c1"))
    state.apply(ev.QuestionAnswered(task="t", answer="This."))
    assert settle(state) == []
    task = state.tasks["t"]
    assert (task.status, task.attempt, task.charged) == (TaskStatus.ABANDONED, 1, 0)


def test_a_run_over_its_budget_starts_nothing_more() -> None:
    """Tokens stop a run as money does."""
    state = _spending(Limits(tokens=100))
    _observe(state, 100)
    state.apply(
        ev.AttemptFailed(task="t", attempt=1, token="t-token1", failure=FailureKind.BUDGET, error="x")
    )
    settle(state)
    assert state.row.status is RunStatus.BLOCKED
    assert state.row.reason.startswith("the budget of 100 tokens is spent (`holdfast resume")


# -- native resume ------------------------------------------------------------------------------------------


def _after_failure(carry: str = "c1") -> RunState:
    state = begin(plan((_by(task("t"), "a"),)))
    state.providers = {"a": AgentProvider("p", resumable=True)}
    state.apply(msgspec.structs.replace(start("t", 1), agent="a", provider="p"))
    state.apply(ev.AgentObserved(task="t", attempt=1, session="S"))
    state.apply(
        ev.AttemptFailed(
            task="t", attempt=1, token="t-token1", failure=FailureKind.AGENT, error="x", carry=carry
        )
    )
    return state


def test_a_fresh_agent_is_the_rule() -> None:
    """Nobody asked for the old session."""
    state = _after_failure()
    assert session_for(state, state.tasks["t"], "a", 0, "c1") == ("", "")


def test_a_session_is_resumed_where_it_was_left() -> None:
    """Same agent, same workspace, same commit: its memory is still true."""
    state = _after_failure()
    state.native_resume = True
    assert session_for(state, state.tasks["t"], "a", 0, "c1") == ("S", "")


@pytest.mark.parametrize(
    ("agent", "workspace", "start_at", "said"),
    [("a", 1, "c1", "in use"), ("a", 0, "c2", "changed"), ("b", 0, "c1", "cannot")],
)
def test_whatever_changed_makes_it_fresh_and_says_why(
    agent: str, workspace: int, start_at: str, said: str
) -> None:
    """A memory that no longer fits would only mislead."""
    state = _after_failure()
    state.native_resume = True
    session, why = session_for(state, state.tasks["t"], agent, workspace, start_at)
    assert session == ""
    assert said in why


def test_a_native_attempt_gets_its_old_workspace() -> None:
    """The workspace that the session knows is taken if it is free."""
    state = _after_failure()
    state.native_resume = True
    (command,) = decide(state, 100.0)
    assert (command.workspace_number, command.session) == (0, "S")  # type: ignore[union-attr]


def test_without_work_left_behind_an_unmoved_branch_is_the_same_workspace() -> None:
    """The agent wrote nothing and nothing landed since: it finds what it knows."""
    state = _after_failure(carry="")
    state.native_resume = True
    (command,) = decide(state, 100.0)
    assert command.session == "S"  # type: ignore[union-attr]
