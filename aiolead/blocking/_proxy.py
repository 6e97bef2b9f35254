"""The objects that threads have: each stands for one in the event loop.

Here are their common base, and the parts written by hand: a hold reports its loss, since nothing
cancels a thread. The public classes, in `__init__.py`, are generated from the async ones.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import anyio

import aiolead

from .._util.escaping import described, get_logger
from .._util.misuse import check_callback, check_worker, not_copied
from .._util.parsing import MalformedError, real
from ..errors import (
    AioleadError,
    ConfigurationError,
    LeadershipLost,
    LossReason,
    ServerError,
    TenureLost,
    UsageError,
)
from ..model import Stat
from ._inbox import LostEvent
from ._loop import LoopThread
from ._thread_task import BlockJob

if TYPE_CHECKING:
    from types import TracebackType

    from . import Term

T = TypeVar("T")

OnLost = Callable[[TenureLost], object]

logger = get_logger("aiolead.blocking")


_public: dict[str, type[Proxy]] = {}
"""The classes of the package, by the names of the async ones."""


class Proxy:
    """An object for threads, which stands for one in the event loop."""

    _loop: LoopThread
    _target: Any
    _on_lost: OnLost | None = None
    _current: object = None
    """The last value of an iteration: of a consumption, the item that is held."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __package__:
            _public[cls.__name__] = cls

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise UsageError(
            f"{type(self).__name__}: is given by methods of other objects, and not made"
        )

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"

    def __reduce__(self) -> NoReturn:
        raise not_copied(self)

    def _begin(self) -> None:
        """Called in the event loop when it was made for a value."""

    def _tenures(self) -> Iterable[aiolead.types.Tenure]:
        """The holds of a block that gave this."""
        return self._current._tenures() if isinstance(self._current, Proxy) else ()

    def _why_ended(self) -> Exception | None:
        """The error for what has ended the block that gave this, if anything has."""
        for each in tuple(self._tenures()) or (self._target,):
            why: Exception | None = getattr(each, "_why_ended", lambda: None)()
            if why is not None:
                return why
        return None

    def _notify(self, on_lost: OnLost | None) -> None:
        """Register a callback for the loss of the hold; called in the event loop."""
        if on_lost is not None:
            for tenure in self._tenures():
                tenure.add_lost_callback(partial(_call_on_lost, on_lost, tenure))

    # --- for the generated classes -------------------------------------------------------------

    def _make(self, source: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Construct the object of the event loop that this stands for."""
        loops = {each._loop for each in (*args, *kwargs.values()) if isinstance(each, Proxy)}
        if len(loops) != 1:
            raise ConfigurationError(
                f"{type(self).__name__}: is made with a client of aiolead.blocking, or with "
                "objects of one"
            )
        (self._loop,) = loops

        async def make() -> object:
            return source(
                *map(_unwrapped, args), **{key: _unwrapped(each) for key, each in kwargs.items()}
            )

        self._target = self._loop.call(make)
        self._loop.proxies[id(self._target)] = self

    def _wrap(self, value: object) -> Any:
        return wrap(self._loop, value)

    def _hold(self, context: Any, on_lost: OnLost | None) -> Any:
        """The context of a hold, for a thread."""
        if on_lost is not None:
            try:
                check_callback("on_lost", on_lost, "lost")
            except BaseException:
                context._is_entered = True  # it is refused, not forgotten
                raise
        proxy = new(self._loop, context)
        assert isinstance(proxy, Context)
        proxy._adopt(on_lost)
        return proxy

    def _of_task(self, read: Callable[[], T]) -> T:
        """Read something in the task of the thread."""

        async def act() -> T:
            return read()

        return self._loop.call(act)

    def _enter(self) -> Any:
        return self._loop.enter(BlockJob(self, self._target, self._entered))

    def _entered(self, value: object) -> object:
        if value is self._target:
            return self
        proxy = wrap(self._loop, value)
        if isinstance(proxy, Proxy):
            proxy._notify(self._on_lost)
        return proxy

    def _iterator(self) -> Any:
        return self._loop.ask(lambda: wrap(self._loop, aiter(self._target)))

    def _next(self) -> Any:
        try:
            return self._loop.call(self._step)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _step(self) -> object:
        value = self._current = wrap(self._loop, await anext(self._target))
        if isinstance(value, Proxy):
            value._notify(self._on_lost)
        return value


class Block(Proxy):
    """An object for threads that is entered with `with`."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        found: list[BlockJob[Any]] = []
        try:
            self._loop.leave(self, exc, found)
        except AioleadError:
            raise
        except BaseException:
            # It is left whatever interrupts us, as no other statement leaves it.
            with suppress(AioleadError):
                self._loop.let_go(self, exc, found)
            raise


class ProxyIterator(Proxy):
    """An iterator for threads."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._next()


class Later:
    """A class of `aiolead.types` that is not imported for the default values that it has.

    Its attributes stand for those of the class, and are passed on as such.
    """

    def __init__(self, name: str, member: str = "") -> None:
        self._name = name
        self._member = member

    def __getattr__(self, member: str) -> Later:
        if self._member or member.startswith("_"):
            raise AttributeError(f"{self!r} has no attribute {member!r}", name=member, obj=self)
        return Later(self._name, member)

    def __repr__(self) -> str:
        return f"{self._name}.{self._member}" if self._member else self._name

    def imported(self) -> Any:
        return getattr(getattr(aiolead.types, self._name), self._member)


@cache
def _class_for(kind: type) -> type[Proxy] | None:
    """The class here for values of a type; None if they are passed as they are."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiolead"]
    for base in ours:
        if base.__name__ in _public:
            return _public[base.__name__]
    return ProxyIterator if ours and hasattr(kind, "__anext__") else None


