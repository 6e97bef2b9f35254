"""Answers that are lost, and servers that are: what values and counters make of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from kit.clients import PATIENCE, Wire, eventually, in_memory
from kit.virtual_time import connect as connect_virtually
from kit.virtual_time import embedded, virtually

from aiolead import ACL, Client, ConnectionLossError, Counter, Lock, LockLost, SharedValue
from aiolead._recipes.values.optimistic import compare_and_set
from aiolead._wire.codes import OpCode
from aiolead.errors import NoAuthError, Outcome
from aiolead.model import Permission, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

pytestmark = pytest.mark.timeout(60)

PATH = "/value"

Rival = Callable[[Client], Awaitable[object]]


async def nobody(_client: Client) -> None:
    pass


async def writes_other(client: Client) -> None:
    await client.set(PATH, b"other")


async def writes_same(client: Client) -> None:
    await client.set(PATH, b"mine")


async def writes_twice(client: Client) -> None:
    await client.set(PATH, b"other")
    await client.set(PATH, b"another")


async def deletes(client: Client) -> None:
    await client.delete(PATH)


async def replaces(client: Client) -> None:
    await client.delete(PATH)
    await client.create(PATH, b"first")


@pytest.mark.parametrize(
    ("rival", "is_applied", "found"),
    [
        (nobody, False, "applied now"),
        (nobody, True, "unknown"),
        (writes_other, False, "not applied"),
        (writes_other, True, "unknown"),
        (writes_same, False, "unknown"),
        (writes_twice, False, "unknown"),
        (deletes, False, "unknown"),
        (deletes, True, "unknown"),
        (replaces, False, "unknown"),
        (replaces, True, "unknown"),
    ],
)
async def test_what_became_of_a_write(rival: Rival, is_applied: bool, found: str) -> None:
    """Whatever it says is true: never that it was not applied if it was, nor the reverse."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        wire = Wire(server)
        async with wire.connect() as a:
            stat = (await a.create(PATH, b"first")).stat
            results: list[str] = []
            lost = anyio.Event()

            def on_state(state: SessionState, _session_id: int) -> None:
                if state is SessionState.SUSPENDED:
                    wire.hold()  # until the rival has written, it does not come to look
                    lost.set()

            async def write() -> None:
                try:
                    done = await compare_and_set(a, PATH, b"mine", stat, None)
                except ConnectionLossError as error:
                    results.append(error.outcome.value)
                else:
                    results.append("not applied" if done is None else "applied now")

            a.backend.subscribe(on_state)
            drop = server.drop_reply if is_applied else server.drop_request
            drop(OpCode.SET_DATA)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await lost.wait()
                await rival(b)
                wire.release()
        assert results == [found]


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not applied"])
async def test_the_answer_to_the_first_write_is_lost(is_applied: bool) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        if is_applied:
            server.drop_reply(OpCode.CREATE2)
            with pytest.raises(ConnectionLossError):
                await Counter(client, PATH).add(3)
        else:
            server.drop_request(OpCode.CREATE2)
            assert await Counter(client, PATH).add(3) == 3
        assert await Counter(client, PATH).get() == 3


@virtually
async def test_a_counter_never_counts_twice() -> None:
    """Every other answer is lost, or every other request: it says which, or that nobody knows."""
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        counters = Counter(a, PATH), Counter(b, PATH)
        await counters[0].set(0)
        confirmed = unknown = 0
        for number in range(8):
            if number % 4 == 1:
                server.drop_reply(OpCode.SET_DATA)
            if number % 4 == 3:
                server.drop_request(OpCode.SET_DATA)
            try:
                await counters[number % 2].add(1)
                confirmed += 1
            except ConnectionLossError as error:
                unknown += error.outcome is Outcome.UNKNOWN
        assert (confirmed, unknown) == (6, 2)
        assert await counters[0].get() == 8


@virtually
async def test_the_session_expires_in_the_middle() -> None:
    """What only reads is asked again in the next session; what was not sent is sent in that."""
    async with embedded() as server, connect_virtually(server) as client:
        counter = Counter(client, PATH)
        for number in range(1, 4):
            assert await counter.add(1) == number
            server.expire_session(client.session_id)
            with anyio.fail_after(PATIENCE):
                assert await counter.get() == number
                server.expire_session(client.session_id)


@virtually
async def test_a_view_survives_what_happens() -> None:
    async with embedded() as server, connect_virtually(server) as a, connect_virtually(server) as b:
        mine = SharedValue(a, PATH, 0, codec=Codec.int32())
        theirs = SharedValue(b, PATH, 0, codec=Codec.int32())
        async with mine.observe() as view:
            for number in range(1, 9):
                match number % 4:
                    case 0:
                        server.expire_session(a.session_id)
                    case 1:
                        server.disconnect(a.session_id)
                    case 2:
                        server.drop_reply(OpCode.GET_DATA)
                    case _:
                        server.throttle(OpCode.GET_DATA)
                if number % 5 == 0:
                    await b.delete(PATH)
                await theirs.set(number)
                await eventually(lambda n=number: view.value == n, "it is seen")
                await eventually(lambda: view.is_live, "it is watched again")


async def test_what_a_server_refuses_ends_it() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH, b"", acl=[ACL.world(Permission.WRITE | Permission.DELETE)])
        with pytest.raises(NoAuthError):
            async with SharedValue(client, PATH).observe():
                pass
        with pytest.raises(NoAuthError):
            await SharedValue(client, PATH).get()
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_who_holds_the_lock_dies() -> None:
    """The others get their turn."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        with pytest.raises(LockLost):
            async with Lock(b, f"{PATH}/lock") as held, anyio.create_task_group() as tasks:
                tasks.start_soon(Counter(a, PATH, promote_after=0).add, 1)
                await eventually(lambda: held.path in server.watches(), "it waits")
                server.expire_session(held.session_id)
                await anyio.sleep_forever()
        await eventually(lambda: _is(Counter(a, PATH), 1), "it has counted")


async def _is(counter: Counter, value: int) -> bool:
    return await counter.get() == value
