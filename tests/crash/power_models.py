"""What a power cut may leave of that which was not synced: three models, from the strictest to the most mixed.

    least    nothing: each file as of its last sync, each name as of the last sync of its folder
    names    every name, but not the bytes: a file is as before (or empty), has its size but zeros, or one of both by chance
    subset   by chance: of each folder's steps a beginning; of each file nothing, a beginning, some pages, zeros, or all

Seeds 0 and 1 of `names` are the two pure cases. Whatever a model leaves, a file system may leave; nothing more is claimed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.crash.disk_image import Change, Choice, Content, Inode

PAGES = (4096, 512)


def synced(node: Inode) -> Content:
    """Return what is on the disk for sure: a file that was never synced is empty."""
    return node.synced or replace(node.content, data=b"")


def zeroed(node: Inode) -> Content:
    """Return a file that has its new size, while no byte reached the disk that was written since it was last synced."""
    kept = synced(node).data[: len(node.content.data)].ljust(len(node.content.data), b"\0")
    for change in node.changes:
        if change.data:
            kept = Change(change.offset, bytes(len(change.data))).on(kept)[: len(kept)]
    return replace(node.content, data=kept)


@dataclass(frozen=True, slots=True)
class Least:
    """Only what was synced."""

    def steps(self, folder: Inode) -> int:  # noqa: ARG002 - the protocol's
        """None of them."""
        return 0

    def content(self, node: Inode) -> Content:
        """As of the last sync."""
        return synced(node)


@dataclass(frozen=True, slots=True)
class NamesOnly:
    """All names, and of each file what `pick` chooses."""

    pick: Callable[[Inode], Content]

    def steps(self, folder: Inode) -> int:
        """All of them."""
        return len(folder.steps)

    def content(self, node: Inode) -> Content:
        """Without what was written since it was last synced."""
        return self.pick(node)


@dataclass(frozen=True, slots=True)
class Subset:
    """Whatever chance lets through."""

    rng: random.Random

    def steps(self, folder: Inode) -> int:
        """None, all, or a beginning."""
        return self.rng.choice(
            (0, len(folder.steps), len(folder.steps), self.rng.randint(0, len(folder.steps)))
        )

    def content(self, node: Inode) -> Content:
        """Nothing, a beginning, some pages, zeros, or all."""
        chosen = self.rng.choice((synced, zeroed, self._beginning, self._pages, lambda one: one.content))
        return chosen(node)

    def _beginning(self, node: Inode) -> Content:
        """Take the first changes whole and a part of the next one."""
        data = synced(node).data
        count = self.rng.randint(0, len(node.changes))
        for change in node.changes[:count]:
            data = change.on(data)
        if count < len(node.changes) and (torn := node.changes[count].data):
            page = self.rng.choice(PAGES)
            size = self.rng.randrange(0, len(torn), page) if len(torn) > page else 0
            data = Change(node.changes[count].offset, torn[:size]).on(data)
        return replace(node.content, data=data)

    def _pages(self, node: Inode) -> Content:
        """Take the new size, and page by page the new bytes or what was there."""
        page = self.rng.choice(PAGES)
        old, new = zeroed(node).data, node.content.data
        parts = [self.rng.choice((old, new))[at : at + page] for at in range(0, len(new), page)]
        return replace(node.content, data=b"".join(parts))


def choice_of(model: str, seed: int, moment: int) -> Choice:
    """Return the choice that a model makes at a moment: the same seed makes the same one for the same disk."""
    rng = random.Random(f"{model} {seed} {moment}")
    if model == "least":
        return Least()
    if model == "subset":
        return Subset(rng)
    return NamesOnly({0: synced, 1: zeroed}.get(seed, lambda node: rng.choice((synced, zeroed))(node)))


MODELS = ("least", "names", "subset")
