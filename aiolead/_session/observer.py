"""The way up from a session: its reports to the client that owns it.

An observer is passed at construction, and stays. It is called synchronously, in the event loop's
thread, from within the methods of the machine. So a reader gets from a lost session to the
cancelled body by following calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..errors import LossReason
    from ..model import SessionState
    from .lease import HeldZnode, LeaseBook


class SessionObserver(Protocol):
    """The owner of a session machine."""

    def state_changed(self, state: SessionState, session_id: int, /) -> object:
        """The session with this id is in a new state."""
        ...

    def output_ready(self) -> object:
        """There is something to send."""
        ...

    def due_earlier(self, at: float, /) -> object:
        """Something may be due at a time, or at any if `-inf`: earlier than the machine has said.

        See `SessionMachine.next_deadline`.
        """
        ...

    def lease_renewed(self, took: float, remaining: float, /) -> object:
        """A renewal was confirmed after some seconds; with what is left of the lease."""
        ...

    def ephemerals_near_limit(self) -> object:
        """The servers should be asked which ephemeral znodes the session has.

        Their answer goes to `EphemeralPaths.recount`.
        """
        ...

    def release_unknown(self) -> object:
        """A server that may not be ZooKeeper has accepted the session: it should be asked.

        Its answer goes to `PresentServer.learned`.
        """
        ...

    def attempts(self) -> str:
        """Why no server is reached, for an error; empty if nothing is known."""
        ...


class HoldObserver(Protocol):
    """Notified of every hold until its holder has released it: a watchdog."""

    def began(self, held: HeldZnode, leases: LeaseBook, /) -> object: ...

    def proof_moved(self, leases: LeaseBook, /) -> object:
        """The time until which the session is proven to live may have changed."""
        ...

    def lost(self, held: HeldZnode, reason: LossReason, leases: LeaseBook, /) -> object: ...

    def ended(self, held: HeldZnode, /) -> object: ...
