"""The configuration centre: publishing, following, validating, rolling back."""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass
from functools import partial

import anyio
import pytest
from kit.clients import Link, catch_up, eventually, in_memory, watches_the_bytes
from parsing.hostile_data import ARABIC_DIGITS, BIDI
from recipes.blocks import enter

from aiolead import ACL, Client, Config, ConnectionLossError, NoNodeError
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    BadVersionError,
    ConfigurationError,
    InvalidDataError,
    NoAuthError,
    Outcome,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import Published

pytestmark = pytest.mark.timeout(60)

PATH = "/app/config"


@dataclass(frozen=True)
class Limits:
    low: int
    high: int

    @classmethod
    def parse(cls, keys: dict[str, bytes]) -> Limits:
        limits = cls(int(keys.get("low", b"0")), int(keys.get("high", b"10")))
        if limits.low > limits.high:
            raise ValueError("low is higher than high")
        return limits


def limits(client: Client, **options: object) -> Config[Limits]:
    return Config(client, PATH, parse=Limits.parse, **options)  # type: ignore[arg-type]


async def test_keys_are_published_and_read(a: Client, b: Client) -> None:
    config = Config(a, PATH)
    assert await config.history() == []
    first = await config.get()
    assert (first.value, first.version) == ({}, 0)
    assert await config.publish({"a": b"1", "b": b"2"}) == 1
    assert await config.publish({"b": None, "c": b"\xff\0"}) == 2
    await catch_up(b)
    there = await Config(b, PATH).get()
    assert (there.value, there.version) == ({"a": b"1", "c": b"\xff\0"}, 2)
    assert (await b.get(PATH))[0] == b"2"
    assert sorted(await b.get_children(f"{PATH}/keys")) == ["a", "c"]
    with pytest.raises(BadVersionError):
        await config.publish({"a": b"3"}, version=1)
    assert await config.publish({"a": b"3"}, version=2) == 3


async def test_observer_sees_keys_change_together(a: Client, b: Client) -> None:
    mine = limits(a)
    async with limits(b).observe() as view:
        assert (view.value, view.version, view.is_live) == (Limits(0, 10), 0, True)
        seen: list[Limits] = []
        async for value in view:
            seen.append(value)
            if len(seen) == 1:
                await mine.publish({"low": b"20", "high": b"30"})
            elif len(seen) == 2:
                await mine.publish({"low": b"1", "high": b"2"})
            else:
                break
        assert seen == [Limits(0, 10), Limits(20, 30), Limits(1, 2)]
        assert view.published.version == view.version == 2


async def test_earlier_version_is_published_again_by_rollback(client: Client) -> None:
    config = Config(client, PATH, keep=3, identity="me")
    for number in range(4):
        await config.publish({f"k{number}": b"%d" % number, "last": b"%d" % number})
    assert [entry.version for entry in await config.history()] == [4, 3, 2]
    assert await config.rollback(2) == 5
    assert (await config.get()).value == {"k0": b"0", "k1": b"1", "last": b"1"}
    latest = (await config.history())[0]
    assert (latest.version, latest.identity) == (5, "me")
    assert latest.keys == (await config.get()).value
    assert latest.time > 0
    with pytest.raises(NoNodeError):
        await config.rollback(1)


async def test_concurrent_publications_are_seen_as_a_whole(a: Client, b: Client) -> None:
    configs = [Config(a, PATH), Config(b, PATH)]
    torn: list[dict[str, bytes]] = []

    async def look() -> None:
        async with configs[1].observe() as view:
            async for keys in view:
                if keys.get("x") != keys.get("y"):
                    torn.append(keys)
                if len(keys) == 10:
                    break

    async def publish(number: int) -> None:
        mark = b"%d" % number
        await configs[number % 2].publish({"x": mark, "y": mark, f"k{number}": mark})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        for number in range(8):
            tasks.start_soon(publish, number)
    assert torn == []
    await catch_up(a)
    assert (await configs[0].get()).version == 8


@watches_the_bytes
async def test_keys_are_of_the_version_that_is_read() -> None:
    async with EmbeddedServer() as server, in_memory(server) as b:
        wire = Link(server)
        async with wire.connect() as a:
            rival = Config(b, PATH)
            await rival.publish({"x": b"1", "y": b"1"})
            found: list[Published[dict[str, bytes]]] = []

            async def read() -> None:
                found.append(await Config(a, PATH).get())

            async with anyio.create_task_group() as tasks:
                wire.stall("to_client")
                before = server.requests["GET_CHILDREN"]
                tasks.start_soon(read)
                await eventually(lambda: server.requests["GET_CHILDREN"] > before, "it reads")
                await rival.publish({"x": b"2", "y": b"2"})
                wire.heal()
            assert found == [Published({"x": b"2", "y": b"2"}, 2)]


