"""Long answers on each event loop: other tasks have their turn while they are decoded."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from kit.clients import PATIENCE, connect

from aiolead import Client, Lock
from aiolead._session import machine as machines
from aiolead._wire import long_frames
from aiolead.testing import EmbeddedServer

COUNT = 2_000
NAMES = [f"{'n' * 200}-{number:010d}" for number in range(COUNT)]
"""Together they are longer than one read of a connection, so that their answer is a long one."""


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LONG", 10_000)
    monkeypatch.setattr(long_frames, "PIECE", 100_000)
    monkeypatch.setattr(long_frames, "STEP", 1_600)  # 50 names


async def turns_during(client: Client, what: str) -> tuple[object, int]:
    """What an operation gives, and how many turns another task has had after its answer came."""
    machine, turns = client._core.machine, 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += machine.decoding is not None

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        found: object
        match what:
            case "names":
                found = sorted(await client.get_children("/a"))
            case "data":
                found = (await client.get("/data"))[0]
            case _:
                reads = client.reads().get("/data").get_children("/a")
                one, other = await reads
                assert isinstance(one, tuple)
                assert isinstance(other, list)
                found = one[0], sorted(other)
        tasks.cancel_scope.cancel()
    return found, turns


async def test_other_tasks_run_while_a_long_answer_is_decoded() -> None:
    data = bytes(range(250)) * 1_000
    async with EmbeddedServer() as server:
        server.create("/a")
        server.create("/data", data)
        for name in NAMES:
            server.create(f"/a/{name}")
        async with connect(server, server_version="3.9.0") as client, Lock(client, "/lock") as held:
            assert await turns_during(client, "names") >= (NAMES, COUNT // 50)
            assert await turns_during(client, "data") >= (data, len(data) // 1_600 - 1)
            assert await turns_during(client, "both") >= ((data, NAMES), COUNT // 50)
            # Answers stay in the order of the calls, also of short ones behind long ones.
            replies = [client.get_children("/a"), client.get("/data"), client.get("/lock")]
            done: list[int] = []
            for number, reply in enumerate(replies):
                reply.add_done_callback(lambda number=number: done.append(number))
            for reply in reversed(replies):
                await reply
            assert done == [0, 1, 2]
            await held.verify()
            assert client.statistics().suspensions == 0


async def test_a_connection_lost_while_an_answer_is_decoded_costs_nothing() -> None:
    async with EmbeddedServer() as server:
        server.create("/a")
        for name in NAMES:
            server.create(f"/a/{name}")
        async with connect(server) as client:
            reply = client.get_children("/a")
            machine = client._core.machine
            with anyio.fail_after(PATIENCE):
                while machine.decoding is None:
                    await anyio.lowlevel.checkpoint()
            server.disconnect()
            assert sorted(await reply) == NAMES
            assert (await client.get("/a"))[0] == b""
