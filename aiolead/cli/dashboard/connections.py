"""Which connections the dashboard keeps when there are too many. Pure.

Anybody who reaches the port can open connections and send nothing. They must neither keep out
clients that know the token, nor cost memory and descriptors without a bound.

| state | when | is dropped for |
|---|---|---|
| UNAUTHENTICATED | no request yet, or the last was rejected | another unauthenticated one |
| ACTIVE | an admitted request is being answered | nothing |
| STREAMING | the same, with events, for hours | a stream of its user; an admitted request |
| IDLE | it was answered, and the next one has not come | one whose request is admitted |

Of unauthenticated connections, the oldest of the address that has the most is dropped: one address
cannot push out others. Behind a proxy all have one address, but a client sends its request as it
connects, and is admitted long before it is the oldest. A proxy sends requests of different people
on one connection, so the state follows the last request.

Streams are for each user, that is, for an address and what it presents: the cookie of one browser,
or the token. One user has so many; then the oldest of them is dropped. If all together are too
many, it is the oldest one of the address that has the most. So a user
with many streams keeps out no other one, even of the same address. A browser whose stream was
dropped soon tries again.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import final

from .doors import address_in

MOST_UNAUTHENTICATED = 64
MOST_ADMITTED = 200
MOST_STREAMS = 32
"""For each user."""


class ConnectionStage(enum.Enum):
    """The state of a connection; see above."""

    UNAUTHENTICATED = "unauthenticated"
    ACTIVE = "active"
    STREAMING = "streaming"
    IDLE = "idle"
    CLOSED = "closed"


@final
@dataclass(slots=True, eq=False)
class BrowserConnection:
    """One connection; its state is CLOSED as soon as it is dropped."""

    group: str
    end: Callable[[], object]
    state: ConnectionStage = ConnectionStage.UNAUTHENTICATED
    user: str = ""

    @property
    def is_admitted(self) -> bool:
        return self.state not in (ConnectionStage.UNAUTHENTICATED, ConnectionStage.CLOSED)

    def drop(self) -> None:
        self.state = ConnectionStage.CLOSED
        self.end()


@final
class BrowserConnections:
    """Decides which connections to keep, by three limits of 1 or more."""

    def __init__(
        self,
        most_unauthenticated: int = MOST_UNAUTHENTICATED,
        most_admitted: int = MOST_ADMITTED,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self._most_unauthenticated = most_unauthenticated
        self._most_admitted = most_admitted
        self._most_streams = most_streams
        # In the order in which connections came into their state.
        self._all: dict[BrowserConnection, None] = {}

    def open(self, address: str, drop: Callable[[], object]) -> BrowserConnection:
        """Add a connection; another one may be dropped. `drop` ends it later, once at most."""
        connection = BrowserConnection(_group(address), drop)
        self._leave_unauthenticated(connection)
        return connection

    def admit(self, connection: BrowserConnection) -> bool:
        """Admit a request, perhaps by dropping another connection; False if it must be refused."""
        is_open = connection.state is not ConnectionStage.CLOSED
        if not is_open or not (connection.is_admitted or self._has_room()):
            return False
        self._move(connection, ConnectionStage.ACTIVE)
        return True

    def stream(self, connection: BrowserConnection, user: str) -> bool:
        """The admitted request has a stream of events as its answer; a stream of its user may be
        dropped. Whether the user has as many as one may have.
        """
        if connection.state is not ConnectionStage.ACTIVE:
            return False
        connection.user = user
        self._move(connection, ConnectionStage.STREAMING)
        streams = self._in(ConnectionStage.STREAMING)
        own = [one for one in streams if (one.group, one.user) == (connection.group, user)]
        if len(own) > self._most_streams:
            self._drop(own[0])
        return len(own) >= self._most_streams

    def reject(self, connection: BrowserConnection) -> None:
        if connection.is_admitted:
            self._leave_unauthenticated(connection)

    def rest(self, connection: BrowserConnection) -> None:
        """A request was answered."""
        if connection.state in (ConnectionStage.ACTIVE, ConnectionStage.STREAMING):
            self._move(connection, ConnectionStage.IDLE)

    def close(self, connection: BrowserConnection) -> None:
        self._all.pop(connection, None)
        connection.state = ConnectionStage.CLOSED

    def _in(self, state: ConnectionStage) -> list[BrowserConnection]:
        return [each for each in self._all if each.state is state]

    def _move(self, connection: BrowserConnection, state: ConnectionStage) -> None:
        self._all.pop(connection, None)
        connection.state = state
        self._all[connection] = None

    def _drop(self, connection: BrowserConnection) -> None:
        del self._all[connection]
        connection.drop()

    def _leave_unauthenticated(self, connection: BrowserConnection) -> None:
        self._move(connection, ConnectionStage.UNAUTHENTICATED)
        waiting = self._in(ConnectionStage.UNAUTHENTICATED)
        if len(waiting) > self._most_unauthenticated:
            self._drop(_oldest_of_most(waiting))

    def _has_room(self) -> bool:
        """Whether one more may be admitted, perhaps after another one was dropped."""
        if sum(each.is_admitted for each in self._all) < self._most_admitted:
            return True
        idle, streams = self._in(ConnectionStage.IDLE), self._in(ConnectionStage.STREAMING)
        if idle or streams:
            self._drop(idle[0] if idle else _oldest_of_most(streams))
        return bool(idle or streams)


def _oldest_of_most(connections: Collection[BrowserConnection]) -> BrowserConnection:
    """The first connection of the address that has the most of them."""
    counts = Counter(each.group for each in connections)
    most = max(counts.values())
    return next(each for each in connections if counts[each.group] == most)


def _group(address: str) -> str:
    """One client: an IPv4 address, or an IPv6 network of 64 bits, which one machine has."""
    parsed = address_in(address)
    return (
        f"{int(parsed) >> 64:x}::/64" if isinstance(parsed, IPv6Address) else str(parsed or address)
    )
