"""Syntax errors in what was changed: found from git's objects, without a checkout, within fixed bounds.

Only new errors count: a file that did not parse before the work began is not the agent's fault.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from holdfast.core import events as ev, syntax
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.core.syntax import Language, SyntaxFault
from holdfast.errors import HoldfastError
from holdfast.repo.commit_contents import ChangedFile, changed_contents, read_contents
from holdfast.runner.attempts.attempt_events import attempt_failed
from holdfast.runner.context import RunContext
from holdfast.runner.verification.syntax_parsers import parse

_Texts = dict[Language, dict[str, bytes]]
"""The contents to judge, by their ids."""


async def reject_syntax_errors(context: RunContext, task: TaskRow, done: ev.AttemptDone) -> ev.Event:
    """Return the attempt as it ended, or as failed if a file that it changed no longer parses."""
    try:
        faults = await find_syntax_errors(context, task.base, done.head, None, task.id, task.attempt)
    except (HoldfastError, OSError):
        return done  # The work is safe; a passing disk error is no reason to redo it.
    if not faults:
        return done
    return attempt_failed(
        context,
        task,
        FailureKind.SYNTAX,
        syntax.faults_error(faults),
        syntax.faults_detail(faults),
        done.head,
        done.tree,
        done.duration_s,
    )


async def find_syntax_errors(
    context: RunContext, old: str, new: str, only: frozenset[str] | None, owner: str, attempt: int
) -> list[SyntaxFault]:
    """Return the syntax errors in files that differ between two commits, `only` those paths if given.

    Looking again costs little: contents that were found good are remembered for as long as the runner lives.
    """
    if not context.state.plan.syntax:
        return []
    files = await asyncio.to_thread(_candidates, context, old, new, only)
    if not files:
        return []
    texts = await asyncio.to_thread(_texts, context, {file.new: file.path for file in files})
    errors = await _errors(context, texts, owner, attempt)
    context.parsed.update(blob for blobs in texts.values() for blob in blobs.keys() - errors.keys())
    guilty = [file for file in files if file.new in errors]
    before = await asyncio.to_thread(_texts, context, {file.old: file.path for file in guilty if file.old})
    known = await _errors(context, before, owner, attempt)
    faults = [SyntaxFault(file.path, *errors[file.new]) for file in guilty if file.old not in known]
    return await asyncio.to_thread(_without_newer_python, context, new, faults) if faults else []


def _candidates(context: RunContext, old: str, new: str, only: frozenset[str] | None) -> list[ChangedFile]:
    changed = changed_contents(context.repo, old, new)
    wanted = [
        file
        for file in changed
        if (only is None or file.path in only)
        and file.new not in context.parsed
        and syntax.may_be_checked(file.path, executable=file.executable)
    ]
    return wanted[: syntax.FILES_MAX]


def _texts(context: RunContext, paths: Mapping[str, str]) -> _Texts:
    texts: _Texts = {}
    for blob, data in read_contents(context.repo, paths, syntax.FILE_BYTES_MAX).items():
        language = syntax.language_of(paths[blob], data) if data.strip() else None
        if language is not None:
            texts.setdefault(language, {})[blob] = data
    return texts


async def _errors(context: RunContext, texts: _Texts, owner: str, attempt: int) -> dict[str, tuple[int, str]]:
    """Return the first error of each content that does not parse and has no excuse, by its id."""
    found = await parse(context, texts, owner, attempt) if texts else {}
    return {
        blob: found[blob]
        for language, contents in texts.items()
        for blob, data in contents.items()
        if blob in found and not syntax.is_excused(language, data)
    }


def _without_newer_python(context: RunContext, commit: str, faults: list[SyntaxFault]) -> list[SyntaxFault]:
    """Leave Python out where the project is for a newer one than this program runs on."""
    project = (context.repo.file_at(commit, "pyproject.toml") or b"").decode(errors="replace")
    if not syntax.wants_newer_python(project, sys.version_info[:2]):
        return faults
    return [fault for fault in faults if not fault.path.endswith((".py", ".pyi"))]