def wrap(loop: LoopThread, value: Any) -> Any:
    """Return a thread's proxy for a value of the event loop: the same object each time."""
    kind: Any = type(value)
    if _class_for(kind) is None:
        return tuple(wrap(loop, each) for each in value) if kind is tuple else value
    proxy = loop.proxies.get(id(value))
    if proxy is None:
        proxy = loop.proxies[id(value)] = new(loop, value)
        proxy._begin()
    return proxy


def new(loop: LoopThread, target: object) -> Proxy:
    """An object for a thread that stands for one of the event loop."""
    kind: Any = type(target)
    cls = _class_for(kind) or Proxy
    proxy = cls.__new__(cls)
    proxy._loop, proxy._target = loop, target
    return proxy


def _unwrapped(value: object) -> object:
    if isinstance(value, Later):
        return value.imported()
    return value._target if isinstance(value, Proxy) else value


def _call_on_lost(on_lost: OnLost, tenure: aiolead.types.Tenure) -> None:
    """Call `on_lost` in a thread of its own, where it may wait."""
    try:
        tenure.check()
    except TenureLost as lost:
        thread = threading.Thread(target=on_lost, args=(lost,), name="aiolead-on-lost", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            logger.exception("on_lost could not be called: there is no thread for it")


# --- by hand -----------------------------------------------------------------------------------


class ClientBase(Proxy):
    """A session with a ZooKeeper ensemble, for any number of threads. Made by `blocking.connect`.

    Each operation waits for its answer, and raises what that of `aiolead.Client` raises. `call`
    awaits whatever is not here.

    Raises:
        UsageError: in a forked child, or in a thread that runs an event loop; nothing was sent.
        ClientClosedError: the client was closed.
        TenureLost: this thread is in the body of something that is lost; nothing was sent.
    """

    def call(self, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
        """Await anything in the event loop of the client; return its result.

        For instance `client.call(lambda c: c.get_acl("/a"))`, or an `async def` that takes the
        client. It must not block, nor return anything that belongs to the event loop. An exception
        from a signal handler (Ctrl-C) cancels it. Raises `ConfigurationError` if `act` is no
        function, or returns nothing to await.
        """
        if inspect.iscoroutine(act):
            act.close()  # so that Python does not warn
        if not callable(act):
            raise ConfigurationError(
                f"act: must be a function of the client, as `lambda c: c.get(path)`, not {act!r}"
            )

        def begin() -> Awaitable[T]:
            result = act(self._target)
            if not inspect.isawaitable(result):
                raise ConfigurationError(
                    "act: must return something to await, as `lambda c: c.get(path)` does, not "
                    f"{described(result)}"
                )
            return result

        return self._loop.call(begin)


class ReadsBase(Proxy):
    def result(self) -> list[tuple[bytes, Stat] | list[str] | ServerError]:
        """Send the reads; return their results, in order."""

        async def answer() -> Any:
            return await self._target

        results: list[tuple[bytes, Stat] | list[str] | ServerError] = self._loop.call(answer)
        return results


class Context(Block):
    _is_entered = True

    def _adopt(self, on_lost: OnLost | None) -> None:
        """Stand in for the context of the event loop, which no thread enters or drops itself."""
        self._on_lost = on_lost
        self._is_entered, self._target._is_entered = False, True

    def _enter(self) -> Any:
        self._is_entered = True
        return super()._enter()

    def __bool__(self) -> NoReturn:
        self._is_entered = True  # one report is enough
        try:
            self._target.__bool__()
        except UsageError as error:
            raise UsageError(str(error).replace("async with", "with")) from None
        raise AssertionError

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if not self._is_entered:
            line = self._target._line().replace("async with", "with")
            _warn(
                f"{self!r} was never entered, so nothing was acquired: write `{line}`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )


class HoldContext(Context):
    """Acquires on entering and releases on leaving, for the body of a `with`.

    Entering waits, and leaving releases, with the errors of `aiolead.types.TenureContext`. A loss
    does not cancel the body, since nothing cancels a thread. Afterwards, whatever the body asks of
    the same client raises the loss, and so does leaving, unless the body raised something else.

    An exception from a signal handler (Ctrl-C) while entering ends the wait and releases whatever
    was acquired. While leaving, it only ends the wait for the servers' confirmation. For one thread
    at a time.
    """


class HoldBase(Proxy):
    """One uninterrupted hold. Any thread may use it.

    In a forked child it is not held, and what would ask the servers raises `UsageError`.

    Attributes:
        lost: a `threading.Event`, set as soon as the loss is known. A release does not set it.
    """

    lost: threading.Event

    def _begin(self) -> None:
        self.lost = LostEvent()
        for tenure in self._tenures():
            tenure.add_lost_callback(self.lost.set)

    def _tenures(self) -> Iterable[aiolead.types.Tenure]:
        tenures: Iterable[aiolead.types.Tenure] = getattr(self._target, "holds", (self._target,))
        return tenures

    @property
    def is_held(self) -> bool:
        """Whether it is held at this call, by the clock."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds until the holder must begin to stop, unless the lease is renewed before.

        0.0 once it is lost or released.
        """
        seconds: float = 0.0 if self._loop.is_forked else self._target.remaining()
        return seconds

    def check(self) -> None:
        """Return if it is held now, by the clock. Cheap: call it before whatever must not happen
        twice, and regularly while you work. Nothing else stops a thread.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was released, or its body has ended; or this is a forked child.
        """
        self._loop.check_process()
        if self._target.remaining() <= 0.0 or any(each.loss for each in self._tenures()):
            # There, the hold has ended when this returns: what the body asks for next is refused.
            # A revoked one goes on, but its body has to end.
            self._loop.ask(self._target.check)


LOOK_AGAIN = 1.0
"""The pause between two looks at whether something is still held, in seconds."""


class TenureBase(HoldBase):
    __doc__ = HoldBase.__doc__

    def revocation_requested(self) -> None:
        """Wait until others ask for a release, or until it has ended.

        Never returns while it is held, if the recipe has no `revoke`.

        Raises:
            TenureLost, UsageError: it has ended, as for `check`; within a second.
        """

        async def wait() -> None:
            with anyio.move_on_after(LOOK_AGAIN):
                await self._target.revocation_requested()

        # The event loop cancels such a wait with the body; here the body is in another thread.
        while not self._target.is_revocation_requested:
            self.check()
            self._loop.call(wait)


_PAUSED_AFTER = (LossReason.REVOKED, LossReason.REFUSED, LossReason.INTERNAL)
"""As in `Election.run`: the next term could come at once."""


class ElectionBase(Proxy):
    leadership: Callable[..., Any]  # generated

    def run(
        self, worker: Callable[[Term], object], *, pause: float = 1.0, on_lost: OnLost | None = None
    ) -> NoReturn:
        """Contend forever, and call `worker(term)` in this thread once per term.

        A worker that returns resigns. After a pause, in which others may lead, it contends again;
        after a lost term, once its worker has ended, so the worker has to call `term.check()`. It
        pauses after the losses that `aiolead.Election.run` pauses after, such as a revocation. Any
        other exception of the worker ends this; so does closing the client (`ClientClosedError`).

        Args:
            worker: called with each term.
            pause: seconds to pause after a worker has returned; 0 contends again at once.
            on_lost: called with each loss, in a thread of its own, as soon as it is known.

        Raises:
            ConfigurationError: `pause` is no number of seconds, or `worker` does not take a term,
                or is async; nothing was sent.
        """
        check_worker(worker, "term", is_async=False)
        try:
            seconds = real(pause)
        except MalformedError:
            seconds = -1.0
        if seconds < 0:
            raise ConfigurationError(f"pause: must be seconds from 0 up, not {described(pause)}")
        while True:
            token = 0
            try:
                with self.leadership(on_lost=on_lost) as term:
                    token = term.token
                    worker(term)
            except LeadershipLost as lost:
                if lost.token != token:
                    raise
                if lost.reason not in _PAUSED_AFTER:
                    continue
            self._loop.call(partial(anyio.sleep, seconds))
