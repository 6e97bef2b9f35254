"""I1 to I4 and the lock-set: each with a history that breaks it, and the nearest that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testing.history_builder import BOUNDS, PARENT, HistoryBuilder, L, path_of, session_of

from aiolead.errors import LossReason
from aiolead.testing.history import RESIGNED
from aiolead.testing.invariants import (
    Bounds,
    Margin,
    margins,
    one_holder,
    told_in_time,
    violations,
)


@pytest.fixture
def tale() -> HistoryBuilder:
    return HistoryBuilder()


def two(**how: object) -> Bounds:
    return replace(BOUNDS, places=2, **how)  # type: ignore[arg-type]


# --- I1: one holder ------------------------------------------------------------------------------


def test_turns_one_after_another_are_fine(tale: HistoryBuilder) -> None:
    tale.turn("a", 1)
    tale.turn("b", 2)
    tale.turn("a", 3)
    tale.check(BOUNDS)


def test_nothing_is_fine(tale: HistoryBuilder) -> None:
    tale.check(BOUNDS)


def test_two_at_once(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).entered(L, "b", 2)
    tale.at(2).left(L, "a", 1)
    tale.at(3).left(L, "b", 2)
    (wrong,) = tale.wrong()
    assert str(wrong) == (
        "I1 at 1.0000: /l: the hold of b (token 2) from 1.0000 to 3.0000 began during that of "
        "a (token 1) from 0.0000 to 2.0000"
    )


def test_a_hold_within_another(tale: HistoryBuilder) -> None:
    tale.entered(L, "a", 1)
    tale.turn("b", 2)
    tale.after(1).left(L, "a", 1)
    assert tale.broken() == ["I1"]


def test_at_the_same_time_it_counts_what_came_first(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).left(L, "a", 1)
    tale.entered(L, "b", 2)
    tale.at(2).entered(L, "c", 3)
    tale.left(L, "b", 2)
    tale.left(L, "c", 3)
    (wrong,) = tale.wrong()
    assert "the hold of c (token 3)" in wrong.text


def test_every_entrance_that_is_one_too_many_counts_and_lines_do_not_exclude_each_other(
    tale: HistoryBuilder,
) -> None:
    for number, name in enumerate("abc"):
        tale.after(1).entered(L, name, number)
        tale.entered(f"/{name}", name, number)
    for number, name in enumerate("abc"):
        tale.after(1).left(L, name, number)
        tale.left(f"/{name}", name, number)
    assert [(w.invariant, w.at) for w in tale.wrong()] == [("I1", 2.0), ("I1", 3.0)]
    assert "a (token 0) from 1.0000 to 4.0000 and of b (token 1)" in tale.wrong()[1].text


def test_what_is_reported_of_a_line_without_any_exclusion_is_bounded(tale: HistoryBuilder) -> None:
    for number in range(100):
        tale.after(1).entered(L, f"c{number}", number)
    assert len(one_holder(tale.events, BOUNDS)) == 20


def test_a_killed_holder_holds_no_more(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "host/a", 1)
    tale.at(1).entered("/m", "host/b", 1)
    tale.at(2).killed("host")
    tale.at(3).turn("c", 2)
    tale.turn("c", 2, line="/m")
    tale.check(BOUNDS)


@pytest.mark.parametrize("killed", ["hos", "host/b", "host/a/x", "b"])
def test_but_killing_somebody_else_does_not_help(tale: HistoryBuilder, killed: str) -> None:
    tale.at(0).entered(L, "host/a", 1)
    tale.at(2).killed(killed)
    tale.at(3).entered(L, "c", 2)
    tale.left(L, "host/a", 1)
    tale.left(L, "c", 2)
    assert tale.broken() == ["I1"]


def test_a_revoked_hold_ends_there_but_its_holder_has_to_notice(tale: HistoryBuilder) -> None:
    tale.entered(L, "a", 1)
    tale.after(1).revoked(L, "a")
    tale.turn("b", 2)
    (wrong,) = tale.wrong()
    assert str(wrong) == "I9 at 4.0000: /l: a has held since 0.0000"
    tale.after(1).left(L, "a", 1, was_lost=True)
    tale.check(BOUNDS)


@pytest.mark.parametrize(("later", "broken"), [(0.1, []), (BOUNDS.session_timeout + 0.1, ["I1"])])
def test_who_was_not_told_that_his_place_was_taken_away_may_enter_for_a_while(
    tale: HistoryBuilder, later: float, broken: list[str]
) -> None:
    for number, name in ((1, "a"), (2, "b")):
        tale.at(number).waits(name, number)
    tale.at(3).revoked(L, "a")
    tale.gone("a", 1)
    tale.at(3.05).holds("b", 2)
    tale.at(3 + later).entered(L, "a", 1)
    tale.left(L, "a", 1, was_lost=True)
    tale.after(0.1).leaves("b", 2)
    assert [name for name in tale.broken() if name == "I1"] == broken


def test_a_resigned_hold_ends_although_its_body_goes_on(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, RESIGNED)
    tale.turn("b", 2)
    tale.after(1).left(L, "a", 1)
    tale.check(BOUNDS)


@pytest.mark.parametrize("stubborn", [True, False])
def test_only_for_a_body_that_does_not_heed_it_counts_when_it_was_told(
    tale: HistoryBuilder, stubborn: bool
) -> None:
    tale.at(0).entered(L, "a", 1, stubborn=stubborn)
    tale.at(1).stepped_down(L, "a", 1, "lost")
    tale.turn("b", 2)
    tale.after(1).left(L, "a", 1, was_lost=True)
    assert tale.broken() == ([] if stubborn else ["I1"])


def test_or_when_it_found_out_for_good(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1, stubborn=True)
    tale.at(1).looked(L, "a", 1, held=False)
    tale.turn("b", 2)
    tale.after(1).looked(L, "a", 1, held=False)
    tale.after(1).left(L, "a", 1, was_lost=True)
    tale.check(BOUNDS)
    again = HistoryBuilder()
    again.at(0).entered(L, "a", 1, stubborn=True)
    again.at(1).looked(L, "a", 1, held=False)
    again.at(2).looked(L, "a", 1, held=True)
    again.turn("b", 2)
    again.after(1).left(L, "a", 1, was_lost=True)
    assert again.broken() == ["I1"]


# A body has 0.5 s to end, of time in which its process runs.


def _stopped(
    tale: HistoryBuilder, *, stop: float, go: float, other: float, end: float
) -> HistoryBuilder:
    tale.at(0).entered(L, "host/a", 1)
    tale.at(stop).stopped("host")
    if go < other:
        tale.at(go).continued("host")
    tale.at(other).entered(L, "b", 2)
    if go >= other:
        tale.at(go).continued("host")
    tale.at(end).left(L, "host/a", 1, was_lost=True)
    tale.at(max(end, other) + 1).left(L, "b", 2)
    return tale


def test_a_stopped_process_cannot_leave(tale: HistoryBuilder) -> None:
    assert _stopped(tale, stop=1, go=9, other=6, end=9.5).broken() == []


def test_nor_at_once_when_it_runs_again(tale: HistoryBuilder) -> None:
    # Another 0.3 s, for which it had run less than it seems.
    assert _stopped(tale, stop=1, go=5.9, other=6, end=6.2).broken() == []


def test_but_it_has_no_more_time_than_it_missed(tale: HistoryBuilder) -> None:
    # It missed 1 s, and leaves 1.5 s later than it should have, at 6 s.
    assert _stopped(tale, stop=4, go=5, other=6, end=7.5).broken() == ["I1"]
    # 0.1 s is nothing.
    assert _stopped(HistoryBuilder(), stop=4, go=5, other=6, end=7.05).broken() == []


def test_a_stop_long_ago_is_no_excuse(tale: HistoryBuilder) -> None:
    assert _stopped(tale, stop=1, go=5, other=9.5, end=10).broken() == ["I1"]


def test_nor_is_one_before_the_hold(tale: HistoryBuilder) -> None:
    tale.at(0).stopped("a")
    tale.at(3).continued("a")
    tale.at(4).entered(L, "a", 1)
    tale.at(5).entered(L, "b", 2)
    tale.at(6).left(L, "a", 1)
    tale.left(L, "b", 2)
    assert tale.broken() == ["I1"]


def test_a_process_that_is_continued_twice_has_gone_on_at_the_first(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.at(2).continued("a")
    tale.at(6).continued("a")
    tale.at(7).entered(L, "b", 2)
    tale.at(8).left(L, "a", 1)
    tale.left(L, "b", 2)
    assert tale.broken() == ["I1"]


def test_nor_is_one_that_comes_after(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).entered(L, "b", 2)
    tale.at(2).stopped("a")
    tale.at(9).continued("a")
    tale.left(L, "a", 1)
    tale.left(L, "b", 2)
    assert tale.broken() == ["I1"]


def test_nor_that_of_somebody_else(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("b")
    tale.at(6).continued("b")
    tale.at(7).entered(L, "b", 2)
    tale.at(7.5).left(L, "a", 1)
    tale.left(L, "b", 2)
    assert tale.broken() == ["I1"]


def test_whoever_enters_late_is_not_excused_by_his_own_stop(tale: HistoryBuilder) -> None:
    tale.at(0).joined(L, "b")
    tale.at(1).stopped("b")
    tale.at(6).entered(L, "a", 1)
    tale.at(7).continued("b")
    tale.at(7).entered(L, "b", 2)
    tale.at(8).left(L, "b", 2)
    tale.at(9).left(L, "a", 1)
    assert tale.broken() == ["I1"]


def test_a_stopped_process_that_never_runs_again_holds_nothing(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.turn("b", 2)
    tale.check(replace(BOUNDS, is_complete=False))


@pytest.mark.parametrize("held", [True, False])
def test_when_it_runs_again_it_must_not_say_that_it_holds(tale: HistoryBuilder, held: bool) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.at(6).entered(L, "b", 2)
    tale.at(9).continued("a")
    tale.at(9).looked(L, "a", 1, held=held)
    tale.at(9.2).left(L, "a", 1, was_lost=True)
    tale.at(10).left(L, "b", 2)
    assert tale.broken() == (["I1"] if held else [])


def test_nor_after_the_first_of_several_who_have_entered(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.at(3).entered(L, "b", 2)
    tale.at(4).left(L, "b", 2)
    tale.at(5).continued("a")
    tale.at(5.1).looked(L, "a", 1, held=True)
    tale.at(5.2).entered(L, "c", 3)
    tale.at(5.3).left(L, "a", 1, was_lost=True)
    tale.at(6).left(L, "c", 3)
    assert [(w.invariant, w.at) for w in tale.wrong()] == [("I1", 5.1)]


def test_it_may_say_so_before_anybody_else_has_entered(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.at(2).continued("a")
    tale.at(2).looked(L, "a", 1, held=True)
    tale.at(3).left(L, "a", 1)
    tale.turn("b", 2)
    tale.check(BOUNDS)


def test_nobody_says_that_it_holds_after_it_was_told_or_had_left(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).looked(L, "a", 1, held=True)
    tale.at(2).left(L, "a", 1)
    tale.check(BOUNDS)
    tale.at(3).looked(L, "a", 1, held=True)
    tale.at(4).entered(L, "a", 2)
    tale.at(5).stepped_down(L, "a", 2, "lost")
    tale.at(6).looked(L, "a", 2, held=True)
    tale.at(7).left(L, "a", 2, was_lost=True)
    assert [(w.invariant, w.at) for w in tale.wrong()] == [("I1", 3.0), ("I1", 6.0)]


# Several places, permits, readers and writers.


def test_two_places_hold_two_but_not_three(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).entered(L, "b", 2)
    assert one_holder(tale.events, two()) == []
    tale.at(3).entered(L, "c", 3)
    assert [w.at for w in one_holder(tale.events, two())] == [3.0]
    assert len(one_holder(tale.events, replace(BOUNDS, places={L: 3}))) == 0
    assert len(one_holder(tale.events, replace(BOUNDS, places={"/other": 3}))) == 2


@pytest.mark.parametrize(("whose", "broken"), [("a", 0), ("b", 1)])
def test_of_several_that_are_stopped_the_one_whose_znode_is_gone_was_overtaken(
    tale: HistoryBuilder, whose: str, broken: int
) -> None:
    for token, name in ((1, "a"), (2, "b")):
        tale.at(token / 10).node_created(path_of(token), token, session_of(name))
        tale.entered(L, name, token, path=path_of(token), session_id=session_of(name))
        tale.at(1).stopped(name)
    tale.at(2).node_deleted(path_of({"a": 1, "b": 2}[whose]), 9)
    tale.at(3).entered(L, "c", 3)
    tale.at(4).continued("b")
    tale.at(4).looked(L, "b", 2, held=True)
    tale.at(4.1).left(L, "b", 2)
    tale.at(5).continued("a")
    tale.at(5).left(L, "a", 1, was_lost=True)
    assert len(one_holder(tale.events, two())) == broken


def test_permits_add_up(tale: HistoryBuilder) -> None:
    bounds = replace(BOUNDS, places=3)
    tale.at(1).entered(L, "a", 1, permits=2)
    tale.at(2).entered(L, "b", 2)
    assert one_holder(tale.events, bounds) == []
    tale.at(3).left(L, "b", 2)
    tale.at(4).entered(L, "c", 3, permits=2)
    assert [w.at for w in one_holder(tale.events, bounds)] == [4.0]


@pytest.mark.parametrize(
    ("first", "second", "broken"),
    [
        ("read", "read", []),
        ("read", "write", ["I1"]),
        ("write", "read", ["I1"]),
        ("write", "write", ["I1"]),
    ],
)
def test_readers_share_and_writers_do_not(
    tale: HistoryBuilder, first: str, second: str, broken: list[str]
) -> None:
    tale.at(1).entered(L, "a", 1, mode=first)
    tale.at(2).entered(L, "b", 2, mode=second)
    tale.at(3).left(L, "a", 1)
    tale.at(4).left(L, "b", 2)
    assert tale.broken() == broken


def test_who_cannot_know_leaves_room_for_as_many_as_there_are_places(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(0).entered(L, "b", 2)
    tale.at(1).stopped("a")
    tale.at(6).entered(L, "c", 3)
    assert one_holder(tale.events, two()) == []
    tale.at(6).entered(L, "d", 4)
    assert len(one_holder(tale.events, two())) == 1


def test_and_for_a_writer(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1, mode="write")
    tale.at(1).stopped("a")
    tale.at(6).entered(L, "b", 2, mode="write")
    assert one_holder(tale.events, BOUNDS) == []


def test_the_third_reader_excludes_a_writer_too(tale: HistoryBuilder) -> None:
    for number, name in enumerate("abc"):
        tale.at(number).entered(L, name, number, mode="read")
    tale.at(4).left(L, "a", 0)
    tale.left(L, "b", 1)
    tale.at(5).entered(L, "w", 9, mode="write")
    tale.at(6).left(L, "c", 2)
    tale.left(L, "w", 9)
    assert tale.broken() == ["I1"]


# --- I2: stop before expiry ----------------------------------------------------------------------


def _lost(tale: HistoryBuilder, *, stopped: float, deleted: float, by: int = 0) -> HistoryBuilder:
    tale.at(0).fault_began("cut", "a")
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    ends = [
        (stopped, lambda: tale.at(stopped).left(L, "a", 1, was_lost=True)),
        (deleted, lambda: tale.at(deleted).gone("a", 1, by=by)),
    ]
    for _, end in sorted(ends, key=lambda end: end[0]):
        end()
    return tale


def test_the_body_ends_before_the_servers_delete_the_znode(tale: HistoryBuilder) -> None:
    _lost(tale, stopped=3.0, deleted=4.25)
    assert tale.broken() == []
    assert margins(tale.events, BOUNDS) == [Margin(L, "a", 1, "", 3.0, 4.25)]
    assert margins(tale.events, BOUNDS)[0].seconds == 1.25


def test_and_not_after(tale: HistoryBuilder) -> None:
    _lost(tale, stopped=4.5, deleted=4.25)
    (wrong,) = tale.wrong()
    assert wrong.invariant == "I2"
    assert wrong.at == 4.25
    assert "0.2500 s before its body had ended" in wrong.text
    assert margins(tale.events, BOUNDS)[0].seconds == -0.25


def test_also_if_it_never_noticed(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(4).gone("a", 1)
    tale.at(5).looked(L, "a", 1, held=True)
    assert tale.broken(replace(BOUNDS, is_complete=False)) == ["I2"]


def test_the_margin_is_of_what_the_servers_did_by_themselves(tale: HistoryBuilder) -> None:
    _lost(tale, stopped=3.0, deleted=3.1, by=session_of("a"))
    assert margins(tale.events, BOUNDS) == []
    tale.at(10).healed()
    assert tale.broken() == []


def test_there_is_none_without_both_ends(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(1).left(L, "a", 1, was_lost=True)
    assert margins(tale.events, BOUNDS) == []
    tale.at(2).waits("b", 2)
    tale.at(2).holds("b", 2)
    tale.at(3).stepped_down(L, "b", 2, "lost")
    tale.at(4).gone("b", 2)
    assert margins(tale.events, BOUNDS) == []
    assert "I2" in tale.broken()


def test_nor_after_an_order(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(1).revoked(L, "a")
    tale.at(1).left(L, "a", 1, was_lost=True)
    tale.at(2).gone("a", 1)
    assert margins(tale.events, BOUNDS) == []


def test_and_of_who_lost_and_tells_how(tale: HistoryBuilder) -> None:
    tale.at(0).fault_began("cut")
    tale.waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(2).stepped_down(L, "a", 1, "because")
    tale.at(2.25).left(L, "a", 1, was_lost=True)
    tale.at(3).gone("a", 1)
    tale.waits("b", 2)
    tale.at(4).holds("b", 2)
    tale.at(5).left(L, "b", 2)
    tale.at(9).gone("b", 2)
    assert margins(tale.events, BOUNDS) == [Margin(L, "a", 1, "because", 2.25, 3.0)]


def test_who_resigned_may_go_on_after_its_znode_is_gone(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(1).stepped_down(L, "a", 1, RESIGNED)
    tale.at(1).gone("a", 1, by=session_of("a"))
    tale.at(2).left(L, "a", 1)
    tale.check(BOUNDS)
    assert margins(tale.events, BOUNDS) == []


def test_a_deletion_that_is_told_twice_was_at_the_first(tale: HistoryBuilder) -> None:
    _lost(tale, stopped=3.0, deleted=4.25)
    tale.at(5).gone("a", 1)
    assert margins(tale.events, BOUNDS)[0].deleted == 4.25


def test_an_operator_or_a_stop_excuses(tale: HistoryBuilder) -> None:
    tale.waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(1).revoked(L, "a")
    tale.at(1.1).gone("a", 1, by=7)
    tale.at(1.2).left(L, "a", 1, was_lost=True)
    tale.check(BOUNDS)
    assert margins(tale.events, BOUNDS) == []
    stopped = HistoryBuilder()
    stopped.waits("a", 1)
    stopped.at(0).holds("a", 1)
    stopped.at(1).stopped("a")
    stopped.at(5).gone("a", 1)
    stopped.at(6).continued("a")
    stopped.at(6.2).left(L, "a", 1, was_lost=True)
    stopped.check(BOUNDS)
    assert margins(stopped.events, BOUNDS) == []


@pytest.mark.parametrize(("was_there", "broken"), [(True, []), (False, ["I2"])])
def test_an_operator_excuses_also_a_term_that_is_told_of_later(
    tale: HistoryBuilder, was_there: bool, broken: list[str]
) -> None:
    """Campaigns are told of by whoever reads their states, and he may be slow."""
    tale.at(0).waits("a", 1)
    tale.at(0).holds("a", 1)
    tale.at(1).stepped_down(L, "a", 1, "lost")
    tale.at(1.5).gone("a", 1)
    if was_there:
        tale.at(2).node_created(path_of(2), 2, session_of("a"))
    tale.at(2.5).revoked(L, "a")
    if not was_there:
        tale.at(2.6).node_created(path_of(2), 2, session_of("a"))
    tale.at(2.7).left(L, "a", 1, was_lost=True)
    tale.joined(L, "a")
    tale.holds("a", 2)
    tale.at(2.9).gone("a", 2)
    tale.at(3).left(L, "a", 2, was_lost=True)
    assert tale.broken() == broken


def test_an_operator_who_is_not_announced_does_not(tale: HistoryBuilder) -> None:
    _lost(tale, stopped=1.2, deleted=1.1, by=7)
    assert tale.broken() == ["I2", "I26"]


# --- I3: fencing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("token", "text"), [(4, "not above"), (5, "is also that of")])
def test_a_token_that_does_not_rise(tale: HistoryBuilder, token: int, text: str) -> None:
    tale.turn("a", 5)
    tale.turn("b", token)
    (wrong,) = tale.wrong()
    assert wrong.invariant == "I3"
    assert text in wrong.text


def test_it_must_be_above_all_before_it(tale: HistoryBuilder) -> None:
    tale.turn("a", 5)
    tale.turn("b", 3)
    tale.turn("c", 4)
    assert [w.invariant for w in tale.wrong()] == ["I3", "I3"]


def test_with_several_places_tokens_only_have_to_differ(tale: HistoryBuilder) -> None:
    tale.turn("a", 5)
    tale.turn("b", 3)
    assert tale.broken(two()) == []
    tale.turn("c", 3)
    assert tale.broken(two()) == ["I3"]


@pytest.mark.parametrize(
    ("modes", "broken"),
    [
        (("read", "read"), []),
        (("read", "write"), ["I3"]),
        (("write", "read"), ["I3"]),
        (("write", "write"), ["I3"]),
    ],
)
def test_readers_may_enter_in_another_order_than_that_of_their_tokens(
    tale: HistoryBuilder, modes: tuple[str, str], broken: list[str]
) -> None:
    for token, mode in zip((5, 4), modes, strict=True):
        tale.after(1).entered(L, mode, token, mode=mode)
        tale.after(1).left(L, mode, token)
    assert tale.broken() == broken


def test_a_token_is_the_transaction_that_created_the_znode(tale: HistoryBuilder) -> None:
    tale.joined(L, "a")
    tale.node_created(path_of(7), 7, session_of("a"))
    tale.entered(L, "a", 8, path=path_of(7))
    tale.left(L, "a", 8)
    tale.gone("a", 7, by=session_of("a"))
    (wrong,) = tale.wrong()
    assert wrong.invariant == "I3"
    assert "not the czxid 7" in wrong.text


def test_a_resource_refuses_smaller_tokens_than_it_has_seen(tale: HistoryBuilder) -> None:
    tale.entered(L, "a", 1)
    tale.acted(L, "a", 1)
    tale.acted(L, "a", 1)
    tale.left(L, "a", 1)
    tale.entered(L, "b", 2)
    tale.acted(L, "a", 1)  # Nobody can know better yet.
    tale.acted(L, "b", 2, resource="another")
    tale.acted(L, "a", 1)
    tale.acted(L, "b", 2)
    tale.acted(L, "a", 1, accepted=False)
    tale.acted(L, "b", 2)
    tale.left(L, "b", 2)
    tale.check(BOUNDS)
    tale.acted(L, "a", 1)
    (wrong,) = tale.wrong()
    assert wrong.text == "/l: a (token 1) was not refused although token 2 was seen before"
    tale.acted(L, "a", 1)
    assert len(tale.wrong()) == 2


def test_and_never_the_holder(tale: HistoryBuilder) -> None:
    tale.at(1).entered(L, "a", 1)
    tale.at(2).acted(L, "a", 1, accepted=False)
    tale.at(3).left(L, "a", 1)
    (wrong,) = tale.wrong()
    assert str(wrong) == "I3 at 2.0000: /l: a (token 1) was refused although it holds"
    late = HistoryBuilder()
    late.at(1).entered(L, "a", 1)
    late.at(2).left(L, "a", 1)
    late.at(2).acted(L, "a", 1, accepted=False)
    late.at(3).acted(L, "b", 2, accepted=False)
    late.check(BOUNDS)


def test_who_was_overtaken_may_be_refused(tale: HistoryBuilder) -> None:
    _stopped_and_overtaken(tale, "")
    assert tale.broken() == []


def _stopped_and_overtaken(tale: HistoryBuilder, resource: str) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stopped("a")
    tale.at(6).entered(L, "b", 2)
    tale.acted(L, "b", 2, resource=resource)
    tale.at(7).continued("a")
    tale.acted(L, "a", 1, resource=resource, accepted=False)
    tale.left(L, "a", 1, was_lost=True)
    tale.at(8).left(L, "b", 2)


def test_of_several_holders_the_one_with_a_smaller_token_may_be_refused(
    tale: HistoryBuilder,
) -> None:
    tale.entered(L, "a", 1)
    tale.entered(L, "b", 2)
    tale.acted(L, "b", 2)
    tale.acted(L, "a", 1, accepted=False)
    tale.left(L, "a", 1)
    tale.left(L, "b", 2)
    assert tale.broken(two()) == []


@pytest.mark.parametrize(("mode", "places"), [("", 2), ("read", 1)])
def test_even_if_it_came_last(tale: HistoryBuilder, mode: str, places: int) -> None:
    tale.entered(L, "b", 2, mode=mode)
    tale.acted(L, "b", 2)
    tale.entered(L, "a", 1, mode=mode)
    tale.acted(L, "a", 1, accepted=False)
    tale.left(L, "a", 1)
    tale.left(L, "b", 2)
    tale.check(replace(BOUNDS, places=places))


# --- I4: truthful return -------------------------------------------------------------------------


def test_it_was_in_front_in_its_call(tale: HistoryBuilder) -> None:
    tale.at(1).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).waits("b", 2)
    tale.at(3).leaves("a", 1)
    tale.at(3).holds("b", 2)
    tale.at(4).leaves("b", 2)
    tale.check(BOUNDS)


def test_it_was_not_if_somebody_older_is_still_there(tale: HistoryBuilder) -> None:
    tale.at(1).waits("a", 1)
    tale.at(2).waits("b", 2)
    tale.at(3).holds("b", 2)
    tale.at(4).leaves("b", 2)
    tale.at(5).holds("a", 1)
    tale.at(6).leaves("a", 1)
    assert tale.broken() == ["I10", "I3", "I4"]
    assert "though others were before it" in next(
        w.text for w in tale.wrong() if w.invariant == "I4"
    )


def test_nor_if_its_own_was_gone_before_the_older_one(tale: HistoryBuilder) -> None:
    tale.at(1).waits("a", 1)
    tale.at(1).waits("b", 2)
    tale.at(2).gone("b", 2)
    tale.at(3).gone("a", 1)
    tale.at(4).holds("b", 2)
    tale.at(4).left(L, "b", 2, was_lost=True)
    tale.withdrew(L, "a", "error")
    assert "I4" in tale.broken()
    fine = HistoryBuilder()
    fine.at(1).waits("a", 1)
    fine.at(1).waits("b", 2)
    fine.at(2).gone("a", 1)
    fine.at(3).gone("b", 2)
    fine.at(4).holds("b", 2)
    fine.at(4).left(L, "b", 2)
    fine.withdrew(L, "a", "error")
    # It had been in front, for a moment: that is I2's to judge.
    assert fine.broken() == ["I2"]


def test_nor_if_it_was_gone_before_the_call(tale: HistoryBuilder) -> None:
    tale.at(1).node_created(path_of(1), 1, session_of("a"))
    tale.at(2).gone("a", 1)
    tale.at(3).joined(L, "a")
    tale.at(3).holds("a", 1)
    tale.at(3).left(L, "a", 1)
    assert tale.broken() == ["I2", "I4"]


def test_or_that_an_operator_deleted_before_the_turn_was_reported(tale: HistoryBuilder) -> None:
    """The answer to the create came before the deletion, and the report after it."""
    for by, broken in ((0, False), (session_of("a"), True)):
        told = HistoryBuilder()
        told.at(1).node_created(path_of(1), 1, session_of("a"))
        told.at(2).revoked(L, "a")
        told.at(2).gone("a", 1, by=by)
        told.at(3).joined(L, "a")
        told.at(3).revoked(L, "a")
        told.at(3).holds("a", 1)
        told.at(4).left(L, "a", 1, was_lost=True)
        assert ("I4" in told.broken()) == broken


def test_nor_without_a_znode(tale: HistoryBuilder) -> None:
    tale.node_created(f"{PARENT}/another", 5, 7)
    tale.joined(L, "a")
    tale.holds("a", 1)
    tale.left(L, "a", 1)
    assert tale.broken() == ["I4"]
    unknown = HistoryBuilder()
    unknown.joined(L, "a")
    unknown.holds("a", 1)
    unknown.left(L, "a", 1)
    unknown.check(BOUNDS)


def test_nor_with_that_of_another_session(tale: HistoryBuilder) -> None:
    tale.at(1).joined(L, "a")
    tale.node_created(path_of(1), 1, 0x77)
    tale.holds("a", 1)
    tale.left(L, "a", 1)
    tale.node_deleted(path_of(1), 9, 0x77)
    (wrong,) = tale.wrong()
    assert "with a znode of the session 0x77" in wrong.text


def test_others_are_only_those_of_the_same_parent_that_are_ephemeral(tale: HistoryBuilder) -> None:
    tale.node_created(f"{PARENT}/plain", 1)
    tale.node_created("/elsewhere/lock-1", 2, 7)
    tale.waits("a", 3)
    tale.holds("a", 3)
    tale.leaves("a", 3)
    tale.check(BOUNDS)


def test_a_path_that_is_made_anew_is_another_znode(tale: HistoryBuilder) -> None:
    tale.at(1).waits("a", 1)
    tale.at(2).gone("a", 1)
    tale.at(3).node_created(path_of(1), 5, session_of("a"))
    tale.at(3).entered(L, "a", 5, path=path_of(1), session_id=session_of("a"))
    tale.at(4).left(L, "a", 5)
    tale.gone("a", 1, by=session_of("a"))
    tale.check(BOUNDS)


@pytest.mark.parametrize("places", [1, 2, 3])
def test_with_several_places_as_many_may_be_before_it(tale: HistoryBuilder, places: int) -> None:
    names = "abcd"
    for number, name in enumerate(names):
        tale.at(number).waits(name, number + 1)
    tale.at(5).holds("c", 3)
    bounds = replace(BOUNDS, places=places, is_complete=False)
    assert ("I4" in {w.invariant for w in tale.wrong(bounds)}) == (places < 3)
    tale.at(6).gone("a", 1)
    tale.at(6).holds("d", 4)
    wrong = [w for w in tale.wrong(bounds) if w.invariant == "I4" and w.at == 6]
    assert bool(wrong) == (places < 3)


# --- lock-set ------------------------------------------------------------------------------------


def _update(tale: HistoryBuilder, name: str, token: int, value: int) -> None:
    tale.read(name, "count", value, token=token)
    tale.wrote(name, "count", value + 1, token=token)


def test_updates_one_after_another_are_all_kept(tale: HistoryBuilder) -> None:
    _update(tale, "a", 1, 0)
    _update(tale, "a", 1, 1)
    _update(tale, "b", 2, 2)
    tale.wrote("b", "count", 4, token=2)
    tale.wrote("a", "count", 3, token=1, accepted=False)
    tale.read("c", "count", 99)
    _update(tale, "c", 5, 4)
    tale.wrote("d", "other", 7)
    _update(tale, "a", 1, 5)
    tale.check(BOUNDS)


def test_an_update_between_reading_and_writing_is_lost(tale: HistoryBuilder) -> None:
    _update(tale, "z", 1, 4)
    tale.read("a", "count", 5, token=2)
    _update(tale, "b", 3, 5)
    tale.wrote("a", "count", 6, token=2)
    (wrong,) = tale.wrong()
    assert str(wrong) == (
        "lock-set at 0.0000: count: a (token 2) wrote 6 over 6 of b (token 3), having read 5"
    )


def test_what_was_read_with_another_token_is_old(tale: HistoryBuilder) -> None:
    _update(tale, "a", 1, 0)
    _update(tale, "b", 2, 1)
    tale.wrote("a", "count", 9, token=3)
    assert violations(tale.events, BOUNDS) == []


# --- I23: time to stop ---------------------------------------------------------------------------

UNCONFIRMED = LossReason.UNCONFIRMED.value


def _lost_together(tale: HistoryBuilder, count: int, *, left: float, why: str) -> HistoryBuilder:
    """`count` contenders of one session lose what they hold, `left` seconds before its end."""
    zxids = range(1, count + 1)
    for zxid in zxids:
        tale.node_created(f"/{zxid}/x", zxid, 7)
        tale.entered(f"/{zxid}", f"host/{zxid}", zxid, path=f"/{zxid}/x", session_id=7)
    tale.after(5)
    for zxid in zxids:
        tale.stepped_down(f"/{zxid}", f"host/{zxid}", zxid, why)
        tale.left(f"/{zxid}", f"host/{zxid}", zxid, was_lost=True)
    tale.after(left)
    for zxid in zxids:
        tale.node_deleted(f"/{zxid}/x", 100 + zxid, 7)
    return tale


@pytest.mark.parametrize(
    ("count", "left", "why", "broken"),
    [
        (1, 0.5, UNCONFIRMED, False),
        (1, 0.49, UNCONFIRMED, True),
        (11, 1.5, UNCONFIRMED, False),
        (11, 1.49, UNCONFIRMED, True),
        (11, 0.1, LossReason.DELETED.value, False),  # which nobody knows in advance
    ],
)
def test_those_that_are_lost_together_have_time_to_stop(
    tale: HistoryBuilder, count: int, left: float, why: str, broken: bool
) -> None:
    _lost_together(tale, count, left=left, why=why)
    wrong = told_in_time(tale.events, replace(BOUNDS, losing=0.1))
    assert bool(wrong) is broken
    assert {each.invariant for each in wrong} <= {"I23"}


@pytest.mark.parametrize(("line", "broken"), [("/1", False), ("/2", True)])
def test_an_operator_deletes_what_was_lost_before(
    tale: HistoryBuilder, line: str, broken: bool
) -> None:
    """Its contender is queued again by then, so that the revocation is of another turn."""
    tale.node_created("/1/x", 1, 7)
    tale.entered("/1", "host", 1, path="/1/x", session_id=7)
    tale.after(5).stepped_down("/1", "host", 1, UNCONFIRMED)
    tale.left("/1", "host", 1, was_lost=True)
    tale.joined("/1", "host")
    tale.after(0.1).revoked(line, "host")
    tale.node_deleted("/1/x", 101, 7)
    assert bool(told_in_time(tale.events, BOUNDS)) is broken


@pytest.mark.parametrize("taken", [True, False])
def test_operator_deletes_what_was_released_before_the_lease_ran_out(
    tale: HistoryBuilder, taken: bool
) -> None:
    """The release was not answered. Without an operator, the lease was too long."""
    tale.node_created("/1/x", 1, 7)
    tale.entered("/1", "host", 1, path="/1/x", session_id=7)
    tale.after(5).left("/1", "host", 1)
    if taken:
        tale.after(0.1).revoked("/1", "host")
    tale.node_deleted("/1/x", 101, 7)
    tale.after(0.1).stepped_down("/1", "host", 1, UNCONFIRMED)
    assert bool(told_in_time(tale.events, BOUNDS)) is not taken
