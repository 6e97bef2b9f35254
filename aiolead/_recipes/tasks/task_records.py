"""States and results of tasks, and the data of the znodes of a task board. Pure.

tasks/task-N     the data of the task
claims/task-N    JSON: worker and progress
results/task-N   a line of JSON: worker, and whether the task failed; then the data
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from ..._util.escaping import described
from ..._util.parsing import MalformedError, json_object, real
from ...errors import ConfigurationError


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


MAX_NOTE = 4096
"""Longest note, in bytes of UTF-8: every observer of a board reads all notes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The data of a claim."""

    worker: str
    progress: float | None = None
    note: str = ""

    def encode(self) -> bytes:
        return _line({"worker": self.worker, "progress": self.progress, "note": self.note})

    @classmethod
    def decode(cls, body: bytes) -> Progress | None:
        """None if the claim is not a task board's."""
        try:
            fields = json_object(body)
        except MalformedError:
            return None
        worker, note = fields.get("worker"), fields.get("note")
        if not (isinstance(worker, str) and isinstance(note, str) and "progress" in fields):
            return None
        try:
            progress = real(fields["progress"])
        except MalformedError:
            progress = -1.0
        return cls(worker, progress if 0 <= progress <= 1 else None, note)


def encode_result(result: TaskResult) -> bytes:
    """Encode a result, without the task's name: the znode has it."""
    head = {"worker": result.worker, "failed": result.is_failed, "note": result.note}
    return _line(head) + b"\n" + result.data


def decode_result(task: str, body: bytes) -> TaskResult:
    """Decode a task's result; raises ValueError if it is invalid."""
    head, newline, data = body.partition(b"\n")
    if not newline:
        raise MalformedError("its first line does not end")
    try:
        fields = json_object(head)
    except MalformedError as error:
        raise MalformedError(f"its first line {error}") from None
    worker, failed, note = (fields.get(name) for name in ("worker", "failed", "note"))
    if not (isinstance(worker, str) and isinstance(failed, bool) and isinstance(note, str)):
        raise MalformedError("its first line lacks worker, failed or note")
    return TaskResult(task, data, worker, failed, note)


def checked_note(note: str) -> str:
    if not isinstance(note, str):
        raise ConfigurationError(f"note: must be a str, not {note!r}")
    try:
        size = len(note.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"note: is not valid Unicode: {note!r}") from None
    if size > MAX_NOTE:
        raise ConfigurationError(f"note: has {size} bytes of UTF-8, at most {MAX_NOTE} are allowed")
    return note


def checked_progress(progress: float | None) -> float | None:
    if progress is None:
        return None
    number = isinstance(progress, (int, float)) and not isinstance(progress, bool)
    if not number or not 0 <= progress <= 1:
        raise ConfigurationError(
            f"progress: must be None or from 0.0 to 1.0, not {described(progress)}"
        )
    return float(progress)


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
