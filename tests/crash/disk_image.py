"""A disk in memory: a folder's files and names, changed by recorded calls, with what is synced told from what is not.

    disk = DiskImage.read(folder)           the folder as it is now; all of it counts as synced
    disk.apply(call)                        what one recorded call did
    disk.whole().write_to(other)            what `kill -9` leaves: everything that was done
    disk.after(choice).write_to(other)      what a power cut leaves: `choice` decides about all that was not synced

Files are told apart by their inode, not by their names: what is written after a rename goes to the right file. A change
of names (create, rename, link, remove) is a step of the folders it concerns. Steps of one folder reach the disk in
order; a rename reaches it as a whole, also between two folders. What may be left of unsynced bytes is not decided here.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import msgspec

_EXCHANGE = 2  # RENAME_EXCHANGE
_PLAIN_ALLOCATION = (0, 1)  # with or without FALLOC_FL_KEEP_SIZE: bytes are only added


class ReplayError(AssertionError):
    """The recording and the image do not agree, so nothing that follows would prove anything."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a recording: a point and its effect, or (`number` 0) what the program printed.

    A negative result had no effect. Paths are relative to the recorded folder; absolute ones lie outside.
    """

    number: int = 0
    pid: int = 0
    is_main_process: bool = False
    comm: str = ""
    syscall: str = ""
    path: str = ""
    exchanges: int = 0
    is_alone: bool = False
    needs_room: bool = False
    result: int = 0
    inode: int = 0
    mode: int = 0
    size: int = 0
    mtime: int = 0
    offset: int = 0
    data: str = ""
    source: str = ""
    target: str = ""
    flags: int = 0
    is_synced: bool = False
    output: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes that were written at an offset, or a new size (`data` is None)."""

    offset: int
    data: bytes | None

    def on(self, content: bytes) -> bytes:
        """Return the content with this change made."""
        if self.data is None:
            return content[: self.offset].ljust(self.offset, b"\0")
        if not self.data:
            return content
        begin = content[: self.offset].ljust(self.offset, b"\0")
        return begin + self.data + content[self.offset + len(self.data) :]


@dataclass(frozen=True, slots=True)
class Content:
    """What one file holds, with its mode and time stamp."""

    data: bytes
    mode: int
    mtime: int


@dataclass(eq=False, slots=True)
class Inode:
    """A file, folder, link or pipe. `changes` is what happened to the bytes since `synced`.

    `names` is a folder as programs see it, `synced_names` as it is on the disk for sure, `steps` what lies between.
    """

    content: Content
    synced: Content | None = None
    changes: list[Change] = field(default_factory=list)
    target: str = ""
    names: dict[str, Inode] = field(default_factory=dict)
    synced_names: dict[str, Inode] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def is_folder(self) -> bool:
        """Whether it can hold names."""
        return stat.S_ISDIR(self.content.mode)


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One change of names: what each name of each folder stands for afterwards (None: nothing)."""

    names: tuple[tuple[Inode, str, Inode | None], ...]

    @property
    def folders(self) -> list[Inode]:
        """The folders it concerns."""
        return [folder for folder, _, _ in self.names]


class Choice(Protocol):
    """What a power cut leaves of that which was not synced."""

    def steps(self, folder: Inode) -> int:
        """Return how many of a folder's unsynced steps reached the disk."""

    def content(self, node: Inode) -> Content:
        """Return what a file with unsynced changes holds."""


@dataclass(frozen=True, slots=True)
class DiskEntry:
    """One name of a tree: what it stands for. Two names of the same file have the same `node`."""

    node: int
    content: Content
    target: str


