"""A program of its own: finds syntax errors with the parsers of the standard library, and YAML's.

`python -c THIS_TEXT FILE…` prints `FILE:LINE: MESSAGE` for the first error of each file that does not parse. Agents wrote the
files, and a small one can keep a parser busy for minutes, so no other process may wait for one inside it. Nothing in them
is imported, constructed or executed. Imports nothing of Holdfast: inside a sandbox there may be none.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

Found = tuple[int, str] | None
"""Line and message of the first error, if there is one."""
_MEMORY_BYTES = 2 * 1024**3


class _NotJudged(Exception):  # noqa: N818 - it is no error: the file declares entities, which cost without bound
    """The document defines entities; expanding them is not worth the risk."""


def _python(data: bytes) -> Found:
    try:
        compile(data, "file", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except ValueError as error:
        return 1, str(error)
    return None


def _json(data: bytes) -> Found:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    return None


def _toml(data: bytes) -> Found:
    import tomllib

    try:
        tomllib.loads(data.decode().replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        return int(line) if line.isdecimal() else data.count(b"\n") + 1, message
    return None


def _yaml(data: bytes) -> Found:
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
    return None


def _xml(data: bytes) -> Found:
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


PARSERS: dict[str, Callable[[bytes], Found]] = {
    "py": _python,
    "json": _json,
    "toml": _toml,
    "yaml": _yaml,
    "xml": _xml,
}
"""The parser of each file, by the suffix of its name."""


def parse_file(path: Path) -> Found:
    """Return the first error of a file; None if there is none, or if this interpreter cannot tell."""
    data = path.read_bytes()
    try:
        return PARSERS[path.suffix[1:]](data)
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text"
    except (RecursionError, MemoryError, OverflowError, ImportError):
        return None  # Too deeply nested for this interpreter, or there is no YAML; others may be able to read it.


def main(names: list[str]) -> None:
    """Print the first error of each file as soon as it is known."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    for name in names:
        if found := parse_file(Path(name)):
            line, message = found
            sys.stdout.write(f"{name}:{line}: {' '.join(message.split())}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
