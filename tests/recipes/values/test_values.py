"""Shared values and counters: reading, writing, comparing, observing; and over faults."""

from __future__ import annotations

import random
import struct
from contextlib import AsyncExitStack

import anyio
import pytest
from kit.clients import (
    PATIENCE,
    Link,
    catch_up,
    children_are,
    eventually,
    in_memory,
    watches_the_bytes,
)
from kit.virtual_time import Drop, embedded, lost_message, virtually
from kit.virtual_time import connect as connect_virtually
from recipes.blocks import enter

from aiolead import ACL, Client, ConnectionLossError, Counter, Lock, LockLost, SharedValue
from aiolead._recipes.values import compare_and_set
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    ClientClosedError,
    CounterOverflowError,
    InvalidDataError,
    NoAuthError,
    Outcome,
    UsageError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

pytestmark = pytest.mark.timeout(60)

PATH = "/app/value"
FLAT = "/value"
"""A path whose parent exists."""


# --- a shared value ----------------------------------------------------------------------------


async def test_value_is_read_and_written(a: Client, b: Client) -> None:
    mine = SharedValue(a, PATH, 10, codec=Codec.int32())
    theirs = SharedValue(b, PATH, 10, codec=Codec.int32())
    assert (await mine.get()).value == 10
    assert (await mine.get()).version == -1
    assert (await mine.set(11)).version == 0
    await catch_up(b)
    now = await theirs.get()
    assert (now.value, now.version) == (11, 0)
    assert (await a.get(PATH))[0] == b"\0\0\0\x0b"
    later = await theirs.compare_and_set(now, 12)
    assert later is not None
    assert (later.value, later.version) == (12, 1)
    assert await mine.compare_and_set(now, 13) is None
    assert (await mine.update(lambda value: value * 2)).value == 24


async def test_compare_and_set_may_create_the_value(client: Client) -> None:
    value = SharedValue(client, PATH)
    nothing = await value.get()
    assert nothing.value == b""
    first = await value.compare_and_set(nothing, b"one")
    assert first is not None
    assert await value.compare_and_set(nothing, b"two") is None
    await client.delete(PATH)
    assert await value.compare_and_set(first, b"three") is None
    assert await value.compare_and_set(nothing, b"four") is not None


async def test_concurrent_updates_are_all_applied(a: Client, b: Client) -> None:
    values = [SharedValue(c, PATH, "", codec=Codec.text()) for c in (a, b, a, b)]
    async with anyio.create_task_group() as tasks:
        for number, value in enumerate(values):
            tasks.start_soon(value.update, lambda old, n=number: old + str(n))
    await catch_up(a)
    assert sorted((await values[0].get()).value) == ["0", "1", "2", "3"]


async def test_observer_sees_the_latest_value(a: Client, b: Client) -> None:
    mine = SharedValue(a, PATH, "none", codec=Codec.text())
    async with SharedValue(b, PATH, "none", codec=Codec.text()).observe() as view:
        assert (view.value, view.is_live, view.versioned.version) == ("none", True, -1)
        seen: list[str] = []
        async for value in view:
            seen.append(value)
            match value:
                case "none":
                    await mine.set("first")
                case "first":
                    await mine.set("second")
                case _:
                    break
        assert seen == ["none", "first", "second"]
        assert view.versioned.version == 1
        await a.delete(PATH)
        await eventually(lambda: view.value == "none", "it is the default again")
        assert view.versioned.stat is None
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(view))


