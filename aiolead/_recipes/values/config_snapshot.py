"""Reading the published configuration consistently; its view; the format of its history."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast, final

from ..._util.parsing import MalformedError, base64_data, json_object, shown, whole
from ...abc import CoordinationClient, Watch
from ...errors import InvalidDataError, NoNodeError
from ...model import Stat
from ...paths import join
from .._core.arguments import OnInvalid
from .._core.observation import Observation
from .._core.observe import View
from .._core.reading import listed
from .valid_observation import ValidObservation, report_skipped

T_co = TypeVar("T_co", covariant=True)

KEYS = "keys"
HISTORY = "history"

LAST = 1 << 62
"""The greatest version number."""

_ENTRY = re.compile(r"[0-9]{10}|[1-9][0-9]{10,18}")


@dataclass(frozen=True, slots=True)
class Published(Generic[T_co]):
    """A configuration with its version number, which is 0 before anything was published."""

    value: T_co
    version: int


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """A version of a configuration in the history.

    `identity` is the publisher. `time` is when it was published, by the leader's wall clock, in
    milliseconds since 1970.
    """

    version: int
    keys: Mapping[str, bytes]
    identity: str
    time: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All keys and the version at one moment; `stat` is None if there is no configuration."""

    keys: dict[str, bytes]
    version: int
    stat: Stat | None


@dataclass(frozen=True, slots=True)
class _Parts:
    """All keys, and the znode with the version's digits, at one moment."""

    keys: dict[str, bytes]
    number: bytes
    stat: Stat | None

    @property
    def published(self) -> int:
        """The transaction that published it; 0 before anything was published."""
        return self.stat.mzxid if self.stat is not None and self.number not in (b"", b"0") else 0

    def snapshot(self, path: str) -> Snapshot:
        """The snapshot; `InvalidDataError` if the version is no number."""
        if self.stat is None:
            return Snapshot({}, 0, None)
        return Snapshot(self.keys, version_of(path, self.number, self.stat), self.stat)


async def read_snapshot(client: CoordinationClient, path: str) -> Snapshot:
    """Read all keys of one version. See `_read_parts`."""
    return (await _read_parts(client, path)).snapshot(path)


async def _read_parts(client: CoordinationClient, path: str, watch: Watch | None = None) -> _Parts:
    """Read the keys between two reads of the version; repeat if it has changed meanwhile.

    Two round trips for any number of keys. It is consistent because a client never reads an older
    state than before: equal versions mean that nothing was published between. `watch` is armed on
    the version.
    """
    keys_path = join(path, KEYS)
    while True:
        with client.pipelined():
            first = client.get(path, watch=watch)
            listing = client.get_children(keys_path)
        try:
            number, before = await first
        except NoNodeError:
            if await client.exists(path, watch=watch) is None:
                return _Parts({}, b"", None)
            continue
        names = await listed(listing)
        with client.pipelined():
            looks = [(name, client.get(join(keys_path, name))) for name in sorted(names)]
            last = client.exists(path)
        keys: dict[str, bytes] = {}
        for name, look in looks:
            try:
                keys[name], _ = await look
            except NoNodeError:
                break
        after = await last
        if after is None or len(keys) < len(names):
            continue
        if (after.czxid, after.mzxid) == (before.czxid, before.mzxid):
            return _Parts(keys, number, before)


def version_of(path: str, data: bytes, stat: Stat) -> int:
    """The version number, 0 for a znode without data; `InvalidDataError` if it is no number."""
    if not data:
        return 0
    try:
        return whole(data, least=0, most=LAST)
    except MalformedError as error:
        raise InvalidDataError(path, error, version=stat.version) from error


# --- the history -------------------------------------------------------------------------------


def entry_name(version: int) -> str:
    return f"{version:010d}"


def number_of(name: str) -> int | None:
    """The version number in a name of the history; None for a foreign child."""
    if _ENTRY.fullmatch(name) is None:
        return None
    number = whole(name, most=10**19)
    return number if number <= LAST else None


def encode_entry(keys: Mapping[str, bytes], identity: str, author: str) -> bytes:
    """Encode a version for the history: readable, as far as the values are text.

    `author` identifies the call, in case its answer is lost.
    """
    values = {key: _encode_value(keys[key]) for key in sorted(keys)}
    entry = {"identity": identity, "author": author, "keys": values}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()


def _encode_value(value: bytes) -> str | dict[str, str]:
    packed = base64.b64encode(value).decode()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": packed}
    # JSON needs six characters for a control character; base64 bounds the size.
    said = json.dumps(text, ensure_ascii=False)
    return text if len(said.encode()) <= len(packed) + 2 else {"base64": packed}


def decode_entry(path: str, version: int, data: bytes, stat: Stat) -> tuple[ConfigVersion, str]:
    """The version and the `author` of `encode_entry`; `InvalidDataError` for anything else."""
    try:
        return _decode_entry(version, data, stat)
    except MalformedError as error:
        raise InvalidDataError(path, error, version=stat.version) from error


def _decode_entry(version: int, data: bytes, stat: Stat) -> tuple[ConfigVersion, str]:
    entry = json_object(data)
    values, identity, author = (entry.get(name) for name in ("keys", "identity", "author"))
    if not (isinstance(values, dict) and isinstance(identity, str) and isinstance(author, str)):
        raise MalformedError("lacks keys, identity or author")
    keys = {key: _decode_value(value) for key, value in values.items()}
    return ConfigVersion(version, keys, identity, stat.ctime), author


def _decode_value(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        raise MalformedError(f"has a value that is neither text nor base64: {shown(value)}")
    return base64_data(value.get("base64"))


T = TypeVar("T")


@final
class ConfigView(View[T]):
    """A view of the current configuration, which is always valid. See `View`.

    An invalid version is skipped, and reported by `invalid` and to the configuration's
    `on_invalid`. Entering raises `InvalidDataError` if the present version is invalid.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        parse: Callable[[Snapshot], T],
        on_invalid: OnInvalid | None,
    ) -> None:
        super().__init__(client)
        self._path = path
        self._parse = parse
        self._on_invalid = on_invalid

    @property
    def version(self) -> int:
        """The version number of `value`; 0 before anything was published."""
        return self._observed.version

    @property
    def published(self) -> Published[T]:
        """The configuration with its version."""
        observed = self._observed
        return Published(observed.value, observed.version)

    @property
    def invalid(self) -> InvalidDataError | None:
        """The error of the latest version; None if that is valid, and therefore `value`."""
        return self._observed.invalid if self._count else None

    @property
    def _observed(self) -> ValidObservation[T]:
        self._check_open()
        return cast(ValidObservation[T], self._latest)

    async def _read(self) -> ValidObservation[T]:
        path = self._path
        parts = await _read_parts(self._client, path, self._watch(path))
        published = parts.published
        try:
            snapshot = parts.snapshot(path)
            value = self._parse(snapshot)
        except InvalidDataError as error:
            if not self._count:
                raise
            return self._observed.skipping(error, published)
        return ValidObservation(value, published, snapshot.version, snapshot.stat, published)

    def _publish(self, observation: Observation[T]) -> None:
        now = cast(ValidObservation[T], observation)
        before = self._observed if self._count else None
        super()._publish(now)
        report_skipped(self._on_invalid, before, now)
