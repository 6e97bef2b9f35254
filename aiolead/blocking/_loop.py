"""The event loop of a client, in a thread of its own, and how other threads have it do something.

What threads share is here: an inbox, from which the event loop takes what they ask for, and whether
it still does. None of it is locked: a thread that is stopped anywhere, by a signal handler that
itself uses the client, say, keeps nobody from going on. Everything else belongs either to the event
loop or to one thread.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from .. import Client
from ..errors import ClientClosedError, UsageError
from ..types import Connection
from ._answer import Answer
from ._deputy import CLOSED, Block, Call, Deputy, Job

T = TypeVar("T")

Act = Callable[[], object]

THREAD_ENDS = 1.0
"""How long closing waits for the thread once all that ran in it has ended, in seconds. All that is
left then is the event loop itself, which may wait for more: asyncio's for a name that is looked up.
"""


class _Mine(threading.local):
    """What a thread has open, and whether it waits."""

    def __init__(self) -> None:
        self.deputy: Deputy | None = None
        self.open: list[tuple[object, Block[Any]]] = []
        self.waits = False  # what comes in between is a signal handler, or the like


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
        self._inbox: deque[tuple[Act, Act]] = deque()
        self._is_closing = False
        self._has_ended = False
        self._bell: socket.socket
        self._ringer: socket.socket
        self._thread: threading.Thread | None = None
        self._tasks: TaskGroup
        self._scope: anyio.CancelScope
        self._over: Answer[None] = Answer()
        self._deputies: set[Deputy] = set()

    # --- opening and closing -------------------------------------------------------------------

    def open(self, connection: Connection) -> Client:
        """Starts the thread, and opens the connection in it; gives the client."""
        self.check_here()
        opened: Answer[Client] = Answer()
        # What event loops have for this is locked.
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._thread = thread = threading.Thread(
            target=self._run, args=(connection, opened), name="aiolead-blocking", daemon=True
        )
        try:
            thread.start()
            return opened.result()
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Closes the connection, ends the thread, and waits for that.

        From its beginning on, calls are refused. In a forked child it does nothing: both are the
        parent's.

        Raises:
            UsageError: called in that thread.
        """
        thread = self._thread
        if self.is_forked or thread is None:
            return
        if self._is_here():
            raise UsageError(
                "the client was closed in the thread of its own event loop, which would wait for "
                "itself: leave `with blocking.connect(...)` in the thread that entered it"
            )
        try:
            self._stop()
        except BaseException:
            self._stop()  # it is closed whatever interrupts us
            raise
        self._over.result()
        thread.join(THREAD_ENDS)

    def _stop(self) -> None:
        self._is_closing = True
        self._post(lambda: self._scope.cancel())

    def _run(self, connection: Connection, opened: Answer[Client]) -> None:
        try:
            anyio.run(
                self._main,
                connection,
                opened,
                backend=self._backend,
                backend_options=self._options,
            )
        except BaseException as error:
            # Told in `_main`, unless it is the event loop itself that cannot be had.
            self._refuse()
            opened.fail(error)
            self._over.fail(error)
        finally:
            self._bell.close()
            self._ringer.close()

    async def _main(self, connection: Connection, opened: Answer[Client]) -> None:
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as self._tasks:
                self._scope = anyio.CancelScope()
                self._tasks.start_soon(self._receive)
                try:
                    with self._scope:
                        async with connection as client:
                            opened.set(client)
                            await anyio.sleep_forever()
                except BaseException as error:  # whatever it is: nobody is left waiting for us
                    failure = error
                self._end()
            if failure is not None:
                raise failure  # bare: not out of the group
        except BaseException as error:
            # Whoever waits for us is not to wait for the event loop to end, too.
            if not opened.fail(error):
                self._over.fail(error)
        self._over.set(None)

    def _end(self) -> None:
        """Takes nothing any more, and ends what is still there."""
        self._refuse()
        self._ring()
        for deputy in self._deputies:
            deputy.dismiss()

    def _refuse(self) -> None:
        self._has_ended = True
        self._take()

    # --- from other threads --------------------------------------------------------------------

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process in which the event loop runs."""
        return os.getpid() != self._pid

    def _is_here(self) -> bool:
        """Whether we are in its thread."""
        # Another thread may have its number once it has ended.
        if self._thread is None or self._has_ended:
            return False
        return self._thread.ident == threading.get_ident()

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
        if self._has_ended or self._is_here():
            return act()
        answer: Answer[T] = Answer()
        settle = partial(answer.settle, act)
        self._post(settle, settle)
        return answer.result()

    def call(self, act: Callable[[], Awaitable[T]]) -> T:
        """Has something awaited in the event loop, inside of whatever this thread has open.

        In a signal handler that has interrupted such a wait of this thread: beside that, since what
        is open waits itself.
        """
        self.check_here()
        mine = self._mine
        job = Call(act)
        deputy = Deputy() if mine.waits or mine.deputy is None else mine.deputy
        before = mine.waits
        try:
            mine.waits = True
            self._submit(deputy, job)
            return job.done.result()
        except BaseException:
            self._undo(deputy, job)
            raise
        finally:
            mine.waits = before

    def enter(self, owner: object, block: Block[T]) -> T:
        """Enters a block in the event loop, inside of whatever this thread has open.

        Raises:
            UsageError: in a signal handler that has interrupted this thread as it waited: what it
                waits for, or has open, may be what this would wait for.
        """
        self.check_here()
        mine = self._mine
        self._check_not_waiting("entered", owner)
        deputy = mine.deputy or Deputy()
        try:
            mine.waits = True
            self._submit(deputy, block)
            value = block.done.result()
            mine.open.append((owner, block))
            mine.deputy = deputy
            return value
        except BaseException:
            self._forget(block)
            self._undo(deputy, block)
            raise
        finally:
            mine.waits = False

    def leave(self, owner: object, error: BaseException | None) -> None:
        """Leaves what this thread has entered last, with the error of its body.

        Raises:
            UsageError: that was not the owner's; or this is a forked child, which holds nothing;
                or a signal handler that has interrupted this thread as it waited.
        """
        if self.is_forked:
            if error is None:
                self.check_process()
            return
        mine = self._mine
        self._check_not_waiting("left", owner)
        deputy = mine.deputy
        if deputy is None or mine.open[-1][0] is not owner:
            raise UsageError(
                f"{owner!r} is not what this thread has entered last: blocks are left in the "
                "reverse order, by the thread that has entered them"
            )
        block = mine.open[-1][1]
        try:
            mine.waits = True
            block.error = error
            block.is_left = True
            try:
                self._post(deputy.wake)
            except BaseException:
                self._post(deputy.wake)  # it is left whatever interrupts us
                raise
            finally:
                self._forget(block)
            block.left.result()
        finally:
            mine.waits = False

    def _check_not_waiting(self, what: str, owner: object) -> None:
        if self._mine.waits:
            raise UsageError(
                f"{owner!r} was {what} in a signal handler that had interrupted a call of the same "
                "thread to the same client, which cannot go on before the handler returns: have "
                "the handler set a flag, or raise an exception, and do this in the thread's code"
            )

    def _forget(self, block: Block[Any]) -> None:
        mine = self._mine
        if mine.open and mine.open[-1][1] is block:
            mine.open.pop()
        if not mine.open:
            mine.deputy = None

    def _submit(self, deputy: Deputy, job: Job[Any]) -> None:
        def refuse() -> None:
            job.fail(ClientClosedError(CLOSED))

        if deputy is self._mine.deputy:
            # Also as it closes: it knows whether that is a loss to what is open here.
            job.is_refused = self._is_closing
            self._post(partial(deputy.post, job), refuse)
        elif self._is_closing:
            refuse()
        else:
            self._post(partial(self._employ, deputy, job), refuse)

    def _undo(self, deputy: Deputy, job: Job[Any]) -> None:
        if not job.is_settled:
            job.abandoned = True
            self._post(partial(deputy.abandon, job))

    def _post(self, act: Act, refuse: Act = lambda: None) -> None:
        """Has the event loop do something soon: `act`, or if it has ended before that, `refuse`.

        Waits for nobody.
        """
        self._inbox.append((partial(copy_context().run, act), refuse))
        # In this order: it says that it has ended, then takes what is there. So either it finds
        # this, or we find that it has ended.
        if self._has_ended:
            self._take()
        else:
            self._ring()

    def _ring(self) -> None:
        try:
            self._ringer.send(b"!")
        except BlockingIOError:
            pass  # it has rung often enough
        except OSError:
            if not self._has_ended:  # or else there is nobody to hear it
                raise

    def _take(self) -> None:
        """Does what was asked for; once the event loop has ended, in any thread, refuses it."""
        while True:
            try:
                act, refuse = self._inbox.popleft()
            except IndexError:
                return
            if self._has_ended:
                refuse()
            else:
                act()

    # --- in the event loop ---------------------------------------------------------------------

    async def _receive(self) -> None:
        while not self._has_ended:
            self._take()
            await anyio.wait_readable(self._bell)
            self._bell.recv(4096)

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
