"""Task lists that people have already: what becomes of each in a plan."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.plan import ListKind, Plan, Task
from holdfast.errors import HoldfastError
from holdfast.formats.lists import ImportedPlan, ImportOptions, kind_of, read_list
from holdfast.plans import parse_plan
from holdfast.plans.writer import plan_text

SPEC_KIT = """# Tasks: Photo albums

## Phase 1: Setup

**Purpose**: Project basics

- [x] T001 Create the layout
- [ ] T002 Initialise the project
- [ ] T003 [P] Configure linting

## Phase 2: Foundational

- [ ] T004 [P] Auth
- [ ] T005 [P] Routing
- [ ] T006 Base models in src/models.py
  with the fields of data-model.md

## Phase 3: User Story 1 - Albums (Priority: P1)

**Goal**: See albums

- [ ] T010 [P] [US1] Contract test
- [ ] T011 [US1] Service (depends on T010, T006)

## Phase 4: User Story 2 - Photos (Priority: P2)

- [ ] T020 [US2] Page

## Phase N: Polish

- [ ] TXXX [P] Docs
- [ ] TXXX Cleanup

## Dependencies & Execution Order

- **User Story 2 (P2)**: Can start after Foundational (Phase 2) - May integrate with US1 but is testable alone
"""

TASK_MASTER = {
    "master": {
        "tasks": [
            {"id": 1, "title": "Init", "status": "done", "dependencies": []},
            {
                "id": 2,
                "title": "Core",
                "description": "The main thing",
                "status": "in-progress",
                "dependencies": [1],
                "testStrategy": "Unit tests",
                "subtasks": [
                    {"id": 1, "title": "Auth", "status": "done", "dependencies": []},
                    {"id": 2, "title": "Store", "status": "pending", "dependencies": [1]},
                    {
                        "id": 3,
                        "title": "Glue",
                        "status": "pending",
                        "dependencies": ["2.2"],
                        "details": "Both",
                    },
                ],
            },
            {"id": "3", "title": "Page", "status": "pending", "dependencies": [2], "testStrategy": "By eye"},
            {"id": 4, "title": "Later", "status": "deferred", "dependencies": []},
        ]
    },
    "next": {"tasks": [{"id": 1, "title": "Else", "status": "pending"}]},
}

BACKLOG = {
    "backlog/tasks/task-1 - A.md": b"---\nid: TASK-1\ntitle: 'Parse: files'\nstatus: Done\ndependencies: []\n---\n\n## Description\n\nx\n",
    "backlog/tasks/task-2 - B.md": b"""---
id: TASK-2
title: >-
  Show the
  board
status: To Do
dependencies:
  - task-1
  - task-10
---

## Description

<!-- SECTION:DESCRIPTION:BEGIN -->
Show it as columns.
<!-- SECTION:DESCRIPTION:END -->

## Acceptance Criteria
<!-- AC:BEGIN -->
- [ ] #1 A column per status
- [x] #2 Keys move tasks
<!-- AC:END -->
""",
    "backlog/tasks/task-10 - C.md": b"---\nid: TASK-10\ntitle: Columns\nstatus: In Progress\nparent_task_id: TASK-2\n---\n",
    "backlog/tasks/readme.md": b"# Tasks\n",
}

CHECKLIST = """# Launch

- [ ] Buy a domain

## Website

- [x] Make a page
- [ ] Add a form
  It uses the mailer.
  - [ ] validation
  - [x] spam guard
- [ ] 2. Deploy
  - [ ] 2.1 Build
  - [ ] 2.2 Upload
- [-] Animations

