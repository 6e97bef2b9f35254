"""Values as the data of a znode, and observations of values that may be invalid."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from typing import Any, Generic, Self, SupportsIndex, TypeVar, cast

from .._util.escaping import described
from .._util.internal_errors import call_back
from .._util.parsing import MAX_DIGITS, MalformedError, json_value, shown, text, whole
from ..abc import CoordinationClient
from ..errors import ConfigurationError, InvalidDataError
from ..model import Stat
from .recipe import OnInvalid
from .reporting import logger
from .view import Observation, Reading, View

__types__ = ["Codec"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Encodes values as the data of a znode, and decodes them.

    Both functions may raise any exception for invalid input: the recipe raises `InvalidDataError`
    if `decode` does, `ConfigurationError` if `encode` does. They block the event loop: keep them
    quick.
    """

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]

    @staticmethod
    def raw() -> Codec[bytes]:
        """Bytes, unchanged; other values are refused."""
        return Codec(_to_raw, bytes)

    @staticmethod
    def text() -> Codec[str]:
        """Text, in UTF-8."""
        return Codec(_to_text, text)

    @staticmethod
    def json() -> Codec[Any]:
        """JSON, in UTF-8.

        In both directions, numbers must be finite and have at most 300 digits, text must be Unicode
        without lone surrogates, and nesting is limited to 64 levels.
        """
        return Codec(_to_json, json_value)

    @staticmethod
    def int32() -> Codec[int]:
        """4 bytes, big-endian, signed: Curator's `SharedCount`, `DistributedAtomicInteger`."""
        return _integer(4)

    @staticmethod
    def int64() -> Codec[int]:
        """8 bytes, big-endian, signed: Curator's `DistributedAtomicLong`."""
        return _integer(8)

    @staticmethod
    def decimal() -> Codec[int]:
        """Up to 300 decimal digits: the counters of kazoo and aiozk."""
        return Codec(_to_digits, _from_digits)


def _to_raw(value: object) -> bytes:
    # `bytes(5)` would be 5 zero bytes.
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"must be bytes, not {type(value).__name__} (see `codec`)")
    return bytes(value)


def _to_text(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"must be a str, not {type(value).__name__}")
    return value.encode()


def _checked_int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"must be an int, not {type(value).__name__}")
    return index(value)


def _to_json(value: object) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    json_value(data)  # refuses what no reader could decode
    return data


def _to_digits(value: int) -> bytes:
    data = b"%d" % _checked_int(value)
    _from_digits(data)
    return data


def _from_digits(data: bytes) -> int:
    return whole(data, least=1 - 10**MAX_DIGITS, most=10**MAX_DIGITS - 1)


def _integer(size: int) -> Codec[int]:
    def encode(value: int) -> bytes:
        try:
            return _checked_int(value).to_bytes(size, "big", signed=True)
        except OverflowError:
            raise OverflowError(f"{shown(value)} does not fit into {size} bytes") from None

    def decode(data: bytes) -> int:
        if len(data) != size:
            raise MalformedError(f"{len(data)} bytes rather than {size}")
        return int.from_bytes(data, "big", signed=True)

    return Codec(encode, decode)


def checked_codec(codec: Codec[T]) -> Codec[T]:
    if not isinstance(codec, Codec):
        raise ConfigurationError(f"codec: must be a Codec, not {described(codec)}")
    return codec


def encoded(codec: Codec[T], value: T, *, name: str = "value") -> bytes:
    """Encode a caller's value; `ConfigurationError` if the codec refuses it."""
    try:
        data = codec.encode(value)
    except Exception as error:
        raise ConfigurationError(f"{name}: {error}: {described(value)}") from error
    if not isinstance(data, bytes):
        raise ConfigurationError(f"codec: `encode` gave {type(data).__name__}, not bytes")
    return data


def decoded(codec: Codec[T], path: str, data: bytes, stat: Stat) -> T:
    """Decode the data of a znode; `InvalidDataError` if the codec refuses them."""
    try:
        return codec.decode(data)
    except Exception as error:
        raise InvalidDataError(path, error, version=stat.version) from error


@dataclass(frozen=True, slots=True)
class ValidObservation(Observation[T], Generic[T]):
    """The latest valid value of a znode, with its version and `Stat`.

    Attributes:
        invalid: the error of the latest write; None if that is the value's.
        written: the transaction id of the latest write, valid or not. Unlike versions, transaction
            ids do not repeat when a znode is deleted and created again.
    """

    version: int
    stat: Stat | None
    written: int
    invalid: InvalidDataError | None = None

    def skipping(self, error: InvalidDataError, written: int) -> Self:
        """The same value, although the latest write is another, invalid one."""
        return replace(self, written=written, invalid=error)


class ValidView(View[T]):
    """A view that keeps the last valid value, and reports invalid ones to `on_invalid`."""

    def __init__(self, client: CoordinationClient, path: str, on_invalid: OnInvalid | None) -> None:
        super().__init__(client, path, partial(Reading, client, self._read))
        self._on_invalid = on_invalid

    @abstractmethod
    async def _read(self, reading: Reading[T]) -> ValidObservation[T]:
        """See `Reading`. After a value, the observation of an invalid one is `skipping`."""

    @property
    def _observed(self) -> ValidObservation[T]:
        self._check_open()
        return cast(ValidObservation[T], self._latest)

    def _publish(self, observation: Observation[T]) -> None:
        now = cast(ValidObservation[T], observation)
        before = self._observed if self._count else None
        super()._publish(now)
        is_old = before is not None and before.invalid is not None and before.written == now.written
        if now.invalid is not None and not is_old:
            self._report(now.invalid)

    def _report(self, error: InvalidDataError) -> None:
        """Report an invalid write as it is published: once, however often it was read."""
        if self._on_invalid is None:
            log_skipped(error)
        else:
            call_back(self._on_invalid, error)


def log_skipped(error: InvalidDataError) -> None:
    """Log an invalid write without the text of its error, which may quote data."""
    cause = type(error.__cause__ or error).__name__
    logger.warning(
        "%s: what was published last is invalid (%s), and the value before stays in use; "
        "on_invalid= gets the error",
        error.path,
        cause,
    )
