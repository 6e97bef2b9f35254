"""The state that all views of one client share: the session machine, observers and jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel

from .._session.machine import SessionMachine
from .._session.requests import Call
from .._util.escaping import get_logger
from .._util.host_tasks import HostTasks
from .._util.internal_errors import as_aiolead_error, call_back
from .._wire.versions import Version
from ..errors import (
    AioleadError,
    ClientClosedError,
    ConnectFailed,
    ConnectionLossError,
    InternalError,
    Outcome,
)
from ..events import EventSink
from ..model import SessionState
from . import loop_affinity
from .client_reporting import ClientReporting
from .loop_affinity import LoopAffinity
from .net.four_letter_words import Peer

if TYPE_CHECKING:
    from .client_host import ClientHandle

T = TypeVar("T")
C = TypeVar("C", bound=Call[Any])

Job = Callable[[], Awaitable[object]]
OnEnd = Callable[[AioleadError | None], object]

logger = get_logger("aiolead.client")

KEPT = 1_000
"""How many of the objects shared last are kept although nobody uses them."""

MAX_SERIAL = 1 << 62
"""The largest first serial of a client: names have 64 bits for serials."""


def _log_failure(error: AioleadError | None) -> None:
    # Every job ends with the client, and an `InternalError` has been logged.
    if error is not None and not isinstance(error, (ClientClosedError, InternalError)):
        logger.warning("a background job of the client failed: %s", error)


class Core:
    def __init__(
        self,
        make_machine: Callable[[Core], SessionMachine],
        clock: Callable[[], float],
        sinks: Sequence[EventSink] = (),
        first_serial: int = 1,
    ) -> None:
        self.clock = clock
        self.tasks: HostTasks | None = None
        self.handle: Callable[[], ClientHandle | None] = _nothing
        """A weak reference to what the program's objects of this client share; set by `connect`."""
        self.peer: Peer | None = None
        """The connected server; set by the supervisor."""
        self.server_version: Version | None = None
        """The servers' version, if the user gave it."""
        self.on_output: Callable[[], None] = _ignore
        """Set by the supervisor: there is something to send."""
        self.pipelined: Pipelined = Pipelined(self)
        self.on_due: Callable[[float], None] = _ignore
        """Set by the supervisor: something became due earlier."""
        self.wake: Callable[[], None] = _ignore
        """Set by the supervisor: wakes its timekeeper."""
        self.on_hosts: Callable[[Sequence[tuple[str, int]]], None] = _ignore
        """Set by the supervisor: replaces the list of servers."""
        self.notify_guardian: Callable[[], None] = _ignore
        """Send the session guardian its description, if that has changed."""
        self.is_session_shared = False
        self.attempts: Callable[[], Sequence[tuple[str, Exception]]] = tuple
        """Set by the connection: why the last attempts to connect failed, by address."""
        self.detached = 0
        """The session that is not closed with the client; 0 for none."""
        self._subscribers: dict[int, Callable[[SessionState, int], object]] = {}
        self._next_subscriber = 0
        # By what makes them, then by path.
        self._shared: dict[object, WeakValueDictionary[str, Any]] = {}
        self._shared_lately: deque[object] = deque(maxlen=KEPT)
        self._first_serial = self._next_serial = first_serial
        self._holders_gone: anyio.Event | None = None
        self.spawned: int = 0
        self._affinity: LoopAffinity | None = None
        self._expires_soon = False
        self.process: object = loop_affinity.process
        """The process that it belongs to. `is_forked` compares it; so does what must cost no call.
        """
        self.check_home: Callable[[], None] = _ignore
        """Raises `UsageError` unless called where the client belongs; see `LoopAffinity`."""
        self.machine: SessionMachine = make_machine(self)
        self.reporting: ClientReporting = ClientReporting(self.machine, clock, sinks)

    def submit(self, call: C, *, limited: bool = True) -> C:
        self.check_home()
        self.machine.submit(call, self.clock(), limited=limited)
        return call

    # --- where it belongs ----------------------------------------------------------------------

    def settle_here(self) -> None:
        """Binds the client to this process, thread and event loop."""
        self._affinity = LoopAffinity()
        self.process = loop_affinity.process
        self.check_home = self._affinity.check
        self.machine.watches.is_here = self._affinity.is_here

    def is_here(self) -> bool:
        """Whether this is called in the process, thread and running event loop of the client."""
        return self._affinity is not None and self._affinity.is_here()

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked copy: its session and its socket are the parent's."""
        return loop_affinity.process is not self.process

    def leaves_here(self, exc_info: tuple[object, ...]) -> bool:
        """Whether a block is left where the client belongs; raises `UsageError` elsewhere.

        False in a forked child that an exception ends: nothing of the parent's changes.
        """
        if any(exc_info) and self.is_forked:
            return False
        self.check_home()
        return True

    def expire(self) -> None:
        """End what the clock has ended: in a task at once, elsewhere by waking the timekeeper.

        Only a task of the event loop ends a hold. In another thread a cancel scope fails after it
        has marked itself as cancelled, so that nothing could cancel the body any more. In a signal
        handler or callback it may work, and the event loop sleep on.
        """
        affinity = self._affinity
        if affinity is None:
            return
        if affinity.is_in_task():
            self.machine.leases.expire(self.clock())
        elif not self._expires_soon:  # a thread may ask again and again
            self._expires_soon = True
            affinity.call_soon(self._wake_timekeeper)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Has the client's event loop call a function; any thread may call it."""
        if self._affinity is not None:
            self._affinity.call_soon(function)

    def _wake_timekeeper(self) -> None:
        self._expires_soon = False
        self.wake()

    # --- states --------------------------------------------------------------------------------

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        self.check_home()
        key = self._next_subscriber
        self._next_subscriber += 1
        self._subscribers[key] = on_state

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    def report(self, state: SessionState, session_id: int) -> None:
        self.reporting.session(state, session_id)
        for on_state in list(self._subscribers.values()):
            call_back(on_state, state, session_id)

    def guard_session(self, notify: Callable[[], None]) -> None:
        """Notify a session guardian, before anybody else knows of a new session or connection."""
        self.notify_guardian = notify

        def on_state(state: SessionState, _session_id: int) -> None:
            if state is SessionState.CONNECTED:
                notify()

        self.subscribe(on_state)

    async def ready(self, *, read_only: bool = False) -> None:
        """Waits until the session is connected, or `read_only` to a partitioned server."""
        self.check_home()
        await anyio.lowlevel.checkpoint()
        while not (
            self.machine.state is SessionState.CONNECTED
            or (read_only and self.machine.state is SessionState.READ_ONLY)
        ):
            self.check_open()
            await self.next_change()

    def check_connected(self) -> None:
        self.check_home()
        state = self.machine.state
        if state is SessionState.CONNECTED:
            return
        self.check_open()
        failed = ConnectFailed(f"not connected to a server: {state.value}", self.attempts())
        raise ConnectionLossError(str(failed), outcome=Outcome.NOT_APPLIED) from failed

    def check_open(self) -> None:
        """Raises a `SessionError` if there will be no connection any more."""
        if self.machine.state.is_final:
            raise self.machine.ended()

    async def next_change(self) -> None:
        changed = anyio.Event()
        unsubscribe = self.subscribe(lambda _state, _session_id: changed.set())
        try:
            await changed.wait()
        finally:
            unsubscribe()

    def shared(self, path: str, make: Callable[[], T]) -> T:
        self.check_home()
        made = self._shared.get(make)
        if made is None:
            made = self._shared[make] = WeakValueDictionary()
        value: T | None = made.get(path)
        if value is None:
            value = made[path] = make()
            self._shared_lately.append(value)
        return value

    def serial(self) -> int:
        self.check_home()
        serial = self._next_serial
        self._next_serial = serial + 1
        return serial

    def gave(self, serial: int) -> bool:
        return self._first_serial <= serial < self._next_serial

    async def holders_gone(self) -> None:
        """Waits until every holder that lost its hold has released it."""
        while self.machine.leases.is_in_grace:
            self._holders_gone = anyio.Event()
            await self._holders_gone.wait()

    def due(self, at: float = -inf) -> None:
        """Wakes the timekeeper: something may be due earlier, but not before `at`."""
        self.on_due(at)
        if self._holders_gone is not None and not self.machine.leases.is_in_grace:
            self._holders_gone.set()

    # --- jobs ----------------------------------------------------------------------------------

    def spawn(self, job: Job, on_end: OnEnd | None = None) -> None:
        self.check_home()
        if self.tasks is None:
            return
        self.spawned += 1

        def ended(error: AioleadError | None) -> None:
            self.spawned -= 1
            (on_end or _log_failure)(error)

        self.start(job, ended)

    def start(self, job: Job, on_end: OnEnd = _log_failure) -> None:
        """Runs a job until the client is closed, whatever is cancelled around the client.

        Its exceptions go to `on_end`. It runs at least to its first await, even if the client is
        closed before: a wait for its `finally` ends. Without effect in a closed client. A callback
        of the event loop may call this, too.
        """
        if self.tasks is not None:
            self.tasks.start_soon(self._run, job, on_end, name=job)

    async def _run(self, job: Job, on_end: OnEnd) -> None:
        # Only the end of the client cancels it.
        error: AioleadError | None = ClientClosedError("the client is closed")
        try:
            await job()
            error = None
        except Exception as caught:
            error = as_aiolead_error(caught, job)
        finally:
            call_back(on_end, error)

    def end_jobs(self) -> None:
        """Cancels every job, also those not begun, and accepts no more."""
        tasks, self.tasks = self.tasks, None
        if tasks is not None:
            tasks.end()


class Pipelined:
    """While entered, requests wait for each other; see `CoordinationClient.pipelined`."""

    __slots__ = ("_core", "is_entered")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.is_entered: bool = False

    def __enter__(self) -> None:
        self.is_entered = True

    def __exit__(self, *_: object) -> None:
        self.is_entered = False
        self._core.on_output()


def _ignore(*_: object) -> None:
    pass


def _nothing() -> None:
    return None
