"""The semaphore: how many hold at once, who is next, what the limit does, and what is lost."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    catch_up,
    connect,
    contenders_left,
    eventually,
    joined,
    names,
)
from kit.selection import on_embedded
from kit.virtual_time import SESSION, Link, passes, settled, with_virtual_server
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import AcquireTimeout, Client, CreateMode, LockLost, Semaphore, admin
from aiolead._recipes.semaphore import Permits
from aiolead.errors import (
    InvalidDataError,
    LossReason,
    MixedLayoutError,
    UsageError,
)
from aiolead.model import ACL, Auth, Permission, SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Layout

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/semaphore"
LEASES = f"{PATH}/leases"
LOCKS = f"{PATH}/locks"
LIMIT = f"{PATH}/limit"
MOST = 2**31 - 1

layouts = pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=repr)


async def is_full(semaphore: Semaphore) -> None:
    with pytest.raises(AcquireTimeout):
        await enter(semaphore.acquire(timeout=0.3))


async def hold_once(semaphore: Semaphore) -> None:
    await enter(semaphore.acquire(timeout=PATIENCE))


# --- on every server -----------------------------------------------------------------------------


@layouts
async def test_no_more_permits_are_out_than_the_limit(a: Client, b: Client, layout: Layout) -> None:
    out = most = turns = 0

    async def hold(semaphore: Semaphore, permits: int) -> None:
        nonlocal out, most, turns
        async with semaphore.acquire(permits=permits):
            out += permits
            turns += 1
            most = max(most, out)
            await anyio.lowlevel.checkpoint()
            out -= permits

    async with anyio.create_task_group() as tasks:
        for client in (a, b):
            for permits in (1, 2, 1, 3, 1):
                tasks.start_soon(hold, Semaphore(client, PATH, 3, layout=layout), permits)
    assert (turns, most) == (10, 3)


async def test_contender_that_wants_many_is_not_passed_by_those_behind_it(
    a: Client, b: Client
) -> None:
    async with crowd() as them, Semaphore(a, PATH, 3).acquire(permits=2):
        for number, (name, permits) in enumerate((("many", 2), ("few", 1), ("fewer", 1))):
            them.come(name, to=Semaphore(b, PATH, 3).acquire(permits=permits))
            await joined(a, LOCKS, number + 1)
        await anyio.sleep(0.05)
        assert them.log == []
        them.leave()
    assert them.log == ["many", "few", "fewer"]


async def test_holders_contenders_and_available_permits_are_listed(a: Client, b: Client) -> None:
    semaphore = Semaphore(a, PATH, 3, identity="a")
    assert (await semaphore.holders(), await semaphore.contenders()) == ([], [])
    assert await semaphore.available() == await semaphore.limit() == 3
    async with crowd() as them, semaphore.acquire(permits=2) as held:
        await held.verify()
        first, second = await semaphore.holders()
        assert (first.identity, second.identity) == ("a", "a")
        assert first.token < second.token == held.token
        assert (second.path, second.session_id) == (held.path, a.session_id)
        assert await semaphore.available() == 1
        them.come("b", to=Semaphore(b, PATH, 3, identity="b").acquire(permits=3))
        await joined(a, LOCKS, 1)
        await joined(a, LEASES, 5)
        seen: list[tuple[str, bool]] = []

        async def is_known_to_wait() -> bool:
            await catch_up(a)
            seen[:] = [(c.identity, c.is_holder) for c in await semaphore.contenders()]
            return seen == [("a", True), ("a", True), ("b", False)]

        await eventually(is_known_to_wait, f"b waits: {seen}")
        assert await semaphore.available() == 0
        async with semaphore.try_acquire() as more:
            assert more is None
        them.leave()


async def test_limit_is_changed_while_contenders_wait(a: Client, b: Client) -> None:
    ours, theirs = (Semaphore(each, PATH, 1, follow_limit=True) for each in (a, b))
    async with crowd() as them:
        async with ours:
            them.come("b", to=theirs)
            await joined(a, LEASES, 2)
            await ours.set_limit(2)
            await them.are_inside("b")
            assert await theirs.limit() == 2
            await ours.set_limit(1)
            await them.are_inside("b")  # nothing is taken away
            async with theirs.try_acquire() as more:
                assert more is None
    async with theirs.acquire(timeout=PATIENCE):
        assert await theirs.available() == 0


@on_embedded
async def test_more_permits_than_there_are_is_refused(a: Client) -> None:
    semaphore = Semaphore(a, PATH, 2, follow_limit=True)
    with pytest.raises(UsageError, match="3 permits were asked for, and there are 2"):
        await enter(semaphore.acquire(permits=3))
    await semaphore.set_limit(3)
    await enter(semaphore.acquire(permits=3))
    # A request that the limit has made impossible meanwhile does not keep others waiting.
    async with semaphore, anyio.create_task_group() as tasks:
        refused = anyio.Event()

        async def wait() -> None:
            with pytest.raises(UsageError):
                await enter(semaphore.acquire(permits=3))
            refused.set()

        tasks.start_soon(wait)
        await joined(a, LEASES, 4)
        await semaphore.set_limit(2)
        await refused.wait()
        await enter(semaphore.acquire(timeout=PATIENCE))


@on_embedded
async def test_one_task_may_hold_several_permits(a: Client) -> None:
    semaphore = Semaphore(a, PATH, 3)
    async with semaphore as held, semaphore.try_acquire() as more:
        assert more is not None
        async with semaphore.acquire(timeout=PATIENCE) as third:
            assert held.token < more.token < third.token


@layouts
@pytest.mark.parametrize(
    ("limit", "tries", "granted"), [(9, [1] * 12, 9), (4, [3, 3, 1], 2)], ids=["of one", "mixed"]
)
async def test_tries_of_one_client_get_all_that_is_free(
    a: Client, layout: Layout, limit: int, tries: list[int], granted: int
) -> None:
    """They take turns in the queue: side by side, each would be refused behind another one."""
    semaphores = [Semaphore(a, PATH, limit, layout=layout) for _ in range(2)]
    decided: list[bool] = []
    all_decided = anyio.Event()

    async def use(semaphore: Semaphore, permits: int) -> None:
        async with semaphore.try_acquire(permits=permits) as held:
            decided.append(held is not None)
            if len(decided) == len(tries):
                all_decided.set()
            await all_decided.wait()

    async with anyio.create_task_group() as tasks:
        for number, permits in enumerate(tries):
            tasks.start_soon(use, semaphores[number % 2], permits)
    assert decided.count(True) == granted
    assert await semaphores[0].available() == limit


@with_virtual_server
async def test_refusal_counts_for_all_that_asked_before(
    server: EmbeddedServer, client: Client
) -> None:
    semaphore = Semaphore(client, PATH, 1)

    async def is_refused() -> None:
        async with semaphore.try_acquire() as more:
            assert more is None

    async with semaphore:
        await is_refused()
        before = server.requests.copy()
        await is_refused()
        once = server.requests - before
        before = server.requests.copy()
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(is_refused)
        created = server.requests["CREATE2"] - before["CREATE2"]
        assert created <= 2 * once["CREATE2"]


@with_virtual_server
async def test_refusal_by_a_smaller_limit_counts_for_no_greater_one(client: Client) -> None:
    """As while a new limit is rolled out: objects of one client have different ones."""
    small, great = Semaphore(client, PATH, 1), Semaphore(client, PATH, 9)
    results: dict[int, list[bool]] = {1: [], 9: []}

    async def use(semaphore: Semaphore, limit: int) -> None:
        async with semaphore.try_acquire() as held:
            results[limit].append(held is not None)

    async with great:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(use, small, 1)
                tasks.start_soon(use, great, 9)
    assert results == {1: [False] * 4, 9: [True] * 4}


# --- the limit that counts -----------------------------------------------------------------------


@on_embedded
@pytest.mark.parametrize(
    ("own", "follows", "published", "counting"),
    [
        (3, False, None, 3),
        (3, False, 3, 3),
        (3, False, 1, 1),
        (3, False, 4, 3),
        (3, False, MOST, 3),
        (3, True, None, 3),
        (3, True, 1, 1),
        (3, True, 4, 4),
    ],
)
async def test_smaller_limit_counts_unless_the_published_one_is_followed(
    a: Client,
    caplog: pytest.LogCaptureFixture,
    own: int,
    follows: bool,
    published: int | None,
    counting: int,
) -> None:
    if published is not None:
        await Semaphore(a, PATH, 1).set_limit(published)
    semaphore = Semaphore(a, PATH, own, follow_limit=follows)
    assert await semaphore.limit() == counting
    async with semaphore.acquire(permits=counting):
        assert await semaphore.available() == 0
        await is_full(Semaphore(a, PATH, own, follow_limit=follows))
    assert ("follow_limit=True" in caplog.text) == (published is not None and published > counting)


async def test_published_limit_of_another_client_grants_no_second_permit(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    """The right to create children of the path is enough to publish a limit."""
    acl = [ACL.auth(), ACL.world(Permission.READ | Permission.CREATE)]
    owner = Auth.digest("app", "secret")
    async with (
        connect(server, auth=[owner]) as a,
        connect(server, auth=[owner]) as b,
        connect(server) as other,
    ):
        async with Semaphore(a, PATH, 1, acl=acl) as held:
            await catch_up(other)
            await other.create(LIMIT, MOST.to_bytes(4, "big"))
            await catch_up(b)
            semaphore = Semaphore(b, PATH, 1, acl=acl)

            async def has_seen_the_limit() -> bool:
                await is_full(semaphore)  # may end before the limit is read
                return "limit" in caplog.text

            with caplog.at_level(logging.WARNING, "aiolead.recipes"):
                await eventually(has_seen_the_limit, "it warns of the published limit")
                await is_full(semaphore)
            held.check()
            assert await semaphore.limit() == 1
            assert await semaphore.available() == 0
            assert [each.token for each in await semaphore.holders()] == [held.token]
        (said,) = [record.message for record in caplog.records if "limit" in record.message]
        assert str(MOST) in said
        assert "follow_limit=True" in said


async def test_waiter_is_not_admitted_by_a_greater_published_limit(
    a: Client, b: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiolead.recipes")
    ours = Semaphore(a, PATH, 2)
    async with crowd() as them:
        async with ours.acquire(permits=2):
            them.come("b", to=Semaphore(b, PATH, 2))
            await joined(a, LEASES, 3)
            await ours.set_limit(5)
            # The warning shows that the waiter has looked again.
            await eventually(lambda: "limit is 5" in caplog.text, "it has seen the limit")
            await is_full(ours)
            assert them.log == []
        await them.are_inside("b")


async def test_greater_published_limit_counts_for_its_followers_alone(a: Client, b: Client) -> None:
    follower, other = Semaphore(a, PATH, 1, follow_limit=True), Semaphore(b, PATH, 1)
    await other.set_limit(2)
    await catch_up(a)
    async with follower.acquire(timeout=PATIENCE):
        await is_full(other)
        # Acquired by another task, as one task must not wait for itself.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold_once, follower)


@on_embedded
async def test_stored_limit_of_kazoos_layout_grants_no_more_than_the_own(
    a: Client, b: Client
) -> None:
    one = Semaphore(a, PATH, 1, layout=Layout.KAZOO)
    five = Semaphore(b, PATH, 5, layout=Layout.KAZOO)
    follower = Semaphore(a, PATH, 1, layout=Layout.KAZOO, follow_limit=True)
    async with five:
        await is_full(one)
        assert (await one.limit(), await five.limit(), await follower.limit()) == (1, 5, 5)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold_once, follower)


# --- what is refused -----------------------------------------------------------------------------


@on_embedded
async def test_published_limit_that_is_no_number_is_refused(a: Client) -> None:
    semaphore = Semaphore(a, PATH, 3, follow_limit=True)
    await a.ensure_path(PATH)
    for data in (b"", b"3", b"\0\0\0\0", b"\xff\xff\xff\xff"):
        await admin.delete_all(a, LIMIT)
        await a.create(LIMIT, data)
        with pytest.raises(InvalidDataError):
            await semaphore.limit()
        with pytest.raises(InvalidDataError):
            await enter(semaphore)
    await semaphore.set_limit(7)
    assert (await a.get(LIMIT))[0] == b"\0\0\0\7"
    await enter(semaphore.acquire(permits=7))


# --- layouts -------------------------------------------------------------------------------------


@on_embedded
async def test_kazoos_layout_is_written_as_kazoo_writes_it(a: Client, b: Client) -> None:
    one, other = (Semaphore(each, PATH, 2, layout=Layout.KAZOO) for each in (a, b))
    async with one as held:
        assert re.fullmatch(PATH + "/[0-9]{10}-[0-9a-f]{32}", held.path)
        assert (await a.get(PATH))[0] == b"2"
        async with other.acquire(), one.try_acquire() as third:
            assert third is None
            assert held.path in [each.path for each in await one.holders()]
            assert await one.available() == 0
    for path in (f"{PATH}-__lock__", PATH):
        await joined(a, path, 0)
    # Servers would delete an empty container, and kazoo would not look for it again.
    assert (stat := await a.exists(f"{PATH}-__lock__")) is not None
    assert stat.ephemeral_owner == 0
    with pytest.raises(UsageError, match="stop"):
        await one.set_limit(3)
    # The stored number counts; anything else is passed over, as kazoo does.
    five = Semaphore(a, PATH, 5, layout=Layout.KAZOO)
    assert await five.limit() == 2
    for data in (b"", b"many", b"0", b"-1"):
        await a.set(PATH, data)
        assert await five.limit() == 5


@on_embedded
async def test_permit_of_kazoos_layout_counts_only_if_it_was_made_in_front_of_the_queue(
    a: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contender in front now has looked before the permit was made, and does not look again."""
    ask, places = Permits._ask, list[str]()

    def ask_too_late(permits: Permits, *, watches: bool) -> Any:
        assert permits._contender is not None
        places.append(permits._contender.znode.node.path)
        if len(places) == 1:
            permits._client.delete(places[0])
        return ask(permits, watches=watches)

    monkeypatch.setattr(Permits, "_ask", ask_too_late)
    await a.create(PATH)
    async with Semaphore(a, PATH, 1, layout=Layout.KAZOO).acquire(timeout=PATIENCE) as held:
        assert await a.get_children(PATH) == [held.path.rpartition("/")[2]]
    assert len(set(places)) == len(places) == 2


