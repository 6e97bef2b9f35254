"""The `async with` of everything that is held: it acquires on entering, and releases on leaving.

`Contest` has the arguments and functions that all acquisitions and holds of one recipe object
share. It has no reference to the recipe. So a finished hold leaves no reference cycle, and a hold
or a context does not keep the recipe alive.

Only a cancel scope in the caller's task is open over the body. A task group would wrap the body's
exceptions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from inspect import getattr_static
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast, final

import anyio

from .._client.fast import current_task_id
from .._util.misuse import HeldForABlock, left_by_another
from ..abc import CoordinationClient
from ..errors import AioleadError, AlreadyHeldError, TenureLost, UsageError
from ..model import ACL
from .hold import Body, Held, Place, Tenure, acquire
from .recipe import (
    OnDisconnect,
    checked_acl,
    checked_client,
    checked_identity,
    checked_on_disconnect,
    checked_path,
    checked_wait,
    explain_arguments,
)
from .reporting import RecipeReporting
from .rivals import TimeLimit
from .znode import HoldOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable

__types__ = ["TenureContext"]

TO_HOLD = "async with lock.acquire(timeout=5) as held:"
"""The statement that holds most recipes, for messages."""
TO_TRY = "async with lock.try_acquire() as held:"

T = TypeVar("T", bound=Tenure)

Kind = Callable[["Contest[Any]", Place, Body], T]
"""Makes the hold, which has begun: a class of holds, or a `functools.partial` of one."""
MakePlace = Callable[["Contest[Any]"], Place]
"""Makes what is contended for, with nothing sent yet. No method of the recipe: see `Contest`."""


class TaskGuard(dict[int, "tuple[Contest[Any], ...]"]):
    """The contests of one path of a session in which each task holds, or waits: usually one.

    By task, so that the cost does not grow with the number of waiters.
    """

    __slots__ = ("__weakref__",)


@final
class Contest(Generic[T]):
    """One recipe object's arguments, checked, and how it makes its places and holds.

    Raises `ConfigurationError` if an argument is malformed.

    Args:
        recipe: the name of the recipe's class.
        kind: makes a hold, once a place was got.
        make_place: makes a place.
        label: the recipe, for messages.
        data_of: makes the data of the holder's znode from the identity.
        is_guarded: whether no task may hold several at once.
        is_rare: whether its holds are so rare that each is logged at INFO.
        urgent: whether the lease is renewed as a hold begins, rather than once it has lasted a
            moment.
        to_hold: the statement that holds it, for messages.
        to_try: the statement that holds it if it is free; empty if there is none.
        check_task: raises if the current task holds something that forbids to wait for this.
    """

    def __init__(
        self,
        recipe: str,
        client: CoordinationClient,
        path: str,
        kind: Kind[T],
        make_place: MakePlace,
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
    ) -> None:
        self.recipe = recipe
        self.client: CoordinationClient = checked_client(client)
        self.path: str = checked_path(path)
        self.acl: Sequence[ACL] | None = checked_acl(acl)
        self.identity: str = checked_identity(identity)
        self.data: bytes = data_of(self.identity)
        self.hold_options: HoldOptions = {
            "urgent": urgent,
            "resign_on_disconnect": checked_on_disconnect(on_disconnect) == "resign",
        }
        self.kind = kind
        self.make_place = make_place
        self.label: str = label or f"<{recipe} {path}>"
        self.guard: TaskGuard | None = (
            self.client.backend.shared(path, TaskGuard) if is_guarded else None
        )
        """The tasks that hold or wait; None if a task may hold several at once."""
        self.reporting: RecipeReporting = RecipeReporting(
            self.client, recipe, path, self.identity, is_rare=is_rare
        )
        self.to_hold = to_hold
        self.to_try = to_try
        self.check_task = check_task
        self.subject: str = ""
        """Names one of several things below the path, of which a task may hold each."""
        self.places: int = 1
        """How many places of the subject there are, as far as that concerns one task."""

    def __repr__(self) -> str:
        return self.label

    def derived(self, make_place: MakePlace, **more: Any) -> Contest[T]:
        """Return a contest for another place, with `more` attributes that differ.

        It is another user of the guard.
        """
        contest = copy(self)
        vars(contest).update(make_place=make_place, **more)
        return contest

    def enter(self, *, forever: bool, is_checked: bool = True) -> int:
        """Mark the current task as one that holds or waits, until `leave`; return the task.

        A task that is going to wait `forever` must not hold the path by any contest; otherwise, not
        by this one. Raises `AlreadyHeldError` if it would wait for itself. It is not checked if
        what holds or waits is the client's job, not the task.
        """
        task, guard = current_task_id(), self.guard
        if is_checked and self.check_task is not None:
            self.check_task(self)
        if guard is None:
            return task
        mine = guard.get(task, ())
        if mine and is_checked:
            alike = [each for each in mine if each.subject == self.subject]
            if len(alike) >= self.places and (forever or self in alike):
                raise AlreadyHeldError(
                    f"this task already holds {self!r}, or waits for it: it would wait for itself"
                )
        guard[task] = (*mine, self)
        return task

    def leave(self, task: int) -> None:
        guard = self.guard
        if guard is None:
            return
        mine = guard.pop(task, ())
        if mine != (self,):
            left = list(mine)
            if self in left:
                left.remove(self)  # once: a task may have several campaigns of one election
            if left:
                guard[task] = tuple(left)

    async def contend(
        self,
        body: Body,
        get: Callable[[Place], Awaitable[bool]] | None = None,
    ) -> T | None:
        """Acquire; return the hold, which has begun, or None.

        `get` gets the place and returns whether it has, with no checkpoint in between; by default
        it waits forever. Cancellation and errors leave nothing behind. `body` is notified of what
        ends the hold before it has ended.
        """
        client, reporting = self.client, self.reporting
        place = self.make_place(self)
        waiting = reporting.waits(client.session_id, place.holder_query)
        tenure: T | None = None
        try:
            if await (acquire(client, place) if get is None else get(place)):
                tenure = self.kind(self, place, body)
        except BaseException as error:
            if waiting is not None:
                waiting.failed(error, client.session_id)
            raise
        finally:
            if tenure is None:
                place.discard()
        if waiting is not None:
            waiting.ended("not held" if tenure is None else "held", client.session_id)
        if tenure is not None:
            reporting.begun(tenure)
        return tenure


def leave_scope(
    scope: anyio.CancelScope,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: TracebackType | None,
) -> BaseException | None:
    """Leave the scope; return what propagates: None for our own cancellation alone."""
    if scope.shield and scope.cancel_called:
        # By the end of a wait after the body: see `wait_shielded`.
        scope.__exit__(None, None, None)
        return exc
    try:
        return None if scope.__exit__(exc_type, exc, traceback) else exc
    except BaseException as rest:
        # The rest of a group, without our own cancellation.
        return rest


def propagate(left: BaseException, exc: BaseException | None) -> None:
    """Raise `left`, unless it is `exc`: that propagates when `__aexit__` returns."""
    if left is exc:
        return
    context = left.__context__
    try:
        raise left
    finally:
        left.__context__ = context


R_co = TypeVar("R_co", covariant=True)


class TenureContext(Generic[R_co]):
    """A context manager that acquires on entering and releases on leaving.

    `acquire`, `leadership` and similar methods return it. `try_acquire` and similar methods return
    one that does not wait, and gives None if another contender holds.

    Raises (on entering):
        AcquireTimeout: not acquired within `timeout` seconds; says so if no server was reached.
        ConnectionLossError: it does not wait (`try_acquire`, or `timeout=0`), and there is no
            connection, or it is lost meanwhile. A client that has only begun to connect
            (`connect(connect_timeout=0)`) has none.
        AlreadyHeldError: this task already holds the same object, or waits for it; or it holds the
            path by another object, and `timeout` is None.

    Raises (on leaving):
        TenureLost: it was lost (`LeadershipLost`, `LockLost`), and the body, which was cancelled
            and awaited, raised nothing else.
        UsageError: another task leaves than the one that entered, such as one that closes an
            abandoned async generator. The hold is released.
        ReleaseError: the servers refuse to delete the znode, and the body ended normally. If the
            body raised or was cancelled, that propagates, and the refusal is logged.

    Cancellation, and the end of the timeout: leaves the queue at once without waiting for the
    servers, so others may see the znode for a moment. Leaving the body waits for the servers'
    confirmation, for a third of the session timeout at most, also when cancelled and over a lost
    connection.

    On connection loss: waiting goes on, also in the next session; a hold lasts as long as its
    lease.

    Nothing is held before it is entered. So `bool(context)` raises `UsageError`, and a context that
    is dropped without having been entered gives a `RuntimeWarning`.
    """

    __slots__ = (
        *("_contest", "_entered_before", "_is_entered", "_is_marked", "_is_silent", "_is_try"),
        *("_scope", "_statement", "_task", "_tenure", "_timeout"),
    )

    # Set where the recipe itself is entered: see `enter_recipe`.
    _statement: int
    """The id of the frame that has entered, which is not kept alive; 0 once another task left."""
    _entered_before: TenureContext[R_co] | None
    """The context that the same task has entered before, and is still in."""

    def __init__(
        self, contest: Contest[Any], timeout: float | None = None, *, is_try: bool = False
    ) -> None:
        self._timeout = None if timeout is None else checked_wait(timeout)
        self._contest = contest
        self._is_try = is_try
        self._is_silent = is_try
        """Whether nobody reads the error of an attempt that has acquired nothing."""
        self._tenure: Any = None
        """The tenure, once it has begun: what the body gets."""
        self._scope: anyio.CancelScope | None = None
        self._task: int | None = None
        """The task that is inside, or entering."""
        self._is_marked = False
        """Whether the task counts as one that holds, or waits: not any more after a release."""
        self._is_entered = False

    def _line(self) -> str:
        """The statement that does what this was probably made for."""
        is_try = self._is_try or self._timeout == 0.0
        return (is_try and self._contest.to_try) or self._contest.to_hold

    def __bool__(self) -> NoReturn:
        self._is_entered = True  # one report is enough
        line = self._line()
        if line == self._contest.to_try:
            name = line.removesuffix(":").rpartition(" ")[2]
            line = f"{line}` and, in it, `if {name} is not None:"
        raise UsageError(
            f"{self._contest!r}: a context has no truth value, since nothing is held before its "
            f"block: write `{line}`"
        )

    if not TYPE_CHECKING:  # or else type checkers would take it for something to await

        def __await__(self) -> NoReturn:
            self._is_entered = True  # one report is enough
            raise UsageError(
                f"{self._contest!r}: is held for a block, write `async with` instead of `await`: "
                f"`{self._line()}`"
            )

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if not getattr(self, "_is_entered", True):  # missing if an argument was refused
            self._is_entered = True
            _warn(
                f"a context of {self._contest!r} was never entered, so nothing was acquired: write "
                f"`{self._line()}`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    def _on_lost(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _on_released(self) -> None:
        self._unmark()

    def _unmark(self) -> None:
        """The task holds nothing any more; it, or another one, may still be inside."""
        if self._is_marked and self._task is not None:
            self._is_marked = False
            self._contest.leave(self._task)

    async def __aenter__(self) -> R_co:
        self._is_entered = True
        contest = self._contest
        task = contest.enter(forever=self._timeout is None)
        if self._task is not None:
            contest.leave(task)
            raise UsageError(f"{contest!r}: another task uses this context manager; make one each")
        self._task, self._is_marked = task, True
        timeout, limit, tenure = self._timeout, None, None
        if timeout is not None:
            limit = TimeLimit(contest.client, contest.label, timeout, is_silent=self._is_silent)
        try:
            get = None if limit is None else limit.get
            tenure = await contest.contend(self, get)
        finally:
            if tenure is None:
                self._unmark()
                self._task = None
        if tenure is not None:
            self._tenure, self._scope = tenure, anyio.CancelScope()
            self._scope.__enter__()
            if tenure._why_ended() is not None:
                self._scope.cancel()
        elif limit is not None and not self._gives_none(limit):
            raise limit.timed_out()
        return cast(R_co, tenure)

    def _gives_none(self, _limit: TimeLimit) -> bool:
        return self._is_try

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave(current_task_id(), exc_type, exc, traceback)

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave, in the task `current`."""
        tenure, scope, task = self._tenure, self._scope, self._task
        if tenure is None or scope is None or task is None:
            return
        if current != task:
            self._check_home()
            await self._give_up(tenure)
        self._tenure = self._scope = None
        try:
            await tenure._end(None if scope.cancel_called else scope, exc)
        except BaseException as error:
            scope.__exit__(type(error), error, error.__traceback__)
            if exc is not None and self._contest.client.backend.is_forked:
                return  # nothing of the parent's has changed: what ends the child propagates
            raise
        else:
            left = leave_scope(scope, exc_type, exc, traceback)
        finally:
            self._unmark()
            self._task = None
        tenure._report_refusal(left)
        if left is None:
            # The error that explains the cancellation is raised in its place.
            why = tenure._why_ended()
            if why is not None:
                raise why from None
            return
        if tenure.loss is not None and not isinstance(left, TenureLost):
            # The body's own exception propagates; the loss becomes a note on it.
            left.add_note(str(tenure._error()))
        propagate(left, exc)

    def _check_home(self) -> None:
        """Raise `UsageError` in another event loop, where nothing may be released."""
        self._contest.client.backend.check_home()

    async def _give_up(self, tenure: Tenure) -> NoReturn:
        """Leave in another task, as closing an abandoned generator does; raise `UsageError`.

        The task that entered may never come back, so the hold is released here. Only that task can
        leave its cancel scope, and it still may.
        """
        self._unmark()
        wrong = left_by_another(self._contest)
        try:
            await release_elsewhere(tenure)
        except AioleadError as error:
            raise wrong from error
        raise wrong


