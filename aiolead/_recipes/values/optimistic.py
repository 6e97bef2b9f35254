"""Optimistic updates: read, change, and write unless another client has written in between."""

from __future__ import annotations

import enum
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from ...abc import CoordinationClient
from ...errors import (
    BadVersionError,
    ConfigurationError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyError,
    Outcome,
    SessionExpiredError,
)
from ...model import ACL, CreateMode, Stat
from ...paths import parent
from .._core.error_policy import TRIES, with_parent
from .._core.reading import caught_up, over_sessions, read_data

R = TypeVar("R")

PAUSE = 0.005
"""The upper limit of the first pause between two attempts, in seconds; it doubles each time."""

LONGEST_PAUSE = 0.25
"""The greatest upper limit, in seconds."""


class Contended(Exception):
    """Other clients were quicker in all attempts. Never leaves the recipes."""


class Verdict(enum.Enum):
    """The conclusion from the present state about a write whose answer was lost."""

    NOT_YET = enum.auto()
    """Nobody has written: it was not applied, but may still be in flight."""
    NOT_APPLIED = enum.auto()
    """Another client has written under the same condition: it will never be applied."""
    UNKNOWN = enum.auto()


def pause(rng: random.Random, failures: int) -> float:
    """A random pause in seconds, up to a doubling limit; 0 after one failure: no contention yet."""
    if failures < 2:
        return 0.0
    return rng.uniform(0.0, min(LONGEST_PAUSE, PAUSE * 2.0 ** min(failures - 2, 30)))


def checked_rng(rng: random.Random | None) -> random.Random:
    if rng is not None and not isinstance(rng, random.Random):
        raise ConfigurationError(f"rng: must be a random.Random, not {rng!r}")
    return rng or random.Random()  # noqa: S311 - for pauses


# --- the loop ------------------------------------------------------------------------------------


async def until_first(
    attempt: Callable[[], Awaitable[R | None]], rng: random.Random, *, tries: int | None = None
) -> R:
    """Repeat an attempt, after pauses, while it returns None; `Contended` after `tries` of them."""
    failures = 0
    while tries is None or failures < tries:
        await anyio.sleep(pause(rng, failures))
        result = await attempt()
        if result is not None:
            return result
        failures += 1
    raise Contended


async def settled(
    write: Callable[[], Awaitable[R | None]], look: Callable[[], Awaitable[R | Verdict]]
) -> R | None:
    """Make a conditional write, and find out its outcome if the answer was lost.

    `write` sends it, always under the same condition, and returns None if that does not hold.
    `look` returns a verdict on all writes sent, or the result. None means that another client was
    quicker and nothing was applied; the verdict `UNKNOWN` raises the error that lost the answer.
    """
    doubt: ConnectionLossError | SessionExpiredError | None = None
    while True:
        result: R | None = None
        try:
            result = await write()
        except NotReadOnlyError:
            if doubt is None:
                raise
        except (ConnectionLossError, SessionExpiredError) as lost:
            if lost.outcome is Outcome.UNKNOWN:
                doubt = lost
            elif doubt is None:
                raise
        if result is not None or doubt is None:
            return result
        verdict = await look()
        if not isinstance(verdict, Verdict):
            return verdict
        if verdict is Verdict.UNKNOWN:
            raise doubt
        if verdict is Verdict.NOT_APPLIED:
            return None
        # Send it again under the same condition: if the first was only late, one of them fails.


# --- the data of a znode -------------------------------------------------------------------------


async def read(client: CoordinationClient, path: str) -> tuple[bytes, Stat | None]:
    """Return the data and `Stat` of a znode; the `Stat` is None if it does not exist."""
    return await over_sessions(client, partial(read_data, client, path))


async def update(
    client: CoordinationClient,
    path: str,
    change: Callable[[bytes, Stat | None], bytes],
    *,
    rng: random.Random,
    acl: Sequence[ACL] | None,
    tries: int | None = None,
) -> Stat:
    """Read, change and set the data of a znode, until no other client has written in between.

    `change` gets what `read` returns, at each attempt. Missing znodes are created. Raises
    `Contended` after `tries` conflicts, otherwise as `compare_and_set`.
    """

    async def attempt() -> Stat | None:
        data, stat = await read(client, path)
        return await compare_and_set(client, path, change(data, stat), stat, acl)

    return await until_first(attempt, rng, tries=tries)


async def compare_and_set(
    client: CoordinationClient,
    path: str,
    data: bytes,
    expected: Stat | None,
    acl: Sequence[ACL] | None,
) -> Stat | None:
    """Set the data of a znode unless it has changed since `expected` (None: it was missing).

    Returns None, and applies nothing, if it has changed. If the answer is lost, it finds out
    whether the write was applied, and retries if not. It raises `ConnectionLossError` or
    `SessionExpiredError` if the present state does not show it: another client's equal data look
    like its own.
    """

    async def conditional() -> Stat | None:
        if expected is None:
            return await _create(client, path, data, acl)
        try:
            return await client.set(path, data, version=expected.version)
        except (BadVersionError, NoNodeError):
            return None

    return await settled(conditional, partial(_look, client, path, data, expected))


async def _look(
    client: CoordinationClient, path: str, data: bytes, expected: Stat | None
) -> Verdict:
    now, stat = await caught_up(client, path, partial(read_data, client, path))
    if stat is None:
        # A znode that was deleted since may have had the data.
        return Verdict.NOT_YET if expected is None else Verdict.UNKNOWN
    if expected is not None:
        if stat.czxid != expected.czxid:
            return Verdict.UNKNOWN
        if stat.mzxid == expected.mzxid:
            return Verdict.NOT_YET
    writes = stat.version - (-1 if expected is None else expected.version)
    return Verdict.NOT_APPLIED if writes == 1 and now != data else Verdict.UNKNOWN


async def write(
    client: CoordinationClient,
    path: str,
    data: bytes,
    acl: Sequence[ACL] | None,
    *,
    parents: CreateMode = CreateMode.PERSISTENT,
) -> Stat:
    """Set the data of a znode unconditionally; create what is missing. It is safe to retry."""
    for _ in range(TRIES):
        try:
            return await client.set(path, data)
        except NoNodeError:
            stat = await _create(client, path, data, acl, parents)
            if stat is not None:
                return stat
    return await client.set(path, data)


async def _create(
    client: CoordinationClient,
    path: str,
    data: bytes,
    acl: Sequence[ACL] | None,
    parents: CreateMode = CreateMode.PERSISTENT,
) -> Stat | None:
    """Create a znode and missing parents; None if it exists already."""

    async def create() -> Stat | None:
        try:
            return (await client.create(path, data, acl=acl)).stat
        except NodeExistsError:
            return None

    return await with_parent(client, parent(path), create, mode=parents, acl=acl)
