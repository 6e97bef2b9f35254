"""Single requests that are lost with their connection, before a server has seen them or after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from .model import Act, Fault, Kind, Target, Undo

if TYPE_CHECKING:
    from ..levers import Levers

OPS = {
    "connect": OpCode.CREATE_SESSION,
    "create": OpCode.CREATE2,
    "delete": OpCode.DELETE,
    "get": OpCode.GET_DATA,
    "list": OpCode.GET_CHILDREN,
    "renewal": OpCode.MULTI,
    "rearm": OpCode.SET_WATCHES2,
    "ping": OpCode.PING,
    "close": OpCode.CLOSE_SESSION,
}
"""The messages that may be lost, by their names in the kinds of faults."""


def _lost(op: OpCode, *, applied: bool) -> Act:
    def act(levers: Levers, fault: Fault) -> Undo:
        # Mostly one; now and then its repetition as well.
        times = 1 if fault.amount < 0.7 else 2
        return levers.lose(op, times, applied=applied)

    return act


def _kinds(name: str, op: OpCode) -> tuple[Kind, Kind]:
    return (
        Kind(
            f"{name}-request-lost",
            f"a {name} is lost before it is seen",
            Target.NONE,
            _lost(op, applied=False),
            0.4,
            closes=True,
        ),
        Kind(
            f"{name}-answer-lost",
            f"a {name} is done, and its answer is lost",
            Target.NONE,
            _lost(op, applied=True),
            0.7,
            closes=True,
        ),
    )


KINDS = tuple(kind for name, op in OPS.items() for kind in _kinds(name, op))
