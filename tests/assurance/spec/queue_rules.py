"""The contender's part of `docs/spec/queue.tla` in Python: what it may do with what it has seen.

Each function stands for the action of the same name: it returns the next state, or None where the
action is not enabled. `test_queue_rules.py` compares them with every step that TLC computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from aiolead._recipes.naming import SEQUENCE_DIGITS


@dataclass(frozen=True, slots=True)
class Znode:
    """A contender's znode: its owner's client, its name, sequence number and czxid.

    The client is that of the session that owns the znode. The name may be that of another client.
    """

    client: str
    name: str
    number: int
    token: int = 0

    @property
    def create(self) -> str:
        """The beginning of the name: that of the create that has made the znode, or seems to."""
        return self.name[:-SEQUENCE_DIGITS]


NO_ZNODES: frozenset[Znode] = frozenset()


@dataclass(frozen=True, slots=True)
class Contender:
    """The variables of a contender: see the specification.

    `create` is the name of its last create.
    """

    pc: str = "join"
    node: Znode | None = None
    watch: tuple[Znode, ...] = ()
    next: bool = False
    gone: frozenset[Znode] = NO_ZNODES
    outlived: frozenset[Znode] = NO_ZNODES
    create: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Client:
    """The knowledge of its client: the znodes, its last one in front, and those it claims.

    `is_caught_up` says that this is all that the servers have committed, and that its session
    lives; `on_the_way` are the names of creates that may still be applied.
    """

    view: frozenset[Znode]
    front: Znode | None = None
    claimed: frozenset[Znode] = NO_ZNODES
    over: bool = False
    name: str = ""
    is_caught_up: bool = False
    on_the_way: frozenset[str] = frozenset()

    def proven(self, create: str) -> frozenset[Znode]:
        """The znodes of a create of its own: by their names, and by the session that owns them."""
        return frozenset(z for z in self.view if z.create == create and z.client == self.name)


@dataclass(frozen=True, slots=True)
class Job:
    """A create that nobody wants is looked for: see `looks`."""

    create: str
    step: Literal["answer", "first", "second"]


AGAIN = Contender()
"""It has no znode any more, and joins again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The actions; `places` is N of the specification."""

    places: int = 1

    def resolve(self, it: Contender, client: Client) -> Iterator[Contender]:
        """Without a znode, the job of a second look begins: see `look`."""
        if it.pc != "lost" or not client.is_caught_up:
            return
        found = client.proven(it.create) - client.claimed
        for z in found:
            yield replace(it, pc="here", node=z)
        if not found:
            yield AGAIN

    def look(self, job: Job, client: Client) -> tuple[Job | None, frozenset[Znode]] | None:
        """The rest of the job, and the znodes that are to be deleted."""
        if job.step == "answer" or not client.is_caught_up:
            return None
        if job.step == "second" and job.create in client.on_the_way:
            return None
        found = client.proven(job.create)
        again = job.step == "first" and not found
        return Job(job.create, "second") if again else None, found

    def behind_ours(self, it: Contender, client: Client, nearest: Znode) -> Contender | None:
        own = it.node
        if it.pc != "here" or self.places != 1 or own is None or nearest == own:
            return None
        is_just_before = nearest.client == own.client and nearest.number + 1 == own.number
        if nearest not in client.claimed or not is_just_before:
            return None
        return replace(it, pc="arm", watch=(nearest,), next=False)

    def list_queue(
        self, it: Contender, client: Client, *, look_ahead: bool = False
    ) -> Contender | None:
        """`look_ahead`: one more is watched than the specification's contender does."""
        own = it.node
        if it.pc != "here" or own is None:
            return None
        if own not in client.view:
            return AGAIN
        before = sorted((z for z in client.view if z.number < own.number), key=_number)[::-1]
        rank = len(before)
        if rank < self.places:
            return replace(it, pc="front")
        near = tuple(before[: 2 if self.places == 1 else self.places + look_ahead])
        is_ours = near[0].client == own.client and near[0] in client.claimed
        if self.places == 1 and is_ours and not look_ahead:
            near = near[:1]
        return replace(it, pc="arm", watch=near, next=self.places == 1 and rank == 1)

    def arm(self, it: Contender, client: Client) -> Contender | None:
        own = it.node
        if it.pc != "arm" or own is None:
            return None
        if own not in client.view:
            return AGAIN
        names = frozenset(it.watch)
        return replace(
            it,
            pc="wait",
            gone=names - client.view,
            outlived=frozenset(
                z
                for z in names
                if z.client == own.client and (z in client.view or z in it.outlived)
            ),
        )

    def wake(self, it: Contender, client: Client) -> Contender | None:
        if it.pc != "wait" or it.node is None:
            return None
        if it.node not in client.view:
            return AGAIN
        if not it.gone:
            return None
        return replace(it, pc="front" if self.is_first(it, client) else "here")

    def is_first(self, it: Contender, client: Client) -> bool:
        """Whether a waiter is in front by what has gone, without another listing."""
        nearest = it.watch[0]
        was_first = self.places == 1 and client.front == nearest and nearest in it.outlived
        return nearest in it.gone and (it.next or was_first)

    def enter(self, it: Contender, client: Client) -> Contender | None:
        if it.pc != "front" or it.node is None:
            return None
        if it.node not in client.view:
            return AGAIN
        return None if client.over else Contender("held", it.node)

    def leave(self, it: Contender) -> Contender | None:
        return None if it.pc in ("join", "out", "dead") else Contender("out")

    def front(self, before: Contender, after: Contender, client: Client) -> Znode | None:
        """The client's last znode in front, after a step."""
        is_noted = self.places == 1 and after.pc == "front" and before.pc != "front"
        return after.node if is_noted else client.front

    def steps(self, it: Contender, client: Client) -> Iterator[tuple[str, Contender]]:
        """All that the contender may do next."""
        found = [
            ("List", self.list_queue(it, client)),
            ("Arm", self.arm(it, client)),
            ("Wake", self.wake(it, client)),
            ("Enter", self.enter(it, client)),
            ("Release" if it.pc == "held" else "GiveUp", self.leave(it)),
            *(("BehindOurs", self.behind_ours(it, client, z)) for z in client.claimed),
            *(("Resolve", after) for after in self.resolve(it, client)),
        ]
        yield from ((action, after) for action, after in found if after is not None)


def _number(znode: Znode) -> int:
    return znode.number