async def test_recreated_znode_is_not_taken_for_the_old_one() -> None:
    """As many writes, so the same version: CURATOR-311."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        value = SharedValue(a, PATH, "", codec=Codec.text())
        await b.ensure_path("/app")
        await b.create(PATH, b"old")
        async with value.observe() as view:
            values = aiter(view)
            assert await anext(values) == "old"
            with anyio.fail_after(PATIENCE):
                server.disconnect(a.session_id)
                await b.delete(PATH)
                await b.create(PATH, b"new")
                while view.value != "new":
                    await anext(values)
                server.expire_session(a.session_id)
                await b.delete(PATH)
                await b.create(PATH, b"newer")
                while view.value != "newer":
                    await anext(values)
            await eventually(lambda: view.is_live, "it is watched again")


async def test_invalid_data_are_raised_or_reported() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.ensure_path(PATH)
        told: list[InvalidDataError] = []
        strict = SharedValue(client, PATH, 7, codec=Codec.int32())
        lenient = SharedValue(client, PATH, 7, codec=Codec.int32(), on_invalid=told.append)
        with pytest.raises(InvalidDataError, match=r"/app/value .* 0 bytes rather than 4"):
            await strict.get()
        with pytest.raises(InvalidDataError):
            await enter(strict.observe())
        async with lenient.observe() as view:
            assert view.value == 7
            assert len(told) == 1
            await lenient.set(8)
            await eventually(lambda: view.value == 8, "it makes sense again")
            await client.set(PATH, b"?")
            await eventually(lambda: len(told) == 2, "it is told")
            assert view.value == 8
            assert told[1].version == 2
            await lenient.set(9)
            await eventually(lambda: view.value == 9, "it makes sense again")
        async with strict.observe() as view:
            await client.set(PATH, b"?")
            with pytest.raises(InvalidDataError):
                async for _ in view:
                    pass
            assert (view.value, view.is_live) == (9, False)


async def test_view_ends_with_the_client() -> None:
    async with EmbeddedServer() as server:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(in_memory(server))
            value = SharedValue(client, PATH)
            view = value.observe()
            with pytest.raises(UsageError, match="not opened"):
                assert view.value
            async with view:
                readers = aiter(view), aiter(view)
                assert [await anext(reader) for reader in readers] == [b"", b""]
                with pytest.raises(UsageError, match="already"):
                    await view.__aenter__()
                await stack.aclose()
                for _ in range(2):
                    with pytest.raises(ClientClosedError):
                        await anext(readers[0])
                assert (view.value, view.is_live) == (b"", False)
        with pytest.raises(ClientClosedError):
            await value.observe().__aenter__()


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (Codec.int32(), -2, b"\xff\xff\xff\xfe"),
        (Codec.int64(), 3, b"\0\0\0\0\0\0\0\x03"),
        (Codec.decimal(), -12, b"-12"),
        (Codec.text(), "ä", b"\xc3\xa4"),
        (Codec.json(), {"a": ["ä", 1]}, '{"a":["ä",1]}'.encode()),
        (Codec.raw(), b"\0", b"\0"),
    ],
)
def test_codec_encodes_and_decodes(codec: Codec[object], value: object, data: bytes) -> None:
    assert codec.encode(value) == data
    assert codec.decode(data) == value


# --- a counter ---------------------------------------------------------------------------------


async def test_counter_adds_sets_and_compares(client: Client) -> None:
    counter = Counter(client, PATH)
    assert await counter.get() == 0
    assert await counter.add(5) == 5
    assert await counter.add(-7) == -2
    assert (await client.get(PATH))[0] == struct.pack(">q", -2)
    assert await counter.compare_and_set(-2, 40)
    assert not await counter.compare_and_set(-2, 41)
    assert await counter.get() == 40
    await counter.set(1)
    assert await counter.get() == 1


@pytest.mark.parametrize("promote_after", [0, 2, 1000])
async def test_concurrent_additions_all_count(a: Client, b: Client, promote_after: int) -> None:
    counters = [Counter(c, PATH, promote_after=promote_after, rng=random.Random(1)) for c in (a, b)]
    totals: list[int] = []

    async def count(counter: Counter) -> None:
        totals.extend([await counter.add(1) for _ in range(4)])

    async with anyio.create_task_group() as tasks:
        for counter in counters * 3:
            tasks.start_soon(count, counter)
    await catch_up(a)
    assert await counters[0].get() == 24
    assert sorted(totals) == list(range(1, 25))
    if promote_after == 0:
        await children_are(a, f"{PATH}/lock")


async def test_counter_is_no_container() -> None:
    """Those are deleted by servers once they are empty, as it is when its queue is empty."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        assert await Counter(client, PATH, promote_after=0).add(1) == 1
        # The queue is a container, and nothing above it.
        assert server.requests["CREATE_CONTAINER"] == 1


@virtually
async def test_lock_of_a_counter_delays_nobody_forever() -> None:
    """Somebody who takes it and keeps it is passed by: it is for order, not for safety."""
    async with embedded() as server, connect_virtually(server, session_timeout=1) as client:
        async with connect_virtually(server) as other, Lock(other, PATH + "/lock"):
            assert await Counter(client, PATH, promote_after=0).add(1) == 1


