"""Single requests that a server takes and never answers, while the connection stays.

`skipped`: what comes behind the request is answered, so the client sees the answer to another one
than it waits for. `swallowed`: nothing behind it is answered either, but pings are, for as long as
the fault lasts; afterwards that is a skipped answer, too, if the client ever asks for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from ..ensemble import Omission
from .model import Act, Fault, Kind, Target, Undo

if TYPE_CHECKING:
    from ..levers import Levers

OPS: dict[str, OpCode | None] = {
    "request": None,
    "create": OpCode.CREATE2,
    "delete": OpCode.DELETE,
    "set": OpCode.SET_DATA,
    "get": OpCode.GET_DATA,
    "list": OpCode.GET_CHILDREN,
    "renewal": OpCode.MULTI,
    "sync": OpCode.SYNC,
    "rearm": OpCode.SET_WATCHES2,
    "close": OpCode.CLOSE_SESSION,
}
"""The messages that may be omitted, by their names in the kinds of faults; None for anything."""

MOST_PASSES = 8
"""Before a request of any kind is omitted, fewer than so many of its client are answered."""


def _omitted(op: OpCode | None, *, is_swallowed: bool) -> Act:
    def act(levers: Levers, fault: Fault) -> Undo:
        # Half of them are carried out.
        which = fault.amount * 2
        passes = int(which % 1 * (MOST_PASSES if op is None else 2))
        undos = [
            levers.omit(
                Omission(
                    is_applied=which >= 1,
                    is_swallowed=is_swallowed,
                    op=op,
                    host=process.host,
                    passes=passes,
                )
            )
            for process in levers.aimed_processes(fault.target)
        ]
        return lambda: [undo() for undo in undos]

    return act


def _kinds(name: str, op: OpCode | None) -> tuple[Kind, Kind]:
    weight = 4.0 if op is None else 1.0
    return (
        Kind(
            f"{name}-skipped",
            f"a {name} is not answered, and what comes behind it is",
            Target.PROCESS,
            _omitted(op, is_swallowed=False),
            weight,
        ),
        Kind(
            f"{name}-swallowed",
            f"a {name} is not answered, nor what comes behind it, but for pings",
            Target.PROCESS,
            _omitted(op, is_swallowed=True),
            weight,
        ),
    )


KINDS = tuple(kind for name, op in OPS.items() for kind in _kinds(name, op))
