"""A client of a simulated process that reports to the history."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from ..._client.api.client import Client, ClientBackend
from ..._client.api.client_watches import ClientWatch
from ..._recipes.contender_queue import AheadEvent
from ...model import EventType, SessionState, WatchEvent

if TYPE_CHECKING:
    from .process import Process
    from .world import World

OnEvent = Callable[[WatchEvent], object]


class Online:
    """A client for as long as an `async with` lasts; made by `World.client`.

    Reports how long entering and leaving took, where both have limits, each state of the session,
    and each departure that wakes a contender in a queue (but not observers).
    """

    def __init__(self, world: World, process: Process, options: dict[str, object]) -> None:
        self._history = world.history
        self._name = process.name
        self._timeout = float(str(options["session_timeout"]))
        limit = options.get("connect_timeout")
        self._limit = self._timeout if limit is None else float(str(limit))
        self._connection = process.connect(**options)
        self._client: Client | None = None

    async def __aenter__(self) -> Client:
        history, name = self._history, self._name
        history.began(name, "connect", self._limit)
        try:
            client = await self._connection.__aenter__()
        except BaseException as error:
            history.ended(name, "connect", _named(error))
            raise
        history.ended(name, "connect")
        self._client = client
        history.session(name, client.state.value, client.session_id)
        client.backend.subscribe(self._on_state)
        return self._reporting_wakings(client)

    def _on_state(self, state: SessionState, session_id: int) -> None:
        self._history.session(self._name, state.value, session_id)

    def _reporting_wakings(self, client: Client) -> Client:
        """A client, or a view of it: recipes work on views."""
        real, chroot = client.backend, client.chroot
        prefix, history = client._scope.prefix, self._history

        def reporting(react: OnEvent | None) -> OnEvent | None:
            if react is None or not _is_of_a_waiter(react):
                return react

            def wake(event: WatchEvent) -> None:
                if event.type is EventType.DELETED:
                    history.notified(prefix + event.path, client.session_id)
                react(event)

            return wake

        client.backend = _Reporting(real, reporting)  # type: ignore[assignment]
        client.chroot = lambda path: self._reporting_wakings(chroot(path))  # type: ignore[method-assign]
        return client

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        client = self._client
        timing = client._core.machine.timing if client is not None else None
        grace_period = timing.grace_period if timing is not None else 0.0
        # It waits for the holders, then for the servers.
        self._history.began(self._name, "close", grace_period + self._timeout / 3)
        try:
            await self._connection.__aexit__(exc_type, exc, traceback)
        finally:
            self._history.ended(self._name, "close")


class _Reporting:
    """A backend whose watches report their events; its `unlimited` views have this backend."""

    def __init__(
        self, real: ClientBackend, reporting: Callable[[OnEvent | None], OnEvent | None]
    ) -> None:
        self._real = real
        self._reporting = reporting

    def make_watch(self, on_event: OnEvent | None = None) -> ClientWatch:
        return self._real.make_watch(self._reporting(on_event))

    def join_watch(self, path: str, on_event: OnEvent | None = None) -> ClientWatch | None:
        return self._real.join_watch(path, self._reporting(on_event))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def unlimited(self) -> Client:
        view = self._real.unlimited()
        assert isinstance(view, Client)
        view.backend = self  # type: ignore[assignment]
        return view


def _is_of_a_waiter(on_event: Callable[[WatchEvent], object]) -> bool:
    """Whether a watch is on somebody who is before a contender in its line."""
    return isinstance(on_event, AheadEvent)


def _named(error: BaseException) -> str:
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return "cancelled"
    return type(error).__name__
