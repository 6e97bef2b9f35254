"""Elections with several leaders: the lowest in line lead, never more, and the next one follows."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, Wire, connect, eventually, joined, raw

from aiolead import Client, Election, LeadershipLost, Term
from aiolead.model import Participant
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"


class Crowd:
    """Contenders by number, each of which leads until it is told to leave."""

    def __init__(self, client: Client, leaders: int) -> None:
        self._client = client
        self._leaders = leaders
        self._leave: dict[int, anyio.Event] = {}
        self.terms: dict[int, Term] = {}
        self.most = 0

    @property
    def leading(self) -> list[int]:
        return sorted(self.terms)

    async def contend(self, number: int) -> None:
        leave = self._leave[number] = anyio.Event()
        election = Election(self._client, PATH, identity=str(number), leaders=self._leaders)
        try:
            async with election.leadership() as term:
                self.terms[number] = term
                self.most = max(self.most, len(self.terms))
                try:
                    await leave.wait()
                finally:
                    del self.terms[number]
        except LeadershipLost:
            pass

    def leave(self, number: int) -> None:
        self._leave[number].set()


@pytest.mark.parametrize("leaders", [2, 3])
async def test_the_first_lead_and_who_leaves_is_followed_by_the_next(
    server: ServerUnderTest, leaders: int
) -> None:
    async with connect(server) as a, connect(server) as b:
        crowds = [Crowd(each, leaders) for each in (a, b)]
        crowds[1].terms = crowds[0].terms
        terms = crowds[0].terms
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(crowds[number % 2].contend, number)
                await joined(a, PATH, number + 1)
            await eventually(lambda: sorted(terms) == list(range(leaders)), "the first lead")
            participants = await Election(b, PATH, leaders=leaders).contenders()
            assert [each.is_holder for each in participants] == [n < leaders for n in range(6)]
            line = list(range(6))
            # A leader in the middle, the first one, one that waits, and then all in turn.
            for gone in (1, 0, 4, 2, 3, 5):
                if gone in terms:
                    crowds[gone % 2].leave(gone)
                else:
                    with raw(server) as operator:  # it joins again, at the end
                        operator.delete(participants[gone].path)
                    line.append(gone)
                line.remove(gone)
                first = sorted(line[:leaders])
                await eventually(lambda first=first: sorted(terms) == first, f"{first} lead")
                if gone == 4:
                    await joined(a, PATH, len(line))
                for term in list(terms.values()):
                    term.check()
            crowds[0].leave(4)
        assert max(crowd.most for crowd in crowds) == leaders


async def test_a_deposed_leader_is_followed_by_the_next(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        crowd = Crowd(a, 2)
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(crowd.contend, number)
                await joined(a, PATH, number + 1)
            await eventually(lambda: crowd.leading == [0, 1], "the first two lead")
            await a.delete(crowd.terms[0].path)
            await eventually(lambda: crowd.leading == [1, 2], "the third leads")
            tasks.cancel_scope.cancel()


async def test_observers_see_all_leaders(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        crowd = Crowd(a, 2)
        seen: list[tuple[str, ...]] = []
        election = Election(b, PATH, leaders=2)

        def identities(leaders: tuple[Participant, ...]) -> tuple[str, ...]:
            return tuple(each.identity for each in leaders)

        async with anyio.create_task_group() as tasks, election.observe() as states:
            steps = iter(
                [
                    lambda: tasks.start_soon(crowd.contend, 0),
                    lambda: tasks.start_soon(crowd.contend, 1),
                    lambda: crowd.leave(0),
                    lambda: crowd.leave(1),
                ]
            )
            with anyio.fail_after(PATIENCE):
                async for state in states:
                    seen.append(identities(state.leaders))
                    if (step := next(steps, None)) is None:
                        break
                    if len(seen) == 3:  # leading, not only listed
                        await eventually(lambda: crowd.leading == [0, 1], "both lead")
                    step()
        assert seen == [(), ("0",), ("0", "1"), ("1",), ()]


async def test_a_departure_wakes_as_many_as_may_lead_at_most() -> None:
    async with EmbeddedServer() as server:
        wires = [Wire(server) for _ in range(8)]
        async with anyio.create_task_group() as tasks:

            async def contend(number: int) -> None:
                async with wires[number].connect() as client:
                    clients[number] = client
                    crowds[number] = Crowd(client, 3)
                    crowds[number].terms = terms
                    await crowds[number].contend(number)

            clients: dict[int, Client] = {}
            crowds: dict[int, Crowd] = {}
            terms: dict[int, Term] = {}
            for number in range(8):
                tasks.start_soon(contend, number)
                await eventually(
                    lambda count=number + 1: len(server.znodes()) == count + 1, "it has joined"
                )
            await eventually(lambda: sorted(terms) == [0, 1, 2], "the first three lead")
            await eventually(lambda: len(server.watches()) == 8, f"all watch: {server.watches()}")
            before = server.requests["GET_CHILDREN"] + server.requests["GET_CHILDREN2"]
            crowds[0].leave(0)
            await eventually(lambda: sorted(terms) == [1, 2, 3], "the fourth leads")
            await anyio.wait_all_tasks_blocked()
            looks = server.requests["GET_CHILDREN"] + server.requests["GET_CHILDREN2"] - before
            assert 1 <= looks <= 3
            tasks.cancel_scope.cancel()
