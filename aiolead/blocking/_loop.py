"""The event loop of a client, in a thread of its own, and the way into it from other threads.

Threads share its inbox. All other state belongs to the event loop, or to one thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from ..errors import AioleadError, ClientClosedError, UsageError
from ._inbox import Inbox, ThreadResult
from ._thread_task import CLOSED, BlockJob, CallJob, ThreadJob, ThreadProxyTask

if TYPE_CHECKING:
    from .. import Client
    from ..abc import Reply
    from ..types import Connection

T = TypeVar("T")

THREAD_ENDS = 1.0
"""Seconds that closing waits for the thread once all in it has ended. The event loop itself may
take longer: asyncio's waits for the threads of its executor, which callbacks may use."""


class _OfThread(threading.local):
    """The open blocks of a thread, and whether it waits."""

    def __init__(self) -> None:
        self.task: ThreadProxyTask | None = None
        self.open: list[BlockJob[Any]] = []
        self.waits = False  # other code in this thread meanwhile is a signal handler's


class LoopThread:
    """An event loop in a thread of its own, in which a connection is open.

    An exception that a signal handler raises in the main thread (Ctrl-C) interrupts any wait here,
    and undoes what was requested. `options` are for `anyio.run`. `proxies` has the threads' objects
    by the id of those in the event loop.
    """

    def __init__(self, backend: str, options: dict[str, Any] | None) -> None:
        self.proxies: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._backend = backend
        self._options = options
        self._pid = os.getpid()
        self._mine = _OfThread()
        self._inbox: Inbox
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._group: TaskGroup
        self._scope: anyio.CancelScope
        self._over: ThreadResult[None] = ThreadResult()
        self._tasks: set[ThreadProxyTask] = set()
        self._blocks: set[BlockJob[Any]] = set()
        """The open blocks of all threads."""
        self._requests: set[ThreadResult[Any]] = set()
        """Those that are sent and not answered."""

    # --- opening and closing -------------------------------------------------------------------

    def open(self, connection: Connection) -> Client:
        """Start the thread, open the connection in it and return the client."""
        if library := _patched_by():
            raise UsageError(
                f"aiolead.blocking runs an event loop in a thread of its own, and {library} has "
                "replaced threads in this process (monkey patching): connect in a process that it "
                "has not patched"
            )
        self.check_here()
        opened: ThreadResult[Client] = ThreadResult()
        self._inbox = Inbox()
        self._thread = thread = threading.Thread(
            target=self._run, args=(connection, opened), name="aiolead-blocking", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            self._inbox.close()
            self._inbox.release()
            raise UsageError(
                "aiolead.blocking runs an event loop in a thread of its own, and this process can "
                f"start none ({error}): raise its limit (`ulimit -u`, `pids.max` of its cgroup)"
            ) from error
        try:
            return opened.wait()
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Close the connection and end the thread; new calls are refused from the start on.

        In a forked child it does nothing: both belong to the parent. Nor does it while the
        interpreter ends, which stops the thread. Raises `UsageError` if called in that thread.
        """
        thread = self._thread
        if self.is_forked or thread is None or sys.is_finalizing():
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
        self._over.wait()
        thread.join(THREAD_ENDS)

    def _stop(self) -> None:
        self._is_closing = True
        self._inbox.post(lambda: self._scope.cancel())

    def _run(self, connection: Connection, opened: ThreadResult[Client]) -> None:
        try:
            main = partial(self._main, connection, opened)
            anyio.run(main, backend=self._backend, backend_options=self._options)
        except BaseException as error:
            # `_main` has reported its own: this is an event loop that cannot be started.
            self._inbox.close()
            opened.fail(error)
            self._over.fail(error)
        finally:
            self._inbox.release()

    async def _main(self, connection: Connection, opened: ThreadResult[Client]) -> None:
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as self._group:
                self._scope = anyio.CancelScope()
                self._group.start_soon(self._inbox.receive, self._backend)
                try:
                    with self._scope:
                        async with connection as client:
                            opened.set(client)
                            await anyio.sleep_forever()
                except BaseException as error:  # of any kind: no thread may wait for us
                    failure = error
                self._inbox.close()
                for task in self._tasks:
                    task.dismiss()
                self._blocks.clear()
                while self._requests:
                    self._requests.pop().fail(ClientClosedError(CLOSED))
            if failure is not None:
                raise failure  # unchanged: not out of the group
        except BaseException as error:
            # The waiting thread need not wait for the event loop to end, too.
            if not opened.fail(error):
                self._over.fail(error)
        self._over.set(None)

    # --- from other threads --------------------------------------------------------------------

    @property
    def is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _is_here(self) -> bool:
        """Whether this is the thread of the event loop."""
        # Its number may be reused once it has ended.
        if self._thread is None or self._inbox.is_closed:
            return False
        return self._thread.ident == threading.get_ident()

    def check_process(self) -> None:
        """Raise `UsageError` in a forked child, where nobody would ever answer."""
        if self.is_forked:
            raise UsageError(
                f"the client belongs to process {self._pid}, of which this one, {os.getpid()}, was "
                "forked: connect in this process, too"
            )

    def check_here(self) -> None:
        """Raise `UsageError` where waiting would never end or would block an event loop."""
        self.check_process()
        if sys.is_finalizing():
            raise UsageError(
                "the interpreter ends, which has stopped the event loop of the client: leave its "
                "blocks, and close generators that have some open, before the program ends"
            )
        if _runs_event_loop():
            raise UsageError(
                "aiolead.blocking was called in a thread that runs an event loop, which would "
                "stand still meanwhile: use aiolead itself there, or call this in another thread, "
                "for instance by anyio.to_thread.run_sync"
            )

    def ask(self, act: Callable[[], T]) -> T:
        """Call `act`, which does not wait, in the event loop; once that has ended, call it here."""
        return self._ask(act, act)

    def begin(self, act: Callable[[], T]) -> T:
        """As `ask`, for what nobody can do without the event loop: raises once that has ended."""
        return self._ask(act, _refuse)

    def _ask(self, act: Callable[[], T], afterwards: Callable[[], T]) -> T:
        self.check_process()
        if self._inbox.is_closed or sys.is_finalizing():
            return afterwards()
        if self._is_here():
            return act()
        result: ThreadResult[T] = ThreadResult()
        self._inbox.post(
            partial(self._inbox.defer, partial(result.set_from, act)),
            partial(result.set_from, afterwards),
        )
        return result.wait()

    def call(self, act: Callable[[], Awaitable[T]]) -> T:
        """Await something in the event loop, inside of whatever this thread has open.

        A signal handler that interrupted a wait of this thread gets a task of its own, since the
        thread's task is waiting.
        """
        self.check_here()
        mine = self._of_thread()
        job = CallJob(act)
        task = ThreadProxyTask() if mine.waits or mine.task is None else mine.task
        before = mine.waits
        try:
            mine.waits = True
            self._submit(task, job)
            return job.done.wait()
        except BaseException:
            self._undo(task, job)
            raise
        finally:
            mine.waits = before

    def request(self, act: Callable[[], Reply[T]]) -> T:
        """Make a request of the client and wait for the answer.

        Unlike a call, a request has nothing to cancel, so it takes no task: unless this thread has
        a block open, whose loss ends the wait.
        """
        mine = self._of_thread()
        if mine.task is not None and not mine.waits:
            return self.call(act)
        self.check_here()
        answer: ThreadResult[T] = ThreadResult()
        is_abandoned = False

        def send() -> None:
            if is_abandoned:
                return
            try:
                reply = act()
            except BaseException as error:  # it belongs to the thread
                answer.fail(error)
                return
            self._requests.add(answer)
            reply.add_done_callback(partial(settle, reply))

        def settle(reply: Reply[T]) -> None:
            self._requests.discard(answer)
            answer.set_from(reply.result)

        before = mine.waits
        try:
            mine.waits = True
            if self._is_closing:
                raise ClientClosedError(CLOSED)
            self._inbox.post(send, partial(answer.fail, ClientClosedError(CLOSED)))
            return answer.wait()
        except BaseException:
            is_abandoned = True
            raise
        finally:
            mine.waits = before

    def enter(self, block: BlockJob[T]) -> T:
        """Enter a block in the event loop, inside of whatever this thread has open.

        Raises `UsageError` in a signal handler that interrupted a wait of this thread: the new wait
        might depend on the interrupted wait, or on the thread's open blocks.
        """
        self.check_here()
        mine = self._of_thread()
        self._check_not_waiting("entered", block.owner)
        task = mine.task or ThreadProxyTask()
        try:
            mine.waits = True
            self._submit(task, block)
            value = block.done.wait()
            block.task = task
            mine.open.append(block)
            self._blocks.add(block)
            mine.task = task
            return value
        except BaseException:
            self._forget(block)
            self._undo(task, block)
            raise
        finally:
            mine.waits = False

    def leave(self, owner: object, error: BaseException | None, found: list[BlockJob[Any]]) -> None:
        """Leave the block that this thread entered last, with the error of its body: see `let_go`.

        Wait until it is left. `found` is empty.
        """
        self.let_go(owner, error, found)
        mine = self._mine
        for block in found:
            try:
                mine.waits = True
                block.left.wait()
            finally:
                mine.waits = False

    def let_go(
        self, owner: object, error: BaseException | None, found: list[BlockJob[Any]]
    ) -> None:
        """Have the event loop leave a block; put it into `found`, if there is one.

        If a signal handler interrupts this at any step, call it again with the same `found`.

        Raises `UsageError` if that block is not the owner's, in a forked child, which holds
        nothing, and in a signal handler that interrupted a wait of this thread. A block of another
        thread, which may never come back, is left nevertheless. While the interpreter ends, which
        closes the generators that are left, it does nothing: the session ends with the process.
        """
        if self.is_forked:
            if error is None:
                self.check_process()
            return
        if sys.is_finalizing():
            return
        mine = self._of_thread()
        if not found:
            self._check_not_waiting("left", owner)
            last = mine.open[-1:]
            if not last or last[0].owner is not owner:
                self._leave_of_another(owner)
            found.append(last[0])
        (block,) = found
        try:
            mine.waits = True
            block.error = error
            block.is_left = True
            self._inbox.post(block.task.wake)
            self._forget(block)
        finally:
            mine.waits = False

    def _leave_of_another(self, owner: object) -> NoReturn:
        """Leave the block of another thread; raise `UsageError`."""
        mine = self._mine
        found = [block for block in list(self._blocks) if block.owner is owner]
        if len(found) != 1 or any(each.owner is owner for each in mine.open):
            raise UsageError(
                f"{owner!r} is not what this thread has entered last: blocks are left in the "
                "reverse order, by the thread that has entered them"
            )
        (block,) = found
        self._blocks.discard(block)
        wrong = UsageError(
            f"{owner!r} was entered by another thread, so it was released without leaving its "
            "block there: enter and leave in one thread; close generators where they are iterated"
        )
        job = CallJob(block.give_up)
        self._submit(ThreadProxyTask(), job)
        # Such a thread may not wait: the collector closes abandoned generators in any thread.
        if not _runs_event_loop():
            try:
                mine.waits = True
                job.done.wait()
            except AioleadError as error:
                raise wrong from error
            finally:
                mine.waits = False
        raise wrong

    def _of_thread(self) -> _OfThread:
        """This thread's open blocks, without those that other threads have left meanwhile."""
        mine = self._mine
        last = mine.open[-1:]  # once: a signal handler may do the same meanwhile
        if last and last[0].is_left:
            mine.open = [each for each in mine.open if not each.is_left]
            if not mine.open:
                mine.task = None
        return mine

    def _check_not_waiting(self, what: str, owner: object) -> None:
        if self._mine.waits:
            raise UsageError(
                f"{owner!r} was {what} in a signal handler that had interrupted a call of the same "
                "thread to the same client, which cannot go on before the handler returns: have "
                "the handler set a flag, or raise an exception, and do this in the thread's code"
            )

    def _forget(self, block: BlockJob[Any]) -> None:
        mine = self._mine
        self._blocks.discard(block)
        # A signal handler may have removed it between any two steps of this.
        mine.open = [each for each in mine.open if each is not block]
        if not mine.open:
            mine.task = None

    def _submit(self, task: ThreadProxyTask, job: ThreadJob[Any]) -> None:
        def refuse() -> None:
            job.fail(ClientClosedError(CLOSED))

        if task is self._mine.task:
            # Also while closing: the task knows whether that is a loss of what is open here.
            job.is_refused = self._is_closing
            self._inbox.post(partial(task.post, job), refuse)
        elif self._is_closing:
            refuse()
        else:
            self._inbox.post(partial(self._start, task, job), refuse)

    def _undo(self, task: ThreadProxyTask, job: ThreadJob[Any]) -> None:
        if not job.is_settled:
            job.is_abandoned = True
            self._inbox.post(partial(task.abandon, job))

    # --- in the event loop ---------------------------------------------------------------------

    def _start(self, task: ThreadProxyTask, job: ThreadJob[Any]) -> None:
        self._tasks.add(task)
        self._inbox.defer(lambda: self._group.start_soon(self._work, task, job))

    async def _work(self, task: ThreadProxyTask, job: ThreadJob[Any]) -> None:
        try:
            await task.run(job)
        finally:
            self._tasks.discard(task)


def _refuse() -> NoReturn:
    raise ClientClosedError(CLOSED)


def _patched_by() -> str:
    """The library that has put greenlets in the place of threads; empty if none has."""
    gevent, eventlet = map(sys.modules.get, ("gevent.monkey", "eventlet.patcher"))
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return ""


def _runs_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and trio.lowlevel.in_trio_run()
    return True
