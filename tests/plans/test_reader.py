"""Plan files as people write them: what is read, and what the errors say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from holdfast.core.plan import Limits, Plan, decode_plan, encode_plan, plan_hash
from holdfast.errors import PlanError
from holdfast.plans import parse_plan, read_plan
from holdfast.plans.schema import SCHEMA_FILE, plan_schema, schema_text, write_schema
from holdfast.plans.source import TreeBuilder, decode
from holdfast.plans.yaml_json import build_yaml

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plan.yaml"
KNOWN = ("claude", "codex")
SHORT = "holdfast: 1\ngoal: g\n"
ONE_TASK = "tasks: [{id: a, run: [make]}]\n"


def _read(text: str, name: str = "plan.yaml") -> Plan:
    return parse_plan(text.encode(), name, KNOWN)


def _error(text: str | bytes, name: str = "plan.yaml") -> str:
    with pytest.raises(PlanError) as caught:
        parse_plan(text.encode() if isinstance(text, str) else text, name, KNOWN)
    assert caught.value.hint
    return caught.value.message


def test_the_example_plan_is_read() -> None:
    """What we show is what works."""
    plan = read_plan(EXAMPLE, KNOWN)
    assert [task.id for _, task in plan.tasks()] == ["scaffold", "greeting", "usage"]


def test_a_stage_needs_the_stage_before_unless_it_says_otherwise() -> None:
    """The default order is the order of the file."""
    rows: list[dict[str, Any]] = [{"id": name, "tasks": [{"id": name, "run": ["x"]}]} for name in "stu"]
    rows[2]["needs"] = []
    plan = _read(json.dumps({"holdfast": 1, "goal": "g", "stages": rows}), "p.json")
    assert [stage.needs for stage in plan.stages] == [(), ("s",), ()]


def test_top_level_tasks_are_one_stage_named_main() -> None:
    """A single task needs no ceremony."""
    (stage,) = _read(SHORT + ONE_TASK).stages
    assert (stage.id, stage.tasks[0].run) == ("main", ("make",))


def test_a_command_may_end_without_a_change_and_an_agent_may_not() -> None:
    """The default of `allow_empty` follows the kind of task."""
    tasks = (
        "tasks: [{id: a, run: [x]}, {id: b, prompt: p, agent: claude}, {id: c, run: [x], allow_empty: false}]"
    )
    assert [task.allow_empty for _, task in _read(SHORT + tasks).tasks()] == [True, False, False]


def test_limits_are_read_as_seconds_and_numbers() -> None:
    """Times can be written the way people say them."""
    limits = (
        "limits: {jobs: 2, timeout: 1h30m, stall: 90s, check_timeout: 2d, retry_delay: 0.5, cost_usd: 20}\n"
    )
    assert _read(SHORT + limits + ONE_TASK).limits == Limits(
        jobs=2, timeout_s=5400, stall_s=90, check_timeout_s=172800, retry_delay_s=0.5, cost_usd=20
    )


def test_one_check_may_be_written_without_a_list() -> None:
    """`verify`, `entry` and `exit` take a single line too."""
    stage = "stages: [{id: s, entry: e, exit: x, tasks: [{id: a, run: [x], verify: v}]}]"
    plan = _read(SHORT + "verify: all\n" + stage)
    assert (plan.verify, plan.stages[0].entry, plan.stages[0].exit) == (("all",), ("e",), ("x",))


def test_yaml_and_json_of_one_plan_have_one_hash() -> None:
    """The syntax is no part of the plan."""
    text = EXAMPLE.read_text()
    assert plan_hash(_read(text)) == plan_hash(_read(json.dumps(yaml.safe_load(text)), "plan.json"))


def test_a_plan_that_writes_a_default_out_keeps_its_hash_in_a_journal() -> None:
    """Else a resume would take it for another plan than the one that the user agreed to."""
    plan = _read(SHORT + "limits: {on_limit: wait}\ntasks: [{id: a, run: [x]}]")
    assert plan_hash(decode_plan(encode_plan(plan))) == plan_hash(plan)


def test_anchors_and_merge_keys_are_filled_in() -> None:
    """What tasks share can be written once."""
    text = SHORT + "tasks:\n- &t {id: a, run: [x], verify: v}\n- {<<: *t, id: b, needs: [a]}\n"
    assert [task.verify for _, task in _read(text).tasks()] == [("v",), ("v",)]


def test_the_slow_yaml_parser_reads_the_same_values() -> None:
    """Where the YAML library lacks its C half, plans are read all the same."""
    source = decode(EXAMPLE.read_bytes(), "plan.yaml")
    slow, fast = TreeBuilder(source), TreeBuilder(source)
    build_yaml(source, slow, yaml.SafeLoader)
    build_yaml(source, fast)
    assert slow.root == fast.root


def test_an_error_names_file_line_field_and_fix() -> None:
    """The four things one needs to mend a plan."""
    text = SHORT + "tasks:\n  - id: a\n    run: [x]\n  - id: b\n    run: [x]\n    needs: [aa]\n"
    assert _error(text) == 'plan.yaml:8: tasks[1].needs[0]: there is no task "aa"; did you mean "a"?'


def test_lines_are_named_in_json_too() -> None:
    """JSON authors get the same errors."""
    text = '{"holdfast": 1,\n "goal": "g",\n "tasks": [\n  {"id": 7,\n   "run": ["x"]}]}'
    assert _error(text, "p.json").startswith("p.json:4: tasks[0].id: must be a text")


def test_all_problems_are_told_together_in_the_order_of_lines() -> None:
    """Nobody mends a plan one error at a time."""
    message = _error("holdfast: 1\ngaol: g\nagent: claud\nlimits: {jobs: 0}\n" + ONE_TASK)
    fields = [line.split(": ")[1] for line in message.splitlines()]
    assert fields == ["goal", "gaol", "agent", "limits.jobs"]


def test_a_flood_of_problems_is_cut_at_twenty() -> None:
    """The first screen is what gets read."""
    message = _error(SHORT + "tasks:\n" + "- {id: a, run: x}\n" * 500)
    assert len(message.splitlines()) == 21


def test_an_unknown_key_offers_the_nearest_known_one() -> None:
    """No key is ignored in silence."""
    message = _error(SHORT + "tasks: [{id: a, run: [x], neds: []}]")
    assert message.endswith('tasks[0].neds: unknown key "neds"; did you mean "needs"?')


def test_a_check_is_called_verify() -> None:
    """Another word for a key is refused, and the key is offered."""
    message = _error(SHORT + "tasks: [{id: a, run: [x], check: make}]")
    assert message.endswith('unknown key "check"; did you mean "verify"?')


def test_an_unknown_key_without_a_near_one_gets_all_that_are_known() -> None:
    """Whoever looks for a key finds it there: the list has no end that is cut off."""
    message = _error(SHORT + "tasks: [{id: a, run: [x], zzzzzz: 1}]")
    assert message.endswith(", verify")
    assert "…" not in message


def test_an_unknown_way_to_resume_offers_the_nearest_known_one() -> None:
    """On a task and on an agent alike."""
    task = _error(SHORT + "tasks: [{id: a, run: [x], resume: clear}]")
    agent = _error(SHORT + "agents: {b: {command: [x], resume: contnue}}\ntasks: [{id: a, run: [x]}]")
    assert 'did you mean "clean"?' in task
    assert 'did you mean "continue"?' in agent


@pytest.mark.parametrize("name", ["plan.yaml", "plan.json"])
def test_a_key_given_twice_is_an_error_with_both_lines(name: str) -> None:
    """Neither of two values is dropped in silence."""
    text = '{"holdfast": 1,\n"goal": "g",\n"goal": "h",\n"tasks": [{"id": "a", "run": ["x"]}]}'
    assert _error(text, name) == f"{name}:3: goal: this key was already given on line 2; keep one of them"


def test_duplicate_ids_name_the_first_one() -> None:
    """Both places are known without a search."""
    message = _error(SHORT + "tasks:\n- {id: a, run: [x]}\n- {id: A, run: [x]}\n")
    assert message.startswith('plan.yaml:5: tasks[1].id: the task id "A" differs from "a" only by case')
    assert message.endswith("(first on line 4)")


@pytest.mark.parametrize("word", ["on", "no", "1", "1e3", "007", "0x1F"])
def test_an_id_that_yaml_takes_for_something_else_asks_for_quotes(word: str) -> None:
    """The Norway problem ends with the spelling that works."""
    assert f'quote it: "{word}"' in _error(SHORT + f"tasks: [{{id: {word}, run: [x]}}]")


def test_a_command_written_as_one_line_is_answered_with_the_list() -> None:
    """Nothing reaches a shell by accident."""
    message = _error(SHORT + "tasks: [{id: a, run: make generate}]")
    assert message.endswith('write run: ["sh", "-c", "make generate"]')


def test_an_unquoted_placeholder_asks_for_quotes() -> None:
    """YAML reads {brief} as a mapping; people do not."""
    message = _error(SHORT + "agents: {b: {command: [x, {brief}]}}\n" + ONE_TASK)
    assert 'agents.b.command[1]: must be a text, not a mapping; quote the braces: "{brief}"' in message


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("{id: a}", "neither `prompt:` nor `run:`"),
        ("{id: a, run: [x], prompt: p}", "both `prompt:` and `run:`"),
        ("{id: a, run: []}", "is an empty list"),
        ("{id: a, run: [x], needs: b}", 'must be a list: ["b"]'),
        ("{id: a, run: [x], timeout: 5x}", '"5x" is not a time'),
        ("{id: a, run: [x], timeout: 0}", "must be above 0"),
        ("{id: a, run: [x], timeout: .nan}", "must be above 0"),
        ("{id: a, run: [x], allow_empty: 1}", "must be true or false"),
        ("{id: a, prompt: [p]}", "must be a text, not a list"),
        ("{id: a, prompt: }", "has no value"),
        ('{id: a, prompt: " "}', "is empty"),
        ('{id: a, run: ["x\\0y"]}', "NUL"),
        ("just a text", "must be a mapping"),
    ],
)
def test_a_malformed_task_is_told_what_is_wrong(task: str, said: str) -> None:
    """Each mistake has its own words."""
    assert said in _error(SHORT + f"agent: claude\ntasks: [{task}]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b"# only a comment\n", "not nothing"),
        (b"- a\n", "not a list"),
        (b"holdfast", "not a text"),
        (b"\x00\x01\x02", "this is not text"),
        (b"a: 1\nb: \xff\xfe", "plan.yaml:2: byte 8 is not UTF-8"),
        (b"goal: a: b", "put a text that contains `: ` in quotes"),
        (b"a: 1\n\tb: 2", "indent with spaces"),
        (b"a: !!python/object:os.system x", 'the YAML tag "!!python/object:os.system" is not allowed'),
        (b"a: !mine {}", "is not allowed in a plan"),
        (b"a: *b", "has no finished anchor"),
        (b"a: &a [*a]", "has no finished anchor"),
        (b"? [a]\n: b", "a key must be plain text"),
        (b"a: &a b\n*a : c", "a key must be plain text"),
        (b"a: 1\n---\nb: 1\n", "a second document starts here"),
        (b"[" * 100_000, "nested deeper than 64 levels"),
        (b"x" * (16 * 1024 * 1024 + 1), "larger than 16 MiB"),
    ],
)
def test_a_file_that_is_no_plan_is_told_why(text: bytes, said: str) -> None:
    """Whatever is fed in, the answer is a sentence."""
    assert said in _error(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1,\n}', "p.json:2: this is not valid JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"holdfast": 1, "goal": "\\ud800", "tasks": []}', "surrogate"),
        ('{"holdfast": ' + "9" * 5000 + "}", "is not a plan format"),
    ],
)
def test_json_that_is_no_plan_is_told_why(text: str, said: str) -> None:
    """JSON has traps of its own."""
    assert said in _error(text, "p.json")


def test_a_plan_without_a_format_says_what_to_add() -> None:
    """The first key says which format this is."""
    assert "holdfast: this key is missing; add `holdfast:`" in _error("goal: g\n" + ONE_TASK)


def test_a_newer_format_is_refused_and_nothing_else_is_said() -> None:
    """What a newer format may contain is not ours to judge."""
    message = _error("holdfast: 2\nnew: key\n")
    assert (
        message
        == "plan.yaml:1: holdfast: this plan has format 2, and this Holdfast reads 1; upgrade Holdfast"
    )


def test_stages_and_tasks_at_the_top_exclude_each_other() -> None:
    """Two ways to say it, one at a time."""
    assert "both `stages:` and `tasks:`" in _error(
        SHORT + ONE_TASK + "stages: [{id: s, tasks: [{id: b, run: [x]}]}]"
    )


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    """A few hundred bytes cannot take the machine."""
    levels = [f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 10)}]" for name in "bcdefghij"]
    assert "too large once its aliases are filled in" in _error("\n".join(["a: &a [x, x]", *levels]))


def test_control_characters_of_a_plan_never_reach_the_terminal() -> None:
    """An error message shows a plan's bytes escaped."""
    assert "\x1b" not in _error('{"\\u001b[2J": 1, "holdfast": "\\u001b[2J"}', "p.json")


