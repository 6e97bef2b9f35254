"""States and results of tasks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class TaskPhase(enum.Enum):
    """The phase of a task."""

    WAITING = "waiting"
    """No worker has claimed it."""
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task.

    Attributes:
        task: its name.
        phase: whether it waits, is worked on, or has a result.
        worker: the worker that has it, or that finished it; None while it waits.
        since: the beginning of the phase, by the servers' clock, in seconds since 1970; None while
            it waits.
        progress: from 0.0 to 1.0, as the worker reported it; None if it did not.
        note: the note of the report, or why the task failed.
    """

    task: str
    phase: TaskPhase
    worker: str | None = None
    since: float | None = None
    progress: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task.

    Attributes:
        task: its name.
        data: as the worker gave it.
        worker: the worker that finished it.
        is_failed: whether it failed.
        note: why it failed.
    """

    task: str
    data: bytes
    worker: str
    is_failed: bool = False
    note: str = ""
