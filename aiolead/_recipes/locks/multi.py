"""Several locks as one: all or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, final

import anyio

from ..._tasks import current_task_id
from ...errors import (
    AcquireTimeout,
    AioleadError,
    ConfigurationError,
    ConnectionLossError,
    TenureLost,
    UsageError,
)
from .._core.arguments import checked_wait
from .._core.entries_by_task import EntriesByTask, left_by_another
from .._core.holding_recipe import HoldingRecipe
from .._core.tenure import Tenure


class Holdable(Protocol):
    """What a `MultiLock` may be made of: whatever can be held, as a `Lock` can."""

    @property
    def path(self) -> str:
        """The path that is contended for; of what is no recipe of aiolead, the full path."""
        ...

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Tenure]:
        """Holds it for the body of an `async with`."""
        ...


class MultiHeld:
    """What a `MultiLock` gives: all of its locks, held at the same time.

    Attributes:
        holds: the tenure of each, in the order in which they were taken.
    """

    def __init__(self, holds: tuple[Tenure, ...]) -> None:
        self.holds = holds

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.holds)}>"

    @property
    def is_held(self) -> bool:
        """Whether all are held now: by the clock, at this very call."""
        return all(held.is_held for held in self.holds)

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the leases are renewed before.

        0.0 once one of them is lost or was given up.
        """
        return min(held.remaining() for held in self.holds)

    def check(self) -> None:
        """Returns if all are held now, by the clock.

        Raises:
            TenureLost: one is lost.
            UsageError: one was given up.
        """
        for held in self.holds:
            held.check()

    async def verify(self) -> None:
        """Returns if the quorum confirms that all are held: in one round trip for each.

        Raises:
            TenureLost: one is lost.
            UsageError: one was given up.
            ConnectionLossError: the link was lost before the answer came; ask again.
        """
        for held in self.holds:
            await held.verify()
        self.check()

    async def release(self) -> None:
        """Gives all of them up before the body has ended; see `Tenure.release`."""
        for held in reversed(self.holds):
            await held.release()


class _MultiContext:
    def __init__(self, lock: MultiLock) -> None:
        self._lock = lock
        self._stack: AsyncExitStack | None = None
        self._holds: Sequence[Tenure] = ()
        self._task = 0  # that holds them
        self._late: AcquireTimeout | None = None  # what the last wait ended with

    if not TYPE_CHECKING:  # as in `_Context`

        def __await__(self) -> NoReturn:
            raise UsageError(
                f"{self._lock!r}: is held for a block, write `async with` instead of `await`: "
                "`async with lock.acquire(timeout=5) as held:`"
            )

    async def _acquire(self, timeout: float | None) -> MultiHeld | None:
        """Takes one after the other, all of them within `timeout` seconds; or none."""
        if self._stack is not None:
            raise UsageError(f"{self._lock!r}: this context manager is in use; make one each")
        deadline = None if timeout is None else anyio.current_time() + timeout
        while True:
            stack = self._stack = AsyncExitStack()
            holds: list[Tenure] = []
            try:
                held = await self._take_all(stack, holds, deadline)
            except TenureLost:
                self._stack = None
                # One that we had was lost while we waited for another one. Nothing was held yet, as
                # far as our caller is concerned: we begin anew.
                continue
            except ConnectionLossError as error:
                self._stack = None
                if not timeout:
                    raise
                # The time was up as the next one was to be taken, and nothing is waited for then.
                self._late = AcquireTimeout(str(error))
                self._late.blame = error.blame
                return None
            except BaseException:
                self._stack = None
                raise
            if held is None:
                self._stack = None
            else:
                self._holds, self._task = held.holds, current_task_id()
            return held

    async def _take_all(
        self, stack: AsyncExitStack, holds: list[Tenure], deadline: float | None
    ) -> MultiHeld | None:
        try:
            for recipe in self._lock.recipes:
                left = None if deadline is None else max(0.0, deadline - anyio.current_time())
                holds.append(await stack.enter_async_context(recipe.acquire(timeout=left)))
            several = MultiHeld(tuple(holds))
            # One of them may have been lost in the instant in which the last one became ours.
            several.check()
            return several
        except AcquireTimeout as late:
            await stack.aclose()
            self._late = late
            return None
        except BaseException as error:
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stack is not None and current_task_id() != self._task:
            await self._give_up()
        stack, self._stack, self._holds = self._stack, None, ()
        if stack is not None:
            await stack.__aexit__(exc_type, exc, traceback)

    async def _give_up(self) -> NoReturn:
        """Another task leaves; see `_Context._give_up`."""
        wrong = left_by_another(self._lock)
        for held in reversed(self._holds):
            try:
                await held.release()
            except AioleadError as error:
                wrong.__cause__ = error
        raise wrong