async def test_invalid_publication_is_refused_before_it_is_written() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        config = limits(client)
        await config.publish({"low": b"1"})
        before = server.znodes()
        with pytest.raises(ConfigurationError, match="low is higher than high"):
            await config.publish({"high": b"0"})
        with pytest.raises(ConfigurationError, match="at most 262144"):
            await config.publish({"other": bytes(262_144)})
        with pytest.raises(ConfigurationError, match="1001 keys"):
            await config.publish({f"k{n}": b"" for n in range(1000)})
        assert server.znodes() == before
        assert (await config.get()).version == 1


async def test_largest_allowed_configuration_can_be_published(client: Client) -> None:
    config = Config(client, PATH)
    keys = {f"key-{n:03}": bytes([n % 2 * 0xFF]) * 255 for n in range(1000)}
    assert await config.publish(dict(keys)) == 1
    assert await config.publish({key: value[::-1] + b"" for key, value in keys.items()}) == 2
    assert (await config.get()).value == keys
    assert (await config.history())[1].keys == keys


async def test_invalid_publication_of_another_client_keeps_the_last_valid_one() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        told: list[InvalidDataError] = []
        careless = Config(client, PATH)
        await careless.publish({"low": b"x"})
        with pytest.raises(InvalidDataError):
            await enter(limits(client).observe())
        with pytest.raises(InvalidDataError):
            await limits(client).get()
        await careless.publish({"low": b"3"})
        async with limits(client, on_invalid=told.append).observe() as view:
            assert view.invalid is None
            await careless.publish({"low": b"y"})
            await eventually(lambda: len(told) == 1, "it is told")
            assert (view.value, view.version) == (Limits(3, 10), 2)
            assert view.invalid is told[0]
            assert told[0].version == 3
            server.disconnect()
            await client.exists("/")
            await careless.publish({"low": b"4"})
            await eventually(lambda: view.value.low == 4, "the next one is valid")
            assert (view.invalid, len(told)) == (None, 1)
            await client.set(PATH, b"seven")
            await eventually(lambda: view.invalid is not None, "not a number")
            assert view.value.low == 4
            # By hand: the version is what says that the keys have changed.
            await client.set(f"{PATH}/keys/low", b"7")
            await client.set(PATH, b"7")
            await eventually(lambda: view.value.low == 7, "it is read again")
            assert view.version == 7
            assert await careless.publish({"low": b"8"}) == 8


# --- what others have written --------------------------------------------------------------------

FOREIGN = ("1" * 5000, f"1{ARABIC_DIGITS}", ARABIC_DIGITS, "-000000001", "9" * 19, BIDI, "notes")


async def test_foreign_child_of_the_history_is_skipped_and_reported(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(client, PATH, keep=2)
    await config.publish({"a": b"1"})
    for name in FOREIGN:
        await client.create(f"{PATH}/history/{name}", b"[" * 100_000)
    assert await config.publish({"a": b"2"}) == 2
    assert await config.rollback(1) == 3
    assert [entry.version for entry in await config.history()] == [3, 2]
    names = await client.get_children(f"{PATH}/history")
    assert {name for name in names if name not in FOREIGN} == {"0000000002", "0000000003"}
    (said,) = [line for line in caplog.messages if "no versions" in line]
    assert f"{PATH}/history has {len(FOREIGN)} children" in said
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 100_000,
        b'{"keys":' * 100_000,
        b"9" * 5000,
        b'{"identity":"a","author":"b","keys":[]}',
        b'{"identity":"a","author":"b","keys":{"k":{"base64":1}}}',
        b'{"identity":"a","author":"b","keys":{"k":"\\ud800"}}',
        b'{"identity":"a","author":"b","keys":{"k/l":"1"}}',
        b'{"identity":"a","author":"b","keys":{"..":"1"}}',
        b'{"identity":"a","author":"b","keys":{"":"1"}}',
        b"\xff",
    ],
    ids=lambda data: repr(data[:50]),
)
async def test_broken_version_in_the_history_is_raised_with_its_path(data: bytes) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        config = Config(client, PATH)
        broken = f"{PATH}/history/0000000001"
        await config.publish({"a": b"1"})
        await client.set(broken, data)
        assert await config.publish({"a": b"2"}) == 2
        for call in (config.history, partial(config.rollback, 1)):
            with pytest.raises(InvalidDataError) as caught:
                await call()
            assert caught.value.path == broken
        await client.delete(broken)
        assert [entry.version for entry in await config.history()] == [2]
        with pytest.raises(NoNodeError):
            await config.rollback(1)


