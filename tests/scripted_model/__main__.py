"""Serves the scripts of a file until it is interrupted: `python -m tests.scripted_model SCRIPT.toml [--port N]`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from tests.scripted_model.script import ModelFault
from tests.scripted_model.script_file import read_scripts
from tests.scripted_model.server import ScriptedModel

_BASE_URLS = {
    "OPENAI_BASE_URL": "/v1",
    "OPENAI_API_BASE": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
}


def main() -> int:
    """Serve, and print the addresses and every request."""
    arguments = argparse.ArgumentParser(prog="python -m tests.scripted_model", description=__doc__)
    arguments.add_argument("script", type=Path, help="a TOML or JSON file with a script for each task")
    arguments.add_argument("--port", type=int, default=0, help="a free one unless given")
    arguments.add_argument("--model", action="append", help="a name for the list of models; can be repeated")
    given = arguments.parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda number, _frame: sys.exit(128 + number))
    try:
        scripts = read_scripts(given.script)
        model = ScriptedModel(
            scripts, models=tuple(given.model or ("fake-1",)), port=given.port, notice=_print_line
        )
    except (HoldfastError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with model:
        _introduce(model)
        signal.pause()
    return 0


def _print_line(text: str) -> None:
    print(text, flush=True)


def _introduce(model: ScriptedModel) -> None:
    _print_line(f"The model is at {model.url()}. Any key will do.")
    for name, path in _BASE_URLS.items():
        _print_line(f"  {name}={model.url()}{path}")
    _print_line("For a fault in every script, put its name in the place of ok:")
    _print_line(f"  {' '.join([fault for fault in ModelFault if fault != 'refused'])} rate-limit-once")
    _print_line(f"Nobody listens at {model.url('refused')}.")


if __name__ == "__main__":
    sys.exit(main())
