"""Refusing a neighbour that does not fit, with its owner."""

from __future__ import annotations

from collections.abc import Iterable

from ...abc import CoordinationClient
from ...errors import MixedLayoutError
from ...paths import basename
from .kernel import in_order
from .layouts import Layout, Role


async def queue_order(
    client: CoordinationClient, path: str, names: Iterable[str], layout: Layout, role: Role
) -> list[str]:
    """The contenders in order, as `in_order`; no checkpoint if all fit.

    A misfit that has gone by the time its owner is read is left out. Raises `MixedLayoutError` with
    the owner's session.
    """
    left = list(names)
    while True:
        try:
            return in_order(path, left, layout, role)
        except MixedLayoutError as misfit:
            stat = await client.exists(misfit.neighbour)
            if stat is not None:
                raise MixedLayoutError(
                    misfit.neighbour, misfit.why, session_id=stat.ephemeral_owner
                ) from None
            left.remove(basename(misfit.neighbour))
