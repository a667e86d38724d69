"""`holdfast report`: how an agent tells what it is doing. It needs no runner, no network and almost no time.

Agents call it often and from inside sandboxes. So nothing heavy is imported here, not even argparse, which would take
longer than everything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from holdfast.core.ids import ID_PATTERN, is_valid_id
from holdfast.errors import HoldfastError
from holdfast.report_channel import (
    CONTRACT_BYTES_MAX,
    HINT,
    NUMBERS,
    REPORT_VARIABLE,
    WAKE_VARIABLE,
    ReportData,
    checked_contract,
    checked_number,
    checked_question,
    send_report,
)

_USAGE = """\
usage: holdfast report WHAT [OPTION VALUE ...]

for agents: tell how far you are; if you are cut off, the next agent gets it

  progress 40               how much is done, from 0 to 100
  section --done X --next Y the last section that is finished, the one that comes next
  file PATH [--line N]      where you work
  confidence 0.9            how sure you are of the result, from 0 to 1
  blocked "why"             what keeps you from going on
  ask "question"            what only a person can decide; then end your turn. The next one begins with the answer
      [--option A --option B]
  summary "text"            what you did, in a sentence
  cost 0.42                 what was spent since the last such report, in dollars
  tokens 1200               what was used since the last such report, in tokens
  interface NAME TEXT       a contract that other tasks can build on; or --file F, or - for standard input

Each of these is also an option (--progress 40 --file PATH …), so one call can say several.
"""
_KEYS = {"cost": "cost_usd", "done": "section_done", "next": "section_next"}
_VALUED = ("progress", "file", "confidence", "blocked", "summary", "cost", "tokens")
_OPTIONS = (*_VALUED, "line", "done", "next")
ARGUMENTS = ((("words",), {"nargs": "..."}),)
"""Any words: this module parses them, not argparse, see `main.py`."""


def execute(words: Sequence[str]) -> int:
    """Append one line to the attempt's reports and wake the runner, if one listens."""
    if {"-h", "--help"} & set(words):
        print(_USAGE, end="")
        sys.exit(0)
    path = os.environ.get(REPORT_VARIABLE)
    if not path:
        raise HoldfastError(
            f"there is no attempt to report on: {REPORT_VARIABLE} is not set",
            "Only an agent that Holdfast started can report.",
        )
    is_question = list(words[:1]) == ["ask"]
    said = _question(words[1:]) if is_question else _said(*_parse(words))
    send_report(path, os.environ.get(WAKE_VARIABLE, ""), said)
    if is_question:
        print("A person is asked. End your turn now: you, or the next agent, go on with the answer.")
    return 0


def _question(words: Sequence[str]) -> ReportData:
    """Return a question to a person, with the options to choose from."""
    asked: list[str] = []
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            asked.extend(rest)
        elif word.startswith("--option="):
            options.append(_stored(word.removeprefix("--option=")))
        elif word == "--option":
            options.append(_stored(_next(rest, word)))
        elif word.startswith("--"):
            raise HoldfastError(f"`report ask` has no option {word}", HINT)
        else:
            asked.append(word)
    if len(asked) != 1:
        raise HoldfastError("`report ask` takes one question, in quotes", HINT)
    return checked_question(_stored(asked[0]), options)


def _parse(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the values in their order and the options by name."""
    values: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            values.extend(rest)
        elif word.startswith("--"):
            name, given, value = word[2:].partition("=")
            if name not in _OPTIONS:
                raise HoldfastError(f"`report` has no option --{name}", HINT)
            options[name] = value if given else _next(rest, word)
        else:
            values.append(word)
    return values, options


def _next(rest: Iterator[str], option: str) -> str:
    value = next(rest, None)
    if value is None:
        raise HoldfastError(f"{option} needs a value", HINT)
    return value


def _said(values: list[str], options: dict[str, str]) -> ReportData:
    """Return the report as it is stored."""
    what, values = (values[0], values[1:]) if values else ("section", [])
    if what == "interface":
        return _interface(values, options)
    if what in _VALUED and len(values) == 1:
        options = {**options, what: values[0]}
    elif what != "section" or values:
        raise HoldfastError(f"`report {' '.join([what, *values])}` cannot be understood", HINT)
    if not options:
        raise HoldfastError("the report says nothing", HINT)
    return {_KEYS.get(name, name): _value(name, text) for name, text in options.items()}


def _value(name: str, text: str) -> str | float:
    if name not in NUMBERS:
        return _stored(text)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise HoldfastError(
            f"{name} takes a number from 0 to {NUMBERS[name]:g}, not {text!r}", HINT
        ) from None
    return int(checked_number(name, number)) if name in ("line", "tokens") else checked_number(name, number)


def _stored(text: str) -> str:
    """Return a text that can be stored: an argument may hold bytes that are not valid characters."""
    return text.encode(errors="replace").decode()


def _interface(values: list[str], options: dict[str, str]) -> ReportData:
    """Return an interface: its name and its contract, which is an argument, a file, or standard input."""
    name = values[0] if values else ""
    if not is_valid_id(name):
        raise HoldfastError(f"{name!r} cannot name an interface", f"Use a name like {ID_PATTERN}.")
    contract = checked_contract(name, _stored(_contract(values[1:], options)))
    return {"interface": name, "contract": contract}


def _contract(words: list[str], options: dict[str, str]) -> str:
    if not words and list(options) == ["file"]:
        with open(options["file"], errors="replace") as source:  # noqa: PTH123 - pathlib takes long to start
            return source.read(CONTRACT_BYTES_MAX + 1)
    if words == ["-"] and not options:
        return sys.stdin.read(CONTRACT_BYTES_MAX + 1)
    if len(words) == 1 and not options:
        return words[0]
    raise HoldfastError(
        "the contract is given once: as a text in quotes, as --file F, or as - for standard input", HINT
    )
