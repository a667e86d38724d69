"""`docs/backlog.yaml`: the stories that APEX works off. Only statuses are changed; every other byte stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats import lenient_yaml, markdown
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.exported_run import ExportedRun, NativeFile
from holdfast.formats.lenient_json import BrokenFileError, Key, Node, commits, items, node, nodes, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.registry import System
from holdfast.formats.status_words import claim_from, claimed_status

_ID = Key("id", "story_id", "key")
_ASKED = Key("description", "title")
_NEEDS = Key("depends_on", "dependencies")
_CRITERIA = Key("acceptance_criteria", "criteria")
_CRITERION = Key("description", "text", "title")
_COMMITS = Key("commits", "commit")
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
    """Return the stories as the tasks of one stage. Only their dependencies order them."""
    document = _parsed(main, documents[main])
    stories = _stories(document)
    if not stories:
        hint = "Add stories, or point adopt at a task's folder."
        raise BrokenFileError(f"{main}: there are no stories in it", hint)
    project = text(document.get("project")) or "backlog"
    drafts = [_draft(story) for story in stories]
    made = assemble(f"The backlog of {project}", [StageDraft(native=_STAGE)], drafts)
    story_of = dict(zip(made.ids, stories, strict=True))
    found = (finding for claim in made.claims for finding in _contradictions(story_of[claim.task], claim))
    return made.as_run(System.APEX, project, main, documents, (*unknown_words(made.claims), *found))


def _parsed(main: str, data: bytes) -> Node:
    try:
        return node(lenient_yaml.load(markdown.decoded(data)))
    except ValueError as error:
        hint = f"Fix it, or restore {main}.bak beside it."
        raise BrokenFileError(f"{main}: this is no valid YAML ({error})", hint) from None


def _stories(document: Node) -> list[Node]:
    """Return the stories: first those of the list, then those inside the epics."""
    inside = [story for epic in nodes(document.get("epics")) for story in nodes(epic.get("stories"))]
    return nodes(document.get("stories")) + inside


def _criteria(story: Node) -> Iterator[tuple[str, str]]:
    """Yield the acceptance criteria as text and status."""
    for each in items(_CRITERIA.raw(story)):
        if criterion := _CRITERION.text_or_self(each):
            yield criterion, text(node(each).get("status"))


def _draft(story: Node) -> TaskDraft:
    parts = (_ASKED.text(story), text(story.get("technical_notes")))
    task = Task(
        id="",
        title=text(story.get("title")),
        prompt="\n\n".join(filter(None, parts)),
        needs=_NEEDS.texts(story),
        acceptance=tuple(criterion for criterion, _ in _criteria(story)),
    )
    claim = replace(
        claim_from(text(story.get("status"))),
        spent=0,  # A backlog does not count attempts.
        commits=commits(_COMMITS.raw(story)),
        files=texts(story.get("files_touched")),
    )
    return TaskDraft(native=_ID.text(story), stage=_STAGE, task=task, claim=claim)


def _contradictions(story: Node, claim: Claim) -> Iterator[Finding]:
    name = claim.task
    done = ClaimedStatus.DONE
    unmet = [criterion for criterion, word in _criteria(story) if claimed_status(word) is not done]
    if claim.standing is done and unmet:
        said = f"`{name}` is DONE, but {len(unmet)} of its acceptance criteria are not: {unmet[0]}"
        yield Finding("done-with-unfinished-parts", said, name)
    for blocker in texts(story.get("blocked_by")):
        yield Finding("blocker", f"`{name}` is blocked by: {blocker}", name)


def write_backlog(view: ExportedRun, main: str, data: bytes) -> list[NativeFile]:
    """Return the backlog with current statuses, and a copy of the old one. The new one is parsed first."""
    changed = _with_statuses(view, markdown.decoded(data), _parsed(main, data)).encode()
    _parsed(main, changed)
    return [NativeFile(path=main, content=changed), NativeFile(path=f"{main}.bak", content=data)]


def _with_statuses(view: ExportedRun, content: str, document: Node) -> str:
    """Return the text with each changed status. The last one goes first, so earlier offsets stay valid."""
    stories = _stories(document)
    names = task_ids(map(_ID.text, stories))
    # An alias points at the same place in the text, which is changed only once.
    at: dict[int, tuple[Any, str, Node]] = {}
    for place, name, story in zip(_places(content), names, stories, strict=True):
        at.setdefault(place.start_mark.index, (place, name, story))
    for _, (place, name, story) in sorted(at.items(), key=lambda item: -item[0]):
        word = _WORDS[view.claim_of(name).standing]
        if claimed_status(text(story.get("status"))) is not claimed_status(word):
            content = _replaced(content, place, word)
    return content


def _replaced(content: str, story: Any, word: str) -> str:
    """Return the text with a story's status. If the story has none, it is added after the first entry."""
    status = _under(story, "status")
    if status is not None:
        before = content[: status.start_mark.index]
        return before + (" " if before.endswith(":") else "") + word + content[status.end_mark.index :]
    key, said = story.value[0]
    at = said.end_mark.index
    begin = ", " if story.flow_style else "\n" + " " * key.start_mark.column
    return f"{content[:at]}{begin}status: {word}{content[at:]}"


def _places(content: str) -> list[Any]:
    """Return the position of each story in the text, in the order of `_stories`."""
    root = lenient_yaml.compose(content)
    epics = _mappings(_under(root, "epics"))
    inside = [story for epic in epics for story in _mappings(_under(epic, "stories"))]
    return _mappings(_under(root, "stories")) + inside


def _under(place: Any, name: str) -> Any:
    """Return the value of a key, the last one if there are several, as reading does."""
    pairs = place.value if place is not None and place.id == "mapping" else ()
    return next((said for key, said in reversed(pairs) if key.value == name), None)


def _mappings(place: Any) -> list[Any]:
    """Return the mappings of a list, or of a mapping of names to them."""
    if place is None or place.id == "scalar":
        return []
    held = place.value if place.id == "sequence" else [said for _, said in place.value]
    return [each for each in held if each.id == "mapping"]
