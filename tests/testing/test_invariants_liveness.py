"""I9 to I11, I13 and I14: each with a history that breaks it, and the nearest that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testing.history_builder import BOUNDS, HistoryBuilder, L, path_of, session_of

from aiolead.errors import LossReason
from aiolead.testing.history import RESIGNED
from aiolead.testing.invariants import Bounds

GOING_ON = replace(BOUNDS, is_complete=False)


@pytest.fixture
def tale() -> HistoryBuilder:
    return HistoryBuilder()


def test_the_bound_of_progress() -> None:
    assert BOUNDS.progress == 4 + 1 + 1 + 1
    assert Bounds().progress == 10 + 5 + (2.5 + 1) + 1
    assert Bounds(session_timeout=4, election=2).progress == 4 + 2 + (1 + 0.4) + 2 + 1
    assert Bounds(session_timeout=4).body == 0.4
    assert Bounds(session_timeout=6).longest_harmless == 2
    assert Bounds(session_timeout=6, harmless=1).longest_harmless == 1


# --- I9: progress --------------------------------------------------------------------------------
# Progress is due within 7 s.


def test_a_waiter_that_was_never_served(tale: HistoryBuilder) -> None:
    tale.turn("a", 1)
    tale.joined(L, "b")
    (wrong,) = tale.wrong()
    assert wrong.text == "/l: b has waited since 3.0000"
    assert tale.broken(GOING_ON) == []
    tale.withdrew(L, "b")
    tale.check(BOUNDS)


def test_a_holder_that_lost_and_joined_again_must_be_served_again(tale: HistoryBuilder) -> None:
    tale.joined(L, "a")
    tale.entered(L, "a", 1)
    tale.left(L, "a", 1, was_lost=True)
    tale.at(3).joined(L, "a")
    (wrong,) = tale.wrong()
    assert wrong.text == "/l: a has waited since 3.0000"


def test_a_holder_that_never_left(tale: HistoryBuilder) -> None:
    tale.entered(L, "a", 1)
    (wrong,) = tale.wrong()
    assert wrong.text == "/l: a has held since 0.0000"
    tale.killed("a")
    tale.check(BOUNDS)


@pytest.mark.parametrize(("entered", "broken"), [(17.0, []), (17.1, ["I9"])])
def test_a_free_place_is_taken_soon(
    tale: HistoryBuilder, entered: float, broken: list[str]
) -> None:
    tale.at(0).joined(L, "b")
    tale.at(0).entered(L, "a", 1)
    tale.at(10).left(L, "a", 1)
    tale.at(entered).entered(L, "b", 2)
    tale.left(L, "b", 2)
    assert tale.broken() == broken
    if broken:
        assert str(tale.wrong()[0]).startswith("I9 at 17.0000: /l: a place was free from 10.0000")


@pytest.mark.parametrize(("entered", "broken"), [(57.0, []), (57.1, ["I9"])])
def test_soon_after_the_healing(tale: HistoryBuilder, entered: float, broken: list[str]) -> None:
    tale.at(0).fault_began("cut")
    tale.at(1).joined(L, "a")
    tale.at(50).healed()
    tale.at(entered).entered(L, "a", 2)
    tale.left(L, "a", 2)
    assert tale.broken() == broken


def test_it_is_not_due_while_something_is_broken(tale: HistoryBuilder) -> None:
    tale.at(0).fault_began("cut")
    tale.at(1).joined(L, "a")
    tale.at(50).entered(L, "a", 2)
    tale.left(L, "a", 2)
    tale.check(BOUNDS)
    again = HistoryBuilder()
    again.at(0).fault_began("cut")
    again.at(1).joined(L, "a")
    again.at(2).healed()
    again.at(3).fault_began("cut")
    again.at(50).entered(L, "a", 2)
    again.left(L, "a", 2)
    again.check(BOUNDS)
    again.healed()
    again.check(BOUNDS)


@pytest.mark.parametrize(("entered", "broken"), [(57.0, []), (57.1, ["I9"])])
def test_the_last_healing_counts(tale: HistoryBuilder, entered: float, broken: list[str]) -> None:
    tale.at(0).fault_began("cut")
    tale.at(1).joined(L, "a")
    tale.at(2).healed()
    tale.at(3).fault_began("cut")
    tale.at(50).healed()
    tale.at(entered).entered(L, "a", 2)
    tale.left(L, "a", 2)
    assert tale.broken() == broken


def test_nor_while_nobody_waits(tale: HistoryBuilder) -> None:
    tale.turn("a", 1)
    tale.at(50).turn("a", 2)
    tale.at(80).joined(L, "b")
    tale.at(86).withdrew(L, "b")
    tale.at(90).joined(L, "c")
    tale.at(96).withdrew(L, "c")
    tale.check(BOUNDS)


def test_whoever_comes_and_goes_meanwhile_does_not_prolong_it(tale: HistoryBuilder) -> None:
    tale.at(0).joined(L, "a")
    for second in range(1, 10):
        tale.at(second).joined(L, f"b{second}")
    for second in range(1, 10):
        tale.at(10 + second / 10).withdrew(L, f"b{second}")
    tale.at(12).entered(L, "a", 1)
    tale.left(L, "a", 1)
    assert tale.broken() == ["I9"]
    assert len(tale.wrong()) == 1


def test_each_turn_is_progress(tale: HistoryBuilder) -> None:
    for number in range(5):
        tale.at(0).joined(L, f"c{number}")
    for number in range(5):
        tale.at(6 * number + 6).entered(L, f"c{number}", number)
        tale.left(L, f"c{number}", number)
    tale.check(BOUNDS)


@pytest.mark.parametrize("what", ["killed", "stopped", "continued"])
@pytest.mark.parametrize(("who", "broken"), [("b", []), ("c", ["I9"])])
def test_who_is_killed_or_stopped_in_line_may_be_in_the_way_for_a_while(
    tale: HistoryBuilder, what: str, who: str, broken: list[str]
) -> None:
    tale.at(0).joined(L, "b")
    tale.at(1).joined(L, "a")
    tale.at(5).stopped("b")
    getattr(tale.at(6), what)(who)
    tale.at(12.9).entered(L, "a", 2)
    tale.left(L, "a", 2)
    tale.withdrew(L, "b")
    assert tale.broken() == broken or (who, what) == ("b", "killed")


def test_a_resigned_place_is_free_and_so_is_a_revoked_one(tale: HistoryBuilder) -> None:
    tale.at(0).joined(L, "b")
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, RESIGNED)
    tale.at(8.1).entered(L, "b", 2)
    tale.left(L, "b", 2)
    tale.left(L, "a", 1)
    assert tale.broken() == ["I9"]


def test_it_has_not_ended_yet(tale: HistoryBuilder) -> None:
    tale.at(0).joined(L, "a")
    tale.at(7).reached("the end")
    assert tale.broken(GOING_ON) == []
    tale.at(7.1).reached("the end")
    assert tale.broken(GOING_ON) == ["I9"]


def test_with_several_places_each_is_taken(tale: HistoryBuilder) -> None:
    bounds = replace(GOING_ON, places=2)
    tale.at(0).entered(L, "a", 1)
    tale.at(0).joined(L, "b")
    tale.at(8).reached("the end")
    assert tale.broken(bounds) == ["I9"]
    assert tale.broken(GOING_ON) == []


def test_where_readers_share_a_line_is_free_when_nobody_holds(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1, mode="read")
    tale.at(0).joined(L, "b")
    tale.at(20).left(L, "a", 1)
    tale.at(27).reached("the end")
    assert tale.broken(replace(GOING_ON, places=2)) == []
    tale.at(27.1).reached("the end")
    assert tale.broken(replace(GOING_ON, places=2)) == ["I9"]


# --- I10: first come, first served ---------------------------------------------------------------


def test_they_enter_in_the_order_of_their_znodes(tale: HistoryBuilder) -> None:
    for number, name in enumerate("abc", 1):
        tale.at(number).waits(name, number)
    tale.at(4).holds("a", 1)
    tale.at(5).leaves("a", 1)
    tale.at(5).gone("b", 2)
    tale.withdrew(L, "b", "timeout")
    tale.at(6).holds("c", 3)
    tale.at(7).leaves("c", 3)
    tale.check(BOUNDS)


def test_and_not_in_another(tale: HistoryBuilder) -> None:
    for number, name in enumerate("abc", 1):
        tale.at(number).waits(name, number)
    for number, name in ((3, "c"), (1, "a"), (2, "b")):
        tale.after(1).holds(name, number)
        tale.after(1).leaves(name, number)
    wrong = [w for w in tale.wrong() if w.invariant == "I10"]
    assert [w.text for w in wrong] == [
        "/l: c (token 3) entered before a (token 1), whose znode is older",
        "/l: c (token 3) entered before b (token 2), whose znode is older",
    ]
    assert "I10" not in tale.broken(replace(BOUNDS, places=2))


@pytest.mark.parametrize(("revoked", "broken"), [(False, ["I10", "I3"]), (True, [])])
def test_who_was_not_told_that_his_place_was_taken_away_may_be_late(
    tale: HistoryBuilder, *, revoked: bool, broken: list[str]
) -> None:
    for number, name in ((1, "a"), (2, "b")):
        tale.at(number).waits(name, number)
    tale.at(3)
    if revoked:
        tale.revoked(L, "a")
        tale.gone("a", 1)
    tale.at(4).holds("b", 2)
    tale.leaves("b", 2)
    tale.at(4.05).entered(L, "a", 1)
    tale.at(4.1).left(L, "a", 1, was_lost=True)
    if not revoked:
        tale.gone("a", 1)
    assert [name for name in tale.broken() if name in ("I3", "I10")] == broken


def test_readers_pass_readers(tale: HistoryBuilder) -> None:
    for number, name in enumerate("ab", 1):
        tale.at(number).waits(name, number)
    for number, name in ((2, "b"), (1, "a")):
        tale.after(1).holds(name, number, mode="read")
        tale.after(1).leaves(name, number)
    tale.check(BOUNDS)


# --- I11: bounded calls --------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "broken"), [(3.05, []), (3.2, ["I11"])])
def test_a_call_ends_within_its_limit(
    tale: HistoryBuilder, seconds: float, broken: list[str]
) -> None:
    tale.at(1).began("a", "release", within=3)
    tale.began("a", "get", within=99)
    tale.began("b", "release")
    tale.after(seconds).ended("a", "release", "ConnectionLossError")
    tale.ended("a", "get")
    assert tale.broken() == broken
    if broken:
        (wrong,) = tale.wrong()
        assert wrong.text == "release of a ended 3.2000 s after it began, not 3"


def test_one_that_has_not_ended_is_late_as_well(tale: HistoryBuilder) -> None:
    tale.at(1).began("a", "close", within=3)
    tale.at(4).reached("the end")
    assert tale.broken() == []
    tale.at(5).reached("the end")
    assert tale.broken() == ["I11"]


def test_the_second_call_of_a_name_counts_for_itself(tale: HistoryBuilder) -> None:
    tale.at(1).began("a", "get", within=3)
    tale.at(2).ended("a", "get")
    tale.at(9).began("a", "get", within=3)
    tale.at(10).ended("a", "get")
    tale.at(99).ended("a", "unheard of")
    tale.check(BOUNDS)


@pytest.mark.parametrize(("name", "broken"), [("host", []), ("other", ["I11"])])
def test_a_killed_process_ends_its_calls(
    tale: HistoryBuilder, name: str, broken: list[str]
) -> None:
    tale.at(1).began("host/a", "get", within=3)
    tale.at(2).killed(name)
    tale.at(9).reached("the end")
    assert tale.broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(8.0, []), (8.2, ["I11"])])
def test_a_stopped_process_has_longer(tale: HistoryBuilder, end: float, broken: list[str]) -> None:
    tale.at(1).began("host/a", "get", within=3)
    tale.at(2).stopped("host")
    tale.at(6).continued("host")
    tale.at(end).ended("host/a", "get")
    assert tale.broken() == broken


@pytest.mark.parametrize(("wait", "end"), [(3.0, 4.0), (0.0, 5.0)])
@pytest.mark.parametrize("outcome", ["withdrew", "entered", "neither"])
def test_waiting_has_a_limit(tale: HistoryBuilder, wait: float, end: float, outcome: str) -> None:
    def ends(at: float) -> HistoryBuilder:
        tale = HistoryBuilder()
        tale.at(1).joined(L, "a", wait=wait)
        tale.at(at)
        if outcome == "withdrew":
            tale.withdrew(L, "a", "timeout")
            tale.at(50).reached("the end")
        elif outcome == "entered":
            tale.entered(L, "a", 1)
            tale.at(50).left(L, "a", 1)
        else:
            tale.reached("the end")
        return tale

    assert "I11" not in ends(end + 0.05).broken()
    assert "I11" in ends(end + 0.2).broken()


# --- I13: no false alarm -------------------------------------------------------------------------
# A third of the session timeout is 1.33 s; faults less than 2 s apart count as one.


def _lost_at(tale: HistoryBuilder, at: float) -> HistoryBuilder:
    tale.at(at - 0.5).entered(L, "a", 1)
    tale.at(at).stepped_down(L, "a", 1, "expired")
    tale.left(L, "a", 1, was_lost=True)
    tale.at(100).healed()
    return tale


def test_nothing_is_lost_while_nothing_is_broken(tale: HistoryBuilder) -> None:
    _lost_at(tale, 10)
    (wrong,) = tale.wrong()
    text = "/l: a (token 1) lost its hold: expired, and nothing was broken for long"
    assert (wrong.invariant, wrong.text, wrong.at) == ("I13", text, 10)


def test_sessions_neither(tale: HistoryBuilder) -> None:
    tale.at(1).session("a", "connected", 5)
    tale.at(2).session("a", "suspended", 5)
    tale.at(2).healed()
    tale.check(BOUNDS)
    tale.at(3).session("a", "expired", 5)
    assert tale.broken() == ["I13"]


def test_a_loss_that_was_not_signalled_counts_as_well(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).left(L, "a", 1, was_lost=True)
    assert tale.broken() == []  # Nobody tells of faults.
    tale.healed()
    assert tale.broken() == ["I13"]


def test_a_hold_that_was_given_up_or_taken_was_not_lost(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).stepped_down(L, "a", 1, RESIGNED)
    tale.at(2).left(L, "a", 1)
    tale.at(3).entered(L, "b", 2)
    tale.at(4).revoked(L, "b")
    tale.at(4).left(L, "b", 2, was_lost=True)
    tale.at(5).healed()
    tale.check(BOUNDS)


@pytest.mark.parametrize(("seconds", "broken"), [(1.3, ["I13"]), (1.4, [])])
def test_a_long_fault_excuses_it(tale: HistoryBuilder, seconds: float, broken: list[str]) -> None:
    tale.at(8).fault_began("cut", "b")
    tale.fault_began("cut", "a")
    tale.after(0.1).fault_ended("cut", "b")
    tale.at(8 + seconds).fault_ended("cut", "a")
    assert _lost_at(tale, 10).broken() == broken


def test_the_end_of_another_fault_does_not_end_it(tale: HistoryBuilder) -> None:
    tale.at(8).fault_began("cut", "a")
    tale.after(0.1).fault_ended("cut", "b")
    tale.fault_ended("stall", "a")
    tale.at(9.4).fault_ended("cut", "a")
    assert _lost_at(tale, 10).broken() == []


def test_short_ones_close_together_do_so_too(tale: HistoryBuilder) -> None:
    for at in (6, 8.9):
        tale.at(at).fault_began("cut")
        tale.at(at + 1).fault_ended("cut")
    assert _lost_at(tale, 10).broken() == []
    apart = HistoryBuilder()
    for at in (5.9, 9):
        apart.at(at).fault_began("cut")
        apart.at(at + 1).fault_ended("cut")
    assert _lost_at(apart, 10).broken() == ["I13"]


def test_one_that_has_not_ended_ends_at_the_healing(tale: HistoryBuilder) -> None:
    tale.at(9.9).fault_began("cut")
    assert _lost_at(tale, 10).broken() == []
    short = HistoryBuilder()
    short.at(5).fault_began("cut")
    short.at(6).healed()
    assert _lost_at(short, 10).broken() == ["I13"]


@pytest.mark.parametrize(("end", "broken"), [(13.1, []), (12.9, ["I13"])])
def test_but_not_for_ever(tale: HistoryBuilder, end: float, broken: list[str]) -> None:
    tale.at(10).fault_began("cut")
    tale.at(end).fault_ended("cut")
    assert _lost_at(tale, 20).broken() == broken


def test_a_long_one_is_found_behind_a_short_one(tale: HistoryBuilder) -> None:
    tale.at(1).fault_began("cut")
    tale.at(15).fault_ended("cut")
    tale.at(19).fault_began("cut")
    tale.at(19.1).fault_ended("cut")
    assert _lost_at(tale, 20).broken() == []


@pytest.mark.parametrize(("severe", "broken"), [(True, []), (False, ["I13"])])
def test_a_severe_fault_excuses_it_however_short(
    tale: HistoryBuilder, severe: bool, broken: list[str]
) -> None:
    tale.at(9).fault_began("kill session", severe=severe)
    tale.at(9).fault_ended("kill session")
    assert _lost_at(tale, 10).broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(0.3, []), (0.2, ["I13"])])
def test_holds_may_be_more_delicate_than_sessions(
    tale: HistoryBuilder, seconds: float, broken: list[str]
) -> None:
    bounds = replace(BOUNDS, harmless_to_holds=0.25)
    tale.at(9).fault_began("cut")
    tale.after(seconds).fault_ended("cut")
    assert _lost_at(tale, 10).broken(bounds) == broken
    tale.at(10).session("a", "expired", 5)
    assert "I13" in tale.broken(bounds)


def test_or_not_looked_at(tale: HistoryBuilder) -> None:
    bounds = replace(BOUNDS, harmless_to_holds=-1.0)
    tale.at(9).fault_began("cut")
    tale.at(9).fault_ended("cut")
    assert _lost_at(tale, 10).broken(bounds) == []


def test_who_closes_its_client_has_lost_nothing_to_a_fault(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).stepped_down(L, "a", 1, LossReason.CLOSED.value)
    tale.left(L, "a", 1, was_lost=True)
    tale.at(3).healed()
    tale.check(BOUNDS)


@pytest.mark.parametrize(("end", "broken"), [(7.0, ["I13"]), (8.0, [])])
def test_a_time_without_a_leader_is_a_fault(
    tale: HistoryBuilder, end: float, broken: list[str]
) -> None:
    tale.at(1).leader_changed("s1")
    tale.at(6).leader_changed("")
    tale.at(6.1).leader_changed("")
    tale.at(end).leader_changed("s2")
    assert _lost_at(tale, 10).broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(7.0, ["I13"]), (8.0, [])])
def test_a_stop_is_one(tale: HistoryBuilder, end: float, broken: list[str]) -> None:
    tale.at(6).stopped("a")
    tale.at(end).continued("a")
    assert _lost_at(tale, 10).broken() == broken


# --- I14: no herd --------------------------------------------------------------------------------


def _departure(tale: HistoryBuilder, *woken: str) -> None:
    for number, name in enumerate("abcd", 1):
        tale.at(number).waits(name, number)
        tale.notified(path_of(number), session_of("d"))  # of something else, before
    tale.at(5).holds("a", 1)
    tale.at(6).leaves("a", 1)
    for name in woken:
        tale.notified(path_of(1), session_of(name))
        tale.notified(path_of(1), session_of(name))
        tale.notified("/elsewhere", session_of(name))


def test_a_departure_wakes_few(tale: HistoryBuilder) -> None:
    _departure(tale, "a", "b", "c")
    tale.notified("/elsewhere", session_of("d"))
    assert tale.broken(GOING_ON) == []
    assert tale.broken(replace(GOING_ON, woken=1)) == ["I14"]
    herd = HistoryBuilder()
    _departure(herd, "b", "c", "d")
    (wrong,) = herd.wrong(GOING_ON)
    assert wrong.text == "/l: the deletion of /app/l/lock-0000000001 woke 3 waiters"
    assert herd.broken(replace(GOING_ON, places=3)) == []


@pytest.mark.parametrize("which", ["has left", "looks on"])
def test_who_does_not_wait_is_no_part_of_a_herd(tale: HistoryBuilder, which: str) -> None:
    for number, name in enumerate("abcd", 1):
        tale.at(number)
        if name == "d" and which == "looks on":
            continue
        tale.waits(name, number)
    tale.at(5).holds("a", 1)
    if which == "has left":
        tale.gone("d", 4)
        tale.withdrew(L, "d", "cancelled")
    tale.at(6).leaves("a", 1)
    for name in "bcd":
        tale.notified(path_of(1), session_of(name))
    assert tale.broken(GOING_ON) == []


def test_two_znodes_of_one_name_wake_different_ones(tale: HistoryBuilder) -> None:
    """The path was deleted, and made anew."""
    for czxid, woken in ((1, "bc"), (11, "bd")):
        for number, name in enumerate("abcd"):
            tale.after(1).joined(L, name)
            tale.node_created(path_of(number), czxid + number, session_of(name))
        tale.after(1).entered(L, "a", czxid, path=path_of(0), session_id=session_of("a"))
        for number, name in enumerate("abcd"):
            tale.node_deleted(path_of(number), czxid + 5 + number, session_of(name), 0)
        for name in woken:
            tale.notified(path_of(0), session_of(name))
        tale.after(1).left(L, "a", czxid, was_lost=True)
        for name in "bcd":
            tale.withdrew(L, name, "error")
    assert "I14" not in tale.broken(GOING_ON)
    for name in "bcd":
        tale.notified(path_of(0), session_of(name))
    assert "I14" in tale.broken(GOING_ON)
