"""The workflows that come with Holdfast: what each makes of its inputs."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import HoldfastError
from holdfast.formats.cfn import read as read_cfn
from holdfast.workflows import InputDocument, builtin_names, builtin_workflow
from tests.workflows.examples import DOCUMENT, builtin, ids, plan_of

APEX_FLAGS = (
    "auto", "examine", "tests", "security", "docs", "cicd", "pr", "save", "docker", "helm", "kustomize", "mvp",
)  # fmt: skip


def test_the_six_workflows_are_there() -> None:
    """Each of the five systems, and the second one of APEX."""
    assert builtin_names() == ["apex", "apex-init", "auto-claude", "cfn", "execute", "specflow"]
    with pytest.raises(HoldfastError, match="there is no workflow"):
        builtin_workflow("../apex")


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("state", [True, False])
def test_each_workflow_gives_a_plan_with_all_flags_on_and_off(name: str, state: bool) -> None:
    """No combination at the ends leaves a hole in the plan."""
    made = builtin(name)
    document = DOCUMENT if made.input.kind == "document" else None
    flags = tuple(made.flags)
    plan = plan_of(made, on=flags if state else (), off=() if state else flags, document=document)
    assert ids(plan)


def test_apex_has_its_numbered_phases_in_order() -> None:
    """A1: phases 0 to 11, with 8b and 8c between 8 and 9, each after the one before."""
    plan = plan_of(builtin("apex"))
    assert [stage.id for stage in plan.stages] == [
        "00-init", "01-analyze", "02-plan", "03-execute", "04-validate", "05-security", "06-review", "07-tests",
        "08-run-tests", "08b-e2e-chrome", "08c-playwright", "09-docs", "10-cicd", "11-finish",
    ]  # fmt: skip
    assert all(
        later.needs == (earlier.id,) for earlier, later in zip(plan.stages, plan.stages[1:], strict=False)
    )


@pytest.mark.parametrize(
    ("flag", "gone"),
    [
        ("security", ["05-security"]),
        ("examine", ["06-review"]),
        ("tests", ["07-tests", "08-run-tests", "08b-e2e-chrome", "08c-playwright"]),
        ("docs", ["09-docs"]),
        ("cicd", ["10-cicd"]),
    ],
)
def test_apex_phases_are_absent_by_flags(flag: str, gone: list[str]) -> None:
    """A1: a phase whose flag is off is not in the plan at all."""
    apex = builtin("apex")
    assert [name for name in ids(plan_of(apex)) if name not in ids(plan_of(apex, off=(flag,)))] == gone


def test_apex_builds_for_docker_helm_and_kustomize_on_request() -> None:
    """The flags for packaging add tasks to phase 10."""
    plan = plan_of(builtin("apex"), on=("docker", "helm", "kustomize"))
    assert [task.id for task in plan.stages[-2].tasks] == ["10-cicd", "10-docker", "10-helm", "10-kustomize"]


@pytest.mark.parametrize("name", ["apex", "apex-init"])
def test_every_flag_of_apex_is_known_and_changes_the_plan(name: str) -> None:
    """A flag that changed nothing would be a promise without a deed."""
    made = builtin(name)
    for flag in APEX_FLAGS:
        on = ("docker", "cicd")
        assert plan_of(made, on=(*on, flag)) != plan_of(made, on=on, off=(flag,)) or flag in on


def test_apex_caps_the_iterations_of_its_phases() -> None:
    """Validate twice, review three times, tests five times."""
    attempts = {task.id: task.attempts for _, task in plan_of(builtin("apex")).tasks()}
    assert (attempts["04-validate"], attempts["06-review"], attempts["08-run-tests"]) == (2, 3, 5)


def test_apex_phases_that_only_look_may_change_nothing() -> None:
    """An analysis without a change is not a failure."""
    tasks = {task.id: task for _, task in plan_of(builtin("apex")).tasks()}
    assert tasks["01-analyze"].allow_empty
    assert not tasks["03-execute"].allow_empty
    assert all("holdfast report summary" in task.prompt for task in tasks.values())


def test_apex_without_auto_waits_for_a_person_after_its_plan() -> None:
    """The gate of the next phase says how to go on."""
    assert not plan_of(builtin("apex")).stages[3].entry
    assert "--accept 03-execute" in plan_of(builtin("apex"), off=("auto",)).stages[3].entry[0]


def test_auto_claude_works_one_subtask_at_a_time_and_ends_with_qa() -> None:
    """U5: sequential unless the user asks for more; QA needs every phase."""
    plan = plan_of(builtin("auto-claude"), document=DOCUMENT)
    assert plan.limits.jobs == 1
    assert plan.stages[-1].needs == ("wood", "shop")
    assert ids(plan_of(builtin("auto-claude"), off=("qa",), document=DOCUMENT)) == ["saw", "glue", "paint"]


def test_cfn_sprints_share_a_test_slot_and_are_judged() -> None:
    """C6: tests in the shared slot, then validators."""
    plan = plan_of(builtin("cfn"), document=DOCUMENT, test="npm test")
    glue = plan.stages[1].tasks[0]
    assert plan.slots == {"tests": 1}
    assert (glue.slot, glue.verify) == ("tests", ("test -f glue.txt", "npm test"))
    assert [judge.id for judge in glue.validators] == ["reviewer", "tester"]


def _judged(on: tuple[str, ...] = (), **said: object) -> dict[str, tuple[list[str], float]]:
    """Return who judges each sprint of a small epic, and the gate: one sprint says it for itself, one does not."""
    own = {"validators": ["lawyer", {"role": "security", "focus": "Tokens"}], "confidenceThreshold": 0.8}
    epic = {
        "epicId": "e",
        "name": "E",
        "sprints": [{"id": "a", "name": "A", **own}, {"id": "b", "name": "B"}],
    }
    run = read_cfn("epic.json", {"epic.json": json.dumps({**epic, **said}).encode()})
    plan = plan_of(builtin("cfn"), document=InputDocument("e", run.plan), on=on)
    return {task.id: ([judge.id for judge in task.validators], task.gate) for _, task in plan.tasks()}


def test_cfn_sprints_are_judged_by_those_that_the_epic_names() -> None:
    """C6: a sprint's own validators and gate hold; a sprint without has two validators and 0.9."""
    assert _judged() == {"a": (["lawyer", "security"], 0.8), "b": (["reviewer", "tester"], 0.9)}


