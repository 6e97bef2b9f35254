"""`Once`: a job runs on one of many machines per key, and not again once it is done.

A key is one znode below the path: missing at first, ephemeral while a client runs the key, and
persistent once the key is done. So the create of the ephemeral znode decides alone: at most one
client runs a key, and no run begins after the key is done.

A run whose body has ended is marked as done by one transaction, which deletes the ephemeral znode
and creates the persistent one. Before it, a conditional write proves that the ephemeral znode is
still the one that this run has created. The mark takes the place of the delete with which other
holds end, so it has the same properties: it is sent before anything is awaited, the client goes on
with it over lost connections and after a cancellation, and gives up only when the session ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, cast, final
from urllib.parse import quote

from .._util.contender_names import DONE
from .._util.escaping import in_seconds
from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    ClaimLost,
    ConfigurationError,
    ConnectionLossError,
    LossReason,
    NoNodeError,
    Outcome,
)
from ..model import ACL, Participant, Stat
from ..paths import join
from .exclusive import OneZnode
from .fixed import Fixed
from .hold import Body, Place, Tenure
from .holding import Contest, HoldingRecipe, TenureContext
from .naming import Departure, Over, PendingDelete, RegisteredNode
from .reading import catch_up, over_sessions, read_participants
from .recipe import (
    OnDisconnect,
    checked_client,
    checked_count,
    checked_number,
    checked_path,
    checked_text,
)
from .rivals import TimeLimit
from .trimming import Trimmer

__all__ = ["Once"]
__types__ = ["Run"]

MAX_KEY = 256
"""Longest key, in bytes of UTF-8."""

KEPT = 1000
"""How many done keys are remembered by default."""

KEPT_FOR = 30 * 86_400.0
"""How long done keys are remembered by default, in seconds: 30 days."""


_LEGIBLE = "@:+=,"
"""The punctuation that stays as it is in the name of a key's znode, beside `-._~`."""