@on_embedded
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(Layout.CURATOR, Layout.KAZOO), (Layout.KAZOO, Layout.CURATOR)],
    ids=repr,
)
async def test_semaphores_of_another_layout_are_refused(
    a: Client, b: Client, theirs: Layout, ours: Layout
) -> None:
    """Neither counts the permits of the other one, and kazoo takes Curator's parts for permits."""
    async with Semaphore(a, PATH, 1, layout=theirs) as held:
        await catch_up(b)
        before = await names(a, PATH)
        with pytest.raises(MixedLayoutError, match=re.escape(f"use layout={theirs!r}")) as caught:
            await enter(Semaphore(b, PATH, 5, layout=ours))
        owner = held.session_id if theirs == Layout.KAZOO else 0
        assert caught.value.session_id == owner
        assert caught.value.neighbour.rpartition("/")[2] in before
        assert await joined(a, PATH, len(before)) == before
    if theirs == Layout.KAZOO:
        # Nothing was written that kazoo would take for a permit.
        assert (stat := await a.exists(PATH)) is not None
        assert stat.cversion == 2
        await admin.delete_all(b, f"{PATH}-__lock__")
        await enter(Semaphore(b, PATH, 5, layout=ours).acquire(timeout=PATIENCE))


# --- what is lost --------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1, 2])
@with_virtual_server
async def test_all_permits_are_lost_with_one_of_them(
    server: EmbeddedServer, a: Client, b: Client, which: int
) -> None:
    with pytest.raises(LockLost) as caught:
        async with Semaphore(a, PATH, 3).acquire(permits=3):
            await passes(1.0)
            await b.delete(sorted(contenders_left(server, LEASES))[which])
            await anyio.sleep_forever()
    assert caught.value.reason is LossReason.DELETED
    await settled()
    assert contenders_left(server, LEASES) == []


