"""The checks of holders against the same questions asked in the slowest possible way.

Histories are drawn at random, mostly of a world without mutual exclusion. The checks search them in
one sweep. The tests compare every pair of holds, every znode and every instant.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.history_builder import PARENT, HistoryBuilder

from aiolead.testing.history import (
    Continued,
    Entered,
    Event,
    Joined,
    Killed,
    Left,
    NodeCreated,
    NodeDeleted,
    Revoked,
    Stopped,
    Withdrew,
)
from aiolead.testing.invariants import (
    Bounds,
    first_come_first_served,
    one_holder,
    progress,
    truthful_return,
)

TAU = 8
BOUNDS = Bounds(session_timeout=TAU, tick_time=1, reconnect=0, grace=1, slack=0, is_complete=False)
"""Progress is due within 10 s."""

LINES = ("/l", "/m")


def wild(seed: int, *, steps: int, contenders: int, servers: bool) -> list[Event]:
    """Contenders that do what they like, at whole seconds, several at the same one."""
    rng = random.Random(seed)
    calm = rng.random()
    tale = HistoryBuilder()
    zxid = 0
    doing: dict[tuple[str, str], str] = {}
    held: dict[tuple[str, str], int] = {}
    own: dict[tuple[str, str], tuple[str, int]] = {}
    there: list[tuple[str, str, int]] = []
    stopped: set[str] = set()
    for _ in range(steps):
        tale.after(rng.choice((0, 0, 1, 1, 2, 5)))
        name = f"c{rng.randrange(contenders)}"
        line = rng.choice(LINES)
        key = (line, name)
        if rng.random() < 0.1:
            if name in stopped:
                stopped.discard(name)
                tale.continued(name)
            else:
                stopped.add(name)
                tale.stopped(name)
        elif rng.random() < 0.05:
            tale.killed(name)
            for other in LINES:
                doing.pop((other, name), None)
        elif rng.random() < 0.2 and servers and there:
            path, owner, _ = there.pop(rng.randrange(len(there)) if rng.random() > calm else 0)
            zxid += 1
            tale.node_deleted(path, zxid, int(owner[1:]) + 1)
        elif name in stopped:
            continue
        elif key not in doing:
            doing[key] = "waits"
            tale.joined(line, name)
            zxid += 1
            if servers:
                path = f"{PARENT}{line}/n{zxid:06}"
                tale.node_created(path, zxid, int(name[1:]) + 1)
                own[key] = (path, zxid)
                there.append((path, name, zxid))
        elif doing[key] == "waits" and rng.random() < 0.8:
            if any(k[0] == line for k in held if doing.get(k) == "holds") and rng.random() < calm:
                continue
            doing[key] = "holds"
            zxid += 1
            path, held[key] = own[key] if servers else ("", zxid)
            tale.entered(line, name, held[key], path=path)
        elif doing[key] == "waits":
            del doing[key]
            tale.withdrew(line, name)
        elif rng.random() < 0.1:
            tale.revoked(line, name)
        else:
            del doing[key]
            tale.left(line, name, held[key])
    return tale.events


def _end(events: list[Event], begin: int) -> int:
    """Where a hold that began at a position counts as ended."""
    entered = events[begin]
    assert isinstance(entered, Entered)
    for position in range(begin + 1, len(events)):
        match events[position]:
            case Left(line=line, contender=name) | Revoked(line=line, contender=name):
                if (line, name) == (entered.line, entered.contender):
                    return position
            case Killed(contender=name) if name == entered.contender:
                return position
    return len(events)


def _is_excused(events: list[Event], name: str, begin: float, until: float, at: float) -> bool:
    """Whether a hold whose process had been stopped at `at`, or shortly before, was over by then.

    The seconds in which the process did not run do not count, also those of later stops.
    """
    spans: list[list[float]] = []
    for event in events:
        if isinstance(event, Stopped) and event.contender == name:
            spans.append([event.at, inf])
        elif isinstance(event, Continued) and event.contender == name:
            spans[-1][1] = event.at
    relevant = [(a, b) for a, b in spans if a <= at and b > at - TAU]
    if any(b == inf for _, b in relevant):
        return True
    if not any(a < until and b > max(a, begin) for a, b in relevant):
        return False
    later = [(a, b) for a, b in spans if at < a < until]
    until = min([until, *(a for a, b in later if b == inf)])
    if until == inf:
        return False
    missed = sum(
        any(a <= second < b for a, b in relevant + later)
        for second in range(int(begin), int(until))
    )
    return until - missed <= at


def _begun_too_early(events: list[Event], places: int) -> list[tuple[float, str]]:
    """I1, for each pair of holds: those that began while others held, and could have known."""
    begins = [n for n, event in enumerate(events) if isinstance(event, Entered)]
    found: list[tuple[float, str]] = []
    for begin in begins:
        entered = events[begin]
        assert isinstance(entered, Entered)
        others = 0
        for other in begins:
            holder = events[other]
            assert isinstance(holder, Entered)
            end = _end(events, other)
            if holder.line == entered.line and other < begin < end:
                until = events[end].at if end < len(events) else inf
                if not _is_excused(events, holder.contender, holder.at, until, entered.at):
                    others += 1
        if others >= places:
            found.append((entered.at, entered.contender))
    return found


seeds = st.integers(0, 2**32)

SETTINGS = settings(deadline=None, max_examples=200)


@SETTINGS
@given(seeds, st.integers(5, 60), st.integers(1, 5), st.integers(1, 3))
def test_one_holder(seed: int, steps: int, contenders: int, places: int) -> None:
    events = wild(seed, steps=steps, contenders=contenders, servers=False)
    found = one_holder(events, replace(BOUNDS, places=places))
    expected = _begun_too_early(events, places)
    assert sorted((w.at, w.text.split()[4]) for w in found) == sorted(expected)


@SETTINGS
@given(seeds, st.integers(5, 60), st.integers(1, 5))
def test_first_come_first_served(seed: int, steps: int, contenders: int) -> None:
    events = wild(seed, steps=steps, contenders=contenders, servers=True)
    entered = [event for event in events if isinstance(event, Entered)]
    expected = [
        second.at
        for number, second in enumerate(entered)
        if any(
            first.line == second.line and first.token > second.token for first in entered[:number]
        )
    ]
    found = first_come_first_served(events, BOUNDS)
    assert sorted(w.at for w in found) == sorted(expected)


@SETTINGS
@given(seeds, st.integers(5, 60), st.integers(1, 5), st.integers(1, 3))
def test_truthful_return(seed: int, steps: int, contenders: int, places: int) -> None:
    events = wild(seed, steps=steps, contenders=contenders, servers=True)
    expected = []
    for end, entered in enumerate(events):
        if not isinstance(entered, Entered):
            continue
        begin = max(
            n
            for n, event in enumerate(events[:end])
            if isinstance(event, Joined)
            and (event.line, event.contender) == (entered.line, entered.contender)
        )
        parent = entered.path.rpartition("/")[0]
        moments = 0
        there: list[str] = []
        for position, event in enumerate(events[:end]):
            if isinstance(event, NodeCreated) and event.path.startswith(parent + "/"):
                there.append(event.path)
            elif isinstance(event, NodeDeleted) and event.path in there:
                there.remove(event.path)
            # Names sort as zxids do.
            if position >= begin and entered.path in sorted(there)[:places]:
                moments += 1
        if not moments:
            expected.append(entered.at)
    found = truthful_return(events, replace(BOUNDS, places=places))
    assert sorted(w.at for w in found) == sorted(expected)


@SETTINGS
@given(seeds, st.integers(5, 60), st.integers(1, 5), st.integers(1, 3))
def test_progress(seed: int, steps: int, contenders: int, places: int) -> None:
    events = wild(seed, steps=steps, contenders=contenders, servers=False)
    expected = 0
    for line in LINES:
        expected += _idle_for_long(events, line, places)
    assert len(progress(events, replace(BOUNDS, places=places))) == expected


def _idle_for_long(events: list[Event], line: str, places: int) -> int:
    """I9: how often nothing happened in a line for more than 10 s although it could have."""
    there = {e.contender for e in events if isinstance(e, (Joined, Entered)) and e.line == line}

    def counts(position: int) -> tuple[int, int]:
        """How many wait and hold after an event."""
        waiting, holding = set(), set()
        for event in events[: position + 1]:
            match event:
                case Killed(contender=name):
                    waiting.discard(name)
                    holding.discard(name)
                case Joined(line=at, contender=name) if at == line:
                    waiting.add(name)
                case Entered(line=at, contender=name) if at == line:
                    waiting.discard(name)
                    holding.add(name)
                case Withdrew(line=at, contender=name) if at == line:
                    waiting.discard(name)
                case Left(line=at, contender=name) | Revoked(line=at, contender=name) if at == line:
                    holding.discard(name)
        return len(waiting), len(holding)

    def is_idle(position: int) -> bool:
        waiting, holding = counts(position)
        return waiting > 0 and holding < places

    def is_new(position: int) -> bool:
        """Whether an event starts the time again."""
        event = events[position]
        if isinstance(event, (Killed, Stopped, Continued)):
            return event.contender in there
        return isinstance(event, Entered) and event.line == line

    found = 0
    position = 0
    while position < len(events):
        end = position
        if is_idle(position):
            while end + 1 < len(events) and is_idle(end) and not is_new(end + 1):
                end += 1
                if not is_idle(end):
                    break
            last = min(end + (1 if is_idle(end) else 0), len(events) - 1)
            if events[last].at - events[position].at > BOUNDS.progress:
                found += 1
        position = max(end, position) + 1
    return found


@pytest.mark.parametrize("servers", [False, True])
def test_drawn_histories_break_the_invariants_often_but_not_always(servers: bool) -> None:
    """Otherwise the tests above would compare nothing."""
    wrong = [
        (len(one_holder(events, BOUNDS)), len(progress(events, BOUNDS)))
        for seed in range(200)
        for events in [wild(seed, steps=40, contenders=4, servers=servers)]
    ]
    for found in zip(*wrong, strict=True):
        assert sum(map(bool, found)) > 40
        assert found.count(0) > 20
