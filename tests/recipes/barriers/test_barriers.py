"""Barriers: how long members wait, and that they enter and leave together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    EVERY_REPLY,
    OVER_AIOZK,
    PATIENCE,
    catch_up,
    children_are,
    connect,
    contenders_left,
    eventually,
    names,
    watches_the_bytes,
)
from kit.selection import REAL_SERVERS, on_embedded
from kit.virtual_time import Drop, Link, lost_message, passes, settled, with_virtual_server
from recipes.blocks import enter

from aiolead import AcquireTimeout, Barrier, Client, CreateMode, DoubleBarrier
from aiolead._recipes.barriers import keep_ready, members_among, remove_ready
from aiolead.errors import AlreadyHeldError, BarrierLost, LossReason
from aiolead.model import ACL, Permission
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy, MemoryProxy, OpCode
from aiolead.types import BarrierMember

pytestmark = pytest.mark.timeout(60)

PATH = "/steps/barrier"
READY = f"{PATH}/ready"
# Names of members are UUIDs.
ONE, OTHER, OLDER = (f"{number:08x}-0000-4000-8000-000000000000" for number in (1, 2, 3))
# With these permissions, a client may not write the path.
NO_WRITE = [ACL.world(Permission.READ | Permission.CREATE | Permission.DELETE)]


# --- the barrier ---------------------------------------------------------------------------------


class Waiter:
    """Waits in a task of its own."""

    def __init__(self, client: Client) -> None:
        self.is_through = False
        self._barrier = Barrier(client, PATH)

    async def __call__(self) -> None:
        await self._barrier.wait()
        self.is_through = True


async def test_waiters_go_on_when_the_barrier_is_removed(a: Client, b: Client) -> None:
    ours, theirs = Barrier(a, PATH), Barrier(b, PATH)
    assert not await theirs.is_set()
    await theirs.wait()
    await ours.set()
    await ours.set()
    waiters = [Waiter(a), Waiter(b), Waiter(b)]
    async with anyio.create_task_group() as tasks:
        for waiter in waiters:
            tasks.start_soon(waiter)
        await anyio.sleep(0.05)
        assert not any(waiter.is_through for waiter in waiters)
        assert await ours.is_set()
        await theirs.remove()
    await theirs.remove()
    await ours.wait()
    assert repr(ours) == f"<Barrier {PATH}>"
    assert ours.path == PATH


async def test_barrier_outlives_the_client_that_set_it(server: ServerUnderTest, b: Client) -> None:
    async with connect(server) as a:
        await Barrier(a, PATH).set()
    await catch_up(b)
    assert await Barrier(b, PATH).is_set()


@pytest.mark.parametrize("again", [False, True], ids=["removed", "removed and set again"])
@pytest.mark.parametrize("what", ["connection lost", "session expired", "nothing"])
@with_virtual_server
async def test_waiter_goes_on_after_a_removal_and_not_before(
    server: EmbeddedServer, link: Link, a: Client, b: Client, again: bool, what: str
) -> None:
    barrier, waiter = Barrier(b, PATH), Waiter(a)
    await barrier.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        await passes(1.0)
        if what != "nothing":
            link.down()
            await passes(1.0)
            assert not waiter.is_through
        if what == "session expired":
            server.expire_session(a.session_id)
        await b.set(PATH, b"changed")
        link.heal()
        await passes(5.0)
        assert not waiter.is_through
        if what != "nothing":
            link.down()
            await passes(1.0)
        await barrier.remove()
        if again:
            await barrier.set()
        link.heal()
        await passes(5.0)
        assert waiter.is_through


# --- the double barrier --------------------------------------------------------------------------


class Party:
    """Members of a double barrier, and what they have seen."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.log: list[tuple[str, str]] = []
        self.rounds: list[int] = []

    async def join(self, client: Client, name: str, span: float = 0.0, *, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.log.append(("comes", name))
            async with DoubleBarrier(client, PATH, self.count, identity=name) as member:
                self.log.append(("in", name))
                self.rounds.append(member.round)
                await anyio.sleep(span)
                self.log.append(("out", name))
            self.log.append(("gone", name))

    def who(self, what: str) -> list[str]:
        return sorted(name for said, name in self.log if said == what)

    def order(self) -> list[str]:
        return [said for said, _ in self.log]


async def test_members_enter_together_and_leave_together(a: Client, b: Client) -> None:
    party = Party(3)

    async def are_two() -> bool:
        return len(await DoubleBarrier(a, PATH, 2).members()) == 2

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, a, "one")
        tasks.start_soon(party.join, b, "two")
        await eventually(are_two, "two are there")
        await anyio.sleep(0.05)
        assert party.who("in") == []
        members = await DoubleBarrier(a, PATH, 3).members()
        assert sorted(member.identity for member in members) == ["one", "two"]
        assert not any(member.is_holder for member in members)
        tasks.start_soon(party.join, a, "three", 0.05)
    order = party.order()
    assert order.index("gone") > max(n for n, said in enumerate(order) if said == "out")
    assert len(set(party.rounds)) == 1
    assert await names(a, PATH) == []


