"""I5 to I8 and I12: each with a history that breaks it, and the nearest that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testing.history_builder import BOUNDS, PARENT, HistoryBuilder, L, path_of, session_of

from aiolead.testing.history import RESIGNED

OLD, NEW = 0x1, 0x2


@pytest.fixture
def tale() -> HistoryBuilder:
    return HistoryBuilder()


# --- I5: no zombie -------------------------------------------------------------------------------


def _another_session(tale: HistoryBuilder, *, session: int = NEW, client: str = "host") -> None:
    """A holder's client has another session, at 5 s."""
    tale.at(1).session("host", "connected", OLD)
    tale.at(2).entered(L, "host/a", 1, session_id=OLD)
    tale.at(5).session("host", "expired", OLD)
    tale.at(5).session(client, "connected", session)


def test_a_hold_of_the_old_session_has_ended_before_the_new_one(tale: HistoryBuilder) -> None:
    tale.at(1).session("host", "connected", OLD)
    tale.at(2).entered(L, "host/a", 1, session_id=OLD)
    tale.at(4).left(L, "host/a", 1, was_lost=True)
    tale.at(5).session("host", "expired", OLD)
    tale.at(5).session("host", "connected", NEW)
    tale.check(BOUNDS)


def test_or_has_at_least_been_told(tale: HistoryBuilder) -> None:
    _another_session(tale)
    tale.at(5.05).stepped_down(L, "host/a", 1)
    tale.at(7).left(L, "host/a", 1, was_lost=True)
    tale.check(BOUNDS)


def test_and_not_much_later(tale: HistoryBuilder) -> None:
    _another_session(tale)
    tale.at(5.2).stepped_down(L, "host/a", 1)
    tale.at(5.3).left(L, "host/a", 1, was_lost=True)
    assert tale.broken() == ["I5"]


@pytest.mark.parametrize(("left", "broken"), [(5.5, []), (5.7, ["I5"])])
def test_where_that_is_not_reported_it_has_its_grace_period_time_to_leave(
    tale: HistoryBuilder, left: float, broken: list[str]
) -> None:
    _another_session(tale)
    tale.at(left).left(L, "host/a", 1, was_lost=True)
    assert tale.broken() == broken


def test_it_does_not_count_as_held_any_more(tale: HistoryBuilder) -> None:
    _another_session(tale)
    tale.at(5).looked(L, "host/a", 1, held=False)
    tale.at(5.3).left(L, "host/a", 1, was_lost=True)
    tale.check(BOUNDS)
    zombie = HistoryBuilder()
    _another_session(zombie)
    zombie.at(5).looked(L, "host/a", 1, held=True)
    zombie.at(5.3).left(L, "host/a", 1, was_lost=True)
    assert zombie.broken() == ["I5"]


def test_it_counts_from_the_first_of_several_sessions(tale: HistoryBuilder) -> None:
    _another_session(tale)
    tale.at(5.5).session("host", "expired", NEW)
    tale.at(5.5).session("host", "connected", 0x3)
    tale.at(5.5).stepped_down(L, "host/a", 1)
    tale.at(5.5).left(L, "host/a", 1, was_lost=True)
    assert tale.broken() == ["I5"]


def test_a_hold_of_which_the_session_is_not_known_is_left_out(tale: HistoryBuilder) -> None:
    tale.at(2).entered(L, "host/a", 1)
    tale.at(5).session("host", "connected", NEW)
    tale.at(9).left(L, "host/a", 1)
    tale.check(BOUNDS)


@pytest.mark.parametrize(("session", "client"), [(OLD, "host"), (NEW, "other"), (NEW, "host/ab")])
def test_the_same_session_and_those_of_others_do_not_matter(
    tale: HistoryBuilder, session: int, client: str
) -> None:
    _another_session(tale, session=session, client=client)
    tale.at(9).looked(L, "host/a", 1, held=True)
    tale.at(9).left(L, "host/a", 1)
    assert "I5" not in tale.broken()


# --- I6: exactly once ----------------------------------------------------------------------------
# Progress is due within 7 s.


