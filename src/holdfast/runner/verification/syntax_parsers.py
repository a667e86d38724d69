"""Asks programs about syntax errors: the languages' own tools, and `library_parsers.py`. Each is supervised and has a time limit.

Nothing in the files is imported, constructed or executed, and none is read in this process: agents wrote them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.syntax import Language, read_tool_output
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchSpec
from holdfast.repo.files import remove_if_allowed
from holdfast.runner.context import RunContext
from holdfast.runner.launch import wait_or_stop
from holdfast.runner.verification import library_parsers

Texts = Mapping[Language, Mapping[str, bytes]]
"""The contents to judge, by their language and any key."""
_Errors = dict[str, tuple[int, str]]

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


_LIBRARY = (sys.executable, "-I", "-c", Path(library_parsers.__file__).read_text(encoding="utf-8"))
_TOOLS = {
    Language.PYTHON: _Tool(sys.executable, "py", _LIBRARY),
    Language.JSON: _Tool(sys.executable, "json", _LIBRARY),
    Language.TOML: _Tool(sys.executable, "toml", _LIBRARY),
    Language.YAML: _Tool(sys.executable, "yaml", _LIBRARY),
    Language.XML: _Tool(sys.executable, "xml", _LIBRARY),
    Language.SH: _Tool("sh", "sh", _each("sh -n")),
    Language.BASH: _Tool("bash", "sh", _each("bash -n")),
    Language.JAVASCRIPT: _Tool(
        "node", "js", ("node", "--experimental-vm-modules", "--no-warnings", "-e", _NODE, "--")
    ),
    Language.RUBY: _Tool("ruby", "rb", ("ruby", "--disable=gems", "-e", _RUBY, "--")),
    Language.PHP: _Tool("php", "php", _each("php -n -l")),
    Language.GO: _Tool("gofmt", "go", ("gofmt", "-e", "-l")),
}


async def parse(context: RunContext, texts: Texts, owner: str, attempt: int) -> _Errors:
    """Return line and message of the first error of each content, by key. What no program here can read has none.

    Each program is started once, however many files and languages it reads.
    """
    asked: dict[tuple[str, ...], dict[str, tuple[str, bytes]]] = {}
    for language, contents in texts.items():
        tool = _TOOLS[language]
        if shutil.which(tool.program) is not None:
            files = asked.setdefault(tool.argv, {})
            # File names are plain numbers, so none can look like an option.
            for key, data in contents.items():
                files[f"{len(files)}.{tool.suffix}"] = key, data
    return {
        key: error
        for argv, files in asked.items()
        for key, error in (await _ask(context, argv, files, owner, attempt)).items()
    }


async def _ask(
    context: RunContext,
    argv: tuple[str, ...],
    files: Mapping[str, tuple[str, bytes]],
    owner: str,
    attempt: int,
) -> _Errors:
    """Ask one program. If it does not end in time, what it has not read by then, the largest files, has no errors.

    A runner that is killed here leaves copies of files; the next one of the run removes them.
    """
    folder = await asyncio.to_thread(_lay_out, context, {name: data for name, (_, data) in files.items()})
    by_size = sorted(files, key=lambda name: len(files[name][1]))
    try:
        output = await _run_tool(context, (*argv, *by_size), folder, owner, attempt)
    except HoldfastError:
        return {}  # No process could be started: the project's own checks must be enough.
    finally:
        await asyncio.to_thread(remove_if_allowed, folder)
    faults: _Errors = {}
    for name, line, message in read_tool_output(output):
        if name in files:
            faults.setdefault(files[name][0], (line, message))
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
            remove_if_allowed(left)
    folder = Path(tempfile.mkdtemp(dir=root, prefix=ours))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
