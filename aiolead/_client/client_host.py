"""The life of an open client: its jobs, how it is entered and how it is closed."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import anyio
import anyio.lowlevel

from .._util.escaping import get_logger, in_seconds, shown_session
from .._util.host_tasks import HostTasks
from .._util.internal_errors import internal_error
from .._util.shielding import wait_through
from ..errors import AioleadError, ConnectFailed, InternalError
from ..model import SessionState
from .api.operations import EXISTS, Scope
from .connect_options import Options
from .core import Core

if TYPE_CHECKING:
    from .watchdog import Guard

_logger = get_logger("aiolead.client")


class Companion(Protocol):
    """Lives beside an open client, such as a process that closes the session after a crash."""

    def start(self) -> None:
        """Begin, before the client has a task or a connection."""

    def on_session_changed(self) -> None:
        """See `Core.on_session_changed`."""

    async def watch(self) -> None:
        """Run in a task of the client."""

    def close(self) -> None:
        """End, after the client's tasks have ended."""


@final
@dataclass(eq=False, repr=False)
class ClientHost:
    """Runs a client, in tasks that belong to no task of the program.

    Nothing here refers to the program's objects (`Client`, `Connection`), so that it shows when the
    program has dropped them without closing the client: see `ClientHandle`.
    """

    options: Options
    core: Core
    guard: Guard | None
    companion: Companion | None
    following: Callable[[], Awaitable[None]] | None

    _tasks: HostTasks | None = None
    _closed: anyio.Event | None = None
    """Exists once closing has begun, and is set when nothing is left of the client."""
    _is_late: bool = False
    """Whether entering has taken as long as it may, so that closing has no time to wait."""
    _defect: BaseException | None = None
    """The exception of closing, or a task's that is no `Exception`; raised by leaving."""

    @property
    def is_open(self) -> bool:
        return self._tasks is not None and self._closed is None

    async def enter(self) -> None:
        """Start the client, and wait for its session unless `connect_timeout` is 0."""
        core, timeout = self.core, self.options.times.connect_timeout
        core.settle_here()
        if self.companion is not None:
            core.on_session_changed(self.companion.on_session_changed)
            self.companion.start()
        self._tasks = HostTasks(self._crashed, self._abandoned, lambda: core.is_forked)
        core.begin_jobs(self._tasks)
        try:
            if self.guard is not None:
                self.guard.start()
            core.start(core.keep_time, self._supervised)
            core.start(core.supervisor.keep_connected, self._supervised)
            if self.companion is not None:
                core.start(self.companion.watch)
            if self.following is not None:
                core.start(self.following)
            if timeout:
                with anyio.fail_after(timeout):
                    await core.ready(read_only=self.options.read_only)
            else:
                await anyio.lowlevel.checkpoint()
        except TimeoutError:
            self._is_late = True
            await self.leave()
            raise ConnectFailed(
                f"no session with {self.options.target.shown} within {in_seconds(timeout)}",
                core.supervisor.attempts(),
            ) from None
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """Close the client, or wait until that is done. Any task of the event loop may call it.

        Cancellation is put off until the client is closed, which is bounded.
        """
        if self._tasks is None:
            return
        if self.core.is_forked:
            self._stop()  # the session is the parent process's
            return
        self.core.check_home()
        await wait_through(self._close())
        defect, self._defect = self._defect, None
        if defect is not None:
            raise defect

    def abandon(self) -> None:
        """Close the client, as nobody refers to it any more. Any thread may call it."""
        if self.is_open and not self.core.is_forked:
            self.core.call_soon(self._close_if_open)

    def _close_if_open(self) -> None:
        if self.is_open:
            self._close()

    def _abandoned(self) -> None:
        """All tasks are cancelled, and the one that entered has ended or waits for the client's."""
        if self.is_open:
            _logger.warning("the program has not closed the client: it is closed as all tasks end")
            self._close()
            # With `-W error` it would be raised to nobody.
            with suppress(ResourceWarning):
                self.warn_unclosed(self)

    def warn_unclosed(self, source: object) -> None:
        warnings.warn(
            f"unclosed client of {self.options.target.shown}: write `async with "
            "aiolead.connect(...)`, or `await client.aclose()`",
            ResourceWarning,
            source=source,
            stacklevel=3,
        )

    def _close(self) -> anyio.Event:
        """Begin to close; the event is set when nothing is left."""
        if self._closed is None:
            assert self._tasks is not None
            self._closed = anyio.Event()
            self._tasks.start_closing(self._closing)
        return self._closed

    async def _closing(self) -> None:
        assert self._tasks is not None
        assert self._closed is not None
        try:
            with self._carried():
                await self.close_session()
            with self._carried():
                self._stop()
            await self._tasks.wait_ended()
            if self.companion is not None:
                self.companion.close()
        finally:
            self._closed.set()

    @contextmanager
    def _carried(self) -> Iterator[None]:
        """Keep what a step of closing raises for the task that waits for the end.

        A callback of the program may raise anything, such as `SystemExit`. Here nobody would see
        an exception, and on asyncio it would end the event loop before that task goes on.
        """
        try:
            yield
        except anyio.get_cancelled_exc_class():
            raise
        except Exception as error:
            self._defect = internal_error(error, "closing the client")
        except BaseException as error:
            self._defect = error

    def _stop(self) -> None:
        """End the client's jobs, and every wait for a reply."""
        self.core.end_jobs()
        if self.guard is not None:
            self.guard.close()
        self.core.machine.closed()

    async def close_session(self) -> None:
        """End every hold, then the session."""
        core, machine = self.core, self.core.machine
        machine.leases.close()
        with anyio.move_on_after(machine.timing.holders_wait, shield=True):
            await core.holders_gone()
        core.reporting.is_closing = True
        with anyio.move_on_after(machine.timing.close_wait, shield=True):
            if machine.awaits_session and not self._is_late:
                # Nobody would close the session that the server is about to grant.
                with anyio.move_on_after(machine.timing.greeting_wait):
                    await core.supervisor.greeted()
            if machine.state is not SessionState.CONNECTED:
                return
            if machine.session_id == core.detached:
                await self._everything_answered()
            elif not machine.is_own:
                _logger.info(
                    "the session %s is not closed, and ends when it times out: another "
                    "process may still hold something under it",
                    shown_session(machine.session_id),
                )
                await self._everything_answered()
            else:
                goodbye = anyio.Event()
                machine.close(core.clock()).add_done_callback(goodbye.set)
                await goodbye.wait()

    async def _everything_answered(self) -> None:
        """Wait for the answers to all that was sent, twice: one may have sent the next request."""
        for _ in range(2):
            answered = anyio.Event()
            barrier = self.core.submit(Scope("").read(EXISTS, self.core, "/", None))
            barrier.add_done_callback(answered.set)
            await answered.wait()

    # --- its jobs ------------------------------------------------------------------------------

    def _supervised(self, error: AioleadError | None) -> None:
        """Closes the client after the failure of a job that it needs."""
        if isinstance(error, InternalError):
            self.core.supervisor.end(error)

    def _crashed(self, error: BaseException, function: object) -> None:
        """A task has raised, although jobs contain their errors: the client cannot go on."""
        if isinstance(error, Exception):
            failure = internal_error(error, function)
        else:
            self._defect = error
            failure = InternalError(f"{type(error).__name__} in a task of the client")
        try:
            self.core.supervisor.end(failure)
        except BaseException as again:  # the same callback
            self._defect = again


@final
class ClientHandle:
    """Shared by all that the program has of a client; closes the client once nobody has it."""

    __slots__ = ("__weakref__", "host")

    def __init__(self, host: ClientHost) -> None:
        self.host: ClientHost = host

    def __del__(self) -> None:
        host = self.host
        if not host.is_open or host.core.is_forked:
            return
        try:
            host.warn_unclosed(self)
        finally:
            host.abandon()
