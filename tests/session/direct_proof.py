"""A proof on connections that are known to need one round: what ordinary clients have."""

from __future__ import annotations

from aiolead._session.lease.proof import LeaseProof
from aiolead._session.lease.timing import Timing


class DirectProof(LeaseProof):
    """Knows from the handshake on that the leader collects from its server itself."""

    __slots__ = ()

    def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
        super().opened(timing, sent, created=created)
        self.direct()
