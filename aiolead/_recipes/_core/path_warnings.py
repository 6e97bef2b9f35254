"""Warnings about a path, each logged once per client."""

from __future__ import annotations

from ..._escaping import get_logger

logger = get_logger("aiolead.recipes")


class PathWarnings:
    """The warnings that one client has logged about one path; `Backend.shared` makes it.

    A recipe keeps it for as long as it lives: contenders come and go, and each would warn again.
    """

    __slots__ = ("__weakref__", "_given")

    def __init__(self) -> None:
        self._given: tuple[str, ...] = ()

    def warn(self, subject: str, message: str) -> None:
        """Log a warning, unless one with this subject was logged before."""
        if subject not in self._given:
            self._given = (*self._given, subject)
            logger.warning("%s", message)
