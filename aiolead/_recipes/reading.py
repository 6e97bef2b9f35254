"""Reads of a znode that may be missing, of many children at once, and of every applied write.

Contenders are read here, too: their identity, and whether a release is requested.

`catch_up` makes the connected server show every applied write, also those that this client made
over earlier connections. At a follower a `sync` does that. A leader answers a `sync` of its own
clients as a plain read (`matchSyncs` in ZooKeeper's `CommitProcessor`), before it applies what is
proposed or committed. A read after such a `sync` may miss a write whose answer was lost, and may
show a znode of this client that is already gone. A read after a write of this client shows every
applied write, on every server.

The write also makes the leader refuse requests of this session that are still on their way through
another server (`SessionMovedException`). Nothing that was sent before it is applied after it.

Curator's `Revoker` asks for a release: it replaces the data of a holder's znode by `__REVOKE__`,
and Curator's holders look for exactly that. aiolead keeps the identity behind the mark, since it is
still read. A contender that is not ready to lead has a mark of its own (`UNREADY`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from .._util.contender_names import REVOKED, UNREADY
from ..abc import CoordinationClient, Reply, Watch
from ..errors import NoAuthError, NoNodeError, SessionExpiredError
from ..model import Participant, Stat
from ..paths import join
from .errors import until_answered

R = TypeVar("R")


async def catch_up(client: CoordinationClient, path: str) -> None:
    """Wait for a write that changes nothing, at any `path`: it need not exist or be readable.

    Where only the time of a read counts, or a conditional write follows, a `sync` is enough. An
    error means that nothing is known, or that the server has not put the write to the quorum: it is
    overloaded, or read-only.
    """
    with suppress(NoNodeError, NoAuthError):  # the quorum has refused it
        await client.check(path)


async def caught_up(client: CoordinationClient, path: str, read: Callable[[], Awaitable[R]]) -> R:
    """Return a `read` that shows every applied write; retry after errors that pass.

    Raises other errors, and `RequestRefusedError`.
    """

    async def attempt() -> R:
        await client.ready()
        await catch_up(client, path)
        return await read()

    return await until_answered(client, attempt)


async def over_sessions(client: CoordinationClient, read: Callable[[], Awaitable[R]]) -> R:
    """Return the result of a read for a caller; repeat it if the session expires meanwhile.

    The server may lag. If `read` sends several requests, all belong to one session.
    """
    while True:
        try:
            return await read()
        except SessionExpiredError:
            await client.ready()


AT_ONCE = 250
"""How many znodes are read in one go."""

Found: TypeAlias = tuple[bytes, Stat]


async def read_data(
    client: CoordinationClient, path: str, watch: Watch | None = None
) -> tuple[bytes, Stat | None]:
    """A znode's data and `Stat`: None if it is missing, whose creation is then watched."""
    while True:
        with suppress(NoNodeError):
            return await client.get(path, watch=watch)
        if watch is None or await client.exists(path, watch=watch) is None:
            return b"", None


async def listed(listing: Reply[list[str]]) -> list[str]:
    """The names of a listing; none if the parent is missing."""
    try:
        return await listing
    except NoNodeError:
        return []


async def look_at_all(names: Sequence[str], look_at: Callable[[str], Reply[Any]]) -> None:
    """Send a read of each znode, and wait for the answers; skip those that are missing."""
    for start in range(0, len(names), AT_ONCE):
        for look in [look_at(name) for name in names[start : start + AT_ONCE]]:
            with suppress(NoNodeError):
                await look


async def read_stats(
    client: CoordinationClient, path: str, names: Sequence[str]
) -> dict[str, Stat]:
    """The `Stat` of a znode's children by name, without those that are missing."""
    found: dict[str, Stat] = {}
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        for name, look in [(name, client.exists(join(path, name))) for name in some]:
            if (stat := await look) is not None:
                found[name] = stat
    return found


async def read_children(
    client: CoordinationClient,
    path: str,
    names: Sequence[str] | None = None,
    *,
    watch: Callable[[str], Watch] | None = None,
    most: int | None = None,
) -> dict[str, Found]:
    """The data and `Stat` of a znode's children by name, without those that have gone meanwhile.

    The parent need not exist. `names` gives the order; it defaults to all children, sorted. `watch`
    makes the watch on a child, by its name. Of each child's data at most `most` bytes are kept.
    """
    if names is None:
        names = sorted(await listed(client.get_children(path)))
    found: dict[str, Found] = {}
    for start in range(0, len(names), AT_ONCE):
        replies = deque(
            (name, client.get(join(path, name), watch=None if watch is None else watch(name)))
            for name in names[start : start + AT_ONCE]
        )
        while replies:
            name, reply = replies.popleft()  # data that are cut need not stay
            with suppress(NoNodeError):
                data, stat = await reply
                found[name] = data[:most], stat
    return found


MAX_IDENTITY = 4096
"""Longest identity in bytes. A client that lists the contenders of a queue reads all of them.

Another program may write more, which is cut where it is read.
"""

MAX_DATA = len(REVOKED) + len(UNREADY) + MAX_IDENTITY
"""The bytes of a contender's data that are kept."""


def is_request(data: bytes) -> bool:
    return data.startswith(REVOKED)


def is_ready(data: bytes) -> bool:
    return not data.removeprefix(REVOKED).startswith(UNREADY)


def ready(data: bytes) -> bytes:
    """The same data, of a contender that is ready; a request to release stays in it."""
    mark = REVOKED if is_request(data) else b""
    return mark + data.removeprefix(REVOKED).removeprefix(UNREADY)


def asking(data: bytes, *, is_ours: bool) -> bytes:
    """The data that asks the owner of a znode to release; `is_ours` if aiolead is the owner."""
    return REVOKED + data if is_ours else REVOKED


def participant(path: str, data: bytes, stat: Stat, *, is_holder: bool) -> Participant:
    return Participant(
        identity=ready(data).removeprefix(REVOKED)[:MAX_IDENTITY].decode(errors="replace"),
        path=path,
        token=stat.czxid,
        session_id=stat.ephemeral_owner,
        is_holder=is_holder,
        is_revocation_requested=is_request(data),
        is_ready=is_ready(data),
    )


async def read_participants(
    client: CoordinationClient, path: str, names: Sequence[str], *, is_holder: bool
) -> list[Participant]:
    """The contenders below a path, without those that have gone meanwhile."""
    found = await read_children(client, path, names, most=MAX_DATA)
    return [
        participant(join(path, name), data, stat, is_holder=is_holder)
        for name, (data, stat) in found.items()
    ]
