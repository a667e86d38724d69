"""The key `workspace:` of a plan: what is read, and what is refused with the way to repair it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.plan import Plan, PlanWorkspace, encode_plan
from holdfast.errors import PlanError
from holdfast.plans import parse_plan
from holdfast.plans.writer import plan_text

WHOLE = {
    "setup": ["npm ci"],
    "setup_when": ["**/package.json"],
    "copy": [".env"],
    "link": ["data/models"],
    "keep": ["node_modules"],
    "env": {"NODE_ENV": "test"},
    "ports": 2,
}


def plan_of(**workspace: Any) -> Plan:
    """Read a plan with this key."""
    document = {
        "holdfast": 1,
        "goal": "g",
        "workspace": workspace,
        "tasks": [{"id": "a", "run": ["true"]}],
    }
    return parse_plan(msgspec.json.encode(document), "plan.json", [])


def test_every_part_is_read_and_written_back() -> None:
    """A written plan is the same plan."""
    plan = plan_of(**WHOLE)
    assert plan.workspace.setup == ("npm ci",)
    assert plan.workspace.brought == (".env", "data/models", "node_modules")
    assert parse_plan(plan_text(plan).encode(), "plan.yaml", []) == plan


def test_one_command_needs_no_list() -> None:
    """As for checks."""
    assert plan_of(setup="make deps", keep="build").workspace == PlanWorkspace(
        setup=("make deps",), keep=("build",)
    )


def test_a_plan_without_it_is_stored_as_before() -> None:
    """Agreements to plans and hashes of runs from before stay valid."""
    assert b"workspace" not in encode_plan(plan_of())


@pytest.mark.parametrize(
    ("workspace", "said"),
    [
        ({"copy": ["/etc/passwd"]}, "is an absolute path; write a plain path relative to the repository"),
        ({"copy": ["../other/.env"]}, "leaves the workspace through `..`"),
        ({"keep": ["*/node_modules"]}, "is a pattern; write a plain path"),
        ({"keep": ["node_modules/"]}, "has a part that says nothing, such as `./` or a `/` at its end"),
        ({"link": [".git/hooks"]}, "is a folder of git or of Holdfast"),
        ({"copy": ["a/b"], "keep": ["a"]}, '"a" and "a/b" lie in each other; name one of them'),
        ({"setup_when": ["/x"]}, "is an absolute path; write a path relative to the repository"),
        ({"env": {"HOLDFAST_X": "1"}}, "HOLDFAST_X is set by Holdfast; choose another name"),
        ({"env": {"API_KEY": "sk-ant-0123456789abcdef0123"}}, "export API_KEY and write `pass_env: [API_KEY]`"),
        ({"ports": 21}, "a whole number from 1 to 20"),
        ({"set_up": ["x"]}, 'unknown key "set_up"; did you mean "setup"?'),
    ],
)  # fmt: skip
def test_a_wrong_part_is_named_with_its_place_and_fix(workspace: dict[str, Any], said: str) -> None:
    """The user finds it without a manual."""
    with pytest.raises(PlanError) as refused:
        plan_of(**workspace)
    assert (
        f"workspace.{next(iter(workspace))}" in refused.value.message
        or "workspace.keep" in refused.value.message
    )
    assert said in refused.value.message
