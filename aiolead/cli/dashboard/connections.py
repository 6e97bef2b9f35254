"""Which connections the dashboard keeps when there are too many. Pure.

Anybody who reaches the port can open connections and send nothing. They must neither keep out
clients that know the token, nor cost memory and descriptors without a bound.

| state | when | is dropped for |
|---|---|---|
| UNAUTHENTICATED | no request yet, or the last was rejected | another unauthenticated one |
| ACTIVE | an admitted request is being answered; streams, for hours | nothing |
| IDLE | it was answered, and the next one has not come | one whose request is admitted |

Of unauthenticated connections, the oldest of the address that has the most is dropped: one address
cannot push out others. Behind a proxy all have one address, but a client sends its request as it
connects, and is admitted long before it is the oldest. A proxy sends requests of different people
on one connection, so the state follows the last request.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import final

from .doors import address_in

MOST_UNAUTHENTICATED = 64
MOST_ADMITTED = 200


class ConnectionStage(enum.Enum):
    """The state of a connection; see above."""

    UNAUTHENTICATED = "unauthenticated"
    ACTIVE = "active"
    IDLE = "idle"
    CLOSED = "closed"


@final
@dataclass(slots=True, eq=False)
class BrowserConnection:
    """One connection; its state is CLOSED as soon as it is dropped."""

    group: str
    end: Callable[[], object]
    state: ConnectionStage = ConnectionStage.UNAUTHENTICATED

    @property
    def is_admitted(self) -> bool:
        return self.state in (ConnectionStage.ACTIVE, ConnectionStage.IDLE)

    def drop(self) -> None:
        self.state = ConnectionStage.CLOSED
        self.end()


@final
class BrowserConnections:
    """Decides which connections to keep, by two limits of 1 or more."""

    def __init__(
        self,
        most_unauthenticated: int = MOST_UNAUTHENTICATED,
        most_admitted: int = MOST_ADMITTED,
    ) -> None:
        self._most_unauthenticated = most_unauthenticated
        self._most_admitted = most_admitted
        # Both in the order in which connections came into their state.
        self._unauthenticated: dict[BrowserConnection, None] = {}
        self._admitted: dict[BrowserConnection, None] = {}

    def open(self, address: str, drop: Callable[[], object]) -> BrowserConnection:
        """Add a connection; another one may be dropped. `drop` ends it later, once at most."""
        connection = BrowserConnection(_group(address), drop)
        self._add_unauthenticated(connection)
        return connection

    def admit(self, connection: BrowserConnection) -> bool:
        """Admit a request, perhaps by dropping an idle connection; False if it must be refused."""
        match connection.state:
            case ConnectionStage.CLOSED:
                return False
            case ConnectionStage.UNAUTHENTICATED:
                if not self._has_room():
                    return False
                del self._unauthenticated[connection]
                self._admitted[connection] = None
        connection.state = ConnectionStage.ACTIVE
        return True

    def reject(self, connection: BrowserConnection) -> None:
        if connection.is_admitted:
            del self._admitted[connection]
            connection.state = ConnectionStage.UNAUTHENTICATED
            self._add_unauthenticated(connection)

    def rest(self, connection: BrowserConnection) -> None:
        """A request was answered."""
        if connection.state is ConnectionStage.ACTIVE:
            connection.state = ConnectionStage.IDLE
            del self._admitted[connection]
            self._admitted[connection] = None  # the last of those that are idle

    def close(self, connection: BrowserConnection) -> None:
        self._unauthenticated.pop(connection, None)
        self._admitted.pop(connection, None)
        connection.state = ConnectionStage.CLOSED

    def _add_unauthenticated(self, connection: BrowserConnection) -> None:
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
        idle = next((each for each in self._admitted if each.state is ConnectionStage.IDLE), None)
        if idle is None:
            return False
        del self._admitted[idle]
        idle.drop()
        return True


def _group(address: str) -> str:
    """One client: an IPv4 address, or an IPv6 network of 64 bits, which one machine has."""
    parsed = address_in(address)
    return (
        f"{int(parsed) >> 64:x}::/64" if isinstance(parsed, IPv6Address) else str(parsed or address)
    )
