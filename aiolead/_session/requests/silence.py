"""When an open connection counts as lost: the server answers nothing, or not what was asked first.

Both bounds are `Timing.silent_after`:

* Nothing at all was answered for so long. Events are no answers: they still come where nothing of
  ours arrives any more.
* A request (SetWatches and credentials included) was sent so long ago, and none of its kind has
  been answered since. Servers answer in order, pings included, so the answer will not come: a
  server that changed hands, or something on the way, has lost the request. Answers to what was sent
  before it put this off, as does a long answer that has begun to come in. Answers to later pings do
  not, or else a connection whose last request was lost would live forever.
"""

from __future__ import annotations

from math import inf

from ..._wire.codes import RESERVED_XIDS, XID_AUTH, XID_EVENT, XID_SET_WATCHES
from ..authentication import Authentication
from ..watches.one_shot import WatchRegistry
from .request_queue import RequestQueue

_EVENT = XID_EVENT.to_bytes(4, "big", signed=True)
"""What the frame of an event begins with."""


class Silence:
    """What a connection has answered last, and which of its requests waits longest.

    All times are seconds on the clock of the caller.

    Args:
        requests: the requests in flight.
        watches: SetWatches in flight.
        login: the credentials in flight.

    Attributes:
        last_answer: when anything was answered last, on whichever connection.
    """

    __slots__ = (
        "_last_auth",
        "_last_rearm",
        "_last_reply",
        "_login",
        "_requests",
        "_watches",
        "last_answer",
    )

    def __init__(
        self, requests: RequestQueue, watches: WatchRegistry, login: Authentication
    ) -> None:
        self._requests = requests
        self._watches = watches
        self._login = login
        self.last_answer: float = -inf
        self._last_reply = self._last_rearm = self._last_auth = -inf

    def opened(self, now: float) -> None:
        """A connection was established."""
        self.last_answer = self._last_reply = self._last_rearm = self._last_auth = now

    def answered(self, xid: int, now: float) -> None:
        """An answer came in, or an event: which of them, the xid says."""
        if xid > 0:
            self.last_answer = self._last_reply = now
        elif xid != XID_EVENT:
            self.last_answer = now
            if xid == XID_SET_WATCHES:
                self._last_rearm = now
            elif xid == XID_AUTH:
                self._last_auth = now

    def pinged(self, sent: float, now: float) -> None:
        """A ping was answered, which was sent then: what was sent behind it is next."""
        oldest = self._requests.oldest
        if oldest is not None and sent <= oldest.sent_at:
            self._last_reply = now

    def begun(self, first: bytes, now: float) -> None:
        """More of a frame came in, which may be a long one on a slow link.

        Args:
            first: the first bytes of its payload, as far as they are known.
            now: the time.
        """
        if len(first) == 4 and first != _EVENT:
            self.answered(int.from_bytes(first, "big", signed=True), now)

    @property
    def since(self) -> float:
        """Since when nothing was answered, or the request that waits longest was not."""
        return min(self.last_answer, self._oldest()[0])

    def reason(self, bound: float) -> str:
        """Why the connection is lost, where `since` is `bound` seconds ago."""
        since, what = self._oldest()
        if self.last_answer <= since:
            return f"the server has answered nothing for {bound:g} seconds"
        return f"the server answers, but has not answered {what} for {bound:g} seconds"

    def _oldest(self) -> tuple[float, object]:
        """The request that waits longest for its turn to be answered: since when, and what it is.

        `inf` if every request is answered.
        """
        since: float = inf
        what: object = None
        if (call := self._requests.oldest) is not None:
            since, what = max(call.sent_at, self._last_reply), call
        if self._watches.unanswered and self._last_rearm < since:
            since, what = self._last_rearm, RESERVED_XIDS[XID_SET_WATCHES]
        if self._login.is_pending:
            presented = max(self._login.presented_at, self._last_auth)
            if presented < since:
                since, what = presented, RESERVED_XIDS[XID_AUTH]
        return since, what
