"""Every recipe that another library has, too, on one path with that library: the table in
docs/reference/interop.md.

The others are processes: a Java one with Curator and ZooKeeper's `WriteLock`, one with kazoo, one
with aiozk. The test's own order of events shows the holders: none releases before the test has
looked for others.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

import anyio
import pytest
from anyio.abc import TaskGroup
from assurance.interop.peers import LONG, PATIENCE, Connect, Peer
from kit.clients import joined
from kit.faults import only_on

import aiolead
from aiolead import Client, Election, Lock, ReadWriteLock, Semaphore
from aiolead.errors import MixedLayoutError
from aiolead.model import Participant
from aiolead.types import Layout

pytestmark = only_on("trio")


PATH = "/one"
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """One of ours, in a layout.

    Attributes:
        name: `read` and `write` are the two sides of a `ReadWriteLock`.
        layout: a layout.
    """

    name: str
    layout: Layout = Layout.CURATOR

    def of(self, client: Client, identity: str = "") -> Ours:
        """Makes it."""
        match self.name:
            case "Lock":
                lock = Lock(client, PATH, identity=identity or None, layout=self.layout)
                return Ours(lock.acquire, lock.contenders)
            case "Election":
                election = Election(client, PATH, identity=identity or None, layout=self.layout)
                return Ours(election.leadership, election.contenders)
            case "Semaphore":
                permits = Semaphore(client, PATH, 1, identity=identity or None, layout=self.layout)
                return Ours(permits.acquire, permits.contenders)
            case _:
                both = ReadWriteLock(client, PATH, identity=identity or None, layout=self.layout)
                side = both.read if self.name == "read" else both.write
                return Ours(side.acquire, both.contenders)


@dataclass(frozen=True, slots=True)
class Ours:
    """A recipe of aiolead.

    Attributes:
        acquire: enters it.
        line: the holders and the waiting contenders, in order.
    """

    acquire: Callable[..., AbstractAsyncContextManager[aiolead.Held | aiolead.Term]]
    line: Callable[[], Awaitable[list[Participant]]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A recipe of theirs, and ours that goes with it.

    Attributes:
        library: the other library.
        theirs: the name of the recipe in the process of that library.
        ours: ours.
        also: those of ours that share its path as well; all others are refused.
        identity: the identity of its contenders in the queue.
        reads: whether they show identities, and so ours.
    """

    library: str
    theirs: str
    ours: Recipe
    also: tuple[Recipe, ...] = ()
    identity: str = ""
    reads: bool = True

    @property
    def name(self) -> str:
        return f"{self.library}-{self.theirs}"

    @property
    def queue(self) -> str:
        """The path of the queue."""
        if self.ours.name != "Semaphore":
            return PATH
        return f"{PATH}/locks" if self.library == "curator" else f"{PATH}-__lock__"


NAMED_AS_LOCKS = Layout(election="{id}-lock-")
KAZOOS = tuple(Recipe(name, Layout.KAZOO) for name in ("Lock", "Election", "read", "write"))

CELLS = [
    Cell(
        "curator",
        "mutex",
        Recipe("Lock"),
        (Recipe("Lock", Layout.GO), Recipe("Election", NAMED_AS_LOCKS)),
        identity="curator",
    ),
    Cell("curator", "latch", Recipe("Election"), identity="curator"),
    Cell(
        "curator",
        "selector",
        Recipe("Election", NAMED_AS_LOCKS),
        (Recipe("Lock"), Recipe("Lock", Layout.GO)),
        identity="curator",
    ),
    Cell("curator", "write", Recipe("write"), (Recipe("read"),), identity="curator"),
    Cell("curator", "permit", Recipe("Semaphore"), identity="curator"),
    Cell("kazoo", "lock", Recipe("Lock", Layout.KAZOO), KAZOOS, identity="kazoo"),
    Cell("kazoo", "election", Recipe("Election", Layout.KAZOO), KAZOOS, identity="kazoo"),
    Cell("kazoo", "write", Recipe("write", Layout.KAZOO), KAZOOS, identity="kazoo"),
    Cell("kazoo", "semaphore", Recipe("Semaphore", Layout.KAZOO), identity="kazoo"),
    Cell(
        "aiozk",
        "lock",
        Recipe("Lock", Layout.AIOZK),
        (Recipe("Lock", Layout.WRITE_LOCK),),
        reads=False,
    ),
    Cell("aiozk", "election", Recipe("Election", Layout.AIOZK), reads=False),
    Cell(
        "aiozk",
        "write",
        Recipe("write", Layout.AIOZK),
        (Recipe("read", Layout.AIOZK),),
        reads=False,
    ),
    Cell(
        "curator",
        "writelock",
        Recipe("Lock", Layout.WRITE_LOCK),
        (Recipe("Lock", Layout.AIOZK),),
        identity="\x124",
        reads=False,
    ),
]
"""All recipes that exclude others. `writelock` is ZooKeeper's own, in the process of Curator."""

