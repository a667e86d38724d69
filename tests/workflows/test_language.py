"""The language of workflow files: conditions, placeholders, documents, and what errors say."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.errors import HoldfastError, PlanError
from holdfast.workflows import InputDocument, WorkflowInputs, expand, parse_workflow
from tests.workflows.examples import DESCRIBED, DOCUMENT, DOCUMENTED, READERS, ids, plan_of, workflow

ONE = "goal: '{description}'\nstages: [{id: s, tasks: [{id: t, prompt: Do it}]}]\n"
FLAGS = "flags: {a: {default: true}, b: {default: false}, c: {default: true}}\n"


@pytest.mark.parametrize(
    ("when", "is_there"),
    [
        ("a", True),
        ("not a", False),
        ("b", False),
        ("not b", True),
        ("a and b", False),
        ("a and not b", True),
        ("b or a", True),
        ("b or a and not c", False),
    ],
)
def test_a_part_is_there_when_its_condition_holds(when: str, is_there: bool) -> None:
    """`not` binds closest, then `and`, then `or`."""
    text = f"{DESCRIBED}{FLAGS}goal: g\nstages:\n- {{id: s, tasks: [{{id: t, prompt: x}}, {{id: u, prompt: y, when: {when}}}]}}\n"
    assert ("u" in ids(plan_of(workflow(text)))) is is_there


def test_flags_are_turned_on_and_off() -> None:
    """What the user says goes before the default."""
    text = f"{DESCRIBED}{FLAGS}goal: g\nstages:\n- {{id: s, tasks: [{{id: t, prompt: x, when: a}}, {{id: u, prompt: y, when: b}}]}}\n"
    assert ids(plan_of(workflow(text), on=("b",), off=("a",))) == ["u"]


def test_a_stage_without_tasks_is_left_out_with_the_needs_of_it() -> None:
    """Nobody waits for what does not happen."""
    stages = """stages:
- {id: one, tasks: [{id: t1, prompt: x}]}
- {id: two, tasks: [{id: t2, prompt: x, when: b}]}
- {id: three, needs: [one, two], tasks: [{id: t3, prompt: x, needs: [t1, t2]}]}
"""
    plan = plan_of(workflow(DESCRIBED + FLAGS + "goal: g\n" + stages))
    assert [stage.needs for stage in plan.stages] == [(), ("one",)]
    assert plan.stages[1].tasks[0].needs == ("t1",)


def test_a_part_may_be_written_twice_for_two_conditions() -> None:
    """The one that is left out does not take the needs of the other along."""
    stages = """stages:
- id: one
  tasks:
  - {id: t, prompt: x, when: a}
  - {id: t, prompt: y, when: not a}
  - {id: u, prompt: z, needs: [t]}
"""
    plan = plan_of(workflow(DESCRIBED + FLAGS + "goal: g\n" + stages))
    assert plan.stages[0].tasks[1].needs == ("t",)


def test_placeholders_are_filled_in_once_and_other_braces_stay() -> None:
    """A description with braces stays what its author wrote, and so do JSON and shell in a prompt."""
    text = (
        DESCRIBED
        + "goal: g\nstages: [{id: s, tasks: [{id: t, prompt: 'Do {description} with {\"a\": 1}, ${x}, {{name}}'}]}]\n"
    )
    plan = plan_of(workflow(text), given="{description} {more}")
    assert plan.stages[0].tasks[0].prompt == 'Do {description} {more} with {"a": 1}, ${x}, {name}'


def test_entries_with_nothing_to_say_are_left_out() -> None:
    """A check that the user did not give, and a paragraph about nothing, leave no trace."""
    text = f"""{DESCRIBED}values: {{check: {{default: ''}}, who: {{default: Ann}}}}
goal: g
verify: ['{{check}}', 'true']
stages: [{{id: s, tasks: [{{id: t, title: '{{check}}', prompt: ['Checked by: {{check}}', 'Ask {{who}}.']}}]}}]
"""
    plan = plan_of(workflow(text))
    assert plan.verify == ("true",)
    assert plan.stages[0].tasks[0].prompt == "Ask Ann."
    assert plan_of(workflow(text), check="make").verify == ("make", "true")


def test_a_document_is_gone_through_stage_by_stage() -> None:
    """Its stages, tasks, needs, files, checks and criteria arrive where the workflow puts them."""
    text = (
        DOCUMENTED
        + """goal: '{goal} ({name})'
stages:
- each: stages
  id: '{stage.id}'
  needs: '{stage.needs}'
  tasks:
  - {each: tasks, id: '{task.id}', needs: '{task.needs}', files: ['{task.files}', always.md], prompt: '{stage.number}.{task.number} {task.prompt}', acceptance: '{task.acceptance}', verify: '{task.verify}'}
