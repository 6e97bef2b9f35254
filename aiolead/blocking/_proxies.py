"""What threads need beside what the async classes have, or in another way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

import anyio

import aiolead

from .._escaping import described
from .._parsing import MalformedError, real
from ..errors import ConfigurationError, LeadershipLost
from ._mirror import EXTRAS, Context, OnLost, Proxy
from ._result import Flag

if TYPE_CHECKING:
    import threading

    from . import Term

T = TypeVar("T")


class ClientBase(Proxy):
    """A session with a ZooKeeper ensemble, for any number of threads. Made by `blocking.connect`.

    Each operation waits for its answer, and raises what that of `aiolead.Client` raises. Whatever
    is not here, `call` can await.

    Raises:
        UsageError: in a forked child, or in a thread that runs an event loop; nothing was sent.
        ClientClosedError: it was closed.
        TenureLost: this thread is in the body of something that is lost; nothing was sent.
    """

    def call(self, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
        """Await anything in the event loop of the client; return its result.

        For instance `client.call(lambda c: c.get_acl("/a"))`, or an `async def` that takes the
        client. It must not block, nor return anything that belongs to the event loop.

        An exception that a signal handler raises meanwhile (Ctrl-C) cancels it.
        """
        return self._loop.call(lambda: act(self._target))


class ContextBase(Context):
    """Acquires on entering and releases on leaving, for the body of a `with`.

    Entering waits, and leaving releases, with the errors of `aiolead.TenureContext`. The body is
    not cancelled when the hold is lost, since nothing cancels a thread. Leaving then raises the
    loss, unless the body raised something else; so does whatever the body asks of the same client
    after the loss.

    An exception that a signal handler raises (Ctrl-C) while this waits to enter gives up the wait
    and whatever was acquired. While leaving waits for the servers to confirm, it only ends that
    wait. For one thread at a time.
    """


class HoldBase(Proxy):
    """One unbroken time of holding something.

    Any thread may use it. In a forked child it is not held, and what would ask the servers raises
    `UsageError`.

    Attributes:
        lost: a `threading.Event`, set as soon as the loss is known. Not set by a release.
    """

    lost: threading.Event

    def _begin(self) -> None:
        self.lost = Flag()
        for tenure in self._tenures():
            tenure.add_lost_callback(self.lost.set)

    def _tenures(self) -> Iterable[aiolead.types.Tenure]:
        tenures: Iterable[aiolead.types.Tenure] = getattr(self._target, "holds", (self._target,))
        return tenures

    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before.

        0.0 once it is lost or was released.
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
        if self._target.remaining() <= 0.0:
            self._loop.ask(self._target.check)


class ElectionBase(Proxy):
    """Contends for leadership."""

    def run(
        self, worker: Callable[[Term], object], *, pause: float = 1.0, on_lost: OnLost | None = None
    ) -> NoReturn:
        """Contend forever, and call `worker(term)` in this thread once per term.

        A worker that returns resigns. After a pause, in which nothing is held and others may lead,
        we queue again. After a lost term we contend again once its worker has ended, so it has to
        call `term.check()`. Any other exception of the worker ends this; so does closing the
        client, with `ClientClosedError`.

        Args:
            worker: called with each term.
            pause: how long to pause after a worker has returned, in seconds; 0 contends again at
                once.
            on_lost: called with each loss, in a thread of its own, as soon as it is known.

        Raises:
            ConfigurationError: `pause` is no number of seconds; nothing was sent.
        """
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
                self._loop.call(partial(anyio.sleep, seconds))
            except LeadershipLost as lost:
                if lost.token != token:
                    raise


EXTRAS.update(
    Client=ClientBase,
    Consumption=Context,
    Election=ElectionBase,
    MultiHeld=HoldBase,
    Tenure=HoldBase,
    TenureContext=ContextBase,
)
