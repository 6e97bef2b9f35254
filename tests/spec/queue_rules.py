"""The contender's part of `docs/spec/queue.tla` in Python: what it may do with what it has seen.

Each function stands for the action of the same name: it returns the next state, or None where the
action is not enabled. `test_queue_rules.py` compares them with every step that TLC computes.
Joining, and the search for lost creates, are not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Znode:
    """A contender's znode: its owner's client, its name, sequence number and czxid."""

    client: str
    name: str
    number: int
    token: int = 0


NO_ZNODES: frozenset[Znode] = frozenset()


@dataclass(frozen=True, slots=True)
class Contender:
    """The variables of a contender: see the specification."""

    pc: str = "join"
    node: Znode | None = None
    watch: tuple[Znode, ...] = ()
    next: bool = False
    gone: frozenset[Znode] = NO_ZNODES
    outlived: frozenset[Znode] = NO_ZNODES


@dataclass(frozen=True, slots=True)
class Client:
    """What its client knows: the znodes, the last one of its own in front, and those it claims."""

    view: frozenset[Znode]
    front: Znode | None = None
    claimed: frozenset[Znode] = NO_ZNODES
    over: bool = False


AGAIN = Contender()
"""It has no znode any more, and joins again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The actions; `places` is N of the specification."""

    places: int = 1

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
        ]
        yield from ((action, after) for action, after in found if after is not None)


def _number(znode: Znode) -> int:
    return znode.number
