"""Recipes that hold something, and those of them that are held as a lock is."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..._util.misuse import MissingAttribute
from ..contest import Contest
from .contexts import Entries, TenureContext
from .recipe import explain_arguments
from .tenure import Held, Tenure

T = TypeVar("T", bound=Tenure)
H = TypeVar("H", bound=Held)


class _HeldElsewhere:
    """A method that other libraries' locks have; its error shows what to write instead.

    Without `__getattr__`: beside one, Python looks up every attribute of a recipe the slow way.
    """

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, recipe: HoldingRecipe[Any] | None, owner: type[HoldingRecipe[Any]]) -> Any:
        what = f"{owner.__name__!r} object has no attribute {self._name!r}"
        if recipe is None:
            raise AttributeError(what, name=self._name, obj=owner)
        raise MissingAttribute(f"{what}: it is held for a block, write `{recipe._contest.to_hold}`")


class HoldingRecipe(Generic[T]):
    """A path that is held under the lease for the body of an `async with`.

    Threads and forks: as `Recipe`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_arguments(cls)

    def __init__(self, contest: Contest[T]) -> None:
        self._contest = contest
        self._client = contest.client
        self._path = contest.path
        self._acl = contest.acl

    if not TYPE_CHECKING:  # type checkers know that there is no such method
        acquire, release, lock, unlock, locked = (_HeldElsewhere() for _ in range(5))

        def __dir__(self) -> list[str]:
            """The names for completion: without those that only raise."""
            return [
                name
                for name in super().__dir__()
                if not isinstance(getattr_static(self, name, None), _HeldElsewhere)
            ]

    def __repr__(self) -> str:
        return self._contest.label

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._contest.identity


def contest_of(recipe: object) -> Contest[Any] | None:
    """The contest of a recipe that is held; None for other objects."""
    return recipe._contest if isinstance(recipe, HoldingRecipe) else None


class HeldRecipe(HoldingRecipe[H]):
    """A recipe that is held as a lock is, by any number of tasks, each for itself.

    `make_context` makes the contexts, with the arguments of `TenureContext` behind the contest.
    """

    def __init__(
        self,
        contest: Contest[H],
        make_context: Callable[..., TenureContext[Any]] | None = None,
    ) -> None:
        super().__init__(contest)
        self._make_context = make_context
        self._entries: Entries[H] = Entries(contest.label)

    async def __aenter__(self) -> H:
        return await self._entries.enter(self._context(None))

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._entries.leave(exc_type, exc, traceback)

    def acquire(self, *, timeout: float | None = None) -> TenureContext[H]:
        """Acquire it for the body of an `async with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._context(timeout)

    def try_acquire(self) -> TenureContext[H | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._context(0, is_try=True)

    def _context(self, timeout: float | None, *, is_try: bool = False) -> TenureContext[Any]:
        if self._make_context is not None:
            return self._make_context(timeout, is_try=is_try)
        return TenureContext(self._contest, timeout, is_try=is_try)
