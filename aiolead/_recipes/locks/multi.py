"""Several locks as one: all or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Generic, NoReturn, Protocol, TypeVar, cast, final

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
from .._core.contexts import TenureContext, left_by_another
from .._core.enterable import Enterable
from .._core.holding_recipe import HoldingRecipe
from .._core.tenure import Tenure

R_co = TypeVar("R_co", covariant=True)


class Holdable(Protocol):
    """What a `MultiLock` may be made of: whatever can be held, as a `Lock` can."""

    @property
    def path(self) -> str:
        """The path that is contended for; of what is no recipe of aiolead, the full path."""
        ...

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Tenure]:
        """Acquires it for the body of an `async with`."""
        ...


class MultiHeld:
    """What a `MultiLock` gives: all of its locks, held at the same time."""

    def __init__(self, holds: tuple[Tenure, ...]) -> None:
        self._holds = holds

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.holds)}>"

    @property
    def holds(self) -> tuple[Tenure, ...]:
        """The tenure of each, in the order in which they were acquired."""
        return self._holds

    @property
    def is_held(self) -> bool:
        """Whether all are held now: by the clock, at this very call."""
        return all(held.is_held for held in self.holds)

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the leases are renewed before.

        0.0 once one of them is lost or released.
        """
        return min(held.remaining() for held in self.holds)

    def check(self) -> None:
        """Returns if all are held now, by the clock.

        Raises:
            TenureLost: one is lost.
            UsageError: one was released.
        """
        for held in self.holds:
            held.check()

    async def verify(self) -> None:
        """Returns if the quorum confirms that all are held: in one round trip for each.

        Raises:
            TenureLost: one is lost.
            UsageError: one was released.
            ConnectionLossError: the connection was lost before the answer came; ask again.
        """
        for held in self.holds:
            await held.verify()
        self.check()

    async def release(self) -> None:
        """Release all of them before the body has ended; see `Tenure.release`."""
        for held in reversed(self.holds):
            await held.release()


class _MultiContext(TenureContext[R_co], Generic[R_co]):
    """Acquires several locks, in order."""

    _stack: AsyncExitStack | None = None
    _holds: Sequence[Tenure] = ()

    async def __aenter__(self) -> R_co:
        """Takes one after the other, all of them within the timeout; or none."""
        if self._stack is not None:
            raise UsageError(f"{self._recipe!r}: this context manager is in use; make one each")
        timeout = self._timeout
        deadline = None if timeout is None else anyio.current_time() + timeout
        held: MultiHeld | None = None
        while held is None:
            stack = self._stack = AsyncExitStack()
            try:
                held = await self._take_all(stack, deadline)
            except TenureLost:
                # One was lost while we waited for another one. As far as our caller is concerned,
                # nothing was held yet: we begin again.
                continue
            except AcquireTimeout as late:
                return self._late(late)
            except ConnectionLossError as error:
                if not timeout:
                    raise
                # The time was up as the next one was to be taken, and then nothing waits.
                return self._late(error)
            finally:
                if held is None:
                    self._stack = None
        self._holds, self._task = held.holds, current_task_id()
        return cast(R_co, held)

    async def _take_all(self, stack: AsyncExitStack, deadline: float | None) -> MultiHeld:
        holds: list[Tenure] = []
        try:
            for recipe in cast("MultiLock", self._recipe).recipes:
                left = None if deadline is None else max(0.0, deadline - anyio.current_time())
                holds.append(await stack.enter_async_context(recipe.acquire(timeout=left)))
            several = MultiHeld(tuple(holds))
            # One of them may have been lost in the instant in which the last one became ours.
            several.check()
            return several
        except AcquireTimeout:
            await stack.aclose()
            raise
        except BaseException as error:
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise

    def _late(self, late: AcquireTimeout | ConnectionLossError) -> R_co:
        if self._is_try:
            return cast(R_co, None)
        timed_out = AcquireTimeout(
            f"{self._recipe!r}: not all were ours within {self._timeout:g} seconds: {late}"
        )
        timed_out.blame = late.blame
        raise timed_out from late

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stack is not None and current_task_id() != self._task:
            await self._give_up_all()
        stack, self._stack, self._holds = self._stack, None, ()
        if stack is not None:
            await stack.__aexit__(exc_type, exc, traceback)

    async def _give_up_all(self) -> NoReturn:
        """Another task leaves; see `TenureScope._give_up`."""
        wrong = left_by_another(self._recipe)
        for held in reversed(self._holds):
            try:
                await held.release()
            except AioleadError as error:
                wrong.__cause__ = error
        raise wrong