@dataclass(frozen=True, slots=True)
class Tree:
    """All names of a disk at one moment, folders before what is in them."""

    entries: Mapping[str, DiskEntry]

    def digest(self, *, times: bool = True) -> str:
        """Return an id that two trees share only if every name, mode, byte, time stamp and hard link is the same.

        The time stamps of folders, links and pipes never count; without `times`, no time stamp does.
        """
        numbers: dict[int, int] = {}
        whole = hashlib.sha256()
        for path, entry in sorted(self.entries.items()):
            content = entry.content
            same = numbers.setdefault(entry.node, len(numbers))
            mtime = content.mtime if times and stat.S_ISREG(content.mode) else 0
            whole.update(
                repr((path, same, content.mode, mtime, _digest(content.data), entry.target)).encode()
            )
        return whole.hexdigest()

    def moved(self, names: Mapping[str, str]) -> Tree:
        """Return the same tree as if it had been made elsewhere: each of these names is replaced wherever it stands.

        Names of one length only, so that no size changes.
        """
        assert all(len(old) == len(new) for old, new in names.items())
        return Tree({_renamed(path, names): _moved(entry, names) for path, entry in self.entries.items()})

    def write_to(self, folder: Path) -> None:
        """Make a new folder that holds this tree."""
        folder.mkdir()
        made: dict[int, str] = {}
        for path, entry in self.entries.items():
            place = os.fsencode(f"{folder}/{path}").decode(errors="surrogateescape")
            if entry.node in made and not stat.S_ISDIR(entry.content.mode):
                os.link(made[entry.node], place, follow_symlinks=False)
                continue
            made[entry.node] = place
            _make(place, entry)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def _moved(entry: DiskEntry, names: Mapping[str, str]) -> DiskEntry:
    data = entry.content.data
    for old, new in names.items():
        data = data.replace(os.fsencode(old), os.fsencode(new))
    return DiskEntry(entry.node, replace(entry.content, data=data), _renamed(entry.target, names))


def _make(place: str, entry: DiskEntry) -> None:
    kind, mode = stat.S_IFMT(entry.content.mode), stat.S_IMODE(entry.content.mode)
    if kind == stat.S_IFDIR:
        os.mkdir(place)  # noqa: PTH102 - hundreds per moment
    elif kind == stat.S_IFLNK:
        os.symlink(entry.target, place)  # noqa: PTH211
        return
    elif kind == stat.S_IFIFO:
        os.mkfifo(place)
    else:
        with open(place, "wb") as file:  # noqa: PTH123
            file.write(entry.content.data)
    os.chmod(place, mode)  # noqa: PTH101
    if kind != stat.S_IFDIR:
        os.utime(place, ns=(entry.content.mtime, entry.content.mtime))