@pytest.mark.parametrize(
    ("harm", "order"),
    [
        ("session ends", "ba"),
        ("lease runs out", "ab"),
        ("place deleted", ""),
        ("permit deleted", ""),
    ],
)
@with_virtual_server
async def test_front_of_the_queue_that_is_harmed_is_served_and_blocks_nobody(
    server: EmbeddedServer, link: Link, a: Client, b: Client, harm: str, order: str
) -> None:
    """Nothing of before is left of it. It keeps its place if only its lease runs out."""
    async with crowd() as them:
        async with Semaphore(b, PATH, 3).acquire(permits=2):
            them.come("a", to=Semaphore(a, PATH, 3).acquire(permits=3))
            await passes(5.0)
            them.come("b", to=Semaphore(b, PATH, 3).acquire(permits=3))
            await settled()
            assert len(contenders_left(server, LOCKS)) == 2
            assert len(contenders_left(server, LEASES)) == 5
            match harm:
                case "session ends":
                    server.expire_session(a.session_id)
                case "lease runs out":
                    link.down()
                    await passes(7.5)
                    link.heal()
                    await a.ready()
                case _:
                    znodes = contenders_left(server, LOCKS if harm == "place deleted" else LEASES)
                    await b.delete(next(each for each in znodes if f"{a.session_id:x}" in each))
            await passes(1.0)
            assert len(contenders_left(server, LOCKS)) == 2
        them.leave()
        await passes(5.0)
        assert them.log == list(order) or (order == "" and sorted(them.log) == ["a", "b"])
        assert them.most == {"a": 1, "b": 1}


