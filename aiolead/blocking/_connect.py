"""Opening and closing a client."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, final

import aiolead

from ..errors import ConfigurationError, UsageError
from ._loop import LoopThread
from ._proxy import new

if TYPE_CHECKING:
    from . import Client


def connect(  # noqa: D417 - the generated one has all arguments
    make: Callable[[], aiolead.types.Connection],
    *,
    backend: Literal["asyncio", "trio"] = "asyncio",
    backend_options: dict[str, Any] | None = None,
) -> Connection:
    """Connect to a ZooKeeper ensemble: `with blocking.connect(...) as client:`.

    Entering starts a thread with an event loop and waits for the session. Leaving closes the
    session, so that its ephemeral znodes vanish at once, and ends the thread. Locks and other holds
    of other threads are lost first, and their bodies have the grace period to end. One client is
    enough for a process, whatever the number of its threads. Connect after forking, not before.

    Args:
        hosts: as for `aiolead.connect`.
        backend: the event loop in the thread: "asyncio" (the default) or "trio".
        backend_options: for `anyio.run`.
        options: as for `aiolead.connect`. `grace_period` is how long bodies have to notice a loss:
            at most a quarter of the session timeout, and by default a tenth. `on_event` is called
            in the thread of the event loop.

    Raises (at the call): as `aiolead.connect`.

    Raises (on entering): as `aiolead.connect`; and
        UsageError: in a thread that runs an event loop, or in a process in which gevent or
            eventlet have replaced threads.

    An exception from a signal handler (Ctrl-C) while entering cancels the attempt. While leaving,
    it ends the wait: the thread goes on closing the session.
    """
    if backend not in ("asyncio", "trio"):
        raise ConfigurationError(f'backend: must be "asyncio" or "trio", not {backend!r}')
    if backend == "trio" and find_spec("trio") is None:
        raise ConfigurationError('backend: trio is not installed; pip install "aiolead[trio]"')
    return Connection(make(), LoopThread(backend, backend_options))


@final
class Connection:
    """The context manager that `connect` returns; it can be entered once."""

    def __init__(self, connection: aiolead.types.Connection, loop: LoopThread) -> None:
        self._connection = connection
        self._loop = loop
        self._is_entered = False

    def __enter__(self) -> Client:
        if self._is_entered:
            raise UsageError("the connection was entered already: call connect() again")
        self._is_entered = True
        return cast("Client", new(self._loop, self._loop.open(self._connection)))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.close()
