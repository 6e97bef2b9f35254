"""Leases: when they are renewed, what a refused renewal costs, and that waiting costs nothing.

The unit tests of the session ask `next_deadline`, so they cannot see a missing wake-up.
"""

from __future__ import annotations

import logging
import time
from contextlib import AsyncExitStack

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, JumpingClock, Owner, connect, eventually
from kit.virtual_time import SESSION, VirtualClock, embedded, passes, virtually, with_virtual_server
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import ACL, Client, CreateMode, Lock
from aiolead.errors import LockLost, LossReason
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode

GRAIN = 0.01
"""How exactly moments are seen, in seconds."""

UNREADABLE = [ACL(Permission.ALL & ~Permission.READ, "world", "anyone")]


async def renewal(server: EmbeddedServer) -> float:
    """When the next renewal reaches the server."""
    before = server.requests["MULTI"]
    while server.requests["MULTI"] == before:
        await passes(GRAIN)
    return anyio.current_time()


@virtually
@pytest.mark.parametrize("urgent", [True, False])
async def test_new_hold_is_confirmed_as_soon_as_it_is_due(urgent: bool) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        await client.create("/kept", mode=CreateMode.EPHEMERAL)
        await passes(GRAIN)
        began = anyio.current_time()
        options = {"urgent": True} if urgent else {}
        hold = client.backend.lease.hold("/kept", Owner(), **options)
        confirmed = await renewal(server)
        assert confirmed - began == pytest.approx(0.0 if urgent else 0.1, abs=2 * GRAIN)
        hold.release()


@with_virtual_server
async def test_refused_renewal_is_tried_again_after_its_pause(
    server: EmbeddedServer, client: Client
) -> None:
    async with Lock(client, "/lock") as held:
        await renewal(server)
        server.throttle(OpCode.MULTI)
        refused = await renewal(server)
        again = await renewal(server)
        assert again - refused == pytest.approx(SESSION / 32, abs=2 * GRAIN)
        assert held.is_held


@virtually
async def test_other_holds_are_confirmed_at_once_when_one_is_refused() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        lost: list[LossReason] = []
        for path, acl in {"/kept": None, "/lost": UNREADABLE}.items():
            await client.create(path, mode=CreateMode.EPHEMERAL, acl=acl)
        kept = client.backend.lease.hold("/kept", Owner(lost.append), urgent=True)
        await renewal(server)
        refused = client.backend.lease.hold("/lost", Owner(lost.append), urgent=True)
        before = server.requests["MULTI"]
        await renewal(server)
        await passes(GRAIN)
        assert server.requests["MULTI"] == before + 2
        assert lost == [LossReason.REFUSED]
        kept.release()
        refused.release()


@virtually
async def test_failed_report_of_loss_is_repeated(internal_errors: list[logging.LogRecord]) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        times = []

        def lost(_reason: LossReason) -> None:
            times.append(anyio.current_time())
            if len(times) == 1:
                raise RuntimeError("the first report fails")

        await client.create("/lost", mode=CreateMode.EPHEMERAL)
        hold = client.backend.lease.hold("/lost", Owner(lost))
        await renewal(server)
        hold.lose(LossReason.DELETED)
        while len(times) < 2:
            await passes(GRAIN)
        assert times[1] - times[0] <= 2 * GRAIN
        hold.release()
    assert len(internal_errors) == 1


LONG = 1000.0
"""So long that nothing is due within a minute, in seconds."""


@virtually
async def test_holder_loses_soon_after_the_machine_wakes_up() -> None:
    """The lease's clock has gone on while the machine was suspended, the event loop's has not."""
    clock = JumpingClock(VirtualClock())
    async with (
        embedded(max_session_timeout=LONG) as server,
        connect_virtually(server, session_timeout=LONG, clock=clock) as client,
    ):
        with pytest.raises(LockLost) as lost:
            async with Lock(client, "/l"):
                machine = client._core.machine
                # Until it has settled and was renewed. A client that was woken sleeps briefly once.
                await passes(60.0)
                assert machine.next_deadline() > clock() + 60.0
                woken_at = anyio.current_time()
                clock.jump(LONG)
                await anyio.sleep_forever()
        assert lost.value.reason is LossReason.UNCONFIRMED
        assert anyio.current_time() - woken_at <= 1.1


