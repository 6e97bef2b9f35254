"""The values that `statistics()` of a client and of a hold return.

They have a module of their own since few programs ask for them: making the two classes takes a
hundredth of the time until a process holds its first lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ..errors import LossReason
from ..model import SessionState
from .escaping import repr_with_session


@final
@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client's state and counters at the moment of `Client.statistics()`; times are in seconds.

    Attributes:
        state: the state of its session.
        session_id: the session; 0 while there is none.
        session_timeout: as granted by the servers; the smallest value if their answers differed.
        server: the connected server, or None.
        last_zxid: the newest transaction that an answer has shown.
        connections: how many connections there were so far.
        suspensions: how often a session lost its connection.
        expirations: how many sessions have expired.
        requests: how many requests were sent, including the client's own, except pings.
        in_flight: how many of them are not answered yet.
        queued: how many wait to be sent.
        watches: how many watches there are.
        held: how many znodes are held under the lease.
        lease_remaining: the rest of the lease; 0.0 if nothing is proven.
        renewals: how often the lease was renewed.
        late_renewals: how many renewals took longer than a quarter of the session timeout.
        slowest_renewal: how long the slowest renewal took.
    """

    state: SessionState
    session_id: int
    session_timeout: float
    server: str | None
    last_zxid: int
    connections: int
    suspensions: int
    expirations: int
    requests: int
    in_flight: int
    queued: int
    watches: int
    held: int
    lease_remaining: float
    renewals: int
    late_renewals: int
    slowest_renewal: float

    def __repr__(self) -> str:
        return repr_with_session(self)


@final
@dataclass(frozen=True, slots=True)
class TenureStatistics:
    """A tenure at the moment of `Tenure.statistics()`; times are in seconds.

    Attributes:
        path: the holder's znode.
        token: the fencing token.
        session_id: the session that owns the znode.
        is_held: whether it is held, by the clock.
        remaining: how long it is surely held, unless the lease is renewed before.
        lasted: how long it has lasted, or had when it was over.
        loss: why it was lost; None while it is held, and after a release.
        is_released: whether it was released before its body had ended.
        is_revocation_requested: whether others ask for a release.
    """

    path: str
    token: int
    session_id: int
    is_held: bool
    remaining: float
    lasted: float
    loss: LossReason | None
    is_released: bool
    is_revocation_requested: bool

    def __repr__(self) -> str:
        return repr_with_session(self)
