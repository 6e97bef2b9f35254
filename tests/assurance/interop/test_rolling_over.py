"""A fleet that moves to aiolead one process at a time: old and new ones contend for one path.

The steps of docs/how-to/moving-a-fleet.md, with processes. By the notes of each process, all have
their turns, one at a time. No update of a file that they share is lost.
"""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pytest
from assurance.chaos import analysis
from assurance.chaos.actors import Actor, Seat, leave_all
from assurance.chaos.curator import CuratorNotFoundError, command
from assurance.chaos.diary import confirmations
from assurance.chaos.role import Role
from assurance.chaos.stores import PlainSet

from aiolead.testing import BlockingServer
from aiolead.testing.history import Entered, History
from aiolead.testing.invariants import Bounds, one_holder

pytestmark = pytest.mark.timeout(400)

PATIENCE = 40.0
SEATS = 2


@pytest.mark.parametrize(
    ("old", "new", "layout"),
    [
        ("kazoo-lock", "aiolead-lock", "KAZOO"),
        ("curator", "aiolead", "CURATOR"),
        ("aiozk", "aiolead-lock", "AIOZK"),
    ],
)
def test_fleet_moves_process_by_process(
    old: str,
    new: str,
    layout: str,
    real_server: BlockingServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if old == "curator":
        _need_curator(request)
    line, file = f"/rolling-{uuid4().hex}", str(tmp_path / "file")

    def seat(name: str, recipe: str, seed: int) -> Seat:
        role = Role(
            recipe=recipe,
            line=line,
            session_timeout=8.0,
            hold_least=0.01,
            hold_most=0.05,
            seed=seed,
            backend=("asyncio", "trio")[seed % 2],
            plain=file,
            layout=layout if recipe == new else "",
        )
        return Seat(name, role, [real_server.port], None, tmp_path)

    seats = [seat(f"old-{n}", old, n) for n in range(SEATS)]
    try:
        present = [each.fill() for each in seats]
        _all_have_a_turn(present)
        for n in range(SEATS):
            # The new one comes before the old one has gone: a moment of both is what is tested.
            seats.append(seat(f"new-{n}", new, n))
            present.append(seats[-1].fill())
            _all_have_a_turn(present)
            _leaves(present.pop(0))
            _all_have_a_turn(present)
        for actor in present:
            _leaves(actor)
    finally:
        for each in seats:
            each.close()
    actors = [actor for each in seats for actor in each.actors]
    events = History.load(actor.history for actor in actors).events
    assert not one_holder(events, Bounds(session_timeout=8.0))
    assert analysis.overlap(analysis.beliefs(events)) == 0.0
    added = set(chain.from_iterable(_added(actor) for actor in actors))
    assert added <= set(PlainSet(file, "test").read()), "no update is lost"
    assert {event.contender for event in events if isinstance(event, Entered)} == {
        actor.name for actor in actors
    }


def _need_curator(request: pytest.FixtureRequest) -> None:
    try:
        command()
    except CuratorNotFoundError:
        # It knows whether that is to be borne.
        request.getfixturevalue("curator_process")


def _all_have_a_turn(actors: list[Actor]) -> None:
    since = time.clock_gettime(time.CLOCK_MONOTONIC)
    for actor in actors:
        actor.await_event(Entered, PATIENCE, after=since)


def _leaves(actor: Actor) -> None:
    assert leave_all([actor], PATIENCE) == [], actor.tail()


def _added(actor: Actor) -> list[str]:
    lines = confirmations(actor.history).read_text("utf-8").splitlines()
    return [line.partition(" ")[2] for line in lines]
