"""The limit of a semaphore: a published one never grants more than the own, unless it is asked."""

from __future__ import annotations

import logging

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, names

from aiolead import AcquireTimeout, Client, Semaphore
from aiolead._recipes.locks.semaphore.parts import LimitRule
from aiolead.errors import ConfigurationError
from aiolead.model import ACL, Auth, Permission
from aiolead.types import Layout

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/semaphore"
LEASES = f"{PATH}/leases"
LIMIT = f"{PATH}/limit"
MOST = (2**31 - 1).to_bytes(4, "big")

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


async def _is_full(semaphore: Semaphore) -> None:
    with pytest.raises(AcquireTimeout):
        async with semaphore.acquire(timeout=0.3):
            pytest.fail("its own limit is reached")


# --- the decision --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "follows", "published", "counting", "is_ignored"),
    [
        (3, False, None, 3, False),
        (3, False, 3, 3, False),
        (3, False, 1, 1, False),
        (3, False, 4, 3, True),
        (3, False, 2**31 - 1, 3, True),
        (3, True, None, 3, False),
        (3, True, 1, 1, False),
        (3, True, 4, 4, False),
    ],
)
def test_counting_limit_is_the_smaller_one_unless_followed(
    own: int, follows: bool, published: int | None, counting: int, is_ignored: bool
) -> None:
    rule = LimitRule(own, follows)
    assert rule.counting(published) == counting
    assert rule.ignores(published) == is_ignored


# --- on every server -----------------------------------------------------------------------------


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
            await other.create(LIMIT, MOST)
            await catch_up(b)
            semaphore = Semaphore(b, PATH, 1, acl=acl)
            with caplog.at_level(logging.WARNING, "aiolead.recipes"):
                await _is_full(semaphore)
                await _is_full(semaphore)
            held.check()
            assert await semaphore.limit() == 1
            assert await semaphore.available() == 0
            assert [each.token for each in await semaphore.holders()] == [held.token]
        said = [record.message for record in caplog.records if "limit" in record.message]
        assert len(said) == 1
        assert str(2**31 - 1) in said[0]
        assert "follow_limit=True" in said[0]


async def test_waiting_contender_is_not_admitted_by_a_greater_published_limit(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiolead.recipes")
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        ours, theirs = Semaphore(a, PATH, 2), Semaphore(b, PATH, 2)
        admitted = anyio.Event()

        async def wait() -> None:
            async with theirs:
                admitted.set()

        async with ours.acquire(permits=2):
            tasks.start_soon(wait)
            await _permits_are(a, 3)
            await ours.set_limit(5)
            # The warning shows that the waiter has looked again.
            await eventually(
                lambda: any("limit is 5" in record.message for record in caplog.records),
                "the waiter has seen the published limit",
            )
            await _is_full(ours)
            assert not admitted.is_set()
        with anyio.fail_after(PATIENCE):
            await admitted.wait()


async def _permits_are(client: Client, count: int) -> None:
    async def is_so() -> bool:
        return len(await names(client, LEASES)) == count

    await eventually(is_so, f"there are {count} permits")


async def test_smaller_published_limit_counts_for_all(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        for follows in (False, True):
            await Semaphore(a, PATH, 5).set_limit(1)
            semaphore = Semaphore(b, PATH, 5, follow_limit=follows)
            await catch_up(b)
            async with Semaphore(a, PATH, 5):
                assert await semaphore.limit() == 1
                await _is_full(semaphore)


async def test_greater_published_limit_counts_for_its_followers_alone(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as a, connect(server) as b:
        follower = Semaphore(a, PATH, 1, follow_limit=True)
        other = Semaphore(b, PATH, 1)
        await other.set_limit(2)
        await catch_up(a)
        async with follower.acquire(timeout=PATIENCE):
            await _is_full(other)
            # Acquired by another task, as one task must not wait for itself.
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hold_once, Semaphore(a, PATH, 1, follow_limit=True))


async def _hold_once(semaphore: Semaphore) -> None:
    async with semaphore.acquire(timeout=PATIENCE):
        pass


@on_embedded
async def test_stored_limit_of_kazoos_layout_grants_no_more_than_the_own(
    server: ServerUnderTest,
) -> None:
    async with connect(server) as a, connect(server) as b:
        one, five, follower = (
            Semaphore(a, PATH, 1, layout=Layout.KAZOO),
            Semaphore(b, PATH, 5, layout=Layout.KAZOO),
            Semaphore(a, PATH, 1, layout=Layout.KAZOO, follow_limit=True),
        )
        async with five:
            await _is_full(one)
            assert (await one.limit(), await five.limit(), await follower.limit()) == (1, 5, 5)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hold_once, follower)


@on_embedded
async def test_follow_limit_is_checked_before_anything_is_sent(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        for wrong in (1, None, "yes"):
            with pytest.raises(ConfigurationError, match="follow_limit"):
                Semaphore(a, PATH, 1, follow_limit=wrong)  # type: ignore[arg-type]
