"""The election: leading, handing over, running a worker, and asking who leads."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    JumpingClock,
    connect,
    contenders_left,
    eventually,
    joined,
    names,
    raw,
)
from kit.virtual_time import VirtualClock, embedded, on_virtual_time, passes, virtually
from kit.virtual_time import connect as connect_virtually

from aiolead import ACL, AcquireTimeout, Election, Fenced, LeadershipLost, Lock, Term
from aiolead.errors import (
    AlreadyHeldError,
    ClientClosedError,
    ConfigurationError,
    LossReason,
    MixedLayoutError,
    UsageError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""


# --- leading -----------------------------------------------------------------------------------


async def test_leadership_is_handed_over_in_order(server: ServerUnderTest) -> None:
    led: list[tuple[str, int]] = []

    async def lead(election: Election) -> None:
        async with election.leadership() as term:
            led.append((term.identity, term.token))
            await term.verify()

    async with connect(server) as a, connect(server) as b, connect(server) as c:
        elections = [
            Election(each, PATH, identity=name) for each, name in zip((a, b, c), "abc", strict=True)
        ]
        async with anyio.create_task_group() as tasks, elections[0].leadership() as first:
            led.append((first.identity, first.token))
            for number, election in enumerate(elections[1:]):
                tasks.start_soon(lead, election)
                await joined(a, PATH, number + 2)
            assert await elections[2].leader() == (await elections[0].contenders())[0]
    assert [name for name, _ in led] == ["a", "b", "c"]
    assert [token for _, token in led] == sorted(token for _, token in led)


async def test_who_leads_and_who_takes_part(server: ServerUnderTest) -> None:
    async def lead(election: Election) -> None:
        async with election.leadership():
            pass

    async with connect(server) as a, connect(server) as b:
        election = Election(a, PATH, identity="a")
        assert await election.leader() is None
        assert await election.contenders() == []
        async with anyio.create_task_group() as tasks, election.leadership() as term:
            tasks.start_soon(lead, Election(b, PATH, identity="b"))
            await joined(a, PATH, 2)
            leader = await election.leader()
            assert leader is not None
            assert (leader.identity, leader.path, leader.token) == ("a", term.path, term.token)
            assert [each.identity for each in await election.contenders()] == ["a", "b"]
            assert [each.is_holder for each in await election.contenders()] == [True, False]


@on_embedded
async def test_waiting_for_a_turn_ends_in_time(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH).leadership():
            for wait in (0, 0.05):
                with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout):
                    async with Election(b, PATH).leadership(timeout=wait):
                        pytest.fail("two lead")
            await joined(a, PATH, 1)


async def test_a_deposed_leader_is_cancelled_and_fenced_off(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        await a.create("/data", b"old")
        with anyio.fail_after(PATIENCE), pytest.raises(LeadershipLost) as caught:
            async with Election(a, PATH).leadership() as term:
                fenced = term.fenced()
                try:
                    await b.delete(term.path)
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(PATIENCE, shield=True):
                        with pytest.raises(Fenced):
                            await fenced.set("/data", b"wrong")
        assert caught.value.reason is LossReason.DELETED
        assert (await a.get("/data"))[0] == b"old"


async def test_resigning_lets_the_next_one_lead(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH).leadership() as term:
            await term.resign()
            assert not term.is_held
            with pytest.raises(UsageError):
                term.check()
            async with Election(b, PATH).leadership(timeout=PATIENCE) as other:
                assert other.token > term.token
                # The body of who has resigned goes on undisturbed.
                await anyio.sleep(0.05)


@on_embedded
async def test_a_leader_whose_client_is_closed(server: ServerUnderTest) -> None:
    lost: list[LossReason] = []
    leads = anyio.Event()

    async def lead(election: Election) -> None:
        with pytest.raises(LeadershipLost) as caught:
            async with election.leadership():
                leads.set()
                await anyio.sleep_forever()
        lost.append(caught.value.reason)

    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(lead, Election(client, PATH))
            await leads.wait()
    assert lost == [LossReason.CLOSED]


@on_embedded
async def test_a_leader_that_was_blocked_past_its_lease(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    async with connect(server, clock=clock) as a:
        with pytest.raises(LeadershipLost) as caught:
            async with Election(a, PATH).leadership() as term:
                clock.jump(2 * a.session_timeout)
                assert not term.is_held
        assert caught.value.reason is LossReason.UNCONFIRMED


@on_embedded
async def test_a_path_is_for_one_recipe(server: ServerUnderTest) -> None:
    """Election and lock on one path do not see each other; one of them has to give in."""
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH).leadership() as term:
            with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError) as caught:
                async with Lock(b, PATH):
                    pytest.fail("not excluded")
            assert caught.value.neighbour == term.path
            term.check()
            await joined(a, PATH, 1)


# --- run ---------------------------------------------------------------------------------------


async def test_a_worker_runs_once_per_term(server: ServerUnderTest) -> None:
    """Who returns resigns and goes to the end of the line: two of them take turns."""
    terms: list[tuple[str, int]] = []

    class Enough(Exception):
        pass

    async def work(term: Term) -> None:
        term.check()
        terms.append((term.identity, term.token))
        await joined(a, PATH, 2)
        if len(terms) == 6:
            raise Enough

    async with connect(server) as a, connect(server) as b:
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(Election(a, PATH, identity="a").run, work, pause=0))
                await joined(a, PATH, 1)
                tasks.start_soon(partial(Election(b, PATH, identity="b").run, work, pause=0))
        assert [type(error) for error in caught.value.exceptions] == [Enough]
        await joined(a, PATH, 0)
    # The seventh may have begun before the error has come out of the sixth.
    assert [name for name, _ in terms][:6] == ["a", "b", "a", "b", "a", "b"]
    tokens = [token for _, token in terms]
    assert tokens == sorted(set(tokens))


@on_embedded
@pytest.mark.parametrize("error", [KeyError("mine"), ExceptionGroup("mine", [KeyError("one")])])
async def test_what_a_worker_raises_ends_the_run(server: ServerUnderTest, error: Exception) -> None:
    async def work(_term: Term) -> None:
        raise error

    async with connect(server) as a:
        with pytest.raises(type(error)) as caught:
            await Election(a, PATH).run(work)
        assert caught.value is error
        assert await names(a, PATH) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("pause", [None, 2.5], ids=["default", "given"])
def test_who_returns_at_once_pauses_between_its_terms(
    backend: Backend, pause: float | None
) -> None:
    """Nothing is held then, and somebody else may lead."""
    span = 1.0 if pause is None else pause

    async def play(server: EmbeddedServer) -> None:
        began: list[float] = []

        async def work(_term: Term) -> None:
            began.append(anyio.current_time())

        async with connect_virtually(server) as a, connect_virtually(server) as b:
            run = partial(Election(a, PATH).run, work)
            if pause is not None:
                run = partial(run, pause=pause)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await passes(span / 2)
                assert contenders_left(server, PATH) == []
                async with Election(b, PATH).leadership(timeout=0):
                    pass
                await passes(20.0)
                tasks.cancel_scope.cancel()
            apart = [later - earlier for earlier, later in itertools.pairwise(began)]
            assert len(apart) >= 7
            assert all(span <= each < span + 0.01 for each in apart)

    on_virtual_time(backend, play)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_lost_term_is_followed_by_another_without_a_pause(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        began: list[float] = []

        async def work(term: Term) -> None:
            began.append(anyio.current_time())
            await passes(0.5)
            with anyio.CancelScope(shield=True):
                await b.delete(term.path)
            await anyio.sleep_forever()

        async with connect_virtually(server) as a, connect_virtually(server) as b:
            with anyio.move_on_after(3.0):
                await Election(a, PATH).run(work, pause=100.0)
            assert len(began) > 3

    on_virtual_time(backend, play)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_term_that_the_servers_do_not_confirm_is_followed_by_a_pause(backend: Backend) -> None:
    """They would refuse to confirm the next one at once, too."""
    unreadable = [ACL(Permission.ALL & ~Permission.READ, "world", "anyone")]

    async def play(server: EmbeddedServer) -> None:
        began: list[float] = []
        losses: list[LossReason | None] = []

        async def work(term: Term) -> None:
            began.append(anyio.current_time())
            try:
                await anyio.sleep_forever()
            finally:
                losses.append(term.loss)

        async with connect_virtually(server) as a:
            await a.ensure_path(PATH)  # else it would be unreadable, too
            with anyio.move_on_after(10.5):
                await Election(a, PATH, acl=unreadable).run(work)
        assert set(losses[:-1]) == {LossReason.REFUSED}
        apart = [later - earlier for earlier, later in itertools.pairwise(began)]
        assert len(apart) >= 7
        assert all(1.0 <= each < 1.1 for each in apart)

    on_virtual_time(backend, play)


@on_embedded
@pytest.mark.parametrize("pause", [-1, float("nan"), float("inf"), True, "1", None])
async def test_a_pause_that_makes_no_sense(server: ServerUnderTest, pause: Any) -> None:
    async with connect(server) as a:
        with pytest.raises(ConfigurationError, match="pause: must be seconds"):
            await Election(a, PATH).run(_nothing, pause=pause)


async def _nothing(_term: Term) -> None:
    pass


@on_embedded
async def test_a_worker_that_was_called_already(server: ServerUnderTest) -> None:
    async def worker() -> None:
        pass

    async with connect(server) as a:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UsageError, match=r"write `run\(worker\)` instead of"):
                await Election(a, PATH).run(worker())  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="worker: must be a function"):
            await Election(a, PATH).run(None)  # type: ignore[arg-type]
        assert await names(a, PATH) == []


async def test_a_lost_term_is_followed_by_another(server: ServerUnderTest) -> None:
    terms: list[Term] = []

    async def work(term: Term) -> None:
        terms.append(term)
        with raw(server) as operator:
            operator.delete(term.path)
        await anyio.sleep_forever()

    async with connect(server) as a:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Election(a, PATH).run, work)
            await eventually(lambda: len(terms) >= 3, "three terms")
            tasks.cancel_scope.cancel()
        assert not any(term.is_held for term in terms)
        assert len({term.token for term in terms}) == len(terms)
        await joined(a, PATH, 0)


@pytest.mark.parametrize("nested", [1, 2])
@virtually
async def test_a_loss_noticed_by_tasks_of_the_worker_is_a_loss(nested: int) -> None:
    """`term.check()` raises in a task group of the worker, which wraps what it raises."""
    terms: list[Term] = []

    async def watch(term: Term) -> None:
        while True:
            await anyio.sleep(0.005)
            term.check()

    async def in_groups(term: Term, depth: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, term)
            if depth > 1:
                await in_groups(term, depth - 1)
            elif len(terms) < 3:
                clock.jump(2 * a.session_timeout)

    async def work(term: Term) -> None:
        terms.append(term)
        await in_groups(term, nested)

    clock = JumpingClock(VirtualClock())
    async with embedded() as server, connect_virtually(server, clock=clock) as a:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Election(a, PATH).run, work)
            await eventually(lambda: len(terms) == 3, "three terms")
            terms[2].check()
            tasks.cancel_scope.cancel()


@on_embedded
async def test_another_loss_than_that_of_the_term_ends_the_run(server: ServerUnderTest) -> None:
    """A worker that leads elsewhere, too, and loses that: its own affair."""

    async def work(term: Term) -> None:
        async with Election(a, "/other").leadership() as other:
            with raw(server) as operator:
                operator.delete(other.path)
            await anyio.sleep_forever()

    async with connect(server) as a:
        with anyio.fail_after(PATIENCE), pytest.raises(LeadershipLost) as caught:
            await Election(a, PATH).run(work)
        assert caught.value.path == "/other"


@on_embedded
async def test_a_run_ends_with_its_client(server: ServerUnderTest) -> None:
    terms: list[Term] = []
    ended: list[type[BaseException]] = []

    async def work(term: Term) -> None:
        terms.append(term)
        await anyio.sleep_forever()

    async def run(election: Election) -> None:
        try:
            await election.run(work)
        except ClientClosedError as error:
            ended.append(type(error))

    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(run, Election(client, PATH))
            await eventually(lambda: terms != [], "it leads")
    assert ended == [ClientClosedError]
    assert len(terms) == 1


@on_embedded
async def test_a_run_is_not_for_the_task_that_leads(server: ServerUnderTest) -> None:
    async def work(_term: Term) -> None:
        with pytest.raises(AlreadyHeldError):
            await election.run(work)
        raise KeyError

    async with connect(server) as client:
        election = Election(client, PATH)
        with pytest.raises(KeyError):
            await election.run(work)