async def test_rounds_follow_each_other(a: Client, b: Client) -> None:
    """Nobody waits for a member that is in the next round already."""
    party = Party(3)
    async with anyio.create_task_group() as tasks:
        for name, client in (("one", a), ("two", b), ("three", b)):
            tasks.start_soon(lambda c=client, n=name: party.join(c, n, rounds=5))
    assert len(set(party.rounds)) == 5
    assert party.rounds == sorted(party.rounds)
    said = [said for said in party.order() if said in ("in", "out")]
    for number in range(5):
        assert sorted(said[6 * number : 6 * number + 6]) == ["in"] * 3 + ["out"] * 3


@pytest.mark.parametrize("wait", [0, 0.05])
async def test_enter_gives_up_at_its_timeout(a: Client, wait: float) -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
        await enter(DoubleBarrier(a, PATH, 2).enter(timeout=wait))
    await children_are(a, PATH)
    async with DoubleBarrier(a, PATH, 1).enter(timeout=0) as member:
        assert isinstance(member, BarrierMember)
        await member.verify()
        (seen,) = await DoubleBarrier(a, PATH, 1).members()
        assert (seen.path, seen.token, seen.is_holder) == (member.path, member.token, True)


@on_embedded
async def test_one_task_cannot_be_two_members(a: Client) -> None:
    barrier = DoubleBarrier(a, PATH, 1)
    async with barrier:
        with pytest.raises(AlreadyHeldError):
            await enter(barrier)


@on_embedded
async def test_member_whose_body_raises_leaves_at_once(a: Client, b: Client) -> None:
    party = Party(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, b, "other", 0.2)
        with pytest.raises(KeyError):
            async with DoubleBarrier(a, PATH, 2):
                raise KeyError
        assert party.who("gone") == []
    assert party.who("gone") == ["other"]
    await children_are(a, PATH)


@with_virtual_server
async def test_member_that_died_before_is_not_counted(
    server: EmbeddedServer, link: Link, a: Client, b: Client, c: Client
) -> None:
    party = Party(3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, a, "a")
        await settled()
        link.down()
        server.expire_session(a.session_id)
        tasks.start_soon(party.join, b, "b", 1.0)
        tasks.start_soon(party.join, c, "c", 1.0)
        await passes(5.0)
        assert party.who("in") == []
        link.heal()  # it comes again, by itself
        await passes(5.0)
        assert party.who("gone") == ["a", "b", "c"]


