"""Plans as text: what is written is read back as the same plan, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core.plan import AgentSpec, Limits, Notify, Plan, Stage, Task, Validator
from holdfast.plans import parse_plan
from holdfast.plans.writer import plan_text

FULL = Plan(
    goal="Everything: at once",
    base="main",
    agent="own",
    agents={"own": AgentSpec(command=("run", "{brief}"), prompt="arg", env={"A": "yes"}, resume="clean")},
    limits=Limits(
        jobs=2, attempts=3, timeout_s=90.5, stall_s=60, retry_delay_s=0, cost_usd=2.5, keep_going=True
    ),
    slots={"tests": 1},
    notify=Notify(command=("say", "1e5")),
    syntax=False,
    verify=("test -f x", "no"),
    stages=(
        Stage(id="one", title="1.5", tasks=(Task(id="a", prompt="Do\nit\n  well", attempts=2, timeout_s=5),)),
        Stage(id="two", tasks=(Task(id="b", run=("sh", "-c", ""), allow_empty=True),)),
        Stage(
            id="three",
            needs=("one", "two"),
            entry=("true",),
            exit=("false",),
            tasks=(
                Task(id="c", run=("true",), resume="continue"),
                Task(
                    id="d",
                    prompt="#1 first",
                    agent="own",
                    needs=("c",),
                    needs_interface=("a",),
                    files=("a b.md",),
                    verify=("x: y",),
                    slot="tests",
                    validators=(Validator(id="v", prompt="Judge"), Validator(id="w", run=("true",))),
                    gate=0.5,
                    acceptance=("- it works", "null"),
                    allow_empty=True,
                ),
            ),
        ),
    ),
)


def test_a_plan_with_everything_comes_back_as_it_was() -> None:
    """Every key is written so that the reader gets the same from it."""
    assert parse_plan(plan_text(FULL).encode(), "plan.yaml", ()) == FULL


def test_every_time_of_a_plan_is_written_as_the_reader_takes_it() -> None:
    """A limit that is spelled in seconds inside has a key without them in the file: all of them come back."""
    times: dict[str, Any] = {name: 7.5 for name in Limits.__struct_fields__ if name.endswith("_s")}
    plan = Plan(goal="Times", limits=Limits(**times), stages=FULL.stages[:1])
    assert parse_plan(plan_text(plan).encode(), "plan.yaml", ("own",), "own").limits == plan.limits


def test_defaults_are_not_written() -> None:
    """A plan file says what its author would have said, and no more."""
    plan = Plan(goal="Small", stages=(Stage(id="s", tasks=(Task(id="t", run=("true",), allow_empty=True),)),))
    text = plan_text(plan)
    assert text == 'holdfast: 1\ngoal: Small\nstages:\n- id: s\n  tasks:\n  - id: t\n    run: ["true"]\n'


@pytest.mark.parametrize(
    "word", ["yes", "null", "1e5", "0x1F", "12:30", "~", "- x", "a: b", "#x", "{x}", "'", "é", "a\n\n b \n"]
)
def test_words_that_yaml_takes_for_something_else_stay_words(word: str) -> None:
    """A prompt that says `no` is not false."""
    _check(word)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), min_size=1).filter(
        lambda text: text.strip()
    )
)
def test_any_text_survives(text: str) -> None:
    """Whatever a list says is in the plan, sign by sign."""
    _check(text)


def _check(text: str) -> None:
    plan = Plan(goal=text, agent="claude", stages=(Stage(id="s", tasks=(Task(id="t", prompt=text),)),))
    assert parse_plan(plan_text(plan).encode(), "plan.yaml", ("claude",)) == plan
