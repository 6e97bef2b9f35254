"""Stopping the tasks of a process while time goes on, as SIGSTOP does.

Every task knows its process by a context variable, which the tasks that it starts inherit. While a
process is stopped, whatever of it could run is put aside as it comes to the loop's queue; when it
goes on, it finds everything that happened meanwhile: timers fire late, bytes wait in the buffers.
"""

from __future__ import annotations

from contextvars import ContextVar

PROCESS: ContextVar[object | None] = ContextVar("aiolead_simulated_process", default=None)
"""The process that a task belongs to; the world itself belongs to none."""
