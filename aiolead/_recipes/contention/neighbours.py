"""Refusing a neighbour that does not fit, with its owner."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ..._util.contender_names import known_name
from ...abc import CoordinationClient
from ...errors import MixedLayoutError, NoAuthError
from ...paths import basename, join
from .._core.reading import listed
from .kernel import in_order
from .layouts import Layout, Role

KAZOOS_PERMIT = re.compile("([0-9]{10}-)?[0-9a-f]{32}", re.ASCII)
"""A permit in kazoo's layout, a child of a semaphore's path: kazoo's own, or ours."""

LEASES = "leases"
"""The parent of the permits in Curator's layout, a child of a semaphore's path."""

_CURATORS_PERMIT = re.compile(".*lease-[0-9]{10}", re.ASCII)

MOST_READ = 16
"""How many suspicious neighbours are read at most: others may create any number of them."""


async def queue_order(
    client: CoordinationClient, path: str, names: Iterable[str], layout: Layout, role: Role
) -> list[str]:
    """The contenders in order, as `in_order`; no checkpoint if all fit.

    A misfit that has gone by the time its owner is read is left out. Raises `MixedLayoutError` with
    the owner's session, also if a semaphore is in use on the path.
    """
    left = list(names)
    while True:
        others: list[str] = []
        try:
            line = in_order(path, left, layout, role, others)
        except MixedLayoutError as misfit:
            stat = await client.exists(misfit.neighbour)
            if stat is not None:
                raise MixedLayoutError(
                    misfit.neighbour, misfit.why, session_id=stat.ephemeral_owner
                ) from None
            left.remove(basename(misfit.neighbour))
        else:
            if others:
                await _refuse_semaphore(client, path, others)
            return line


async def _refuse_semaphore(client: CoordinationClient, path: str, others: Iterable[str]) -> None:
    """Raise `MixedLayoutError` if a session holds a permit of a semaphore on the path."""
    permits = []
    for name in others:
        if KAZOOS_PERMIT.fullmatch(name):
            permits.append(join(path, name))
        elif name == LEASES:
            folder = join(path, LEASES)
            with suppress(NoAuthError):
                below = await listed(client.get_children(folder))
                permits += [
                    join(folder, each) for each in below if _CURATORS_PERMIT.fullmatch(each)
                ]
    why = "is a permit of a semaphore on the same path: give each recipe a path of its own"
    await refuse_owned(client, [(permit, why) for permit in permits])


def contenders_among(path: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """The children that contend for a lock or an election, each with why a semaphore refuses it."""
    why = "contends for {} on the same path ({}): give each recipe a path of its own"
    known = [(name, known_name(name)) for name in names]
    return [(join(path, name), why.format(k.what, k.library)) for name, k in known if k]


async def refuse_owned(client: CoordinationClient, misfits: Sequence[tuple[str, str]]) -> None:
    """Raise `MixedLayoutError` for the first of the paths that a session owns.

    Each comes with why it does not fit. One that no session owns holds nothing. A few are read.
    """
    looks = [(path, why, client.exists(path)) for path, why in misfits[:MOST_READ]]
    for path, why, look in looks:
        stat = await look
        if stat is not None and stat.ephemeral_owner:
            raise MixedLayoutError(path, why, session_id=stat.ephemeral_owner)