- {id: after, needs: '{stages}', tasks: [{id: last, prompt: Sweep}]}
"""
    )
    plan = plan_of(workflow(text), document=DOCUMENT)
    glue = plan.stages[1].tasks[0]
    assert (plan.goal, ids(plan)) == ("Build a shelf (shelf)", ["saw", "glue", "paint", "last"])
    assert (glue.needs, glue.files, glue.verify) == (
        ("saw",),
        ("glue.txt", "always.md"),
        ("test -f glue.txt",),
    )
    assert glue.prompt == "2.1 Glue {both} sides"
    assert plan.stages[2].needs == ("wood", "shop")


def test_all_tasks_of_a_document_may_go_into_one_stage() -> None:
    """`each: tasks` outside of a stage of the document goes through all of it."""
    text = (
        DOCUMENTED
        + "goal: g\nstages: [{id: all, tasks: [{each: tasks, id: '{task.id}', prompt: '{stage.title}: {task.prompt}'}]}]\n"
    )
    plan = plan_of(workflow(text), document=DOCUMENT)
    assert ids(plan) == ["saw", "glue", "paint"]
    assert plan.stages[0].tasks[0].prompt == "Wood: Saw the wood"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("- 1\n", "a workflow is a mapping"),
        (DESCRIBED + ONE + "gaol: x\n", "mine.yaml:7: gaol: unknown key"),
        ("workflow: 2\n" + DESCRIBED[12:] + ONE, "upgrade Holdfast"),
        (DESCRIBED + "goal: g\nstages: [{id: s, when: tsts, tasks: [{id: t, prompt: x}]}]\n", "no flag"),
        (DESCRIBED + FLAGS + "goal: g\nstages: [{id: s, when: a &, tasks: [{id: t, prompt: x}]}]\n", "not a condition"),
        (DESCRIBED + "goal: '{descripton}'\nstages: [{id: s, tasks: [{id: t, prompt: x}]}]\n", 'did you mean "description"'),
        (DESCRIBED + "goal: g\nstages: [{id: s, tasks: [{id: t, prompt: '{task.id}'}]}]\n", "{task.id} is not a placeholder here"),
        (DESCRIBED + "goal: g\nstages: [{id: s, each: stages, tasks: [{id: t, prompt: x}]}]\n", "no document"),
        (DESCRIBED + "goal: g\nstages: [{id: s, tasks: [{id: t, promt: x}]}]\n", "did you mean"),
        (DESCRIBED + "goal: g\nstages: [{id: s, tasks: [{id: t}]}]\n", "neither `prompt:` nor `run:`"),
        (DOCUMENTED.replace("execute", "exceute") + ONE, "no reader"),
        (DESCRIBED + "goal: g\ngoal: h\n" + ONE[24:], "already given"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_line_field_and_fix(text: str, said: str) -> None:
    """As with plans: file, line, field, fix."""
    with pytest.raises(PlanError, match=r"mine\.yaml:") as error:
        workflow(text)
    assert said in error.value.message
    assert "holdfast plan workflows mine.yaml" in error.value.hint


def test_a_fault_of_the_plan_is_told_at_the_line_of_the_workflow() -> None:
    """What only shows after the expansion leads back to the file, and names the item it was made for."""
    text = (
        DOCUMENTED
        + "goal: g\nstages:\n- id: all\n  tasks:\n  - each: tasks\n    id: '{task.id}'\n    prompt: x\n    needs: [nobody]\n"
    )
    with pytest.raises(PlanError) as error:
        plan_of(workflow(text), document=DOCUMENT)
    assert 'mine.yaml:12: stages[0].tasks[0].needs[0]: there is no task "nobody"' in error.value.message
    assert "(made for saw)" in error.value.message


def test_an_unknown_flag_or_value_is_refused_with_the_nearest_one() -> None:
    """A slip in `--with` or `--set` changes nothing in silence."""
    made = workflow(DESCRIBED + FLAGS + "values: {check: {default: ''}}\n" + ONE)
    with pytest.raises(HoldfastError, match='no flag "aa"'):
        made.flags_chosen(("aa",), ())
    with pytest.raises(HoldfastError, match='no value "chek"; did you mean "check"'):
        made.values_given({"chek": "x"})


def test_a_workflow_of_which_nothing_is_left_says_so() -> None:
    """An empty plan is no plan."""
    text = DESCRIBED + FLAGS + "goal: g\nstages: [{id: s, tasks: [{id: t, prompt: x, when: b}]}]\n"
    with pytest.raises(PlanError, match="nothing is left to do"):
        plan_of(workflow(text))


@settings(deadline=None)
@given(st.text(max_size=200) | st.from_regex(r"(stages|flags|goal|when|each|\{|\}|:|\n|- | |a|1)+"))
def test_any_text_is_a_workflow_or_an_error_of_ours(text: str) -> None:
    """No file makes the reader fall over."""
    for head in ("", DESCRIBED, DOCUMENTED + "goal: g\n"):
        with suppress(HoldfastError):
            parse_workflow((head + text).encode(errors="replace"), "mine.yaml", READERS)


@given(st.text(min_size=1), st.text(), st.text())
def test_any_words_expand_or_give_an_error_of_ours(goal: str, title: str, prompt: str) -> None:
    """What documents and users say cannot break an expansion."""
    task = DOCUMENT.plan.stages[0].tasks[0]
    made = workflow(
        DOCUMENTED
        + "values: {v: {default: x}}\ngoal: '{goal}{v}'\nstages: [{each: stages, id: '{stage.id}', tasks: [{each: tasks, id: '{task.id}', title: '{task.title}', prompt: ['{task.prompt}', '{v}']}]}]\n"
    )
    stage = type(DOCUMENT.plan.stages[0])(id="s", tasks=(type(task)(id="t", title=title, prompt=prompt),))
    document = InputDocument(title, type(DOCUMENT.plan)(goal=goal, stages=(stage,)))
    with suppress(HoldfastError):
        expand(made, WorkflowInputs(goal, document, {}, {"v": title}), ("claude",), "claude")
