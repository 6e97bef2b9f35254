"""The embedded server in a thread of its own, for programs without an event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .._wire.codes import OpCode
from ..errors import UsageError
from ._proxy.thread import LoopThread

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
        self._thread: LoopThread | None = None
        self._is_left = False

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise UsageError("a ThreadedServer can be entered only once")
        self._thread = LoopThread("the embedded server")
        try:
            self._call(self._server.__aenter__)
        except BaseException:
            self._is_left = True
            self._thread.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the server, unless this is a forked child: the server belongs to the parent.

        Nor does it while the interpreter ends, which closes the generators that are left.
        """
        thread = self._thread
        if thread is None or self._is_left or thread.is_out_of_reach:
            return
        try:
            self._call(lambda: self._server.__aexit__(exc_type, exc, traceback))
        finally:
            self._is_left = True
            thread.close()

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
        self._call(self._server.stop)

    def start(self) -> None:
        self._call(self._server.start)

    def pause(self) -> None:
        self._get(lambda server: server.pause())

    def resume(self) -> None:
        self._get(lambda server: server.resume())

    def heal(self) -> None:
        self._call(self._server.heal)

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

    def _get(self, read: Callable[[EmbeddedServer], T]) -> T:
        async def act() -> T:
            return read(self._server)

        return self._call(act)

    def _call(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._thread is None:
            raise UsageError("the ThreadedServer was not entered: use `with`")
        if self._is_left:
            raise UsageError("the ThreadedServer was left: use it inside of its `with` block")
        return self._thread.run(act)