@layouts
@with_virtual_server
async def test_waiter_at_the_front_holds_nothing(
    server: EmbeddedServer, link: Link, a: Client, b: Client, layout: Layout
) -> None:
    """So nothing can be lost, and a watchdog of the held permits has nothing to watch."""
    leases = a._core.machine.leases
    async with crowd() as them:
        async with Semaphore(b, PATH, 1, layout=layout):
            them.come("a", to=Semaphore(a, PATH, 1, layout=layout))
            await passes(5.0)
            link.down()
            for second in range(22):  # until its lease is over, and its session
                assert (leases.held, leases.is_in_grace) == (0, False)
                if second == 20:
                    link.heal()
                await passes(1.0)
        await them.are_inside("a")


@with_virtual_server
async def test_front_may_lose_its_place_more_often_than_functions_may_recurse(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    before, limit = sys.getrecursionlimit(), 300
    sys.setrecursionlimit(limit)
    try:
        async with crowd() as them:
            async with Semaphore(b, PATH, 1):
                them.come("a", to=Semaphore(a, PATH, 1))
                for _ in range(limit + 100):
                    await passes(0.5)
                    (place,) = contenders_left(server, LOCKS)
                    await b.delete(place)
            await them.are_inside("a")
    finally:
        sys.setrecursionlimit(before)


class Nth(Counter[OpCode]):
    """A fault that hits the n-th request of a type, rather than the next."""

    def __init__(self, op: OpCode, number: int) -> None:
        super().__init__({op: 1})
        self._op = op
        self._before = number - 1

    def __getitem__(self, op: OpCode) -> int:
        if op is self._op and self._before > 0:
            self._before -= 1
            return 0
        return super().__getitem__(op)


@pytest.mark.exhaustive("all recipes alike", one_in=3)
@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "wanted"])
@with_virtual_server
async def test_create_without_an_answer_leaves_as_many_permits_as_are_held(
    server: EmbeddedServer,
    link: Link,
    a: Client,
    b: Client,
    applied: bool,
    number: int,
    cancelled: bool,
) -> None:
    """A create of a permit, or of the place in the queue."""
    await enter(Semaphore(b, PATH, 3).acquire(permits=3))  # makes the path
    async with crowd() as them:
        faults = "dropped_replies" if applied else "dropped_requests"
        setattr(server._running.core, faults, Nth(OpCode.CREATE2, number))
        link.refuse()
        them.come("a", to=Semaphore(a, PATH, 3).acquire(permits=2))
        await settled()
        assert them.log == []
        assert a.state is SessionState.SUSPENDED
        if cancelled:
            them.cancel("a")
        link.heal()
        await passes(1.0)
        assert them.log == ([] if cancelled else ["a"])
        assert len(contenders_left(server, LEASES)) == (0 if cancelled else 2)
        assert contenders_left(server, LOCKS) == []
    await passes(20.0)
    assert contenders_left(server, LEASES) == []


@with_virtual_server
async def test_permit_that_is_created_after_it_was_given_up_goes_with_the_session_timeout(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    await enter(Semaphore(b, PATH, 2))  # makes the path
    server.drop_request(OpCode.CREATE2)
    async with Semaphore(a, PATH, 2, identity="a") as held:
        began = anyio.current_time()
        lost = f"{LEASES}/{a.session_id:016x}-1-lease-"
        ghost = await a.create(lost, b"a", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        await anyio.sleep_until(began + SESSION - 0.5)
        assert set(contenders_left(server, LEASES)) == {held.path, ghost.path}
        await anyio.sleep_until(began + SESSION + 0.1)
        assert contenders_left(server, LEASES) == [held.path]
