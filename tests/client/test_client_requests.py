"""What is sent, and what is not: arguments checked at the call, pipelining, the lost reply."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf, nan
from typing import Any

import anyio
import pytest
from client.fake_server import FakeServer
from kit.clients import SESSION, Wire, connect
from kit.virtual_time import virtually

import aiolead
from aiolead import ACL, Client, CreateMode
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    AioleadError,
    ConfigurationError,
    ConnectionLossError,
    InvalidConnectStringError,
    InvalidPathError,
    LocalWireError,
    NodeExistsError,
    Outcome,
    UsageError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, FaultProxy

# --- arguments ---------------------------------------------------------------------------------

ANY: Any = None
BAD_PATHS: list[Any] = ["", "a", "/a/", "//", "/a//b", "/./a", "/a/..", "/a\0", 7, b"/a", None]
BAD_CALLS: list[tuple[str, Callable[[Client, Any], object]]] = [
    ("the root cannot be created", lambda c, _: c.create("/")),
    ("the root cannot be deleted", lambda c, _: c.delete("/")),
    ("data: must be bytes, not str", lambda c, bad: c.create("/a", bad("text"))),
    ("data: must be bytes, not str", lambda c, bad: c.set("/a", bad("text"))),
    ("mode: must be a CreateMode, not 3", lambda c, bad: c.create("/a", mode=bad(3))),
    ("ttl: only modes WITH_TTL", lambda c, _: c.create("/a", ttl=1)),
    ("ttl: PERSISTENT_WITH_TTL needs a time to live", lambda c, _: ttl(c, None)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, 0)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, -1)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, nan)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, inf)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, 2.0**40)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, LONGEST_TTL + 0.001)),
    ("ttl: must be a number of seconds", lambda c, _: ttl(c, SHORTEST_TTL / 2)),
    ("ttl: must be a number of seconds", lambda c, bad: ttl(c, bad("5"))),
    ("acl: must be a sequence of at least one", lambda c, _: c.create("/a", acl=[])),
    ("acl: must be a sequence of at least one", lambda c, bad: c.create("/a", acl=bad(["x"]))),
    ("acl: must be a sequence of at least one", lambda c, bad: c.set_acl("/a", bad(5))),
    ("version: must be -1", lambda c, _: c.delete("/a", version=-2)),
    ("version: must be -1", lambda c, _: c.set("/a", b"", version=2**31)),
    ("version: must be -1", lambda c, bad: c.check("/a", version=bad("1"))),
    ("version: must be -1", lambda c, bad: c.check("/a", version=bad(True))),
    ("transaction: needs at least one operation", lambda c, _: c.transaction().commit()),
    ("data: must be bytes", lambda c, bad: c.transaction().create("/a", bad(None))),
    ("version: must be", lambda c, bad: c.transaction().check("/a", version=bad(1.5))),
    ("guard: must start with '/'", lambda c, _: c.fenced("mine")),
    ("path: must start with '/'", lambda c, _: c.chroot("mine")),
]


SHORTEST_TTL, LONGEST_TTL = 0.001, 1_099_511_627.775
"""A number of milliseconds with at most 40 bits, in seconds."""


def ttl(client: Client, value: float | None) -> Any:
    return client.create("/a", mode=CreateMode.PERSISTENT_WITH_TTL, ttl=value)


async def test_bad_arguments_are_refused_at_the_call_and_nothing_is_sent() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:
        await client.sync()
        before = server.packets_in
        operations: list[Callable[[Any], object]] = [
            client.create, client.delete, client.get, client.exists, client.get_children,
            client.get_acl, client.sync, client.check, client.chroot, client.fenced,
            lambda path: client.set(path, b""),
            lambda path: client.set_acl(path, [ACL(Permission.ALL, "world", "anyone")]),
            lambda path: client.create(path, mode=CreateMode.EPHEMERAL_SEQUENTIAL),
            client.transaction().create, client.transaction().delete, client.transaction().check,
        ]  # fmt: skip
        for number, operation in enumerate(operations):
            for path in BAD_PATHS:
                if path == "/a/" and number == 12:
                    continue  # where the server appends digits, a slash may come last
                with pytest.raises(InvalidPathError):
                    operation(path)
        for message, call in BAD_CALLS:
            with pytest.raises(ConfigurationError, match=message):
                call(client, lambda bad: bad)
        with pytest.raises(LocalWireError, match="the servers take at most"):
            client.create("/a", bytes(2**20))
        with pytest.raises(LocalWireError, match="the servers take at most"):
            client.get("/" + "x" * 2**20, watch=client.backend.make_watch())
        with pytest.raises(UsageError, match="made by this client's make_watch"):
            client.get("/a", watch=ANY or object())  # type: ignore[arg-type]
        await anyio.wait_all_tasks_blocked()
        assert server.packets_in == before
        await client.sync()
        assert server.packets_in == before + 1


async def test_shortest_and_longest_time_to_live_are_accepted() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as c:
        for value in (SHORTEST_TTL, LONGEST_TTL):
            await ttl(c, value)
            await c.delete("/a")


async def test_bad_paths_of_ensure_path_send_nothing_either() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:
        before = server.packets_in
        for path in BAD_PATHS:
            with pytest.raises(InvalidPathError):
                await client.ensure_path(path)
        assert server.packets_in == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"session_timeout": 0}, "session_timeout: must be a number of seconds from 0.1"),
        ({"session_timeout": "5"}, "session_timeout: "),
        ({"session_timeout": nan}, "session_timeout: "),
        ({"session_timeout": True}, "session_timeout: "),
        ({"connect_timeout": -1}, "connect_timeout: "),
        ({"connect_timeout": inf}, "connect_timeout: "),
        ({"grace_period": -1}, "grace_period: "),
        ({"grace_period": 2.6}, "grace_period: must be a number of seconds from 0 to 2.5"),
        ({"tick_time": 0}, "tick_time: "),
        ({"tick_time": 11}, "tick_time: "),
        ({"auth": [("digest", "user:secret")]}, "auth: must be a list of Auth"),
        ({"auth": "digest:user:secret"}, "auth: must be a list of Auth"),
        ({"limits": 1000}, "limits: must be Limits, not 1000"),
        ({"hooks": print}, "hooks: must be Hooks, not "),
    ],
)
def test_bad_options_of_connect(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        aiolead.connect("127.0.0.1:1", **options)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_request": 1023}, "max_request: must be 1024 to"),
        ({"max_request": 1e6}, "max_request: "),
        ({"max_reply": 2**31}, "max_reply: "),
    ],
)
def test_bad_limits(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        aiolead.Limits(**limits)


@pytest.mark.parametrize(
    "hosts", ["", "a:b", "a,,b", "a:99999", "/app", "a//b", 7, [], [7], ["a/x", "b"]]
)
def test_bad_hosts(hosts: Any) -> None:
    with pytest.raises((InvalidConnectStringError, InvalidPathError)):
        aiolead.connect(hosts)


def test_hosts_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOLEAD_HOSTS", raising=False)
    with pytest.raises(ConfigurationError, match="AIOLEAD_HOSTS is not set"):
        aiolead.connect()
    monkeypatch.setenv("AIOLEAD_HOSTS", "not a host")
    with pytest.raises(InvalidConnectStringError):
        aiolead.connect()


# --- pipelining --------------------------------------------------------------------------------


async def test_calls_without_an_await_between_them_leave_in_one_segment() -> None:
    async with EmbeddedServer() as server:
        wire = Wire(server)
        async with wire.connect() as client:
            await client.sync()
            before, packets = len(wire.segments), server.packets_in
            replies = [client.create(f"/{number}") for number in range(50)]
            names = client.get_children("/")
            assert len(wire.segments) == before
            assert len(await names) == 51  # with /zookeeper; it includes all the creates
            assert all(reply.is_done for reply in replies)
            assert len(wire.segments) == before + 1
            assert server.packets_in == packets + 51


async def test_requests_go_out_in_the_order_of_the_calls_whoever_makes_them() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:
        await client.create("/a", b"")
        seen = []

        async def write(number: int) -> None:
            stat = await client.set("/a", str(number).encode())
            seen.append(stat.version)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(write, number)
        assert sorted(seen) == list(range(1, 21))


async def test_more_than_a_socket_takes_goes_through() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        replies = [client.create(f"/{number}", bytes(100_000)) for number in range(60)]
        for reply in replies:
            await reply
        reads = [client.get(f"/{number}") for number in range(60)]
        assert sum([len((await read)[0]) for read in reads]) == 6_000_000


# --- cancelled callers -------------------------------------------------------------------------


async def test_a_cancelled_caller_abandons_its_answer_and_nobody_gets_it_instead() -> None:
    async with EmbeddedServer() as server:
        wire = Wire(server)
        async with wire.connect() as client:
            await client.create("/one", b"one")
            await client.create("/two", b"two")
            wire.hold()
            with anyio.move_on_after(0) as scope:
                await client.get("/one")
            assert scope.cancelled_caught
            with anyio.CancelScope() as scope:
                reply = client.get("/one")
                scope.cancel()
                await reply
            assert scope.cancelled_caught
            second = client.get("/two")
            wire.release()
            assert (await second)[0] == b"two"
            # The reply that was waited for in vain is there as well.
            assert reply.result()[0] == b"one"


async def test_cancelling_a_write_does_not_take_it_back() -> None:
    async with EmbeddedServer() as server, Wire(server).connect() as client:
        with anyio.move_on_after(0):
            await client.create("/a")
        assert await client.exists("/a") is not None


# --- the lost reply ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL])
async def test_a_create_whose_reply_was_lost_is_unknown_and_never_sent_again(
    mode: CreateMode,
) -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        session_id = client.session_id
        server.drop_reply(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError) as raised:
            await client.create("/a-", mode=mode)
        assert raised.value.outcome is Outcome.UNKNOWN
        assert len(await client.get_children("/")) == 2  # with /zookeeper
        assert server.requests["CREATE2"] == 1
        assert client.session_id == session_id
        if mode is CreateMode.PERSISTENT:
            with pytest.raises(NodeExistsError):
                await client.create("/a-")


async def test_a_create_that_never_arrived_looks_the_same() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        server.drop_request(OpCode.CREATE2)
        with pytest.raises(ConnectionLossError) as raised:
            await client.create("/a")
        assert raised.value.outcome is Outcome.UNKNOWN
        assert await client.exists("/a") is None
        assert server.requests["CREATE2"] == 1


@pytest.mark.parametrize("how", ["reset", "fin", "silence"])
async def test_the_same_over_a_network(embedded: str, chroot: str, how: Any) -> None:
    host, _, port = embedded.rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        timeout = 2.0 if how == "silence" else SESSION
        target = proxy.connect_string
        async with aiolead.connect(target, session_timeout=timeout) as client:
            session_id = client.session_id
            proxy.drop_reply(OpCode.CREATE2, how=how)
            created, other = client.create(chroot), client.exists(chroot)
            with pytest.raises(ConnectionLossError) as raised:
                await created
            assert raised.value.outcome is Outcome.UNKNOWN
            # The read behind it is sent again by itself, and finds what was written.
            assert await other is not None
            assert client.session_id == session_id
            assert proxy.requests["CREATE2"] == 1
            assert proxy.requests["EXISTS"] >= 1


async def test_every_lost_write_is_unknown_and_every_read_comes_back() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        await client.create("/a")
        server.drop_reply(OpCode.SET_DATA)
        lost = client.set("/a", b"x")
        replies: list[Any] = [
            client.delete("/b"), client.get("/a"), client.check("/a"), client.get_children("/"),
            client.transaction().create("/c").commit(), client.sync(), client.get_acl("/a"),
        ]  # fmt: skip
        with pytest.raises(ConnectionLossError):
            await lost
        errors: list[AioleadError | None] = []
        for reply in replies:
            with suppress(ConnectionLossError):
                await reply
            errors.append(reply.error())
        outcomes = [error and error.outcome for error in errors]
        unknown = Outcome.UNKNOWN
        assert outcomes == [unknown, None, unknown, None, unknown, None, None]
        assert (await client.get("/a"))[0] == b"x"


@virtually
async def test_a_read_of_what_the_server_never_answers_ends_with_the_session_timeout() -> None:
    async with FakeServer(greet=lambda _: None) as fake:
        with pytest.raises(aiolead.errors.ConnectFailed):
            async with fake.connect(connect_timeout=0.3):
                pass
    async with FakeServer() as fake, fake.connect(session_timeout=1.0) as client:
        fake.greet = lambda _: None  # one that hangs up would, in the end, cost the session
        fake.streams[-1].close()
        with pytest.raises(ConnectionLossError, match="no server was reached for 1 s") as raised:
            await client.get("/a")
        assert raised.value.outcome is Outcome.NOT_APPLIED
