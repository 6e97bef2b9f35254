"""A value that several processes share: the data of one znode."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, final, overload

from ..._internal_errors import call_back
from ...abc import CoordinationClient
from ...errors import InvalidDataError
from ...model import ACL, Stat
from .._core.arguments import OnInvalid, checked_on_invalid
from .._core.observe import View
from .._core.reading import read_data
from .._core.recipe import Recipe
from .codec import Codec, checked_codec, decoded, encoded
from .optimistic import checked_rng, compare_and_set, read, update, write

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T_co]):
    """A value with its version.

    Attributes:
        value: the value.
        stat: of its znode; None if that does not exist, so that the value is the default.
    """

    value: T_co
    stat: Stat | None

    @property
    def version(self) -> int:
        """The version of the znode's data; -1 if the znode does not exist."""
        return -1 if self.stat is None else self.stat.version


@final
class SharedValue(Recipe, Generic[T]):
    """A value that several processes share. Curator's `SharedValue`, `SharedCount`.

        limit = SharedValue(client, "/app/limit", 10, codec=Codec.int32())
        now = await limit.get()
        await limit.set(20)
        if await limit.compare_and_set(now, now.value + 1) is None:
            ...  # somebody was quicker
        async with limit.observe() as view:
            async for value in view: ...

    The first write creates the znode; until then the value is the default. Any number of tasks may
    use one object.

    Args:
        client: the session.
        path: the znode.
        default: the value while the znode does not exist.
        codec: how the value is written; bytes, unchanged, by default.
        on_invalid: called with the error when `observe` finds data that the codec refuses; they are
            skipped. Without it the error ends the view. It runs in the client's task: it must be
            quick. Its exceptions are logged.
        rng: for the pauses of `update`.
        acl: of what has to be created; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    @overload
    def __init__(
        self: SharedValue[bytes],
        client: CoordinationClient,
        path: str,
        default: bytes = b"",
        *,
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        default: T,
        *,
        codec: Codec[T],
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        default: Any = b"",
        *,
        codec: Codec[Any] | None = None,
        on_invalid: OnInvalid | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl)
        self._codec = cast(Codec[T], Codec.raw() if codec is None else checked_codec(codec))
        encoded(self._codec, default, name="default")
        self._default: T = default
        self._on_invalid = checked_on_invalid(on_invalid)
        self._rng = checked_rng(rng)

    async def get(self) -> Versioned[T]:
        """The value, as the connected server has it, which may be a moment behind.

        Call `client.sync()` before it where that matters.

        Raises:
            InvalidDataError: the codec refuses the data.
        """
        return self._understood(*await read(self._client, self._path))

    async def set(self, value: T) -> Versioned[T]:
        """Set the value, whatever it was.

        On connection loss: raises `ConnectionLossError`; it is safe to retry.
        """
        data = encoded(self._codec, value)
        return Versioned(value, await write(self._client, self._path, data, self._acl))

    async def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has.

        Versions start again when the znode is deleted and created: then a write may be accepted
        that was meant for the old one.

        Args:
            expected: what was read, or written, last. Version -1 stands for no znode.
            value: the new value.

        On connection loss: finds out whether it was applied, and if not, tries again. If the value
        is there already, or was changed more than once, nobody knows whose it is: that raises
        `ConnectionLossError` (or `SessionExpiredError`), with the outcome `UNKNOWN`.
        """
        data = encoded(self._codec, value)
        stat = await compare_and_set(self._client, self._path, data, expected.stat, self._acl)
        return None if stat is None else Versioned(value, stat)

    async def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until nobody else has written in between.

        Args:
            change: makes the new value from the old one. Called for each try.

        Raises:
            InvalidDataError: the codec refuses the data.

        Cancellation: the last try may be applied.

        On connection loss: as `compare_and_set`.
        """
        value = self._default

        def new_data(data: bytes, stat: Stat | None) -> bytes:
            nonlocal value
            value = change(self._understood(data, stat).value)
            return encoded(self._codec, value)

        stat = await update(self._client, self._path, new_data, rng=self._rng, acl=self._acl)
        return Versioned(value, stat)

    def observe(self) -> SharedValueView[T]:
        """A view of the latest value: `async with value.observe() as view`."""
        return SharedValueView(self._client, self)

    def _understood(self, data: bytes, stat: Stat | None) -> Versioned[T]:
        if stat is None:
            return Versioned(self._default, None)
        return Versioned(decoded(self._codec, self._path, data, stat), stat)


@final
class SharedValueView(View[T]):
    """A view of a `SharedValue`. See `View`.

    A write counts as a change even if it sets the same value.
    """

    def __init__(self, client: CoordinationClient, shared: SharedValue[T]) -> None:
        super().__init__(client)
        self._shared = shared
        self._latest: Versioned[T] | None = None
        self._is_other = False

    @property
    def versioned(self) -> Versioned[T]:
        """The latest value, with its version."""
        self._check_open()
        return cast(Versioned[T], self._latest)

    async def _read(self) -> T:
        path = self._shared.path
        data, stat = await read_data(self._client, path, self._watch(path))
        before, shared = self._latest, self._shared
        try:
            latest = shared._understood(data, stat)
        except InvalidDataError as error:
            if shared._on_invalid is None:
                raise
            call_back(shared._on_invalid, error)
            latest = before or Versioned(shared._default, None)
        # Versions repeat where a znode is deleted and created again; transactions do not.
        self._is_other = _written(before) != _written(latest)
        self._latest = latest
        return latest.value

    def _is_news(self, before: T, after: T) -> bool:
        return self._is_other


def _written(value: Versioned[Any] | None) -> int:
    return -1 if value is None or value.stat is None else value.stat.mzxid
