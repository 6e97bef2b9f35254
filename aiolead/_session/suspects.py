"""Requests over which connections are lost: found, isolated, and sent less and less often.

A server closes the connection on a request that is longer than its `jute.maxbuffer`; so does a
proxy with a limit of its own. The client closes it on a reply that is longer than `max_reply`, or
cannot be decoded. Sent again at once, such a request would cost one connection after the other,
and with them the renewals of everything that the session holds.

    no record ──a connection is lost right after it was sent──> suspected
    suspected ──answered──> no record
    suspected ──sent alone on another connection, which is lost──> refused: `RequestRefusedError`
    refused ──a pause──> sent alone ──lost──> refused, for twice as long
                                    ──answered──> no record

Connections are lost for other reasons, too. So one counts only if it was closed right after the
request was sent, and a short request has to cost many of them before it is refused.

While the pause lasts, a refused request fails without being sent. A short one is sent nevertheless,
alone: its length is not the cause, and the server may have recovered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from .._util.escaping import get_logger, in_seconds
from .._wire.codes import OpCode, op_name
from .._wire.jute import REQUEST_HEADER
from ..errors import Outcome, RequestRefusedError

if TYPE_CHECKING:
    from .requests import Call

logger = get_logger("aiolead.session")

LOSSES = 2
"""How many connections a request may cost before it is taken for the cause."""

SHORT = 4 * 1024
"""Bytes up to which no server and no proxy finds a request too long."""

LOSSES_OF_SHORT = 16
"""The same of a short request: its connections were probably lost for other reasons."""

LOSSES_OF_UNREADABLE = 3
"""The same of a request whose reply cannot be decoded: another server may answer it better."""

RIGHT_AFTER = 1 / 4
"""A connection that is closed so soon after a request was sent may be closed because of it, as a
part of the session timeout."""

FORGOTTEN_AFTER = 16
"""Session timeouts after which one lost connection says nothing about the next one."""

MOST_DOUBLINGS = 4
"""The pause begins with one session timeout, and doubles up to sixteen of them."""

EARLY = 0.001
"""How much earlier than agreed a request may come, in seconds: times are rounded."""

LONG = 32 * 1024
"""Bytes from which a refused write says something about all that are as long: limits of servers
and proxies are limits on length."""

MOST_RECORDS = 64

_IN_FOLDERS = frozenset(
    {OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.MULTI}
)
"""Operations that are tried again under another name in the same folder."""


@dataclass(slots=True, eq=False, repr=False)
class Suspicion:
    """The record of one request, or of all writes that are as long.

    Attributes:
        size: its length in bytes.
        losses: how many connections it has cost.
        lost_at: when the last of them was lost.
        until: until when it is not sent, if it is refused.
        why: how that connection ended.
        budget: how many connections it may cost.
    """

    size: int
    budget: int
    losses: int = 0
    lost_at: float = -inf
    until: float = -inf
    why: str = ""

    @property
    def holds_back(self) -> bool:
        """Whether it is not sent during the pause."""
        return self.budget != LOSSES_OF_SHORT

    @property
    def is_refused(self) -> bool:
        return self.losses >= self.budget

    def lose(self, now: float, timeout: float, why: str) -> None:
        if not self.is_refused and now - self.lost_at > FORGOTTEN_AFTER * timeout:
            self.losses = 0
        self.losses += 1
        self.lost_at = now
        self.why = why
        if self.is_refused:
            self.until = now + timeout * 2 ** min(self.losses - self.budget, MOST_DOUBLINGS)


class Suspects:
    """The requests of one client that have cost connections; nearly always there are none.

    Attributes:
        records: one for each, by operation and path.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[int, str], Suspicion] = {}
        self._long: Suspicion | None = None
        """Of all writes that are at least as long as one that was refused."""

    def has(self, call: Call[Any]) -> bool:
        """Whether the call must be sent alone."""
        return self._of(call) is not None

    def refusal(self, call: Call[Any], now: float) -> RequestRefusedError | None:
        """The error of a call that may not be sent now; None if it may."""
        record = self._of(call)
        if record is None or not record.is_refused or now >= record.until - EARLY:
            return None
        if not record.holds_back:
            return None
        return _refused(call, record, now, is_sent=False)

    def lost(
        self, call: Call[Any], now: float, timeout: float, why: str, budget: int = 0
    ) -> RequestRefusedError | None:
        """Count a lost connection; return the error of the call if it is refused from now on.

        `timeout` is the session timeout in seconds. `budget` is how many connections it may cost.
        0: the other end closed the connection, perhaps because of the length of the request.
        """
        record, size = self._of(call), _size(call)
        if record is None:
            limit = budget or (LOSSES if size > SHORT else LOSSES_OF_SHORT)
            self.records.pop(_key(call), None)
            record = self.records[_key(call)] = Suspicion(size, limit)
            if len(self.records) > MOST_RECORDS:
                self._forget(next(iter(self.records.values())))
        record.lose(now, timeout, why)
        if not record.is_refused:
            return None
        if not budget and call.kind.is_write and record.size >= LONG and self._long is None:
            self._long = record
        error = _refused(call, record, now, is_sent=True)
        if record.losses == record.budget:
            logger.warning("%s", error)
        return error

    def answered(self, call: Call[Any]) -> None:
        """Forget the request: it was answered."""
        record = self._of(call)
        if record is not None:
            self._forget(record)

    def _forget(self, record: Suspicion) -> None:
        self.records = {key: each for key, each in self.records.items() if each is not record}
        if record is self._long:
            self._long = None

    def _of(self, call: Call[Any]) -> Suspicion | None:
        if not call.kind.is_counted or call.path is None:
            return None
        size = _size(call)
        record = self.records.get(_key(call))
        # Names of retries may differ in length. A request that is much shorter is another one.
        if record is not None and 10 * size >= 9 * record.size:
            return record
        long = self._long
        return long if long is not None and call.kind.is_write and size >= long.size else None


def may_be_cause(call: Call[Any], now: float, timeout: float) -> bool:
    """Whether a connection that the other end closes now may be closed because of the call."""
    is_recent = now - call.sent_at <= RIGHT_AFTER * timeout
    return is_recent and call.kind.is_counted and call.path is not None


def likely_causes(inflight: Iterable[Call[Any]]) -> list[Call[Any]]:
    """Of several that may be: the oldest, whose reply is due, and the longest."""
    calls = list(inflight)
    if len(calls) < 2:
        return calls
    return list(dict.fromkeys((calls[0], max(calls, key=_size))))


def _key(call: Call[Any]) -> tuple[int, str]:
    path = call.path or ""
    return call.op, path.rpartition("/")[0] if call.op in _IN_FOLDERS else path


def _size(call: Call[Any]) -> int:
    return call.size or len(call.body) + REQUEST_HEADER


def _refused(
    call: Call[Any], record: Suspicion, now: float, *, is_sent: bool
) -> RequestRefusedError:
    pause = max(0.0, record.until - now)
    advice = "is not sent" if record.holds_back else "should not be asked for"
    return RequestRefusedError(
        op_name(call.op),
        call.path or "",
        _size(call),
        losses=record.losses,
        retry_in=pause,
        why=f"{record.why}; it {advice} again for {in_seconds(round(pause, 1))}",
        is_held_back=record.holds_back,
        outcome=Outcome.UNKNOWN if is_sent and call.kind.is_write else Outcome.NOT_APPLIED,
    )