def _turn_with(tale: HistoryBuilder, *, extra: bool = False) -> None:
    """A turn that ends at 3 s; with a second znode or without."""
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).waits("a", 1)
    if extra:
        tale.at(1).node_created(path_of(2), 2, session_of("a"))
    tale.at(2).holds("a", 1)
    tale.at(3).leaves("a", 1)


@pytest.mark.parametrize(("gone", "broken"), [(10.0, []), (10.1, ["I6"])])
def test_a_znode_that_outlives_its_turn_is_gone_soon(
    tale: HistoryBuilder, gone: float, broken: list[str]
) -> None:
    _turn_with(tale, extra=True)
    tale.at(gone).gone("a", 2, by=session_of("a"))
    assert tale.broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(9.9, []), (10.1, ["I6"])])
def test_or_else_it_was_forgotten(tale: HistoryBuilder, end: float, broken: list[str]) -> None:
    _turn_with(tale, extra=True)
    tale.at(end).leftover("znodes", 0)
    assert tale.broken() == broken


@pytest.mark.parametrize(("gone", "broken"), [(27.0, []), (27.1, ["I6"])])
def test_the_time_counts_from_the_healing(
    tale: HistoryBuilder, gone: float, broken: list[str]
) -> None:
    tale.fault_began("cut")
    _turn_with(tale, extra=True)
    tale.at(20).healed()
    tale.at(gone).gone("a", 2, by=session_of("a"))
    assert tale.broken() == broken


def test_while_something_is_broken_nothing_is_due(tale: HistoryBuilder) -> None:
    tale.fault_began("cut")
    _turn_with(tale, extra=True)
    tale.at(90).gone("a", 2, by=session_of("a"))
    tale.check(BOUNDS)


def test_a_znode_of_the_next_turn_is_none_of_the_last(tale: HistoryBuilder) -> None:
    _turn_with(tale)
    tale.at(4).waits("a", 3)
    tale.at(5).holds("a", 3)
    tale.at(50).leaves("a", 3)
    tale.check(BOUNDS)


@pytest.mark.parametrize(("gone", "broken"), [(8.0, []), (8.1, ["I6"])])
def test_a_turn_has_one_znode_at_a_time(
    tale: HistoryBuilder, gone: float, broken: list[str]
) -> None:
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).waits("a", 1)
    tale.at(1).node_created(path_of(2), 2, session_of("a"))
    tale.at(2).holds("a", 1)
    tale.at(gone).gone("a", 2, by=session_of("a"))
    tale.at(50).leaves("a", 1)
    assert tale.broken() == broken


def test_also_counted_from_the_healing(tale: HistoryBuilder) -> None:
    tale.fault_began("cut")
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).waits("a", 1)
    tale.at(1).node_created(path_of(2), 2, session_of("a"))
    tale.at(2).holds("a", 1)
    tale.at(20).healed()
    tale.at(27).gone("a", 2, by=session_of("a"))
    tale.at(50).leaves("a", 1)
    tale.check(BOUNDS)


def test_of_who_shares_a_session_it_cannot_be_told_whose_a_znode_is(tale: HistoryBuilder) -> None:
    tale.at(0).session("host", "connected", 5)
    for number, name in enumerate(("host/a", "host/b"), 1):
        tale.at(0).joined(L, name)
        tale.node_created(path_of(number), number, 5)
    tale.at(1).entered(L, "host/a", 1, path=path_of(1), session_id=5)
    tale.at(20).left(L, "host/a", 1)
    tale.node_deleted(path_of(1), 9, 5, 5)
    tale.at(21).entered(L, "host/b", 2, path=path_of(2), session_id=5)
    tale.at(40).left(L, "host/b", 2)
    tale.node_deleted(path_of(2), 9, 5, 5)
    tale.check(BOUNDS)


def test_nor_where_somebody_enters_who_has_not_joined(tale: HistoryBuilder) -> None:
    tale.at(0).session("a", "connected", session_of("a"))
    tale.node_created(path_of(1), 1, session_of("a"))
    tale.at(1).holds("a", 1)
    tale.at(2).left(L, "a", 1)
    tale.at(50).gone("a", 1)
    tale.check(BOUNDS)


