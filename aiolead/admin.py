"""The calls of operators: quotas, members of the ensemble, identities, and deleting whole trees.

Each is a function of an open client: `await admin.delete_all(client, "/app")`. For threads,
`aiolead.blocking.admin` has the same functions.

Errors, cancellation and lost connections are those of the methods of `aiolead.Client`, whose
docstring says what "(ZooKeeper 3.x)" means. An invalid argument raises at the `await`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from ._client.api.client import Client, parts_of
from ._client.api.operations import Scope
from ._client.api.server_features import bound_read, read_with, require
from ._client.api.transactions import Transaction, TransactionResult
from ._client.core import Core, PendingReply
from ._client.ensemble_config import decode_config, read_config
from ._session.requests import UNPROVEN_WRITE
from ._util.escaping import described
from ._util.parsing import MalformedError, shown, text, whole
from ._wire.codes import OpCode
from ._wire.config_text import CONFIG_PATH, parse_server
from ._wire.jute import Reader
from ._wire.replies import NamesReply, WhoAmIReply
from ._wire.requests import GetEphemerals, Reconfig, WhoAmI
from ._wire.versions import Feature
from .abc import Watch
from .errors import (
    ConfigurationError,
    ConnectionLossError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Outcome,
    RemoteWireError,
    ServerError,
    TransactionError,
)
from .model import EnsembleConfig, Identity, Quota, QuotaUsage, ServerSpec
from .paths import join, parent

__all__ = [
    "delete_all",
    "delete_quota",
    "get_config",
    "get_ephemerals",
    "get_quota",
    "reconfig",
    "set_quota",
    "whoami",
]

# --- the session -------------------------------------------------------------------------------


async def get_ephemerals(client: Client, prefix: str = "/") -> list[str]:
    """Return the paths of the session's ephemeral znodes, in no particular order (ZooKeeper 3.6).

    `prefix` is how they begin: `/member-` finds `/member-1`, and `/a/` everything below `/a`.
    """
    core, scope, _, _ = parts_of(client)
    # Servers compare the text, so a slash at the end makes a difference here.
    is_open = isinstance(prefix, str) and prefix.endswith("/")
    full = scope.full(prefix + "0")[:-1] if is_open else scope.full(prefix)

    def parse(r: Reader) -> list[str]:
        paths = NamesReply.read(r).names
        for path in paths:
            if not path.startswith(full):
                raise RemoteWireError(f"{shown(path)} does not begin with {shown(full)}")
        return [scope.strip(path) for path in paths]

    make = bound_read(OpCode.GET_EPHEMERALS, GetEphemerals(full), parse, prefix)
    return await read_with(core, Feature.GET_EPHEMERALS, make)


async def whoami(client: Client) -> list[Identity]:
    """Return the client's identities for the server: address, credentials (ZooKeeper 3.7)."""
    return await read_with(parts_of(client).core, Feature.WHO_AM_I, _WHO_AM_I)


def _identities(r: Reader) -> list[Identity]:
    return [Identity(scheme, user) for scheme, user in WhoAmIReply.read(r).users]


_WHO_AM_I = bound_read(OpCode.WHO_AM_I, WhoAmI(), _identities, None)

# --- the ensemble ------------------------------------------------------------------------------

MAX_VERSION = (1 << 63) - 1


async def get_config(client: Client, *, watch: Watch | None = None) -> EnsembleConfig:
    """Return the ensemble's servers, whatever the chroot; none if it has no such configuration.

    A watch (`client.backend.make_watch()`) fires when that changes. Raises `RemoteWireError` for a
    malformed configuration.
    """
    core = parts_of(client).core
    return await core.submit(read_config(core, watch))


