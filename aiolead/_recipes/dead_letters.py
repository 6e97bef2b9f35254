"""Dead letters: after its last attempt, an item moves to another queue, with the reason.

A dead letter is an item of a plain queue, with the parts of the item that it was. JSON follows
behind the end of the item's format, where every reader of the format stops: `item` (the path that
it had), `attempts`, and `reason`. One transaction creates the dead letter and deletes the item with
its claim, so an item is never lost and never there twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, final

from .._util.escaping import described
from .._util.parsing import MalformedError, json_object
from ..abc import CoordinationClient, Transaction
from ..errors import AioleadError, ConfigurationError, QueueFullError
from ..model import ACL, CreateMode
from ..paths import basename, join
from .errors import ensure_path
from .queue_items import MOST_ITEMS, encode
from .recipe import checked_count, checked_path
from .reporting import PathWarnings

__types__ = ["DeadLetter"]

MAX_REASON = 1024
"""Longest reason in a dead letter, in bytes of UTF-8; a longer one is cut."""

DIED = "the consumer of the last attempt died, or lost its claim"


@final
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a dead letter comes from, and why it was given up.

    Attributes:
        item: the path of the item that it was.
        attempts: how often that was claimed.
        reason: the exception that ended the last attempt, or another reason.
    """

    item: str
    attempts: int
    reason: str


def encode_letter(parts: Sequence[bytes], letter: DeadLetter) -> bytes:
    """Encode an item with these parts as a dead letter."""
    fields = {"item": letter.item, "attempts": letter.attempts, "reason": letter.reason}
    return encode(parts) + json.dumps(fields, separators=(",", ":")).encode()


def decode_letter(rest: bytes) -> DeadLetter | None:
    """Decode the bytes behind the end of an item; None if they are of no dead letter."""
    try:
        fields = json_object(rest)
    except MalformedError:
        return None
    item, attempts, reason = (fields.get(name) for name in ("item", "attempts", "reason"))
    if not (isinstance(item, str) and type(attempts) is int and isinstance(reason, str)):
        return None
    return DeadLetter(item, attempts, reason)


def reason_of(failure: BaseException | None) -> str:
    """Why an attempt has not finished its item: `failure` has ended the body."""
    if failure is None:
        return "the body ended without finishing it"
    if not isinstance(failure, Exception):
        return f"the body was cancelled, or its program ended: {type(failure).__name__}"
    try:
        return f"{type(failure).__name__}: {failure}"
    except Exception:
        return described(failure)


def cut(reason: str) -> str:
    """Shorten a reason to `MAX_REASON` bytes of valid UTF-8."""
    return reason.encode(errors="replace")[:MAX_REASON].decode(errors="ignore")


class Failures(Protocol):
    """The results of items, which a board has: a given up item gets one, too."""

    path: str

    def add_failure(self, transaction: Transaction, item: str, note: str, attempts: int) -> None:
        """Add the result of the item of that name to the transaction that deletes it."""
        ...


@final
class AttemptLimit:
    """The most attempts at an item, and where it goes after the last one.

    Args:
        client: the client of the recipe.
        most: how many attempts there may be.
        dead_letters: the path of the queue that it moves to, if it moves to one.
        acl: of dead letters, and of paths that have to be created.
        failures: where its result is written, if it has one.
    """

    def __init__(
        self,
        client: CoordinationClient,
        most: int,
        dead_letters: str | None,
        acl: Sequence[ACL] | None,
        failures: Failures | None,
    ) -> None:
        self.most = most
        self._client = client
        self._dead_letters = dead_letters
        self._acl = acl
        self._failures = failures

    @classmethod
    def checked(
        cls,
        client: CoordinationClient,
        max_attempts: int | None,
        dead_letters: str | None,
        acl: Sequence[ACL] | None,
        *,
        others: Sequence[str],
        failures: Failures | None = None,
    ) -> Self | None:
        """Check a caller's arguments; return the limit, if there is one. `others`: other paths."""
        if dead_letters is not None and checked_path(dead_letters) in others:
            raise ConfigurationError(
                f"dead_letters: must be the path of another queue, not {dead_letters!r}"
            )
        if max_attempts is None:
            if dead_letters is not None:
                raise ConfigurationError("dead_letters: needs max_attempts")
            return None
        if failures is None and dead_letters is None:
            raise ConfigurationError("max_attempts: needs dead_letters, the path of another queue")
        most = checked_count("max_attempts", max_attempts, most=1_000_000)
        return cls(client, most, dead_letters, acl, failures)

    async def prepare(self) -> None:
        """Create the missing paths; raise `QueueFullError` if there are too many dead letters."""
        if self._dead_letters is not None:
            letters = await self._ensured(self._dead_letters)
            if letters >= MOST_ITEMS:
                raise QueueFullError(self._dead_letters, letters, MOST_ITEMS)
        if self._failures is not None:
            await self._ensured(self._failures.path)

    async def _ensured(self, path: str) -> int:
        """Create a path if it is missing; return how many children it has."""
        stat = await self._client.exists(path)
        if stat is None:
            await ensure_path(self._client, path, acl=self._acl)
        return 0 if stat is None else stat.num_children

    def add(
        self, transaction: Transaction, item: str, parts: Sequence[bytes], attempts: int, why: str
    ) -> None:
        """Add the dead letter, and the result, of an item to the transaction that deletes it."""
        why = cut(why)
        if self._dead_letters is not None:
            letter = encode_letter(parts, DeadLetter(item, attempts, why))
            path, mode = join(self._dead_letters, "queue-"), CreateMode.PERSISTENT_SEQUENTIAL
            transaction.create(path, letter, mode=mode, acl=self._acl)
        if self._failures is not None:
            note = f"given up after {attempts} attempts: {why}"
            self._failures.add_failure(transaction, basename(item), note, attempts)

    def warn(self, item: str, error: AioleadError) -> None:
        """Log that an item could not be given up: it stays, and rests for longer and longer."""
        self._client.backend.shared(item.rpartition("/")[0], PathWarnings).warn(
            f"{item}: given up",
            f"{item} has had its {self.most} attempts, but cannot be given up: {error}. It is "
            "tried again after pauses, and no consumer gets it",
        )


RETRY_PAUSE = 0.1
"""The default of `retry_pause`, in seconds."""
