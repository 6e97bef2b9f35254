"""How tasks stand, and what became of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class TaskPhase(enum.Enum):
    """How a task stands."""

    WAITING = "waiting"
    """Nobody works on it."""
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a task stands.

    Attributes:
        task: its name.
        phase: whether it waits, is worked on, or has a result.
        worker: who works on it, or has finished it; None while it waits.
        since: since when, in seconds since the epoch, by the servers' clock; None while it waits.
        progress: from 0.0 to 1.0, as the worker has reported it; None if it has not.
        note: what the worker has said with it, or why it failed.
    """

    task: str
    phase: TaskPhase
    worker: str | None = None
    since: float | None = None
    progress: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of a task.

    Attributes:
        task: its name.
        data: what the worker gave.
        worker: who has finished it.
        is_failed: whether it failed.
        note: why, if it did.
    """

    task: str
    data: bytes
    worker: str
    is_failed: bool = False
    note: str = ""
