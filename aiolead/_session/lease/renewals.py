"""How holds are confirmed: by a transaction, then a `sync` that makes it count (see `proof`).

refused operation, and error            which hold ends   the next renewal leaves
one check: NoNode                       its own: DELETED  at once, with the others
one check: any other error, as NoAuth   its own: REFUSED  at once, with the others
the transaction, or the sync            none              after a pause, while the lease lasts
either, with the connection             none              on the next connection
"""

from __future__ import annotations

from collections.abc import Callable

from ..._wire.codes import OpCode
from ..._wire.framing import encode_body
from ..._wire.replies import MultiResult
from ..._wire.requests import Check, Multi, Sync
from ...errors import LossReason, NoNodeError, TransactionError
from ..requests.call import CONFIRMATION, RENEWAL, Call, multi_call, no_result
from ..requests.request_queue import RequestQueue
from .feeding import Feeding
from .lease_book import HeldZnode, LeaseBook

MOST_CHECKS = 256
"""The most holds that one renewal confirms; more are confirmed in rotation."""


class Renewals:
    """The requests that renew the lease, ahead of users' requests, and only on this connection.

    The first renewal of a connection also asks whether one round is enough here: see `feeding`.
    `now` returns the time while answers are settled.
    """

    def __init__(
        self,
        leases: LeaseBook,
        requests: RequestQueue,
        feeding: Feeding,
        now: Callable[[], float],
        on_output: Callable[[], object],
    ) -> None:
        self._leases = leases
        self._requests = requests
        self._feeding = feeding
        self._now = now
        self._on_output = on_output

    def renew(self, now: float, room: int) -> None:
        """Ask the quorum whether the held znodes exist, in at most `room` bytes."""
        self._feeding.ask(now)
        holds = self._leases.renewal(MOST_CHECKS, room, now)
        checks = Multi(tuple(Check(held.path, -1) for held in holds))
        call = multi_call(checks, [held.path for held in holds], kind=RENEWAL)
        call.add_done_callback(lambda: self._renewed(call, holds))
        self._requests.enqueue_first(call, now)

    def _renewed(self, call: Call[list[MultiResult]], holds: list[HeldZnode]) -> None:
        now, error = self._now(), call.error()
        if error is None:
            self._leases.committed(now)
            self._confirm(call.sent_at, now, holds[0].path)
            return
        if not isinstance(error, TransactionError):
            self._leases.refused(now, at_once=False)
            return
        self._leases.refused(now, at_once=True)
        is_gone = isinstance(error.cause, NoNodeError)
        holds[error.index].lose(LossReason.DELETED if is_gone else LossReason.REFUSED)

    def _confirm(self, sent: float, answered: float, path: str) -> None:
        """Send the second request, whose answer makes the first one count."""
        body = encode_body(Sync(path))
        call: Call[None] = Call(OpCode.SYNC, body, no_result, kind=CONFIRMATION)

        def confirmed() -> None:
            if call.error() is None:
                self._leases.renewed(sent, answered, self._now())
            else:
                self._leases.refused(self._now(), at_once=False)

        call.add_done_callback(confirmed)
        self._requests.enqueue_first(call, answered)
        self._on_output()
