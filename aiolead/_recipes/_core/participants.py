"""The znodes of contenders and holders: who they are, and asking a holder to release.

Curator's `Revoker` replaces the data of a holder's znode by `__REVOKE__`, and its holders look for
exactly that. Ours keep their identity behind it, since others still want to know who leads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...abc import CoordinationClient
from ...model import Participant, Stat
from ...paths import join
from .reading import read_children

MARK = b"__REVOKE__"


def is_request(data: bytes) -> bool:
    """Whether the data of a znode ask its owner to release."""
    return data.startswith(MARK)


def asking(data: bytes, *, is_ours: bool) -> bytes:
    """What to write into a znode to ask its owner to release.

    Args:
        data: what is in it.
        is_ours: whether it is of this library, and not of Curator.
    """
    return MARK + data if is_ours else MARK


def participant(path: str, data: bytes, stat: Stat, *, is_holder: bool) -> Participant:
    """A contender, as its znode shows it."""
    return Participant(
        identity=data.removeprefix(MARK).decode(errors="replace"),
        path=path,
        token=stat.czxid,
        session_id=stat.ephemeral_owner,
        is_holder=is_holder,
        is_revocation_requested=is_request(data),
    )


async def read_participants(
    client: CoordinationClient, path: str, names: Sequence[str], *, is_holder: bool
) -> list[Participant]:
    """The contenders below a path, without those that are gone by now."""
    found = await read_children(client, path, names)
    return [
        participant(join(path, name), data, stat, is_holder=is_holder)
        for name, (data, stat) in found.items()
    ]