class KeyNaming(Fixed):
    """The naming of a key's znode, which a mark replaces once the run is `finished`."""

    __slots__ = ("_acl", "_finished", "_mark", "is_marked")

    def __init__(
        self, client: CoordinationClient, path: str, mark: bytes, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__(client, path, is_contended=True)
        self._mark = mark
        self._acl = acl
        self._finished: RegisteredNode | None = None
        self.is_marked: bool = False
        """Whether the servers have confirmed that the key is done."""

    def finish(self, node: RegisteredNode) -> None:
        """Have the delete of this znode mark the key as done."""
        self._finished = node

    def delete(
        self, node: RegisteredNode, data: bytes, watch: Watch | None, over: Over
    ) -> Departure:
        if node is not self._finished:
            return super().delete(node, data, watch, over)
        # The watch is closed first: it would report our own transaction as a loss.
        if watch is not None:
            watch.close()
        proof = self._client.set(node.path, self._mark, version=0)
        return PendingDelete(self._client, self, node, proof, over, partial(self._replace, node))

    async def delete_if_ours(self, node: RegisteredNode) -> None:
        if node is self._finished:
            await self._mark_later(node)
        else:
            await super().delete_if_ours(node)

    def _replace(self, node: RegisteredNode, stat: Stat) -> Reply[Any] | None:
        """Replace the znode by the mark; None if the one that was written is another's."""
        client = self._client
        # The session of a create that was sent before it began is unknown.
        if not node.is_shown_by(stat) or node.session_id not in (0, client.session_id):
            return None
        transaction = client.transaction().delete(node.path, version=stat.version)
        reply = transaction.create(node.path, DONE + self._mark, acl=self._acl).commit()
        reply.add_done_callback(partial(self._replaced, reply))
        return reply

    def _replaced(self, reply: Reply[Any]) -> None:
        self.is_marked = self.is_marked or reply.error() is None

    async def _mark_later(self, node: RegisteredNode) -> None:
        """Mark the key as done if its znode is still ours: one attempt, after a lost answer."""
        client = self._client
        await catch_up(client, node.path)
        stat = await client.exists(node.path)
        if stat is None:
            raise NoNodeError(node.path)
        if node.is_shown_by(stat):
            reply = self._replace(
                node, await client.set(node.path, self._mark, version=stat.version)
            )
            if reply is not None:
                await reply
        elif not stat.ephemeral_owner and stat.czxid > node.token:
            # The transaction whose answer was lost.
            self.is_marked = True


class KeyPlace(OneZnode):
    """The znode of one key, as a `Place`; `is_closed` if the key is done."""

    def __init__(self, name: str, contest: Contest[Any]) -> None:
        path = join(contest.path, name)
        self.naming = KeyNaming(contest.client, path, contest.data, contest.acl)
        super().__init__(contest, self.naming, closes=True)


@final
class Run(Tenure):
    """One run of a key, held for the body of an `async with`. `Tenure` describes its members.

    `release()` ends the run without marking the key as done: another client may run it.

    `fenced()` checks only that there is a znode of the key. So it does not notice that an operator
    has deleted that of this run, until this client is notified; `token` is exact.
    """

    __slots__ = ("_is_ending_well", "_key")

    _lost_error = ClaimLost

    def __init__(
        self,
        contest: Contest[Run],
        place: Place,
        body: Body,
        *,
        trimmer: Trimmer,
    ) -> None:
        super().__init__(contest, place, body)
        self._what = self._path
        self._is_ending_well = False
        # While the job runs: afterwards, most programs that cron starts end.
        trimmer.trim_later()

    @property
    def is_done(self) -> bool:
        """Whether the servers have confirmed that the key is done; False in the body."""
        return self._naming.is_marked

    @property
    def _naming(self) -> KeyNaming:
        return cast(KeyPlace, self._place).naming

    def _body_ended(self) -> None:
        """The body has ended without an exception, so the end of the hold marks the key as done."""
        if self.is_held:
            self._is_ending_well = True
            self._naming.finish(self._place.znodes[-1].node)

    @property
    def _given_up_as(self) -> str:
        return "done" if self.is_done else super()._given_up_as

    async def _confirmed(self, scope: Any = None) -> None:
        await super()._confirmed(scope)
        gone = self._gone
        if self._is_ending_well and gone is not None and gone.is_done and self._refusal is None:
            is_over = self._session_id not in (0, self._client.session_id)
            if self.is_done:
                self._loss = None
            elif self._loss is None:
                self._loss = LossReason.EXPIRED if is_over else LossReason.DELETED

    def _report_refusal(self, left: BaseException | None) -> None:
        super()._report_refusal(left)
        is_unknown = self._is_ending_well and self._loss is None and not self.is_done
        if is_unknown and left is None:
            waited = in_seconds(round(self._client.session_timeout / 3, 3))
            raise ConnectionLossError(
                f"no server has confirmed within {waited} that {self._what} is done: the client "
                "goes on asking for it until its session ends, and if that is too late, the key "
                "runs again",
                outcome=Outcome.UNKNOWN,
            )


class RunContext(TenureContext[Run | None]):
    """The context of a run: it gives None if the key is done, and marks it when the body ends."""

    __slots__ = ()

    def _gives_none(self, limit: TimeLimit) -> bool:
        return self._is_try or cast(KeyPlace, limit.place).is_closed

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._tenure is not None and exc is None and current == self._task:
            self._tenure._body_ended()
        await super()._leave(current, exc_type, exc, traceback)


@final
class Once(HoldingRecipe[Run]):
    """A job that runs once per key, on one of many machines: a date, or the number of an order.

        once = Once(client, "/jobs/nightly")
        async with once.claim("2026-11-21") as run:
            if run is not None:     # None: the key is done already
                await send_the_invoices()

    The key is done when the body has ended without an exception. It is recorded as done in the same
    transaction that ends the run. If the body raises, is cancelled, or calls `run.release()`, the
    key is not done, and may be claimed again. A run is held, and lost, as a `Lock` is: if the
    client cannot prove its lease in time, the body is cancelled before another client may begin.

    A job may run again if its client dies, or loses its session, between the work and the record:
    at least once, and exactly once if nothing fails. Let the system that the job writes to refuse a
    `run.token` that is smaller than the last one, or make the job idempotent.

    Clocks of machines do not matter, as long as all of them name the same key. A key is remembered
    for `ttl` seconds after it was done, by the servers' clock, and as one of the last `keep` keys.
    Later it may run again, so `ttl` must exceed the time within which any machine may still claim
    an old key. Each client that begins a run deletes older records in the background: at a quarter
    more than `keep`, and once an hour those that are older than `ttl`.

    Any number of tasks may use one object. Nothing else may create znodes below the path: a
    persistent one is a done key. To have a key run again, delete its znode.

    Args:
        keep: how many done keys are remembered, 1 to 20,000.
        ttl: how long they are remembered, in seconds; 30 days by default. None: while there are not
            too many.

    Other arguments: as for `Lock`, without `layout`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        keep: int = KEPT,
        ttl: float | None = KEPT_FOR,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        trimmer = Trimmer(
            checked_client(client),
            checked_path(path),
            checked_count("keep", keep, most=20_000),
            "Until then the key is remembered as done",
            max_age=inf if ttl is None else _checked_ttl(ttl),
            is_reused=True,
        )
        contest = Contest(
            type(self).__name__,
            client,
            path,
            partial(Run, trimmer=trimmer),
            partial(KeyPlace, "key"),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            to_hold="async with once.claim(key) as run:",
            to_try="async with once.try_claim(key) as run:",
        )
        super().__init__(contest)

    def claim(self, key: str, *, timeout: float | None = None) -> TenureContext[Run | None]:
        """Claim a key for the body of an `async with`: gives a `Run`, or None if the key is done.

        Waits while another client runs the key: its run ends with a done key, or, if it fails, with
        the key for one of those that wait.

        Args:
            key: any text of at most 256 bytes of UTF-8, such as a date.
            timeout: how long to wait for other clients, in seconds. None waits forever, 0 tries
                once. When it is up, entering raises `AcquireTimeout`.

        Leaving waits until the servers have confirmed that the key is done, for a third of the
        session timeout at most, also when cancelled.

        Raises:
            ClaimLost: on leaving: the run was lost, also if that came out only as the key was to be
                marked. The key may run again.
            ConnectionLossError: on leaving: no server has confirmed in that time. The client goes
                on; the key runs again if the session ends first.
            ReleaseError: on leaving: the servers refuse to mark the key, so it stays claimed until
                the session ends.

        For other errors, cancellation and connection loss see `TenureContext`.
        """
        return RunContext(self._of_key(key), timeout)

    def try_claim(self, key: str) -> TenureContext[Run | None]:
        """As `claim`, but does not wait: gives None, too, if another client runs the key."""
        return RunContext(self._of_key(key), 0, is_try=True)

    async def is_done(self, key: str) -> bool:
        """Return whether a key is done, and remembered. May lag, as `Lock.holders`."""
        client, path = self._client, join(self._path, name_of(key))
        seen = await over_sessions(client, lambda: client.exists(path))
        return seen is not None and not seen.ephemeral_owner

    async def holder(self, key: str) -> Participant | None:
        """Return the client that runs a key, or None. May lag, as `Lock.holders`."""
        name = name_of(key)
        read = partial(read_participants, self._client, self._path, [name], is_holder=True)
        return next(
            (each for each in await over_sessions(self._client, read) if each.session_id), None
        )

    def _of_key(self, key: str) -> Contest[Run]:
        """The contest for one key. A task that runs one key may claim another."""
        name = name_of(key)
        label = f"<{type(self).__name__} {self._path} {key!r}>"
        return self._contest.derived(partial(KeyPlace, name), subject=name, label=label)


def name_of(key: str) -> str:
    """The name of a key's znode. Letters and digits stay; other bytes become `%` and their number.

    Raises `ConfigurationError` if it is no key.
    """
    if not checked_text("key", key, most=MAX_KEY):
        raise ConfigurationError("key: must not be empty")
    name = quote(key, safe=_LEGIBLE)
    return name.replace(".", "%2E") if name in (".", "..") else name


def _checked_ttl(ttl: float) -> float:
    if not checked_number("ttl", ttl):
        raise ConfigurationError("ttl: must be more than 0 seconds, or None")
    return float(ttl)