CONTENDING = [cell for cell in CELLS if cell.theirs != "writelock"]
"""A `WriteLock` may wait forever for a znode that is deleted as it looks. It looks once."""

EVERY = [
    *(
        Recipe("Lock", layout)
        for layout in (
            Layout.CURATOR,
            Layout.KAZOO,
            Layout.GO,
            Layout.AIOZK,
            Layout.WRITE_LOCK,
        )
    ),
    *(
        Recipe(name, layout)
        for name in ("Election", "read", "write")
        for layout in (Layout.CURATOR, Layout.KAZOO, Layout.AIOZK)
    ),
]
"""All of ours that contend in the path itself."""

PERMITS = [Recipe("Semaphore", layout) for layout in (Layout.CURATOR, Layout.KAZOO)]

each_cell = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)


@pytest.fixture
def peer(cell: Cell, hosts: str, request: pytest.FixtureRequest) -> Callable[[], Peer]:
    """Makes one more client of the other library, to be entered."""
    return partial(Peer, request.getfixturevalue(f"{cell.library}_process"), hosts)


class Turn:
    """A turn of aiolead, in a task of its own, until `leave`."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._holds, self._leave = anyio.Event(), anyio.Event()

    def begin(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._run)

    async def _run(self) -> None:
        async with self._ours.acquire(timeout=PATIENCE) as held:
            self._holds.set()
            await self._leave.wait()
            held.check()

    @property
    def is_done(self) -> bool:
        return self._holds.is_set()

    async def wait(self) -> None:
        await self._holds.wait()

    async def leave(self) -> None:
        self._leave.set()


class TheirTurn:
    """The same of theirs."""

    def __init__(self, peer: Peer, recipe: str) -> None:
        self._peer, self._recipe = peer, recipe

    def begin(self, _tasks: TaskGroup) -> None:
        self._acquiring = self._peer.begin(f"{self._recipe}.acquire", PATH, LONG)

    @property
    def is_done(self) -> bool:
        return self._acquiring.is_done

    async def wait(self) -> None:
        assert await self._acquiring.wait() == "true"

    async def leave(self) -> None:
        await self._peer(f"{self._recipe}.release", PATH)


@each_cell
@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_contenders_hold_in_order_of_arrival(
    connect: Connect, peer: Callable[[], Peer], cell: Cell, first: str
) -> None:
    """Contenders of both sides, which see each other in the queue."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in range(2)]
        peers = [await stack.enter_async_context(peer()) for _ in range(3)]
        onlooker = cell.ours.of(clients[0])
        ours = [Turn(cell.ours.of(client, "python")) for client in clients]
        theirs = [TheirTurn(each, cell.theirs) for each in peers[:2]]
        both = (ours, theirs) if first == "ours" else (theirs, ours)
        turns = [turn for pair in zip(*both, strict=True) for turn in pair]
        names = [cell.identity if turn in theirs else "python" for turn in turns]
        # A contender with a permit of a semaphore has left its queue, and the next one may
        # have a permit already.
        is_semaphore = cell.ours.name == "Semaphore"
        async with anyio.create_task_group() as tasks:
            for number, turn in enumerate(turns):
                turn.begin(tasks)
                if number == 0:
                    await turn.wait()
                await joined(clients[0], cell.queue, number + (not is_semaphore))
            if not is_semaphore:
                assert [who.identity for who in await onlooker.line()] == names
            if cell.reads:
                seen = (await peers[2](f"{cell.theirs}.seen", PATH)).split(",")
                assert names[0] in seen if is_semaphore else seen == names
            for number, turn in enumerate(turns):
                await turn.wait()
                await clients[0].sync(PATH)
                holders = [who.identity for who in await onlooker.line() if who.is_holder]
                assert names[number] in holders
                assert len(holders) == 1 or is_semaphore
                assert not any(other.is_done for other in turns[number + 1 :])
                await turn.leave()


