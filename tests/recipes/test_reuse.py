"""One object, many uses: by many tasks, one after another, and in every wrong way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import anyio
import pytest
from kit.clients import PATIENCE, contenders_left, eventually, nothing_left
from recipes.blocks import Block, enter, term_of

from aiolead import AcquireTimeout, Client, Election, Lock, Term, UniqueNames
from aiolead.errors import AlreadyHeldError, UsageError
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/contended"

BLOCKS: dict[str, Callable[[Client], Callable[[], Block]]] = {
    "Lock.acquire": lambda client: Lock(client, PATH).acquire,
    "Election.leadership": lambda client: Election(client, PATH).leadership,
}


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer() as server:
        yield server


async def test_task_that_holds_is_refused_at_once(server: EmbeddedServer, client: Client) -> None:
    lock, election = Lock(client, PATH), Election(client, "/led")
    async with lock as held, election.leadership() as term:
        requests = server.requests["CREATE2"]
        for again in (lock, lock.acquire(), lock.acquire(timeout=0), lock.try_acquire()):
            with pytest.raises(AlreadyHeldError, match="wait for itself"):
                await enter(again)
        with pytest.raises(AlreadyHeldError):
            await enter(election.leadership())
        assert server.requests["CREATE2"] == requests, "nothing was even asked"
        held.check()
        term.check()
    async with lock, election.leadership():
        pass
    async with lock.acquire():
        with pytest.raises(AlreadyHeldError):
            await enter(lock)
    await nothing_left(server, PATH)


async def test_task_may_hold_different_locks(client: Client) -> None:
    one, two = Lock(client, "/one"), Lock(client, "/two")
    async with one, two:
        pass
    async with two, one:
        pass
    # Another object for the same path would wait for this one, and so for itself.
    async with one:
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
            await enter(Lock(client.chroot("/"), "/one").acquire())
        with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
            await enter(Lock(client, "/one").acquire(timeout=0.05))


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
async def test_one_context_manager_is_for_one_task_at_a_time(
    server: EmbeddedServer, client: Client, make: Callable[[Client], Callable[[], Block]]
) -> None:
    block = make(client)()

    async def enter_it() -> None:
        with pytest.raises(UsageError, match="another task"):
            await enter(block)

    async with block as tenure, anyio.create_task_group() as tasks:
        tasks.start_soon(enter_it)
        await anyio.wait_all_tasks_blocked()
        tenure.check()
    # One after another is fine.
    await enter(block)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter, block)
    await nothing_left(server, PATH)


async def test_object_is_usable_after_errors(server: EmbeddedServer, a: Client, b: Client) -> None:
    lock, misfit = Lock(a, PATH), f"{PATH}/0123456789abcdef0123456789abcdef__lock__0000000000"
    for _ in range(3):
        with pytest.raises(KeyError):
            async with lock:
                raise KeyError
        async with Lock(b, PATH):
            for wait in (0, 0.01):
                with pytest.raises(AcquireTimeout):
                    await enter(lock.acquire(timeout=wait))
            async with lock.try_acquire() as held:
                assert held is None
            with anyio.move_on_after(0.01) as scope:
                await enter(lock)
            assert scope.cancelled_caught
        await b.create(misfit)
        await eventually(lambda: len(contenders_left(server, PATH)) == 1, "all have left")
        with pytest.raises(Exception, match="kazoo"):
            await enter(lock)
        await b.delete(misfit)
    await enter(lock)
    await nothing_left(server, PATH)


async def test_block_that_was_not_entered_cannot_be_left(a: Client, b: Client) -> None:
    lock = Lock(a, PATH)
    with pytest.raises(UsageError):
        await lock.__aexit__(None, None, None)
    # One that gave nothing has nothing to leave.
    context = lock.try_acquire()
    async with Lock(b, PATH):
        for _ in range(2):
            async with context as held:
                assert held is None
    async with context as held:
        assert held is not None


# --- what would wait for itself ------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, 5])
async def test_task_does_not_wait_for_its_own_campaign(
    server: EmbeddedServer, client: Client, timeout: float | None
) -> None:
    election = Election(client, PATH)

    async def work(_term: Term) -> None:
        raise AssertionError("it leads beside the campaign")

    async with election.campaign() as view:
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError, match="wait for itself"):
            await enter(election.leadership(timeout=timeout))
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
            await election.run(work)
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
            await enter(Election(client, PATH).leadership())
        async with election.campaign(), election.campaign():
            pass
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
            await enter(election.leadership())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter, election.leadership())  # another task may wait for the campaign
            await (await term_of(view)).resign()
    await nothing_left(server, PATH)
    await enter(election.leadership())


async def test_task_whose_campaign_is_over_may_lead(client: Client) -> None:
    election = Election(client, PATH)
    async with election.campaign() as view:
        await (await term_of(view)).resign()
        with anyio.fail_after(PATIENCE):
            await enter(election.leadership())


async def test_leader_may_stand_by_for_itself(client: Client) -> None:
    """A campaign waits beside the task, so it may follow what the task holds."""
    election = Election(client, PATH)
    async with election.leadership() as term, election.campaign() as view:
        with anyio.fail_after(PATIENCE):
            await term.hand_over(timeout=PATIENCE)
            await term_of(view)


async def test_campaign_of_a_task_that_ended_is_not_in_the_way_of_others(client: Client) -> None:
    """Hooks of frameworks run in tasks of their own, whose ids may be used again."""
    election = Election(client, PATH)
    campaign = election.campaign()

    async def start() -> None:
        await campaign.__aenter__()
        await term_of(campaign)

    async def wait() -> None:
        with pytest.raises(AcquireTimeout):
            await enter(election.leadership(timeout=0.01))

    for each in (start, *[wait] * 20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(each)
    await campaign.__aexit__(None, None, None)


async def test_task_does_not_wait_for_its_own_names(client: Client) -> None:
    ours = UniqueNames(client, "/names")
    async with ours.claim("one", most=1) as held, ours.claim("two", most=2):
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError, match="wait for itself"):
            await enter(ours.claim("one", most=1))
        with pytest.raises(AcquireTimeout):
            await enter(ours.claim("one", most=1, timeout=0.01))
        async with ours.claim("two", most=2):
            with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
                await enter(ours.claim("two", most=2))
        await held.release()
        await enter(ours.claim("one", most=1))


async def test_task_that_has_released_may_wait_again(client: Client) -> None:
    lock = Lock(client, PATH)
    async with lock as held:
        await held.release()
        async with lock as again:
            with pytest.raises(AlreadyHeldError):
                await enter(lock)
            again.check()
        await enter(lock)
    await enter(lock)
