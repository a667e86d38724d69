"""`docs/backlog.yaml`: the stories that APEX works off. Statuses are changed in place, every other byte is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.core.plan import Task
from holdfast.formats import lenient_json, lenient_yaml, markdown
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.lenient_json import BrokenFileError, Node
from holdfast.formats.model import (
    SETTLED,
    UNBEGUN,
    Claim,
    ClaimedStatus,
    ExportedRun,
    Finding,
    ForeignRun,
    NativeFile,
)
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.registry import System
from holdfast.formats.run_to_claims import claim_of
from holdfast.formats.status_words import claimed_status

_STAGE = "stories"
_WORDS = {
    ClaimedStatus.PENDING: "TODO",
    ClaimedStatus.RUNNING: "IN_PROGRESS",
    ClaimedStatus.FAILED: "IN_PROGRESS",
    ClaimedStatus.DONE: "DONE",
    ClaimedStatus.SKIPPED: "SKIPPED",
    ClaimedStatus.BLOCKED: "BLOCKED",
    ClaimedStatus.ABANDONED: "BLOCKED",
}


def has_stories(data: bytes) -> bool:
    """Tell whether a text has stories at its top, or epics that hold them."""
    lines = markdown.decoded(data).split("\n")
    return any(line.startswith(("stories:", "epics:")) for line in lines)


def read_backlog(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the stories as the tasks of one stage: only their dependencies say what comes first."""
    document = _parsed(main, documents[main])
    stories = _stories(document)
    if not stories:
        hint = "Add stories, or point adopt at a task's folder."
        raise BrokenFileError(f"{main}: there are no stories in it", hint)
    project = lenient_json.text(document.get("project")) or "backlog"
    drafts = [_draft(story) for story in stories]
    made = assemble(f"The backlog of {project}", [StageDraft(native=_STAGE)], drafts)
    story_of = dict(zip(made.ids, stories, strict=True))
    doubts = [found for claim in made.claims for found in _findings(story_of[claim.task], claim)]
    return ForeignRun(
        system=System.APEX,
        name=project,
        plan=made.plan,
        claims=made.claims,
        finished=all(claim.standing in SETTLED for claim in made.claims),
        findings=(*unknown_words(made.claims), *doubts, *made.findings),
        main=main,
        documents=dict(documents),
    )


def _parsed(main: str, data: bytes) -> Node:
    try:
        return lenient_json.node(lenient_yaml.load(markdown.decoded(data)))
    except ValueError as error:
        hint = f"Mend it, or restore {main}.bak beside it."
        raise BrokenFileError(f"{main}: this is no valid YAML ({error})", hint) from None


def _stories(document: Node) -> list[Node]:
    """Return the stories, wherever they stand: in a list of their own, or written out inside their epics."""
    inside = [
        story
        for epic in lenient_json.nodes(document.get("epics"))
        for story in lenient_json.nodes(epic.get("stories"))
    ]
    return lenient_json.nodes(document.get("stories")) + inside


def _id(story: Node) -> str:
    return lenient_json.text(lenient_json.first(story, "id", "story_id", "key"))


def _criteria(story: Node) -> list[tuple[str, str]]:
    """Return the acceptance criteria as text and status."""
    both: list[tuple[Any, Any]] = [
        (lenient_json.first(each, "description", "text", "title"), each.get("status"))
        if isinstance(each, dict)
        else (each, "")
        for each in lenient_json.items(lenient_json.first(story, "acceptance_criteria", "criteria"))
    ]
    return [
        (lenient_json.text(words), lenient_json.text(status))
        for words, status in both
        if lenient_json.text(words)
    ]


def _draft(story: Node) -> TaskDraft:
    asked = lenient_json.text(lenient_json.first(story, "description", "title"))
    technical = lenient_json.text(story.get("technical_notes"))
    task = Task(
        id="",
        title=lenient_json.text(story.get("title")),
        prompt="\n\n".join(part for part in (asked, technical) if part),
        needs=lenient_json.texts(lenient_json.first(story, "depends_on", "dependencies")),
        acceptance=tuple(words for words, _ in _criteria(story)),
    )
    return TaskDraft(native=_id(story), stage=_STAGE, task=task, claim=_claim(story))


