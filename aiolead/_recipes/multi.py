"""Several locks as one: all are held, or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast, final

import anyio

from .._client.fast import current_task_id
from .._util.escaping import in_seconds
from .._util.misuse import left_by_another
from ..errors import (
    AcquireTimeout,
    AioleadError,
    ConfigurationError,
    ConnectionLossError,
    ReleaseError,
    TenureLost,
    UsageError,
)
from .errors import log_refusal
from .hold import Tenure
from .holding import (
    TO_HOLD,
    TO_TRY,
    Contest,
    Entered,
    TenureContext,
    contest_of,
    enter_recipe,
    leave_recipe,
    release_elsewhere,
    silence,
)

__all__ = ["MultiLock"]
__types__ = ["Holdable", "MultiHeld"]

R_co = TypeVar("R_co", covariant=True)


class Holdable(Protocol):
    """A part of a `MultiLock`: anything that is acquired like a `Lock`."""

    @property
    def path(self) -> str:
        """The contended path; for objects that are not recipes of aiolead, the full path."""
        ...

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Tenure]:
        """Acquire it for the body of an `async with`."""
        ...


class MultiHeld:
    """The hold of a `MultiLock`: all of its locks, held at the same time.

    Threads and forks: as `Tenure`.
    """

    def __init__(self, holds: tuple[Tenure, ...]) -> None:
        self._holds = holds

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.holds)}>"

    @property
    def holds(self) -> tuple[Tenure, ...]:
        """The tenures, in the order of acquisition."""
        return self._holds

    @property
    def is_held(self) -> bool:
        """Whether all are held now, by the clock."""
        return all(held.is_held for held in self.holds)

    def remaining(self) -> float:
        """Seconds until the body must begin to stop without a renewal; 0.0 once one is not held."""
        return min(held.remaining() for held in self.holds)

    def check(self) -> None:
        """Raise `TenureLost` if one is lost, by the clock, and `UsageError` if one was released."""
        for held in self.holds:
            held.check()

    async def verify(self) -> None:
        """Return if the quorum confirms that all are held: one round trip for each.

        Raises as `check`, and `ConnectionLossError` if no answer came; it is safe to retry.
        """
        for held in self.holds:
            await held.verify()
        self.check()

    async def release(self) -> None:
        """Release all of them before the body has ended; see `Tenure.release`.

        An error of one does not keep the others: it is raised once all are released.
        """
        await _all_done(held.release for held in reversed(self.holds))


async def _all_done(releases: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Await each release, also behind one that failed; raise the error that matters most."""
    failure: BaseException | None = None
    for release in releases:
        try:
            await release()
        except BaseException as error:
            failure = error if failure is None else _first_to_raise(failure, error)
    if failure is not None:
        raise failure


def _first_to_raise(error: BaseException, later: BaseException) -> BaseException:
    """Choose between two errors: a cancellation, or the earlier one. Each refusal is reported."""
    if isinstance(error, Exception) and not isinstance(later, Exception):
        error, later = later, error
    if isinstance(error, ReleaseError):
        error.add_note(str(later))
    elif isinstance(later, ReleaseError):
        log_refusal(later)
    return error


@dataclass(frozen=True, slots=True)
class _Several:
    """The words for a `MultiLock` in messages: see `Contest`."""

    label: str
    to_hold: str = TO_HOLD
    to_try: str = TO_TRY

    def __repr__(self) -> str:
        return self.label


class _MultiContext(TenureContext[R_co], Generic[R_co]):
    def __init__(
        self, multi: MultiLock, timeout: float | None = None, *, is_try: bool = False
    ) -> None:
        # No more than the words of a contest is used: there may be several clients, or none.
        words = cast(Contest[Any], _Several(repr(multi)))
        super().__init__(words, timeout, is_try=is_try)
        self._recipes = multi.recipes
        self._stack: AsyncExitStack | None = None
        self._holds: Sequence[Tenure] = ()

    async def __aenter__(self) -> R_co:
        """Acquire one after the other, all within the timeout, or none."""
        self._is_entered = True
        if self._stack is not None:
            raise UsageError(f"{self._contest!r}: this context manager is in use; make one each")
        timeout = self._timeout
        deadline = None if timeout is None else anyio.current_time() + timeout
        held: MultiHeld | None = None
        while held is None:
            stack = self._stack = AsyncExitStack()
            try:
                held = await self._take_all(stack, deadline)
            except TenureLost:
                # Lost while we waited for the next one. The body has not begun: start again.
                continue
            except AcquireTimeout as late:
                return self._late(late)
            except ConnectionLossError as error:
                if not timeout:
                    raise
                # The time was up before the next one, whose attempt therefore did not wait.
                return self._late(error)
            finally:
                if held is None:
                    self._stack = None
        self._holds, self._task = held.holds, current_task_id()
        return cast(R_co, held)

    async def _take_all(self, stack: AsyncExitStack, deadline: float | None) -> MultiHeld:
        holds: list[Tenure] = []
        try:
            for recipe in self._recipes:
                left = None if deadline is None else max(0.0, deadline - anyio.current_time())
                context = recipe.acquire(timeout=left)
                if self._is_try:
                    silence(context)
                holds.append(await stack.enter_async_context(context))
            several = MultiHeld(tuple(holds))
            # One of them may have been lost just as the last one was acquired.
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
            f"{self._contest!r}: not all were ours within {in_seconds(self._timeout)}: {late}"
        )
        timed_out.blame = late.blame
        if isinstance(late, AcquireTimeout):
            timed_out.holder, timed_out.since = late.holder, late.since
            timed_out.position, timed_out.permits = late.position, late.permits
        raise timed_out from late

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stack is not None and current != self._task:
            await self._give_up_all()
        stack, self._stack, self._holds = self._stack, None, ()
        if stack is not None:
            await stack.__aexit__(exc_type, exc, traceback)

    def _check_home(self) -> None:
        for contest in map(contest_of, self._recipes):
            if contest is not None:
                contest.client.backend.check_home()

    async def _give_up_all(self) -> NoReturn:
        """Release everything when another task leaves; see `TenureContext._give_up`."""
        self._check_home()
        wrong = left_by_another(self._contest)
        try:
            await _all_done(partial(release_elsewhere, held) for held in reversed(self._holds))
        except AioleadError as error:
            raise wrong from error
        raise wrong


