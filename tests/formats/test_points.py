"""Points of task lists: only what says that a point is open changes, and nothing that a person decided is overruled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.plan import ListKind
from holdfast.formats.lists import ImportOptions, read_list, tick
from holdfast.formats.lists.points import point_names

TASKS_MD = (
    "# Tasks: Photo albums\n\n"
    "## Phase 1: Setup\n\n"
    "- [x] T001 Create the layout  \n"
    "- [ ] T002 Initialise the project\t\n"
    "* [ ] **T003** [P] Configure linting\n\n"
    "```\n- [ ] T004 An example\n```\n\n"
    "<!-- - [ ] T005 Hidden\n-->\n"
    "- [ ] T006 Base models in src/models.py\n"
    "  with the fields of data-model.md\n"
)
TODO_MD = (
    "# Release\n\n## Backend\n- [ ] Write tests\n- [ ] Rate limits\n  - [ ] per user\n  - [x] per key\n"
    "\n## Frontend\n1. [ ] Write tests\n2. [-] Animations\n"
)
TASKS_JSON = """{
  "master": {
    "tasks": [
      {"id": 1, "title": "Init", "status": "done", "dependencies": []},
      {
        "id": 2,
        "title": "Login",
        "status":   "in-progress",
        "subtasks": [
          { "id": 1, "title": "Form", "status": "pending" },
          { "id": 2, "title": "Session \\u00e9", "description": "\\"status\\": \\"pending\\"" }
        ],
        "weight": 1.50
      }
    ],
    "metadata": {"projectName": "Shop"}
  },
  "other": {"tasks": [{"id": 2, "title": "Login", "status": "pending"}]}
}
"""
BACKLOG = (
    "---\nid: task-7\ntitle: 'Add: login'\nstatus: {status}\nassignee: []\nlabels: [status]\n---\n\n"
    "## Acceptance Criteria\n- [ ] #1 status: open\n"
)
FILES: dict[ListKind, bytes] = {
    ListKind.SPEC_KIT: TASKS_MD.encode(),
    ListKind.CHECKLIST: TODO_MD.encode(),
    ListKind.TASK_MASTER: TASKS_JSON.encode(),
    ListKind.BACKLOG: BACKLOG.format(status="To Do").encode(),
}
NAMES = {
    ListKind.SPEC_KIT: "tasks.md",
    ListKind.CHECKLIST: "TODO.md",
    ListKind.TASK_MASTER: "tasks.json",
    ListKind.BACKLOG: "task-7.md",
}


def _points(kind: ListKind, data: bytes) -> list[str]:
    """Return the points of every open task, as an import names them."""
    plan = read_list(kind, NAMES[kind], {NAMES[kind]: data}, ImportOptions()).plan
    return [point for _, task in plan.tasks() for point in task.points]


def _changed(before: bytes, after: bytes) -> list[tuple[bytes, bytes]]:
    lines = zip(before.split(b"\n"), after.split(b"\n"), strict=True)
    return [(old, new) for old, new in lines if old != new]


def test_a_point_is_ticked_and_every_other_byte_stays() -> None:
    """Trailing spaces, tabs, other marks and examples are as they were."""
    done = tick(ListKind.SPEC_KIT, "", TASKS_MD.encode(), ["T002 Initialise the project"])
    assert done.found == {"T002 Initialise the project": ""}
    assert _changed(TASKS_MD.encode(), done.content) == [
        (b"- [ ] T002 Initialise the project\t", b"- [x] T002 Initialise the project\t")
    ]


@pytest.mark.parametrize("kind", FILES)
def test_a_list_whose_open_tasks_all_landed_has_none_left(kind: ListKind) -> None:
    """What an import names is found again, so that the next import finds nothing to do."""
    data = FILES[kind]
    done = tick(kind, "master" if kind is ListKind.TASK_MASTER else "", data, _points(kind, data))
    assert set(done.found.values()) == {""}
    if kind is ListKind.TASK_MASTER:  # its subtasks are done; whether the task is, a person says
        assert _points(kind, done.content) == ["2 Login"]
        return
    with pytest.raises(Exception, match="all of its tasks are done"):
        _points(kind, done.content)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_from_windows_stays_one(kind: ListKind) -> None:
    """Line endings and the byte order mark are the file's own."""
    data = b"\xef\xbb\xbf" + FILES[kind].replace(b"\n", b"\r\n")
    tag = "master" if kind is ListKind.TASK_MASTER else ""
    done = tick(kind, tag, data, _points(kind, data))
    assert set(done.found.values()) == {""}
    assert done.content.startswith(b"\xef\xbb\xbf")
    assert done.content.count(b"\r\n") == data.count(b"\r\n") == done.content.count(b"\n")
    assert done.content == b"\xef\xbb\xbf" + tick(
        kind, tag, FILES[kind], _points(kind, FILES[kind])
    ).content.replace(b"\n", b"\r\n")


