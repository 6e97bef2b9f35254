"""The follower of a holder is isolated from its peers: how long do two contenders hold?

The holder's own connection stays up. Its server answers pings and reads for `syncLimit` ticks. That
is longer than the session lasts: the other servers expire it, and the next contender holds.
"""

from __future__ import annotations

import random
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from aiolead.testing import BlockingEnsemble
from aiolead.testing.history import Entered, History, Left, NodeCreated, NodeDeleted

from . import analysis
from .actors import Actor, Seat
from .diary import Diary
from .role import Role
from .settings import Settings
from .witness import merged, testimony

_PATIENCE = 60.0
"""How long what must come may take, in seconds; never waited for in vain."""

_FOREVER = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of one trial. All times are in seconds.

    Attributes:
        recipe: of the two contenders.
        overlap: for how long both believed that they held.
        taken_over: when the second one entered, after the cut.
        learned: when the first one did not believe any longer, after the cut.
        margin: how long before the servers deleted its znode that was; negative if it was later.
        wrong: the violations of the invariants, which are checked for aiolead only.
    """

    recipe: str
    overlap: float
    taken_over: float
    learned: float
    margin: float
    wrong: list[str]

    def __str__(self) -> str:
        return (
            f"{self.recipe}: two holders for {self.overlap:.3f} s; the first one stopped after "
            f"{self.learned:.3f} s, {self.margin:+.3f} s before the deletion of its znode; "
            f"the second one entered after {self.taken_over:.3f} s"
        )


def isolate_a_holder(
    ensemble: BlockingEnsemble, settings: Settings, recipe: str, rng: random.Random
) -> Trial:
    """One trial; the servers are as before when it returns.

    Args:
        ensemble: that of the settings, all serving.
        settings: those of servers and contenders.
        recipe: the recipe of both contenders.
        rng: when the cut comes.

    Raises:
        TimeoutError: something did not come about; says what.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        line = f"/isolated-{uuid.uuid4().hex}"
        leader = ensemble.leader()
        victim = next(server for server in ensemble.servers if server is not leader)
        well = [server.port for server in ensemble.servers if server is not victim]
        role = Role(
            recipe=recipe,
            line=line,
            session_timeout=settings.session_timeout,
            hold_least=_FOREVER,
            hold_most=_FOREVER,
            backend=rng.choice(("asyncio", "trio")),
        )
        seats = [
            Seat("first", role, [victim.port], None, directory),
            Seat("second", role, well, None, directory),
        ]
        for seat in seats:
            stack.callback(seat.close)
        first = seats[0].fill()
        first.await_event(Entered, _PATIENCE)
        second = seats[1].fill()
        _until(lambda: _standing(ensemble, line) == 2, second)
        # At any moment of whatever the holder does from time to time.
        time.sleep(rng.uniform(0.0, settings.session_timeout))
        stack.callback(ensemble.ensure_serving)
        ensemble.isolate(victim)
        cut = Diary.clock()
        entered = second.await_event(Entered, _PATIENCE, after=cut)
        left = first.await_event(Left, _PATIENCE, after=cut)
        told = History.load([first.history, second.history]).events
    events = merged(told, testimony(ensemble, line))
    deleted = next(event for event in events if isinstance(event, NodeDeleted))
    return Trial(
        recipe=recipe,
        overlap=analysis.overlap(analysis.beliefs(events), until=max(left.at, entered.at)),
        taken_over=entered.at - cut,
        learned=left.at - cut,
        margin=deleted.at - left.at,
        wrong=settings.violations(events, is_complete=False) if role.is_ours else [],
    )


def _standing(ensemble: BlockingEnsemble, line: str) -> int:
    """How many znodes there are in a line."""
    events = testimony(ensemble, line)
    born = sum(isinstance(event, NodeCreated) for event in events)
    return born - sum(isinstance(event, NodeDeleted) for event in events)


def _until(condition: Callable[[], bool], actor: Actor) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{actor.name} has not joined the queue in time\n{actor.tail()}")
        time.sleep(0.05)
