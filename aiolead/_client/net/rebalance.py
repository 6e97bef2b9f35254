"""Who moves, and where to, when the list of servers changes: so that load stays even. Pure.

Every client decides for itself, by chance, by the rule of the Java client
(`HostConnectionManager.updateServerList`, ZOOKEEPER-1355). Of `s` servers before and `n` now, `o`
are in both lists; each server is to have `1/n` of all clients.

* *More servers than before* (`n > s`): a client of a server that stays leaves it with the
  probability `1 - s/n`, for one of the new servers; so do all clients of servers that are gone.
* *As many or fewer*: nobody leaves a server that stays. Each client of one that is gone goes to an
  old server with the probability `o (s - n) / (n (s - o))`, which brings those to `1/n`.

Within a group the order is random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

Server = tuple[str, int]


def moves(
    before: Sequence[Server], now: Sequence[Server], current: Server, rng: random.Random
) -> list[Server]:
    """Where a client should go that is connected to one of the servers.

    Args:
        before: the servers so far, each once.
        now: the servers from now on, each once; at least one.
        current: the one that the client is connected to.
        rng: decides.

    Returns:
        All servers in the order in which to try them; empty if the client should stay.
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