@lru_cache(maxsize=100_000)
def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class DiskImage:
    """The disk below one folder. It knows nothing of what the files mean."""

    def __init__(self) -> None:
        self.root = Inode(Content(b"", stat.S_IFDIR | 0o755, 0))
        self._by_inode: dict[int, Inode] = {}

    @classmethod
    def read(cls, folder: Path) -> DiskImage:
        """Return the image of a folder as it is now, all of it synced."""
        disk = cls()
        disk._by_inode[folder.stat().st_ino] = disk.root
        disk._read(folder, disk.root)
        return disk

    def _read(self, folder: Path, node: Inode) -> None:
        for path in sorted(folder.iterdir()):
            status = path.lstat()
            child = self._by_inode.get(status.st_ino)
            if child is None:
                child = self._by_inode[status.st_ino] = _node_of(path, status)
            node.names[path.name] = node.synced_names[path.name] = child
            if child.is_folder:
                self._read(path, child)

    # -- what a recorded call did -----------------------------------------------------------------------------

    def apply(self, call: RecordedCall) -> None:
        """Do what a recorded call did. What it printed, and calls without effect, change nothing."""
        if call.number and call.result >= 0:
            _EFFECTS[call.syscall](self, call)

    def _open(self, call: RecordedCall) -> None:
        if call.path.startswith("/"):
            return
        folder, name = self._place(call.path)
        if name in folder.names:
            self._resize(call)
        else:
            self._step((folder, name, self._new(call)))

    def _make(self, call: RecordedCall) -> None:
        self._step((*self._place(call.path), self._new(call)))

    def _link(self, call: RecordedCall) -> None:
        node = self._by_inode.get(call.inode) if not call.source.startswith("/") else None
        self._step((*self._place(call.path), node or self._new(call)))

    def _remove(self, call: RecordedCall) -> None:
        folder, name = self._place(call.path)
        self._known(folder, name)
        self._step((folder, name, None))

    def _rename(self, call: RecordedCall) -> None:
        if call.path.startswith("/"):
            self._step((*self._place(call.source), None))
            return
        place = self._place(call.path)
        if call.source.startswith("/"):
            self._step((*place, self._new(call)))
            return
        source = self._place(call.source)
        node = self._known(*source)
        other = place[0].names.get(place[1])
        if other is node:
            return  # two names of one file: rename does nothing
        self._step((*source, other if call.flags & _EXCHANGE else None), (*place, node))

    def _write(self, call: RecordedCall) -> None:
        data = bytes.fromhex(call.data)
        if call.offset < 0 or len(data) != call.result:
            raise ReplayError(
                f"point {call.number} wrote {call.result} bytes, of which {len(data)} are known"
            )
        self._change(call, Change(call.offset, data))

    def _resize(self, call: RecordedCall) -> None:
        self._change(call, Change(call.size, None))

    def _allocate(self, call: RecordedCall) -> None:
        if call.flags not in _PLAIN_ALLOCATION:
            raise ReplayError(f"point {call.number}: fallocate with flags {call.flags} is not modelled")
        self._resize(call)

    def _touch(self, call: RecordedCall) -> None:
        node = self._by_inode.get(call.inode)
        if node is not None:
            node.content = Content(node.content.data, call.mode, call.mtime)

    def _sync(self, call: RecordedCall) -> None:
        self._sync_node(self._of_inode(call))

    def _sync_all(self, _call: RecordedCall) -> None:
        for node in [self.root, *self._by_inode.values()]:
            self._sync_node(node)

    def _nothing(self, _call: RecordedCall) -> None:
        """Starting to write, as `sync_file_range` does, promises nothing about what is on the disk."""

    def _change(self, call: RecordedCall, change: Change) -> None:
        node = self._of_inode(call)
        data = change.on(node.content.data)
        if len(data) != call.size:
            raise ReplayError(
                f"point {call.number}: {call.path} has {call.size} bytes, the image {len(data)}"
            )
        node.changes.append(change)
        node.content = Content(data, call.mode, call.mtime)
        if call.is_synced:
            self._sync_node(node)

    def _sync_node(self, node: Inode) -> None:
        node.synced, node.changes = node.content, []
        _force(node)

    def _new(self, call: RecordedCall) -> Inode:
        content = Content(bytes.fromhex(call.data), call.mode, call.mtime)
        if stat.S_ISDIR(call.mode) and not call.syscall.startswith("mkdir"):
            raise ReplayError(f"point {call.number} brings a folder from outside, which is not recorded")
        node = Inode(content, target=call.target)
        if content.data:
            node.changes.append(Change(0, content.data))
        self._by_inode[call.inode] = node
        return node

    def _step(self, *names: tuple[Inode, str, Inode | None]) -> None:
        step = Step(names)
        for folder in dict.fromkeys(step.folders):
            folder.steps.append(step)
        _take(step, lambda folder: folder.names)

    def _place(self, path: str) -> tuple[Inode, str]:
        above, _, name = path.rpartition("/")
        folder = self.root
        for part in above.split("/") if above else ():
            folder = self._known(folder, part)
        return folder, name

    def _known(self, folder: Inode, name: str) -> Inode:
        if name not in folder.names:
            raise ReplayError(f"the image has no {name!r} there")
        return folder.names[name]

    def _of_inode(self, call: RecordedCall) -> Inode:
        if call.inode not in self._by_inode:
            raise ReplayError(f"point {call.number} changes {call.path}, which the image does not know")
        return self._by_inode[call.inode]

    # -- what is left -----------------------------------------------------------------------------------------

    def whole(self) -> Tree:
        """Return the disk as programs see it: what is there after every process was killed."""
        return Tree(dict(_entries(self.root, lambda node: node.names, lambda node: node.content)))

    def torn(self, call: RecordedCall) -> Tree | None:
        """Return the disk if the next call writes only half of its bytes before every process is killed.

        None if the call writes nothing that could be halved, or had no effect.
        """
        node = self._by_inode.get(call.inode)
        data = bytes.fromhex(call.data)
        if _EFFECTS[call.syscall] is not DiskImage._write or call.result < 1 or node is None:
            return None
        half = Change(call.offset, data[: len(data) // 2]).on(node.content.data)
        torn = Content(half, node.content.mode, call.mtime if len(data) > 1 else node.content.mtime)
        return Tree(
            dict(
                _entries(
                    self.root, lambda node: node.names, lambda other: torn if other is node else other.content
                )
            )
        )

    def after(self, choice: Choice) -> Tree:
        """Return the disk after a power cut; `choice` decides about everything that was not synced."""
        names = _names_after(self.root, choice)
        return Tree(
            dict(
                _entries(
                    self.root,
                    lambda node: names.get(node, node.synced_names),
                    lambda node: choice.content(node) if node.changes or node.synced is None else node.synced,
                )
            )
        )


_EFFECTS: dict[str, Callable[[DiskImage, RecordedCall], None]] = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), DiskImage._open),
    **dict.fromkeys(("mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"), DiskImage._make),
    **dict.fromkeys(("link", "linkat"), DiskImage._link),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), DiskImage._remove),
    **dict.fromkeys(("rename", "renameat", "renameat2"), DiskImage._rename),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), DiskImage._write),
    **dict.fromkeys(("sendfile", "splice", "copy_file_range"), DiskImage._write),
    **dict.fromkeys(("truncate", "ftruncate"), DiskImage._resize),
    "fallocate": DiskImage._allocate,
    **dict.fromkeys(("chmod", "fchmod", "fchmodat", "fchmodat2"), DiskImage._touch),
    **dict.fromkeys(("chown", "lchown", "fchown", "fchownat"), DiskImage._touch),
    **dict.fromkeys(("utime", "utimes", "futimesat", "utimensat"), DiskImage._touch),
    **dict.fromkeys(("fsync", "fdatasync"), DiskImage._sync),
    **dict.fromkeys(("syncfs", "sync"), DiskImage._sync_all),
    "sync_file_range": DiskImage._nothing,
}


