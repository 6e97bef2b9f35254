"""I17: a client that waits, or has no link, leaves the processor alone.

What counts is the time that this thread has computed, not how long that took; servers and proxies
are in threads of their own. A loop that goes round and round takes most of a processor, and a good
share of one on the busiest machine.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import anyio
from kit.clients import PATIENCE, eventually

import aiolead
from aiolead.testing import EmbeddedServer, FaultProxy

SESSION = 4.0
"""Keeps a client as busy as a short session timeout does: pings, renewals, attempts to connect."""

WATCHED = 2.0
"""For how long it is looked at, in seconds."""

MOST = 0.05
"""The share of a processor that six clients may take. (It is below 0.005, in debug mode 0.02.)"""

FAULTS = (FaultProxy.refuse, FaultProxy.ignore, FaultProxy.blackhole, FaultProxy.fin)


async def share() -> float:
    """How much of a processor this thread takes for a while."""
    began, computed = time.monotonic(), time.thread_time()
    await anyio.sleep(WATCHED)
    return (time.thread_time() - computed) / (time.monotonic() - began)


async def test_waiting_and_being_without_a_link_cost_next_to_nothing() -> None:
    with EmbeddedServer.in_thread() as server:
        host, _, port = server.connect_string.rpartition(":")
        async with AsyncExitStack() as stack:

            async def client(hosts: str) -> aiolead.Client:
                connection = aiolead.connect(
                    hosts, session_timeout=SESSION, connect_timeout=PATIENCE
                )
                return await stack.enter_async_context(connection)

            cut_off: list[tuple[FaultProxy, aiolead.Client]] = []
            for _ in FAULTS:
                proxy = stack.enter_context(FaultProxy(host, int(port)))
                cut_off.append((proxy, await client(proxy.connect_string)))
            holder, waiter = [await client(server.connect_string) for _ in range(2)]

            async def wait() -> None:
                async with aiolead.Lock(waiter, "/l"):
                    raise AssertionError("it holds")

            async with aiolead.Lock(holder, "/l"), anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                watches = waiter._core.machine.watches
                await eventually(lambda: len(watches) >= 2, "the other one waits")
                for fault, (proxy, _) in zip(FAULTS, cut_off, strict=True):
                    fault(proxy)
                assert await share() < MOST
                tasks.cancel_scope.cancel()
            for proxy, client_cut_off in cut_off:
                proxy.heal()
                with anyio.fail_after(PATIENCE):
                    await client_cut_off.ready()
