"""When an open connection counts as lost: the server answers nothing, or skips a request.

Both bounds are `Timing.silent_after`:

* Nothing at all was answered for so long. Events are no answers: they still arrive when nothing
  that the client sends gets through.
* A request (SetWatches and credentials included) was sent so long ago, and none of its type was
  answered since. Servers answer in order, pings included, so a server that changed roles, or
  something on the way, has lost it. Answers to earlier requests put this off, as does a long answer
  that is arriving. Answers to later pings do not: else a connection whose last request was lost
  would live forever.
"""

from __future__ import annotations

from collections import deque
from math import inf

from .._util.escaping import in_seconds
from .._wire.codes import RESERVED_XIDS, XID_AUTH, XID_EVENT, XID_SET_WATCHES
from .authentication import Authentication
from .requests import RequestQueue
from .watches import WatchRegistry

_EVENT = XID_EVENT.to_bytes(4, "big", signed=True)
"""The first bytes of an event's frame."""


class Liveness:
    """The latest answer of a connection, and its request that has waited longest.

    Attributes:
        last_answer: when anything was answered, on any connection; see `answered`.
        last_reply: when a request was answered, on this connection.
        pings: the times of unanswered pings.
    """

    def __init__(
        self, requests: RequestQueue, watches: WatchRegistry, login: Authentication
    ) -> None:
        self._requests = requests
        self._watches = watches
        self._login = login
        self.last_answer: float = -inf
        self.pings: deque[float] = deque()
        self.last_reply: float = -inf
        # When an answer of each other type last came in, by its xid.
        self._last: dict[int, float] = {XID_SET_WATCHES: -inf, XID_AUTH: -inf}

    def connected(self, now: float) -> None:
        self.last_answer = now
        self.pings.clear()
        self.last_reply = now
        self._last = {XID_SET_WATCHES: now, XID_AUTH: now}

    def answered(self, xid: int, now: float) -> None:
        """Record that an answer came in; an event, by its xid, does not count."""
        if xid > 0:
            self.last_answer = self.last_reply = now
        elif xid != XID_EVENT:
            self.last_answer = self._last[xid] = now

    def rearming(self, now: float) -> None:
        """Record that watches are set again, on the same connection."""
        self._last[XID_SET_WATCHES] = now

    def pinged(self, now: float) -> float:
        """Record the answer to the oldest ping, before requests behind it; return its time."""
        sent = self.pings.popleft()
        oldest = self._requests.oldest
        if oldest is not None and sent <= oldest.sent_at:
            self.last_reply = now
        return sent

    def begun(self, first: bytes, now: float) -> None:
        """Count a long answer that is arriving; `first` has the first bytes of its payload."""
        if len(first) == 4 and first != _EVENT:
            self.answered(int.from_bytes(first, "big", signed=True), now)

    def reason(self, bound: float) -> str:
        """Why the connection is lost: `bound` seconds without any answer, or without the oldest."""
        _, what = self.silence()
        if what is None:
            return f"the server has answered nothing for {in_seconds(bound)}"
        return f"the server answers, but has not answered {what} for {in_seconds(bound)}"

    def silence(self) -> tuple[float, object]:
        """Since when the server is silent, and about which request; None for all of them."""
        since: float = inf
        what: object = None
        if self._requests.unanswered:
            call = self._requests.unanswered[0]
            since, what = max(call.sent_at, self.last_reply), call
        if self._watches.unanswered and self._last[XID_SET_WATCHES] < since:
            since, what = self._last[XID_SET_WATCHES], RESERVED_XIDS[XID_SET_WATCHES]
        if self._login.presented:
            _, presented_at = self._login.presented[0]
            presented_at = max(presented_at, self._last[XID_AUTH])
            if presented_at < since:
                since, what = presented_at, RESERVED_XIDS[XID_AUTH]
        return (since, what) if since < self.last_answer else (self.last_answer, None)
