"""Histories: recorded events, their text form, and their digest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.checks import check_each
from testing.history_builder import HistoryBuilder, L

from aiolead.testing import history as vocabulary
from aiolead.testing.history import (
    KINDS,
    Entered,
    Event,
    History,
    Joined,
    Killed,
    Left,
    OfContender,
    OfTurn,
    describe,
    from_line,
    to_line,
)

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "float": _FINITE,
    "float | None": st.none() | _FINITE,
    "int": st.integers(),
    "str": st.text(),
    "bool": st.booleans(),
    "Value": st.none() | st.booleans() | st.integers() | _FINITE | st.text(),
}


def _events() -> st.SearchStrategy[Event]:
    return st.one_of(
        *(
            st.builds(
                kind,
                **{field.name: _BY_TYPE[str(field.type)] for field in dataclasses.fields(kind)},
            )
            for kind in KINDS.values()
        )
    )


EVENTS = _events()


def test_every_kind_of_event_is_exported() -> None:
    exported = {
        value
        for value in vars(vocabulary).values()
        if isinstance(value, type) and issubclass(value, Event)
    }
    assert set(KINDS.values()) == exported - {Event, OfContender, OfTurn}
    for name, kind in KINDS.items():
        assert kind.__name__ == name
        assert dataclasses.fields(kind)[0].name == "at"


def test_every_kind_of_event_has_a_method_that_takes_its_fields() -> None:
    tale = HistoryBuilder()
    clock = {"at": 7.0}
    tale.at(7.0)
    samples = {"str": "x", "int": 5, "float": 1.5, "float | None": 2.5, "bool": True, "Value": 3}
    for name, kind in KINDS.items():
        method = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        fields = {f.name: samples[str(f.type)] for f in dataclasses.fields(kind) if f.name != "at"}
        getattr(tale, method)(**fields)
        assert tale.events[-1] == kind(**clock, **fields)


@given(EVENTS)
def test_event_is_written_as_one_line_and_read_back_equal(event: Event) -> None:
    line = to_line(event)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    again = from_line(line)
    assert type(again) is type(event)
    assert repr(again) == repr(event)  # distinguishes 1 from 1.0 and from True
    assert describe(again) == describe(event)


@given(st.lists(EVENTS, max_size=5), st.lists(EVENTS, max_size=5))
def test_digests_are_equal_when_events_are_equal(one: list[Event], other: list[Event]) -> None:
    first, second = History(), History()
    first.events, second.events = one, other
    assert (first.digest() == second.digest()) == (repr(one) == repr(other))


def test_digest_is_stable_across_processes_and_versions() -> None:
    tale = HistoryBuilder("turn a 5")
    assert tale.digest() == "2456d2be15d1647e"


def test_events_of_dead_processes_are_ignored() -> None:
    dead: set[str] = set()
    history = History(clock=lambda: 1.0, is_alive=lambda name: name not in dead)
    history.joined(L, "a")
    dead.add("a")
    history.killed("a")
    history.entered(L, "a", 5)
    history.session("a", "closed", 5)
    history.joined(L, "b")
    history.revoked(L, "a")
    assert [type(event).__name__ for event in history.events] == [
        "Joined",
        "Killed",
        "Joined",
        "Revoked",
    ]


def test_sink_receives_each_event_at_once() -> None:
    written: list[str] = []
    history = History(clock=lambda: 1.5, sink=written.append)
    history.entered(L, "a", 5)
    assert json.loads(written[0])["event"] == "Entered"
    assert from_line(written[0]) == Entered(at=1.5, line=L, contender="a", token=5)
    history.healed()
    assert "".join(written) == history.lines()
    assert len(history) == len(written) == 2


# --- files of several processes ------------------------------------------------------------------


def _write(path: Path, text: str, cut: bytes = b"") -> Path:
    path.write_bytes(HistoryBuilder(text).lines().encode() + cut)
    return path


def test_files_are_merged_by_time_then_by_their_order(tmp_path: Path) -> None:
    a = _write(tmp_path / "a", "1 entered a 1; 3 left a 1")
    b = _write(tmp_path / "b", "1 joined b; 2 joined b")
    merged = History.load([a, b])
    assert [(e.at, type(e)) for e in merged.events] == [
        (1.0, Entered),
        (1.0, Joined),
        (2.0, Joined),
        (3.0, Left),
    ]
    assert [type(e) for e in History.load([b, a]).events][:2] == [Joined, Entered]


@check_each("length", range(len(to_line(Killed(at=1.0, contender="é")).encode())))
def test_last_line_may_be_truncated_anywhere(tmp_path: Path, length: int) -> None:
    whole = to_line(Killed(at=2.0, contender="é")).encode()
    history = History.load([_write(tmp_path / "a", "1 killed é", cut=whole[:length])])
    # The line needs no line end to count.
    assert len(history) == (2 if length == len(whole) - 1 else 1)
    assert history.events[0] == Killed(at=1.0, contender="é")


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"",
        b"5",
        b'{"at":1.0}',
        b'{"event":"Unheard","at":1.0}',
        b'{"event":"Killed","at":1.0}',
        b"\xff",
    ],
)
def test_line_that_is_no_event_is_refused(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(line + b"\n" + to_line(Killed(at=1.0, contender="a")).encode())
    with pytest.raises(ValueError, match=r"a, line 1: not an event"):
        History.load([path])


def test_hold_of_a_killed_process_ends_with_it(tmp_path: Path) -> None:
    a = _write(tmp_path / "a", "1 entered a 1", cut=b'{"event":"Left","at":')
    b = _write(tmp_path / "b", "3 entered b 2; 4 left b 2")
    with pytest.raises(AssertionError, match="I1 at"):
        History.load([a, b]).check()
    nemesis = _write(tmp_path / "n", "2 killed a")
    History.load([a, b, nemesis]).check()


# --- as text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("", ""),
        ("joined a", "   0.0000  /l: a joined"),
        ("left a 5 was_lost", "   0.0000  /l: a left (token 5), lost"),
        ("looked a 5 held=no", "   0.0000  /l: a looked (token 5, held False)"),
        ("node_created /l/x 5", "   0.0000  node created (path /l/x, czxid 5)"),
        ("healed", "   0.0000  healed"),
        (
            "5 joined a; 6.25 stepped_down a 5 'why not'",
            "   0.0000  /l: a joined\n   1.2500  /l: a stepped down (token 5, why why not)",
        ),
    ],
)
def test_history_as_text(history: str, expected: str) -> None:
    assert HistoryBuilder(history).tell() == expected


def test_failed_check_shows_the_history() -> None:
    tale = HistoryBuilder("turn a 5")
    tale.check()
    tale.play("joined b")
    with pytest.raises(AssertionError) as caught:
        tale.check()
    assert str(caught.value).startswith("I9 at 3.0000: /l: b has waited since 3.0000\nThe history:")
    assert "a left (token 5)" in str(caught.value)
    tale.check(skip={"I9"})
