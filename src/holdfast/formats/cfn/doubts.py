"""Where CFN Loop's documents contradict themselves. Told to the user; the sprints' own words count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.formats.cfn.sheet import Sheet
from holdfast.formats.loose import Node, count, node
from holdfast.formats.model import SETTLED, Claim, Finding, Standing
from holdfast.formats.words import standing_of, unknown_words


def doubts(sheet: Sheet, root: Node, claims: Sequence[Claim]) -> Iterator[Finding]:
    """Yield what does not fit between the epic's status, its counters and its sprints."""
    yield from unknown_words(claims)
    if standing_of(sheet.status)[0] is Standing.DONE:
        unfinished = [claim.native for claim in claims if claim.standing not in SETTLED]
        if unfinished:
            sentence = f"The epic is marked {sheet.status}, but {', '.join(unfinished)} is not."
            yield Finding(kind="done-with-unfinished-parts", sentence=sentence)
    yield from _counters(root, claims)


def _counters(root: Node, claims: Sequence[Claim]) -> Iterator[Finding]:
    places = [
        root,
        *(node(value) for key, value in node(root.get("records")).items() if key.startswith("epic:")),
    ]
    places += [node(value) for key, value in root.items() if key.startswith("epic:")]
    done = sum(claim.standing is Standing.DONE for claim in claims)
    for place in places:
        for key, known in (("totalSprints", len(claims)), ("completedSprints", done)):
            if key in place and count(place[key]) != known:
                sentence = f"The epic says {key} {place[key]}, but the sprints add up to {known}."
                yield Finding(kind="counters-differ", sentence=sentence)
