"""Keeps a client's list of servers as its `Hosts` say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..._escaping import described, in_seconds
from ..._logging import get_logger
from ...errors import ConfigurationError, InvalidConnectStringError
from ...paths import format_host, parse_connect_string
from .host_sources import PATIENCE, Answer, Hosts
from .rebalance import Server

logger = get_logger("aiolead.connection")

LEAST_PAUSE = 1.0
"""The least time between two questions, in seconds, however many connections fail."""

_SHOWN = 300
"""The longest error message about an answer, in characters."""


class Discovery:
    def __init__(
        self, hosts: Hosts, update: Callable[[Sequence[Server]], object], *, once: bool
    ) -> None:
        self._hosts = hosts
        self._update = update
        self._refresh = None if once else hosts.refresh
        self._wanted = anyio.Event()
        self.failure: Exception | None = None
        """Why the last question failed; None if it was answered."""

    def attempts(self) -> list[tuple[str, Exception]]:
        return [] if self.failure is None else [(self._hosts.name, self.failure)]

    def hurry(self) -> None:
        """Asks soon: no server has answered, so the list may be outdated."""
        self._wanted.set()

    async def begin(self) -> None:
        while True:
            if await self._ask():
                return
            await anyio.sleep(self._least_pause)

    async def keep_asking(self) -> None:
        """Asks again, from time to time and after `hurry`."""
        while True:
            await anyio.sleep(self._least_pause)
            with anyio.move_on_after(self._refresh):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            await self._ask()

    @property
    def _least_pause(self) -> float:
        return min(LEAST_PAUSE, self._hosts.refresh)

    async def _ask(self) -> bool:
        try:
            with anyio.fail_after(PATIENCE):
                servers = servers_of(await self._hosts.ask())
            if not servers:
                raise LookupError("names no server")
        except Exception as error:  # a provider may raise anything
            if isinstance(error, TimeoutError) and not error.args:
                error = TimeoutError(f"no answer in {in_seconds(PATIENCE)}")
            self.failure = error
            logger.warning("%s: %s", self._hosts.name, error)
            return False
        self.failure = None
        self._update(servers)
        return True


def servers_of(answer: Answer) -> tuple[Server, ...]:
    """Returns the servers in an answer, or raises a short `ConfigurationError`."""
    try:
        return _servers_of(answer)
    except ConfigurationError as error:
        said = str(error)
        if len(said) <= _SHOWN:
            raise
        raise InvalidConnectStringError(f"{said[:_SHOWN]}...") from None


def _servers_of(answer: Answer) -> tuple[Server, ...]:
    if isinstance(answer, str):
        lines = (line.partition("#")[0].strip(" \t,") for line in answer.splitlines())
        text = ",".join(line for line in lines if line)
        if not text:
            return ()
        target = parse_connect_string(text)
        if target.chroot:
            raise ConfigurationError(f"hosts: has a chroot, which cannot change: {text!r}")
        return target.hosts
    servers: list[Server] = []
    for server in answer:
        try:
            host, port = server
            (parsed,) = parse_connect_string(format_host(host, port)).hosts
        except (TypeError, ValueError) as error:
            raise InvalidConnectStringError(
                f"hosts: {described(server)} is no (host, port)"
            ) from error
        if parsed != (host, port):
            raise InvalidConnectStringError(f"hosts: {described(server)} is no (host, port)")
        servers.append(parsed)
    return tuple(servers)
