"""The faults of `MemoryProxy`, as a client sees them; on virtual time."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from kit.clients import Link
from kit.virtual_time import embedded, virtually, with_virtual_server

import aiolead
from aiolead import Client
from aiolead.errors import ConnectionLossError
from aiolead.testing import EmbeddedServer, MemoryProxy, OpCode

BREAKS: dict[str, Callable[[MemoryProxy], object]] = {
    "reset": lambda proxy: proxy.reset(),
    "fin": lambda proxy: proxy.fin(),
    "first byte of a reply": lambda proxy: proxy.cut_after(1, "to_client"),
    "request without its last byte": lambda proxy: proxy.cut_after(20, "to_server", "fin"),
}


@pytest.mark.parametrize("fault", BREAKS)
@virtually
async def test_broken_connection_loses_the_answer_and_the_next_one_serves(fault: str) -> None:
    async with embedded() as server:
        proxy = Link(server)
        async with proxy.connect() as client:
            create = client.create("/a", b"data")
            BREAKS[fault](proxy)
            with pytest.raises(ConnectionLossError):
                await create
            await client.ready()
            assert proxy.connections == 2
            assert proxy.open_connections == 1
    assert proxy.open_connections == 0


@pytest.mark.parametrize(("rule", "is_there"), [("drop_request", False), ("drop_reply", True)])
@with_virtual_server
async def test_dropped_message_is_lost_on_its_side_of_the_server(
    server: EmbeddedServer, link: Link, client: Client, rule: str, is_there: bool
) -> None:
    getattr(link, rule)(OpCode.CREATE2, after=1)
    await client.create("/first", b"")
    with pytest.raises(ConnectionLossError):
        await client.create("/second", b"")
    assert "/first" in server.znodes()
    assert ("/second" in server.znodes()) is is_there
    assert link.requests["CREATE2"] == 2
    await client.ready()
    await client.create("/third", b"")  # the rule was for one message


@with_virtual_server
async def test_requests_behind_a_skipped_one_reach_the_server(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    link.drop_request(OpCode.CREATE2, how="skip")
    lost, behind = client.create("/lost", b""), client.create("/behind", b"")
    for create in (lost, behind):  # the client does not trust an answer out of order
        with pytest.raises(ConnectionLossError):
            await create
    assert "/behind" in server.znodes()
    assert "/lost" not in server.znodes()


@with_virtual_server
async def test_down_server_refuses_connections_until_it_is_healed(
    link: Link, client: Client
) -> None:
    link.down()
    await anyio.sleep(2.0)
    assert (link.open_connections, link.connections) == (0, 1)
    link.heal()
    await client.ready()
    assert link.connections == 2


@virtually
async def test_ignored_connection_is_reset_by_heal() -> None:
    async with embedded() as server:
        proxy = Link(server)
        proxy.ignore()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heal_in, proxy, 1.0)
            async with proxy.connect() as client:
                await client.exists("/")
        assert server.sessions() == {}


async def heal_in(proxy: MemoryProxy, seconds: float) -> None:
    await anyio.sleep(seconds)
    proxy.heal()


@pytest.mark.parametrize("direction", ["to_server", "to_client", "both"])
@with_virtual_server
async def test_stalled_bytes_arrive_after_heal(
    server: EmbeddedServer, link: Link, client: Client, direction: str
) -> None:
    link.stall(direction)  # type: ignore[arg-type]
    creates = [client.create(f"/{n}", b"") for n in range(3)]
    await anyio.sleep(1.0)
    assert not any(create.is_done for create in creates)
    assert ("/2" in server.znodes()) is (direction == "to_client")
    link.heal()
    for create in creates:
        await create
    assert link.connections == 1


@with_virtual_server
async def test_partition_loses_what_is_sent_in_it(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    with link.partition():
        create = client.create("/lost", b"")
        await anyio.sleep(1.0)
    with pytest.raises(ConnectionLossError):
        await create
    assert "/lost" not in server.znodes()


@with_virtual_server
async def test_held_reply_holds_what_follows_until_it_is_released(
    link: Link, client: Client
) -> None:
    held = link.hold_reply(OpCode.CREATE2, after=1)
    creates = [client.create(f"/{n}", b"") for n in range(3)]
    await held.wait()
    await creates[0]
    assert held.is_held
    assert not creates[2].is_done
    held.release()
    await creates[2]
    assert link.connections == 1


@with_virtual_server
async def test_held_reply_is_lost_by_a_cut_or_by_the_end_of_its_connection(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    for number, end in enumerate((lambda held: held.cut(), lambda _: link.reset())):
        await client.ready()
        held = link.hold_reply(OpCode.CREATE2)
        create = client.create(f"/{number}", b"")
        await held.wait()
        end(held)
        with pytest.raises(ConnectionLossError):
            await create
        assert f"/{number}" in server.znodes()


@with_virtual_server
async def test_wait_for_a_request_that_does_not_come_times_out(link: Link, client: Client) -> None:
    with pytest.raises(TimeoutError, match=r"2 x SYNC within 3\.0 s"):
        await link.wait_for_request(OpCode.SYNC, count=2, timeout=3.0)


@with_virtual_server
async def test_silent_connection_ends_by_the_clients_own_time_limit(
    server: EmbeddedServer, link: Link, client: Client
) -> None:
    link.drop_reply(OpCode.CREATE2, how="silence")
    began = anyio.current_time()
    with pytest.raises(ConnectionLossError):
        await client.create("/a", b"")
    assert anyio.current_time() - began > 1.0
    await client.ready()
    assert "/a" in server.znodes()


async def test_clients_of_the_public_method_use_other_hooks_too() -> None:
    async with EmbeddedServer(port=None) as server:
        proxy = MemoryProxy(server)
        times: list[float] = []

        def clock() -> float:
            times.append(anyio.current_time())
            return times[-1]

        async with proxy.connect(hooks=aiolead.testing.Hooks(clock=clock)) as client:
            await client.create("/a", b"")
        assert times
        assert proxy.bytes["to_server"] == sum(map(len, proxy.segments))