def test_but_another_session_has_another(tale: HistoryBuilder) -> None:
    tale.at(0).joined(L, "z")
    tale.at(0).entered(L, "z", 0)
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).waits("a", 1)
    tale.at(1).session("a", "expired", session_of("a"))
    tale.at(1).session("a", "connected", NEW)
    tale.at(1).node_created(path_of(2), 2, NEW)
    tale.at(9).gone("a", 1)
    tale.at(9).left(L, "z", 0)
    tale.at(9).entered(L, "a", 2, path=path_of(2), session_id=NEW)
    tale.at(9).left(L, "a", 2)
    tale.node_deleted(path_of(2), 9, NEW, NEW)
    tale.check(BOUNDS)


def test_znodes_elsewhere_and_of_others_are_not_looked_at(tale: HistoryBuilder) -> None:
    tale.node_created("/other/x", 90, session_of("a"))
    tale.node_created(f"{PARENT}/plain", 91)
    tale.node_created(path_of(92), 92, 0x55)
    tale.node_deleted(path_of(92), 93, 0x55)
    _turn_with(tale)
    tale.at(50).leftover("znodes", 0)
    tale.check(BOUNDS)


# --- I12: who gives up leaves nothing behind -----------------------------------------------------


@pytest.mark.parametrize(
    ("why", "name"),
    [("cancelled", "I12"), ("timeout", "I12"), ("", "I12"), ("error", "I6")],
)
def test_who_gives_up_leaves_no_znode(tale: HistoryBuilder, why: str, name: str) -> None:
    tale.at(0).session("b", "connected", session_of("b"))
    _turn_with(tale)
    tale.at(4).waits("b", 4)
    tale.at(5).withdrew(L, "b", why)
    tale.at(12).gone("b", 4, by=session_of("b"))
    tale.check(BOUNDS)
    late = HistoryBuilder()
    late.events = tale.events[:-1]
    late.at(12.1).gone("b", 4, by=session_of("b"))
    (wrong,) = late.wrong()
    assert wrong.invariant == name
    assert "and its znode is still there: /app/l/lock-0000000004" in wrong.text


@pytest.mark.parametrize(("end", "broken"), [(5.1, []), (5.2, ["I12"])])
def test_who_is_cancelled_in_line_ends_at_once(
    tale: HistoryBuilder, end: float, broken: list[str]
) -> None:
    tale.at(4).joined(L, "a")
    tale.at(5).cancelled(L, "a")
    tale.at(end).withdrew(L, "a", "cancelled")
    assert tale.broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(5.6, []), (5.7, ["I12"])])
def test_and_who_holds_in_its_grace_period_time(
    tale: HistoryBuilder, end: float, broken: list[str]
) -> None:
    tale.at(4).entered(L, "a", 1)
    tale.at(5).cancelled(L, "a")
    tale.at(5.4).cancelled(L, "a")
    tale.at(end).left(L, "a", 1)
    assert tale.broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(6.3, []), (6.4, ["I12"])])
def test_who_takes_turn_after_turn_may_still_release_the_one_before(
    tale: HistoryBuilder, end: float, broken: list[str]
) -> None:
    tale.at(4).entered(L, "a", 1)
    tale.at(4.9).left(L, "a", 1)
    tale.at(4.9).joined(L, "a")
    tale.at(5).cancelled(L, "a")
    tale.at(end).withdrew(L, "a", "cancelled")
    assert tale.broken() == broken


@pytest.mark.parametrize(("end", "broken"), [(6.9, []), (7.0, ["I12"])])
def test_who_resigns_may_wait_for_the_servers_besides(
    tale: HistoryBuilder, end: float, broken: list[str]
) -> None:
    tale.at(4).entered(L, "a", 1)
    tale.at(5).cancelled(L, "a")
    tale.at(5).stepped_down(L, "a", 1, RESIGNED)
    tale.at(end).left(L, "a", 1)
    assert tale.broken() == broken


