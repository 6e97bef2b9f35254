"""Publishing a configuration, and rolling it back.

The znode's data is the version number in decimal digits, `keys/<key>` has the values, and
`history/<number>` each whole version in JSON.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast, final, overload

from ..._util.escaping import described, escaped, get_logger
from ...abc import CoordinationClient, Reply
from ...errors import (
    BadVersionError,
    ConfigurationError,
    InvalidDataError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    TransactionError,
)
from ...model import ACL, Stat
from ...paths import join, validate
from .._core.arguments import OnInvalid, checked_count, checked_identity, checked_on_invalid
from .._core.error_policy import TRIES, ensure_path
from .._core.reading import (
    catch_up,
    caught_up,
    listed,
    look_at_all,
    over_sessions,
    read_children,
    read_data,
)
from .._core.recipe import Recipe
from .._core.reporting import PathWarnings
from .config_snapshot import (
    HISTORY,
    KEYS,
    LAST,
    ConfigVersion,
    ConfigView,
    Published,
    Snapshot,
    decode_entry,
    encode_entry,
    entry_name,
    number_of,
    read_snapshot,
    version_of,
)
from .optimistic import Verdict, checked_rng, settled, until_first

T = TypeVar("T")

logger = get_logger(__name__)

MAX_SIZE = 256 * 1024
"""All keys and values, in bytes: a transaction may have them twice within `jute.maxbuffer`."""

MAX_KEYS = 1000

_SHOWN, _SHOWN_NAMES = 80, 3
"""How many characters, of how many names, the log shows of foreign children."""


@final
class Config(Recipe, Generic[T]):
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
        on_invalid: called with the error when `observe` skips an invalid version, once for each. It
            runs in the client's task: keep it quick. Its exceptions are logged.
        max_size: the limit of all keys and values together, in bytes; defaults to 256 KiB.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    @overload
    def __init__(
        self: Config[dict[str, bytes]],
        client: CoordinationClient,
        path: str,
        *,
        keep: int = 10,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        max_size: int = MAX_SIZE,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        parse: Callable[[dict[str, bytes]], T],
        keep: int = 10,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        max_size: int = MAX_SIZE,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        parse: Callable[[dict[str, bytes]], Any] = dict,
        keep: int = 10,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        max_size: int = MAX_SIZE,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(client, path, acl=acl)
        if not callable(parse):
            raise ConfigurationError(f"parse: must be a function, not {parse!r}")
        self._parse = cast(Callable[[dict[str, bytes]], T], parse)
        # One transaction deletes all old versions, so their number is bounded.
        self._keep = checked_count("keep", keep, least=1, most=1000)
        self._identity = checked_identity(identity)
        self._on_invalid = checked_on_invalid(on_invalid)
        self._max_size = checked_count("max_size", max_size, most=1 << 30)
        self._rng = checked_rng(rng)
        self._reported: list[str] = []
        self._set_aside: set[int] = set()
        """Old versions that others have put znodes below."""
        self._warnings = self._client.backend.shared(path, PathWarnings)

    async def get(self) -> Published[T]:
        """Return the configuration. The connected server may lag; see `SharedValue.get`.

        Raises `InvalidDataError` if the present version is invalid.
        """
        read = partial(read_snapshot, self._client, self._path)
        snapshot = await over_sessions(self._client, read)
        return Published(self._parsed(snapshot), snapshot.version)

    def observe(self) -> ConfigView[T]:
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
        checked = {_checked_key(key): _checked_value(key, changes[key]) for key in changes}
        if not checked:
            raise ConfigurationError("changes: must have at least one key")

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
        skipped, with a warning in the log. So is the deletion of an old version that others have
        put znodes below, until those are gone. Raises `InvalidDataError` if the entry of a version
        is invalid: delete the error's `path`.
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

    def _entry(self, version: int) -> str:
        return join(self._history_path, entry_name(version))

    @property
    def _history_path(self) -> str:
        return join(self._path, HISTORY)

    def _parsed(self, snapshot: Snapshot) -> T:
        try:
            return self._parse(dict(snapshot.keys))
        except Exception as error:
            raise InvalidDataError(self._path, error, version=snapshot.version) from error

    # --- publishing ----------------------------------------------------------------------------

    async def _publish(
        self, change: Callable[[dict[str, bytes]], dict[str, bytes]], version: int | None
    ) -> int:
        client = self._client
        author = f"{client.session_id & (1 << 64) - 1:016x}-{client.backend.serial()}"
        conflicts = 0

        async def attempt() -> int | None:
            snapshot, stat, numbers = await self._present(version)
            if snapshot.version >= LAST:
                why = f"{snapshot.version} is the last number of a version"
                raise InvalidDataError(self._path, why, version=stat.version)
            keys = self._checked(change(snapshot.keys))
            number = snapshot.version + 1
            too_old = [each for each in numbers if each <= number - self._keep]
            if not self._set_aside.isdisjoint(too_old):
                too_old = await over_sessions(client, partial(self._deletable, too_old))

            async def write() -> int | None:
                nonlocal conflicts
                try:
                    await self._transaction(snapshot, stat, keys, author, too_old)
                except TransactionError as error:
                    if isinstance(error.cause, NotEmptyError) and (
                        stuck := self._versions_at(error.path, too_old)
                    ):
                        self._set_aside |= stuck  # the next attempt looks at them
                    elif not isinstance(error.cause, BadVersionError):
                        # Keys or history were changed by hand, or the write is not allowed.
                        conflicts += 1
                        if not isinstance(error.cause, _BY_HAND) or conflicts >= TRIES:
                            raise error.cause from None
                        await self._make_room()
                    return None
                return number

            return await settled(write, partial(self._look, number, author))

        return await until_first(attempt, self._rng)

    def _versions_at(self, path: str | None, numbers: Iterable[int]) -> set[int]:
        return {number for number in numbers if self._entry(number) == path}

    async def _deletable(self, numbers: Sequence[int]) -> list[int]:
        """Return the versions of the history that have no znodes below; set aside the others."""
        looks: dict[int, Reply[Stat | None]] = {}

        def look(name: str) -> Reply[Stat | None]:
            number = number_of(name) or 0
            looks[number] = self._client.exists(join(self._history_path, name))
            return looks[number]

        await look_at_all([entry_name(number) for number in numbers], look)
        found = {number: reply.result() for number, reply in looks.items()}
        self._set_aside = {number for number, stat in found.items() if stat and stat.num_children}
        for number in sorted(self._set_aside):
            path = self._entry(number)
            self._warnings.warn_of_children(path, "Until then this version is kept")
        return [number for number in numbers if number not in self._set_aside]

    async def _present(self, version: int | None) -> tuple[Snapshot, Stat, list[int]]:
        """Read the configuration and the history's numbers; `BadVersionError` if not `version`."""
        client, has_caught_up = self._client, False
        while True:
            snapshot, numbers = await over_sessions(client, self._read)
            if version is not None and snapshot.version != version:
                if snapshot.version > version or has_caught_up:
                    raise BadVersionError(self._path)
                # The version may have been published over a server that is ahead of this one.
                await catch_up(client, self._path)
                has_caught_up = True
            elif snapshot.stat is None:
                await self._make_room()
            else:
                return snapshot, snapshot.stat, numbers

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

    async def _transaction(
        self,
        snapshot: Snapshot,
        stat: Stat,
        keys: dict[str, bytes],
        author: str,
        too_old: Sequence[int],
    ) -> None:
        number = snapshot.version + 1
        transaction = self._client.transaction()
        # The condition comes first: if another operation fails, the condition held.
        transaction.set(self._path, str(number).encode(), version=stat.version)
        for key in sorted(snapshot.keys.keys() | keys.keys()):
            path = join(join(self._path, KEYS), key)
            if key not in keys:
                transaction.delete(path)
            elif key not in snapshot.keys:
                transaction.create(path, keys[key], acl=self._acl)
            elif snapshot.keys[key] != keys[key]:
                transaction.set(path, keys[key])
        entry = encode_entry(keys, self._identity, author)
        transaction.create(self._entry(number), entry, acl=self._acl)
        for version in too_old:
            transaction.delete(self._entry(version))
        await transaction.commit()

    async def _numbers(self, listing: Reply[list[str]]) -> list[int]:
        """The version numbers in the history, the latest first."""
        numbers = {name: number_of(name) for name in await listed(listing)}
        self._report(sorted(name for name, number in numbers.items() if number is None))
        return sorted((n for n in numbers.values() if n is not None), reverse=True)

    def _report(self, foreign: list[str]) -> None:
        """Log the foreign children of the history, once until they change."""
        if foreign and foreign != self._reported:
            logger.warning(
                "%s has %d children that are no versions, and are skipped: %s",
                self._history_path,
                len(foreign),
                ", ".join(escaped(name[:_SHOWN]) for name in foreign[:_SHOWN_NAMES]),
            )
        self._reported = foreign


_BY_HAND = (NoNodeError, NodeExistsError)


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or "/" in key:
        raise ConfigurationError(f"changes: a key must be a str without slashes, not {key!r}")
    try:
        validate(f"/{key}")
    except InvalidPathError as error:
        raise ConfigurationError(f"changes: {key!r} cannot be the name of a key: {error}") from None
    if not key:
        raise ConfigurationError("changes: a key is empty")
    return key


def _checked_value(key: str, value: bytes | None) -> bytes | None:
    if value is not None and not isinstance(value, bytes):
        raise ConfigurationError(f"changes: {key!r} must be bytes or None, not {value!r}")
    return value