def test_a_missing_file_points_to_init(tmp_path: Path) -> None:
    """The first run of a newcomer ends with the next command."""
    with pytest.raises(PlanError, match="there is no plan file") as caught:
        read_plan(tmp_path / "plan.yaml", KNOWN)
    assert "holdfast init" in caught.value.hint


def test_a_folder_is_not_a_plan(tmp_path: Path) -> None:
    """What cannot be read is an error of the plan, not of the program."""
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        read_plan(tmp_path, KNOWN)


def test_the_yaml_library_is_not_loaded_before_a_plan_is_read() -> None:
    """Commands that read no plan do not pay for YAML."""
    code = "import sys, holdfast.plans; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_published_schema_is_current(tmp_path: Path) -> None:
    """The file that editors use comes from the reader's own table (python -m holdfast.plans.schema)."""
    assert (ROOT / SCHEMA_FILE).read_text() == schema_text()
    assert write_schema(tmp_path).read_text() == schema_text()


def test_the_schema_is_a_valid_schema_that_accepts_the_example() -> None:
    """What the reader accepts, an editor does not underline."""
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(EXAMPLE.read_text()), schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [{"gaol": 1}, {"holdfast": 2}, {"limits": {"timeout": "5x"}}, {"tasks": [{"id": "a b", "run": ["x"]}]}],
)
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, Any]) -> None:
    """An editor underlines what would be an error."""
    value = {"holdfast": 1, "goal": "g", "tasks": [{"id": "a", "run": ["x"]}], **change}
    assert not jsonschema.Draft202012Validator(plan_schema()).is_valid(value)
    assert _error(json.dumps(value), "p.json")


