"""Quotas, stored where ZooKeeper's command `setquota` stores them.

The quota of `/a/b` is two znodes below `/zookeeper/quota/a/b`: the limits, which anybody may write,
and the usage, which servers count once that znode exists. Servers apply the quota that is nearest
above a path, so quotas are not nested; only clients check that.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable

from ..._util.parsing import MalformedError, shown, text, whole
from ..._wire.versions import Feature
from ...errors import (
    ConfigurationError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RemoteWireError,
    ServerError,
    TransactionError,
)
from ...model import Quota, QuotaUsage
from ...paths import join, parent
from ..core import Core
from .operations import EXISTS, GET, GET_CHILDREN, Scope
from .server_features import require
from .transactions import Transaction

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

TREE = Scope("")
"""Quotas lie outside of every chroot."""

_PAIR = re.compile(r"(\w+)=(-?[0-9]{1,19})=?")


async def get_quota(core: Core, scope: Scope, path: str) -> tuple[Quota, QuotaUsage] | None:
    place = _place(scope, path)
    limits = core.submit(TREE.read(GET, core, join(place, LIMITS), None))
    stats = core.submit(TREE.read(GET, core, join(place, STATS), None))
    try:
        return decode_limits((await limits)[0]), decode_usage((await stats)[0])
    except NoNodeError:
        return None


async def set_quota(core: Core, scope: Scope, path: str, quota: Quota) -> None:
    place = _place(scope, path)
    if not isinstance(quota, Quota) or not quota.has_limit:
        raise ConfigurationError(f"quota: must be a Quota with a limit, not {quota!r}")
    if quota.is_hard:
        await require(core, Feature.HARD_QUOTAS)

    async def attempt() -> Transaction:
        if await core.submit(scope.read(EXISTS, core, path, None)) is None:
            raise NoNodeError(path)
        line = await _children(core, _line(place))
        await _check_alone(core, line, path)
        transaction = Transaction(core, TREE)
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

    await _against_others(attempt)


async def delete_quota(core: Core, scope: Scope, path: str) -> None:
    place = _place(scope, path)

    async def attempt() -> Transaction:
        transaction = Transaction(core, TREE)
        line = await _children(core, _line(place))
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

    await _against_others(attempt)


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


async def _children(core: Core, paths: list[str]) -> list[Listing]:
    replies = [core.submit(TREE.read(GET_CHILDREN, core, path, None)) for path in paths]
    found: list[Listing] = []
    for path, reply in zip(paths, replies, strict=True):
        try:
            found.append((path, await reply))
        except NoNodeError:
            found.append((path, None))
    return found


async def _check_alone(core: Core, line: list[Listing], path: str) -> None:
    """Raises `NodeExistsError` if there is a quota above or below."""
    *above, own = line
    others = [where for where, names in above if names and LIMITS in names]
    below = deque([own])
    while below and not others:
        where, names = below.popleft()
        if names and LIMITS in names and where != own[0]:
            others.append(where)
        inner = [join(where, name) for name in names or () if name not in (LIMITS, STATS)]
        below += await _children(core, inner)
    if others:
        other = others[0].removeprefix(ROOT)
        raise NodeExistsError(path, message=f"quotas cannot be nested, and {other} has one")


async def _against_others(attempt: Callable[[], Awaitable[Transaction]]) -> None:
    """Looks and acts, again if another client has acted in between."""
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
