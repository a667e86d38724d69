"""Help, version and mistyped commands: what somebody meets first."""

from __future__ import annotations

import pytest

from holdfast import __version__
from holdfast.cli.arguments import JSON, Argument
from holdfast.cli.commands import COMMANDS, module_of
from holdfast.cli.main import main
from tests.commands_page import PAGE, page


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`COMMAND --help` says what the command does, and changes nothing."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert COMMANDS[command].summary[:30] in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_module_of_its_name(command: str) -> None:
    """To add a command takes one file and one row: the module declares the arguments and does the work."""
    module = module_of(command)
    assert module.__name__ == f"holdfast.cli.{command.replace(' ', '_')}"
    assert module.ARGUMENTS
    assert callable(module.execute)


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has to guess what there is."""
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f"\n  {command} " in said for command in COMMANDS)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Bug reports need it."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_a_mistyped_command_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing mistake costs one look, not a search."""
    assert main(["stauts"]) == 2
    assert 'did you mean "status"?' in capsys.readouterr().err


def test_no_command_at_all_is_a_usage_error_that_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts must not take silence for success, and people see what there is."""
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(f"\n  {command} " in said for command in COMMANDS)


def test_the_help_groups_commands_by_what_they_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever wants to stop a run reads the few commands that steer, not all of them."""
    with pytest.raises(SystemExit):
        main(["--help"])
    sections = capsys.readouterr().out.split("\n\n")
    steering = next(section for section in sections if section.startswith("steer:\n"))
    assert all(f"\n  {name} " in steering for name, row in COMMANDS.items() if row.group == "steer")
    assert "\n  doctor " not in steering


def test_the_page_of_commands_is_current() -> None:
    """`python -m tests.commands_page` writes it."""
    assert PAGE.read_text() == page()


WITHOUT_JSON = {
    "init",
    "demo",
    "logs",
    "review",
    "report",
    "acp",
    "mcp",
    "serve",
    "worker",
    "watch",
    "completion",
}
"""They write a file, print what others wrote, serve a program, a page or a screen, or are told by agents."""


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in WITHOUT_JSON])
def test_every_other_command_takes_json(command: str) -> None:
    """A program asks like a person does, and gets whole ids and exact times."""
    assert JSON in module_of(command).ARGUMENTS


@pytest.mark.parametrize("command", COMMANDS)
def test_run_is_optional_and_comes_before_task(command: str) -> None:
    """One order everywhere: nobody has to remember a command's own."""
    names = [one.names[0] for one in module_of(command).ARGUMENTS if isinstance(one, Argument)]
    details = {one.names[0]: one.details for one in module_of(command).ARGUMENTS if isinstance(one, Argument)}
    if "run" in names:
        assert details["run"]["nargs"] == "?"
        assert names.index("run") == 0 or all(name.startswith("-") for name in names[: names.index("run")])
    if "task" in names:
        assert names[names.index("task") - 1] == "run"
