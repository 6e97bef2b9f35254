"""What stands in the znodes of a task board. Pure.

tasks/task-N     the task's data, as it was given
claims/task-N    JSON: who works on it, and how far that is
results/task-N   a line of JSON: whose result, and whether it failed; then its data
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...errors import ConfigurationError
from .states import TaskResult

MAX_NOTE = 4096
"""Longest note, in bytes of UTF-8: everybody who looks at a board reads them all."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a claim says."""

    worker: str
    progress: float | None = None
    note: str = ""

    def encode(self) -> bytes:
        return _line({"worker": self.worker, "progress": self.progress, "note": self.note})

    @classmethod
    def decode(cls, body: bytes) -> Progress | None:
        """None for what nobody has written who works like us."""
        try:
            fields = json.loads(body)
            worker, progress, note = fields["worker"], fields["progress"], fields["note"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        number = isinstance(progress, (int, float)) and not isinstance(progress, bool)
        known = number and 0 <= progress <= 1
        if not isinstance(worker, str) or not isinstance(note, str):
            return None
        return cls(worker, float(progress) if known else None, note)


def encode_result(result: TaskResult) -> bytes:
    """The bytes of a result; its name is that of the znode."""
    head = {"worker": result.worker, "failed": result.is_failed, "note": result.note}
    return _line(head) + b"\n" + result.data


def decode_result(task: str, body: bytes) -> TaskResult:
    """The result of a task.

    Raises:
        ValueError: it is none; the text says why.
    """
    head, newline, data = body.partition(b"\n")
    if not newline:
        raise ValueError("its first line does not end")
    try:
        fields = json.loads(head)
    except RecursionError:
        raise ValueError("its first line is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("its first line is no JSON object")
    worker, failed, note = (fields.get(name) for name in ("worker", "failed", "note"))
    if not (isinstance(worker, str) and isinstance(failed, bool) and isinstance(note, str)):
        raise ValueError("its first line lacks worker, failed or note")
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
        raise ConfigurationError(f"progress: must be None or from 0.0 to 1.0, not {progress!r}")
    return float(progress)


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
