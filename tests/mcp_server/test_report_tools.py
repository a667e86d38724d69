"""The tools of an agent that Holdfast started on a task: the same words as `holdfast report`, in the same file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.lead_client import STARTED, RefusedError, leading, led
from tests.support.command import COMMAND, Cli

TOOLS = {"report", "publish_interface", "ask_person"}


def written(file: Path) -> list[Any]:
    """Return the reports in a file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_reports_over_mcp_are_those_of_the_command(tmp_path: Path) -> None:
    """An agent on a task gets reporting and nothing else; each call is one line of the channel."""
    file = tmp_path / ".holdfast" / "report.jsonl"

    async def play() -> None:
        async with leading(tmp_path, server=STARTED, HOLDFAST_REPORT=str(file)) as leader:
            assert {tool.name for tool in (await leader.client.list_tools()).tools} == TOOLS
            await leader("report", progress=40, section_done="X", section_next="Y", file="a.py", line=7)
            await leader("report", confidence=0.9, blocked="no key", summary="all done", cost_usd=0.5)
            await leader("publish_interface", name="api", contract="def f(): ...")
            await leader("ask_person", question="Which?", options=["this", "that"])

    led(play)
    first, second, third, fourth = written(file)
    assert first == {"progress": 40.0, "section_done": "X", "section_next": "Y", "file": "a.py", "line": 7}
    assert second == {"confidence": 0.9, "blocked": "no key", "summary": "all done", "cost_usd": 0.5}
    assert third == {"interface": "api", "contract": "def f(): ..."}
    assert fourth == {"question": "Which?", "options": ["this", "that"]}


def test_reports_that_make_no_sense_are_refused_in_words(tmp_path: Path) -> None:
    """Errors have a type and say the way out; nothing is written."""
    file = tmp_path / ".holdfast" / "report.jsonl"
    senseless: list[tuple[str, dict[str, Any], str]] = [
        ("report", {"progress": 101}, "from 0 to 100"),
        ("report", {}, "says nothing"),
        ("publish_interface", {"name": "../x", "contract": "c"}, "cannot name an interface"),
        ("publish_interface", {"name": "x", "contract": ""}, "empty"),
    ]

    async def play() -> None:
        async with leading(tmp_path, HOLDFAST_REPORT=str(file)) as leader:
            for tool, arguments, words in senseless:
                with pytest.raises(RefusedError, match=words) as refused:
                    await leader(tool, **arguments)
                assert refused.value.hint

    led(play)
    assert not file.exists()


def test_no_run_is_led_from_a_tasks_workspace(tmp_path: Path) -> None:
    """Where the variables did not reach the server, the agent is told which are missing."""
    cli = Cli.of(tmp_path / "p")
    inside = cli.here / ".holdfast" / "work" / "01-x" / "0"
    inside.mkdir(parents=True)

    async def play() -> None:
        async with leading(inside) as leader:
            with pytest.raises(RefusedError, match="workspace of a task") as refused:
                await leader("open_run")
            assert "HOLDFAST_REPORT" in refused.value.hint

    led(play)


def test_without_the_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    """The extra is named; everything else works without it."""
    hidden = (
        "import sys; sys.modules['mcp'] = None; from holdfast.cli.main import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert "holdfast[mcp]" in done.stderr


def test_looking_at_a_run_does_not_load_the_library(tmp_path: Path) -> None:
    """`status` must start at once: what the MCP server needs is loaded by the MCP server alone."""
    Cli.of(tmp_path / "p")
    command = [*COMMAND[:-2], "-X", "importtime", *COMMAND[-2:], "status"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "p", check=False)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "holdfast.cli.open_repo" in loaded
    assert not {"mcp", "anyio", "pydantic"} & loaded
