"""The embedded server in a thread of its own, for programs without an event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from .._wire.codes import OpCode
from ..errors import UsageError

if TYPE_CHECKING:
    from .embedded import EmbeddedServer, SessionInfo

__all__ = ["ThreadedServer"]

T = TypeVar("T")


class ThreadedServer:
    """An `EmbeddedServer` with plain methods; made by `EmbeddedServer.in_thread`.

    Its event loop runs in a thread that ends with the `with` block. Every method may be called from
    any other thread, waits until it is done, and has the same meaning there.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        if self._portal is not None:
            raise UsageError("a ThreadedServer can be entered only once")
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(self._server))
            self._portal, self._stack = portal, stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    @property
    def port(self) -> int:
        return self._get(lambda server: server.port)

    @property
    def connect_string(self) -> str:
        return self._get(lambda server: server.connect_string)

    @property
    def tls_connect_string(self) -> str:
        return self._get(lambda server: server.tls_connect_string)

    def stop(self) -> None:
        self._loop.call(self._server.stop)

    def start(self) -> None:
        self._loop.call(self._server.start)

    def pause(self) -> None:
        self._get(lambda server: server.pause())

    def resume(self) -> None:
        self._get(lambda server: server.resume())

    def heal(self) -> None:
        self._loop.call(self._server.heal)

    def set_read_only(self, read_only: bool, *, grants_sessions: bool = True) -> None:
        self._get(lambda server: server.set_read_only(read_only, grants_sessions=grants_sessions))

    def expire_session(self, session_id: int) -> None:
        self._get(lambda server: server.expire_session(session_id))

    def disconnect(self, session_id: int | None = None, *, reset: bool = False) -> None:
        self._get(lambda server: server.disconnect(session_id, reset=reset))

    def drop_reply(self, op: OpCode, count: int = 1) -> None:
        self._get(lambda server: server.drop_reply(op, count))

    def drop_request(self, op: OpCode, count: int = 1) -> None:
        self._get(lambda server: server.drop_request(op, count))

    def throttle(self, op: OpCode, count: int = 1) -> None:
        self._get(lambda server: server.throttle(op, count))

    def slow_down(self, pace: float) -> None:
        self._get(lambda server: server.slow_down(pace))

    def limit_requests(self, size: int) -> None:
        self._get(lambda server: server.limit_requests(size))

    def set_sequence(self, path: str, value: int) -> None:
        self._get(lambda server: server.set_sequence(path, value))

    def create(self, path: str, data: bytes = b"") -> None:
        self._get(lambda server: server.create(path, data))

    @property
    def requests(self) -> Counter[str]:
        """A copy of the counts so far."""
        return self._get(lambda server: Counter(server.requests))

    @property
    def packets_in(self) -> int:
        return self._get(lambda server: server.packets_in)

    @property
    def packets_out(self) -> int:
        return self._get(lambda server: server.packets_out)

    @property
    def bytes_in(self) -> int:
        return self._get(lambda server: server.bytes_in)

    @property
    def bytes_out(self) -> int:
        return self._get(lambda server: server.bytes_out)

    @property
    def connections(self) -> int:
        return self._get(lambda server: server.connections)

    @property
    def zxid(self) -> int:
        return self._get(lambda server: server.zxid)

    def znodes(self) -> list[str]:
        return self._get(lambda server: server.znodes())

    def sessions(self) -> dict[int, SessionInfo]:
        return self._get(lambda server: server.sessions())

    def watches(self) -> dict[str, set[int]]:
        return self._get(lambda server: server.watches())

    @property
    def _loop(self) -> BlockingPortal:
        if self._portal is None:
            raise UsageError("the ThreadedServer was not entered: use `with`")
        return self._portal

    def _get(self, read: Callable[[EmbeddedServer], T]) -> T:
        return self._loop.call(read, self._server)
