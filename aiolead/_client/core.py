"""The session that all views of one client share: the machine, its connections, time and jobs.

`PendingReply` is the awaitable answer to a request that was submitted to it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import checkpoint

from .._session.machine import SessionMachine
from .._session.requests import Call
from .._util.daemon_threads import ENDED
from .._util.escaping import escaped, get_logger
from .._util.host_tasks import HostTasks
from .._util.internal_errors import as_aiolead_error, call_back
from ..errors import (
    AioleadError,
    ClientClosedError,
    ConnectFailed,
    ConnectionLossError,
    InternalError,
    Outcome,
    UsageError,
)
from ..events import EventSink
from ..model import ACL, OPEN_ACL_UNSAFE, SessionState
from .client_reporting import LEAST_STANDSTILL, ClientReporting, shown_attempts
from .fast import check_cancelled, reply_future
from .net.opener import ConnectionEnded

if TYPE_CHECKING:
    from .._session.observer import SessionObserver
    from .net.supervisor import Supervisor

T = TypeVar("T")
C = TypeVar("C", bound=Call[Any])

Job = Callable[[], Awaitable[object]]
OnEnd = Callable[[AioleadError | None], object]

logger = get_logger("aiolead.client")

KEPT = 1_000
"""How many of the objects shared last are kept although nobody uses them."""

LONGEST_SLEEP = 1.0
"""The longest sleep of a holder, in seconds: its clock stops in suspend, the lease's does not."""

MAX_SERIAL = 1 << 62
"""The largest first serial of a client: names have 64 bits for serials."""


def _log_failure(error: AioleadError | None) -> None:
    # Every job ends with the client, and an `InternalError` has been logged.
    if error is not None and not isinstance(error, (ClientClosedError, InternalError)):
        logger.warning("a background job of the client failed: %s", error)


process = object()
"""A different object in each process that Python knows to be forked."""