async def reconfig(
    client: Client,
    *,
    joining: Sequence[ServerSpec | str] = (),
    leaving: Sequence[int] = (),
    members: Sequence[ServerSpec | str] | None = None,
    version: int = -1,
) -> EnsembleConfig:
    """Change the servers of the ensemble: some of them, or all.

    Servers allow it where `reconfigEnabled` is set, to clients that may write `/zookeeper/config`:
    by default only the super user. A server that joins must already run, with the present members
    in its configuration.

    Args:
        client: an open client.
        joining: servers to add, or to change; as `ServerSpec` or as `server.N=...`.
        leaving: numbers of servers to remove.
        members: instead of these: all servers.
        version: of the configuration to change; -1 for any.

    Returns:
        The new configuration.

    Raises:
        ReconfigDisabledError: the servers do not allow it.
        NewConfigNoQuorumError: too few servers of the new configuration follow the leader.
        ReconfigInProgressError: another change is under way.
        BadVersionError: the configuration has another version.
        BadArgumentsError: too few servers would be left, or two have an address in common.
        NoAuthError, UnimplementedError (a standalone server).
    """
    core = parts_of(client).core
    coming = _checked_servers("joining", joining)
    going = _checked_ids(leaving)
    everybody = None if members is None else _checked_servers("members", members)
    if everybody is None and not coming and not going:
        raise ConfigurationError("joining, leaving, members: must name at least one server")
    if everybody is not None and (coming or going):
        raise ConfigurationError("members: cannot be combined with joining and leaving")
    if everybody == "":
        raise ConfigurationError("members: must name at least one server")
    if type(version) is not int or not -1 <= version <= MAX_VERSION:
        raise ConfigurationError(f"version: must be -1 (any) to 2^63 - 1, not {version!r}")
    body = Reconfig(coming or None, going or None, everybody, version).encode()
    return await core.submit(
        PendingReply(OpCode.RECONFIG, body, decode_config, path=CONFIG_PATH, kind=UNPROVEN_WRITE)
    )


def _checked_servers(name: str, servers: Sequence[ServerSpec | str]) -> str:
    if isinstance(servers, (str, ServerSpec)):
        raise ConfigurationError(f"{name}: must be a list of servers, not one: {str(servers)!r}")
    if not isinstance(servers, Iterable):
        raise ConfigurationError(f"{name}: must be a list of servers, not {described(servers)}")
    specs: list[ServerSpec] = []
    for server in servers:
        try:
            # A member that could not be parsed again is not sent, even if constructed by hand.
            specs.append(parse_server(str(server)))
        except ValueError as error:
            raise ConfigurationError(f"{name}: {error}") from None
    if len({spec.id for spec in specs}) < len(specs):
        raise ConfigurationError(f"{name}: a server is in it twice")
    return ",".join(map(str, specs))


def _checked_ids(leaving: Sequence[int]) -> str:
    ids = tuple(leaving) if isinstance(leaving, (list, tuple, set, frozenset)) else (None,)
    if not all(type(number) is int and number >= 0 for number in ids):
        raise ConfigurationError(f"leaving: must be a list of servers' numbers, not {leaving!r}")
    return ",".join(map(str, ids))


# --- quotas ------------------------------------------------------------------------------------

# ZooKeeper's command `setquota` stores them in the same place. The quota of `/a/b` is two znodes
# below `/zookeeper/quota/a/b`: the limits, which anybody may write, and the usage, which servers
# count once that znode exists. Servers apply the quota that is nearest above a path, so quotas are
# not nested; only clients check that.

ROOT = "/zookeeper/quota"
LIMITS = "zookeeper_limits"
STATS = "zookeeper_stats"

MOST = 0x7FFF_FFFF_FFFF_FFFF

BEYOND = 10**19
"""A limit up to this, with as many digits as `MOST`, counts as `MOST`."""

ATTEMPTS = 10
"""How often others may change the quotas around ours meanwhile."""

Listing = tuple[str, list[str] | None]
"""A path and its children, None if there is no such znode."""

_PAIR = re.compile(r"(\w+)=(-?[0-9]{1,19})=?")


async def get_quota(client: Client, path: str) -> tuple[Quota, QuotaUsage] | None:
    """Return the quota on a znode's tree and its usage; None if there is no quota.

    Raises `RemoteWireError` if what is written there is no quota.
    """
    _, scope, _, tree = parts_of(client)
    place = _place(scope, path)
    limits, stats = tree.get(join(place, LIMITS)), tree.get(join(place, STATS))
    try:
        return decode_limits((await limits)[0]), decode_usage((await stats)[0])
    except NoNodeError:
        return None