class MultiContext(_MultiContext):
    """Waits until all are ours.

    Raises (on entering):
        AcquireTimeout: they were not all ours within `timeout` seconds. None is held then.
        ConnectionLossError: `timeout` is 0, and a client of theirs is not connected.
        AlreadyHeldError: this task already holds one of them, or waits for it.

    Raises (on leaving):
        TenureLost: one was lost; the body was cancelled then and awaited.

    Cancellation: gives up what it has, and leaves the line that it stands in.
    """

    def __init__(self, lock: MultiLock, timeout: float | None) -> None:
        super().__init__(lock)
        self._wait = checked_wait(timeout)

    async def __aenter__(self) -> MultiHeld:
        held = await self._acquire(self._wait)
        if held is None:
            timeout = AcquireTimeout(
                f"{self._lock!r}: not all were ours within {self._wait:g} seconds: {self._late}"
            )
            if self._late is not None:
                timeout.blame = self._late.blame
            raise timeout from self._late
        return held


class MultiTryContext(_MultiContext):
    """Does not wait: gives None where not all can be had. Otherwise as `MultiContext`."""

    async def __aenter__(self) -> MultiHeld | None:
        return await self._acquire(0.0)


@final
class MultiLock:
    """Several locks as one: all of them are held, or none.

        async with MultiLock(Lock(client, "/a"), rw.read) as held: ...
        async with multi.acquire(timeout=5) as held: ...
        async with multi.try_acquire() as held:
            if held is not None: ...

    They are taken one after the other in the order of the full paths that they contend for on the
    servers, whatever the order here and the chroots of their clients, so that two that have some in
    common never wait for each other; and released in reverse. `timeout` is for all together. If one
    is lost, the body is cancelled, the others are released, and that loss is raised. If one is lost
    while we wait for the next, it begins again.

    Each may belong to a client of its own. Locks of equal full paths, on different ensembles, are
    taken in the order here: name them in the same order everywhere.

    Args:
        recipes: locks, sides of read/write locks, whatever has a `acquire` of its own.

    Raises:
        ConfigurationError: there are none, one is no such thing, or two are the same.
    """

    def __init__(self, *recipes: Holdable) -> None:
        self.recipes: tuple[Holdable, ...] = tuple(sorted(map(_checked, recipes), key=_order))
        """What it is made of, in the order in which they are taken."""
        self._entered: EntriesByTask[MultiContext] = EntriesByTask()
        if not recipes:
            raise ConfigurationError("recipes: a MultiLock is made of one lock at least")
        lines = [
            recipe._tasks if isinstance(recipe, HoldingRecipe) else recipe
            for recipe in self.recipes
        ]
        if len({id(line) for line in lines}) < len(lines):
            raise ConfigurationError(
                "recipes: two of them contend for the same path: the second would wait for the "
                "first for ever"
            )

    def __repr__(self) -> str:
        paths = ", ".join(recipe.path for recipe in self.recipes)
        return f"<{type(self).__name__} {paths}>"

    def acquire(self, *, timeout: float | None = None) -> MultiContext:
        """Holds all of them for the body of an `async with`.

        Args:
            timeout: how long to wait for all of them together, in seconds; for ever by default. 0
                tries each once.
        """
        return MultiContext(self, timeout)

    def try_acquire(self) -> MultiTryContext:
        """As `acquire`, but gives None, at once, if not all can be had."""
        return MultiTryContext(self)

    async def __aenter__(self) -> MultiHeld:
        context = self.acquire()
        held = await context.__aenter__()
        self._entered.push(context)
        return held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._entered.pop(self).__aexit__(exc_type, exc, traceback)


def _checked(recipe: Holdable) -> Holdable:
    if not (isinstance(getattr(recipe, "path", None), str) and callable(_hold_of(recipe))):
        raise ConfigurationError(
            f"recipes: takes locks and sides of read/write locks, not {recipe!r}"
        )
    return recipe


def _hold_of(recipe: object) -> object:
    return getattr(recipe, "acquire", None)


def _order(recipe: Holdable) -> tuple[str, str]:
    """What all processes sort by: not the path in a view, which is another one in each chroot."""
    path = recipe._contended_path if isinstance(recipe, HoldingRecipe) else recipe.path
    return path, type(recipe).__name__
