"""A configuration: several keys that are published together, and rolled back together.

The znode's data is the version number in decimal digits, `keys/<key>` has the values, and
`history/<number>` each whole version in JSON.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from .._util.escaping import described, escaped
from .._util.parsing import MalformedError, base64_data, json_object, shown, whole
from ..abc import CoordinationClient, Reply, Transaction, Watch
from ..errors import (
    BadVersionError,
    ConfigurationError,
    InvalidDataError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ServerError,
    TransactionError,
)
from ..model import ACL, Stat
from ..paths import join
from .codec import ValidObservation, ValidView
from .errors import TRIES, ensure_path
from .reading import catch_up, caught_up, listed, over_sessions, read_children, read_data
from .recipe import (
    OnInvalid,
    Recipe,
    checked_count,
    checked_identity,
    checked_name,
    checked_on_invalid,
)
from .reporting import PathWarnings
from .values import Verdict, checked_rng, settled, until_first
from .view import Reading

__all__ = ["Config"]
__types__ = ["ConfigVersion", "ConfigView", "Published"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    P = DefaultTypeVar("P", default=dict[str, bytes])
else:
    P = TypeVar("P")
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
    """All keys, and the znode with the version number, at one moment.

    `number` has the digits; `stat` is None if there is no configuration.
    """

    keys: dict[str, bytes]
    number: bytes = b""
    stat: Stat | None = None

    @property
    def published_by(self) -> int:
        """The transaction that published it; 0 before anything was published."""
        return self.stat.mzxid if self.stat is not None and self.number not in (b"", b"0") else 0

    def version(self, path: str) -> int:
        """The version number; `InvalidDataError` if it is no number."""
        return 0 if self.stat is None else version_of(path, self.number, self.stat)


async def read_snapshot(
    client: CoordinationClient, path: str, watch: Watch | None = None
) -> Snapshot:
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
                return Snapshot({})
            continue
        names = await listed(listing)
        with client.pipelined():
            looks = [(name, client.get(join(keys_path, name))) for name in sorted(names)]
            last = client.exists(path)
        keys: dict[str, bytes] = {}
        for name, look in looks:
            with suppress(NoNodeError):
                keys[name], _ = await look
        after = await last
        if after is None or len(keys) < len(names):
            continue
        if (after.czxid, after.mzxid) == (before.czxid, before.mzxid):
            return Snapshot(keys, number, before)


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
        entry = json_object(data)
        values, identity, author = (entry.get(name) for name in ("keys", "identity", "author"))
        if not (isinstance(values, dict) and isinstance(identity, str) and isinstance(author, str)):
            raise MalformedError("lacks keys, identity or author")
        keys = {_decode_key(key): _decode_value(value) for key, value in values.items()}
    except MalformedError as error:
        raise InvalidDataError(path, error, version=stat.version) from error
    return ConfigVersion(version, keys, identity, stat.ctime), author


def _decode_key(key: str) -> str:
    try:
        return checked_name("a key", key)
    except ConfigurationError:
        raise MalformedError(f"has a key that is no name of a znode: {shown(key)}") from None


def _decode_value(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        raise MalformedError(f"has a value that is neither text nor base64: {shown(value)}")
    return base64_data(value.get("base64"))


# --- the view ------------------------------------------------------------------------------------


@final
class ConfigView(ValidView[P]):
    """A view of the current configuration, which is always valid. See `View`.

    An invalid version is skipped, and reported by `invalid` and to the configuration's
    `on_invalid`. Entering raises `InvalidDataError` if the present version is invalid.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        parse: Callable[[Snapshot], Published[P]],
        on_invalid: OnInvalid | None,
    ) -> None:
        super().__init__(client, path, on_invalid)
        self._parse = parse

    @property
    def version(self) -> int:
        """The version number of `value`; 0 before anything was published."""
        return self._observed.version

    @property
    def published(self) -> Published[P]:
        """The configuration with its version."""
        observed = self._observed
        return Published(observed.value, observed.version)

    @property
    def invalid(self) -> InvalidDataError | None:
        """The error of the latest version; None if that is valid, and therefore `value`."""
        return self._observed.invalid if self._count else None

    async def _read(self, reading: Reading[P]) -> ValidObservation[P]:
        snapshot = await read_snapshot(self._client, self._path, reading.watch(self._path))
        by = snapshot.published_by
        try:
            now = self._parse(snapshot)
        except InvalidDataError as error:
            if not self._count:
                raise
            return self._observed.skipping(error, by)
        return ValidObservation(now.value, by, now.version, snapshot.stat, by)