async def set_quota(client: Client, path: str, quota: Quota) -> None:
    """Set the quota on a znode's tree, in place of the present one: at least one limit.

    The znode must exist, and be neither the root nor in `/zookeeper`. The quota is written where
    ZooKeeper's `setquota` writes it, for all servers and clients alike. Existing data that exceeds
    a limit stays. On connection loss, the quota may have been set; it is safe to set it again.

    Raises:
        NodeExistsError: a znode above or below has a quota; quotas cannot be nested.
        UnsupportedError: hard limits need a server that reports ZooKeeper 3.7.
    """
    core, scope, view, tree = parts_of(client)
    place = _place(scope, path)
    if not isinstance(quota, Quota) or not quota.has_limit:
        raise ConfigurationError(f"quota: must be a Quota with a limit, not {quota!r}")
    if quota.is_hard:
        await require(core, Feature.HARD_QUOTAS)

    async def attempt() -> Transaction:
        if await view.exists(path) is None:
            raise NoNodeError(path)
        line = await _children(tree, _line(place))
        await _check_alone(tree, line, path)
        transaction = tree.transaction()
        for above, names in line:
            if names is None:
                transaction.create(above)
        names = line[-1][1] or []
        data = encode_limits(quota)
        if LIMITS in names:
            transaction.set(join(place, LIMITS), data)
        else:
            transaction.create(join(place, LIMITS), data)
        if STATS not in names:
            # Servers count what exists when they create this.
            transaction.create(join(place, STATS), b"count=0,bytes=0")
        return transaction

    await _committed(attempt)


async def delete_quota(client: Client, path: str) -> None:
    """Remove the quota on a znode's tree; raise `NoNodeError` if there is none.

    On connection loss it may be gone; a second call then raises that error.
    """
    _, scope, _, tree = parts_of(client)
    place = _place(scope, path)

    async def attempt() -> Transaction:
        transaction = tree.transaction()
        line = await _children(tree, _line(place))
        names = line[-1][1] or []
        if LIMITS not in names:
            raise NoNodeError(path, message="there is no quota on")
        for name in (LIMITS, STATS):
            if name in names:
                transaction.delete(join(place, name))
        gone = {LIMITS, STATS}
        for above, inside in reversed(line):
            if not gone.issuperset(inside or ()):
                break
            transaction.delete(above)
            gone = {above.rpartition("/")[2]}
        return transaction

    await _committed(attempt)


def encode_limits(quota: Quota) -> bytes:
    text = f"count={_number(quota.count)},bytes={_number(quota.bytes)}"
    if quota.is_hard:
        # The "=" makes servers before 3.7 stop reading there.
        hard = (("byteHardLimit", quota.bytes_hard), ("countHardLimit", quota.count_hard))
        text += "=" + "".join(f";{name}={_number(limit)}" for name, limit in hard)
    return text.encode()


def decode_limits(data: bytes) -> Quota:
    """Decodes limits, which anybody may have written; else raises `RemoteWireError`."""
    values = _pairs(data)
    names = ("count", "bytes", "countHardLimit", "byteHardLimit")
    count, size, count_hard, bytes_hard = (_limit(values.get(name, -1)) for name in names)
    return Quota(count=count, bytes=size, count_hard=count_hard, bytes_hard=bytes_hard)


def decode_usage(data: bytes) -> QuotaUsage:
    """Decodes what a server has counted; else raises `RemoteWireError`."""
    values = _pairs(data)
    return QuotaUsage(values.get("count", -1), values.get("bytes", -1))


def _place(scope: Scope, path: str) -> str:
    full = scope.full(path)
    if full == "/" or full == "/zookeeper" or full.startswith("/zookeeper/"):
        raise InvalidPathError(f"path: there can be no quota on {full}")
    return ROOT + full


def _line(place: str) -> list[str]:
    """The place of a quota and the paths above it, from the top."""
    line = []
    while place != ROOT:
        line.append(place)
        place = parent(place)
    return line[::-1]