def _claim(story: Node) -> Claim:
    said = lenient_json.text(story.get("status"))
    standing = claimed_status(said)
    return Claim(
        task="",
        standing=standing,
        said=said,
        attempts=int(standing not in UNBEGUN),
        commits=lenient_json.commits(lenient_json.first(story, "commits", "commit")),
        files=lenient_json.texts(story.get("files_touched")),
    )


def _findings(story: Node, claim: Claim) -> Iterator[Finding]:
    name = claim.task
    unmet = [words for words, status in _criteria(story) if claimed_status(status) is not ClaimedStatus.DONE]
    if claim.standing is ClaimedStatus.DONE and unmet:
        said = f"`{name}` is DONE, but {len(unmet)} of its acceptance criteria are not: {unmet[0]}"
        yield Finding(kind="done-with-unfinished-parts", task=name, sentence=said)
    for blocker in lenient_json.texts(story.get("blocked_by")):
        yield Finding(kind="blocker", task=name, sentence=f"`{name}` is blocked by: {blocker}")


def write_backlog(view: ExportedRun, main: str, data: bytes) -> list[NativeFile]:
    """Return the backlog with the statuses as they are now, and as it was. It is parsed before it is let out."""
    text = markdown.decoded(data)
    changed = _with_statuses(view, text, _parsed(main, data)).encode()
    _parsed(main, changed)
    return [NativeFile(path=main, content=changed), NativeFile(path=f"{main}.bak", content=data)]


def _with_statuses(view: ExportedRun, text: str, document: Node) -> str:
    """Return the text with the status of each story that stands otherwise now, last one first: places stay true."""
    stories = _stories(document)
    names = task_ids([_id(story) for story in stories])
    # An alias stands for the same place in the text, which is changed once.
    places = {place.start_mark.index: place for place in _places(text)}
    at = [place.start_mark.index for place in _places(text)]
    for name, story, index in sorted(zip(names, stories, at, strict=True), key=lambda one: -one[2]):
        word = _WORDS[claim_of(view, name).standing]
        place = places.pop(index, None)
        if place and claimed_status(lenient_json.text(story.get("status"))) is not claimed_status(word):
            text = _replaced(text, place, word)
    return text


def _replaced(text: str, story: Any, word: str) -> str:
    """Return the text with a story's status, which is added after its first entry if it has none."""
    status = next((said for key, said in reversed(story.value) if key.value == "status"), None)
    if status is not None:
        before = text[: status.start_mark.index]
        return before + (" " if before.endswith(":") else "") + word + text[status.end_mark.index :]
    key, said = story.value[0]
    at = said.end_mark.index
    begin = ", " if story.flow_style else "\n" + " " * key.start_mark.column
    return f"{text[:at]}{begin}status: {word}{text[at:]}"


def _places(text: str) -> list[Any]:
    """Return where each story stands in the text, in the order of `_stories`."""
    root = lenient_yaml.compose(text)
    epics = _mappings(_under(root, "epics"))
    inside = [story for epic in epics for story in _mappings(_under(epic, "stories"))]
    return _mappings(_under(root, "stories")) + inside


def _under(node: Any, name: str) -> Any:
    """Return the value of a key, the last one if there are several, as reading does."""
    pairs = node.value if node is not None and node.id == "mapping" else ()
    return next((said for key, said in reversed(pairs) if key.value == name), None)


def _mappings(node: Any) -> list[Any]:
    """Return the mappings of a list, or of a mapping of names to them."""
    if node is None or node.id == "scalar":
        return []
    held = node.value if node.id == "sequence" else [said for _, said in node.value]
    return [each for each in held if each.id == "mapping"]