# --- znodes that the servers do not confirm ------------------------------------------------------


def session_timeout(server: ServerUnderTest) -> float:
    """Holds are renewed four times per timeout. A real server takes its time on a busy machine."""
    return 2.0 if server.kind == "embedded" else 4.0


@pytest.mark.parametrize("is_first", [True, False], ids=["first renewal", "later renewal"])
async def test_unconfirmed_znode_ends_its_hold(server: ServerUnderTest, is_first: bool) -> None:
    async with connect(server, session_timeout=session_timeout(server)) as client:
        kept: list[LossReason] = []
        lost: list[LossReason] = []
        await client.create("/kept", mode=CreateMode.EPHEMERAL)
        await client.create("/lost", mode=CreateMode.EPHEMERAL)
        keeps = client.backend.lease.hold("/kept", Owner(kept.append), urgent=True)
        if is_first:
            await client.set_acl("/lost", UNREADABLE)
        loses = client.backend.lease.hold("/lost", Owner(lost.append), urgent=True)
        if not is_first:
            await eventually(lambda: client.statistics().renewals >= 2, "both are confirmed")
            assert lost == []
            await client.set_acl("/lost", UNREADABLE)
        await eventually(lambda: lost, "it is lost")
        assert lost == [LossReason.REFUSED]
        loses.release()
        before = client.statistics().renewals
        await eventually(
            lambda: client.statistics().renewals > before + 1, "the other is confirmed"
        )
        assert (kept, client.statistics().late_renewals) == ([], 0)
        keeps.release()


async def test_lock_whose_znode_becomes_unreadable_is_refused(server: ServerUnderTest) -> None:
    async with connect(server, session_timeout=session_timeout(server)) as client:
        other = aiolead.Lock(client, "/other")
        async with other as held_on:
            with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as raised:
                async with aiolead.Lock(client, "/lock") as held:
                    await client.set_acl(held.path, UNREADABLE)
                    await anyio.sleep_forever()
            assert raised.value.reason is LossReason.REFUSED
            assert "refused to confirm the znode" in str(raised.value)
            held_on.check()
            with anyio.fail_after(PATIENCE):
                async with aiolead.Lock(client, "/lock"):
                    pass


# --- idle clients --------------------------------------------------------------------------------

# I17: a client that waits, or has no connection, leaves the processor alone. The test measures the
# time that this thread has computed, not how long that took; servers and proxies are in threads of
# their own. A loop without a pause takes most of a processor, even on the busiest machine.

SHORT = 4.0
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


async def test_waiting_clients_leave_the_processor_idle() -> None:
    with EmbeddedServer.in_thread() as server:
        host, _, port = server.connect_string.rpartition(":")
        async with AsyncExitStack() as stack:

            async def client(hosts: str) -> aiolead.Client:
                connection = aiolead.connect(hosts, session_timeout=SHORT, connect_timeout=PATIENCE)
                return await stack.enter_async_context(connection)

            isolated: list[tuple[FaultProxy, aiolead.Client]] = []
            for _ in FAULTS:
                proxy = stack.enter_context(FaultProxy(host, int(port)))
                isolated.append((proxy, await client(proxy.connect_string)))
            holder, waiter = [await client(server.connect_string) for _ in range(2)]

            async def wait() -> None:
                async with aiolead.Lock(waiter, "/l"):
                    raise AssertionError("it holds")

            async with aiolead.Lock(holder, "/l"), anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                watches = waiter._core.machine.watches
                await eventually(lambda: len(watches) >= 2, "the other one waits")
                for fault, (proxy, _) in zip(FAULTS, isolated, strict=True):
                    fault(proxy)
                assert await share() < MOST
                tasks.cancel_scope.cancel()
            for proxy, client_of_proxy in isolated:
                proxy.heal()
                with anyio.fail_after(PATIENCE):
                    await client_of_proxy.ready()
