"""The identities of contenders and holders, and requests to release.

Curator's `Revoker` replaces the data of a holder's znode by `__REVOKE__`, and its holders look for
exactly that. Ours keep their identity behind it, since others still read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...abc import CoordinationClient
from ...model import Participant, Stat
from ...paths import join
from .reading import read_children

MARK = b"__REVOKE__"

MAX_IDENTITY = 4096
"""Longest identity in bytes: everybody who lists a contender queue's members reads all of them.

Others may write more, which is cut where it is read.
"""

MAX_DATA = len(MARK) + MAX_IDENTITY
"""The bytes of a contender's data that are kept."""


def is_request(data: bytes) -> bool:
    return data.startswith(MARK)


def asking(data: bytes, *, is_ours: bool) -> bytes:
    """The data that asks a znode's owner to release; `is_ours` if it is aiolead, not Curator."""
    return MARK + data if is_ours else MARK


def participant(path: str, data: bytes, stat: Stat, *, is_holder: bool) -> Participant:
    return Participant(
        identity=data.removeprefix(MARK)[:MAX_IDENTITY].decode(errors="replace"),
        path=path,
        token=stat.czxid,
        session_id=stat.ephemeral_owner,
        is_holder=is_holder,
        is_revocation_requested=is_request(data),
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
