"""Requests: checked arguments, pipelining, lost connections, limits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf, nan
from typing import Any

import anyio
import pytest
from client.fake_server import FakeServer
from kit.clients import PATIENCE, SESSION, Link, connect
from kit.virtual_time import embedded, virtually, with_virtual_server

import aiolead
from aiolead import ACL, Client, CreateMode, Election, Limits, Lock, NoNodeError
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    ConfigurationError,
    ConnectionLossError,
    InvalidConnectStringError,
    InvalidPathError,
    LocalWireError,
    Outcome,
    ThrottledOpError,
    TooManyRequestsError,
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
    ("version: must be -1", lambda c, _: c.delete("/a", version=-(2**31) - 1)),
    ("version: must be -1", lambda c, _: c.set("/a", b"", version=2**31)),
    ("version: must be -1", lambda c, bad: c.check("/a", version=bad("1"))),
    ("version: must be -1", lambda c, bad: c.check("/a", version=bad(True))),
    ("transaction: needs at least one operation", lambda c, _: c.transaction().commit()),
    ("transaction: needs at least", lambda c, _: c.fenced("/a").transaction().commit()),
    ("data: must be bytes", lambda c, bad: c.transaction().create("/a", bad(None))),
    ("version: must be", lambda c, bad: c.transaction().check("/a", version=bad(1.5))),
    ("guard: must start with '/'", lambda c, _: c.fenced("mine")),
    ("path: must start with '/'", lambda c, _: c.chroot("mine")),
]


SHORTEST_TTL, LONGEST_TTL = 0.001, 1_099_511_627.775
"""A number of milliseconds with at most 40 bits, in seconds."""


def ttl(client: Client, value: float | None) -> Any:
    return client.create("/a", mode=CreateMode.PERSISTENT_WITH_TTL, ttl=value)


async def test_invalid_arguments_are_not_sent(client: Client, zk: EmbeddedServer) -> None:
    await client.sync()
    before = zk.packets_in
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
    for path in BAD_PATHS:
        with pytest.raises(InvalidPathError):
            await client.ensure_path(path)
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
    assert zk.packets_in == before
    await client.sync()
    assert zk.packets_in == before + 1


async def test_shortest_and_longest_time_to_live_are_accepted(client: Client) -> None:
    for value in (SHORTEST_TTL, LONGEST_TTL):
        await ttl(client, value)
        await client.delete("/a")


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
def test_invalid_options_of_connect_are_refused(options: dict[str, Any], message: str) -> None:
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
def test_invalid_limits_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        aiolead.Limits(**limits)


@pytest.mark.parametrize(
    "hosts", ["", "a:b", "a,,b", "a:99999", "/app", "a//b", 7, [], [7], ["a/x", "b"]]
)
def test_invalid_hosts_are_refused(hosts: Any) -> None:
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


async def test_calls_without_an_await_between_them_leave_in_one_segment(zk: EmbeddedServer) -> None:
    wire = Link(zk)
    async with wire.connect() as client:
        await client.sync()
        before, packets = len(wire.segments), zk.packets_in
        replies = [client.create(f"/{number}") for number in range(50)]
        names = client.get_children("/")
        assert len(wire.segments) == before
        assert len(await names) == 51  # with /zookeeper; it includes all the creates
        assert all(reply.is_done for reply in replies)
        assert len(wire.segments) == before + 1
        assert zk.packets_in == packets + 51


@with_virtual_server
async def test_awaited_request_is_sent_while_pipelining(client: Client) -> None:
    await anyio.sleep(0.01)  # the client is idle
    with client.pipelined():
        began = anyio.current_time()
        await client.get("/")
        assert anyio.current_time() == began, "it has not waited for a ping"
        replies = [client.get("/") for _ in range(3)]
        await anyio.sleep(0.01)
        assert all(reply.is_done for reply in replies)


@with_virtual_server
async def test_lease_is_renewed_while_the_program_pipelines(client: Client) -> None:
    await client.create("/locks")
    async with Lock(client, "/locks") as held:
        with client.pipelined():
            await anyio.sleep(3 * SESSION)
        held.check()
    assert client.statistics().connections == 1


async def test_requests_of_many_tasks_keep_the_order_of_the_calls(client: Client) -> None:
    await client.create("/a", b"")
    seen = []

    async def write(number: int) -> None:
        stat = await client.set("/a", str(number).encode())
        seen.append(stat.version)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(write, number)
    assert sorted(seen) == list(range(1, 21))


async def test_more_than_a_socket_holds_is_sent(client: Client) -> None:
    replies = [client.create(f"/{number}", bytes(100_000)) for number in range(60)]
    for reply in replies:
        await reply
    reads = [client.get(f"/{number}") for number in range(60)]
    assert sum([len((await read)[0]) for read in reads]) == 6_000_000


# --- lost connections --------------------------------------------------------------------------


async def test_create_that_never_arrived_is_unknown_too(client: Client, zk: EmbeddedServer) -> None:
    zk.drop_request(OpCode.CREATE2)
    with pytest.raises(ConnectionLossError) as raised:
        await client.create("/a")
    assert raised.value.outcome is Outcome.UNKNOWN
    assert await client.exists("/a") is None
    assert zk.requests["CREATE2"] == 1


@pytest.mark.parametrize("how", ["reset", "fin", "silence"])
async def test_read_behind_a_lost_create_is_repeated(embedded: str, chroot: str, how: Any) -> None:
    host, _, port = embedded.rpartition(":")
    timeout = 2.0 if how == "silence" else SESSION
    async with (
        FaultProxy(host, int(port)) as proxy,
        aiolead.connect(proxy.connect_string, session_timeout=timeout) as client,
    ):
        session_id = client.session_id
        proxy.drop_reply(OpCode.CREATE2, how=how)
        created, other = client.create(chroot), client.exists(chroot)
        with pytest.raises(ConnectionLossError) as raised:
            await created
        assert raised.value.outcome is Outcome.UNKNOWN
        assert await other is not None
        assert client.session_id == session_id
        assert proxy.requests["CREATE2"] == 1
        assert proxy.requests["EXISTS"] >= 1


async def test_lost_writes_are_unknown_reads_repeated(client: Client, zk: EmbeddedServer) -> None:
    await client.create("/a")
    zk.drop_reply(OpCode.SET_DATA)
    unknown = Outcome.UNKNOWN
    replies: list[tuple[Any, Outcome | None]] = [
        (client.set("/a", b"x"), unknown),
        (client.delete("/b"), unknown),
        (client.get("/a"), None),
        (client.check("/a"), unknown),
        (client.get_children("/"), None),
        (client.transaction().create("/c").commit(), unknown),
        (client.sync(), None),
        (client.get_acl("/a"), None),
    ]
    for reply, outcome in replies:
        with suppress(ConnectionLossError):
            await reply
        assert (reply.error() and reply.error().outcome) == outcome
    assert (await client.get("/a"))[0] == b"x"


@virtually
async def test_read_ends_with_the_session_timeout_if_no_server_answers() -> None:
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


# --- limits --------------------------------------------------------------------------------------

TIMEOUT = 3.0


async def test_requests_in_flight_are_limited(zk: EmbeddedServer) -> None:
    async with connect(zk, limits=Limits(max_in_flight=7)) as client:
        zk.pause()
        asked = [client.exists("/a") for _ in range(50)]
        await anyio.wait_all_tasks_blocked()
        assert client._core.machine.requests.inflight == 7
        zk.resume()
        assert [await reply for reply in asked] == [None] * 50


async def test_too_many_requests_are_refused_before_anything_is_sent(zk: EmbeddedServer) -> None:
    limits = Limits(max_queued=100)
    async with connect(zk, limits=limits, server_version="3.8") as client:
        zk.pause()
        # The first one leaves at once.
        kept = [client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL) for _ in range(101)]
        for ask in (
            lambda: client.create("/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL),
            lambda: client.transaction().create("/t").commit(),
            lambda: client.chroot("/a").get("/b"),
        ):
            with pytest.raises(TooManyRequestsError) as refused:
                ask()
            assert refused.value.outcome is Outcome.NOT_APPLIED
        with anyio.fail_after(PATIENCE), pytest.raises(TooManyRequestsError):
            await client.get_all_children_number("/")  # made again for each connection
        zk.resume()
        for reply in kept:
            await reply
        assert len(zk.znodes()) == 101
        # There is room again.
        with pytest.raises(NoNodeError):
            await client.get("/b")


def flood(client: Client) -> None:
    """Asks until no more requests may wait."""
    with pytest.raises(TooManyRequestsError):
        while True:
            client.exists("/a")


async def test_recipes_are_not_refused_for_requests_of_the_program(zk: EmbeddedServer) -> None:
    async with connect(zk, limits=Limits(max_queued=5), session_timeout=TIMEOUT) as client:
        lock, election = Lock(client, "/lock"), Election(client, "/election")
        flood(client)
        async with lock.acquire():
            flood(client)
            async with election.leadership():
                flood(client)
        assert [path for path in zk.znodes() if path.count("/") > 1] == []


async def test_transaction_is_refused_if_the_program_has_made_it(zk: EmbeddedServer) -> None:
    async with (
        connect(zk, limits=Limits(max_queued=5), session_timeout=TIMEOUT) as client,
        Lock(client, "/lock").acquire() as held,
    ):
        flood(client)
        for transaction in (client.transaction(), held.fenced().transaction()):
            with pytest.raises(TooManyRequestsError):
                transaction.create("/refused").commit()
        await client.backend.unlimited().transaction().create("/of-a-recipe")
        assert "/refused" not in zk.znodes()


async def test_throttled_request_was_not_applied(client: Client, zk: EmbeddedServer) -> None:
    zk.throttle(OpCode.CREATE2)
    with pytest.raises(ThrottledOpError) as refused:
        await client.create("/a")
    assert refused.value.outcome is Outcome.NOT_APPLIED
    assert await client.exists("/a") is None
    await client.create("/a")
    zk.throttle(OpCode.GET_DATA, 2)
    replies = [client.get("/a") for _ in range(3)]
    for reply in replies[:2]:
        with pytest.raises(ThrottledOpError):
            await reply
    assert (await replies[2])[0] == b""


async def test_server_that_stops_reading_is_waited_for(client: Client, zk: EmbeddedServer) -> None:
    """Unread data stays with TCP and in the client, however much it is."""
    await client.create("/a")
    data = bytes(500_000)
    zk.pause()
    writes = [client.set("/a", data) for _ in range(40)]
    with anyio.move_on_after(0.2):
        await writes[-1]
    assert not writes[-1].is_done
    zk.resume()
    for write in writes:
        await write
    assert (await writes[-1]).version == 40
    assert zk.requests["SET_DATA"] == 40


@virtually
async def test_bound_request_does_not_wait_for_another_connection() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect(limits=Limits(max_in_flight=1)) as client:
            link.stall("to_client")
            sent = client.backend.bind(client.create("/a"))
            await link.wait_for_request(OpCode.CREATE2)
            bound = client.backend.bind(client.create("/b"))
            waiting = client.create("/c")
            link.reset()
            link.heal()
            with pytest.raises(ConnectionLossError) as lost:
                await bound
            assert lost.value.outcome is Outcome.NOT_APPLIED
            with pytest.raises(ConnectionLossError) as lost:
                await sent
            assert lost.value.outcome is Outcome.UNKNOWN
            await waiting
            assert set(await client.get_children("/")) == {"a", "c", "zookeeper"}


@pytest.mark.parametrize("name", ["max_in_flight", "max_queued"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "10"])
def test_limits_are_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: must be a whole number from 1 up"):
        Limits(**{name: value})  # type: ignore[arg-type]
