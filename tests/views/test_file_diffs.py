"""Differences as data: numbers, statuses, odd names, colours, marked words, and bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.views.file_diffs import DiffView, FileDiff, diff_view
from holdfast.views.review import WorkState
from tests.support.repositories import Project, git


def _diff(project: Project, **files: str | bytes | None) -> DiffView:
    """Commit these files on top of what there is, and return the difference; None removes one."""
    before = git(project.path, "rev-parse", "HEAD").strip()
    for name, content in files.items():
        path = project.path / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(project.path, "add", "-A")
    git(project.path, "commit", "-qm", "change")
    after = git(project.path, "rev-parse", "HEAD").strip()
    return diff_view(project.open(), before, after, WorkState.LANDED)


def _texts(file: FileDiff) -> list[str]:
    return [line.kind + "".join(text for _, text in line.spans) for hunk in file.hunks for line in hunk.lines]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with a file of Python."""
    made = Project.create(tmp_path / "p")
    _diff(made, **{"a.py": "import os\n\n\ndef name(text):\n    return text.lower()\n"})
    return made


def test_each_line_has_its_numbers_before_and_after(project: Project) -> None:
    """A removed line has none after, a new one none before."""
    (file,) = _diff(project, **{"a.py": "import os\n\n\ndef name(word):\n    return word.lower()\n"}).files
    assert (file.path, file.status, file.insertions, file.deletions) == ("a.py", "modified", 2, 2)
    (hunk,) = file.hunks
    assert [(line.kind, line.old, line.new) for line in hunk.lines[2:]] == [
        (" ", 3, 3), ("-", 4, None), ("-", 5, None), ("+", None, 4), ("+", None, 5)
    ]  # fmt: skip
    assert _texts(file)[-1] == "+    return word.lower()"


def test_code_is_coloured_and_changed_words_are_marked(project: Project) -> None:
    """By classes; the text itself is never touched."""
    (file,) = _diff(project, **{"a.py": "import os\n\n\ndef name(word):\n    return text.lower()\n"}).files
    spans = {kind: text for line in file.hunks[0].lines for kind, text in line.spans if "x" in kind.split()}
    assert spans == {"x": "word"}
    assert ("k", "def") in file.hunks[0].lines[3].spans


def test_files_that_come_go_and_move_are_told_apart(project: Project) -> None:
    """With the name that each had before."""
    body = "".join(f"line {number}\n" for number in range(30))
    _diff(project, **{"old name.txt": body, "gone.txt": "x\n"})
    view = _diff(
        project, **{"old name.txt": None, "new name.txt": body, "gone.txt": None, "sub/b.bin": b"\0\1\2"}
    )
    assert {file.path: (file.status, file.old_path, file.binary) for file in view.files} == {
        "gone.txt": ("deleted", None, False),
        "new name.txt": ("renamed", "old name.txt", False),
        "sub/b.bin": ("added", None, True),
    }


@pytest.mark.parametrize(
    "name", ['quo"te.txt', "tab\there.txt", "ümlaut.txt", "b/ a.txt", "a b/c d.txt", "--x"]
)
def test_odd_names_are_shown_as_they_are(project: Project, name: str) -> None:
    """However git quotes them; only what steers a terminal is left out."""
    (file,) = _diff(project, **{name: "x\n"}).files
    assert file.path.replace("\\t", "\t") in (name, name.replace("\t", ""), name.replace("\t", "�"))
    assert (file.status, file.insertions) in (("added", 1), ("added", None))


def test_what_looks_like_a_header_inside_a_file_is_a_line_of_it(project: Project) -> None:
    """An agent cannot make a file appear that is none."""
    body = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
    (file,) = _diff(project, **{"n.txt": body}).files
    assert _texts(file) == [f"+{line}" for line in body.splitlines()]


def test_secrets_are_not_shown(project: Project) -> None:
    """An agent may have written one into a file."""
    secret = "ghp_" + "A1b2" * 9
    (file,) = _diff(project, **{"n.txt": f"token {secret}\n"}).files
    assert secret not in "".join(_texts(file))


def test_ten_thousand_lines_are_shown_and_more_are_cut(project: Project) -> None:
    """What is left out is said."""
    (file,) = _diff(project, **{"big.py": "".join(f"x{n} = {n}\n" for n in range(10_000))}).files
    assert (len(_texts(file)), file.truncated, file.insertions) == (10_000, False, 10_000)
    view = _diff(project, **{f"n{n}.txt": "y\n" * 9_000 for n in range(4)})
    assert view.truncated or any(file.truncated for file in view.files)
    assert sum(len(_texts(file)) for file in view.files) <= 20_000


def test_a_line_without_end_is_cut(project: Project) -> None:
    """A whole bundle on one line would stop a browser."""
    (file,) = _diff(project, **{"min.js": "a=1;" * 500_000}).files
    assert len(_texts(file)[0]) < 3_000
    assert "characters)" in _texts(file)[0]


def test_nothing_to_compare_is_an_empty_difference(project: Project) -> None:
    """A task that has not begun."""
    view = diff_view(project.open(), None, None, WorkState.NONE)
    assert (view.files, view.base, view.commit) == ([], None, None)
