"""What every reader relies on: hands and models write anything, and what is read of it can be used as it is."""

from __future__ import annotations

from holdfast.formats import lenient_json, lenient_yaml
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.model import Claim
from holdfast.formats.plan_assembly import distinct
from holdfast.formats.status_words import kept_word


def test_only_what_could_be_a_hash_is_a_commit() -> None:
    """Texts and objects name commits; a number counts them, and nothing could be an option or a range to git."""
    said = [
        "abc1234",
        {"sha": "def5678"},
        "abc1234",
        1234567,
        "--all",
        "main..HEAD",
        "",
        None,
        {"hash": ["x"]},
    ]
    assert lenient_json.commits(said) == ("abc1234", "def5678")
    assert lenient_json.commits(12) == ()


def test_a_file_that_holds_no_object_is_an_empty_one() -> None:
    """Whoever only asks what a file may be does not fail over one that is broken."""
    assert lenient_json.object_in("a.json", b'{"a": 1}') == {"a": 1}
    assert [lenient_json.object_in("a.json", data) for data in (b"", b"[1]", b'{"a"', b"\xff\xfe\x00")] == [
        {}
    ] * 4


def test_names_are_told_apart_and_nobody_is_without_one() -> None:
    """Two tasks of one name stay two, in the order in which they were listed."""
    assert distinct(["a", "", "a", "a (2)"], "task") == ["a", "task-2", "a (2)", "a (2) (2)"]


def test_a_word_stays_as_long_as_it_means_the_same() -> None:
    """A file keeps its own spelling of a status until the status changes."""
    assert [kept_word(said, "completed") for said in ("Done", "merged", "failed", "")] == [
        "Done", "merged", "completed", "completed"]  # fmt: skip


def test_a_status_that_nobody_knows_is_told_with_what_it_counts_as() -> None:
    """The user hears of a guess, and not of the words that are known."""
    claims = [Claim(task="a", said="percolating"), Claim(task="b", said="done")]
    assert [(finding.task, finding.sentence) for finding in unknown_words(claims)] == [
        ("a", "a is marked 'percolating', which nobody knows; it counts as pending.")
    ]


def test_yaml_is_read_as_it_was_written() -> None:
    """A `yes`, a date or a version number is the text that stands there."""
    assert lenient_yaml.load("a: yes\nb: 2026-01-02\nc: [1.10]") == {
        "a": "yes",
        "b": "2026-01-02",
        "c": ["1.10"],
    }
