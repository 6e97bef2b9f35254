"""Where the parts of a semaphore are, by its layout."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ....errors import ConfigurationError
from ....paths import join
from ...contention.layouts import Layout

_PARTS = ("locks", "leases", "limit")
"""Curator's, below the path."""

_KAZOOS_PERMIT = re.compile("([0-9]{10}-)?[0-9a-f]{32}", re.ASCII)
"""kazoo's, below the path: its own, and ours in its layout."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the parts of a semaphore are.

    Attributes:
        path: of the semaphore.
        layout: of the line.
        line: where the line is.
        permits: the parent of the permits.
        limit: the znode whose data is the limit.
    """

    path: str
    layout: Layout
    line: str
    permits: str
    limit: str

    @property
    def is_kazoos(self) -> bool:
        """Whether permits count from their creation, by whoever is in front of the line.

        kazoo looks how many there are, and creates its own if there is room. So whoever is not in
        front must not create any; while with Curator, which looks after the creation, that does no
        harm.
        """
        return self.layout == Layout.KAZOO

    def misfits(self, names: Iterable[str]) -> list[str]:
        """The children of the path that are there for semaphores of the other layout."""
        if self.is_kazoos:
            return [name for name in names if name in _PARTS]
        return [name for name in names if _KAZOOS_PERMIT.fullmatch(name)]


def arranged(path: str, layout: Layout) -> Arrangement:
    """How a semaphore is laid out.

    Raises:
        ConfigurationError: the layout has no semaphores.
    """
    if layout == Layout.CURATOR:
        parts = (join(path, part) for part in _PARTS)
        return Arrangement(path, layout, *parts)
    if layout == Layout.KAZOO:
        return Arrangement(path, layout, f"{path}-__lock__", path, path)
    raise ConfigurationError(
        f"layout: {layout!r} has no names for a Semaphore: use Layout.CURATOR or Layout.KAZOO"
    )