def test_unless_its_process_does_not_run_or_its_body_does_not_heed_it(tale: HistoryBuilder) -> None:
    tale.at(4).entered(L, "a", 1)
    tale.at(5).cancelled(L, "a")
    tale.at(5.1).stopped("a")
    tale.at(9).continued("a")
    tale.at(9.4).left(L, "a", 1)
    tale.at(10).entered(L, "a", 2, stubborn=True)
    tale.at(11).cancelled(L, "a")
    tale.at(20).left(L, "a", 2)
    tale.check(BOUNDS)


def test_who_never_ends_is_late_too(tale: HistoryBuilder) -> None:
    tale.at(4).joined(L, "a")
    tale.at(5).cancelled(L, "a")
    assert tale.broken(replace(BOUNDS, is_complete=False)) == []
    tale.at(6).reached("the end")
    assert tale.broken(replace(BOUNDS, is_complete=False)) == ["I12"]


def test_the_znode_of_who_was_cancelled_as_it_held_is_its_affair_too(tale: HistoryBuilder) -> None:
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).cancelled(L, "a")
    tale.at(2).left(L, "a", 1)
    tale.at(9.1).gone("a", 1)
    assert tale.broken() == ["I12"]


# --- I21: a released place is free ---------------------------------------------------------------

IN_TIME = replace(BOUNDS, release=4.0)


def _released(end: float, *, tale: HistoryBuilder | None = None) -> HistoryBuilder:
    """A holder leaves at 5 s, and its znode goes at `end`."""
    tale = HistoryBuilder() if tale is None else tale
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(1).waits("a", 1)
    tale.at(2).holds("a", 1)
    tale.at(5).left(L, "a", 1)
    tale.at(end).gone("a", 1, by=session_of("a"))
    return tale


def test_the_znode_of_who_has_left_is_gone_within_the_time_for_that() -> None:
    _released(9.0).check(IN_TIME)
    late = _released(9.2)
    late.check(BOUNDS)
    (wrong,) = late.wrong(IN_TIME)
    assert wrong.invariant == "I21"
    assert "a (token 1) left, and /app/l/lock-0000000001 stayed for 4.2000 s" in wrong.text


def test_also_where_it_goes_only_as_the_session_ends() -> None:
    tale = HistoryBuilder()
    _released(11.0, tale=tale)
    tale.at(11.0).session_over(session_of("a"), "expired")
    assert tale.broken(IN_TIME) == ["I21"]


def test_also_of_who_gave_up_waiting() -> None:
    tale = HistoryBuilder()
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(0).session("b", "connected", session_of("b"))
    tale.at(0.5).waits("b", 1)
    tale.at(1).holds("b", 1)
    tale.at(2).waits("a", 2)
    tale.at(3).withdrew(L, "a", "timeout")
    tale.at(4).leaves("b", 1)
    tale.at(7.5).gone("a", 2, by=session_of("a"))
    assert tale.broken(IN_TIME) == ["I21"]


@pytest.mark.parametrize("blow", ["killed", "expired", "closed"])
def test_but_for_a_client_that_can_delete_nothing_any_more(blow: str) -> None:
    tale = HistoryBuilder()
    tale.at(0).session("a", "connected", session_of("a"))
    tale.at(1).waits("a", 1)
    tale.at(2).holds("a", 1)
    tale.at(5).left(L, "a", 1)
    if blow == "killed":
        tale.at(6).killed("a")
    else:
        tale.at(6).session("a", blow, session_of("a"))
    tale.at(11).gone("a", 1)
    tale.check(IN_TIME)


@pytest.mark.parametrize("why", ["a fault", "an election"])
def test_it_counts_from_when_all_was_well(why: str) -> None:
    tale = HistoryBuilder()
    if why == "a fault":
        tale.at(0).fault_began("isolated", severe=True)
        tale.at(6).healed()
    else:
        tale.at(0).leader_changed("1", 1)
        tale.at(6).leader_changed("2", 2)
    events = tale.events
    for end, broken in ((10.0, []), (10.2, ["I21"])):
        told = _released(end)
        told.events = sorted([*events, *told.events], key=lambda event: event.at)
        assert told.broken(IN_TIME) == broken


# --- I7: session continuity ----------------------------------------------------------------------


