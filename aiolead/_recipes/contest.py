"""The arguments and functions that all attempts and holds of one recipe object share.

A contest has no reference to the recipe. So a finished hold leaves no reference cycle, and a hold
or a context does not keep the recipe alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final

from .._util.tasks import current_task_id
from ..abc import CoordinationClient
from ..errors import AlreadyHeldError
from ..model import ACL
from ._core.arguments import (
    OnDisconnect,
    checked_acl,
    checked_client,
    checked_identity,
    checked_on_disconnect,
    checked_path,
)
from ._core.reporting import RecipeReporting

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ._core.acquire import Acquirable
    from ._core.tenure import Tenure

TO_HOLD = "async with lock.acquire(timeout=5) as held:"
"""The statement that holds most recipes, for messages."""
TO_TRY = "async with lock.try_acquire() as held:"

T = TypeVar("T", bound="Tenure")

Notify = Callable[[], object]
Kind = Callable[["Contest[Any]", "Acquirable", Notify, Notify | None], T]
"""Makes the hold, which has begun: a class of holds, or a `functools.partial` of one."""
Attempt = Callable[["Contest[Any]"], "Acquirable"]
"""Makes a new attempt, with nothing sent yet. No method of the recipe, which it would refer to."""


class TaskGuard:
    """The tasks that hold, or wait for, one path of a session: a task never waits for itself."""

    __slots__ = ("__weakref__", "_uses")

    def __init__(self) -> None:
        # By task: the cost does not grow with the number of waiters. Usually it is one contest.
        self._uses: dict[int, tuple[Contest[Any], ...]] = {}

    def enter(self, user: Contest[Any], *, forever: bool) -> int:
        """Mark the current task as taking part in the contest `user`, until `leave`; return it.

        A task that is going to wait `forever` must not hold the path by any contest; otherwise, not
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

    def mine(self) -> Sequence[Contest[Any]]:
        return self._uses.get(current_task_id(), ())

    def leave(self, task: int, user: Contest[Any]) -> None:
        mine = self._uses.pop(task, ())
        if mine != (user,):
            left = tuple(each for each in mine if each is not user)
            if left:
                self._uses[task] = left


@final
@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Contest(Generic[T]):
    """One recipe object's arguments, checked, and how it makes its attempts and holds.

    Attributes:
        recipe: the name of the recipe's class.
        label: the recipe, for messages.
        data: the data of the holder's znode, by default the identity.
        guard: the tasks that hold or wait; None if a task may hold several at once.
        urgent: whether the lease is renewed as a hold begins, rather than once it has lasted a
            moment.
        to_hold: the statement that holds it, for messages.
        to_try: the statement that holds it if it is free; empty if there is none.
        check_task: raises if the current task holds something that forbids to wait for this.
    """

    recipe: str
    label: str
    client: CoordinationClient
    path: str
    identity: str
    data: bytes
    acl: Sequence[ACL] | None
    resigns_on_disconnect: bool
    guard: TaskGuard | None
    reporting: RecipeReporting
    kind: Kind[T]
    attempt: Attempt
    urgent: bool
    to_hold: str
    to_try: str
    check_task: Callable[[Contest[Any]], None] | None

    @classmethod
    def of(
        cls,
        recipe: str,
        client: CoordinationClient,
        path: str,
        kind: Kind[T],
        attempt: Attempt,
        *,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
        label: str | None = None,
        data_of: Callable[[str], bytes] = str.encode,
        is_guarded: bool = True,
        is_rare: bool = False,
        urgent: bool = False,
        to_hold: str = TO_HOLD,
        to_try: str = TO_TRY,
        check_task: Callable[[Contest[Any]], None] | None = None,
    ) -> Self:
        """Check the arguments of a recipe; raise `ConfigurationError` if one is malformed.

        `is_rare`: its holds are so rare that each is logged at INFO.
        """
        client, path, acl = checked_client(client), checked_path(path), checked_acl(acl)
        identity = checked_identity(identity)
        return cls(
            recipe=recipe,
            label=label or f"<{recipe} {path}>",
            client=client,
            path=path,
            identity=identity,
            data=data_of(identity),
            acl=acl,
            resigns_on_disconnect=checked_on_disconnect(on_disconnect) == "resign",
            guard=client.backend.shared(path, TaskGuard) if is_guarded else None,
            reporting=RecipeReporting(client, recipe, path, identity, is_rare=is_rare),
            kind=kind,
            attempt=attempt,
            urgent=urgent,
            to_hold=to_hold,
            to_try=to_try,
            check_task=check_task,
        )

    def __repr__(self) -> str:
        return self.label

    def derived(self, attempt: Attempt, *, guard: TaskGuard | None = None) -> Contest[T]:
        """Return a contest with other attempts, and another guard if one is given.

        It is another user of the guard, so the same task may take part in both.
        """
        return replace(self, attempt=attempt, guard=guard or self.guard)

    @property
    def full_path(self) -> str:
        """The full path on the servers, the same for every view of the znode."""
        return self.client.backend.full_path(self.path)

    def enter(self, *, forever: bool) -> int:
        """Mark the current task as one that holds or waits, until `leave`; return the task.

        Raises `AlreadyHeldError` if the task would wait for itself: see `TaskGuard.enter`.
        """
        if self.check_task is not None:
            self.check_task(self)
        guard = self.guard
        return current_task_id() if guard is None else guard.enter(self, forever=forever)

    def leave(self, task: int) -> None:
        if self.guard is not None:
            self.guard.leave(task, self)

    def mine(self) -> Sequence[Contest[Any]]:
        """The contests of this path that the current task takes part in."""
        return () if self.guard is None else self.guard.mine()

    async def contend(
        self,
        wait: Callable[[Acquirable], Awaitable[bool]],
        on_lost: Notify,
        on_released: Notify | None = None,
    ) -> T | None:
        """Acquire; return the hold, which has begun, or None.

        `wait` acquires, and returns whether it has; there is no checkpoint between its end and the
        return. Cancellation and errors leave nothing behind. `on_lost` and `on_released` are called
        synchronously, once at most: when the hold is lost, or released before its body has ended.
        """
        client, reporting = self.client, self.reporting
        waiting = reporting.waits(client.session_id)
        acquirable = self.attempt(self)
        tenure: T | None = None
        try:
            if await wait(acquirable):
                tenure = self.kind(self, acquirable, on_lost, on_released)
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
            reporting.begun(tenure.token, tenure.session_id)
        return tenure
