"""Asking a holder to let go: what is written into its znode. Pure.

Curator's `Revoker` replaces the data of a holder's znode by `__REVOKE__`, and its holders look for
exactly that. Ours keep their identity behind it, since others still want to know who leads.
"""

from __future__ import annotations

from ...model import Participant, Stat

MARK = b"__REVOKE__"


def is_request(data: bytes) -> bool:
    """Whether the data of a znode say that its owner is asked to let go of it."""
    return data.startswith(MARK)


def asking(data: bytes, *, is_ours: bool) -> bytes:
    """What to write into the znode of somebody who is to be asked.

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
