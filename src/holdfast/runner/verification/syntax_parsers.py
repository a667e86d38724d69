"""Parsers that find syntax errors: those of the standard library and YAML's in this process, others as supervised tools.

Nothing in the files is imported, constructed or executed. Each parser here returns line and message of the
first error, or None, and is loaded when it is first needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.syntax import Language, read_tool_output
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchSpec
from holdfast.runner.context import RunContext
from holdfast.runner.launch import wait_or_stop

_Found = tuple[int, str] | None
_filters = threading.Lock()
"""The filters of warnings belong to the whole process, so two threads must not set and restore them at once."""


class _NotJudged(Exception):  # noqa: N818 - it is no error: the file declares entities, which cost without bound
    """The document defines entities; expanding them is not worth the risk."""


async def parse(
    context: RunContext, language: Language, files: Mapping[str, bytes], owner: str, attempt: int
) -> dict[str, tuple[int, str]]:
    """Return line and message of the first error of each file, by key. Files without a parser have none."""
    if language not in _PARSERS:
        return await _parse_with_tool(context, language, files, owner, attempt)
    found = {key: await asyncio.to_thread(_parse, language, data) for key, data in files.items()}
    return {key: error for key, error in found.items() if error is not None}


def _parse(language: Language, data: bytes) -> _Found:
    try:
        return _PARSERS[language](data)
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text"
    except (RecursionError, MemoryError, OverflowError):
        return None  # Too deeply nested for this interpreter; another may be able to read it.


def _python(data: bytes) -> _Found:
    try:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "file", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except ValueError as error:
        return 1, str(error)
    return None


def _json(data: bytes) -> _Found:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    return None


def _toml(data: bytes) -> _Found:
    import tomllib

    try:
        tomllib.loads(data.decode().replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        return int(line) if line.isdecimal() else data.count(b"\n") + 1, message
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


_TIMEOUT_S = 20.0
_SCRATCH = "syntax-"

# Either way of reading a script will do: whether it is a module is said in a file that is not here. An error in a
# module carries no line, so node is asked once more about such a file.
_NODE = """
const fs = require("fs"), vm = require("vm"), {spawnSync} = require("child_process");
const wrapper = ["exports", "require", "module", "__filename", "__dirname"];
for (const name of process.argv.slice(1)) {
  const text = fs.readFileSync(name, "utf8").replace(/^#!.*/, "");
  const errors = [];
  for (const parse of [() => vm.compileFunction(text, wrapper, {filename: name}), () => new vm.SourceTextModule(text)]) {
    try { parse(); } catch (error) { errors.push(error); }
  }
  if (errors.length < 2) continue;
  let said = errors[0].stack, message = errors[0].message;
  if (/^\\s*(import|export)\\b/m.test(text)) {
    fs.writeFileSync(name + ".mjs", text);
    said = spawnSync(process.execPath, ["--check", name + ".mjs"], {encoding: "utf8"}).stderr;
    message = errors[1].message;
  }
  const line = /:(\\d+)$/.exec((said || "").split("\\n")[0]);
  console.log(`${name}:${line ? line[1] : 1}: ${message}`);
}
"""
_RUBY = """
ARGV.each do |name|
  begin
    RubyVM::InstructionSequence.compile(File.read(name, encoding: "utf-8"), name)
  rescue SyntaxError => error
    line = error.message[/:(\\d+):/, 1] || 1
    puts "#{name}:#{line}: #{error.message.lines.map(&:strip).join(" ")}"
  end
end
"""


@dataclass(frozen=True, slots=True)
class _Tool:
    """How to ask one program about many files; their names follow `argv`. `suffix` is what the program expects."""

    program: str
    suffix: str
    argv: tuple[str, ...]


def _each(command: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", f'for file; do {command} "$file"; done', "sh")


_TOOLS = {
    Language.SH: _Tool("sh", "sh", _each("sh -n")),
    Language.BASH: _Tool("bash", "sh", _each("bash -n")),
    Language.JAVASCRIPT: _Tool(
        "node", "js", ("node", "--experimental-vm-modules", "--no-warnings", "-e", _NODE, "--")
    ),
    Language.RUBY: _Tool("ruby", "rb", ("ruby", "--disable=gems", "-e", _RUBY, "--")),
    Language.PHP: _Tool("php", "php", _each("php -n -l")),
    Language.GO: _Tool("gofmt", "go", ("gofmt", "-e", "-l")),
}


async def _parse_with_tool(
    context: RunContext, language: Language, files: Mapping[str, bytes], owner: str, attempt: int
) -> dict[str, tuple[int, str]]:
    """Ask a tool about the files. A missing tool finds nothing.

    A runner that is killed here leaves copies of files; the next one of the run removes them.
    """
    tool = _TOOLS.get(language)
    if tool is None or shutil.which(tool.program) is None:
        return {}
    # File names are plain numbers, so none can look like an option.
    keys = {f"{number}.{tool.suffix}": key for number, key in enumerate(files)}
    folder = await asyncio.to_thread(_lay_out, context, {name: files[key] for name, key in keys.items()})
    try:
        output = await _run_tool(context, (*tool.argv, *keys), folder, owner, attempt)
    except HoldfastError:
        return {}  # No process could be started: the project's own checks must be enough.
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    faults: dict[str, tuple[int, str]] = {}
    for name, line, message in read_tool_output(output):
        if name in keys:
            faults.setdefault(keys[name], (line, message))
    return faults


async def _run_tool(
    context: RunContext, argv: tuple[str, ...], folder: Path, owner: str, attempt: int
) -> str:
    key = context.check_key(owner, attempt, "syntax")
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(folder)}
    sandbox = context.sandbox.policy(folder, (argv[0],), env) if context.sandbox else None
    await context.fleet.launch(LaunchSpec(key, argv, folder, env, timeout_s=_TIMEOUT_S, sandbox=sandbox))
    await wait_or_stop(context, key)
    return context.fleet.output(key).data.decode(errors="replace")


def _lay_out(context: RunContext, files: Mapping[str, bytes]) -> Path:
    """Write the files into a new folder, and remove those that a killed runner left."""
    root = context.directory.root
    ours = f"{_SCRATCH}{context.epoch}-"
    for left in root.glob(f"{_SCRATCH}*"):
        if not left.name.startswith(ours):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=root, prefix=ours))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