async def release_elsewhere(tenure: Tenure) -> None:
    """Release a tenure in another task than the one that entered, and may wait in its body."""
    await tenure._release_elsewhere()


def silence(context: object) -> None:
    """Do not ask for the holder in vain: nobody will read the error of this attempt."""
    if isinstance(context, TenureContext):
        context._is_silent = True


R = TypeVar("R")


Entered = dict[int, TenureContext[R]]
"""The innermost context that each task has entered by `async with recipe`."""


async def enter_recipe(entered: Entered[R], context: TenureContext[R]) -> R:
    """Enter a new context; to be awaited by the `__aenter__` of the recipe."""
    held = await context.__aenter__()
    task = context._task or current_task_id()  # an inner level of a reentrant one has none
    context._statement = id(sys._getframe(2))  # beyond the recipe's method
    context._entered_before = entered.get(task)
    entered[task] = context
    return held


async def leave_recipe(
    self: Any,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Leave the innermost context of the task; the `__aexit__` of such recipes."""
    entered: Entered[Any] = self._entered
    task = current_task_id()
    context = entered.pop(task, None)
    if context is None:
        context = _left_by_another(entered, self, id(sys._getframe(1)))
    elif context._entered_before is not None:
        entered[task] = context._entered_before
    await context._leave(task, exc_type, exc, traceback)


def _left_by_another(entered: Entered[R], recipe: object, statement: int) -> TenureContext[R]:
    """Find the context of another task that the current one, which has entered none, leaves.

    It is the one that was entered by the same statement (that of an abandoned generator), or the
    only open one. It is kept, since its own task may still leave it. Raises `UsageError` if there
    is none, or several tasks are inside and it is not known whose context is left.
    """
    left: list[TenureContext[R]] = []
    for innermost in entered.values():
        context: TenureContext[R] | None = innermost
        while context is not None:
            if context._statement:
                left.append(context)
            context = context._entered_before
    if len(left) > 1:
        left = [each for each in left if each._statement == statement]
    if len(left) != 1:
        raise UsageError(f"{recipe!r} was not entered by this task")
    left[0]._check_home()
    left[0]._statement = 0
    return left[0]


H = TypeVar("H", bound=Held)


def _to_hold(recipe: HoldingRecipe[Any]) -> str:
    return recipe._contest.to_hold


class HoldingRecipe(Generic[T]):
    """A path that is held under the lease for the body of an `async with`.

    `make_context` makes the contexts, with the arguments of `TenureContext` behind the contest.

    Threads and forks: as `Recipe`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_arguments(cls)

    def __init__(
        self,
        contest: Contest[T],
        make_context: Callable[..., TenureContext[Any]] | None = None,
    ) -> None:
        self._contest = contest
        self._client = contest.client
        self._path = contest.path
        self._acl = contest.acl
        self._context = make_context or partial(TenureContext, contest)
        self._entered: Entered[T] = {}
        """Of a recipe that is entered itself."""

    if not TYPE_CHECKING:  # type checkers know that there is no such method
        acquire, release, lock, unlock, locked = (HeldForABlock(_to_hold) for _ in range(5))

        def __dir__(self) -> list[str]:
            """The names for completion: without those that only raise."""
            return [
                name
                for name in super().__dir__()
                if not isinstance(getattr_static(self, name, None), HeldForABlock)
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
    """A recipe that is held as a lock is, by any number of tasks, each for itself."""

    async def __aenter__(self) -> H:
        return await enter_recipe(self._entered, self._context())

    __aexit__ = leave_recipe

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
