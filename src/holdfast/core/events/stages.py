"""Events of a stage: its gates and what the user says about them."""

from __future__ import annotations

from holdfast.core.events.base import Event, Gate


class StageOpening(Event, frozen=True, tag=True):
    """Intent: the entry gate of a stage is being checked."""

    stage: str


class StageOpened(Event, frozen=True, tag=True):
    """The entry gate held; the stage's tasks may start."""

    stage: str


class StageClosing(Event, frozen=True, tag=True):
    """Intent: the exit gate of a stage is being checked."""

    stage: str


class StageClosed(Event, frozen=True, tag=True):
    """The exit gate held; stages that need this one may open."""

    stage: str


class StageGateFailed(Event, frozen=True, tag=True):
    """A gate did not hold; the stage waits for a decision."""

    stage: str
    gate: Gate
    error: str
    detail: str = ""


class StageGateWaived(Event, frozen=True, tag=True):
    """The user lets a stage go on although its gate failed."""

    stage: str
    gate: Gate


class StageRewound(Event, frozen=True, tag=True):
    """The user wants the stage from its beginning: its entry gate is checked again."""

    stage: str


class StageGateReset(Event, frozen=True, tag=True):
    """A gate that was cut short, or that failed before, will be checked again."""

    stage: str
    gate: Gate
