"""Faults of the links between clients and servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..network import Path
from .model import Fault, Kind, Target, Undo

if TYPE_CHECKING:
    from ..levers import Levers

MOST_BYTES = 400
"""A connection that is to break after some bytes does so within these: a handshake, or a few
answers."""


def _ways(levers: Levers, fault: Fault) -> Iterator[tuple[Path, Path]]:
    """The paths to and from each server, of each process that is aimed at."""
    for process in levers.aimed_processes(fault.target):
        for server in levers.hosts:
            yield (
                levers.network.path(process.host, server),
                levers.network.path(server, process.host),
            )


def _reset(levers: Levers, fault: Fault) -> None:
    for up, _ in _ways(levers, fault):
        up.reset()


def _fin(levers: Levers, fault: Fault) -> None:
    hosts = {process.host for process in levers.aimed_processes(fault.target)}
    for connection in levers.network.connections():
        if connection.client.host in hosts:
            connection.finish()


def _silent(levers: Levers, fault: Fault, *, up: bool, down: bool, keep: bool) -> Undo:
    undos = [
        levers.silence(path, keep=keep)
        for way in _ways(levers, fault)
        for path, wanted in zip(way, (up, down), strict=True)
        if wanted
    ]
    return lambda: [undo() for undo in undos]


def _silent_up(levers: Levers, fault: Fault) -> Undo:
    return _silent(levers, fault, up=True, down=False, keep=fault.amount < 0.7)


def _silent_down(levers: Levers, fault: Fault) -> Undo:
    return _silent(levers, fault, up=False, down=True, keep=fault.amount < 0.7)


def _stalled(levers: Levers, fault: Fault) -> Undo:
    return _silent(levers, fault, up=True, down=True, keep=True)


def _half_open(levers: Levers, fault: Fault) -> Undo:
    return _silent(levers, fault, up=True, down=True, keep=False)


def _slow(levers: Levers, fault: Fault) -> Undo:
    most = levers.schedule.session_timeout * (0.05 + 0.4 * fault.amount)
    undos = [levers.slow_down(path, most) for way in _ways(levers, fault) for path in way]
    return lambda: [undo() for undo in undos]


def _breaks(paths: list[Path], fault: Fault) -> Undo:
    for path in paths:
        path.break_after = int(fault.amount * MOST_BYTES)

    def undo() -> None:
        for path in paths:
            path.break_after = None

    return undo


def _breaks_up(levers: Levers, fault: Fault) -> Undo:
    return _breaks([up for up, _ in _ways(levers, fault)], fault)


def _breaks_down(levers: Levers, fault: Fault) -> Undo:
    return _breaks([down for _, down in _ways(levers, fault)], fault)


def _refused(levers: Levers, fault: Fault) -> Undo:
    ways = list(_ways(levers, fault))
    undos = [levers.refuse(up) for up, _ in ways]
    for up, _ in ways:
        up.reset()
    return lambda: [undo() for undo in undos]


def _pinned(levers: Levers, fault: Fault) -> Undo:
    """A client stays where it is, whatever it thinks of that server: it reaches no other."""
    undos = [
        levers.refuse(levers.network.path(process.host, levers.host(sid)))
        for process in levers.aimed_processes(fault.target)
        if (own := levers.server_of(process)) is not None
        for sid in levers.sids
        if sid != own
    ]
    return lambda: [undo() for undo in undos]


def _drip(levers: Levers, fault: Fault) -> Undo:
    pause = 0.001 + 0.02 * fault.amount
    undos = [levers.drip(path, pause) for way in _ways(levers, fault) for path in way]
    return lambda: [undo() for undo in undos]


KINDS = (
    Kind(
        "link-reset",
        "every connection of a client breaks",
        Target.PROCESS,
        _reset,
        2.0,
        closes=True,
    ),
    Kind(
        "link-fin",
        "the servers close every connection of a client",
        Target.PROCESS,
        _fin,
        closes=True,
    ),
    Kind("link-silent-up", "nothing of a client's arrives", Target.PROCESS, _silent_up),
    Kind("link-silent-down", "nothing arrives at a client", Target.PROCESS, _silent_down),
    Kind("link-stalled", "nothing passes; later, all of it", Target.PROCESS, _stalled, 1.5),
    Kind("link-half-open", "connections die without notice", Target.PROCESS, _half_open, 1.5),
    Kind("link-slow", "packets take long, and at random", Target.PROCESS, _slow),
    Kind(
        "link-cut-up",
        "the connection breaks after some bytes to a server",
        Target.PROCESS,
        _breaks_up,
        closes=True,
    ),
    Kind(
        "link-cut-down",
        "... after some bytes to the client",
        Target.PROCESS,
        _breaks_down,
        2.0,
        closes=True,
    ),
    Kind(
        "link-refused",
        "connections break, and new ones are refused",
        Target.PROCESS,
        _refused,
        closes=True,
    ),
    Kind(
        "link-pinned",
        "a client reaches no other server than its own",
        Target.PROCESS,
        _pinned,
        closes=True,
    ),
    Kind("link-drip", "a few bytes come at a time", Target.PROCESS, _drip, 0.4, 0.5),
)
