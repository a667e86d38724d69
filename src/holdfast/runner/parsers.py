"""Looking for syntax errors in this process: the parsers of the standard library, and YAML's event level.

Nothing of the files is imported, constructed or executed. Each parser returns line and message of the first error, or
None, and is loaded when it is first needed.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable

from holdfast.core.syntax import Language

_Found = tuple[int, str] | None
_filters = threading.Lock()
"""The filters of warnings belong to the whole process, so two threads must not set and restore them at once."""


class _NotJudged(Exception):  # noqa: N818 - it is no error: the file declares entities, which cost without bound
    """The document defines entities; expanding them is not worth the risk."""


def parse(language: Language, data: bytes) -> _Found:
    """Return the first syntax error of a file, or None if there is none or nothing here can tell."""
    parser = _PARSERS.get(language)
    return parser(data) if parser else None


def is_parsed_here(language: Language) -> bool:
    """Tell whether this module can judge a language by itself."""
    return language in _PARSERS


def _python(data: bytes) -> _Found:
    try:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "file", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except ValueError as error:
        return 1, str(error)
    except (RecursionError, MemoryError, OverflowError):
        return None  # Too deep for this interpreter to judge; another may well read it.
    return None


def _json(data: bytes) -> _Found:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text"
    except RecursionError:
        return None
    return None


def _toml(data: bytes) -> _Found:
    import tomllib

    try:
        tomllib.loads(data.decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        return int(line) if line.isdecimal() else data.count(b"\n") + 1, message
    except RecursionError:
        return None
    return None


def _yaml(data: bytes) -> _Found:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(data, Loader=loader):
            continue
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return mark.line + 1 if mark else 1, error.problem or "this is no YAML"
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return 1, str(error)
    except RecursionError:
        return None
    return None


def _xml(data: bytes) -> _Found:
    from xml.parsers import expat

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        return error.lineno, expat.ErrorString(error.code)
    except _NotJudged:
        return None
    return None


def _refuse(*_declared: object) -> None:
    raise _NotJudged


_PARSERS: dict[Language, Callable[[bytes], _Found]] = {
    Language.PYTHON: _python,
    Language.JSON: _json,
    Language.TOML: _toml,
    Language.YAML: _yaml,
    Language.XML: _xml,
}
