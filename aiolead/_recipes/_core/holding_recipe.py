"""The base of recipes that hold something: their arguments and tenures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..._misuse import MissingAttribute
from ..._tasks import current_task_id
from ...abc import CoordinationClient
from ...errors import AlreadyHeldError
from ...model import ACL
from .acquire import Acquirable
from .arguments import OnDisconnect, checked_identity, checked_on_disconnect
from .recipe import Recipe
from .reporting import RecipeReporting
from .tenure import Tenure

T = TypeVar("T", bound=Tenure)


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
        raise MissingAttribute(f"{what}: it is held for a block, write `{recipe._to_hold}`")


class TaskGuard:
    """The tasks that hold, or wait for, one path of a session: a task never waits for itself."""

    __slots__ = ("__weakref__", "_uses")

    def __init__(self) -> None:
        # By task: the cost does not grow with the number of waiters. Usually it is one object.
        self._uses: dict[int, tuple[object, ...]] = {}

    def enter(self, user: object, *, forever: bool) -> int:
        """Mark the current task as using the recipe `user`, until `leave`; return the task.

        A task that is going to wait `forever` must not hold the path by any object; otherwise, not
        by this one. Raises `AlreadyHeldError` if it would wait for itself.
        """
        task = current_task_id()
        mine = self._uses.get(task, ())
        if mine and (forever or user in mine):
            raise AlreadyHeldError(
                f"this task already holds {user!r}, or waits for it: it would wait for itself"
            )
        self._uses[task] = (*mine, user)
        return task

    def mine(self) -> Sequence[object]:
        return self._uses.get(current_task_id(), ())

    def leave(self, task: int, user: object) -> None:
        mine = self._uses.pop(task, ())
        if mine != (user,):
            left = tuple(each for each in mine if each is not user)
            if left:
                self._uses[task] = left


class HoldingRecipe(Recipe, Generic[T]):
    """A path that is held under the lease for the body of an `async with`."""

    _tenure: type[T]
    _urgent: ClassVar[bool] = False
    """Whether the lease is renewed as a tenure begins, rather than once it has lasted a moment."""
    _is_rare: ClassVar[bool] = False
    """Whether tenures are so rare that each is logged at INFO."""
    _to_hold: ClassVar[str] = "async with lock.acquire(timeout=5) as held:"
    """The statement that holds it, for messages."""
    _to_try: ClassVar[str] = "async with lock.try_acquire() as held:"
    """The statement that holds it if it is free; empty if there is none."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        self._identity = checked_identity(identity)
        self._data = self._identity.encode()
        self._resign_on_disconnect = checked_on_disconnect(on_disconnect) == "resign"
        self._tasks = client.backend.shared(path, TaskGuard)
        self._reporting = RecipeReporting(
            self._client,
            type(self).__name__,
            self._path,
            self._identity,
            is_rare=self._is_rare,
        )

    if not TYPE_CHECKING:  # type checkers know that there is no such method
        acquire, release, lock, unlock, locked = (_HeldElsewhere() for _ in range(5))

        def __dir__(self) -> list[str]:
            """The names for completion: without those that only raise."""
            return [
                name
                for name in super().__dir__()
                if not isinstance(getattr_static(self, name, None), _HeldElsewhere)
            ]

    @property
    def _contended_path(self) -> str:
        """The full path on the servers, the same for every view of the znode."""
        return self._client.backend.full_path(self._path)

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._identity

    def _enter(self, *, forever: bool) -> int:
        return self._tasks.enter(self, forever=forever)

    @abstractmethod
    def _acquirable(self) -> Acquirable:
        """Make a new attempt, with nothing sent yet."""

    async def _contend(
        self,
        wait: Callable[[Acquirable], Awaitable[bool]],
        on_lost: Callable[[], object],
        on_released: Callable[[], object] | None = None,
    ) -> T | None:
        """Acquire; return the tenure, which has begun, or None.

        `wait` acquires, and returns whether it has; there is no checkpoint between its end and the
        return. Cancellation and errors leave nothing behind. `on_lost` and `on_released` are called
        synchronously, once at most: when the tenure is lost, or released before its body has ended.
        """
        client, reporting = self._client, self._reporting
        waiting = reporting.waits(client.session_id)
        acquirable = self._acquirable()
        tenure: T | None = None
        try:
            if await wait(acquirable):
                tenure = self._tenure(self, acquirable, on_lost, on_released)
        except BaseException as error:
            if waiting is not None:
                waiting.failed(error, client.session_id)
            raise
        finally:
            if tenure is None:
                acquirable.discard()
        if waiting is not None:
            waiting.ended("not held" if tenure is None else "held", client.session_id)
        if tenure is not None:
            reporting.begun(tenure._token, tenure._session_id)
        return tenure
