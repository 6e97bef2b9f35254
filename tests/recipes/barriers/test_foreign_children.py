"""Children of a double barrier that are no members do not count, and nobody waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, names

from aiolead import AcquireTimeout, Client, CreateMode, DoubleBarrier
from aiolead._recipes.barriers.barrier_membership import members_among

pytestmark = pytest.mark.timeout(60)

PATH = "/step"
READY = f"{PATH}/ready"


async def _put_foreign_children(client: Client) -> list[str]:
    """Children of all kinds, except members and `ready`; the names of those that stay."""
    await client.ensure_path(PATH)
    ours = str(uuid4())
    for name in ("note", "x", ours, uuid4().hex, f"a{ours}", ours.upper(), f"{ours}-0000000001"):
        await client.create(f"{PATH}/{name}")
    await client.create(f"{PATH}/worker", mode=CreateMode.EPHEMERAL)
    return await client.get_children(PATH)


async def _is_kept_out(barrier: DoubleBarrier) -> None:
    with pytest.raises(AcquireTimeout):
        async with barrier.enter(timeout=0.3):
            pytest.fail("there are too few members")


class Party:
    def __init__(self) -> None:
        self.inside: list[str] = []
        self.out: list[str] = []
        self.leave = anyio.Event()

    async def take_part(self, client: Client, name: str, count: int) -> None:
        async with DoubleBarrier(client, PATH, count, identity=name) as member:
            assert member.round
            self.inside.append(name)
            await self.leave.wait()
            self.inside.remove(name)
        self.out.append(name)


@asynccontextmanager
async def three_clients(server: ServerUnderTest) -> AsyncIterator[tuple[Client, Client, Client]]:
    async with connect(server) as a, connect(server) as b, connect(server) as other:
        yield a, b, other


# --- names ---------------------------------------------------------------------------------------


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


# --- on every server -----------------------------------------------------------------------------


async def test_foreign_children_let_no_member_in_too_early(server: ServerUnderTest) -> None:
    async with three_clients(server) as (a, _, other):
        before = await _put_foreign_children(other)
        await catch_up(a)
        barrier = DoubleBarrier(a, PATH, 2)
        await _is_kept_out(barrier)
        assert await barrier.members() == []

        async def nothing_is_left() -> bool:
            return sorted(await names(a, PATH)) == sorted(before)

        await eventually(nothing_is_left, "neither a member nor `ready` is left")


async def test_members_go_in_and_out_together_beside_foreign_children(
    server: ServerUnderTest,
) -> None:
    async with three_clients(server) as (a, b, other):
        before = await _put_foreign_children(other)
        for client in (a, b):
            await catch_up(client)
        for _ in range(2):  # the rounds repeat
            party = Party()
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(party.take_part, a, "a", 2)
                    tasks.start_soon(party.take_part, b, "b", 2)
                    await eventually(lambda party=party: len(party.inside) == 2, "both are in")
                    members = await DoubleBarrier(a, PATH, 2).members()
                    assert sorted(each.identity for each in members) == ["a", "b"]
                    assert all(each.is_holder for each in members)
                    # The members have not seen these before.
                    for name in (str(uuid4()), uuid4().hex):
                        await other.create(f"{PATH}/{name}")
                        before.append(name)
                    for client in (a, b):
                        await catch_up(client)
                    party.leave.set()
            assert sorted(party.out) == ["a", "b"]
            await catch_up(other)
            assert sorted(await other.get_children(PATH)) == sorted(before)


async def test_persistent_child_does_not_keep_a_dead_round_open(server: ServerUnderTest) -> None:
    """It is older than `ready`, as a member that is still inside would be."""
    async with three_clients(server) as (a, _, other):
        before = await _put_foreign_children(other)
        await other.create(READY)
        await catch_up(a)
        await _is_kept_out(DoubleBarrier(a, PATH, 2))

        async def ready_is_removed() -> bool:
            return sorted(await names(a, PATH)) == sorted(before)

        await eventually(ready_is_removed, "the old `ready` is removed")


async def test_member_that_fails_removes_ready_beside_foreign_children(
    server: ServerUnderTest,
) -> None:
    async with three_clients(server) as (a, _, other):
        before = await _put_foreign_children(other)
        await catch_up(a)
        with pytest.raises(ZeroDivisionError):
            async with DoubleBarrier(a, PATH, 1):
                raise ZeroDivisionError

        async def ready_is_removed() -> bool:
            return sorted(await names(a, PATH)) == sorted(before)

        await eventually(ready_is_removed, "`ready` is removed")