async def test_counter_refuses_to_overflow() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        counter = Counter(client, PATH, codec=Codec.int32())
        await counter.set(2**31 - 1)
        with pytest.raises(CounterOverflowError, match="2147483648 does not fit into 4 bytes"):
            await counter.add(1)
        assert await counter.get() == 2**31 - 1
        with pytest.raises(InvalidDataError, match="4 bytes rather than 8"):
            await Counter(client, PATH).get()


async def test_empty_znode_counts_as_zero() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.ensure_path(PATH)
        assert await Counter(client, PATH, codec=Codec.decimal()).add(1) == 1
        assert (await client.get(PATH))[0] == b"1"


# --- versions at their limits ---------------------------------------------------------------------


def set_version(server: EmbeddedServer, path: str, version: int) -> None:
    """As if the znode had been written so often: servers count in 32 bits, with a sign."""
    assert server._running is not None
    node = server._running.core.processor.tree.get(path)
    assert node is not None
    node.version = version


@pytest.mark.parametrize("version", [2**31 - 2, -(2**31), -3])
async def test_version_that_wraps_stops_no_writer(version: int) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        counters = Counter(a, FLAT), Counter(b, FLAT)
        await counters[0].set(0)
        set_version(server, FLAT, version)

        async def add(counter: Counter) -> None:
            for _ in range(4):
                await counter.add(1)

        async with anyio.create_task_group() as tasks:
            for counter in counters:
                tasks.start_soon(add, counter)
        assert await counters[0].get() == 8


@pytest.mark.parametrize("version", [2**31 - 1, -(2**31), -2, -1])
async def test_write_at_any_version_is_conditional(version: int) -> None:
    """A request with the version -1 means any version."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        value = SharedValue(client, FLAT)
        await value.set(b"0")
        set_version(server, FLAT, version)
        seen = await value.get()
        assert seen.version == version
        first = await value.compare_and_set(seen, b"1")
        assert first is not None
        assert await value.compare_and_set(seen, b"2") is None
        assert await value.compare_and_set(first, b"3") is not None
        assert (await value.get()).value == b"3"
        await client.delete(FLAT)
        assert await value.compare_and_set(seen, b"4") is None


# --- lost messages, links and sessions ------------------------------------------------------------


RIVALS: dict[str, list[tuple[str, bytes]]] = {
    "nobody": [],
    "writes other data": [("set", b"other")],
    "writes the same data": [("set", b"mine")],
    "writes twice": [("set", b"other"), ("set", b"another")],
    "deletes": [("delete", b"")],
    "replaces": [("delete", b""), ("create", b"first")],
}
"""The requests of another client while the outcome of a write is unknown."""


@watches_the_bytes
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
        wire = Link(server)
        async with wire.connect() as a:
            stat = (await a.create(FLAT, b"first")).stat
            results: list[str] = []

            async def write() -> None:
                try:
                    done = await compare_and_set(a, FLAT, b"mine", stat, None)
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
                    await (b.delete(FLAT) if what == "delete" else getattr(b, what)(FLAT, data))
                wire.heal()
        assert results == [found]


@lost_message
async def test_lost_message_of_the_first_write_counts_once(drop: Drop) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        counter = Counter(client, FLAT)
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
        counters = Counter(a, FLAT), Counter(b, FLAT)
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


async def test_refused_read_is_raised() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(FLAT, b"", acl=[ACL.world(Permission.WRITE | Permission.DELETE)])
        with pytest.raises(NoAuthError):
            await enter(SharedValue(client, FLAT).observe())
        with pytest.raises(NoAuthError):
            await SharedValue(client, FLAT).get()
        await eventually(lambda: server.watches() == {}, "no watch is left")


async def test_counter_goes_on_when_the_holder_of_its_lock_dies() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        counter = Counter(a, FLAT, promote_after=0)

        async def has_counted() -> bool:
            return await counter.get() == 1

        with pytest.raises(LockLost):
            async with Lock(b, f"{FLAT}/lock") as held, anyio.create_task_group() as tasks:
                tasks.start_soon(counter.add, 1)
                await eventually(lambda: held.path in server.watches(), "it waits")
                server.expire_session(held.session_id)
                await anyio.sleep_forever()
        await eventually(has_counted, "it has counted")
