"""The addresses of the servers' names: looked up in the background, and kept for when that fails.

At most one lookup of a name goes on at a time, for as long as it takes, whatever attempts to
connect give up meanwhile. The next attempt takes its answer. An attempt that has waited a little
uses the last known addresses, so that a slow or broken resolver does not cost a session.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, final

import anyio

from ..._util.name_lookup import is_literal, look_up

if TYPE_CHECKING:
    from .host_list import Server

FRESH = 0.5
"""For how long an answer is used without another lookup, in seconds."""

KNOWN_AFTER = 0.25
"""How long an attempt waits for a lookup before it uses the last known addresses, in seconds."""

MOST = 16
"""How many lookups go on at once, each in a thread of its own."""

NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
"""The errors that are answers: the name has no addresses any more."""


@final
class KnownAddresses:
    """The last known addresses of each server.

    Args:
        start: starts a task of the client that no attempt to connect cancels.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], object]) -> None:
        self._start = start
        self._known: dict[Server, list[str]] = {}
        self._answers: dict[Server, tuple[float, Exception | None]] = {}
        """When the last lookup of each server ended, and how it failed."""
        self._running: set[Server] = set()
        self._ended = anyio.Event()
        """Set, and replaced, when a lookup has ended."""

    def count(self, server: Server) -> int:
        """How many addresses a server is known to have; 1 if that is not known yet."""
        return len(self._known.get(server, ())) or 1

    def look_ahead(self, servers: Iterable[Server]) -> None:
        """Begin to look up every name, and forget all others.

        So the addresses of the other servers are known when the present one is lost.
        """
        listed = dict.fromkeys(servers)
        for of in (self._known, self._answers):
            for server in [server for server in of if server not in listed]:
                del of[server]
        for server in listed:
            if not is_literal(server[0]):
                self._begin(server)

    async def of(self, server: Server, patience: float = inf) -> list[str]:
        """Return a server's addresses, in the resolver's order.

        Args:
            server: a host, which may be a literal address, and a port.
            patience: how long to wait if nothing is known, in seconds.

        Raises:
            TimeoutError: nothing is known in time. The lookup goes on.
            OSError, ValueError: the lookup failed, and nothing is known.
        """
        if is_literal(server[0]):
            return [server[0]]
        self._begin(server)
        with anyio.move_on_after(patience), anyio.move_on_after(self._grace(server, patience)):
            while not self._is_fresh(server):
                await self._ended.wait()
                self._begin(server)
        known = self._known.get(server)
        if known:
            return list(known)
        failure = self._answers[server][1] if self._is_fresh(server) else None
        raise TimeoutError if failure is None else failure

    def _grace(self, server: Server, patience: float) -> float:
        return min(KNOWN_AFTER, patience / 2) if server in self._known else inf

    def _is_fresh(self, server: Server) -> bool:
        answer = self._answers.get(server)
        return answer is not None and anyio.current_time() - answer[0] < FRESH

    def _begin(self, server: Server) -> None:
        if server in self._running or len(self._running) >= MOST or self._is_fresh(server):
            return
        self._running.add(server)
        self._start(partial(self._look_up, server))

    async def _look_up(self, server: Server) -> None:
        failure: Exception | None = None
        try:
            addresses = await look_up(*server)
        except Exception as error:  # a resolver may raise anything
            failure = error.with_traceback(None)
            if isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME:
                self._known.pop(server, None)
        else:
            self._known[server] = addresses
        finally:
            self._running.discard(server)
        self._answers[server] = (anyio.current_time(), failure)
        self._ended.set()
        self._ended = anyio.Event()
