"""The tasks of a host, which belong to no task of the program. A host is a client or an embedded
server.

No cancel scope and no task group of a host is open in the program's tasks while the host is open.
On asyncio these are tasks of their own type (`_asyncio_tasks`), on trio system tasks. Each one has
a shielded cancel scope, and only the end of the host cancels it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, cast, final

import anyio
import anyio.abc

from .shielding import shielded
from .tasks import AnyTaskGroup, trio_here

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_Spawn = Callable[[object, Callable[[], Awaitable[None]]], object]
"""Starts a task. The first function gives the task its name, the second one is what it runs."""

_OnFailure = Callable[[BaseException, object], object]
"""Called with what a task has raised, and the function that it ran."""


@final
class TaskSet:
    """Tasks that are cancelled together and awaited together.

    Args:
        spawn: starts a task that belongs to no other one.
        on_failure: called with what a task raises, except for its cancellation.
    """

    __slots__ = ("_changed", "_is_cancelled", "_living", "_on_failure", "_scopes", "_spawn")

    def __init__(
        self, spawn: _Spawn, on_failure: Callable[[BaseException, object], object]
    ) -> None:
        self._spawn = spawn
        self._on_failure = on_failure
        self._scopes: set[anyio.CancelScope] = set()
        self._living = 0  # also those that have not begun yet, and have no scope
        self._is_cancelled = False
        self._changed: anyio.Event | None = None

    def start_soon(
        self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> None:
        """Start a task. It runs at least to its first await, even if it is cancelled before."""

        async def run() -> None:
            try:
                # Also from the end of trio's main task.
                with shielded() as scope:
                    self._scopes.add(scope)
                    if self._is_cancelled:
                        scope.cancel()
                    try:
                        await function(*args)
                    finally:
                        self._scopes.discard(scope)
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                self._on_failure(error, function)
            finally:
                self._living -= 1
                if self._changed is not None:
                    self._changed.set()

        self._spawn(name or function, run)
        self._living += 1

    def cancel(self) -> None:
        """Cancel every task, also those that have not begun or are started later."""
        self._is_cancelled = True
        for scope in list(self._scopes):
            scope.cancel()

    async def wait_ended(self) -> None:
        """Wait until no task is left."""
        while self._living:
            self._changed = anyio.Event()
            await self._changed.wait()


@final
class HostTasks:
    """All tasks of one host, made in the event loop that they run in.

    Args:
        on_crash: called with what a task raises. Jobs contain their errors, so this is a defect.
        on_abandoned: called, at least once, if the program has ended, or cancels all tasks, and
            nobody is left who would close the host.
        is_forked: whether this is a forked child: its copies of the tasks are left alone.
    """

    def __init__(
        self,
        on_crash: _OnFailure,
        on_abandoned: Callable[[], object],
        is_forked: Callable[[], bool],
    ) -> None:
        self._on_abandoned = on_abandoned
        self._trio = trio_here()
        self._spawn: _Spawn
        if self._trio is not None:
            self._spawn = self._spawn_on_trio
        else:
            from .asyncio_tasks import Spawner  # needs asyncio, which trio does without

            self._spawn = Spawner(on_abandoned, is_forked)
        self._running: Callable[[], object] = (
            sys.modules["asyncio"].get_running_loop
            if self._trio is None
            else self._trio.lowlevel.current_trio_token
        )
        self._loop = self._running()
        self._on_crash = on_crash
        self._has_exited = False
        self._jobs = TaskSet(self._spawn, self._crashed)
        self._closing = TaskSet(self._spawn, self._crashed)
        if self._trio is not None:
            self._watch: Any = self._trio.CancelScope()
            self._watched = anyio.Event()
            self._spawn(self._watch_main, self._watch_main)

    def is_here(self) -> bool:
        """Whether the event loop of the tasks is the one that runs."""
        try:
            return self._running() is self._loop
        except RuntimeError:
            return False  # no event loop here at all

    def start_soon(
        self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> None:
        """Start a task that `end` cancels; `name` is a function, by default the one it runs."""
        self._jobs.start_soon(function, *args, name=name)

    def start_closing(self, function: Callable[[], Awaitable[object]]) -> None:
        """Start the task that closes the host, which nothing cancels."""
        self._closing.start_soon(function)

    def end(self) -> None:
        """Cancel every task that was, or will be, started by `start_soon`."""
        self._jobs.cancel()
        if self._trio is not None:
            self._watch.cancel()

    async def wait_ended(self) -> None:
        """Wait until all that `start_soon` has started has ended."""
        await self._jobs.wait_ended()
        if self._trio is not None:
            await self._watched.wait()

    def _crashed(self, error: BaseException, function: object) -> None:
        self._on_crash(error, function)
        if not isinstance(error, Exception) and not self._has_exited:
            # Such as `SystemExit`: it ends the event loop, which cancels every task. A second one,
            # of the same callback, would end it before the program's tasks have left.
            self._has_exited = True
            raise error

    def _spawn_on_trio(self, function: object, run: Callable[[], Awaitable[None]]) -> None:
        # A system task has the context of the event loop otherwise.
        self._trio.lowlevel.spawn_system_task(run, name=name_of(function), context=copy_context())

    async def _watch_main(self) -> None:
        """Trio cancels system tasks when its main task has ended."""
        with self._watch:
            try:
                await self._trio.sleep_forever()
            finally:
                self._watched.set()
                if not self._watch.cancel_called:
                    self._on_abandoned()


def open_group() -> AbstractAsyncContextManager[AnyTaskGroup, bool | None]:
    """A task group whose tasks outlive what the present task outlives: a native cancellation of
    asyncio, or Ctrl-C on trio.

    Its tasks must contain their errors.
    """
    trio = trio_here()
    if trio is not None and trio.lowlevel.currently_ki_protected():
        return _protected_group(trio)
    spawn = _spawner()
    if spawn is None:
        ordinary: Any = anyio.create_task_group()
        return cast("AbstractAsyncContextManager[AnyTaskGroup, bool | None]", ordinary)
    return _own_group(spawn)


class _ProtectedGroup:
    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.cancel_scope = tasks.cancel_scope
        self._tasks = tasks

    def start_soon(self, function: Callable[[*Ts], Awaitable[Any]], /, *args: *Ts) -> None:
        self._tasks.start_soon(_call, function, *args)


async def _call(function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
    await function(*args)


@asynccontextmanager
async def _protected_group(trio: Any) -> AsyncIterator[AnyTaskGroup]:
    # Trio raises `KeyboardInterrupt` in a child of a system task, which ends the event loop.
    trio.lowlevel.enable_ki_protection(_call)
    async with anyio.create_task_group() as tasks:
        yield _ProtectedGroup(tasks)


class _OwnGroup:
    def __init__(self, tasks: TaskSet, scope: anyio.CancelScope) -> None:
        self.cancel_scope = scope
        self._tasks = tasks

    def start_soon(self, function: Callable[[*Ts], Awaitable[Any]], /, *args: *Ts) -> None:
        self._tasks.start_soon(function, *args)


@asynccontextmanager
async def _own_group(spawn: _Spawn) -> AsyncIterator[AnyTaskGroup]:
    failures: list[BaseException] = []

    def failed(error: BaseException, _function: object) -> None:
        failures.append(error)
        scope.cancel()

    tasks = TaskSet(spawn, failed)
    with anyio.CancelScope() as scope:
        try:
            yield _OwnGroup(tasks, scope)
            await tasks.wait_ended()
        finally:
            tasks.cancel()
            with shielded():
                await tasks.wait_ended()
    if len(failures) == 1:
        raise failures[0]  # such as `SystemExit`, which means something to an event loop
    if failures:
        raise BaseExceptionGroup("unhandled errors in a group of a host's tasks", failures)


async def in_ordinary_task(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Await code of the program in a task that it may cancel, as `asyncio.timeout` does.

    Raises `ConnectionAbortedError` if the program has cancelled the task itself.
    """
    if _spawner() is None:
        return await function(*args)
    results: list[T] = []
    failures: list[Exception] = []

    async def run() -> None:
        try:
            results.append(await function(*args))
        except Exception as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
    if failures:
        raise failures[0]
    if not results:
        raise ConnectionAbortedError(f"the program cancelled the task of {name_of(function)}")
    return results[0]


def _spawner() -> _Spawn | None:
    """The function that starts tasks like the present one; None in an ordinary task."""
    if trio_here() is not None:
        return None
    task = sys.modules["asyncio"].current_task()
    spawn: _Spawn | None = getattr(task, "aiolead_spawner", None)
    return spawn


def name_of(function: object) -> str:
    """A name for a task: that of the function that it runs."""
    while isinstance(function, partial):
        function = function.func
    return f"aiolead: {getattr(function, '__qualname__', type(function).__name__)}"