def test_another_session_after_the_old_one_expired(tale: HistoryBuilder) -> None:
    for state, session_id in [
        ("connecting", 0),
        ("connected", OLD),
        ("suspended", OLD),
        ("connected", OLD),
        ("suspended", OLD),
        ("expired", OLD),
        ("connecting", 0),
        ("connected", NEW),
        ("closed", NEW),
    ]:
        tale.session("a", state, session_id)
    tale.session("b", "connected", 7)
    tale.check(BOUNDS)


def test_and_not_before_each_listener_was_told(tale: HistoryBuilder) -> None:
    for listener in ("a", "b"):
        tale.session(listener, "connected", OLD)
    tale.session("a", "expired", OLD)
    for listener in ("a", "b"):
        tale.session(listener, "connected", NEW)
    (wrong,) = tale.wrong()
    assert wrong.text == "b: the session 0x1 became 0x2 without expiring"


def test_an_expired_session_does_not_come_back(tale: HistoryBuilder) -> None:
    tale.session("a", "connected", OLD)
    tale.session("a", "expired", OLD)
    tale.session("a", "connected", OLD)
    assert tale.broken() == ["I7"]


# --- I8: monotonic reads -------------------------------------------------------------------------


def test_reads_do_not_go_back(tale: HistoryBuilder) -> None:
    tale.read("a", "/x", "old", zxid=5)
    tale.read("a", "/x", "new", zxid=6)
    tale.read("a", "/x", "new", zxid=6)
    tale.read("b", "/x", "old", zxid=5)
    tale.read("a", "/y", "", zxid=1)
    tale.read("a", "/x", "unknown")
    tale.check(BOUNDS)
    tale.read("a", "/x", "old", zxid=5)
    (wrong,) = tale.wrong()
    assert str(wrong) == "I8 at 0.0000: /x: a read zxid 5 after 6"
    tale.read("a", "/x", "old", zxid=5)
    assert len(tale.wrong()) == 2


# --- I22: a guardian closes the session of the dead ----------------------------------------------


def _crash(tale: HistoryBuilder, *, closed: float, died: float) -> None:
    """A process works until 3 s; its death is reported, and its guardian closes its session."""
    tale.at(1).session("host", "connected", OLD)
    tale.at(2).entered(L, "host/a", 1, session_id=OLD)
    tale.at(3).lived("host")
    for at, what in sorted([(closed, "closed"), (died, "died")]):
        if what == "closed":
            tale.at(at).closed_by_guardian("host", OLD)
        else:
            tale.at(at).killed("host")


@pytest.mark.parametrize(("closed", "died"), [(3.2, 3.1), (3.1, 3.2)])
def test_a_guardian_closes_the_session_of_the_dead(
    tale: HistoryBuilder, closed: float, died: float
) -> None:
    """The death is sometimes reported after its guardian has learnt of it."""
    _crash(tale, closed=closed, died=died)
    tale.at(5).lived("host")  # another process of that name
    tale.check(BOUNDS)


def test_a_thread_runs_after_that(tale: HistoryBuilder) -> None:
    _crash(tale, closed=2.9, died=3.2)
    (wrong,) = [each for each in tale.wrong() if each.invariant == "I22"]
    assert wrong.text == "host ran 0.1000 s after its guardian had closed its session"


def test_a_contender_in_it_runs_after_that(tale: HistoryBuilder) -> None:
    tale.at(1).session("host", "connected", OLD)
    tale.at(2).closed_by_guardian("host", OLD)
    tale.at(3).acted(L, "host/a", 1)
    tale.at(4).killed("host")
    assert "I22" in tale.broken()


def test_the_owner_never_died(tale: HistoryBuilder) -> None:
    tale.at(1).session("host", "connected", OLD)
    tale.at(2).stopped("host")
    tale.at(3).closed_by_guardian("host", OLD)
    assert tale.broken() == ["I22"]


def test_an_earlier_process_of_that_name_died(tale: HistoryBuilder) -> None:
    tale.at(1).killed("host")
    tale.at(2).session("host", "connected", OLD)
    tale.at(3).closed_by_guardian("host", OLD)
    assert tale.broken() == ["I22"]
