"""Scripts from a file, and the command that serves them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripted_model import Call, Conversation, ModelFault, Script, Shell, Write
from tests.scripted_model.requests_by_hand import chat, post
from tests.scripted_model.script_file import ScriptFileError, read_scripts

SCRIPTS = """
[T1]
say = "Wrote it."
tokens = [7, 3]
actions = [{ write = "a.txt", content = "hi\\n" }, { shell = "cat a.txt" }]

[T2]
fault = "usage-limit"
after = 1
resets_in_s = 60

[review]
match = "(?i)review"
say = "Looks good."

["*"]
say = "Nothing for me."
"""
ROOT = Path(__file__).parents[2]


def _file(place: Path, text: str = SCRIPTS, name: str = "scripts.toml") -> Path:
    path = place / name
    path.write_text(text)
    return path


def test_a_script_is_chosen_by_its_task_a_pattern_or_for_the_rest(tmp_path: Path) -> None:
    """The pattern comes first: a review of a task names that task, too."""
    choose = read_scripts(_file(tmp_path))
    assert choose("# Task T1: Greet") == Script(
        (Write("a.txt", "hi\n"), Shell("cat a.txt")), say="Wrote it.", tokens=(7, 3)
    )
    assert choose("# Task T2") == Script(fault=ModelFault.USAGE_LIMIT, after=1, resets_in_s=60)
    assert choose("# Task T1\nReview what was done.").say == "Looks good."
    assert choose("Hello").say == "Nothing for me."


def test_json_says_the_same(tmp_path: Path) -> None:
    """For those who make scripts by a program."""
    path = _file(tmp_path, json.dumps({"T1": {"actions": [{"shell": "ls"}]}}), "scripts.json")
    assert read_scripts(path)("# Task T1") == Script((Shell("ls"),))


def test_arguments_can_hold_what_came_back_from_earlier_tools(tmp_path: Path) -> None:
    """The whole of the last result, or what a pattern finds in the latest that has it."""
    call = {
        "call": "take",
        "arguments": {"last": "{result}", "in": [{"run": '{result:"run": "([^"]+)"}'}], "n": 1},
    }
    path = _file(tmp_path, json.dumps({"*": {"actions": [call]}}), "scripts.json")
    action = read_scripts(path)("").actions[0]
    assert isinstance(action, Call)
    assert callable(action.arguments)
    made = action.arguments(Conversation("", ('{"run": "01"}', "ready")))
    assert made == {"last": "ready", "in": [{"run": "01"}], "n": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[T1]\nsays = 'x'", "unknown field `says`"),
        ("[T1]\nfault = 'flood'", "Invalid enum value 'flood'"),
        ("[T1]\nactions = [{ shell = 'ls', write = 'a' }]", "one of write, shell and call"),
        ("[T1", "at the end of a table declaration"),
    ],
)
def test_a_file_that_is_no_script_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    """By its field, not by an answer that never comes."""
    with pytest.raises(ScriptFileError, match=words):
        read_scripts(_file(tmp_path, text))


def test_the_command_prints_where_it_serves_and_what_was_asked(tmp_path: Path) -> None:
    """An interrupt ends it."""
    command = [sys.executable, "-m", "tests.scripted_model", str(_file(tmp_path))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().split()[4].rstrip(".")
        assert post(f"{url}/v1/chat/completions", chat(made=1)).status == 200
        lines = iter(serving.stdout.readline, "")
        asked = next(line for line in lines if line.startswith("POST"))
        serving.send_signal(signal.SIGINT)
        ended = serving.wait(10)
    assert url.startswith("http://127.0.0.1:")
    assert asked.startswith("POST /ok/v1/chat/completions")
    assert 'T1, 1 call made: calls run_shell_command {"background": false, "command": "cat a.txt"}' in asked
    assert ended == 130


def test_the_command_refuses_what_is_no_script(tmp_path: Path) -> None:
    """With the reason, before it serves."""
    command = [sys.executable, "-m", "tests.scripted_model", str(_file(tmp_path, "[T1]\nsays = 'x'"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown field `says`" in done.stderr