@final
class MultiLock(Enterable[MultiHeld]):
    """Several locks as one: all of them are held, or none.

        async with MultiLock(Lock(client, "/a"), rw.read) as held: ...
        async with multi.acquire(timeout=5) as held: ...
        async with multi.try_acquire() as held:
            if held is not None: ...

    They are taken one after the other in the order of the full paths that they contend for on the
    servers, whatever the order here and the chroots of their clients, so that two that have some in
    common never wait for each other; and released in reverse. If one is lost, the body is
    cancelled, the others are released, and that loss is raised. If one is lost while we wait for
    the next, it begins again.

    Each may belong to a client of its own. Locks of equal full paths, on different ensembles, are
    taken in the order here: name them in the same order everywhere.

    Args:
        recipes: locks, sides of read/write locks, whatever has an `acquire` of its own.

    Raises:
        ConfigurationError: there are none, one is no such thing, or two are the same.
    """

    _to_hold = HoldingRecipe._to_hold

    def __init__(self, *recipes: Holdable) -> None:
        self._recipes: tuple[Holdable, ...] = tuple(sorted(map(_checked, recipes), key=_order))
        if not recipes:
            raise ConfigurationError("recipes: a MultiLock is made of one lock at least")
        paths = [
            recipe._tasks if isinstance(recipe, HoldingRecipe) else recipe
            for recipe in self.recipes
        ]
        if len({id(path) for path in paths}) < len(paths):
            raise ConfigurationError(
                "recipes: two of them contend for the same path: the second would wait for the "
                "first for ever"
            )

    def __repr__(self) -> str:
        paths = ", ".join(recipe.path for recipe in self.recipes)
        return f"<{type(self).__name__} {paths}>"

    @property
    def recipes(self) -> tuple[Holdable, ...]:
        """What it is made of, in the order in which they are taken."""
        return self._recipes

    def _context(self) -> TenureContext[MultiHeld]:
        return self.acquire()

    def acquire(self, *, timeout: float | None = None) -> TenureContext[MultiHeld]:
        """Acquire all of them for the body of an `async with`.

        Args:
            timeout: how long to wait for all of them together, in seconds. None waits forever, 0
                tries each once.

        Raises (on entering):
            AcquireTimeout: not all were acquired within that time. None is held then.
            ConnectionLossError: `timeout` is 0, and a client of theirs is not connected.
            AlreadyHeldError: this task already holds one of them, or waits for it.

        Raises (on leaving):
            TenureLost: one was lost; the body was cancelled then and awaited.

        Cancellation: releases what it has, and leaves the queue that it is in.
        """
        return _MultiContext(self, timeout)

    def try_acquire(self) -> TenureContext[MultiHeld | None]:
        """As `acquire`, but does not wait: gives None if not all are free."""
        return _MultiContext(self, 0, is_try=True)


def _checked(recipe: Holdable) -> Holdable:
    has_path = isinstance(getattr(recipe, "path", None), str)
    # Of a recipe that is not acquired by that name, the attribute itself raises.
    if not has_path or not callable(getattr(recipe, "acquire", None)):
        raise ConfigurationError(
            f"recipes: takes locks and sides of read/write locks, not {recipe!r}"
        )
    return recipe


def _order(recipe: Holdable) -> tuple[str, str]:
    """What all processes sort by: not the path in a view, which is another one in each chroot."""
    path = recipe._contended_path if isinstance(recipe, HoldingRecipe) else recipe.path
    return path, type(recipe).__name__
