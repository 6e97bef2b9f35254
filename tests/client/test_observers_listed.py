"""Holds in an ensemble that has observers: each proof of the lease takes two rounds there."""

from __future__ import annotations

import anyio
import pytest
from kit.faults import eventually

import aiolead
from aiolead.testing import EmbeddedServer

TIMEOUT = 1.0

# Beside observers a lease may be as short as a quarter of the session timeout.
pytestmark = pytest.mark.keeps_time(TIMEOUT / 2)

VOTER = "server.1=127.0.0.1:2888:3888:participant\n"
OBSERVER = "server.2=127.0.0.1:2889:3889:observer\n"


def connect(server: EmbeddedServer) -> aiolead.Connection:
    return aiolead.connect(server.connect_string, session_timeout=TIMEOUT)


def is_direct(client: aiolead.Client) -> bool:
    return client._core.machine._lease_proof.is_direct


async def renewed(server: EmbeddedServer, times: int) -> None:
    before = server.requests["MULTI"]
    await eventually(lambda: server.requests["MULTI"] >= before + times, f"{times} renewals")


@pytest.mark.parametrize("config", [VOTER, VOTER + OBSERVER], ids=["voters", "observer"])
async def test_a_hold_is_kept_with_or_without_observers(config: str) -> None:
    async with (
        EmbeddedServer(tick_time=0.25, config=config) as server,
        connect(server) as client,
        aiolead.Lock(client, "/l") as held,
    ):
        await renewed(server, 20 if OBSERVER in config else 10)
        held.check()
        assert is_direct(client) == (OBSERVER not in config)


async def test_a_waiter_begins_to_hold_with_enough_lease_after_a_long_wait() -> None:
    """Its own session has proven nothing for long: it takes two rounds, half a tick apart."""
    async with (
        EmbeddedServer(tick_time=0.25, config=VOTER + OBSERVER) as server,
        connect(server) as a,
        connect(server) as b,
        anyio.create_task_group() as tasks,
    ):
        waits = anyio.Event()
        left: list[float] = []

        async def wait() -> None:
            waits.set()
            async with aiolead.Lock(b, "/l") as held:
                left.append(held.remaining())
                await renewed(server, 10)
                held.check()

        async with aiolead.Lock(a, "/l"):
            tasks.start_soon(wait)
            await waits.wait()
            await renewed(server, 20)
            assert b.backend.lease.remaining() == 0
    assert left[0] >= TIMEOUT / 8
