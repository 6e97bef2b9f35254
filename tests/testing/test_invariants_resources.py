"""I15, I16, I18, I19, I27, the rare situations, and all checks together."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from kit.checks import check_each
from testing.history_builder import BOUNDS, HistoryBuilder, L, path_of, session_of

import aiolead.testing.invariants as invariants
from aiolead.errors import LossReason
from aiolead.testing.history import KINDS, RESIGNED, Event
from aiolead.testing.invariants import (
    INVARIANTS,
    SITUATIONS,
    Bounds,
    Reading,
    sometimes,
    violations,
)


@pytest.fixture
def tale() -> HistoryBuilder:
    return HistoryBuilder()


# --- I15 and I16 ---------------------------------------------------------------------------------


def test_nothing_is_left(tale: HistoryBuilder) -> None:
    tale.leftover("tasks", 0)
    tale.check(BOUNDS)
    tale.leftover("znodes", 2, "/a and /b")
    tale.leftover("sockets", 1)
    assert [str(w) for w in tale.wrong()] == [
        "I15 at 0.0000: 2 znodes left: /a and /b",
        "I15 at 0.0000: 1 sockets left",
    ]


@pytest.mark.parametrize(
    ("counts", "broken"),
    [
        ([1, 2, 3, 4, 5], ["I16"]),
        ([0, 5, 5, 6, 6], ["I16"]),
        ([0, 5, 5, 5, 5], []),  # got going
        ([0, 5, 7, 6, 6], []),
        ([0, 5, 5, 5, 9], []),
        ([5, 4, 3, 2, 1], []),
        ([1, 2, 3, 4], []),  # too few
    ],
)
def test_nothing_grows(tale: HistoryBuilder, counts: list[int], broken: list[str]) -> None:
    for number in counts:
        tale.counted("watches", number)
        tale.counted("znodes", 3)
    assert tale.broken() == broken


# --- I27 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "changes", "seconds", "broken"),
    [
        (150, 0, 4.0, []),
        (151, 0, 4.0, ["I27"]),
        (154, 2, 4.0, []),
        (155, 2, 4.0, ["I27"]),
        (75, 0, 2.0, []),  # half a session timeout
        (76, 0, 2.0, ["I27"]),
    ],
)
def test_requests_are_bounded_by_time_and_changes(
    tale: HistoryBuilder, count: int, changes: int, seconds: float, broken: list[str]
) -> None:
    tale.at(9.0).requested(0x17, count, changes, 1.0, seconds)
    assert tale.broken() == broken


def test_bounds_of_requests_can_be_given(tale: HistoryBuilder) -> None:
    tale.at(9.0).requested(0x17, 31, 2, 1.0, 4.0)
    (wrong,) = tale.wrong(Bounds(session_timeout=4.0, requests=10, requests_per_change=10))
    assert str(wrong) == (
        "I27 at 5.0000: session 0x17 sent 31 requests in 4 s with 2 changes, at most 30 are allowed"
    )
    assert tale.wrong(Bounds(session_timeout=4.0, requests=11, requests_per_change=10)) == []


def test_requests_of_a_hostile_session_do_not_count(tale: HistoryBuilder) -> None:
    tale.hostile(0x17)
    tale.at(9.0).requested(0x17, 10_000, 0, 1.0, 4.0)
    assert tale.broken() == []


# --- I18 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "text", "broken"),
    [
        ("ERROR", "x", ["I18"]),
        ("CRITICAL", "x", ["I18"]),
        ("WARNING", "the link was lost", []),
        ("DEBUG", "error", []),
        ("WARNING", "coroutine 'f' was never awaited", ["I18"]),
        ("INFO", "Task exception was never retrieved", ["I18"]),
    ],
)
def test_nothing_is_logged_as_an_error(
    tale: HistoryBuilder, level: str, text: str, broken: list[str]
) -> None:
    tale.logged(level, text)
    assert tale.broken() == broken


# --- I19 -----------------------------------------------------------------------------------------


def test_a_loss_is_signalled_once(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).stepped_down(L, "a", 1, "lost")
    tale.at(3).left(L, "a", 1, was_lost=True)
    tale.at(4).entered(L, "a", 2)
    tale.at(5).left(L, "a", 2)
    tale.at(5.1).stepped_down(L, "a", 2, "found as it was released")
    tale.check(BOUNDS)
    tale.at(6).stepped_down(L, "a", 2, "lost")
    assert tale.broken() == ["I19"]


def test_and_before_its_holder_enters_again(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).left(L, "a", 1)
    tale.at(3).entered(L, "a", 2)
    tale.at(4).stepped_down(L, "a", 1, "lost")
    tale.at(5).left(L, "a", 2)
    (wrong,) = tale.wrong()
    assert wrong.text == (
        "/l: a (token 2) entered before it was notified of the loss of its last hold"
    )


def test_nobody_enters_twice(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(1).entered("/m", "a", 1)
    tale.at(2).entered(L, "a", 2)
    tale.at(3).left(L, "a", 1)
    tale.at(3).left("/m", "a", 1)
    tale.at(4).left(L, "a", 2)
    assert tale.broken() == ["I1", "I19"]


@pytest.mark.parametrize("what", ["stepped_down", "left", "looked"])
def test_only_of_a_hold_that_began(tale: HistoryBuilder, what: str) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).left(L, "a", 1)
    how = {"held": False} if what == "looked" else {}
    getattr(tale, what)(L, "a", 2, **how)
    assert tale.broken() == ["I19"]


def test_only_who_waits_withdraws(tale: HistoryBuilder) -> None:
    tale.withdrew(L, "a")
    assert tale.broken() == ["I19"]


# --- situations ----------------------------------------------------------------------------------


_PHASES: dict[str, Callable[[HistoryBuilder], object]] = {
    "nowhere": lambda tale: tale.session("p", "connected", 5),
    "acquiring": lambda tale: tale.joined(L, "p/a"),
    "waiting": lambda tale: tale.node_created(path_of(1), 1, 5),
    "holding": lambda tale: tale.entered(L, "p/a", 1),
    "releasing": lambda tale: tale.left(L, "p/a", 1),
    "gone": lambda tale: tale.node_deleted(path_of(1), 2, 5),
}


def _suspend(tale: HistoryBuilder, then: str = "") -> None:
    tale.session("p", "suspended", 5)
    if then:
        tale.session("p", then, 5)


_BLOWS: dict[str, Callable[[HistoryBuilder], object]] = {
    "link lost": _suspend,
    "reconnected in the session": lambda tale: _suspend(tale, "connected"),
    "session expired": lambda tale: _suspend(tale, "expired"),
    "cancelled": lambda tale: tale.cancelled(L, "p/a"),
    "killed": lambda tale: tale.killed("p"),
    "stopped": lambda tale: tale.stopped("p"),
}

OF_A_PHASE = [name for name in SITUATIONS if name.rpartition(" while ")[2] in _PHASES]


@pytest.mark.parametrize("blow", _BLOWS)
@pytest.mark.parametrize("phase", _PHASES)
def test_situations_by_what_a_contender_was_doing(
    tale: HistoryBuilder, phase: str, blow: str
) -> None:
    for name, begin in _PHASES.items():
        begin(tale)
        if name == phase:
            break
    before = sometimes(tale.events)
    _BLOWS[blow](tale)
    gained = sometimes(tale.events) - before
    gained.pop(f"link lost while {phase}" if blow != "link lost" else "", None)
    here = phase not in ("nowhere", "gone")
    assert gained == ({f"{blow} while {phase}": 1} if here else {})


def test_those_are_all_situations_of_a_phase() -> None:
    stems = {name.rpartition(" while ")[0] for name in OF_A_PHASE}
    assert stems == set(_BLOWS)
    # The others are in the tests below.
    assert sorted(set(SITUATIONS) - set(OF_A_PHASE)) == [
        "deposed holder refused",
        "handed over after a loss",
        "handed over while something was broken",
        "handed over while there was no leader",
        "joined while something was broken",
        "leader changed while somebody held",
        "line moved while a waiter had no link",
        "resigned",
        "stepped down as the client was closed",
        "stepped down as the connection was lost",
        "stepped down as the servers refused to confirm the znode",
        "stepped down as the session expired",
        "stepped down as the znode was deleted",
        "stepped down by the clock",
        "timed out in the queue",
    ]
    assert len(set(SITUATIONS)) == len(SITUATIONS)


def test_ends_of_sessions_and_of_processes(tale: HistoryBuilder) -> None:
    tale.session("p", "connected", 5)
    tale.joined(L, "p/a")
    tale.session("p", "expired", 5)
    tale.session("p", "connected", 6)
    tale.node_created(path_of(1), 1, 6)
    tale.session("p", "suspended", 6)
    tale.session("p", "expired", 6)
    tale.session("p", "connected", 8)
    tale.session("p", "expired", 8)
    tale.session("p", "connected", 7)
    tale.node_created(path_of(2), 2, 7)
    tale.entered(L, "p/a", 2)
    tale.session("p", "expired", 7)
    tale.left(L, "p/a", 2, was_lost=True)
    tale.session("p", "expired", 7)
    tale.joined(L, "p/a")
    tale.killed("p")
    tale.killed("p")
    seen = sometimes(tale.events)
    assert seen == {
        "link lost while waiting": 1,
        "session expired while acquiring": 2,
        "session expired while waiting": 1,
        "session expired while holding": 1,
        "session expired while releasing": 1,
        "killed while acquiring": 1,
    }


@pytest.mark.parametrize(
    ("why", "name"),
    [
        (LossReason.EXPIRED.value, "stepped down as the session expired"),
        (LossReason.UNCONFIRMED.value, "stepped down by the clock"),
        (LossReason.DELETED.value, "stepped down as the znode was deleted"),
        (LossReason.CLOSED.value, "stepped down as the client was closed"),
        (RESIGNED, "resigned"),
    ],
)
def test_losses_and_who_comes_after_them(tale: HistoryBuilder, why: str, name: str) -> None:
    tale.entered(L, "a", 1)
    tale.stepped_down(L, "a", 1, why)
    tale.left(L, "a", 1, was_lost=why != RESIGNED)
    tale.turn("b", 2)
    tale.turn("c", 3)
    seen = sometimes(tale.events)
    assert seen[name] == 1
    assert seen["handed over after a loss"] == (0 if why == RESIGNED else 1)


def test_faults_and_leaders(tale: HistoryBuilder) -> None:
    tale.turn("z", 0)
    tale.fault_began("cut")
    tale.fault_began("kill")
    tale.joined(L, "a", wait=1)
    tale.fault_ended("cut")
    tale.entered(L, "a", 1)
    tale.leader_changed("")
    tale.leader_changed("s1")
    tale.left(L, "a", 1)
    tale.leader_changed("s2")
    tale.healed()
    tale.joined(L, "b")
    tale.fault_ended("kill")
    tale.withdrew(L, "b", "timeout")
    tale.leader_changed("")
    tale.entered(L, "b", 2)
    tale.acted(L, "a", 1, accepted=False)
    tale.wrote("a", "x", 1, accepted=False)
    tale.reached("something")
    assert sometimes(tale.events) == {
        "joined while something was broken": 1,
        "handed over while something was broken": 1,
        "leader changed while somebody held": 1,
        "timed out in the queue": 1,
        "handed over while there was no leader": 1,
        "deposed holder refused": 2,
        "something": 1,
    }


@pytest.mark.parametrize(("client", "count"), [("b", 1), ("a", 0)])
def test_the_line_moves_while_a_waiter_has_no_link(
    tale: HistoryBuilder, client: str, count: int
) -> None:
    for number, name in enumerate("ab", 1):
        tale.session(name, "connected", session_of(name))
        tale.waits(name, number)
    tale.holds("a", 1)
    tale.session(client, "suspended", session_of(client))
    tale.leaves("a", 1)
    tale.node_deleted("/elsewhere/x", 9, 9)
    tale.session(client, "connected", session_of(client))
    tale.gone("a", 1)
    assert sometimes(tale.events)["line moved while a waiter had no link"] == count


# --- together ------------------------------------------------------------------------------------


def test_there_is_a_check_for_each_invariant_that_histories_tell_of() -> None:
    numbers = [*range(1, 17), 18, 19, *range(21, 28)]
    assert list(INVARIANTS) == [*(f"I{number}" for number in numbers), "lock-set"]
    table = invariants.__doc__ or ""
    for name, check in INVARIANTS.items():
        assert re.search(rf"^\| {name} \| .*`{check.__name__}`", table, re.MULTILINE)
        assert (check.__doc__ or "").startswith(f"{name}: ") or name == "lock-set"
        assert getattr(invariants, check.__name__) is check


def test_violations_come_in_the_order_of_time_and_can_be_left_out(tale: HistoryBuilder) -> None:
    tale.at(5).logged("ERROR", "x")
    tale.at(2).leftover("tasks", 1)
    tale.at(9).joined(L, "a")
    assert [w.invariant for w in tale.wrong()] == ["I15", "I18", "I9"]
    assert [w.invariant for w in violations(tale.events, skip={"I18", "I9"})] == ["I15"]


def test_a_reading_can_be_used_again(tale: HistoryBuilder) -> None:
    tale.turn("a", 1)
    tale.joined(L, "a")
    reading = Reading(tale.events)
    assert Reading.of(reading) is reading
    assert violations(reading) == violations(reading) == violations(iter(tale.events))
    assert len(violations(reading)) == 1


@check_each("kind", KINDS.values())
def test_any_event_alone_can_be_read(kind: type[Event]) -> None:
    samples = {"str": "x", "int": 5, "float": 1.5, "float | None": 2.5, "bool": True, "Value": 3}
    fields = {n: samples[str(f.type)] for n, f in kind.__dataclass_fields__.items()}
    event = kind(**fields)
    assert len(violations([event])) <= 2
    assert sum(sometimes([event]).values()) <= 1
