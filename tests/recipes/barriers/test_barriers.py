"""Barriers: who waits until when, and who is let in, and out, together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    OVER_AIOZK,
    PATIENCE,
    Served,
    catch_up,
    connect,
    contenders_left,
    eventually,
    names,
)
from kit.selection import REAL_SERVERS
from kit.virtual_time import Link, embedded, on_virtual_time, passes, settled, virtually
from kit.virtual_time import connect as connect_virtually

from aiolead import AcquireTimeout, Barrier, Client, CreateMode, DoubleBarrier
from aiolead.errors import AlreadyHeldError, BarrierLost, ConfigurationError, LossReason
from aiolead.model import ACL, Permission
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy, MemoryProxy, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import BarrierMember

pytestmark = pytest.mark.timeout(60)

PATH = "/steps/barrier"
READY = f"{PATH}/ready"
# Names of members are UUIDs.
ONE, OTHER, OLDER = (f"{number:08x}-0000-4000-8000-000000000000" for number in (1, 2, 3))

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


# --- the barrier ---------------------------------------------------------------------------------


class Waiter:
    """Waits in a task of its own."""

    def __init__(self, client: Client) -> None:
        self.is_through = False
        self._barrier = Barrier(client, PATH)

    async def __call__(self) -> None:
        await self._barrier.wait()
        self.is_through = True


async def test_closed_and_opened(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
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


async def test_it_outlives_who_closed_it(server: ServerUnderTest) -> None:
    async with connect(server) as b:
        async with connect(server) as a:
            await Barrier(a, PATH).set()
        await catch_up(b)
        assert await Barrier(b, PATH).is_set()


@on_embedded
async def test_waiting_leaves_no_watch(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        barrier = Barrier(a, PATH)
        await barrier.set()
        for _ in range(3):
            with anyio.move_on_after(0.01):
                await barrier.wait()
        await eventually(lambda: len(a._core.machine.watches) == 0, "no watch is known")
        await barrier.remove()


@on_embedded
async def test_it_cannot_be_at_the_root(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        for make in (Barrier, lambda client, path: DoubleBarrier(client, path, 2)):
            with pytest.raises(ConfigurationError):
                make(a, "/")
        for count in (0, -1, True, 1.5):
            with pytest.raises(ConfigurationError, match="count"):
                DoubleBarrier(a, PATH, count)  # type: ignore[arg-type]


@backends
@pytest.mark.parametrize("again", [False, True], ids=["opened", "opened and closed again"])
@pytest.mark.parametrize("what", ["the link is lost", "the session expires", "nothing"])
def test_no_opening_is_missed(backend: Backend, again: bool, what: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            barrier = Barrier(b, PATH)
            await barrier.set()
            waiter = Waiter(a)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waiter)
                await passes(1.0)
                if what != "nothing":
                    link.lose()
                    await passes(1.0)
                    assert not waiter.is_through
                if what == "the session expires":
                    server.expire_session(a.session_id)
                await barrier.remove()
                if again:
                    await barrier.set()
                link.restore()
                await passes(5.0)
                assert waiter.is_through

    on_virtual_time(backend, play)


@backends
def test_what_happens_to_the_session_is_no_opening(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            barrier = Barrier(b, PATH)
            await barrier.set()
            waiter = Waiter(a)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waiter)
                for _ in range(3):
                    await passes(1.0)
                    server.expire_session(a.session_id)
                    await passes(1.0)
                    link.lose()
                    await passes(20.0)
                    link.restore()
                    await b.set(PATH, b"changed")
                    await passes(5.0)
                    assert not waiter.is_through
                await barrier.remove()

    on_virtual_time(backend, play)


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


async def test_all_go_in_together_and_out_together(server: ServerUnderTest) -> None:
    party = Party(3)
    async with connect(server) as a, connect(server) as b:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(party.join, a, "one")
            tasks.start_soon(party.join, b, "two")
            await eventually(_members(a, 2), "two are there")
            await anyio.sleep(0.05)
            assert party.who("in") == []
            members = await DoubleBarrier(a, PATH, 3).members()
            assert sorted(member.identity for member in members) == ["one", "two"]
            assert not any(member.is_holder for member in members)
            tasks.start_soon(party.join, a, "three", 0.05)
        assert party.order().index("gone") > max(
            index for index, said in enumerate(party.order()) if said == "out"
        )
        assert len(set(party.rounds)) == 1
        assert await names(a, PATH) == []


def _members(client: Client, count: int):
    async def are_there() -> bool:
        return len(await DoubleBarrier(client, PATH, count).members()) == count

    return are_there


async def test_round_after_round(server: ServerUnderTest) -> None:
    """Nobody waits for one who is in the next round already."""
    party = Party(3)
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        for name, client in (("one", a), ("two", b), ("three", b)):
            tasks.start_soon(lambda c=client, n=name: party.join(c, n, rounds=5))
    assert len(set(party.rounds)) == 5
    assert party.rounds == sorted(party.rounds)
    for number in range(5):
        said = [said for said in party.order() if said in ("in", "out")]
        assert sorted(said[6 * number : 6 * number + 6]) == ["in"] * 3 + ["out"] * 3


@pytest.mark.parametrize("wait", [0, 0.05])
async def test_entering_ends_in_time(server: ServerUnderTest, wait: float) -> None:
    async with connect(server) as a:
        with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
            async with DoubleBarrier(a, PATH, 2).enter(timeout=wait):
                pytest.fail("nobody else is there")
        await eventually(_nothing(a), "it has left nothing")
        async with DoubleBarrier(a, PATH, 1).enter(timeout=0) as member:
            assert isinstance(member, BarrierMember)
            await member.verify()
            (seen,) = await DoubleBarrier(a, PATH, 1).members()
            assert (seen.path, seen.token, seen.is_holder) == (member.path, member.token, True)


@on_embedded
async def test_one_task_cannot_be_two_members(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        barrier = DoubleBarrier(a, PATH, 1)
        async with barrier:
            with pytest.raises(AlreadyHeldError):
                async with barrier:
                    pytest.fail("it would wait for itself on leaving")


@on_embedded
async def test_who_raises_leaves_at_once(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        party, raised = Party(2), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(party.join, b, "other", 0.2)
            with pytest.raises(KeyError):
                async with DoubleBarrier(a, PATH, 2):
                    raise KeyError
            raised.set()
            assert party.who("gone") == []
        assert party.who("gone") == ["other"]
        await eventually(_nothing(a), "ready is gone")


def _nothing(client: Client):
    async def is_there() -> bool:
        return await names(client, PATH) == []

    return is_there


@asynccontextmanager
async def scene(server: EmbeddedServer) -> AsyncIterator[tuple[Link, Client, Client, Client]]:
    link = Link(server)
    async with (
        link.connect() as a,
        connect_virtually(server) as b,
        connect_virtually(server) as c,
    ):
        yield link, a, b, c


@backends
def test_who_died_before_is_not_counted(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        party = Party(3)
        async with scene(server) as (link, a, b, c), anyio.create_task_group() as tasks:
            tasks.start_soon(party.join, a, "a")
            await settled()
            link.lose()
            server.expire_session(a.session_id)
            tasks.start_soon(party.join, b, "b", 1.0)
            tasks.start_soon(party.join, c, "c", 1.0)
            await passes(5.0)
            assert party.who("in") == []
            link.restore()  # it comes again, by itself
            await passes(5.0)
            assert party.who("gone") == ["a", "b", "c"]

    on_virtual_time(backend, play)


@backends
def test_a_member_that_dies_hangs_nobody(backend: Backend) -> None:
    """The others leave when its session has ended; it is told that it is not inside any more."""

    async def play(server: EmbeddedServer) -> None:
        party = Party(3)
        async with scene(server) as (link, a, b, c), anyio.create_task_group() as tasks:
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
            link.lose()
            await passes(3.0)
            assert party.who("gone") == []
            await passes(17.0)
            assert party.who("gone") == ["b", "c"]
            assert [loss.reason for loss in lost] == [LossReason.UNCONFIRMED]
            link.restore()
            await passes(5.0)
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


@backends
def test_one_that_was_started_again_joins_the_round(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        party = Party(2)
        async with scene(server) as (_, a, b, c), anyio.create_task_group() as tasks:
            tasks.start_soon(party.join, a, "a", 10.0)

            async def dies() -> None:
                with pytest.raises(BarrierLost):
                    await party.join(b, "b", 10.0)

            tasks.start_soon(dies)
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

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("together", [True, False], ids=["both at once", "one after the other"])
def test_what_the_dead_have_left_opens_nothing(backend: Backend, together: bool) -> None:
    """All members of a round have died, and `ready` is there still."""

    async def play(server: EmbeddedServer) -> None:
        party = Party(3)
        async with scene(server) as (_, a, b, c):
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

    on_virtual_time(backend, play)


@backends
def test_a_round_of_late_comers_ends_before_the_next_begins(backend: Backend) -> None:
    """Nobody is inside any more who was there when the round began, but somebody who came later."""

    async def play(server: EmbeddedServer) -> None:
        party = Party(2)
        async with scene(server) as (_, a, b, c), anyio.create_task_group() as tasks:
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

    on_virtual_time(backend, play)


@pytest.mark.exhaustive("all recipes alike", one_in=3)
@backends
@pytest.mark.parametrize("op", [OpCode.CREATE2, OpCode.DELETE, OpCode.GET_CHILDREN])
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("number", [1, 2])
def test_an_answer_is_lost(backend: Backend, op: OpCode, applied: bool, number: int) -> None:
    """Of anything that the last one to come, and to leave, asks for."""

    async def play(server: EmbeddedServer) -> None:
        party = Party(2)
        async with scene(server) as (_, a, b, _), anyio.create_task_group() as tasks:
            tasks.start_soon(party.join, b, "b", 0.5)
            await settled()
            await passes(1.0)
            drop = server.drop_reply if applied else server.drop_request
            drop(op, number)
            tasks.start_soon(party.join, a, "a", 1.0)
            await passes(20.0)
            assert party.who("gone") == ["a", "b"]
            await passes(20.0)
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


@backends
def test_the_ready_of_another_round_is_left_alone(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        from aiolead._recipes.barriers.barrier_membership import remove_ready

        async with connect_virtually(server) as a:
            await a.ensure_path(PATH, mode=CreateMode.CONTAINER)
            created = await a.create(READY)
            await remove_ready(a, PATH, created.stat.czxid - 1)
            assert READY in server.znodes()
            await remove_ready(a, PATH, created.stat.czxid)
            assert READY not in server.znodes()
            await remove_ready(a, PATH, created.stat.czxid)

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("writable", [True, False])
def test_ready_stays_beside_a_member_that_has_come(backend: Backend, writable: bool) -> None:
    """It may be about to withdraw, and must not be counted in a next round."""

    async def play(server: EmbeddedServer) -> None:
        from aiolead._recipes.barriers.barrier_membership import keep_ready, remove_ready

        allowed = Permission.READ | Permission.CREATE | Permission.DELETE
        async with connect_virtually(server) as a:
            await a.ensure_path(PATH.rpartition("/")[0])
            acl = None if writable else [ACL.world(allowed)]
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

    on_virtual_time(backend, play)


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


@backends
def test_a_late_removal_leaves_the_next_round_alone(backend: Backend) -> None:
    """Three members remove `ready`; two requests arrive when the next round has begun."""

    async def play(server: EmbeddedServer) -> None:
        from aiolead._recipes.barriers.barrier_membership import remove_ready

        async with scene(server) as (_, a, b, c), anyio.create_task_group() as tasks:
            await c.ensure_path(PATH, mode=CreateMode.CONTAINER)
            old = (await c.create(READY)).stat.czxid
            late: Any = Slow(a, "set")
            later: Any = Slow(b, "delete")
            tasks.start_soon(remove_ready, later, PATH, old)
            await settled()
            tasks.start_soon(remove_ready, late, PATH, old)
            await settled()
            await remove_ready(c, PATH, old)
            assert READY not in server.znodes()
            await c.create(READY)
            late.may_go.set()
            await settled()
            later.may_go.set()
            await settled()
            assert READY in server.znodes()

    on_virtual_time(backend, play)


@backends
def test_who_withdraws_has_a_removal_refused_that_began_before(backend: Backend) -> None:
    """A newcomer was alone, and removes `ready`; a younger one comes and withdraws meanwhile."""

    async def play(server: EmbeddedServer) -> None:
        from aiolead._recipes.barriers.barrier_membership import remove_ready

        party = Party(1)
        async with scene(server) as (_, a, b, _), anyio.create_task_group() as tasks:
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

    on_virtual_time(backend, play)


@backends
def test_ready_is_removed_where_the_path_may_not_be_written(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        allowed = Permission.READ | Permission.CREATE | Permission.DELETE
        async with connect_virtually(server) as a:
            await a.ensure_path(PATH.rpartition("/")[0])
            await a.create(PATH, acl=[ACL.world(allowed)])
            for _ in range(2):
                async with DoubleBarrier(a, PATH, 1):
                    assert READY in server.znodes()
                assert READY not in server.znodes()

    on_virtual_time(backend, play)


@dataclass(frozen=True, slots=True)
class Behind:
    """A server behind a proxy."""

    connect_string: str


async def play_a_link_lost_while_leaving(
    a: Client, b: Client, proxy: FaultProxy | MemoryProxy
) -> None:
    """The link is lost at the moment of leaving, for longer than the release waits.

    A newcomer that sees `ready` and the znode of an old member joins that round, so nobody of the
    round may leave from then on while the newcomer is inside.
    """
    rounds: dict[str, int] = {}
    overlap: list[str] = []
    may_leave, has_left, newcomer_is_in = anyio.Event(), anyio.Event(), anyio.Event()

    async def leave(client: Client) -> None:
        async with DoubleBarrier(client, PATH, 1) as member:
            rounds["old"] = member.round
            await may_leave.wait()
        if rounds.get("new") == rounds["old"]:
            overlap.append("the newcomer is inside the round that an old member has left")
        has_left.set()

    async def join(client: Client) -> None:
        async with DoubleBarrier(client, PATH, 1) as member:
            rounds["new"] = member.round
            newcomer_is_in.set()
            with anyio.move_on_after(1.0):
                await has_left.wait()
            del rounds["new"]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave, a)
        await eventually(lambda: "old" in rounds, "it is inside")
        proxy.drop_request(OpCode.DELETE)
        proxy.refuse()
        may_leave.set()
        await proxy.wait_for_request(OpCode.DELETE)
        await anyio.sleep(a.session_timeout / 3 + 0.1)  # the outage
        proxy.heal()
        held = proxy.hold_reply(OpCode.GET_CHILDREN)
        await held.wait(PATIENCE)
        tasks.start_soon(join, b)
        with anyio.fail_after(PATIENCE):
            await newcomer_is_in.wait()
        held.release()

    async def nothing_is_left() -> bool:
        return await names(b, PATH) == []

    await eventually(nothing_is_left, "nothing is left")
    assert overlap == []


@pytest.mark.parametrize("server", [*REAL_SERVERS, *(["embedded"] * OVER_AIOZK)], indirect=True)
async def test_ready_stays_until_the_znode_of_who_leaves_is_gone(server: ServerUnderTest) -> None:
    with FaultProxy(*parse_connect_string(server.hosts).hosts[0]) as proxy:
        behind: Served = Behind(proxy.connect_string + server.chroot)
        async with connect(behind) as a, connect(server) as b:
            await play_a_link_lost_while_leaving(a, b, proxy)


@virtually
async def test_ready_stays_until_the_znode_is_gone_in_memory() -> None:
    async with embedded() as server, anyio.create_task_group() as links:
        proxy = MemoryProxy(server)
        link = Link(server)
        async with link.connect(dial=proxy.dial) as a, link.connect() as b:
            await play_a_link_lost_while_leaving(a, b, proxy)
        links.cancel_scope.cancel()


@pytest.mark.parametrize("heard", range(3))
@pytest.mark.parametrize("is_late", [True, False], ids=["given up first", "given up last"])
@pytest.mark.parametrize("b_ends", ["timeout", "cancelled", "expired"])
@pytest.mark.parametrize("a_ends", ["cancelled while it waits to leave", "raises"])
@virtually
async def test_member_that_gives_up_unaware_of_its_round_leaves_no_ready(
    a_ends: str, b_ends: str, is_late: bool, heard: int
) -> None:
    """It was counted, and so the round has begun, but it has not heard of that yet."""
    async with embedded() as server, connect_virtually(server) as a:
        link = Link(server)
        async with link.connect() as b:
            gives_up = anyio.CancelScope()

            async def enter_behind_a_slow_link() -> None:
                with gives_up, suppress(AcquireTimeout, BarrierLost):
                    async with DoubleBarrier(b, PATH, 2).enter(
                        timeout=1.0 if b_ends == "timeout" else None
                    ):
                        pass

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(enter_behind_a_slow_link)
                await settled()
                assert len(await names(a, PATH)) == 1
                link.hold(after=heard)
                with anyio.move_on_after(3.0 if is_late else 0.5), suppress(KeyError):
                    async with DoubleBarrier(a, PATH, 2):
                        assert await a.exists(READY) is not None
                        if a_ends == "raises":
                            await anyio.sleep(3.0 if is_late else 0.5)
                            raise KeyError
                await passes(1.0)
                if b_ends == "expired":
                    server.expire_session(b.session_id)
                if b_ends != "timeout":
                    gives_up.cancel()
                link.release()
                await passes(20.0)
            assert contenders_left(server, PATH) == []


@backends
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
def test_who_raises_leaves_no_ready_when_its_delete_is_lost(
    backend: Backend, applied: bool
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a:
            with pytest.raises(KeyError):
                async with DoubleBarrier(a, PATH, 1):
                    (server.drop_reply if applied else server.drop_request)(OpCode.DELETE)
                    raise KeyError
            await passes(20.0)
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)
