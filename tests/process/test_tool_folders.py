"""Which folders programs need, as pyenv, nvm, cargo, pipx and others lay them out below a home."""

from __future__ import annotations

from pathlib import Path

from holdfast.process.tool_folders import ToolFolders, tools_to_show
from tests.support.repositories import write


def shown(home: Path, *path: str) -> ToolFolders:
    """Return what is shown of a home that is covered, for a PATH of these folders in it."""
    return tools_to_show(":".join(str(home / folder) for folder in path), ("sh",), home, home / "p", (home,))


def names(home: Path, *path: str) -> set[str]:
    """Return what is shown, relative to the home."""
    return {
        str(folder.relative_to(home)) for folder in shown(home, *path).folders if folder.is_relative_to(home)
    }


def test_a_folder_of_programs_alone_is_shown_alone(tmp_path: Path) -> None:
    """Nothing beside it is."""
    write(tmp_path / "bin" / "tool", "")
    write(tmp_path / "notes", "")
    assert names(tmp_path, "bin") == {"bin"}


def test_an_installation_is_shown_whole(tmp_path: Path) -> None:
    """A program of nvm's node needs the libraries beside it; a virtual environment needs its Python."""
    write(tmp_path / ".nvm/versions/node/v22/bin/node", "")
    write(tmp_path / ".nvm/versions/node/v22/lib/npm.js", "")
    write(tmp_path / "venv/bin/pytest", "")
    write(tmp_path / "venv/pyvenv.cfg", f"home = {tmp_path}/python/bin\nversion = 3.12\n")
    write(tmp_path / "python/bin/python3", "")
    assert {".nvm/versions/node/v22", "venv", "python"} <= names(
        tmp_path, ".nvm/versions/node/v22/bin", "venv/bin"
    )


def test_a_shim_is_shown_with_the_versions_that_it_chooses_from(tmp_path: Path) -> None:
    """The shims of pyenv and the programs of npm are useless by themselves."""
    write(tmp_path / ".pyenv/shims/python", "")
    write(tmp_path / "node_modules/.bin/tsc", "")
    assert {".pyenv", "node_modules"} <= names(tmp_path, ".pyenv/shims", "node_modules/.bin")


def test_where_a_link_leads_is_shown(tmp_path: Path) -> None:
    """pipx and native installers put only links into ~/.local/bin."""
    write(tmp_path / ".local/share/pipx/venvs/black/bin/black", "")
    write(tmp_path / ".local/share/pipx/venvs/black/pyvenv.cfg", "home = /usr/bin\n")
    write(tmp_path / ".local/share/keyrings/login", "hunter2")
    write(tmp_path / ".local/bin/own", "")
    (tmp_path / ".local/bin/black").symlink_to(tmp_path / ".local/share/pipx/venvs/black/bin/black")
    found = names(tmp_path, ".local/bin")
    assert ".local/share/pipx/venvs/black" in found
    assert not found & {".local", ".local/share", ".local/share/keyrings"}


def test_a_login_is_withheld_even_in_a_folder_that_is_shown(tmp_path: Path) -> None:
    """A PATH may name a folder that nobody expects programs in."""
    write(tmp_path / ".docker/config.json", "hunter2")
    write(tmp_path / ".docker/docker-compose", "")
    assert shown(tmp_path, ".docker").logins == (tmp_path / ".docker/config.json",)


def test_of_cargo_only_the_programs_are_shown(tmp_path: Path) -> None:
    """It keeps its token in the folder around them, which looks like an installation."""
    write(tmp_path / ".cargo/bin/cargo", "")
    write(tmp_path / ".cargo/lib/x", "")
    assert names(tmp_path, ".cargo/bin") == {".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml"}


def test_no_path_makes_a_covered_folder_visible(tmp_path: Path) -> None:
    """Not by naming the home itself, nor a folder around it, nor programs that lie directly in the home."""
    write(tmp_path / "home" / "lib" / "x", "")
    write(tmp_path / "home" / "bin" / "x", "")
    home = tmp_path / "home"
    found = tools_to_show(f"{home}:{tmp_path}:{home}/bin:/", ("sh",), home, home / "p", (home,))
    assert [folder for folder in found.folders if folder.is_relative_to(tmp_path)] == [home / "bin"]


def test_of_a_program_that_is_named_by_its_path_nothing_else_of_the_folder_is_shown(tmp_path: Path) -> None:
    """A plan names it, and a plan must not show an agent what lies beside it."""
    write(tmp_path / "stuff" / "agent", "")
    (tmp_path / "stuff" / "agent").chmod(0o755)
    write(tmp_path / "stuff" / "diary", "")

    def shown_of(name: str) -> list[Path]:
        found = tools_to_show("", (str(tmp_path / "stuff" / name),), tmp_path, tmp_path / "p", (tmp_path,))
        return [path for path in found.folders if path.is_relative_to(tmp_path)]

    assert shown_of("agent") == [tmp_path / "stuff" / "agent"]
    assert shown_of("diary") == []


