"""`aiolead.blocking`, as its documentation shows it; only for the verb of threads."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aiolead import blocking

from .interface import Answer
from .threads import in_threads


class AioleadThreads:
    """See `interface.Peer`."""

    def __init__(self) -> None:
        self._clients: list[Any] = []
        self._stack = ExitStack()

    def version(self) -> str:
        try:
            return version("aiolead")
        except PackageNotFoundError:
            return "from the source"

    def open(self, hosts: str, sessions: int, timeout: float) -> None:
        servers = hosts.split(",")
        for i in range(sessions):
            connection = blocking.connect(servers[i % len(servers)], session_timeout=timeout)
            self._clients.append(self._stack.enter_context(connection))

    def close(self) -> None:
        self._clients.clear()
        self._stack.close()

    def threads(self, op: str, path: str, threads: int, each: int) -> Answer:
        client = self._clients[0]
        return in_threads(
            op, client.get, lambda name: blocking.Lock(client, name), path, threads, each
        )


make = AioleadThreads
