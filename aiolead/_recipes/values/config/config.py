"""Publishing a configuration, and rolling it back."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast, final, overload

import anyio

from ...._escaping import escaped
from ...._logging import get_logger
from ....abc import CoordinationClient, Reply
from ....errors import (
    BadVersionError,
    ConfigurationError,
    ConnectionLossError,
    InvalidDataError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyError,
    Outcome,
    SessionExpiredError,
    TransactionError,
)
from ....model import ACL, Stat
from ....paths import join, validate
from ..._core.arguments import (
    OnInvalid,
    checked_acl,
    checked_client,
    checked_count,
    checked_identity,
    checked_on_invalid,
    checked_path,
)
from ..._core.catching_up import catch_up
from ..optimistic import TRIES, checked_rng, pause
from .config_snapshot import (
    HISTORY,
    KEYS,
    LAST,
    ConfigVersion,
    Published,
    Snapshot,
    decode_entry,
    encode_entry,
    entry_name,
    number_of,
    read_snapshot,
)
from .config_view import ConfigView

T = TypeVar("T")

logger = get_logger(__name__)

MAX_SIZE = 256 * 1024
"""Of all keys and values together, in bytes: a transaction may have all of them twice, and has to
fit into a packet (`jute.maxbuffer`, 1 MiB unless configured otherwise)."""

MAX_KEYS = 1000

_SHOWN, _SHOWN_NAMES = 80, 3
"""How much the log shows of what is no version: so many characters of so many names."""


@final
class Config(Generic[T]):
    """A configuration: several keys, published together, followed as one value.

        config = Config(client, "/app/config", parse=Settings.from_keys)
        await config.publish({"limit": b"10", "colour": b"red"})
        async with config.observe() as view:
            view.value                      # always the current settings
            async for settings in view: ...
        await config.rollback(3)

    The keys of one version are always seen together. What is published is validated before, by the
    same function that those who follow it read it with. One object may be used by any number of
    tasks.

    Args:
        client: the session.
        path: where it lives. Nothing else should use what is below it.
        parse: makes the value of all keys, by raising any exception if they are not valid. It runs
            in the event loop: it must be quick. Unless given, the value is the keys.
        keep: how many versions the history has.
        identity: what the history says of who has published; host name and process id by default.
        on_invalid: for those who follow: told of a version that is not valid, which is skipped. It
            is called in the client's task: it must be quick. What it raises is
            logged.
        max_size: how many bytes all keys and values may have together.
        rng: for pauses; one of its own unless given.
        acl: of what has to be created; everybody everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
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
        self._client = checked_client(client)
        self._path = checked_path(path)
        if not callable(parse):
            raise ConfigurationError(f"parse: must be a function, not {parse!r}")
        self._parse = cast(Callable[[dict[str, bytes]], T], parse)
        # A transaction deletes what is too old: how much that is has to be bounded, too.
        self._keep = checked_count("keep", keep, least=1, most=1000)
        self._identity = checked_identity(identity)
        self._on_invalid = checked_on_invalid(on_invalid)
        self._max_size = checked_count("max_size", max_size, most=1 << 30)
        self._rng = checked_rng(rng)
        self._acl = checked_acl(acl)
        self._reported: list[str] = []

    def __repr__(self) -> str:
        return f"<Config {self._path}>"

    @property
    def path(self) -> str:
        """Where it lives."""
        return self._path

    async def get(self) -> Published[T]:
        """The present configuration, as the connected server has it, maybe a moment behind.

        `await client.sync()` before it where that matters.

        Raises:
            InvalidDataError: it is not valid.
        """
        snapshot = await read_snapshot(self._client, self._path)
        return Published(self._parsed(snapshot), snapshot.version)

    def observe(self) -> ConfigView[T]:
        """The current configuration, and what it becomes: `async with config.observe() as view`."""
        return ConfigView(self._client, self._path, self._parsed, self._on_invalid)

    async def publish(
        self, changes: Mapping[str, bytes | None], *, version: int | None = None
    ) -> int:
        """Changes some keys, all at once, and gives the number of the new version.

        Args:
            changes: the new values; None deletes a key. The other keys stay as they are.
            version: the version that this builds upon. Unless given, whatever is there when it is
                published: where somebody else is quicker, it is done anew with what he has left.

        Raises:
            BadVersionError: another version than the given one is there; nothing was published.
            ConfigurationError: a key or value is malformed, it would not be valid as a whole, or it
                would be too large; nothing was published.
            InvalidDataError: the number of the present version is none, or has none after it;
                nothing was published.

        Cancellation: it may be published.

        On connection loss: finds out whether it was published, by the history, and if not, tries
        again. `ConnectionLossError` with the outcome `UNKNOWN` is raised only if so many versions
        have come since that the history does not say it.
        """
        checked = {_checked_key(key): _checked_value(key, changes[key]) for key in changes}
        if not checked:
            raise ConfigurationError("changes: must have at least one key")

        def merge(keys: dict[str, bytes]) -> dict[str, bytes]:
            merged = {**keys, **checked}
            return {key: value for key, value in merged.items() if value is not None}

        return await self._publish(merge, version)

    async def rollback(self, version: int) -> int:
        """Publishes an earlier version as a new one, and gives the number of that.

        Args:
            version: which one of the history.

        Raises:
            NoNodeError: the history does not have it, or not any more.
            InvalidDataError: what the history has is no version, or the number of the present
                version is none.
            ConfigurationError: it is not valid (any more), or too large; nothing was published.

        Cancellation, on connection loss: as `publish`.
        """
        checked_count("version", version, least=1, most=LAST)
        path = self._entry(version)
        try:
            found = await self._client.get(path)
        except NoNodeError:
            # This server may know less than that over which it was published.
            await catch_up(self._client, self._path)
            found = await self._client.get(path)
        old, _ = decode_entry(path, version, *found)
        return await self._publish(lambda _keys: dict(old.keys), None)

    async def history(self) -> list[ConfigVersion]:
        """The versions that the history has, the latest first.

        A version that was published or dropped while this reads may be left out. So is what
        somebody else has put there under a name that is no version's; the log says so.

        Raises:
            InvalidDataError: what has the name of a version is none: its `path` has to be deleted.
        """
        client = self._client
        numbers = await self._numbers(client.get_children(join(self._path, HISTORY)))
        looks = [(number, client.get(self._entry(number))) for number in numbers]
        found: list[ConfigVersion] = []
        for number, look in looks:
            try:
                entry, _ = decode_entry(self._entry(number), number, *await look)
            except NoNodeError:
                continue
            found.append(entry)
        return found

    def _entry(self, version: int) -> str:
        return join(join(self._path, HISTORY), entry_name(version))

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
        author = f"{client.session_id & (1 << 64) - 1:016x}-{client.serial()}"
        doubt: ConnectionLossError | SessionExpiredError | None = None
        attempted = failures = 0
        has_caught_up = False
        while True:
            is_sent = False
            try:
                if doubt is not None:
                    await client.ready()
                    await catch_up(client, self._path)
                listing = client.get_children(join(self._path, HISTORY))
                snapshot = await read_snapshot(client, self._path)
                if doubt is not None and snapshot.version >= attempted:
                    # Published by us, or by somebody else: then ours never comes any more.
                    match await self._author_of(attempted):
                        case None:
                            raise doubt
                        case found if found == author:
                            return attempted
                    doubt = None
                # Else nobody has published meanwhile. Sent again under the same condition: should
                # the first one be only late, one of the two fails.
                if version is not None and snapshot.version != version:
                    if snapshot.version > version or has_caught_up:
                        raise BadVersionError(self._path)
                    # This server knows less than that over which it was published.
                    await catch_up(client, self._path)
                    has_caught_up = True
                    continue
                if snapshot.stat is None:
                    await self._make_room()
                    continue
                if snapshot.version >= LAST:
                    why = f"{snapshot.version} is the last number of a version"
                    raise InvalidDataError(self._path, why, version=snapshot.stat.version)
                keys = self._checked(change(snapshot.keys))
                attempted = snapshot.version + 1
                too_old = [n for n in await self._numbers(listing) if n <= attempted - self._keep]
                is_sent = True
                await self._transaction(snapshot, snapshot.stat, keys, author, too_old)
                return attempted
            except TransactionError as error:
                failures += 1
                if not isinstance(error.cause, BadVersionError):
                    # Somebody changes keys, or the history, by hand; or this may not be done.
                    if not isinstance(error.cause, _BY_HAND) or failures >= TRIES:
                        raise error.cause from None
                    await self._make_room()
                await anyio.sleep(pause(self._rng, failures))
            except NotReadOnlyError:
                if doubt is None:
                    raise
            except (ConnectionLossError, SessionExpiredError) as lost:
                if is_sent and lost.outcome is Outcome.UNKNOWN:
                    doubt = lost
                elif isinstance(lost, SessionExpiredError) and not is_sent:
                    await client.ready()  # what only reads does not depend on the session
                elif doubt is None or lost is doubt:
                    raise

    def _checked(self, keys: dict[str, bytes]) -> dict[str, bytes]:
        """Refuses what is too large or not valid as a whole."""
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
            await self._client.ensure_path(join(self._path, name), acl=self._acl)

    async def _author_of(self, version: int) -> str | None:
        """Which call has published a version; None if the history does not say it."""
        path = self._entry(version)
        try:
            return decode_entry(path, version, *await self._client.get(path))[1]
        except (NoNodeError, InvalidDataError):
            return None

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
        # The condition, and the first operation: so a failure for another reason is not about it.
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
        """The versions that the history has, the latest first."""
        try:
            names = await listing
        except NoNodeError:
            return []
        numbers = {name: number_of(name) for name in names}
        self._report(sorted(name for name, number in numbers.items() if number is None))
        return sorted((n for n in numbers.values() if n is not None), reverse=True)

    def _report(self, foreign: list[str]) -> None:
        """Says what is in the history and no version; again when that has changed."""
        if foreign and foreign != self._reported:
            logger.warning(
                "%s has %d children that are no versions, and are skipped: %s",
                join(self._path, HISTORY),
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
        raise ConfigurationError(f"changes: {key!r} is no name of a key: {error}") from None
    if not key:
        raise ConfigurationError("changes: a key is empty")
    return key


def _checked_value(key: str, value: bytes | None) -> bytes | None:
    if value is not None and not isinstance(value, bytes):
        raise ConfigurationError(f"changes: {key!r} must be bytes or None, not {value!r}")
    return value