def _in_child() -> None:
    global process
    process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Core:
    """A client's session: the machine, who is notified of it, its connections, its time, its jobs.

    It belongs to one process, thread and event loop. It is the machine's only observer: output goes
    to the present connection, states to the subscribers, and what is due earlier to the timekeeper.
    It is also what the present connection carries.
    """

    def __init__(
        self,
        make_machine: Callable[[SessionObserver], SessionMachine],
        make_supervisor: Callable[[Core], Supervisor],
        clock: Callable[[], float],
        sinks: Sequence[EventSink] = (),
        *,
        first_serial: int = 1,
        default_acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE,
    ) -> None:
        self.clock = clock
        self.default_acl: tuple[ACL, ...] = default_acl
        """The ACL of znodes that are created without one, through any view of the client."""
        self.tasks: HostTasks | None = None
        """Where jobs run, from `begin_jobs` to `end_jobs`."""
        self.pipelined: Pipelined = Pipelined(self)
        """Of recipes, whose bodies do not await: their requests wait until it is left."""
        self.gathered: Pipelined = Pipelined(self)
        """Of the program: requests wait until it is left, or until its body awaits."""
        self.is_session_shared = False
        self.detached = 0
        """The session that is not closed with the client; 0 for none."""
        self._subscribers: dict[int, Callable[[SessionState, int], object]] = {}
        self._next_subscriber = 0
        self._session_watchers: list[Callable[[], object]] = []
        self.shared: dict[object, WeakValueDictionary[str, Any]] = {}
        """The objects of `Backend.shared`: by their makers, then by their paths on the servers."""
        self.shared_lately: deque[object] = deque(maxlen=KEPT)
        self.first_serial: int = first_serial
        self.last_serial: int = first_serial - 1
        """The number that `Backend.serial` gave last, to any view."""
        self._holders_gone: anyio.Event | None = None
        self._due = anyio.Event()
        """Wakes the timekeeper."""
        self._wakes_at = inf
        """When the timekeeper wakes from a short sleep; else `inf`."""
        self.spawned: int = 0
        self._expires_soon = False
        self._running: Callable[[], object] = _nowhere
        self._loop: object = None
        self._is_asyncio = False
        self._soon: Callable[[Callable[[], object]], object] | None = None
        self.process: object = process
        """Compared with `process` of this module by what must cost no call; see `is_forked`."""
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self.machine: SessionMachine = make_machine(self)
        self.reporting: ClientReporting = ClientReporting(self.machine, clock, sinks)
        self.supervisor: Supervisor = make_supervisor(self)
        self._traces_requests = self.reporting.hub.wants_requests

    def submit(self, call: C) -> C:
        self.check_home()
        if self._traces_requests and call.kind.is_counted:
            self.reporting.follow(call, self.supervisor)
        self.machine.submit(call, self.clock())
        return call

    # --- where it belongs ----------------------------------------------------------------------
    # A client has no locks, and its socket and session belong to one process. Used elsewhere, it
    # would mix up frames, wake tasks of a loop that does not run, or end the parent's session. So
    # every entry point checks: one call returns this thread's event loop, and `process` is replaced
    # in a forked child.

    def settle_here(self) -> None:
        """Bind the client to this process, thread and event loop."""
        self._running = _loop_teller()
        loop: Any = self._running()
        self._loop = loop
        self._is_asyncio = hasattr(loop, "call_soon_threadsafe")
        self._soon = loop.call_soon_threadsafe if self._is_asyncio else loop.run_sync_soon
        self.process = process
        self._pid = os.getpid()
        self._thread = threading.get_ident()

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked copy: its session and its socket are the parent's."""
        return process is not self.process

    def is_here(self) -> bool:
        """Whether this is the process, thread and event loop; all are before `settle_here`."""
        try:
            return self._running() is self._loop and process is self.process
        except RuntimeError:
            return False  # no event loop here at all

    def check_home(self) -> None:
        """Raises `UsageError` in another process, thread or event loop, or in none."""
        try:
            if self._running() is self._loop and process is self.process:
                return
        except RuntimeError:
            pass
        raise UsageError(self._elsewhere())

    def _elsewhere(self) -> str:
        if self.is_forked:
            return (
                f"the client belongs to process {self._pid}, of which this one, {os.getpid()}, was "
                "forked: connect in this process, too"
            )
        if threading.get_ident() != self._thread:
            return (
                "the client belongs to the event loop of another thread: call it there, for "
                "instance by anyio.from_thread.run"
            )
        return "the client belongs to another event loop: connect in this one, too"

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
        if self._is_in_task():
            self.machine.leases.expire(self.clock())
        elif not self._expires_soon:  # a thread may ask again and again
            self._expires_soon = True
            self.call_soon(self._wake_soon)

    def _is_in_task(self) -> bool:
        """Whether a task of the event loop calls this, and not a callback of it."""
        if self._soon is None or not self.is_here():
            return False
        if self._is_asyncio:
            return sys.modules["asyncio"].current_task() is not None
        in_task: bool = sys.modules["trio"].lowlevel.in_trio_task()
        return in_task

    def call_soon(self, function: Callable[[], object]) -> None:
        """Has the event loop call a function soon; without effect once the event loop has ended.

        Any thread of this process may call it, and any signal handler.
        """
        if self._soon is not None and not self.is_forked:  # else it would wake the parent's loop
            with contextlib.suppress(*ENDED):
                self._soon(partial(call_back, function))

    def _wake_soon(self) -> None:
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

    def on_session_changed(self, notify: Callable[[], object]) -> None:
        """Have a function called when what closes the session in another process has changed.

        That is in `session_changed`, and before anybody else learns of a new session or connection.
        """
        self._session_watchers.append(notify)

    def session_changed(self) -> None:
        """The credentials have changed, or the servers, or whether the session is to be closed."""
        for notify in self._session_watchers:
            call_back(notify)

    async def ready(self, *, read_only: bool = False) -> None:
        """Waits until the session is connected, or `read_only` to a partitioned server."""
        self.check_home()
        await checkpoint()
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
        failed = ConnectFailed(
            f"not connected to a server: {state.value}", self.supervisor.attempts()
        )
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

    async def holders_gone(self) -> None:
        """Waits until every holder that lost its hold has released it."""
        while self.machine.leases.is_in_grace:
            gone = self._holders_gone = self._holders_gone or anyio.Event()
            await gone.wait()

    # --- what the machine reports: see `SessionObserver` -----------------------------------------

    def state_changed(self, state: SessionState, session_id: int) -> None:
        self.reporting.session(state, session_id)
        if state is SessionState.CONNECTED:
            self.session_changed()
        for on_state in list(self._subscribers.values()):
            call_back(on_state, state, session_id)

    def output_ready(self) -> None:
        connection = self.supervisor.connection
        if connection is None or self.pipelined.is_entered:
            return
        # A lone request leaves at once. While others are in flight, those of one turn of the event
        # loop leave together. So do those of the program's `pipelined`, at the end of this turn at
        # the latest: were its body to wait, renewals of the lease would wait with it otherwise.
        if (
            connection.is_open
            and not self.machine.requests.unanswered
            and not self.gathered.is_entered
        ):
            connection.carrier.push()
        else:
            connection.carrier.wake()

    def due_earlier(self, at: float) -> None:
        # Work that is due after the next look can wait, as for a lock held for a millisecond.
        if self._wakes_at > at and self._wakes_at > self.machine.next_deadline():
            self._due.set()
        if self._holders_gone is not None and not self.machine.leases.is_in_grace:
            self._holders_gone.set()
            self._holders_gone = None

    def lease_renewed(self, took: float, remaining: float) -> None:
        self.reporting.lease_renewed(took, remaining)

    def ephemerals_near_limit(self) -> None:
        from .api.server_features import recount_ephemerals  # it imports this module

        recount_ephemerals(self, self.machine.max_reply)

    def release_unknown(self) -> None:
        from .api.server_features import learn_release  # it imports this module

        self.start(partial(learn_release, self))

    def attempts(self) -> str:
        return shown_attempts(self.supervisor.attempts())

    # --- the bytes of the present connection: see `Traffic` ------------------------------------

    def take(self) -> bytes:
        connection = self.supervisor.connection
        if connection is None or connection.ended is not None:
            return b""
        return self.machine.data_to_send(self.clock())

    def feed(self, data: bytes) -> bool:
        machine, supervisor = self.machine, self.supervisor
        try:
            has_output = machine.receive(data, self.clock())
        except AioleadError as error:
            # A protocol error or the end of the session, which the machine has handled. Cut at
            # once, before anybody sees a failed request and finds the client still connected.
            supervisor.cut(error)
            return False
        connection = supervisor.connection
        if connection is None:
            return False
        if not connection.is_open:
            supervisor.look_whether_opened(connection)
        if has_output:
            connection.carrier.wake()
        if connection.answered is not None and not machine.requests.inflight:
            connection.answered.set()
        return machine.decoding is not None

    # --- time ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the timekeeper."""
        self._due.set()

    async def keep_time(self) -> None:
        machine, clock = self.machine, self.clock
        was_woken = False
        while True:
            self._due = anyio.Event()
            self._wakes_at = inf
            now = clock()
            late, self.reporting.wakes_at = now - self.reporting.wakes_at, inf
            if late >= LEAST_STANDSTILL:
                self.reporting.awake(now, late)
            why = machine.tick(now)
            if why is not None:
                # After a standstill of the process, answers may wait to be read: they count.
                await checkpoint()
                why = machine.tick(clock())
            if why is not None:
                self.supervisor.cut(ConnectionEnded(why))
            self.output_ready()
            due = machine.next_deadline()
            if due == inf:
                await self._due.wait()
            else:
                now = clock()
                longest = LONGEST_SLEEP if machine.leases.held else inf
                if was_woken:
                    # A program that held something briefly will do so again.
                    longest = min(LONGEST_SLEEP, machine.timing.settle)
                sleep = min(max(0.0, due - now), longest)
                self.reporting.wakes_at = now + sleep
                if sleep <= LONGEST_SLEEP:
                    self._wakes_at = now + sleep
                with anyio.move_on_after(sleep) as nap:
                    await self._due.wait()
                was_woken = not nap.cancelled_caught

    # --- jobs ----------------------------------------------------------------------------------

    def begin_jobs(self, tasks: HostTasks) -> None:
        """Run jobs from now on, in these tasks."""
        self.tasks = tasks

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
    """While entered, requests wait for each other; see `Client.pipelined`."""

    __slots__ = ("_core", "is_entered")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.is_entered: bool = False

    def __enter__(self) -> None:
        self.is_entered = True

    def __exit__(self, *_: object) -> None:
        self.is_entered = False
        self._core.output_ready()


