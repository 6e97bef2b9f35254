"""The servers of a client: which one to try next, and which clients move when the list changes.

Each client decides by chance, by the rule of the Java client
(`HostConnectionManager.updateServerList`, ZOOKEEPER-1355), so that load stays even. Of `s` servers
before and `n` now, `o` are in both lists; each server is to have `1/n` of all clients.

* *More servers than before* (`n > s`): a client of a server that stays leaves it with the
  probability `1 - s/n`, for a new server. All clients of removed servers go to new ones, too.
* *As many or fewer*: nobody leaves a server that stays. A client of a removed one goes to an old
  server with the probability `o (s - n) / (n (s - o))`, which brings those to `1/n`.

Within a group the order is random.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence

from ..._util.name_lookup import is_literal
from ..._util.racing import by_family
from ...paths import format_host
from .known_addresses import KnownAddresses

Server = tuple[str, int]


def moves(
    before: Sequence[Server], now: Sequence[Server], current: Server, rng: random.Random
) -> list[Server]:
    """Returns all servers in the order in which to try them; nothing if the client should stay.

    `before` and `now` have each server once; `now` has at least one.
    """
    old = [server for server in now if server in before]
    new = [server for server in now if server not in before]
    stays = current in now
    if len(now) > len(before):
        if stays and rng.random() >= 1 - len(before) / len(now):
            return []
        to_old = 0.0
    elif stays:
        return []
    else:
        # `before` has the current server, which `now` has not, so that it has more than `old`.
        gone = len(before) - len(old)
        to_old = len(old) * (len(before) - len(now)) / (len(now) * gone) if gone else 1.0
    rng.shuffle(old)
    rng.shuffle(new)
    order: list[Server] = []
    while old and new:
        group = old if rng.random() < to_old else new
        order.append(group.pop())
    return [*order, *reversed(new), *reversed(old)]


class HostList:
    """Names are looked up for every attempt, since addresses change (ZOOKEEPER-2184)."""

    def __init__(
        self, hosts: Sequence[Server], rng: random.Random, addresses: KnownAddresses
    ) -> None:
        self._hosts = tuple(dict.fromkeys(hosts))
        self._rng = rng
        self._addresses = addresses
        self._current: Server | None = None
        self._bound_for: Server | None = None
        self._plan: list[Server] = []
        """The order of the next round, after the list has changed."""
        self.has_changed: bool = False
        """Whether the list has changed since the last round began."""

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def servers(self) -> Sequence[Server]:
        return self._hosts

    def __iter__(self) -> Iterator[str]:
        return (format_host(host, port) for host, port in self._hosts)

    def round(self) -> list[Server]:
        """Every server once, in random order; the one that was just lost comes last."""
        self.has_changed = False
        if self._plan:
            order, self._plan = self._plan, []
            return order
        self._bound_for = None
        order = self.shuffled()
        order.sort(key=lambda host: host == self._current)
        return order

    def prefer(self, server: Server) -> None:
        """Makes the next round begin with a server."""
        self._bound_for = server
        self._plan = sorted(self._hosts, key=lambda host: host != server)

    def shuffled(self) -> list[Server]:
        order = list(self._hosts)
        self._rng.shuffle(order)
        return order

    def opened(self, server: Server) -> bool:
        """Notes that a server serves us; False if it is not listed any more: leave it."""
        self._current = server
        self._bound_for = None
        self._plan.clear()
        return server in self._hosts

    def update(self, hosts: Sequence[Server]) -> bool:
        """Replaces the list; whether the client must leave its server, see `rebalance`."""
        before, now = self._hosts, tuple(dict.fromkeys(hosts))
        if set(now) == set(before):
            return False
        self._hosts = now
        self.has_changed = True
        # A client that is moving counts for its destination.
        here = self._bound_for or self._current
        if here is None:
            return False
        plan = moves(before, now, here, self._rng)
        if not plan and self._bound_for is not None:
            plan = sorted(now, key=lambda server: server != here)
        self._plan = plan
        self._bound_for = plan[0] if plan else None
        return bool(plan)

    def look_ahead(self) -> None:
        """Begin to look up the names of all servers."""
        self._addresses.look_ahead(self._hosts)

    def count_addresses(self) -> int:
        """How many addresses are known; a name that is not resolved counts for one."""
        return sum(map(self._addresses.count, self._hosts))

    async def resolve(self, server: Server, patience: float) -> list[str]:
        """Return a server's addresses in random order, in turn by family; see `by_family`.

        For the rest see `KnownAddresses.of`.
        """
        addresses = await self._addresses.of(server, patience)
        if not is_literal(server[0]):
            self._rng.shuffle(addresses)
        return by_family(addresses)


FIRST = 0.05
LONGEST = 1.0

MANY = 4
"""How many connections of a session that another process may have are replaced at once within one
session timeout. More of them are probably lost to that process, which resumes the session, too.
"""


class Backoff:
    """Exponential back-off with full jitter: a random part of a limit that doubles each round.

    The first retry after a success is immediate. The limit is at most a tenth of the session
    timeout, since the session must outlive the wait. Two clients that take one session from each
    other go on with longer pauses, a quarter of it at most: each success has renewed the holds.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._round = 0
        self._successes: deque[float] = deque(maxlen=MANY)
        """When the last connections with a session that may be shared were lost."""
        self._is_contested = False
        """Whether another client takes the session again and again."""

    def succeeded(self, now: float, session_timeout: float, *, is_shared: bool) -> None:
        """Reset after a session was established; a bare TCP connection is no success.

        `is_shared`: another process may have the session.
        """
        lately = self._successes
        if not is_shared or (lately and now - lately[-1] > session_timeout):
            lately.clear()  # this connection has lasted
        is_often = len(lately) == MANY and now - lately[0] <= session_timeout
        self._is_contested = is_often or (self._is_contested and len(lately) == MANY)
        if not self._is_contested:
            self._round = 0
        lately.append(now)

    def delay(self, session_timeout: float) -> float:
        """Return the seconds to wait before the next round."""
        self._round += 1
        if self._round == 1:
            return 0.0
        longest = session_timeout / (4 if self._is_contested else 10)
        limit = min(FIRST * 2 ** min(self._round - 2, 16), LONGEST, longest)
        return self._rng.uniform(0.0, limit)