@final
class MultiLock:
    """Several locks as one: all are held, or none.

        async with MultiLock(Lock(client, "/a"), rw.read) as held: ...
        async with multi.acquire(timeout=5) as held: ...
        async with multi.try_acquire() as held:
            if held is not None: ...

    Locks are acquired in the order of their full paths on the servers, regardless of argument order
    and chroots, and released in reverse. So two of them with common locks never deadlock. Each lock
    may belong to another client. Locks of equal full paths on different ensembles are acquired in
    argument order: use the same order everywhere.

    If one is lost, the body is cancelled and awaited, the others are released, and leaving raises
    that loss. If one is lost while we wait for the next, acquiring starts again.

    Args:
        recipes: locks, sides of read/write locks, anything that has an `acquire` of its own.

    Raises:
        ConfigurationError: no recipe was given, one cannot be acquired, or two contend for one
            path.

    Threads and forks: as `Lock`.
    """

    def __init__(self, *recipes: Holdable) -> None:
        self._recipes: tuple[Holdable, ...] = tuple(sorted(map(_checked, recipes), key=_order))
        if not recipes:
            raise ConfigurationError("recipes: must be at least one lock")
        if len(set(map(_path_of, self._recipes))) < len(self._recipes):
            raise ConfigurationError(
                "recipes: two of them contend for the same path, so the second would never get its "
                "turn; pass each path once"
            )
        self._entered: Entered[MultiHeld] = {}

    def __repr__(self) -> str:
        paths = ", ".join(recipe.path for recipe in self.recipes)
        return f"<{type(self).__name__} {paths}>"

    @property
    def recipes(self) -> tuple[Holdable, ...]:
        """The parts, in the order of acquisition."""
        return self._recipes

    async def __aenter__(self) -> MultiHeld:
        return await enter_recipe(self._entered, self.acquire())

    __aexit__ = leave_recipe

    def acquire(self, *, timeout: float | None = None) -> TenureContext[MultiHeld]:
        """Acquire all of them for the body of an `async with`.

        Args:
            timeout: how long to wait for all together, in seconds. None waits forever, 0 tries each
                once.

        Raises (on entering):
            AcquireTimeout: not all were acquired within that time; none is held.
            ConnectionLossError: `timeout` is 0, and the client of one is not connected.
            AlreadyHeldError: this task already holds one of them, or waits for it.

        Cancellation: releases the acquired locks, and leaves the queue of the next.
        """
        return _MultiContext(self, timeout)

    def try_acquire(self) -> TenureContext[MultiHeld | None]:
        """As `acquire`, but does not wait: gives None if not all are free."""
        return _MultiContext(self, 0, is_try=True)


def _checked(recipe: Holdable) -> Holdable:
    has_path = isinstance(getattr(recipe, "path", None), str)
    # On a recipe without `acquire`, the attribute itself raises, and says what to use.
    if not has_path or not callable(getattr(recipe, "acquire", None)):
        raise ConfigurationError(
            f"recipes: takes locks and sides of read/write locks, not {recipe!r}"
        )
    return recipe


def _order(recipe: Holdable) -> tuple[str, str]:
    """The sort key of all processes: not the client's own path, which differs with its chroot."""
    contest, path = contest_of(recipe), recipe.path
    full = path if contest is None else contest.client.backend.full_path(contest.path)
    return full, type(recipe).__name__


def _path_of(recipe: Holdable) -> int:
    """The same number for recipes that contend for one path in one session."""
    contest = contest_of(recipe)
    return id(recipe if contest is None or contest.guard is None else contest.guard)