def test_a_program_that_is_named_does_not_show_what_merely_looks_like_its_installation(
    tmp_path: Path,
) -> None:
    """`bin` beside `lib` is a project of the user's as often. Of what looks like a virtual environment, its parts are shown."""
    for name in ("other/bin/fmt", "env/bin/fmt", ".pyenv/versions/3.12/bin/fmt"):
        program(tmp_path / name)
    write(tmp_path / "other/lib/x", "")
    write(tmp_path / ".pyenv/versions/3.12/lib/x", "")
    write(tmp_path / "env/pyvenv.cfg", f"home = {tmp_path}/.ssh/bin\n")
    write(tmp_path / ".ssh/id", "hunter2")
    assert named(tmp_path, "other/bin/fmt") == {"other/bin/fmt"}
    write(tmp_path / "env/.env", "hunter2")
    assert named(tmp_path, "env/bin/fmt") == {"env/bin/fmt", *(f"env/{name}" for name in PARTS)}
    assert ".pyenv/versions/3.12" in named(tmp_path, ".pyenv/versions/3.12/bin/fmt")


def test_a_repository_shows_nothing_outside_of_it_by_a_link(tmp_path: Path) -> None:
    """Neither a link to a program, nor one to a folder on the PATH, nor a link of the user's that comes by there."""
    program(tmp_path / ".ssh/agent")
    write(tmp_path / ".ssh/id", "hunter2")
    program(tmp_path / "p/bin/own")
    program(tmp_path / "tools/own")
    (tmp_path / "p/bin/x").symlink_to("../../.ssh/agent")
    (tmp_path / "p/more").symlink_to("../.ssh")
    (tmp_path / "tools/x").symlink_to(tmp_path / "p/bin/x")
    assert names(tmp_path, "p/bin", "p/more", "tools") == {"p/bin", "tools"}
    assert named(tmp_path, "p/bin/x") == set()
    assert named(tmp_path, "p/bin/own") == {"p/bin/own"}


def test_a_virtual_environment_in_the_checkout_names_only_a_python_that_is_known(tmp_path: Path) -> None:
    """Its settings may be a file of the repository. Pythons of the user's PATH and of known tools are shown."""
    write(tmp_path / ".ssh/id", "hunter2")
    write(tmp_path / "opt/bin/python3", "")
    write(tmp_path / "opt/lib/x", "")
    write(tmp_path / ".local/share/uv/python/3.12/bin/python3", "")
    write(tmp_path / "p/.git/config", "")
    program(tmp_path / "p/.venv/bin/pytest")

    def with_python(home: str, *path: str) -> set[str]:
        write(tmp_path / "p/.venv/pyvenv.cfg", f"home = {tmp_path / home}\n")
        own = {"p/.venv", "p/.venv/bin/pytest", *(f"p/.venv/{name}" for name in PARTS)}
        by_name = named(tmp_path, "p/.venv/bin/pytest", *path) - own
        assert by_name == names(tmp_path, "p/.venv/bin", *path) - own
        return by_name

    assert with_python(".ssh/bin") == set()
    assert with_python("p/.git/bin") == set()
    assert with_python("opt/bin") == set()
    assert with_python("opt/bin", "opt/bin") == {"opt", "opt/bin"}
    assert with_python(".local/share/uv/python/3.12/bin") == {".local/share/uv/python/3.12"}


def test_no_part_of_a_virtual_environment_is_a_link_to_something_else(tmp_path: Path) -> None:
    """Neither one that a command names, nor one on the user's PATH, if the repository can have made the link."""
    write(tmp_path / ".ssh/id", "hunter2")
    write(tmp_path / "p/private/key", "hunter2")
    program(tmp_path / "p/env/bin/tool")
    write(tmp_path / "p/env/pyvenv.cfg", "")
    (tmp_path / "p/env/lib").symlink_to("../../.ssh")
    (tmp_path / "p/env/lib64").symlink_to("bin")
    shown = named(tmp_path, "p/env/bin/tool")
    assert ("p/env/lib" in shown, "p/env/lib64" in shown) == (False, True)
    (tmp_path / "p/tools").symlink_to("private")
    assert names(tmp_path, "p/tools") == set()
    (tmp_path / "p/node_modules").symlink_to("env")
    program(tmp_path / "p/env/.bin/tsc")
    assert "p/node_modules" not in named(tmp_path, "p/node_modules/.bin/tsc")


def test_a_program_of_a_package_is_shown_with_the_packages_and_what_activates_an_environment_is_read(
    tmp_path: Path,
) -> None:
    """Both are named by their whole path in checks, as in `. ~/env/bin/activate`."""
    program(tmp_path / "p/node_modules/.bin/tsc")
    assert named(tmp_path, "p/node_modules/.bin/tsc") == {"p/node_modules", "p/node_modules/.bin/tsc"}
    write(tmp_path / "env/pyvenv.cfg", "")
    write(tmp_path / "env/bin/activate", "")
    assert {"env/bin", "env/lib"} <= named(tmp_path, "env/bin/activate")


PARTS = ("bin", "include", "lib", "lib64", "pyvenv.cfg", "share")


def program(path: Path) -> None:
    """Write a program."""
    write(path, "")
    path.chmod(0o755)


def named(home: Path, name: str, *path: str) -> set[str]:
    """Return what is shown of a home because a command names a program in it, relative to the home."""
    search_path = ":".join(str(home / folder) for folder in path)
    found = tools_to_show(search_path, (str(home / name),), home, home / "p", (home,))
    return {str(folder.relative_to(home)) for folder in found.folders if folder.is_relative_to(home)}
