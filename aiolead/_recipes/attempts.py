"""Attempts at an item: the pause after one, and where the item goes after the last one.

The claim of an item that was released without being finished stays for the length of the pause, and
is deleted then. So no consumer of any library gets the item meanwhile, no clock is compared with
another one, and nothing has to be stored. If the session ends, the servers delete the claim, which
ends the pause, too. The pause begins with a write to the claim, which proves that it is still ours
and gives it a version that no new claim has. So one delete, by version, is enough in the end.

After its last attempt, an item moves to another queue, as a dead letter: an item of a plain queue,
with the parts of the item that it was. JSON follows behind the end of the item's format, where
every reader of the format stops: `item` (the path that it had), `attempts`, and `reason`. One
transaction creates the dead letter and deletes the item with its claim, so an item is never lost
and never there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self, final

import anyio

from .._util.escaping import described
from .._util.parsing import MalformedError, json_object
from ..abc import CoordinationClient, Transaction, Watch
from ..errors import AioleadError, ConfigurationError, NoNodeError, QueueFullError, SessionError
from ..model import ACL, CreateMode
from ..paths import basename, join
from .errors import ensure_path, in_background
from .naming import Naming, Over, RegisteredNode, delete_until_gone
from .queue_items import MOST_ITEMS, encode
from .recipe import checked_count, checked_path
from .reporting import PathWarnings

__types__ = ["DeadLetter"]

RETRY_PAUSE = 0.1
"""The default of `retry_pause`, in seconds."""

LONGEST = 60.0
"""The longest pause that grows by itself, in seconds."""


def pause_after(attempts: int, first: float) -> float:
    """How long an item rests after so many attempts, in seconds.

    Not at all after the first one: most items that are released once were released for a reason
    that is not theirs, such as a consumer that stops. Then `first`, doubled with each attempt.
    """
    return 0.0 if attempts < 2 else max(first, min(LONGEST, first * 2.0 ** min(attempts - 2, 30)))


class PausedDelete:
    """A delete of a claim that waits for `delay` seconds. A `Departure`, done as the wait begins.

    `data` is that of the claim during the pause.
    """

    def __init__(
        self,
        client: CoordinationClient,
        naming: Naming,
        node: RegisteredNode,
        watch: Watch | None,
        over: Over,
        *,
        data: bytes,
        delay: float,
    ) -> None:
        self._client = client
        self._naming = naming
        self._node = node
        self._watch = watch
        self._over = over
        self._delay = delay
        self._version = -1
        """That of the claim during the pause; -1 while it is not known."""
        self._gone = anyio.Event()
        self._callbacks: list[Callable[[], object]] = []
        self.error: AioleadError | None = None
        self.is_done: bool = False
        self.is_awaited: bool = False
        """Without effect: the delete follows much later."""
        # By no version, since a task's notes change it. If an operator has deleted our claim, this
        # may write into that of another consumer. Of theirs, only what others are shown changes:
        # the answer says that it is not ours, and their delete goes on without the version.
        self._proof = client.set(node.path, data)
        self._proof.add_done_callback(self._answered)
        client.backend.spawn(self._run)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def _answered(self) -> None:
        if self._watch is not None:
            self._watch.close()
        error = self._proof.error()
        if error is None and self._node.is_shown_by(self._proof.result()):
            self._version = self._proof.result().version
        elif error is None or isinstance(error, NoNodeError):
            self.error = NoNodeError(self._node.path)
        if self.error is not None or isinstance(error, SessionError):
            self._gone.set()
        # After any other error the claim is taken for ours: the delete finds out.
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    async def _run(self) -> None:
        try:
            with anyio.move_on_after(self._delay):
                await self._gone.wait()
            if not self._gone.is_set():
                await in_background(self._node.path, self._delete)
        finally:  # also if the client is closed meanwhile
            self._over(self._node)

    async def _delete(self) -> None:
        client, node = self._client, self._node
        with suppress(AioleadError):
            await self._proof
        if self._version > 0 and client.session_id == node.session_id:
            try:
                await client.delete(node.path, version=self._version)
            except NoNodeError:
                return
            except AioleadError:
                pass  # the answer is lost, or others have set the data
            else:
                return
        await delete_until_gone(client, self._naming, node)


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
@dataclass(frozen=True, slots=True)
class AttemptLimit:
    """The most attempts at an item, and where it goes after the last one.

    Attributes:
        client: the client of the recipe.
        most: how many attempts there may be.
        dead_letters: the path of the queue that it moves to, if it moves to one.
        acl: of dead letters, and of paths that have to be created.
        failures: where its result is written, if it has one.
    """

    client: CoordinationClient
    most: int
    dead_letters: str | None
    acl: Sequence[ACL] | None
    failures: Failures | None

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
        if self.dead_letters is not None:
            letters = await self._ensured(self.dead_letters)
            if letters >= MOST_ITEMS:
                raise QueueFullError(self.dead_letters, letters, MOST_ITEMS)
        if self.failures is not None:
            await self._ensured(self.failures.path)

    async def _ensured(self, path: str) -> int:
        """Create a path if it is missing; return how many children it has."""
        stat = await self.client.exists(path)
        if stat is None:
            await ensure_path(self.client, path, acl=self.acl)
        return 0 if stat is None else stat.num_children

    def add(
        self, transaction: Transaction, item: str, parts: Sequence[bytes], attempts: int, why: str
    ) -> None:
        """Add the dead letter, and the result, of an item to the transaction that deletes it."""
        why = cut(why)
        if self.dead_letters is not None:
            letter = encode_letter(parts, DeadLetter(item, attempts, why))
            path, mode = join(self.dead_letters, "queue-"), CreateMode.PERSISTENT_SEQUENTIAL
            transaction.create(path, letter, mode=mode, acl=self.acl)
        if self.failures is not None:
            note = f"given up after {attempts} attempts: {why}"
            self.failures.add_failure(transaction, basename(item), note, attempts)

    def warn(self, item: str, error: AioleadError) -> None:
        """Log that an item could not be given up: it stays, and rests for longer and longer."""
        self.client.backend.shared(item.rpartition("/")[0], PathWarnings).warn(
            f"{item}: given up",
            f"{item} has had its {self.most} attempts, but cannot be given up: {error}. It is "
            "tried again after pauses, and no consumer gets it",
        )
