"""The sockets of this process, hidden from the processes that are forked from it.

A forked child inherits the connections, but must neither write to them nor read from them. There
they are replaced by `/dev/null`. A client knows its process by itself: see `..core.process`.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

_sockets: dict[int, tuple[Any, Any]] = {}
"""Both ends of each client connection, by descriptor: a number may be reused."""


def _hide_sockets() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for fileno, ends in _sockets.items():
            if _ends(fileno) == ends:
                # Closing it would remove it from the event loop's epoll, which is the parent's as
                # well; and the number might be reused before the stream closes it.
                os.dup2(nothing, fileno)
    finally:
        os.close(nothing)
    _sockets.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hide_sockets)


@contextlib.contextmanager
def kept_from_children(raw: Any) -> Iterator[None]:
    """While this is open, a forked process has no access to the connection of `raw`."""
    fileno = -1 if raw is None else raw.fileno()
    ends = _ends(fileno)
    if ends is not None:
        _sockets[fileno] = ends
    try:
        yield
    finally:
        _sockets.pop(fileno, None)


def _ends(fileno: int) -> tuple[Any, Any] | None:
    try:
        with socket.socket(fileno=os.dup(fileno)) as sock:
            return sock.getsockname(), sock.getpeername()
    except OSError:
        return None  # not connected, or no socket any more