def test_the_same_words_at_two_places_are_told_apart_by_what_is_above() -> None:
    """A heading is part of the name where it has to be; a part of a point goes with it."""
    names = _points(ListKind.CHECKLIST, TODO_MD.encode())
    assert names == ["Backend > Write tests", "Rate limits", "per user", "Frontend > Write tests"]
    done = tick(ListKind.CHECKLIST, "", TODO_MD.encode(), ["Frontend > Write tests"])
    assert _changed(TODO_MD.encode(), done.content) == [(b"1. [ ] Write tests", b"1. [x] Write tests")]


def test_points_that_cannot_be_told_apart_have_no_name() -> None:
    """Nothing is ticked on a guess."""
    assert point_names([("A", "same"), ("A", "same"), ("A", "other")]) == ["", "", "other"]


def test_a_long_point_is_named_by_its_beginning() -> None:
    """A plan stays readable; the name is still found."""
    text = f"# L\n\n- [ ] {'many words ' * 30}end\n"
    (name,) = _points(ListKind.CHECKLIST, text.encode())
    assert len(name) < 110
    assert b"[x]" in tick(ListKind.CHECKLIST, "", text.encode(), [name]).content


@pytest.mark.parametrize("edit", ["Initialise it all", "T002 Initialise the whole project", ""])
def test_a_point_that_was_reworded_or_removed_is_left(edit: str) -> None:
    """What stands there now may be something else."""
    data = TASKS_MD.replace("T002 Initialise the project", edit).encode()
    done = tick(ListKind.SPEC_KIT, "", data, ["T002 Initialise the project"])
    assert (done.content, done.found) == (data, {})


def test_what_a_person_decided_is_not_overruled() -> None:
    """A tick of theirs stays; what they struck out is told and left; what they wrote twice is left."""
    done = tick(ListKind.CHECKLIST, "", TODO_MD.encode(), ["per key", "Animations", "Write tests"])
    assert done.content == TODO_MD.encode()
    assert done.found == {
        "per key": "",
        "Animations": "somebody marked it as skipped",
        "Write tests": "2 points of the list have this text",
    }


def test_a_subtask_of_task_master_is_done_and_the_json_is_as_it_was() -> None:
    """Indentation, order of keys, numbers, escapes: only the words of these states differ."""
    done = tick(ListKind.TASK_MASTER, "master", TASKS_JSON.encode(), ["2.1 Form", "2.2 Session é"])
    assert _changed(TASKS_JSON.encode(), done.content) == [
        (
            b'          { "id": 1, "title": "Form", "status": "pending" },',
            b'          { "id": 1, "title": "Form", "status": "done" },',
        ),
        (
            rb'          { "id": 2, "title": "Session \u00e9", "description": "\"status\": \"pending\"" }',
            rb'          { "id": 2, "title": "Session \u00e9", "description": "\"status\": \"pending\"", "status": "done" }',
        ),
    ]
    assert json.loads(done.content)["other"]["tasks"][0]["status"] == "pending"


@pytest.mark.parametrize("said", ["To Do", '"To Do"', "'In Progress'", "To Do  # mine", "To Do   ", ""])
def test_a_backlog_task_is_done_at_its_head_only(said: str) -> None:
    """Its acceptance criteria are the reviewer's; quotes and a comment make no difference."""
    data = BACKLOG.format(status=said).encode()
    done = tick(ListKind.BACKLOG, "", data, ["task-7 Add: login"])
    ((_, new),) = _changed(data, done.content)
    assert new.split(b"#")[0].strip() == b"status: Done"
    assert (b"# mine" in new) == ("# mine" in said)
    assert b"- [ ] #1 status: open" in done.content


def test_a_json_that_is_broken_now_is_an_error_of_ours() -> None:
    """Somebody may be writing it at this moment."""
    with pytest.raises(Exception, match="not a list of task-master now"):
        tick(ListKind.TASK_MASTER, "master", TASKS_JSON[:200].encode(), ["2.1 Form"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["- [ ] ", "* [x] ", "  - [ ] ", "1) [/] ", "# ", "", "> ", "\t- [ ] ", "```", "<!--"]
            ),
            st.text(max_size=12),
            st.sampled_from(["\n", "\r\n", " \n"]),
        ),
        max_size=14,
    )
)
def test_whatever_the_text_only_marks_change(lines: list[tuple[str, str, str]]) -> None:
    """Ticking every point that an import would name changes one sign of a line each, and nothing else."""
    data = "".join("".join(parts) for parts in lines).encode("utf-8", "surrogatepass")
    try:
        names = _points(ListKind.CHECKLIST, data)
    except Exception:
        names = []
    done = tick(ListKind.CHECKLIST, "", data, names)
    text, before = (one.decode("utf-8", "surrogateescape") for one in (done.content, data))
    assert len(text) == len(before)
    different = [(old, new) for old, new in zip(before, text, strict=True) if old != new]
    assert {new for _, new in different} <= {"x"}
    assert len(different) <= len(names)
