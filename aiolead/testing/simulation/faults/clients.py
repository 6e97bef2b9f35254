"""Faults of processes and clients, of single requests, and an operator's orders."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .model import Fault, Kind, Target, Undo

if TYPE_CHECKING:
    from ..levers import Levers


def _stop(levers: Levers, fault: Fault) -> Undo:
    # Half of them in the middle of what they do at one instant.
    after = max(0, int(fault.amount * 40) - 20)
    processes = levers.aimed_processes(fault.target)
    undos = [levers.stop_process(process, after) for process in processes]
    return lambda: [undo() for undo in undos]


def _kill(levers: Levers, fault: Fault) -> Undo:
    undos = [levers.kill_process(process) for process in levers.aimed_processes(fault.target)]
    return lambda: [undo() for undo in undos]


def _cancel(levers: Levers, fault: Fault) -> None:
    for process in levers.aimed_processes(fault.target):
        levers.cancel_task(process, fault.amount)


def _cancel_twice(levers: Levers, fault: Fault) -> None:
    for process in levers.aimed_processes(fault.target):
        levers.cancel_task(process, fault.amount)
        again = partial(levers.cancel_task, process, fault.amount, twice=True)
        levers.timeline.after(0.05 * (fault.amount * 100 % 1), again)


def _close(levers: Levers, fault: Fault) -> None:
    for process in levers.aimed_processes(fault.target):
        levers.close_client(process)


def _end_session(levers: Levers, fault: Fault) -> None:
    for process in levers.aimed_processes(fault.target):
        levers.end_session(process)


def _delete_own(levers: Levers, fault: Fault) -> None:
    for process in levers.aimed_processes(fault.target):
        levers.delete_znode(process, fault.amount)


def _delete_line(levers: Levers, fault: Fault) -> None:
    levers.delete_line(fault.amount)


KINDS = (
    Kind("process-stopped", "a process stops, and goes on", Target.PROCESS, _stop, 2.0),
    Kind("process-killed", "a process is killed, and another started", Target.PROCESS, _kill, 1.5),
    Kind("cancelled", "a task is cancelled", Target.PROCESS, _cancel, 2.5),
    Kind("cancelled-twice", "... and once more", Target.PROCESS, _cancel_twice, 1.5),
    Kind("closed", "a client is closed", Target.PROCESS, _close),
    Kind(
        "session-ended", "a session is closed by others", Target.PROCESS, _end_session, severe=True
    ),
    Kind(
        "znode-deleted", "a contender's znode is deleted", Target.LINE, _delete_own, 1.0, 1.0, True
    ),
    Kind("line-deleted", "a line is deleted, all of it", Target.NONE, _delete_line, 0.5, 1.0, True),
)