@with_virtual_server
async def test_member_that_dies_inside_hangs_nobody(
    server: EmbeddedServer, link: Link, a: Client, b: Client, c: Client
) -> None:
    """The others leave when its session has ended; its own body ends before that."""
    party = Party(3)
    async with anyio.create_task_group() as tasks:
        lost: list[BarrierLost] = []

        async def die() -> None:
            try:
                await party.join(a, "a", 100.0)
            except BarrierLost as loss:
                lost.append(loss)

        tasks.start_soon(die)
        tasks.start_soon(party.join, b, "b", 1.0)
        tasks.start_soon(party.join, c, "c", 2.0)
        await passes(3.0)
        assert party.who("out") == ["b", "c"]
        assert party.who("gone") == []
        link.down()
        await passes(3.0)
        assert party.who("gone") == []
        await passes(17.0)
        assert party.who("gone") == ["b", "c"]
        assert [loss.reason for loss in lost] == [LossReason.UNCONFIRMED]
        link.heal()
        await passes(5.0)
        assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_restarted_member_joins_the_round_of_its_former_self(
    server: EmbeddedServer, a: Client, b: Client, c: Client
) -> None:
    party = Party(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, a, "a", 10.0)

        async def die() -> None:
            with pytest.raises(BarrierLost):
                await party.join(b, "b", 10.0)

        tasks.start_soon(die)
        await passes(1.0)
        server.expire_session(b.session_id)
        await passes(1.0)
        tasks.start_soon(party.join, c, "b again", 20.0)
        await passes(1.0)
        assert party.who("in") == ["a", "b", "b again"]
        assert len(set(party.rounds)) == 1
        await passes(12.0)
        assert party.who("out") == ["a"]
        assert party.who("gone") == []  # it waits for the one that came later
        await passes(20.0)
        assert party.who("gone") == ["a", "b again"]
        assert contenders_left(server, PATH) == []


@pytest.mark.parametrize("together", [True, False], ids=["both at once", "one after the other"])
@with_virtual_server
async def test_ready_of_dead_members_lets_nobody_in(
    server: EmbeddedServer, a: Client, b: Client, c: Client, together: bool
) -> None:
    party = Party(3)
    await a.ensure_path(PATH)
    await a.create(READY)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, a, "a", 1.0)
        if not together:
            await passes(1.0)
        tasks.start_soon(party.join, b, "b", 1.0)
        await passes(3.0)
        assert party.who("in") == []
        assert READY not in server.znodes()
        tasks.start_soon(party.join, c, "c", 1.0)
    assert party.who("gone") == ["a", "b", "c"]
    assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_next_round_begins_after_the_late_members_have_left(
    server: EmbeddedServer, a: Client, b: Client, c: Client
) -> None:
    """All who were there when the round began have left, but not one that came later."""
    party = Party(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, a, "a", 2.0)
        tasks.start_soon(party.join, b, "b", 2.0)
        await passes(1.0)
        tasks.start_soon(party.join, c, "late", 10.0)
        await passes(3.0)
        assert party.who("out") == ["a", "b"]
        tasks.start_soon(party.join, c, "next 1", 1.0)
        await passes(1.0)
        tasks.start_soon(party.join, b, "next 2", 1.0)
        await passes(1.0)
        assert party.who("in") == ["a", "b", "late"]
        await passes(20.0)
        assert party.who("gone") == ["a", "b", "late", "next 1", "next 2"]
        assert len(set(party.rounds)) == 2
        assert contenders_left(server, PATH) == []


