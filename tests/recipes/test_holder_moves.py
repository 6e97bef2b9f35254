"""A holder whose server no longer confirms the lease finds another one before the lease ends."""

from __future__ import annotations

import random
from collections.abc import MutableSequence
from contextlib import ExitStack
from typing import Any

import anyio

import aiolead
from aiolead.testing import FaultProxy, Hooks, ThreadedServer
from aiolead.testing.embedded import EmbeddedServer

SESSION_TIMEOUT = 4.0


class InOrder(random.Random):
    """Tries servers in the order of the connect string."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


async def test_a_server_that_says_nothing_does_not_cost_the_lease() -> None:
    with ExitStack() as stack:
        server: ThreadedServer = stack.enter_context(EmbeddedServer.in_thread())
        first, mute, third = (
            stack.enter_context(FaultProxy("127.0.0.1", server.port)) for _ in range(3)
        )
        # As a server that is frozen: it takes connections, and that is all.
        mute.blackhole()
        hosts = ",".join(proxy.connect_string for proxy in (first, mute, third))
        async with aiolead.connect(
            hosts, session_timeout=SESSION_TIMEOUT, hooks=Hooks(rng=InOrder())
        ) as client:
            async with aiolead.Election(client, "/moves").leadership() as term:
                first.blackhole()
                with anyio.fail_after(30):
                    while third.open_connections == 0:
                        term.check()
                        await anyio.sleep(0.02)
                    # Renewed, through another server, and not merely what was left.
                    while term.remaining() < SESSION_TIMEOUT / 2:  # noqa: ASYNC110
                        await anyio.sleep(0.02)
                term.check()
        assert mute.connections > 0, "the silent server was not tried"
