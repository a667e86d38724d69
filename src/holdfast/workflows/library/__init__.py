"""The workflows that come with Holdfast, each a file beside this one."""

from __future__ import annotations

from importlib.resources import files

from holdfast.errors import HoldfastError

_ENDING = ".yaml"


def builtin_names() -> list[str]:
    """Return the names of the workflows that come with Holdfast."""
    here = files(__name__).iterdir()
    return sorted(entry.name.removesuffix(_ENDING) for entry in here if entry.name.endswith(_ENDING))


def builtin_workflow(name: str) -> bytes:
    """Return the file of a workflow that comes with Holdfast."""
    if name not in builtin_names():
        raise HoldfastError(
            f"there is no workflow {name}", f"there are {', '.join(builtin_names())}; or name a file of yours"
        )
    return (files(__name__) / f"{name}{_ENDING}").read_bytes()
