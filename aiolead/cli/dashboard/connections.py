"""Which connections the dashboard keeps where there are too many. Pure.

Anybody who reaches the port can open connections, and say nothing on them. They must not keep out
those who know the token, nor cost memory and descriptors without a bound.

| state | when | is dropped for |
|---|---|---|
| UNAUTHENTICATED | no request yet, or the last was not admitted | one that is not, either |
| ACTIVE | a request that was admitted is being answered; streams, for hours | nothing |
| IDLE | it was answered, and the next one has not come | one whose request is admitted |

Of unauthenticated connections the one to go is the oldest of the address that has the most. So one
address cannot push out others; and where all come from one, a proxy's, the oldest goes: a client
sends its request as it connects, and is admitted long before it is the oldest.

A proxy sends requests of different people on one connection. So the state follows the last request.
"""

from __future__ import annotations

import enum
import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import final

__all__ = ["MOST_ADMITTED", "MOST_UNAUTHENTICATED", "Connection", "Connections", "State"]

MOST_UNAUTHENTICATED = 64
MOST_ADMITTED = 200


class State(enum.Enum):
    """What is known of a connection; see above."""

    UNAUTHENTICATED = "unauthenticated"
    ACTIVE = "active"
    IDLE = "idle"
    CLOSED = "closed"


@final
class Connection:
    """One connection, as `Connections` knows it.

    Attributes:
        state: see `State`; CLOSED as soon as it is dropped.
    """

    __slots__ = ("_drop", "group", "state")

    def __init__(self, group: str, drop: Callable[[], object]) -> None:
        self.group: str = group
        self.state: State = State.UNAUTHENTICATED
        self._drop = drop

    @property
    def is_admitted(self) -> bool:
        """Whether its last request was admitted."""
        return self.state in (State.ACTIVE, State.IDLE)

    def drop(self) -> None:
        """Ends it."""
        self.state = State.CLOSED
        self._drop()


@final
class Connections:
    """Decides which connections to keep.

    Args:
        most_unauthenticated: how many of those there are at most; 1 or more.
        most_admitted: how many others there are at most; 1 or more.
    """

    def __init__(
        self,
        most_unauthenticated: int = MOST_UNAUTHENTICATED,
        most_admitted: int = MOST_ADMITTED,
    ) -> None:
        self._most_unauthenticated = most_unauthenticated
        self._most_admitted = most_admitted
        # Both in the order in which connections came into their state.
        self._unauthenticated: dict[Connection, None] = {}
        self._admitted: dict[Connection, None] = {}

    def open(self, address: str, drop: Callable[[], object]) -> Connection:
        """There is a new connection. Another one may be dropped for it.

        Args:
            address: where it comes from.
            drop: ends it, some time later; called once at most.
        """
        connection = Connection(_group(address), drop)
        self._add_unauthenticated(connection)
        return connection

    def admit(self, connection: Connection) -> bool:
        """A request that may be answered has come. An idle connection may be dropped for it.

        Returns:
            False if there are too many that are being answered: it is to be refused.
        """
        match connection.state:
            case State.CLOSED:
                return False
            case State.UNAUTHENTICATED:
                if not self._has_room():
                    return False
                del self._unauthenticated[connection]
                self._admitted[connection] = None
        connection.state = State.ACTIVE
        return True

    def reject(self, connection: Connection) -> None:
        """A request that may not be answered has come."""
        if connection.is_admitted:
            del self._admitted[connection]
            connection.state = State.UNAUTHENTICATED
            self._add_unauthenticated(connection)

    def rest(self, connection: Connection) -> None:
        """A request was answered."""
        if connection.state is State.ACTIVE:
            connection.state = State.IDLE
            del self._admitted[connection]
            self._admitted[connection] = None  # the last of those that are idle

    def close(self, connection: Connection) -> None:
        """It has ended."""
        self._unauthenticated.pop(connection, None)
        self._admitted.pop(connection, None)
        connection.state = State.CLOSED

    def _add_unauthenticated(self, connection: Connection) -> None:
        waiting = self._unauthenticated
        waiting[connection] = None
        if len(waiting) > self._most_unauthenticated:
            counts = Counter(each.group for each in waiting)
            most = max(counts.values())
            oldest = next(each for each in waiting if counts[each.group] == most)
            del waiting[oldest]
            oldest.drop()

    def _has_room(self) -> bool:
        if len(self._admitted) < self._most_admitted:
            return True
        idle = next((each for each in self._admitted if each.state is State.IDLE), None)
        if idle is None:
            return False
        del self._admitted[idle]
        idle.drop()
        return True


def _group(address: str) -> str:
    """What counts as one address: of IPv6, a network of 64 bits, which is what one machine has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> 64:x}::/64"
