"""The locks and the semaphore."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeVar, final
from weakref import WeakValueDictionary

import aiolead

from ..model import ACL, Participant
from ._client import Client
from ._context import HoldContext
from ._tenure import Held, OnLost, Tenure, WriteHeld

H = TypeVar("H", bound=Tenure[Any])

OnDisconnect = Literal["keep", "resign"]


class _Holdable(Protocol):
    """What the recipes in the event loop have in common."""

    @property
    def path(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Any]: ...

    def try_acquire(self) -> AbstractAsyncContextManager[Any]: ...

    async def holders(self) -> list[Participant]: ...


class _Queued(_Holdable, Protocol):
    async def contenders(self) -> list[Participant]: ...

    async def revoke(self) -> list[Participant]: ...


R = TypeVar("R", bound=_Holdable)
Q = TypeVar("Q", bound=_Queued)


class Holding(Generic[R, H]):
    """What all of them have. See `Lock`."""

    def __init__(self, client: Client, recipe: R) -> None:
        self._client = client
        self._recipe = recipe

    def __repr__(self) -> str:
        return f"<blocking {self._recipe!r}>"

    @abstractmethod
    def _held(self, tenure: Any, on_lost: OnLost | None) -> H:
        """What the thread is given. In the event loop."""

    def _holds(
        self,
        context: AbstractAsyncContextManager[Any],
        on_lost: OnLost | None,
        owner: object = None,
    ) -> HoldContext[H]:
        return HoldContext(
            self._client._loop, context, lambda tenure: self._held(tenure, on_lost), owner
        )

    def _tries(
        self, context: AbstractAsyncContextManager[Any], on_lost: OnLost | None
    ) -> HoldContext[H | None]:
        return HoldContext(
            self._client._loop,
            context,
            lambda tenure: None if tenure is None else self._held(tenure, on_lost),
        )

    @property
    def path(self) -> str:
        """The path that is contended for."""
        return self._recipe.path

    @property
    def identity(self) -> str:
        """What we call ourselves; others see it."""
        return self._recipe.identity

    def acquire(
        self, *, timeout: float | None = None, on_lost: OnLost | None = None
    ) -> HoldContext[H]:
        """Holds it for the body of a `with`.

        Args:
            timeout: how long to wait for it, in seconds; for ever by default. 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known. The body
                goes on meanwhile: it is for this to have it stop.

        Raises (on entering):
            AcquireTimeout: it was not ours within that time.

        For loss and interruption see `HoldContext`.
        """
        return self._holds(self._recipe.acquire(timeout=timeout), on_lost)

    def try_acquire(self, *, on_lost: OnLost | None = None) -> HoldContext[H | None]:
        """As `acquire`, but gives None, at once, if somebody else has it."""
        return self._tries(self._recipe.try_acquire(), on_lost)

    def __enter__(self) -> H:
        return self._holds(self._recipe.acquire(), None, self).__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client._loop.leave(self, exc)

    def holders(self) -> list[Participant]:
        """Who holds it. A read of the connected server, which may be a moment behind."""
        return self._client._loop.call(self._recipe.holders)


class Locking(Holding[Q, H]):
    """What locks in a line have besides."""

    def contenders(self) -> list[Participant]:
        """Who holds it and who waits for it, in order. A read, as `holders`."""
        return self._client._loop.call(self._recipe.contenders)

    def revoke(self) -> list[Participant]:
        """Asks whoever holds it now to let go of it; returns whom. See `aiolead.Lock.revoke`."""
        return self._client._loop.call(self._recipe.revoke)


@final
class Lock(Locking[aiolead.Lock, Held]):
    """A lock that one thread of one process holds at a time, first come first served.

        with lock as held: ...
        with lock.acquire(timeout=5, on_lost=stop) as held: ...
        with lock.try_acquire() as held:
            if held is not None: ...

    Not re-entrant: a thread that asks for what it holds gets `AlreadyHeldError`. One object may be
    used by any number of threads; they exclude each other.

    Args: as for `aiolead.Lock`, with a client of `aiolead.blocking`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.Lock:
            return aiolead.Lock(
                inner, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
            )

        super().__init__(client, client._make(make))

    def _held(self, tenure: aiolead.types.Tenure, on_lost: OnLost | None) -> Held:
        return Held(self._client._loop, tenure, on_lost)


