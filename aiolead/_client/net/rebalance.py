"""Who moves, and where to, when the list of servers changes: so that load stays even. Pure.

Every client decides for itself, by chance, without knowing of the others. The rule is that of the
Java client (`HostConnectionManager.updateServerList`, ZOOKEEPER-1355); why it is right:

Let the list have had `s` servers, each with the share `1/s` of all clients, and have `n` now, of
which `o` were in the old list and `k = n - o` were not. What is wanted is `1/n` on each.

* *More servers than before* (`n > s`). A server that stays has too much. Each of its clients leaves
  it with the probability `1 - s/n`, for one of the new servers; what stays is `1/s * s/n = 1/n`.
  All clients of servers that are gone go to new servers, too. What comes there is what does not
  stay on the `o` old ones: `1 - o/n = k/n`, so `1/n` for each of the `k`.
* *As many or fewer* (`n <= s`). A server that stays lacks `1/n - 1/s`, so none of its clients
  leaves. The clients of the `s - o` servers that are gone, `(s - o)/s` of all, are to bring to the
  `o` old ones `o (1/n - 1/s)`, and the rest to the new ones. So each of them goes to an old server
  with the probability

      o (1/n - 1/s) / ((s - o)/s)  =  o (s - n) / (n (s - o))

Within a group the order is random. A server that does not take us is passed over for the next one,
of the same group if the draw says so and there is one left.
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