# --- the recipe ----------------------------------------------------------------------------------

MAX_SIZE = 256 * 1024
"""All keys and values, in bytes. A transaction may have them twice within `jute.maxbuffer`."""

MAX_KEYS = 1000

_SHOWN, _SHOWN_NAMES = 80, 3
"""How many characters, of how many names, the log shows of foreign children."""


@final
class Config(Recipe, Generic[P]):
    """A configuration: several keys, published together and observed as one value.

        config = Config(client, "/app/config", parse=Settings.from_keys)
        await config.publish({"limit": b"10", "colour": b"red"})
        async with config.observe() as view:
            view.value                      # always the current settings
            async for settings in view: ...
        await config.rollback(3)

    Readers always see the keys of one version together. Before it is published, a configuration is
    validated by the `parse` function of its readers. Any number of tasks may use one object.

    Args:
        path: the path. Nothing else should use what is below it.
        parse: makes the value from all keys; raises any exception if they are invalid. It blocks
            the event loop: keep it quick. Without it, the value is the dict of keys.
        keep: how many versions the history has; defaults to 10.
        identity: the publisher, for the history; defaults to host name and process id.
        on_invalid: called with the error when `observe` skips an invalid version, once for each;
            defaults to a warning in the log. It runs in the client's task: keep it quick. Its
            exceptions are logged.
        max_size: the limit of all keys and values together, in bytes; defaults to 256 KiB.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        parse: Callable[[dict[str, bytes]], P] | None = None,
        keep: int = 10,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        max_size: int = MAX_SIZE,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        if not (parse is None or callable(parse)):
            raise ConfigurationError(f"parse: must be a function, not {parse!r}")
        self._parse: Callable[[dict[str, bytes]], Any] = parse or dict
        self._keep = checked_count("keep", keep, least=1, most=1000)
        self._identity = checked_identity(identity)
        self._on_invalid = checked_on_invalid(on_invalid)
        self._max_size = checked_count("max_size", max_size, most=1 << 30)
        self._rng = checked_rng(rng)
        self._history_path = join(path, HISTORY)
        self._warnings = self._client.backend.shared(path, PathWarnings)

    async def get(self) -> Published[P]:
        """Return the configuration. The connected server may lag; see `SharedValue.get`.

        Raises `InvalidDataError` if the present version is invalid.
        """
        read = partial(read_snapshot, self._client, self._path)
        return self._parsed(await over_sessions(self._client, read))

    def observe(self) -> ConfigView[P]:
        """Return a view of the current configuration: `async with config.observe() as view`."""
        return ConfigView(self._client, self._path, self._parsed, self._on_invalid)

    async def publish(
        self, changes: Mapping[str, bytes | None], *, version: int | None = None
    ) -> int:
        """Change some keys, all at once; return the number of the new version.

        Args:
            changes: the new values; None deletes a key. Other keys stay as they are.
            version: the version that this builds upon; defaults to the latest. If another publisher
                is quicker, the changes then apply to its version.

        Raises:
            BadVersionError: the present version is not `version`; nothing was published.
            ConfigurationError: a key or value is malformed, or the result would be invalid or too
                large; nothing was published.
            InvalidDataError: the present version number is invalid, or the last; nothing was
                published.
            NotEmptyError: others have put znodes below a key that would be deleted (`path`);
                nothing was published.

        Cancellation: it may be published. On connection loss: finds out from the history whether it
        was published, and retries if not. Raises `ConnectionLossError` with the outcome `UNKNOWN`
        only if the history does not reach back that far any more.
        """
        if not isinstance(changes, Mapping):
            raise ConfigurationError(
                f"changes: must be a mapping of keys to bytes, or None, not {described(changes)}"
            )
        checked = {checked_name("changes: a key", key): changes[key] for key in changes}
        if not checked:
            raise ConfigurationError("changes: must have at least one key")
        for key, value in checked.items():
            if value is not None and not isinstance(value, bytes):
                raise ConfigurationError(f"changes: {key!r} must be bytes or None, not {value!r}")

        def merge(keys: dict[str, bytes]) -> dict[str, bytes]:
            merged = {**keys, **checked}
            return {key: value for key, value in merged.items() if value is not None}

        return await self._publish(merge, version)

    async def rollback(self, version: int) -> int:
        """Publish a version of the history as a new one; return the number of the new one.

        Raises:
            NoNodeError: the history does not have `version`, or not any more.
            InvalidDataError: the history's entry, or the present version number, is invalid.
            NotEmptyError: as for `publish`.
            ConfigurationError: it is not valid any more, or too large; nothing was published.

        Cancellation, on connection loss: as `publish`.
        """
        checked_count("version", version, least=1, most=LAST)
        path = self._entry(version)

        async def read() -> tuple[bytes, Stat]:
            try:
                return await self._client.get(path)
            except NoNodeError:
                # The version may have been published over a server that is ahead of this one.
                await catch_up(self._client, self._path)
                return await self._client.get(path)

        old, _ = decode_entry(path, version, *await over_sessions(self._client, read))
        return await self._publish(lambda _keys: dict(old.keys), None)

    async def history(self) -> list[ConfigVersion]:
        """Return the versions in the history, the latest first.

        A version that is published or dropped meanwhile may be missing. Foreign children are
        skipped, with a warning in the log. An old version that others have put znodes below stays,
        with a warning, until those are gone. Raises `InvalidDataError` if the entry of a version is
        invalid: delete the error's `path`.
        """
        return await over_sessions(self._client, self._read_history)

    async def _read_history(self) -> list[ConfigVersion]:
        path = self._history_path
        numbers = await self._numbers(self._client.get_children(path))
        names = {entry_name(number): number for number in numbers}
        found = await read_children(self._client, path, list(names))
        return [
            decode_entry(join(path, name), names[name], data, stat)[0]
            for name, (data, stat) in found.items()
        ]

    def _parsed(self, snapshot: Snapshot) -> Published[P]:
        version = snapshot.version(self._path)
        try:
            return Published(self._parse(dict(snapshot.keys)), version)
        except Exception as error:
            raise InvalidDataError(self._path, error, version=version) from error

    # --- publishing ----------------------------------------------------------------------------

    async def _publish(
        self, change: Callable[[dict[str, bytes]], dict[str, bytes]], version: int | None
    ) -> int:
        client = self._client
        author = f"{client.session_id & (1 << 64) - 1:016x}-{client.backend.serial()}"
        conflicts = 0

        async def attempt() -> int | None:
            snapshot, present, numbers = await self._present(version)
            number = present + 1
            keys = self._checked(change(snapshot.keys))

            async def write() -> int | None:
                nonlocal conflicts
                try:
                    await self._transaction(snapshot, number, keys, author).commit()
                except TransactionError as error:
                    if isinstance(error.cause, BadVersionError):
                        return None
                    # Keys or history were changed by hand, or the write is not allowed.
                    conflicts += 1
                    if (
                        not isinstance(error.cause, (NoNodeError, NodeExistsError))
                        or conflicts >= TRIES
                    ):
                        raise error.cause from None
                    await self._make_room()
                    return None
                return number

            published = await settled(write, partial(self._look, number, author))
            if published is not None:
                self._delete_old(each for each in numbers if each <= number - self._keep)
            return published

        return await until_first(attempt, self._rng)

    def _delete_old(self, numbers: Iterable[int]) -> None:
        """Send the deletes of old versions; the next publication sends those again that fail."""
        for number in numbers:
            path = self._entry(number)
            delete = self._client.delete(path)
            delete.add_done_callback(partial(self._old_deleted, path, delete))

    def _old_deleted(self, path: str, delete: Reply[None]) -> None:
        error = delete.error()
        if isinstance(error, NotEmptyError):
            self._warnings.warn_of_children(path, "Until then this version is kept")
        elif isinstance(error, ServerError) and not isinstance(error, NoNodeError):
            self._warnings.warn(path, f"{path}: this old version is kept: {error}")

    async def _present(self, version: int | None) -> tuple[Snapshot, int, list[int]]:
        """Read the configuration, its version, and the numbers in the history, latest first.

        Raises `BadVersionError` if the version is not `version`.
        """
        client, path, has_caught_up = self._client, self._path, False
        while True:
            snapshot, numbers = await over_sessions(client, self._read)
            present = snapshot.version(path)
            if version is not None and present != version:
                if present > version or has_caught_up:
                    raise BadVersionError(path)
                # The version may have been published over a server that is ahead of this one.
                await catch_up(client, path)
                has_caught_up = True
            elif snapshot.stat is None:
                await self._make_room()
            elif present >= LAST:
                why = f"{present} is the last number of a version"
                raise InvalidDataError(path, why, version=snapshot.stat.version)
            else:
                return snapshot, present, numbers

    async def _read(self) -> tuple[Snapshot, list[int]]:
        listing = self._client.get_children(self._history_path)
        return await read_snapshot(self._client, self._path), await self._numbers(listing)

    async def _look(self, number: int, author: str) -> int | Verdict:
        """Find out the outcome of a publication whose answer was lost."""
        client, path = self._client, self._entry(number)

        async def read() -> int | Verdict:
            data, stat = await read_data(client, self._path)
            if stat is None:
                return Verdict.UNKNOWN
            if version_of(self._path, data, stat) < number:
                return Verdict.NOT_YET
            try:
                _, found = decode_entry(path, number, *await client.get(path))
            except (NoNodeError, InvalidDataError):
                return Verdict.UNKNOWN
            return number if found == author else Verdict.NOT_APPLIED

        return await caught_up(client, self._path, read)

    def _checked(self, keys: dict[str, bytes]) -> dict[str, bytes]:
        """Refuse keys that are too many, too large, or invalid as a whole."""
        size = sum(len(key.encode()) + len(value) for key, value in keys.items())
        if size > self._max_size:
            raise ConfigurationError(
                f"{self._path} would have {size} bytes, at most {self._max_size} are allowed"
            )
        if len(keys) > MAX_KEYS:
            raise ConfigurationError(
                f"{self._path} would have {len(keys)} keys, at most {MAX_KEYS} are allowed"
            )
        try:
            self._parse(dict(keys))
        except Exception as error:
            raise ConfigurationError(f"{self._path} would not be valid: {error}") from error
        return keys

    async def _make_room(self) -> None:
        for name in (KEYS, HISTORY):
            await ensure_path(self._client, join(self._path, name), acl=self._acl)

    def _transaction(
        self, snapshot: Snapshot, number: int, keys: dict[str, bytes], author: str
    ) -> Transaction:
        assert snapshot.stat is not None, "the znode exists by now"
        transaction = self._client.transaction()
        # The condition comes first: if another operation fails, the condition held.
        transaction.set(self._path, str(number).encode(), version=snapshot.stat.version)
        for key in sorted(snapshot.keys.keys() | keys.keys()):
            path = join(join(self._path, KEYS), key)
            if key not in keys:
                transaction.delete(path)
            elif key not in snapshot.keys:
                transaction.create(path, keys[key], acl=self._acl)
            elif snapshot.keys[key] != keys[key]:
                transaction.set(path, keys[key])
        entry = encode_entry(keys, self._identity, author)
        return transaction.create(self._entry(number), entry, acl=self._acl)

    async def _numbers(self, listing: Reply[list[str]]) -> list[int]:
        """The version numbers in the history, the latest first; warn of foreign children."""
        numbers = {name: number_of(name) for name in await listed(listing)}
        foreign = sorted(name for name, number in numbers.items() if number is None)
        if foreign:
            shown = ", ".join(escaped(name[:_SHOWN]) for name in foreign[:_SHOWN_NAMES])
            warning = (
                f"{self._history_path} has {len(foreign)} children that are no versions, "
                f"and are skipped: {shown}"
            )
            self._warnings.warn(warning, warning)
        return sorted((n for n in numbers.values() if n is not None), reverse=True)

    def _entry(self, version: int) -> str:
        return join(self._history_path, entry_name(version))