def _nowhere() -> None:
    """The event loop of a client that is not bound."""


def _loop_teller() -> Callable[[], object]:
    """Returns the function that returns the running event loop, or raises `RuntimeError`."""
    teller: Callable[[], object]
    # Neither library is imported: a program on one of them may lack the other.
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        teller = asyncio.get_running_loop
        with contextlib.suppress(RuntimeError):
            teller()
            return teller
    teller = sys.modules["trio"].lowlevel.current_trio_token
    return teller


# --- the answer to a request ---------------------------------------------------------------------


class _Unseen:
    """Reports a failure that nobody asked about. Made only for those, so that others cost nothing.

    It is logged, and a `RuntimeWarning`, which tests can turn into an error.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what: str | None = what

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self.what is not None:
            logger.warning("a request that was never awaited has failed: %s", self.what)
            _warn(
                f"a request that was never awaited has failed: {escaped(self.what)}",
                RuntimeWarning,
                stacklevel=2,
            )


@dataclass(slots=True, eq=False, repr=False)
class PendingReply(Call[T], Coroutine[Any, Any, T]):
    """A call whose answer can be awaited; see `aiolead.abc.Reply`.

    It has a coroutine's methods, so that a task can be made of it, as by
    `tasks.create_task(client.get(path))`. Unlike a coroutine it may be awaited again, and by
    several tasks.

    Threads and forks: any thread may look whether it is done, and ask for its result or error
    then. Only the client's event loop may await it, or register callbacks; that is not checked.
    """

    _was_awaited: bool = field(default=False, init=False)
    _unseen: _Unseen | None = field(default=None, init=False)
    _steps: Generator[Any, Any, T] | None = field(default=None, init=False)
    """The wait of the task that was made of it."""

    def __repr__(self) -> str:
        # Also the sentence in the TypeError of an anyio that starts nothing but `async def`.
        return f"<request {self}: await it, in an `async def` if a task group is to start that>"

    def __bool__(self) -> NoReturn:
        raise UsageError(f"a request has no truth value: await it, as in `if await ...:` ({self})")

    def __await__(self) -> Generator[Any, Any, T]:
        # No generator: the task is resumed with the answer, through no function of ours.
        if self.is_done:
            return self._await_answered()
        self._was_awaited = True
        waiter = reply_future()
        if self._waiter is None and self._callbacks is None:
            self._waiter = waiter
        else:  # in its turn, behind the callbacks and other waiters
            self.add_done_callback(partial(self._wake, waiter))
        waits: Generator[Any, Any, T] = waiter.__await__()
        return waits

    # --- of a coroutine, for tasks that are made of it -----------------------------------------

    cr_running: ClassVar[bool] = False
    cr_frame: ClassVar[None] = None

    @property
    def cr_suspended(self) -> bool:
        """For `inspect.getcoroutinestate`, by which anyio asks whether a task has begun."""
        return self._steps is not None

    def send(self, value: Any, /) -> Any:
        if self._steps is not None and not self.is_done:
            # The task that waits is resumed once it is done. Its wait cannot be shared: cancelling
            # one of the tasks would cancel the other.
            raise UsageError(f"a task was made of this request already: await it there ({self})")
        return self._step(lambda steps: steps.send(value))

    def throw(self, *error: Any) -> Any:
        return self._step(lambda steps: steps.throw(*error))

    def close(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def _step(self, step: Callable[[Generator[Any, Any, T]], Any]) -> Any:
        steps = self._steps
        if steps is None:
            steps = self._steps = self.__await__()
        try:
            return step(steps)
        except BaseException:  # the end of it: StopIteration, if there is an answer
            self._steps = None
            raise

    def _await_answered(self) -> Generator[Any, Any, T]:
        if self._was_awaited:
            yield from checkpoint().__await__()
        else:
            self._was_awaited = True
            if self._error is not None:
                self._see()
            # A thousand replies that were answered together do not take a thousand turns of the
            # event loop. This starves nobody: for each of them, the client had to wait once.
            yield from check_cancelled()
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def error(self) -> AioleadError | None:
        # `result` raises what this returns.
        if self._error is not None:
            self._see()
        return self._error

    def fail(self, error: AioleadError) -> None:
        Call.fail(self, error)  # calls the callbacks, which may ask for the error
        if self._was_awaited or not self.is_users:
            return
        # A closed client has dropped everything under way: that needs no report.
        if not isinstance(error, ClientClosedError):
            self._unseen = _Unseen(f"{self}: {error}")

    def _see(self) -> None:
        """Notes that somebody asks for the outcome."""
        if self.is_done:
            self._was_awaited = True
            if self._unseen is not None:
                self._unseen.what = None
