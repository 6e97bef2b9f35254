"""A shared value: the data of one znode."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, final, overload

from ...abc import CoordinationClient
from ...errors import InvalidDataError
from ...model import ACL, Stat
from .._core.arguments import OnInvalid, checked_on_invalid
from .._core.observation import Observation
from .._core.observe import View
from .._core.reading import read_data
from .._core.recipe import Recipe
from .codec import Codec, checked_codec, decoded, encoded
from .optimistic import checked_rng, compare_and_set, read, update, write
from .valid_observation import ValidObservation, report_skipped

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T_co]):
    """A value with the `Stat` of its znode, or the default with None if there is no znode."""

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
            ...  # another client was quicker
        async with limit.observe() as view:
            async for value in view: ...

    The first write creates the znode; until then the value is the default. Any number of tasks may
    use one object.

    Args:
        client: the session.
        path: the znode.
        default: the value while the znode does not exist.
        codec: the value's format; defaults to unchanged bytes.
        on_invalid: called with the error when `observe` skips data that the codec refuses, once for
            each write. Without it the error ends the view. It runs in the client's task: keep it
            quick. Its exceptions are logged.
        rng: for the random pauses between attempts.
        acl: of created znodes; defaults to open to everybody.

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
        super().__init__(client, path, acl=acl)
        self._codec = cast(Codec[T], Codec.raw() if codec is None else checked_codec(codec))
        encoded(self._codec, default, name="default")
        self._default: T = default
        self._on_invalid = checked_on_invalid(on_invalid)
        self._rng = checked_rng(rng)

    async def get(self) -> Versioned[T]:
        """Return the value. The server may lag: call `client.sync()` first where that matters.

        Raises `InvalidDataError` if the codec refuses the data.
        """
        return self._understood(*await read(self._client, self._path))

    async def set(self, value: T) -> Versioned[T]:
        """Set the value unconditionally. It is safe to retry after `ConnectionLossError`."""
        data = encoded(self._codec, value)
        return Versioned(value, await write(self._client, self._path, data, self._acl))

    async def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has.

        `expected` is the result of the last read or write; version -1 stands for no znode. Versions
        restart when the znode is deleted and created again: a write meant for the old one may
        succeed.

        On connection loss: finds out whether it was applied, and retries if not. If the value is
        there already, or has changed more than once, the writer is unknown. Then it raises
        `ConnectionLossError` or `SessionExpiredError`, with the outcome `UNKNOWN`.
        """
        data = encoded(self._codec, value)
        stat = await compare_and_set(self._client, self._path, data, expected.stat, self._acl)
        return None if stat is None else Versioned(value, stat)

    async def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until no other client has written in between.

        `change` makes the new value from the old one, once for each attempt. Raises
        `InvalidDataError` if the codec refuses the data. Cancellation: the last attempt may be
        applied. On connection loss: as `compare_and_set`.
        """
        value = self._default

        def new_data(data: bytes, stat: Stat | None) -> bytes:
            nonlocal value
            value = change(self._understood(data, stat).value)
            return encoded(self._codec, value)

        stat = await update(self._client, self._path, new_data, rng=self._rng, acl=self._acl)
        return Versioned(value, stat)

    def observe(self) -> SharedValueView[T]:
        """Return a view of the latest value: `async with value.observe() as view`."""
        return SharedValueView(self._client, self)

    def _understood(self, data: bytes, stat: Stat | None) -> Versioned[T]:
        if stat is None:
            return Versioned(self._default, None)
        return Versioned(decoded(self._codec, self._path, data, stat), stat)


@final
class SharedValueView(View[T]):
    """A view of a `SharedValue`: a write of an equal value counts as a change. See `View`."""

    def __init__(self, client: CoordinationClient, shared: SharedValue[T]) -> None:
        super().__init__(client)
        self._shared = shared

    @property
    def versioned(self) -> Versioned[T]:
        """The latest value, with its version."""
        self._check_open()
        latest = cast(ValidObservation[T], self._latest)
        return Versioned(latest.value, latest.stat)

    async def _read(self) -> ValidObservation[T]:
        shared = self._shared
        data, stat = await read_data(self._client, shared.path, self._watch(shared.path))
        written = _NEVER if stat is None else stat.mzxid
        try:
            found = shared._understood(data, stat)
        except InvalidDataError as error:
            if shared._on_invalid is None:
                raise
            return self._before().skipping(error, written)
        return ValidObservation(found.value, written, found.version, stat, written)

    def _before(self) -> ValidObservation[T]:
        """The last published observation; before any, that of a znode that does not exist."""
        if self._count:
            return cast(ValidObservation[T], self._latest)
        return ValidObservation(self._shared._default, _NEVER, -1, None, _NEVER)

    def _publish(self, observation: Observation[T]) -> None:
        now, before = cast(ValidObservation[T], observation), self._before()
        super()._publish(now)
        report_skipped(self._shared._on_invalid, before, now)


_NEVER = -1
"""The transaction id of a write that nobody has made."""