def test_cfn_sprints_inherit_the_gate_and_validators_of_their_epic() -> None:
    """C6: what the whole epic says is said for each sprint that does not say otherwise."""
    assert _judged(validators=["auditor"], consensus_threshold=0.7)["b"] == (["auditor"], 0.7)


def test_cfn_looks_at_security_on_request_whoever_else_judges() -> None:
    """The user's wish adds a validator; it takes none of the epic's away and clashes with none."""
    judged = _judged(on=("security",))
    assert judged["a"][0] == ["lawyer", "security", "security-check"]
    assert judged["b"][0] == ["reviewer", "tester", "security-check"]


def test_cfn_sprints_start_on_an_interface_unless_told_to_wait() -> None:
    """C4: the interface of a sprint is enough to start on it."""
    early = plan_of(builtin("cfn"), document=DOCUMENT).stages[1].tasks[0]
    late = plan_of(builtin("cfn"), document=DOCUMENT, off=("interfaces",)).stages[1].tasks[0]
    assert (early.needs, early.needs_interface) == ((), ("saw",))
    assert (late.needs, late.needs_interface) == (("saw",), ())


def test_specflow_checks_before_and_after_each_wave() -> None:
    """What the spec and the user ask for stands at the gates of every wave."""
    plan = plan_of(builtin("specflow"), document=DOCUMENT, before="git diff --quiet", after="npm test")
    assert [stage.entry for stage in plan.stages] == [("git diff --quiet",), ("git diff --quiet",)]
    assert [stage.exit for stage in plan.stages] == [("npm test",), ("test -d .", "npm test")]


def test_execute_keeps_layers_needs_files_and_checks() -> None:
    """E1: layers become stages; tasks keep what they deliver and how they are verified."""
    plan = plan_of(builtin("execute"), document=DOCUMENT)
    glue = plan.stages[1].tasks[0]
    assert (glue.needs, glue.files, glue.verify, glue.acceptance) == (
        ("saw",), ("glue.txt",), ("test -f glue.txt",), ("It holds",),
    )  # fmt: skip
    assert plan_of(builtin("execute"), document=DOCUMENT, off=("verify",)).stages[1].tasks[0].verify == ()
