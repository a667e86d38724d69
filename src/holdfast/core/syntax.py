"""Which files to check for syntax errors, in which language, and the wording of errors. Parses nothing.

In doubt a file passes: templates, fixtures and dialects are left to the project's own checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

FILES_MAX = 500
FILE_BYTES_MAX = 1_000_000
_NAMED_IN_ERROR = 5
_NAMED_IN_DETAIL = 50
_MESSAGE_CHARS = 200


class Language(StrEnum):
    """What a file is written in."""

    PYTHON = "Python"
    JSON = "JSON"
    TOML = "TOML"
    YAML = "YAML"
    XML = "XML"
    SH = "sh"
    BASH = "bash"
    JAVASCRIPT = "JavaScript"
    RUBY = "Ruby"
    PHP = "PHP"
    GO = "Go"


_SUFFIXES = {
    **dict.fromkeys(("py", "pyi"), Language.PYTHON),
    "json": Language.JSON,
    "toml": Language.TOML,
    **dict.fromkeys(("yaml", "yml"), Language.YAML),
    **dict.fromkeys(("xml", "svg", "xsd", "xsl", "xslt", "plist", "csproj"), Language.XML),
    **dict.fromkeys(("js", "mjs", "cjs"), Language.JAVASCRIPT),
    "rb": Language.RUBY,
    "php": Language.PHP,
    "go": Language.GO,
}
_SHELLS = {
    "sh": Language.SH,
    "dash": Language.SH,
    "bash": Language.BASH,
    "python": Language.PYTHON,
    "python3": Language.PYTHON,
}
_SHEBANG = re.compile(rb"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(?:\S*/)?([a-z0-9]+)")
_SHELL_SUFFIXES = ("sh", "bash")

_EXEMPT_FOLDERS = frozenset(
    {"templates", "template", "fixtures", "__fixtures__", "testdata", "test_data", "test-data", ".vscode"}
)
"""Files in these folders are often not what their names say: filled in later, or broken on purpose."""
_EXEMPT_NAMES = ("tsconfig*.json", "jsconfig*.json", "devcontainer.json", "*.code-workspace", "*{{*")
"""JSON with comments by convention, and names that are templates themselves."""
_TEMPLATE = re.compile(rb"\{\{|\{%|<%|\$\{\{")
_DATA = (Language.JSON, Language.TOML, Language.YAML, Language.XML)
_JS_DIALECT = re.compile(rb"<[A-Za-z/>]|@flow|^\s*@[a-z]|\b(import|export) type\b", re.M)
"""JSX, Flow and decorators look like this, and are valid to the tools of the project that uses them."""
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """One syntax error."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        said = " ".join(self.message.split())[:_MESSAGE_CHARS]
        return f"{self.path}:{self.line}: {said}"


def may_be_checked(path: str, *, executable: bool) -> bool:
    """Tell whether a file is worth reading, from its path alone."""
    *folders, name = path.split("/")
    if not _EXEMPT_FOLDERS.isdisjoint(folders) or any(fnmatchcase(name, p) for p in _EXEMPT_NAMES):
        return False
    if any("{{" in folder for folder in folders):
        return False
    _, dot, suffix = name.rpartition(".")
    return suffix in _SUFFIXES or suffix in _SHELL_SUFFIXES or (executable and not dot)


def language_of(path: str, data: bytes) -> Language | None:
    """Return what a file is written in: by its suffix, else by its first line; None if it is not checked."""
    if data.startswith(_LFS_POINTER):
        return None
    suffix = path.rpartition("/")[2].rpartition(".")[2]
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    named = _SHEBANG.match(data)
    if named:
        return _SHELLS.get(named[1].decode())
    return Language.BASH if suffix in _SHELL_SUFFIXES else None


def is_excused(language: Language, data: bytes) -> bool:
    """Tell whether a file may be right although it does not parse: a template, or a dialect."""
    if language in _DATA:
        return _TEMPLATE.search(data) is not None
    return language is Language.JAVASCRIPT and _JS_DIALECT.search(data) is not None


def wants_newer_python(pyproject: str, running: tuple[int, int]) -> bool:
    """Tell whether a project is written for a newer Python than the one that would check it."""
    needed = re.search(r"""requires-python\s*=\s*["'][^"']*>=?\s*3\.(\d+)""", pyproject)
    return needed is not None and (3, int(needed[1])) > running


def faults_error(faults: Sequence[SyntaxFault]) -> str:
    """Return the faults as one sentence; the first ones are named."""
    more = f"; and {len(faults) - _NAMED_IN_ERROR} more" if len(faults) > _NAMED_IN_ERROR else ""
    return "syntax errors: " + "; ".join(map(str, faults[:_NAMED_IN_ERROR])) + more


def faults_detail(faults: Sequence[SyntaxFault]) -> str:
    """Return the faults line by line, for the next attempt."""
    return "\n".join(map(str, faults[:_NAMED_IN_DETAIL]))


_SAID = (
    re.compile(r"(?P<name>\d+\.\w+):(?P<line>\d+):(?:\d+:)? (?P<what>.*)"),
    re.compile(r"(?P<name>\d+\.\w+): (?:line )?(?P<line>\d+): (?P<what>.*)"),
    re.compile(r"(?:PHP )?Parse error:\s+(?P<what>.*) in (?P<name>\d+\.\w+) on line (?P<line>\d+)"),
)


def read_tool_output(output: str) -> Iterator[tuple[str, int, str]]:
    """Yield file name, line and message of each error that a language's tool printed, without warnings."""
    for line in output.splitlines():
        said = next((found for pattern in _SAID if (found := pattern.match(line))), None)
        if said and not said["what"].startswith("warning:"):
            yield said["name"], int(said["line"]), said["what"]
