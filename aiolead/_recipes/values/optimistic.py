"""Reading, changing and writing back a znode's data, with nobody in between: compare and set."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence

from ...abc import CoordinationClient
from ...errors import (
    AioleadError,
    BadVersionError,
    ConfigurationError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyError,
    Outcome,
    SessionExpiredError,
)
from ...model import ACL, Stat
from ...paths import parent
from .._core.catching_up import catch_up
from .._core.error_policy import Step, before_next_try

TRIES = 10
"""How often it is tried anew for one call, where others delete and create what it needs."""

PAUSE = 0.005
"""Upper limit of the first pause between two tries, in seconds. It doubles with each."""

LONGEST_PAUSE = 0.25
"""Where the limit ends, in seconds."""


def pause(rng: random.Random, failures: int) -> float:
    """How long to wait after so many failures, in seconds: anything up to a limit that doubles.

    Nothing after the first one: somebody was quicker, which is not a crowd yet.
    """
    if failures < 2:
        return 0.0
    return rng.uniform(0.0, min(LONGEST_PAUSE, PAUSE * 2.0 ** min(failures - 2, 30)))


def checked_rng(rng: random.Random | None) -> random.Random:
    if rng is not None and not isinstance(rng, random.Random):
        raise ConfigurationError(f"rng: must be a random.Random, not {rng!r}")
    return rng or random.Random()  # noqa: S311 - for pauses


async def read(client: CoordinationClient, path: str) -> tuple[bytes, Stat | None]:
    """The data, and None for the `Stat` if there is no such znode.

    A session that ends meanwhile makes no difference to that: it is asked again in the next one.
    """
    while True:
        try:
            return await client.get(path)
        except NoNodeError:
            return b"", None
        except SessionExpiredError:
            await client.ready()


async def write(
    client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
) -> Stat:
    """Sets a znode's data, whatever they were; creates what is missing.

    On connection loss: raises `ConnectionLossError`; nothing speaks against doing it again.
    """
    for _ in range(TRIES):
        try:
            return await client.set(path, data)
        except NoNodeError:
            stat = await _create(client, path, data, acl)
            if stat is not None:
                return stat
    return await client.set(path, data)


async def compare_and_set(
    client: CoordinationClient,
    path: str,
    data: bytes,
    expected: Stat | None,
    acl: Sequence[ACL] | None,
) -> Stat | None:
    """Sets a znode's data if nobody has changed it since.

    Args:
        client: the session.
        path: the znode.
        data: what to set.
        expected: what was read; None if there was no such znode, which is then created.
        acl: of what has to be created.

    Returns:
        The new `Stat`; None if somebody has changed it, so that nothing was applied.

    Raises:
        ConnectionLossError, SessionExpiredError: the answer was lost, and what is there now does
            not show whether it was applied.

    On connection loss: finds out whether it was applied, and if not, tries again. One thing it
    cannot tell is whether the very data that it finds are its own, or another one's.
    """
    doubt: ConnectionLossError | SessionExpiredError | None = None
    while True:
        stat: Stat | None = None
        try:
            if expected is None:
                stat = await _create(client, path, data, acl)
            else:
                stat = await client.set(path, data, version=expected.version)
        except (BadVersionError, NoNodeError):
            pass
        except NotReadOnlyError:
            if doubt is None:
                raise
        except (ConnectionLossError, SessionExpiredError) as lost:
            if lost.outcome is Outcome.UNKNOWN:
                doubt = lost
            elif doubt is None:
                raise
        if stat is not None or doubt is None:
            return stat
        match await _look(client, path, data, expected):
            case _Verdict.UNKNOWN:
                raise doubt
            case _Verdict.NOT_APPLIED:
                return None
            case _Verdict.NOT_YET:
                # Sent again, under the same condition: should the first one be only late, one of
                # the two fails.
                pass


async def _create(
    client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
) -> Stat | None:
    """Creates a znode, and what is missing above it; None if it is there already."""
    tries = 0
    while True:
        try:
            return (await client.create(path, data, acl=acl)).stat
        except NodeExistsError:
            return None
        except NoNodeError:
            tries += 1
            if tries == TRIES:
                raise
        await client.ensure_path(parent(path), acl=acl)


class _Verdict(enum.Enum):
    """What the present state shows of a write whose answer was lost."""

    NOT_YET = enum.auto()
    """Nobody has written: it was not applied, but may be on its way still."""
    NOT_APPLIED = enum.auto()
    """Exactly one has written, and not this: so this was not applied, and never will be."""
    UNKNOWN = enum.auto()


async def _look(
    client: CoordinationClient, path: str, data: bytes, expected: Stat | None
) -> _Verdict:
    while True:
        try:
            await client.ready()
            await catch_up(client, path)
            now, stat = await client.get(path)
            break
        except NoNodeError:
            # What was deleted since may have had it.
            return _Verdict.NOT_YET if expected is None else _Verdict.UNKNOWN
        except AioleadError as error:
            await before_next_try(client, error, Step.FOLLOW)
            continue
    if expected is not None:
        if stat.czxid != expected.czxid:
            return _Verdict.UNKNOWN
        if stat.mzxid == expected.mzxid:
            return _Verdict.NOT_YET
    writes = stat.version - (-1 if expected is None else expected.version)
    return _Verdict.NOT_APPLIED if writes == 1 and now != data else _Verdict.UNKNOWN