async def _children(tree: Client, paths: list[str]) -> list[Listing]:
    replies = [tree.get_children(path) for path in paths]
    found: list[Listing] = []
    for path, reply in zip(paths, replies, strict=True):
        try:
            found.append((path, await reply))
        except NoNodeError:
            found.append((path, None))
    return found


async def _check_alone(tree: Client, line: list[Listing], path: str) -> None:
    """Raises `NodeExistsError` if there is a quota above or below."""
    *above, own = line
    others = [where for where, names in above if names and LIMITS in names]
    below = deque([own])
    while below and not others:
        where, names = below.popleft()
        if names and LIMITS in names and where != own[0]:
            others.append(where)
        inner = [join(where, name) for name in names or () if name not in (LIMITS, STATS)]
        below += await _children(tree, inner)
    if others:
        other = others[0].removeprefix(ROOT)
        raise NodeExistsError(path, message=f"quotas cannot be nested, and {other} has one")


async def _committed(attempt: Callable[[], Awaitable[Transaction]]) -> None:
    """Makes and commits a transaction, again if other clients have changed what it depends on."""
    error: ServerError | None = None
    for _ in range(ATTEMPTS):
        transaction = await attempt()
        try:
            await transaction
        except TransactionError as failed:
            error = failed.cause
            if not isinstance(error, (NodeExistsError, NoNodeError, NotEmptyError)):
                raise error from None
        else:
            return
    assert error is not None
    raise error


def _pairs(data: bytes) -> dict[str, int]:
    try:
        said = text(data)
    except MalformedError as error:
        raise RemoteWireError(f"a quota that {error}") from None
    pairs = [_PAIR.fullmatch(pair) for pair in re.split("[,;]+", said)]
    if not all(pairs):
        raise RemoteWireError(f"a quota that makes no sense: {shown(said)}")
    return {pair[1]: whole(pair[2], least=-BEYOND, most=BEYOND) for pair in pairs if pair}


def _number(limit: int | None) -> int:
    return -1 if limit is None else limit


def _limit(number: int) -> int | None:
    return min(number, MOST) if number >= 0 else None


# --- deleting a tree ---------------------------------------------------------------------------

# ZooKeeper has no operation for this. The tree is listed breadth first, so the reverse of the list
# has every znode before its parent. Deletions are sent and applied in this order, several
# transactions at a time, while other clients may create and delete in the tree.

LISTINGS = 64
"""How many requests for children may be in flight."""

TRANSACTIONS = 8
"""How many transactions may be in flight."""

DELETIONS = 128
"""How many znodes one transaction deletes at most."""

TRANSACTION_BYTES = 64 * 1024
"""The longest transaction, in bytes, however much the servers would accept."""

DELETION_BYTES = 4 + 1 + 4 + 4 + 4
"""The size of a deletion without its path: its header, a length, a version."""

TRANSACTION_END = 4 + 1 + 4
"""The size of a transaction without its operations."""

ROUNDS = 10
"""How often the tree is listed again because others created something in it."""

LOSSES = 5
"""How many connections may be lost in a row without anything being deleted."""

