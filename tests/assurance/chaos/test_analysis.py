"""Conclusions of the runs with real processes, from histories made by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import anyio
import pytest

from aiolead.testing.history import (
    Acted,
    Continued,
    Entered,
    Event,
    Joined,
    Killed,
    Left,
    NodeCreated,
    NodeDeleted,
    Stopped,
)

from . import curator
from .analysis import Span, beliefs, overlap
from .diary import Chronicle
from .schedule import Kind, Schedule
from .stores import PlainSet, Refused, StoreLink, TokenStore
from .witness import Stored, forgotten, merged, transactions


def entered(who: str, at: float, token: int = 1) -> Event:
    return Entered(at=at, line="/l", contender=who, token=token)


def left(who: str, at: float, token: int = 1) -> Event:
    return Left(at=at, line="/l", contender=who, token=token)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], 0.0),
        ([(0, 1), (1, 2)], 0.0),
        ([(0, 1), (0.5, 2)], 0.5),
        ([(0, 9), (1, 2), (3, 4)], 2.0),
        ([(0, 3), (1, 3), (2, 3)], 2.0),
        ([(0, float("inf")), (1, float("inf"))], 9.0),
        ([(0, 1), (11, 12), (11, 12)], 0.0),
    ],
)
def test_overlap_of_spans(spans: list[tuple[float, float]], expected: float) -> None:
    named = [Span(str(number), *span) for number, span in enumerate(spans)]
    assert overlap(named, until=10.0) == expected


def test_belief_ends_with_its_process() -> None:
    events = [entered("a", 1), Killed(at=2, contender="a"), entered("b", 3), left("b", 4)]
    assert beliefs(events) == [Span("a", 1, 2), Span("b", 3, 4)]


def test_stopped_holder_believes_again_when_it_continues() -> None:
    events = [
        entered("a", 1),
        Stopped(at=2, contender="a"),
        entered("b", 4),
        Continued(at=6, contender="a"),
        left("a", 6.5),
        left("b", 7),
    ]
    spans = beliefs(events)
    assert spans == [Span("a", 1, 2), Span("b", 4, 7), Span("a", 6, 6.5)]
    assert overlap(spans) == 0.5


# --- the servers' account ------------------------------------------------------------------------


def log_of(*entries: tuple[int, int, int, int, int, bytes]) -> bytes:
    """A log file with entries of session, xid, zxid, time in ms, kind and body."""
    log = b"ZKLG" + struct.pack(">iq", 2, 0)
    for session, xid, zxid, at, kind, body in entries:
        entry = struct.pack(">qiqqi", session, xid, zxid, at, kind) + body
        log += struct.pack(">qi", 0, len(entry)) + entry + b"B"
    return log


def test_truncated_log_is_read() -> None:
    log = log_of((7, 1, 100, 5000, 1, b"one"), (7, 0, 101, 6500, -11, b"two"))
    whole = list(transactions(log + bytes(64)))
    assert [(entry.zxid, entry.at, entry.body) for entry in whole] == [
        (100, 5.0, b"one"),
        (101, 6.5, b"two"),
    ]
    for size in range(len(log)):
        found = list(transactions(log[:size]))
        assert len(found) < 2
        assert found == whole[: len(found)]


def disk(*zxids: int, snapshots: tuple[int, ...] = ()) -> Stored:
    log = log_of(*((7, 1, zxid, 5000, 1, b"") for zxid in zxids))
    return Stored(frozenset(transactions(log)), frozenset(snapshots))


@pytest.mark.parametrize(
    ("disks", "lost"),
    [
        ((disk(1, 2, 3), disk(1, 2, 3), disk(1, 2, 3)), []),
        # It was down for the rest, or it was sent a snapshot.
        ((disk(1, 2, 3), disk(1, 2, 3), disk(1)), []),
        ((disk(1, 2, 3), disk(1, 2, 3), disk(1, 3, snapshots=(2,))), []),
        # Only an isolated leader has it.
        ((disk(1, 2, 3), disk(1, 3), disk(1, 3)), []),
        ((disk(1, 2, 3), disk(1, 2, 3), disk(1, 3)), [2]),
        ((disk(1, 2, 3), disk(1, 2, 3), disk(1, 3, snapshots=(1, 3))), [2]),
    ],
)
def test_forgotten_transactions_are_found(disks: tuple[Stored, ...], lost: list[int]) -> None:
    assert forgotten(disks) == lost


def test_causes_come_before_effects_within_a_millisecond() -> None:
    told = [
        Joined(at=1.0005, line="/l", contender="a"),
        entered("a", 1.0008, token=7),
        left("a", 2.0004, token=7),
    ]
    servers = [
        NodeCreated(at=1.0, path="/l/a", czxid=7, owner=5),
        NodeDeleted(at=2.0, path="/l/a", zxid=8, owner=5, by=5),
    ]
    kinds = [type(event) for event in merged(told, servers)]
    assert kinds == [Joined, NodeCreated, Entered, Left, NodeDeleted]


def test_expiry_counts_from_its_earliest_time() -> None:
    servers = [
        NodeCreated(at=1.0, path="/l/a", czxid=7, owner=5),
        NodeDeleted(at=2.0, path="/l/a", zxid=8, owner=5),
    ]
    events = merged([entered("a", 1.5, token=7), left("a", 2.0004, token=7)], servers)
    assert [type(event) for event in events] == [NodeCreated, Entered, NodeDeleted, Left]


# --- Curator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["jars", "compiler"])
def test_missing_parts_of_curator_are_named(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curator, "_JARS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    if missing == "compiler":
        for part in ("recipes", "framework", "client"):
            (tmp_path / f"curator-{part}.jar").touch()
    with pytest.raises(curator.CuratorNotFoundError, match=r"libcurator-recipes-java default-jdk"):
        curator.compiled()


# --- schedules and stores ------------------------------------------------------------------------


def test_seed_gives_the_same_schedule() -> None:
    def of(seed: int) -> Schedule:
        return Schedule.of(seed, servers=3, contenders=4, seconds=12.0, session_timeout=2.0)

    assert str(of(3)) == str(of(3))
    faults = [fault for seed in range(100) for fault in of(seed).faults]
    assert {fault.kind for fault in faults} == set(Kind)
    assert all(0 <= fault.start < fault.end <= 12.0 + 1e-9 for fault in faults)


async def test_token_store_refuses_smaller_tokens(tmp_path: Path) -> None:
    path, chronicle = str(tmp_path / "socket"), Chronicle()
    with TokenStore(path, chronicle, "/l") as store:
        old, new = StoreLink(path, "old", 5), StoreLink(path, "new", 6)
        assert await old.read() == []
        await old.write(["old:1"])
        assert await new.read() == ["old:1"]
        # The old one has read before the new one did, and may not write any more.
        with pytest.raises(Refused):
            await old.write(["old:1", "old:2"])
        await new.write(["old:1", "new:1"])
        with pytest.raises(Refused):
            await old.read()
        assert store.elements == ["old:1", "new:1"]
        assert store.refusals == 2
        # A holder that is killed while it writes does no harm.
        async with await anyio.connect_unix(path) as half:
            await half.send(b'{"who": "x", "tok')
        assert await new.read() == ["old:1", "new:1"]
    told = [(e.contender, e.accepted) for e in chronicle.events if isinstance(e, Acted)]
    assert told.count(("old", False)) == 2


def test_plain_file_accepts_every_write(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    one, other = PlainSet(path, "one"), PlainSet(path, "other")
    elements = one.read()
    other.write([*other.read(), "other:1"])
    one.write([*elements, "one:1"])
    assert other.read() == ["one:1"]