@pytest.mark.exhaustive("all recipes alike", one_in=3)
@pytest.mark.parametrize("op", [OpCode.CREATE2, OpCode.DELETE, OpCode.GET_CHILDREN])
@lost_message
@pytest.mark.parametrize("number", [1, 2])
@with_virtual_server
async def test_lost_message_of_the_last_member_hangs_nobody(
    server: EmbeddedServer, a: Client, b: Client, op: OpCode, drop: Drop, number: int
) -> None:
    party = Party(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(party.join, b, "b", 0.5)
        await passes(1.0)
        drop(server, op, number)
        tasks.start_soon(party.join, a, "a", 1.0)
        await passes(20.0)
        assert party.who("gone") == ["a", "b"]
        await passes(20.0)
        assert contenders_left(server, PATH) == []


# --- when `ready` is removed ---------------------------------------------------------------------


@with_virtual_server
async def test_ready_of_another_round_is_kept(server: EmbeddedServer, a: Client) -> None:
    await a.ensure_path(PATH, mode=CreateMode.CONTAINER)
    created = await a.create(READY)
    await remove_ready(a, PATH, created.stat.czxid - 1)
    assert READY in server.znodes()
    await remove_ready(a, PATH, created.stat.czxid)
    assert READY not in server.znodes()
    await remove_ready(a, PATH, created.stat.czxid)


@pytest.mark.parametrize("acl", [None, NO_WRITE], ids=["may be written", "may not be written"])
@with_virtual_server
async def test_ready_stays_beside_a_member_that_has_come(
    server: EmbeddedServer, a: Client, acl: list[ACL] | None
) -> None:
    """It may be about to withdraw, and must not be counted in a next round."""
    await a.ensure_path(PATH.rpartition("/")[0])
    await a.create(PATH, acl=acl)
    round_ = (await a.create(READY)).stat.czxid
    await a.create(f"{PATH}/{ONE}", mode=CreateMode.EPHEMERAL)
    await a.create(f"{PATH}/{OTHER}", mode=CreateMode.EPHEMERAL)
    await remove_ready(a, PATH, round_, own=ONE)
    assert READY in server.znodes()
    assert await keep_ready(a, PATH, round_)
    await a.delete(f"{PATH}/{OTHER}")
    await remove_ready(a, PATH, round_, own=ONE)
    assert READY not in server.znodes()
    assert not await keep_ready(a, PATH, round_)
    await a.create(READY)
    assert not await keep_ready(a, PATH, round_)


class Slow:
    """A client whose transactions, and one other kind of its writes, wait before they are sent."""

    def __init__(self, client: Client, kind: str) -> None:
        self._client, self._kind = client, kind
        self.may_go = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return partial(self._later, found) if name == self._kind else found

    def transaction(self) -> Any:
        transaction: Any = self._client.transaction()
        transaction.commit = partial(self._later, transaction.commit)
        return transaction

    async def _later(self, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        await self.may_go.wait()
        return await call(*args, **options)


@with_virtual_server
async def test_late_removal_keeps_ready_of_the_next_round(
    server: EmbeddedServer, a: Client, b: Client, c: Client
) -> None:
    """Three members remove `ready`; two requests arrive when the next round has begun."""
    async with anyio.create_task_group() as tasks:
        await c.ensure_path(PATH, mode=CreateMode.CONTAINER)
        old = (await c.create(READY)).stat.czxid
        late: Any = Slow(a, "set")
        later: Any = Slow(b, "delete")
        for slow in (later, late):
            tasks.start_soon(remove_ready, slow, PATH, old)
            await settled()
        await remove_ready(c, PATH, old)
        assert READY not in server.znodes()
        await c.create(READY)
        for slow in (late, later):
            slow.may_go.set()
            await settled()
        assert READY in server.znodes()


@with_virtual_server
async def test_withdrawing_keeps_ready_once(server: EmbeddedServer, a: Client, b: Client) -> None:
    """A newcomer was alone, and removes `ready`; a younger one comes and withdraws meanwhile."""
    party = Party(1)
    async with anyio.create_task_group() as tasks:
        await a.ensure_path(PATH, mode=CreateMode.CONTAINER)
        round_ = (await a.create(READY)).stat.czxid
        await a.create(f"{PATH}/{OLDER}", mode=CreateMode.EPHEMERAL)
        late: Any = Slow(a, "set")
        tasks.start_soon(partial(remove_ready, late, PATH, round_, own=OLDER))
        await settled()
        tasks.start_soon(party.join, b, "b")
        await passes(1.0)
        assert sorted(await a.get_children(PATH)) == [OLDER, "ready"]
        late.may_go.set()
        await passes(1.0)
        stat = await a.exists(READY)
        assert stat is not None
        assert stat.czxid == round_
        await a.delete(f"{PATH}/{OLDER}")
        await passes(1.0)
        assert party.who("gone") == ["b"]
        assert READY not in server.znodes()


@with_virtual_server
async def test_ready_is_removed_below_a_read_only_path(server: EmbeddedServer, a: Client) -> None:
    await a.ensure_path(PATH.rpartition("/")[0])
    await a.create(PATH, acl=NO_WRITE)
    for _ in range(2):
        async with DoubleBarrier(a, PATH, 1):
            assert READY in server.znodes()
        assert READY not in server.znodes()


async def leave_over_a_lost_link(a: Client, b: Client, proxy: FaultProxy | MemoryProxy) -> None:
    """The connection is lost at the moment of leaving, for longer than the release waits.

    A newcomer that sees `ready` and the znode of an old member joins that round, so nobody of the
    round may leave from then on while the newcomer is inside.
    """
    rounds: dict[str, int] = {}
    overlap: list[str] = []
    may_leave, has_left, newcomer_is_in = anyio.Event(), anyio.Event(), anyio.Event()

    async def leave() -> None:
        async with DoubleBarrier(a, PATH, 1) as member:
            rounds["old"] = member.round
            await may_leave.wait()
        if rounds.get("new") == rounds["old"]:
            overlap.append("the newcomer is inside the round that an old member has left")
        has_left.set()

    async def join() -> None:
        async with DoubleBarrier(b, PATH, 1) as member:
            rounds["new"] = member.round
            newcomer_is_in.set()
            with anyio.move_on_after(1.0):
                await has_left.wait()
            del rounds["new"]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await eventually(lambda: "old" in rounds, "it is inside")
        proxy.drop_request(OpCode.DELETE)
        proxy.refuse()
        may_leave.set()
        await proxy.wait_for_request(OpCode.DELETE)
        await anyio.sleep(a.session_timeout / 3 + 0.1)  # the outage
        proxy.heal()
        held = proxy.hold_reply(OpCode.GET_CHILDREN)
        await held.wait(PATIENCE)
        tasks.start_soon(join)
        with anyio.fail_after(PATIENCE):
            await newcomer_is_in.wait()
        held.release()
    await children_are(b, PATH)
    assert overlap == []


@pytest.mark.parametrize("server", [*REAL_SERVERS, *(["embedded"] * OVER_AIOZK)], indirect=True)
async def test_ready_stays_until_the_last_znode_is_gone(server: ServerUnderTest) -> None:
    host, port = parse_connect_string(server.hosts).hosts[0]
    with FaultProxy(host, port, chroot=server.chroot) as proxy:
        async with connect(proxy) as a, connect(server) as b:
            await leave_over_a_lost_link(a, b, proxy)


@watches_the_bytes
@with_virtual_server
async def test_ready_stays_until_the_znode_is_gone_in_memory(server: EmbeddedServer) -> None:
    proxy = Link(server)
    async with proxy.connect() as a, Link(server).connect() as b:
        await leave_over_a_lost_link(a, b, proxy)


@watches_the_bytes
@pytest.mark.parametrize("received", range(3))
@pytest.mark.parametrize("is_late", [True, False], ids=["given up first", "given up last"])
@pytest.mark.parametrize("end", ["timeout", "cancelled", "expired"])
@pytest.mark.parametrize("other_end", ["cancelled while it waits to leave", "raises"])
@with_virtual_server
async def test_member_that_gives_up_unaware_of_its_round_leaves_no_ready(
    server: EmbeddedServer,
    link: Link,
    client: Client,
    other: Client,
    other_end: str,
    end: str,
    is_late: bool,
    received: int,
) -> None:
    """It was counted, and so the round has begun, but it does not know that yet."""
    gives_up = anyio.CancelScope()

    async def enter_behind_a_slow_link() -> None:
        timeout = 1.0 if end == "timeout" else None
        with gives_up, suppress(AcquireTimeout, BarrierLost):
            await enter(DoubleBarrier(client, PATH, 2).enter(timeout=timeout))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter_behind_a_slow_link)
        await settled()
        assert len(await names(other, PATH)) == 1
        link.hold_reply(EVERY_REPLY, after=received)
        with anyio.move_on_after(3.0 if is_late else 0.5), suppress(KeyError):
            async with DoubleBarrier(other, PATH, 2):
                assert await other.exists(READY) is not None
                if other_end == "raises":
                    await anyio.sleep(3.0 if is_late else 0.5)
                    raise KeyError
        await passes(1.0)
        if end == "expired":
            server.expire_session(client.session_id)
        if end != "timeout":
            gives_up.cancel()
        link.heal()
        await passes(20.0)
    assert contenders_left(server, PATH) == []


@lost_message
@with_virtual_server
async def test_member_whose_body_raises_removes_ready_over_a_lost_delete(
    server: EmbeddedServer, a: Client, drop: Drop
) -> None:
    with pytest.raises(KeyError):
        async with DoubleBarrier(a, PATH, 1):
            drop(server, OpCode.DELETE)
            raise KeyError
    await passes(20.0)
    assert contenders_left(server, PATH) == []


# --- children that are no members do not count, and nobody waits for them ------------------------


@pytest.mark.parametrize(
    ("name", "is_members"),
    [
        ("0b1c2d3e-0000-4000-8000-00000000000f", True),
        ("0b1c2d3e00004000800000000000000f", True),
        ("0B1C2D3E-0000-4000-8000-00000000000F", False),
        ("ready", False),
        ("0b1c2d3e-0000-4000-8000-00000000000f\n", False),
        ("0b1c2d3e-0000-4000-8000-00000000000f-0000000001", False),
        ("0b1c2d3e0000-4000-8000-00000000000f", False),
    ],
)
def test_name_of_member_is_uuid_or_its_digits(name: str, is_members: bool) -> None:
    assert members_among([name]) == ({name} if is_members else set())


@asynccontextmanager
async def beside_foreign_children(
    server: ServerUnderTest,
) -> AsyncIterator[tuple[Client, Client, list[str]]]:
    """Two clients, and the children that stay: of all kinds, except members and `ready`."""
    uuid = str(uuid4())
    foreign = ["note", "x", uuid, uuid4().hex, f"a{uuid}", uuid.upper(), f"{uuid}-0000000001"]
    async with connect(server) as a, connect(server) as other:
        await other.ensure_path(PATH)
        for name in foreign:
            await other.create(f"{PATH}/{name}")
        await other.create(f"{PATH}/worker", mode=CreateMode.EPHEMERAL)
        await catch_up(a)
        yield a, other, [*foreign, "worker"]


@pytest.mark.parametrize("is_ready", [False, True], ids=["no ready", "ready of a dead round"])
async def test_foreign_children_do_not_count(server: ServerUnderTest, is_ready: bool) -> None:
    """They are older than `ready`, as members that are still inside would be."""
    async with beside_foreign_children(server) as (a, other, foreign):
        if is_ready:
            await other.create(READY)
            await catch_up(a)
        barrier = DoubleBarrier(a, PATH, 2)
        with pytest.raises(AcquireTimeout):
            await enter(barrier.enter(timeout=0.3))
        assert await barrier.members() == []
        await children_are(a, PATH, *foreign)


async def test_foreign_children_do_not_hinder_a_round(server: ServerUnderTest) -> None:
    async with beside_foreign_children(server) as (a, b, foreign):
        for _ in range(2):  # the rounds repeat
            leave, inside = anyio.Event(), list[str]()

            async def take_part(
                client: Client, name: str, inside: list[str] = inside, leave: anyio.Event = leave
            ) -> None:
                async with DoubleBarrier(client, PATH, 2, identity=name):
                    inside.append(name)
                    await leave.wait()

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(take_part, a, "a")
                    tasks.start_soon(take_part, b, "b")
                    await eventually(lambda inside=inside: len(inside) == 2, "both are in")
                    members = await DoubleBarrier(a, PATH, 2).members()
                    assert sorted(each.identity for each in members) == ["a", "b"]
                    assert all(each.is_holder for each in members)
                    # The members have not seen these before.
                    for name in (str(uuid4()), uuid4().hex):
                        await b.create(f"{PATH}/{name}")
                        foreign.append(name)
                    await catch_up(a)
                    leave.set()
            await children_are(b, PATH, *foreign)


async def test_body_error_removes_ready_beside_foreign_children(server: ServerUnderTest) -> None:
    async with beside_foreign_children(server) as (a, _, foreign):
        with pytest.raises(ZeroDivisionError):
            async with DoubleBarrier(a, PATH, 1):
                raise ZeroDivisionError
        await children_are(a, PATH, *foreign)
