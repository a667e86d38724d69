"""Short workflows, documents and expansions for the tests of workflows."""

from __future__ import annotations

from holdfast.core.plan import Plan, Stage, Task
from holdfast.workflows import (
    InputDocument,
    Workflow,
    WorkflowInputs,
    builtin_workflow,
    expand,
    parse_workflow,
)

READERS = ("execute", "cfn", "auto-claude", "specflow")
HEAD = "workflow: 1\nname: mine\nabout: A test\n"
DESCRIBED = HEAD + "input: {kind: description}\n"
DOCUMENTED = HEAD + "input: {kind: document, readers: execute}\n"

DOCUMENT = InputDocument(
    "shelf",
    Plan(
        goal="Build a shelf",
        stages=(
            Stage(id="wood", title="Wood", tasks=(Task(id="saw", title="Saw it", prompt="Saw the wood"),)),
            Stage(
                id="shop",
                needs=("wood",),
                exit=("test -d .",),
                tasks=(
                    Task(
                        id="glue",
                        prompt="Glue {both} sides",
                        needs=("saw",),
                        files=("glue.txt",),
                        verify=("test -f glue.txt",),
                        acceptance=("It holds",),
                    ),
                    Task(id="paint", prompt="Paint it", needs=("glue",)),
                ),
            ),
        ),
    ),
)


def workflow(text: str) -> Workflow:
    """Read a workflow file."""
    return parse_workflow(text.encode(), "mine.yaml", READERS)


def builtin(name: str) -> Workflow:
    """Read a workflow that comes with the package."""
    return parse_workflow(builtin_workflow(name), name, READERS)


def plan_of(
    of: Workflow,
    *,
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
    given: str = "Add a door",
    document: InputDocument | None = None,
    **values: str,
) -> Plan:
    """Expand a workflow as the user's words say."""
    inputs = WorkflowInputs(given, document, of.flags_chosen(on, off), of.values_given(values))
    return expand(of, inputs, ("claude",), "claude")


def ids(plan: Plan) -> list[str]:
    """Return the ids of all tasks."""
    return [task.id for _, task in plan.tasks()]
