"""Dead letters: after its last attempt, an item moves to another queue, with the reason.

A dead letter is an item of a plain queue, with the parts of the item that it was. JSON follows
behind the end of the item's format, where every reader of the format stops: `item` (the path that
it had), `attempts`, and `reason`. One transaction creates the dead letter and deletes the item with
its claim, so an item is never lost and never there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from .._util.escaping import described
from .._util.parsing import MalformedError, json_object
from ..abc import CoordinationClient, Transaction
from ..errors import AioleadError, ConfigurationError, QueueFullError
from ..model import ACL, CreateMode
from ..paths import join
from .errors import ensure_path
from .queue_items import MOST_ITEMS, encode
from .recipe import checked_count, checked_number, checked_path
from .reporting import PathWarnings

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


@final
class AttemptLimit:
    """The most attempts at an item, and where it goes after the last one.

    Args:
        client: the client of the recipe.
        most: how many attempts there may be.
        dead_letters: the path of the queue that it moves to, if it moves to one.
        acl: of dead letters, and of paths that have to be created.
        results: the path of the results, if `add_result` writes one.
        add_result: adds to the transaction the result of the item of that name, with the reason and
            the attempts.
    """

    def __init__(
        self,
        client: CoordinationClient,
        most: int,
        dead_letters: str | None,
        acl: Sequence[ACL] | None,
        *,
        results: str | None = None,
        add_result: Callable[[Transaction, str, str, int], object] | None = None,
    ) -> None:
        self.most = most
        self._client = client
        self._dead_letters = dead_letters
        self._acl = acl
        self._results = results
        self._add_result = add_result

    async def prepare(self) -> None:
        """Create the missing paths; raise `QueueFullError` if there are too many dead letters."""
        if self._dead_letters is not None:
            letters = await self._ensured(self._dead_letters)
            if letters >= MOST_ITEMS:
                raise QueueFullError(self._dead_letters, letters, MOST_ITEMS)
        if self._results is not None:
            await self._ensured(self._results)

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
        if self._add_result is not None:
            note = f"given up after {attempts} attempts: {why}"
            self._add_result(transaction, item.rpartition("/")[2], note, attempts)

    def warn(self, item: str, error: AioleadError) -> None:
        """Log that an item could not be given up: it stays, and rests for longer and longer."""
        self._client.backend.shared(item.rpartition("/")[0], PathWarnings).warn(
            f"{item}: given up",
            f"{item} has had its {self.most} attempts, but cannot be given up: {error}. It is "
            "tried again after pauses, and no consumer gets it",
        )


@dataclass(frozen=True, slots=True)
class Retries:
    """The consequences of an attempt that did not finish its item.

    Attributes:
        pause: see `pause_after`.
        limit: the most attempts; None if there may be any number.
    """

    pause: float
    limit: AttemptLimit | None = None


RETRY_PAUSE = 0.1
"""The default of `retry_pause`, in seconds."""


def checked_retries(retry_pause: float, limit: AttemptLimit | None) -> Retries:
    return Retries(checked_number("retry_pause", retry_pause), limit)


def checked_limit(
    max_attempts: int | None,
    dead_letters: str | None,
    others: Sequence[str],
    *,
    needs_letters: bool = True,
) -> bool:
    """Check the arguments of a limit; return whether there is one. `others`: the other paths."""
    if dead_letters is not None and checked_path(dead_letters) in others:
        raise ConfigurationError(
            f"dead_letters: must be the path of another queue, not {dead_letters!r}"
        )
    if max_attempts is None:
        if dead_letters is not None:
            raise ConfigurationError("dead_letters: needs max_attempts")
        return False
    if needs_letters and dead_letters is None:
        raise ConfigurationError("max_attempts: needs dead_letters, the path of another queue")
    checked_count("max_attempts", max_attempts, most=1_000_000)
    return True
