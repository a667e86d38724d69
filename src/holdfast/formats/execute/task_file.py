"""One task file of Execute, XML or Markdown: its title, its deliverables, and how it is verified.

Tags are found as text: models write XML that no parser accepts, and an agent gets the original file anyway.
"""

from __future__ import annotations

import re
from html import unescape

import msgspec

from holdfast.formats.markdown import bullets, code_spans, section, title
from holdfast.formats.plan_assembly import is_command, is_path

_FENCED = re.compile(r"^\s*```(?:bash|sh|shell|console)?\s*\n(.*?)^\s*```", re.DOTALL | re.MULTILINE)
_DONE_BY = ("verification", "verify", "verification steps", "test", "tests")
_FILES = ("files to create", "files", "deliverables", "files to create/modify", "files to create or modify")
_MUST = ("acceptance criteria", "requirements", "acceptance", "success criteria")


class TaskFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a task file. `layer` is empty if the file names none."""

    title: str = ""
    layer: str = ""
    files: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def read_task_file(content: str) -> TaskFile:
    """Return what can be read from the text; never fails."""
    return _xml(content) if re.search(r"<task[\s>]", content[:2000]) else _markdown(content)


def _xml(content: str) -> TaskFile:
    meta = _inside(content, "meta") or content
    steps = _each(_inside(content, "verification"), "step")
    return TaskFile(
        title=" ".join(_inside(meta, "name", "title").split()),
        layer=_inside(meta, "layer"),
        files=tuple(
            path for path in _each(_inside(content, "files-to-create", "files"), "file") if is_path(path)
        ),
        verify=tuple(command for step in steps for command in _commands(step)),
        acceptance=_each(_inside(content, "requirements", "acceptance-criteria"), "requirement", "criterion"),
        needs=_ids(_inside(content, "depends-on", "depends_on")),
    )


def _markdown(content: str) -> TaskFile:
    checks = section(content, *_DONE_BY)
    listed = tuple(point.strip("`") for point in bullets(section(content, *_FILES)))
    return TaskFile(
        title=re.sub(r"^(?:Task\s+)?L\d+-\d+\w*\s*[^\w\s]*\s*", "", title(content)),
        files=tuple(path for point in listed if is_path(path := (code_spans(point) or (point,))[0])),
        verify=_fenced(checks) or tuple(command for point in bullets(checks) for command in _commands(point)),
        acceptance=bullets(section(content, *_MUST)),
        needs=_ids(section(content, "dependencies", "depends on")),
    )


def _inside(content: str, *tags: str) -> str:
    for tag in tags:
        if found := re.search(rf"<{tag}(?:\s[^>]*)?>(.*?)</{tag}>", content, re.DOTALL):
            return _plain(found[1])
    return ""


def _each(content: str, *tags: str) -> tuple[str, ...]:
    names = "|".join(tags)
    found = re.findall(rf"<({names})(?:\s[^>]*)?>(.*?)</\1>", content, re.DOTALL)
    return tuple(each for _, inner in found if (each := " ".join(_plain(inner).split())))


def _plain(inner: str) -> str:
    return unescape(re.sub(r"<!\[CDATA\[(.*?)\]\]>", r"\1", inner, flags=re.DOTALL)).strip()


def _commands(step: str) -> tuple[str, ...]:
    """Return the command of a step that says to run one. Other steps are for people and agents."""
    step = step.strip()
    told = re.match(r"run\b:?\s*", step, re.IGNORECASE)
    said = code_spans(step)
    line = said[0] if said else step[told.end() :] if told else ""
    meant = told or " " in line or step == f"`{line}`"
    looked_at = re.match(r"check\b|confirm\b|ensure\b|verify\b", step, re.IGNORECASE)
    return (line,) if meant and not looked_at and is_command(line) else ()


def _fenced(content: str) -> tuple[str, ...]:
    lines = [
        line.strip().removeprefix("$ ") for block in _FENCED.findall(content) for line in block.splitlines()
    ]
    return tuple(line for line in lines if is_command(line))


def _ids(content: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"\bL\d+-\d+[A-Za-z]?\b", content)))