def _node_of(path: Path, status: os.stat_result) -> Inode:
    data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    target = str(path.readlink()) if stat.S_ISLNK(status.st_mode) else ""
    content = Content(data, status.st_mode, status.st_mtime_ns)
    return Inode(content, synced=content, target=target)


def _take(step: Step, names: Callable[[Inode], dict[str, Inode]]) -> None:
    for folder, name, node in step.names:
        if node is None:
            del names(folder)[name]
        else:
            names(folder)[name] = node


def _force(folder: Inode) -> None:
    """Let all steps of a folder reach the disk, and with each all that came before it in the folders it concerns."""
    while folder.steps:
        step = folder.steps[0]
        for other in step.folders:
            while other.steps[0] is not step:
                _force_first(other)
        _force_step(step)


def _force_first(folder: Inode) -> None:
    step = folder.steps[0]
    for other in step.folders:
        while other.steps[0] is not step:
            _force_first(other)
    _force_step(step)


def _force_step(step: Step) -> None:
    for folder in dict.fromkeys(step.folders):
        folder.steps.pop(0)
    _take(step, lambda folder: folder.synced_names)


def _names_after(root: Inode, choice: Choice) -> dict[Inode, dict[str, Inode]]:
    """Return the names of every folder that has unsynced steps, after those of them that the choice lets through.

    A step that concerns two folders is taken only if both get that far; with it, what comes later in both is left.
    """
    folders = [node for node in _folders(root) if node.steps]
    allowed = {folder: folder.steps[: choice.steps(folder)] for folder in folders}
    names = {folder: dict(folder.synced_names) for folder in folders}
    progress = True
    while progress:
        progress = False
        for folder in folders:
            while allowed[folder] and _is_next(allowed[folder][0], allowed):
                step = allowed[folder][0]
                for other in dict.fromkeys(step.folders):
                    allowed[other].pop(0)
                _take(step, lambda node: names[node])
                progress = True
    return names


def _is_next(step: Step, allowed: Mapping[Inode, list[Step]]) -> bool:
    return all(allowed[folder] and allowed[folder][0] is step for folder in step.folders)


def _folders(root: Inode) -> list[Inode]:
    """Return every folder that a name leads to, or a synced name, or a step between them."""
    found = {root: None}
    pending = [root]
    while pending:
        folder = pending.pop()
        stepped = [node for step in folder.steps for _, _, node in step.names if node is not None]
        others = [other for step in folder.steps for other in step.folders]
        for node in [*folder.names.values(), *folder.synced_names.values(), *stepped, *others]:
            if node.is_folder and node not in found:
                found[node] = None
                pending.append(node)
    return list(found)


def _entries(
    root: Inode, names: Callable[[Inode], Mapping[str, Inode]], content: Callable[[Inode], Content]
) -> Iterator[tuple[str, DiskEntry]]:
    pending = [("", root)]
    contents: dict[Inode, Content] = {}
    while pending:
        prefix, folder = pending.pop()
        for name, node in sorted(names(folder).items()):
            if node not in contents:
                contents[node] = node.content if not stat.S_ISREG(node.content.mode) else content(node)
            yield prefix + name, DiskEntry(id(node), contents[node], node.target)
            if node.is_folder:
                pending.append((f"{prefix}{name}/", node))