FIXED = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""Znodes that no server deletes."""


async def delete_all(client: Client, path: str) -> int:
    """Delete a znode with everything below it, whatever the versions.

    Not as one transaction: others see a part of the tree meanwhile. A missing tree and deletions by
    other clients are no errors; znodes that others create meanwhile are deleted, too, for at most
    ten rounds. Uses transactions of up to 128 znodes, eight at a time. Cancellation deletes no
    more, but transactions that were sent may still be applied. On connection loss, it goes on with
    what is left.

    Args:
        client: an open client.
        path: the top of the tree. `/` stands for everything below the chroot, which stays; without
            a chroot it is refused, and so are `/zookeeper` and the server's own znodes there.

    Returns:
        How many znodes were deleted, maybe counting some of others after a lost connection.

    Raises:
        InvalidPathError: no server deletes this.
        NotEmptyError: others go on creating in it.
        NoAuthError: a part of it may not be listed or deleted; other parts may be deleted.
    """
    core, scope, view, _ = parts_of(client)
    return await _TreeDeletion(core, scope, view, path).run()


class _TreeDeletion:
    """One deletion of a tree; `run` it once."""

    def __init__(self, core: Core, scope: Scope, view: Client, path: str) -> None:
        if scope.full(path) in FIXED:
            raise InvalidPathError(f"path: nobody can delete {scope.full(path)}")
        self._scope = scope
        self._view = view
        self._top = path
        self._room = min(core.machine.max_body, TRANSACTION_BYTES) - TRANSACTION_END
        self._deleted = 0
        self._unsure: set[str] = set()
        """Deletions that were sent and are not answered yet."""

    async def run(self) -> int:
        """Deletes; returns the number of znodes."""
        rounds = losses = 0
        while True:
            listed = await self._list()
            self._count_the_unsure(listed)
            before = self._deleted
            try:
                if await self._delete(listed):
                    return self._deleted
            except ConnectionLossError as error:
                losses = 1 if self._deleted > before else losses + 1
                # No server for a whole session timeout, or a loss each time that this is sent.
                if error.outcome is Outcome.NOT_APPLIED or losses == LOSSES:
                    raise
                continue
            rounds += 1
            if rounds == ROUNDS:
                raise NotEmptyError(
                    self._top, message=f"others create in it while it is deleted ({ROUNDS} times)"
                )

    async def _list(self) -> list[str]:
        """Returns the paths, each znode before those below it."""
        found = [self._top]
        queued, asked = deque(found), deque[tuple[str, PendingReply[list[str]]]]()
        missing = set[str]()
        while queued or asked:
            while queued and len(asked) < LISTINGS:
                path = queued.popleft()
                asked.append((path, self._view.get_children(path)))
            path, reply = asked.popleft()
            try:
                children = [join(path, name) for name in await reply]
            except NoNodeError:
                missing.add(path)
                continue
            found += children
            queued += children
        if self._top == "/":
            missing.add("/")
        return [path for path in found if path not in missing]

    def _count_the_unsure(self, listed: Iterable[str]) -> None:
        # A znode that is gone after a lost connection was most likely deleted by us.
        self._deleted += len(self._unsure.difference(listed))
        self._unsure.clear()

    async def _delete(self, listed: list[str]) -> bool:
        """Deletes what was listed; False if something there has new children."""
        pending = deque[tuple[list[str], PendingReply[list[TransactionResult]]]]()
        is_clean = True
        for batch in self._batches(reversed(listed)):
            if len(pending) == TRANSACTIONS:
                is_clean &= await self._settle(*pending.popleft())
            transaction = self._view.transaction()
            for path in batch:
                transaction.delete(path)
            pending.append((batch, transaction.commit()))
            self._unsure.update(batch)
        while pending:
            is_clean &= await self._settle(*pending.popleft())
        return is_clean

    def _batches(self, paths: Iterable[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        room = self._room
        for path in paths:
            size = len(self._scope.full(path).encode()) + DELETION_BYTES
            if batch and (len(batch) == DELETIONS or size > room):
                yield batch
                batch, room = [], self._room
            batch.append(path)
            room -= size
        if batch:
            yield batch

    async def _settle(self, batch: list[str], reply: PendingReply[list[TransactionResult]]) -> bool:
        try:
            await reply
        except TransactionError as error:
            if not isinstance(error.cause, (NoNodeError, NotEmptyError)):
                raise error.cause from None
            return await self._delete_one_by_one(batch)
        self._deleted += len(batch)
        self._unsure.difference_update(batch)
        return True

    async def _delete_one_by_one(self, batch: list[str]) -> bool:
        """Deletes a batch that others have changed.

        Later transactions in flight may fail because of what this one has left. Their znodes are
        then deleted one by one after these, so that the order stays.
        """
        deletions = [self._view.delete(path) for path in batch]
        is_clean = True
        for path, reply in zip(batch, deletions, strict=True):
            try:
                await reply
            except NoNodeError:
                pass
            except NotEmptyError:
                is_clean = False
            else:
                self._deleted += 1
            self._unsure.discard(path)
        return is_clean
