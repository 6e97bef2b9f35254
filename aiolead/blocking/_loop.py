"""The event loop of a client, in a thread of its own, and how other threads have it do something.

What threads share is here, and guarded here: whether the event loop is still to be had. Everything
else belongs either to the event loop or to one thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal

from .. import Client, Connection
from ..errors import ClientClosedError, UsageError
from ._deputy import Block, Call, Deputy, Job

T = TypeVar("T")

GATE_PAUSE = 0.001
"""How long the event loop waits for threads that are just asking for something, in seconds."""


class _Mine(threading.local):
    """What a thread has open."""

    def __init__(self) -> None:
        self.deputy: Deputy | None = None
        self.open: list[tuple[object, Block[Any]]] = []


class Loop:
    """An event loop in a thread of its own, in which a connection is open.

    Whatever another thread waits for in it can be interrupted, in the main thread, by what a signal
    handler raises: Ctrl-C, or what a program uses beside it. What was asked for is then undone.

    Args:
        backend: the event loop: "asyncio" or "trio".
        options: for `anyio.run`.
    """

    def __init__(self, backend: str, options: dict[str, Any] | None) -> None:
        self._backend = backend
        self._options = options
        self._pid = os.getpid()
        self._mine = _Mine()
        self._gate = threading.Lock()  # guards the way into the event loop
        self._ended = False
        self._thread_id = 0
        self._portal: BlockingPortal
        self._tasks: TaskGroup
        self._scope: anyio.CancelScope
        self._can_be_stopped = threading.Event()
        self._given_up = False
        self._over: Future[None] = Future()
        self._deputies: set[Deputy] = set()

    # --- opening and closing -------------------------------------------------------------------

    def open(self, connection: Connection) -> Client:
        """Starts the thread, and opens the connection in it; gives the client."""
        self.check_here()
        opened: Future[Client] = Future()
        thread = threading.Thread(
            target=self._run, args=(connection, opened), name="aiolead-blocking", daemon=True
        )
        try:
            thread.start()
            return opened.result()
        except BaseException:
            self._given_up = True
            if self._can_be_stopped.is_set():
                self._stop()
            raise

    def close(self) -> None:
        """Closes the connection, ends the thread, and waits for that.

        In a forked child it does nothing: both are the parent's.
        """
        if not self.is_forked:
            self._stop()
            self._over.result()

    def _stop(self) -> None:
        with suppress(ClientClosedError):
            self._post(self._scope.cancel)

    def _run(self, connection: Connection, opened: Future[Client]) -> None:
        try:
            anyio.run(
                self._main,
                connection,
                opened,
                backend=self._backend,
                backend_options=self._options,
            )
        except BaseException as error:
            self._ended = True
            (self._over if opened.done() else opened).set_exception(error)
        if not self._over.done():
            self._over.set_result(None)

    async def _main(self, connection: Connection, opened: Future[Client]) -> None:
        self._thread_id = threading.get_ident()
        failure: BaseException | None = None
        async with BlockingPortal() as self._portal, anyio.create_task_group() as self._tasks:
            try:
                with anyio.CancelScope() as self._scope:
                    self._can_be_stopped.set()
                    if self._given_up:  # before there was anything to stop
                        self._scope.cancel()
                    async with connection as client:
                        opened.set_result(client)
                        await anyio.sleep_forever()
            except BaseException as error:  # whatever it is: nobody is left waiting for us
                failure = error
            await self._end()
        if failure is not None:
            raise failure  # bare: not out of the group

    async def _end(self) -> None:
        """Lets nobody in any more, and ends what is still there."""
        # Who is in the gate waits for this event loop, and only for a moment.
        while not self._gate.acquire(blocking=False):  # noqa: ASYNC110 - a lock of threads
            await anyio.sleep(GATE_PAUSE)
        self._ended = True
        self._gate.release()
        for deputy in self._deputies:
            deputy.dismiss()

    # --- from other threads --------------------------------------------------------------------

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process in which the event loop runs."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raises `UsageError` in a forked child: nobody there would ever answer."""
        if self.is_forked:
            raise UsageError(
                f"the client belongs to process {self._pid}, of which this one, {os.getpid()}, was "
                "forked: connect in this process, too"
            )

    def check_here(self) -> None:
        """Raises `UsageError` where waiting would never end, or stop everything else."""
        self.check_process()
        if _runs_event_loop():
            raise UsageError(
                "aiolead.blocking was called in a thread that runs an event loop, which would "
                "stand still meanwhile: use aiolead itself there, or call this in another thread, "
                "for instance by anyio.to_thread.run_sync"
            )

    def ask(self, act: Callable[[], T]) -> T:
        """Calls in the event loop what does not wait, wherever we are; once it has ended, here."""
        self.check_process()
        if threading.get_ident() != self._thread_id:
            with self._gate:
                if not self._ended:
                    return self._portal.call(act)
        return act()

    def call(self, act: Callable[[], Awaitable[T]]) -> T:
        """Has something awaited in the event loop, inside of whatever this thread has open."""
        self.check_here()
        job = Call(act)
        deputy = self._mine.deputy or Deputy()
        try:
            self._submit(deputy, job)
            return job.done.result()
        except BaseException:
            self._undo(deputy, job)
            raise

    def enter(self, owner: object, block: Block[T]) -> T:
        """Enters a block in the event loop, inside of whatever this thread has open."""
        self.check_here()
        mine = self._mine
        deputy = mine.deputy or Deputy()
        try:
            self._submit(deputy, block)
            value = block.done.result()
            mine.open.append((owner, block))
            mine.deputy = deputy
            return value
        except BaseException:
            self._forget(block)
            self._undo(deputy, block)
            raise

    def leave(self, owner: object, error: BaseException | None) -> bool:
        """Leaves what this thread has entered last; says whether that swallows the error.

        Raises:
            UsageError: that was not the owner's; or this is a forked child, which holds nothing.
        """
        if self.is_forked:
            if error is None:
                self.check_process()
            return False
        mine = self._mine
        deputy = mine.deputy
        if deputy is None or mine.open[-1][0] is not owner:
            raise UsageError(
                f"{owner!r} is not what this thread has entered last: blocks are left in the "
                "reverse order, by the thread that has entered them"
            )
        block = mine.open[-1][1]
        block.error = error
        block.is_left = True
        try:
            self._wake(deputy)
        except BaseException:
            self._wake(deputy)  # it is left whatever interrupts us
            raise
        finally:
            self._forget(block)
        return block.left.result()

    def _forget(self, block: Block[Any]) -> None:
        mine = self._mine
        if mine.open and mine.open[-1][1] is block:
            mine.open.pop()
        if not mine.open:
            mine.deputy = None

    def _submit(self, deputy: Deputy, job: Job[Any]) -> None:
        if deputy is self._mine.deputy:
            self._post(deputy.post, job)
        else:
            self._post(self._employ, deputy, job)

    def _wake(self, deputy: Deputy) -> None:
        with suppress(ClientClosedError):  # it has been dismissed, then
            self._post(deputy.wake)

    def _undo(self, deputy: Deputy, job: Job[Any]) -> None:
        if not job.is_settled:
            job.abandoned = True
            with suppress(ClientClosedError):
                self._post(deputy.abandon, job)

    def _post(self, act: Callable[..., object], *args: object) -> None:
        with self._gate:
            if self._ended:
                raise ClientClosedError("the client was closed")
            self._portal.call(act, *args)

    # --- in the event loop ---------------------------------------------------------------------

    def _employ(self, deputy: Deputy, job: Job[Any]) -> None:
        self._deputies.add(deputy)
        self._tasks.start_soon(self._work, deputy, job)

    async def _work(self, deputy: Deputy, job: Job[Any]) -> None:
        try:
            await deputy.run(job)
        finally:
            self._deputies.discard(deputy)


def _runs_event_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and trio.lowlevel.in_trio_run()
    return True
