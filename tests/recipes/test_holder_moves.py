"""A holder whose server no longer confirms the lease finds another one before the lease ends."""

from __future__ import annotations

import random
from collections.abc import MutableSequence
from typing import Any

import anyio
from anyio.abc import ByteStream
from kit.virtual_time import VirtualClock, embedded, passes, virtually

import aiolead
from aiolead.testing import Hooks, MemoryProxy

SESSION_TIMEOUT = 4.0


class InOrder(random.Random):
    """Tries servers in the order of the connect string."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


@virtually
async def test_a_server_that_says_nothing_does_not_cost_the_lease() -> None:
    async with embedded() as server, anyio.create_task_group() as tasks:
        first, mute, third = (MemoryProxy(server) for _ in range(3))
        # As a server that is frozen: it takes connections, and that is all.
        mute.blackhole()
        proxies = {"10.0.0.1": first, "10.0.0.2": mute, "10.0.0.3": third}

        async def dial(host: str, port: int) -> ByteStream:
            return await proxies[host].dial(host, port)

        hooks = Hooks(dial=dial, clock=VirtualClock(), rng=InOrder())
        hosts = ",".join(f"{host}:2181" for host in proxies)
        async with aiolead.connect(hosts, session_timeout=SESSION_TIMEOUT, hooks=hooks) as client:
            async with aiolead.Election(client, "/moves").leadership() as term:
                first.blackhole()
                with anyio.fail_after(2 * SESSION_TIMEOUT):
                    while third.open_connections == 0:
                        term.check()
                        await passes(0.02)
                    # Renewed, through another server, and not merely what was left.
                    while term.remaining() < SESSION_TIMEOUT / 2:
                        await passes(0.02)
                term.check()
        assert mute.connections > 0, "the silent server was not tried"
        tasks.cancel_scope.cancel()