@pytest.mark.parametrize("data", [b"9" * 5000, b"9" * 20, b"-1", b"1_0", b"\xff", b"1.5"])
async def test_broken_version_number_is_raised_with_its_path(client: Client, data: bytes) -> None:
    config = Config(client, PATH)
    await config.publish({"a": b"1"})
    await client.set(PATH, data)
    for call in (config.get, partial(config.publish, {"a": b"2"}), partial(config.rollback, 1)):
        with pytest.raises(InvalidDataError) as caught:
            await call()
        assert caught.value.path == PATH
    assert [entry.version for entry in await config.history()] == [1]
    await client.set(PATH, b"1")
    assert await config.publish({"a": b"2"}) == 2


async def test_version_after_the_last_one_is_refused() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        config = Config(client, PATH)
        await config.publish({"a": b"1"})
        await client.set(PATH, b"%d" % ((1 << 62) - 1))
        assert await config.publish({"a": b"2"}) == 1 << 62
        assert [entry.version for entry in await config.history()] == [1 << 62]
        with pytest.raises(InvalidDataError, match=r"is the last number of a version$"):
            await config.publish({"a": b"3"})
        assert (await config.get()).value == {"a": b"2"}


async def test_every_publication_has_an_author_of_its_own() -> None:
    """By it a call knows its own version; one of an earlier `Config` may still be on its way."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        for low in range(3):
            await limits(client).publish({"low": b"%d" % low})
            gc.collect()
        history = await client.get_children(f"{PATH}/history")
        entries = [(await client.get(f"{PATH}/history/{name}"))[0] for name in history]
        assert len({json.loads(entry)["author"] for entry in entries}) == 3


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
async def test_publication_by_another_client_during_a_lost_one(is_applied: bool) -> None:
    """If ours was published and the history no longer says so, nobody knows: it is unknown."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        wire = Link(server)
        async with wire.connect() as a, anyio.create_task_group() as tasks:
            config, rival = Config(a, PATH, keep=1), Config(b, PATH, keep=1)
            await config.publish({"a": b"0"})
            if is_applied:
                server.drop_reply(OpCode.MULTI)
                server.drop_reply(OpCode.SYNC, 2)
            else:
                server.drop_request(OpCode.MULTI)
            lost = wire.hold_at_loss(a)

            async def publish_before_it_comes_back() -> None:
                await lost.wait()
                await rival.publish({"b": b"1"})
                wire.heal()

            tasks.start_soon(publish_before_it_comes_back)
            if is_applied:
                with pytest.raises(ConnectionLossError) as caught:
                    await config.publish({"a": b"1"})
                assert caught.value.outcome is Outcome.UNKNOWN
            else:
                assert await config.publish({"a": b"1"}) == 3
                there = await config.get()
                assert (there.value, there.version) == ({"a": b"1", "b": b"1"}, 3)


async def test_refused_delete_of_an_old_version_is_logged_and_publishing_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        config = Config(client, PATH, keep=1)
        await config.publish({"a": b"1"})
        rights = Permission.READ | Permission.CREATE | Permission.ADMIN
        await client.set_acl(f"{PATH}/history", [ACL.world(rights)])
        for number in (2, 3):
            assert await config.publish({"a": b"%d" % number}) == number
        assert [entry.version for entry in await config.history()] == [3, 2, 1]
        oldest = f"{PATH}/history/0000000001"
        assert len([line for line in caplog.messages if line.startswith(f"{oldest}: ")]) == 1
        await client.set_acl(f"{PATH}/history", [ACL.world(Permission.ALL)])
        await config.publish({"a": b"4"})
        assert [entry.version for entry in await config.history()] == [4]


async def test_refused_write_is_raised_and_changes_nothing() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        config = Config(client, PATH)
        await config.publish({"a": b"0"})
        await client.set_acl(f"{PATH}/keys/a", [ACL.world(Permission.READ)])
        with pytest.raises(NoAuthError):
            await config.publish({"a": b"1"})
        assert (await config.get()).version == 1