def test_every_key_is_described_in_the_schema() -> None:
    """An editor has help to show for each of them."""
    schema = plan_schema()
    objects = [schema, schema["properties"]["limits"], *schema["$defs"].values()]
    assert all(key["description"] for part in objects for key in part["properties"].values())


ODD = "a1.-/{}é→ \n\0\x1b\ud800"
_KEYS = st.sampled_from(
    [
        "holdfast",
        "goal",
        "agent",
        "agents",
        "limits",
        "stages",
        "tasks",
        "id",
        "run",
        "prompt",
        "needs",
        "files",
        "x",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(ODD, max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


def _plan_or_plan_error(data: bytes, name: str) -> None:
    """Accept a plan, or a plan error; anything else fails the test."""
    with contextlib.suppress(PlanError):
        assert isinstance(parse_plan(data, name, KNOWN), Plan)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["p.yaml", "p.json"]))
def test_any_bytes_give_a_plan_or_a_plan_error(data: bytes, name: str) -> None:
    """Reading never crashes."""
    _plan_or_plan_error(data, name)


@settings(deadline=None)
@given(st.text(alphabet='{}[]:,-&*!|>"#% \n\tab1<?', max_size=60))
def test_any_yaml_punctuation_gives_a_plan_or_a_plan_error(text: str) -> None:
    """Neither does reading what looks like YAML."""
    _plan_or_plan_error(text.encode(), "p.yaml")


@settings(deadline=None)
@given(st.dictionaries(_KEYS, VALUES, max_size=6), st.sampled_from(["p.yaml", "p.json"]))
def test_any_tree_of_values_gives_a_plan_or_a_plan_error(value: dict[str, Any], name: str) -> None:
    """Nor does reading known keys with the strangest values."""
    _plan_or_plan_error(json.dumps({"holdfast": 1, "goal": "g", **value}).encode(), name)


def test_an_unclosed_quote_is_reported_where_it_was_opened(tmp_path: Path) -> None:
    """Not at the end of the file, where the parser notices it."""
    path = tmp_path / "plan.yaml"
    path.write_text('holdfast: 1\ngoal: "Add a door\ntasks:\n  - {id: a, prompt: x}\n')
    with pytest.raises(PlanError, match=r"plan.yaml:2: .*this quote is never closed"):
        read_plan(path, ())


def test_a_quote_that_a_later_one_closes_is_reported_where_it_was_opened(tmp_path: Path) -> None:
    """The parser stumbles over the next text in quotes, which is right."""
    path = tmp_path / "plan.yaml"
    path.write_text('holdfast: 1\ngoal: "Add a door\ntasks:\n  - {id: a, prompt: "Add a door."}\n')
    with pytest.raises(PlanError, match=r"plan.yaml:2: .*this quote is closed only on line 4"):
        read_plan(path, ())
