"""The order that a supervisor gets, and the files that it keeps in the folder of its launch.

The order travels through a socket and is stored nowhere, because its environment may hold secrets.
"""

from __future__ import annotations

import marshal
import os
from _blake2 import blake2b  # hashlib would bring OpenSSL into every supervisor

from holdfast.disk_sync import sync

SUPERVISOR_NAME = "hf-supervisor"
"""What `ps` and `top` show of a supervisor."""
STARTED = b"started"
TAKEN = b"taken"
SHOW_VARIABLE = "HOLDFAST_SANDBOX_SHOW"
"""Names what the user lets every launch in a sandbox read, besides what it needs."""
_SIGNATURE = b', "signature": "'


class LaunchOrder:
    """One launch, as its supervisor needs it.

    `secret` proves to a later runner, and `signing_key` to the one that launched, that the exit record is the
    supervisor's. No agent sees them. `stdin` is a path, or empty for none; `secrets` must not appear in the log;
    `stop_signal` asks the tree to end; `lease` is the file that a runner holds locked for as long as it collects what
    launches leave, as seen from `folder`. `work` is `cwd` as seen from there: the supervisor adds it. `sandbox` is the command
    that runs `argv` in a sandbox; empty for none. `hosts` can be reached from there through a proxy; None if there is no
    proxy. `file_rules` make a sandbox by Landlock alone; empty for none. `links` are made in there, as target and name.
    `groups` are the control groups that bound it (see `cgroups.py`). `until` is when it ends unless it may go on, on the clock
    that also runs while the machine sleeps; 0 is never. Who renews it writes a later time into `until_file`.
    A plain class, because every supervisor would copy what dataclasses and named tuples import.
    """

    folder: str
    token: str
    secret: str
    signing_key: bytes
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: str
    timeout_s: float
    stall_s: float
    grace_s: float
    log_bytes_max: int
    secrets: list[bytes]
    stop_signal: int
    lease: str
    work: str
    sandbox: list[str]
    hosts: list[str] | None
    file_rules: list[tuple[str, int]]
    links: list[tuple[str, str]]
    groups: list[tuple[str, str, list[tuple[str, str]]]]
    until: float

    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)

    def encode(self) -> bytes:
        """Return the order for the socket. Both ends are the same interpreter, so marshal is safe."""
        return marshal.dumps(vars(self))

    @classmethod
    def decode(cls, data: bytes) -> LaunchOrder:
        """Read what `encode` wrote. Raises EOFError when the sender died in the middle of it."""
        return cls(**marshal.loads(data))  # noqa: S302 - only the runner that forked us can reach the socket


def record_file(folder: str) -> str:
    """The file that names the launch's supervisor, which locks it and fills it before the agent starts."""
    return f"{folder}/supervisor.json"


def file_identity(found: os.stat_result) -> str:
    """Return what tells a file from a copy of it, as its record says itself. It stays the same when the file is moved."""
    return f"{found.st_dev}:{found.st_ino}"


def exit_file(folder: str) -> str:
    """The file that says how the launch ended; the supervisor's last act."""
    return f"{folder}/exit.json"


def lost_file(folder: str) -> str:
    """The file that says that a launch on another machine is lost; who followed it wrote it."""
    return f"{folder}/lost"


def log_file(folder: str) -> str:
    """The first file of the launch's output; see `output_log.py` for the ones after it."""
    return f"{folder}/output.log"


def until_file(folder: str) -> str:
    """The file that says until when a launch may go on, if somebody far away must be able to tell when it is over."""
    return f"{folder}/until"


def write_until(folder: str, until: float) -> None:
    """Let a launch go on until then, on the clock of the boot. A power cut ends it anyway, so nothing is synced."""
    write_whole(until_file(folder), repr(until).encode(), durably=False)


def read_until(folder: str) -> float:
    """Return until when a launch may go on; 0 if nobody has renewed it."""
    try:
        with open(until_file(folder), "rb") as file:  # noqa: PTH123 - pathlib is too heavy for the supervisor
            return float(file.read(64))
    except (FileNotFoundError, ValueError):
        return 0.0


def scratch_folder(folder: str) -> str:
    """The folder for temporary files of a launch whose sandbox cannot give it an empty `/tmp`; gone with the launch."""
    return f"{folder}/scratch"


def draft_file(path: str) -> str:
    """The file that becomes `path` once it is whole. If a killed writer leaves it, it means nothing."""
    return f"{path}.tmp"


def make_folder(folder: str) -> None:
    """Make the folder of a launch, readable by this user only. Idempotent."""
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is too heavy for the supervisor
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folder(folder.rpartition("/")[0])
        make_folder(folder)


def to_json(record: dict[str, str | float]) -> bytes:
    """Return a flat record as JSON."""
    fields = [f'"{name}": {_literal(value)}' for name, value in record.items()]
    return f"{{{', '.join(fields)}}}\n".encode()


def _literal(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quote(value) if isinstance(value, str) else str(value)


def _quote(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from json import dumps  # only an error message needs it, and it would weigh on every supervisor

    return dumps(text)


def signed(record: dict[str, str | float], secret: str, key: bytes) -> bytes:
    """Return an exit record as JSON, with the secret, and with a signature that only who has `key` can make.

    The secret is public from now on, so it says nothing about a record that somebody changed later. The signature does.
    """
    content = to_json({**record, "proof": secret}).rstrip(b"}\n")
    return content + _SIGNATURE + _signature_of(content, key) + b'"}\n'


def is_signed(record: bytes, key: bytes) -> bool:
    """Tell whether an exit record was signed with this key and not changed since."""
    content, _, signature = record.rpartition(_SIGNATURE)
    return signature == _signature_of(content, key) + b'"}\n'


def _signature_of(content: bytes, key: bytes) -> bytes:
    return blake2b(content, key=key, digest_size=32).hexdigest().encode()


def write_whole(path: str, content: bytes, *, durably: bool) -> None:
    """Write a file that is there whole or not at all. An older one is replaced.

    Unless it is written `durably`, a power cut may take it away or tear it. A torn one is read as absent.
    """
    draft = draft_file(path)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, content)
        if durably:
            os.fsync(fd)
    except OSError:
        os.unlink(draft)  # noqa: PTH108
        raise
    finally:
        os.close(fd)
    os.replace(draft, path)  # noqa: PTH105 - pathlib is too heavy for the supervisor
    if durably:
        sync(path.rpartition("/")[0])