```
- [ ] an example
```
"""


def _read(kind: ListKind, text: str | bytes, **options: object) -> ImportedPlan:
    data = text if isinstance(text, bytes) else text.encode()
    return read_list(kind, "list.md", {"list.md": data}, msgspec.convert(options, ImportOptions))


def _tasks(made: ImportedPlan) -> dict[str, Task]:
    return {task.id: task for _, task in made.plan.tasks()}


def _needs(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {task.id: task.needs for _, task in plan.tasks()}


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("tasks.md", SPEC_KIT.encode(), ListKind.SPEC_KIT),
        ("tasks.json", msgspec.json.encode(TASK_MASTER), ListKind.TASK_MASTER),
        ("x.md", BACKLOG["backlog/tasks/task-2 - B.md"], ListKind.BACKLOG),
        ("todo.md", CHECKLIST.encode(), ListKind.CHECKLIST),
        ("README.md", b"# Just prose\n", None),
        ("package.json", b'{"name": "x", "dependencies": {}}', None),
        ("plan.yaml", b"holdfast: 1\n", None),
        ("empty.md", b"", None),
    ],
)
def test_a_list_is_known_by_its_content(name: str, data: bytes, kind: ListKind | None) -> None:
    """Nobody has to say what kind of file it is."""
    assert kind_of(name, data) is kind


def test_spec_kits_phases_are_stages_and_stories_run_beside_each_other() -> None:
    """Stories need what comes before them, not each other; polish needs them all."""
    made = _read(ListKind.SPEC_KIT, SPEC_KIT)
    setup, base, one, two, polish = made.plan.stages
    assert (made.plan.goal, base.needs) == ("Photo albums", (setup.id,))
    assert (one.needs, two.needs) == ((base.id,), (base.id,))
    assert polish.needs == (one.id, two.id)


def test_spec_kits_tasks_wait_unless_they_are_parallel() -> None:
    """`[P]` runs beside its neighbours; a task without it waits for all before it, and for what it names."""
    needs = _needs(_read(ListKind.SPEC_KIT, SPEC_KIT).plan)
    assert needs["T002"] == ()
    assert needs["T003"] == ("T002",)
    assert needs["T006"] == ("T004", "T005")
    assert set(needs["T011"]) == {"T006", "T010"}
    assert needs["TXXX-2"] == ("TXXX",)


def test_spec_kits_prompts_say_what_a_task_is_part_of() -> None:
    """An agent sees one task: its phase, the goal of that and its own details are in the prompt."""
    prompts = {name: task.prompt for name, task in _tasks(_read(ListKind.SPEC_KIT, SPEC_KIT)).items()}
    assert "with the fields of data-model.md" in prompts["T006"]
    assert "Goal: See albums" in prompts["T010"]
    assert prompts["T010"].startswith("Contract test")


@pytest.mark.parametrize(
    ("line", "who", "whom"),
    [
        ("- T003 blocks T004", "T004", "T003"),
        ("- Tests (T004-T005) before implementation (T006)", "T006", "T005"),
        ("- T002 → T005 → T006", "T005", "T002"),
        ("- T005 depends on T003; T001 runs first", "T005", "T003"),
        ("- User Story 2 depends on User Story 1", "phase-4", "phase-3"),
        ("- Phase 4 requires Phase 3", "phase-4", "phase-3"),
    ],
)
def test_what_spec_kit_says_of_dependencies_is_heeded(line: str, who: str, whom: str) -> None:
    """Half a sentence that names both sides is enough."""
    plan = _read(ListKind.SPEC_KIT, SPEC_KIT + line + "\n").plan
    stages = {stage.id[:7]: [need[:7] for need in stage.needs] for stage in plan.stages}
    assert whom in (_needs(plan).get(who) or stages.get(who) or ())


def test_what_is_done_is_left_out_told_and_waited_for_by_nobody() -> None:
    """A plan is what remains; `--all` takes the rest along."""
    made = _read(ListKind.SPEC_KIT, SPEC_KIT)
    assert [(part.what, part.why) for part in made.left_out] == [("T001", "ticked")]
    assert not made.findings
    assert "T001" in _tasks(_read(ListKind.SPEC_KIT, SPEC_KIT, keep_done=True))


def test_task_masters_subtasks_stand_for_their_task() -> None:
    """Whoever depends on the whole waits for all its parts, and each part knows the whole."""
    made = _read(ListKind.TASK_MASTER, msgspec.json.encode(TASK_MASTER))
    assert _needs(made.plan) == {"2.2": (), "2.3": ("2.2",), "3": ("2.2", "2.3")}
    assert "The main thing" in _tasks(made)["2.3"].prompt
    assert _tasks(made)["3"].acceptance == ("By eye",)
    assert [part.what for part in made.left_out] == ["1", "2.1", "4", "tag next"]


def test_a_tag_of_task_master_can_be_chosen() -> None:
    """One file holds several lists; the others are named."""
    data = msgspec.json.encode(TASK_MASTER)
    assert [task.title for task in _tasks(_read(ListKind.TASK_MASTER, data, tag="next")).values()] == ["Else"]
    with pytest.raises(HoldfastError, match="there is no tag nxt"):
        _read(ListKind.TASK_MASTER, data, tag="nxt")


def test_an_untagged_list_of_task_master_is_read_as_well() -> None:
    """The older shape of the file has the tasks at its top."""
    made = _read(ListKind.TASK_MASTER, msgspec.json.encode(TASK_MASTER["next"]))
    assert [task.title for task in _tasks(made).values()] == ["Else"]


def test_a_task_whose_subtasks_are_all_done_remains_itself() -> None:
    """Its parts are done, it is not: somebody has to finish it."""
    task = {
        "id": 7,
        "title": "Whole",
        "status": "pending",
        "subtasks": [{"id": 1, "title": "P", "status": "done"}],
    }
    assert list(_tasks(_read(ListKind.TASK_MASTER, msgspec.json.encode({"tasks": [task]})))) == ["7"]


def test_backlogs_files_are_tasks_with_their_criteria() -> None:
    """Ids differ in case and file; a parent waits for its subtasks."""
    made = read_list(ListKind.BACKLOG, "backlog/tasks", BACKLOG, ImportOptions())
    assert _needs(made.plan) == {"TASK-2": ("TASK-10",), "TASK-10": ()}
    board = _tasks(made)["TASK-2"]
    assert (board.title, board.acceptance) == ("Show the board", ("A column per status", "Keys move tasks"))
    assert "Show it as columns." in board.prompt
    assert {part.what for part in made.left_out} == {"TASK-1", "readme.md"}


def test_a_checklists_headings_are_stages_and_its_points_follow_each_other() -> None:
    """People work a list from top to bottom; what is done on the way is stepped over."""
    made = _read(ListKind.CHECKLIST, CHECKLIST)
    assert [stage.id for stage in made.plan.stages] == ["tasks", "website"]
    assert _needs(made.plan) == {
        "01-buy-a-domain": (),
        "03-add-a-form": (),
        "2.1-build": ("03-add-a-form",),
        "2.2-upload": ("2.1-build",),
    }
    assert [part.why for part in made.left_out] == ["ticked", "struck out"]


def test_an_open_part_of_a_ticked_point_is_still_to_be_done() -> None:
    """A tick too early must not lose the work below it."""
    text = "- [x] parser\n  - [ ] errors\n  - [x] numbers\n- [x] printer\n"
    (task,) = _tasks(_read(ListKind.CHECKLIST, text)).values()
    assert "ticked, but these parts of it are not: do them." in task.prompt
    assert "- errors" in task.prompt


def test_a_number_in_the_midst_of_a_point_stays() -> None:
    """Only the number that a point begins with is its own."""
    (task,) = _tasks(_read(ListKind.CHECKLIST, "- [ ] 4. Add 3 buttons\n")).values()
    assert (task.id, task.title) == ("4-add-3-buttons", "Add 3 buttons")


def test_a_point_that_is_struck_through_is_left_out() -> None:
    """Strikethrough is how people say in Markdown that something is off the list."""
    made = _read(ListKind.CHECKLIST, "- [ ] ~~old idea~~\n- [ ] new ~~bad~~ idea\n")
    assert [task.title for task in _tasks(made).values()] == ["new ~~bad~~ idea"]


def test_a_checklists_points_may_run_beside_each_other() -> None:
    """The user knows whether the order means something."""
    assert not any(_needs(_read(ListKind.CHECKLIST, CHECKLIST, parallel=True).plan).values())


def test_what_stands_below_a_point_is_part_of_it() -> None:
    """Details and unnumbered boxes are no tasks of their own; what is done among them is said to be."""
    form = _tasks(_read(ListKind.CHECKLIST, CHECKLIST))["03-add-a-form"].prompt
    assert "It uses the mailer." in form
    assert "- validation" in form
    assert "done already: spam guard" in form


@pytest.mark.parametrize("text", ["# Nothing\n", "", "- [x] all done\n"])
def test_a_list_without_anything_to_do_says_so(text: str) -> None:
    """An empty plan helps nobody."""
    with pytest.raises(HoldfastError, match=r"no task was found|are done"):
        _read(ListKind.CHECKLIST, text)


@pytest.mark.parametrize(
    "made",
    [
        _read(ListKind.SPEC_KIT, SPEC_KIT, keep_done=True),
        _read(ListKind.TASK_MASTER, msgspec.json.encode(TASK_MASTER), keep_done=True),
        read_list(ListKind.BACKLOG, "backlog", BACKLOG, ImportOptions(keep_done=True)),
        _read(ListKind.CHECKLIST, CHECKLIST, keep_done=True),
    ],
    ids=["spec-kit", "task-master", "backlog", "checklist"],
)
def test_the_written_plan_is_read_back_as_the_same_plan(made: ImportedPlan) -> None:
    """What `plan import` writes is what `run` accepts."""
    plan = msgspec.structs.replace(made.plan, agent="claude")
    assert parse_plan(plan_text(plan).encode(), "plan.yaml", ("claude",)) == plan


_LINES = st.sampled_from(
    ["# A", "## Phase 1: B", "## Dependencies", "- [ ] T001 [P] x", "- [x] T002 y (depends on T001)", "  - [ ] 1.1 z",
     "- [ ] 1. q", "T001 blocks T002", "T002 -> T001", "---", "id: TASK-1", "title: x", "status: Done", "dependencies: [a]",
     "```", "<!--", "-->", "* [?] odd", "\t- [ ] tab", "Phase 1 depends on Phase 1", "T1-T999999999", "parent_task_id: TASK-1"]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(_LINES | st.text(max_size=20), max_size=30), st.booleans(), st.sampled_from(ListKind))
def test_any_text_is_a_plan_or_an_error_of_ours(lines: list[str], keep: bool, kind: ListKind) -> None:
    """No list makes the importer fall over, and what it makes is a plan that runs."""
    data = "\n".join(lines).encode(errors="replace")
    kind_of("list.md", data)
    with suppress(HoldfastError):
        made = read_list(kind, "list.md", {"list.md": data}, ImportOptions(keep_done=keep))
        plan = msgspec.structs.replace(made.plan, agent="claude")
        assert parse_plan(plan_text(plan).encode(), "plan.yaml", ("claude",)) == plan


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "2.1", "done"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "title",
                    "tasks",
                    "subtasks",
                    "dependencies",
                    "status",
                    "details",
                    "master",
                    "metadata",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300)
@given(_JSON)
def test_any_json_is_a_plan_or_an_error_of_ours(document: object) -> None:
    """Numbers for names, lists for texts, tasks that need themselves: a plan or words, never a fall."""
    data = msgspec.json.encode({"tasks": document, "master": {"tasks": document}})
    with suppress(HoldfastError):
        made = read_list(ListKind.TASK_MASTER, "t.json", {"t.json": data}, ImportOptions(keep_done=True))
        plan = msgspec.structs.replace(made.plan, agent="claude")
        assert parse_plan(plan_text(plan).encode(), "plan.yaml", ("claude",)) == plan