@final
class ReentrantLock(Locking[aiolead.ReentrantLock, Held]):
    """A lock that the thread that holds it may take again. Otherwise as `Lock`, and beside it.

    Entering it again gives the same `held`. Only leaving the outermost block releases it.

    Args: as for `aiolead.ReentrantLock`, with a client of `aiolead.blocking`.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.ReentrantLock:
            return aiolead.ReentrantLock(
                inner, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
            )

        super().__init__(client, client._make(make))
        self._by_token: WeakValueDictionary[int, Held] = WeakValueDictionary()

    def _held(self, tenure: aiolead.types.Tenure, on_lost: OnLost | None) -> Held:
        held = self._by_token.get(tenure.token)
        if held is None:
            held = self._by_token[tenure.token] = Held(self._client._loop, tenure, on_lost)
        elif on_lost is not None:
            held._add(on_lost)
        return held


@final
class ReadLock(Locking[aiolead.types.ReadLock, Held]):
    """A read/write lock, for reading: any number of readers hold it. See `ReadWriteLock`."""

    def _held(self, tenure: aiolead.types.Tenure, on_lost: OnLost | None) -> Held:
        return Held(self._client._loop, tenure, on_lost)


@final
class WriteLock(Locking[aiolead.types.WriteLock, WriteHeld]):
    """A read/write lock, for writing: nobody else holds it. See `ReadWriteLock`."""

    def _held(self, tenure: aiolead.types.WriteHeld, on_lost: OnLost | None) -> WriteHeld:
        return WriteHeld(self._client._loop, tenure, on_lost)


@final
class ReadWriteLock:
    """A lock that readers share, and that a writer has alone; first come first served.

        with lock.read as held: ...
        with lock.write as held:
            ...
            held.downgrade()  # goes on as a reader; no writer comes in between

    Args: as for `aiolead.ReadWriteLock`, with a client of `aiolead.blocking`.

    Attributes:
        read: the lock for reading.
        write: the lock for writing.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.ReadWriteLock:
            return aiolead.ReadWriteLock(
                inner, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
            )

        self._client = client
        self._recipe = client._make(make)
        self.read: ReadLock = ReadLock(client, self._recipe.read)
        self.write: WriteLock = WriteLock(client, self._recipe.write)

    def __repr__(self) -> str:
        return f"<blocking {self._recipe!r}>"

    def holders(self) -> list[Participant]:
        """Who holds it: readers, or one writer. A read, as `Lock.holders`."""
        return self._client._loop.call(self._recipe.holders)

    def contenders(self) -> list[Participant]:
        """Who holds it and who waits for it, in order. A read, as `Lock.holders`."""
        return self._client._loop.call(self._recipe.contenders)


@final
class ExclusiveLock(Holding[aiolead.ExclusiveLock, Held]):
    """A lock that is one ephemeral znode: whoever creates it has it. Simple, and not fair.

    Args: as for `aiolead.ExclusiveLock`, with a client of `aiolead.blocking`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.ExclusiveLock:
            return aiolead.ExclusiveLock(
                inner, path, identity=identity, on_disconnect=on_disconnect, acl=acl
            )

        super().__init__(client, client._make(make))

    def _held(self, tenure: aiolead.types.Tenure, on_lost: OnLost | None) -> Held:
        return Held(self._client._loop, tenure, on_lost)


@final
class Semaphore(Holding[aiolead.Semaphore, Held]):
    """A limit on how many hold something at once, first come first served.

        with semaphore as held: ...
        with semaphore.acquire(permits=3, timeout=5) as held: ...

    Args: as for `aiolead.Semaphore`, with a client of `aiolead.blocking`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        limit: int,
        *,
        identity: str | None = None,
        layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.Semaphore:
            return aiolead.Semaphore(
                inner,
                path,
                limit,
                identity=identity,
                layout=layout,
                on_disconnect=on_disconnect,
                acl=acl,
            )

        super().__init__(client, client._make(make))

    def _held(self, tenure: aiolead.types.Tenure, on_lost: OnLost | None) -> Held:
        return Held(self._client._loop, tenure, on_lost)

    def acquire(
        self, *, permits: int = 1, timeout: float | None = None, on_lost: OnLost | None = None
    ) -> HoldContext[Held]:
        """Holds permits for the body of a `with`: all of them, or none.

        Args:
            permits: how many.
            timeout: how long to wait for them, in seconds; for ever by default. 0 tries once.
            on_lost: as for `Lock.hold`.

        Raises (on entering): as for `aiolead.Semaphore.hold`.
        """
        return self._holds(self._recipe.acquire(permits=permits, timeout=timeout), on_lost)

    def try_acquire(
        self, *, permits: int = 1, on_lost: OnLost | None = None
    ) -> HoldContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
        return self._tries(self._recipe.try_acquire(permits=permits), on_lost)

    def contenders(self) -> list[Participant]:
        """One for each permit that is held, then one for each who waits. A read, as `holders`."""
        return self._client._loop.call(self._recipe.contenders)

    def set_limit(self, limit: int) -> None:
        """Publishes how many permits there are, for everybody; see `aiolead.Semaphore`."""
        self._client._loop.call(lambda: self._recipe.set_limit(limit))

    def limit(self) -> int:
        """How many permits there are: what was published, else the argument."""
        return self._client._loop.call(self._recipe.limit)

    def available(self) -> int:
        """How many permits are free now; 0 while somebody waits for them."""
        return self._client._loop.call(self._recipe.available)
