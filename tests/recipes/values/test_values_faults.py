"""Answers that are lost, and servers that are: what values and counters make of it."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import PATIENCE, Wire, eventually, in_memory
from kit.virtual_time import Drop, embedded, lost_message, virtually
from kit.virtual_time import connect as connect_virtually
from recipes.blocks import enter

from aiolead import ACL, ConnectionLossError, Counter, Lock, LockLost, SharedValue
from aiolead._recipes.values.optimistic import compare_and_set
from aiolead._wire.codes import OpCode
from aiolead.errors import NoAuthError, Outcome
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

pytestmark = pytest.mark.timeout(60)

PATH = "/value"


RIVALS: dict[str, list[tuple[str, bytes]]] = {
    "nobody": [],
    "writes other data": [("set", b"other")],
    "writes the same data": [("set", b"mine")],
    "writes twice": [("set", b"other"), ("set", b"another")],
    "deletes": [("delete", b"")],
    "replaces": [("delete", b""), ("create", b"first")],
}
"""What another client does while nobody knows what became of a write."""


@pytest.mark.parametrize(
    ("rival", "is_applied", "found"),
    [
        ("nobody", False, "applied now"),
        ("nobody", True, "unknown"),
        ("writes other data", False, "not applied"),
        ("writes other data", True, "unknown"),
        ("writes the same data", False, "unknown"),
        ("writes twice", False, "unknown"),
        ("deletes", False, "unknown"),
        ("deletes", True, "unknown"),
        ("replaces", False, "unknown"),
        ("replaces", True, "unknown"),
    ],
)
async def test_outcome_of_a_lost_write(rival: str, is_applied: bool, found: str) -> None:
    """It never says that it was not applied if it was, nor the reverse."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        wire = Wire(server)
        async with wire.connect() as a:
            stat = (await a.create(PATH, b"first")).stat
            results: list[str] = []

            async def write() -> None:
                try:
                    done = await compare_and_set(a, PATH, b"mine", stat, None)
                except ConnectionLossError as error:
                    results.append(error.outcome.value)
                else:
                    results.append("not applied" if done is None else "applied now")

            (server.drop_reply if is_applied else server.drop_request)(OpCode.SET_DATA)
            lost = wire.hold_at_loss(a)  # it does not come back before the rival has written
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await lost.wait()
                for what, data in RIVALS[rival]:
                    await (b.delete(PATH) if what == "delete" else getattr(b, what)(PATH, data))
                wire.release()
        assert results == [found]


@lost_message
async def test_lost_message_of_the_first_write_counts_once(drop: Drop) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        counter = Counter(client, PATH)
        drop(server, OpCode.CREATE2)
        if drop is EmbeddedServer.drop_reply:
            with pytest.raises(ConnectionLossError):
                await counter.add(3)
        else:
            assert await counter.add(3) == 3
        assert await counter.get() == 3


@virtually
async def test_counter_counts_once_whatever_message_is_lost() -> None:
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
async def test_counter_goes_on_over_expired_sessions() -> None:
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
async def test_view_goes_on_over_lost_links_and_sessions() -> None:
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


async def test_refused_read_is_raised() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH, b"", acl=[ACL.world(Permission.WRITE | Permission.DELETE)])
        with pytest.raises(NoAuthError):
            await enter(SharedValue(client, PATH).observe())
        with pytest.raises(NoAuthError):
            await SharedValue(client, PATH).get()
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_counter_goes_on_when_the_holder_of_its_lock_dies() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        counter = Counter(a, PATH, promote_after=0)

        async def has_counted() -> bool:
            return await counter.get() == 1

        with pytest.raises(LockLost):
            async with Lock(b, f"{PATH}/lock") as held, anyio.create_task_group() as tasks:
                tasks.start_soon(counter.add, 1)
                await eventually(lambda: held.path in server.watches(), "it waits")
                server.expire_session(held.session_id)
                await anyio.sleep_forever()
        await eventually(has_counted, "it has counted")
