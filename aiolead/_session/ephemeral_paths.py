"""How long the paths of a session's ephemeral znodes are, together.

The servers end a session with one transaction, which has the paths of all its ephemeral znodes.
There is no limit on its length where it is written, but there is where it is read: a server that
has a longer one in its log never starts again (ZOOKEEPER-4306). A client that leaves deletes its
znodes first, but a killed process cannot. So the sum is limited here, before a create is sent.

Deletions by other clients are only seen through a watch. So the servers are asked for the
session's znodes before creates are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._wire.jute import Reader
from ..errors import AioleadError, Outcome, TooManyHoldsError
from .requests import Call

if TYPE_CHECKING:
    from .observer import SessionObserver

LENGTH = 4
"""Bytes of a path in a transaction, beside its text."""

DIGITS = "0000000000"
"""The number of a sequential znode, before it is known."""

NEAR = 3 / 4
"""The share of the limit from which the servers are asked what is there."""

STEP = 1 / 16
"""The share of the limit that is added before they are asked again."""


class EphemeralPaths:
    """The ephemeral znodes of one session, by full path, and the creates that may make more.

    Attributes:
        size: the bytes of their paths in the transaction that ends the session.
        paths: those that are there, as far as is known, each with its bytes.
        lost: those of creates whose answer was lost, as the request counted them.
        is_asking: whether they are being asked, or were a moment ago.
    """

    __slots__ = ("_ask_at", "_most", "_observer", "is_asking", "lost", "paths", "size")

    def __init__(self, most: int, observer: SessionObserver) -> None:
        self._most = most
        self._observer = observer
        self._ask_at = NEAR * most
        self.size: int = 0
        self.paths: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        self.is_asking: bool = False

    def expect(self, call: Call[Any]) -> None:
        """Count the znodes that a request creates, until it fails.

        Raises `TooManyHoldsError`, and abandons the call, if they are too many.
        """
        more = 0
        for path in call.ephemerals:
            # Without a call: every lock does this.
            more += LENGTH + (len(path) if path.isascii() else len(path.encode()))
        if self.size + more > self._ask_at:
            self._check(call, more)
        self.size += more
        call.counted_in = self

    def _check(self, call: Call[Any], more: int) -> None:
        self._ask_next(self.size + more)
        if not self.is_asking:
            self._observer.ephemerals_near_limit()
        if self.size + more > self._most:
            call.abandon()
            raise TooManyHoldsError(
                f"the paths of the session's ephemeral znodes have {self.size} bytes, and "
                f"{more} more exceed max_ephemeral_paths={self._most}: use more clients, or "
                "shorter paths. With too many, the servers cannot restart after this client is "
                "killed (ZOOKEEPER-4306)"
            )

    def _ask_next(self, size: int) -> None:
        self._ask_at = min(self._most, max(NEAR * self._most, size + STEP * self._most))

    def created(self, path: str) -> None:
        """Take over a znode that a counted request has created."""
        self.size -= self.paths.get(path, 0)  # somebody had deleted it
        self.paths[path] = size_of(path)
        if self.lost:
            self._found(path)

    def failed(self, paths: Iterable[str], error: AioleadError) -> None:
        """Uncount the znodes of a failed request, unless it may have been applied."""
        if error.outcome is not Outcome.UNKNOWN or error.session_over:
            self.size -= sum(map(size_of, paths))
            return
        for path in paths:
            self.size -= self.lost.get(path, 0)
            self.lost[path] = size_of(path)

    def gone(self, path: str, _: Reader | None = None) -> None:
        """Uncount a znode that was deleted, if it is one of them; also decodes that answer."""
        self.size -= self.paths.pop(path, 0)
        if self.lost:
            self._found(path)

    def _found(self, path: str) -> None:
        """Settle a lost create, now that it is known what became of it."""
        for key in (path, path[: -len(DIGITS)] + DIGITS):
            self.size -= self.lost.pop(key, 0)

    def recount(self, paths: Iterable[str]) -> None:
        """Take the servers' word for what is there; requests in flight stay counted."""
        self._forget()
        self.paths.update((path, size_of(path)) for path in paths)
        self.size += sum(self.paths.values())
        self._ask_next(self.size)

    def session_over(self) -> None:
        """Forget everything but requests that may still fail."""
        self._forget()
        self._ask_at = NEAR * self._most

    def _forget(self) -> None:
        self.size -= sum(self.paths.values()) + sum(self.lost.values())
        self.paths.clear()
        self.lost.clear()


def size_of(path: str) -> int:
    """The bytes of a path in the transaction that ends the session."""
    return LENGTH + (len(path) if path.isascii() else len(path.encode()))