@pytest.mark.parametrize("cell", CONTENDING, ids=lambda cell: cell.name)
async def test_contenders_hold_one_at_a_time(
    connect: Connect, peer: Callable[[], Peer], cell: Cell
) -> None:
    """Two of aiolead and two of the other library, again and again."""
    inside: list[object] = []

    async def alone(who: object) -> None:
        inside.append(who)
        await clients[0].sync(PATH)
        assert inside == [who]
        inside.remove(who)

    async def take_ours(ours: Ours) -> None:
        for _ in range(ROUNDS):
            async with ours.acquire(timeout=PATIENCE):
                await alone(ours)

    async def take_theirs(other: Peer) -> None:
        for _ in range(ROUNDS):
            assert await other.is_so(f"{cell.theirs}.acquire", PATH, LONG)
            await alone(other)
            await other(f"{cell.theirs}.release", PATH)

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in range(2)]
        peers = [await stack.enter_async_context(peer()) for _ in range(2)]
        async with anyio.create_task_group() as tasks:
            for client, other in zip(clients, peers, strict=True):
                tasks.start_soon(take_ours, cell.ours.of(client))
                tasks.start_soon(take_theirs, other)


@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if cell.ours.name == "write"], ids=lambda cell: cell.library
)
async def test_readers_share_and_writers_exclude(
    connect: Connect, peer: Callable[[], Peer], cell: Cell
) -> None:
    async with connect() as client, peer() as other:
        for mine, theirs in itertools.product(("read", "write"), repeat=2):
            shared = mine == theirs == "read"
            ours = Recipe(mine, cell.ours.layout).of(client)
            async with ours.acquire(timeout=PATIENCE):
                acquiring = other.begin(f"{theirs}.acquire", PATH, LONG)
                await joined(client, PATH, 2)
                if shared:
                    await acquiring.wait()
                assert acquiring.is_done == shared
            assert await acquiring.wait() == "true"
            with nullcontext() if shared else pytest.raises(aiolead.AcquireTimeout):
                async with ours.acquire(timeout=0):
                    assert shared, "both hold"
            await other(f"{theirs}.release", PATH)


@each_cell
async def test_other_layouts_are_refused(
    connect: Connect, peer: Callable[[], Peer], cell: Cell
) -> None:
    """A recipe that would not exclude it, or that it ignores, is refused before any write."""
    every = PERMITS if cell.ours.name == "Semaphore" else EVERY
    async with connect() as client, peer() as other:
        assert await other.is_so(f"{cell.theirs}.acquire", PATH, LONG)
        for recipe in every:
            if recipe in (cell.ours, *cell.also):
                with pytest.raises(aiolead.AcquireTimeout):
                    async with recipe.of(client).acquire(timeout=0):
                        pytest.fail(f"{recipe} holds beside it")
                continue
            assert (before := await client.exists(PATH)) is not None
            with pytest.raises(MixedLayoutError) as caught:
                async with recipe.of(client).acquire(timeout=PATIENCE):
                    pytest.fail(f"{recipe} holds beside it")
            assert (after := await client.exists(PATH)) is not None
            assert after.cversion == before.cversion
            # The parts of Curator's semaphores are of no session.
            is_part = caught.value.neighbour == f"{PATH}/leases"
            assert caught.value.session_id == (0 if is_part else other.session_id)
