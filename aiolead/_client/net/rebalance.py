"""Which clients move when the list of servers changes, and where to, so that load stays even. Pure.

Each client decides by chance, by the rule of the Java client
(`HostConnectionManager.updateServerList`, ZOOKEEPER-1355). Of `s` servers before and `n` now, `o`
are in both lists; each server is to have `1/n` of all clients.

* *More servers than before* (`n > s`): a client of a server that stays leaves it with the
  probability `1 - s/n`, for a new server. All clients of removed servers go to new ones, too.
* *As many or fewer*: nobody leaves a server that stays. A client of a removed one goes to an old
  server with the probability `o (s - n) / (n (s - o))`, which brings those to `1/n`.

Within a group the order is random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

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
