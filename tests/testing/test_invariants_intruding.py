"""I24 to I26: each with a history that breaks it, and the nearest one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testing.history_builder import BOUNDS, PARENT, HistoryBuilder, L, path_of, session_of

from aiolead.errors import LossReason
from aiolead.testing.history import RESIGNED, History, Peeked

HOSTILE = 666
PATH = f"{PARENT}/lock"
UNCONFIRMED, DELETED = LossReason.UNCONFIRMED.value, LossReason.DELETED.value


@pytest.fixture
def tale() -> HistoryBuilder:
    return HistoryBuilder()


# --- I24: other threads, and forked children -----------------------------------------------------


def test_thread_is_told_of_a_hold_while_it_lasts(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).peeked(L, "a", 1, "thread", call="check", held=True)
    tale.at(3).leaves("a", 1)
    tale.at(4).peeked(L, "a", 1, "thread", call="check", held=False)
    tale.check(BOUNDS)


def test_thread_is_told_of_a_hold_that_has_been_left(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(3).leaves("a", 1)
    tale.at(4).peeked(L, "a", 1, "thread", call="check", held=True)
    (wrong,) = tale.wrong()
    assert str(wrong) == (
        "I24 at 4.0000: /l: a thread of a (token 1) read by check that it holds: it had left"
    )


def test_thread_is_told_of_a_hold_whose_loss_was_signalled(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, UNCONFIRMED)
    tale.peeked(L, "a", 1, "thread", held=True)
    tale.left(L, "a", 1, was_lost=True)
    assert tale.broken() == ["I24"]


@pytest.mark.parametrize("by", [0, 7])
def test_thread_of_a_blocked_process_is_told_of_a_hold_that_the_servers_have_ended(
    tale: HistoryBuilder, by: int
) -> None:
    """A blocked event loop excuses its body, not the answer to a thread: the clock decides."""
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(1).stopped("a")
    if by:
        tale.at(3).revoked(L, "a")  # an operator ended it, of which no clock knows
    tale.at(4).gone("a", 1, by=by)
    tale.at(5).peeked(L, "a", 1, "thread", held=True)
    tale.at(6).continued("a")
    tale.at(6).left(L, "a", 1, was_lost=True)
    assert tale.broken() == ([] if by else ["I24"])


@pytest.mark.parametrize("remaining", [0.99, 1.1])
def test_what_a_thread_is_told_to_be_left_of_a_hold(tale: HistoryBuilder, remaining: float) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).peeked(L, "a", 1, "thread", call="remaining", held=True, remaining=remaining)
    tale.at(2.5).stepped_down(L, "a", 1, UNCONFIRMED)
    tale.left(L, "a", 1, was_lost=True)
    tale.at(3).gone("a", 1)
    assert tale.broken() == (["I24"] if remaining > 1 else [])


@pytest.mark.parametrize("taken", [True, False])
def test_operator_deletes_what_was_released_within_the_remaining_time(
    tale: HistoryBuilder, taken: bool
) -> None:
    """The thread could not know of it. Without an operator, the session had ended too early."""
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).peeked(L, "a", 1, "thread", call="remaining", held=True, remaining=1.1)
    tale.at(2.5).left(L, "a", 1)
    if taken:
        tale.at(2.9).revoked(L, "a")
    tale.at(3).gone("a", 1)
    assert tale.broken() == ([] if taken else ["I24"])


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_hold_that_a_thread_has_read_to_be_over_does_not_come_back(
    tale: HistoryBuilder, where: str
) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).peeked(L, "a", 1, "child", held=False)
    tale.peeked(L, "a", 1, "thread", held=True)
    tale.peeked(L, "a", 1, "thread", held=False)
    tale.at(1.1)
    if where == "loop":
        tale.looked(L, "a", 1, held=True)
    else:
        tale.peeked(L, "a", 1, "thread", held=True)
    tale.at(1.2).left(L, "a", 1)
    (wrong,) = tale.wrong()
    assert wrong.invariant == "I24"
    assert wrong.text.endswith("holds after another thread has read that it does not")


def test_thread_is_told_of_a_hold_after_the_next_one_has_begun(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(0).stopped("a")
    tale.at(0.5).continued("a")
    tale.at(0.4).stopped("a")
    tale.at(2).entered(L, "b", 2)
    tale.peeked(L, "a", 1, "thread", held=True)
    tale.at(3).left(L, "b", 2)
    tale.continued("a")
    tale.left(L, "a", 1, was_lost=True)
    (wrong,) = tale.wrong()
    assert wrong.invariant == "I24"
    assert wrong.text.endswith("b (token 2) had entered")


@pytest.mark.parametrize("held", [True, False])
def test_forked_child_is_never_told_of_a_hold(tale: HistoryBuilder, held: bool) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).peeked(L, "a", 1, "child", call="is_held", held=held)
    tale.at(2).left(L, "a", 1)
    assert tale.broken() == (["I24"] if held else [])


@pytest.mark.parametrize("where", ["thread", "child"])
def test_reads_elsewhere_raise_nothing_unexpected(tale: HistoryBuilder, where: str) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).peeked(L, "a", 1, where, call="loss", error="RuntimeError")
    tale.at(2).left(L, "a", 1)
    (wrong,) = tale.wrong()
    assert wrong.text == f"/l: a {where} of a (token 1) got RuntimeError from loss"


def test_child_of_a_killed_process_goes_on_asking() -> None:
    history = History(is_alive=lambda _: False)
    history.peeked(L, "a", 1, "thread", held=True)
    history.peeked(L, "a", 1, "child", held=True)
    (event,) = history.events
    assert isinstance(event, Peeked)
    assert event.where == "child"


# --- I25: a lost hold ends -----------------------------------------------------------------------


@pytest.mark.parametrize("end", [1.55, 1.65])
def test_body_ends_after_a_thread_was_told_that_the_hold_is_over(
    tale: HistoryBuilder, end: float
) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(1).peeked(L, "a", 1, "thread", call="check", held=False)
    tale.at(end).left(L, "a", 1, was_lost=True)
    assert tale.broken() == ([] if end < 1.6 else ["I25"])


def test_body_of_a_blocked_process_ends_when_that_runs_again(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.at(0.5).stopped("a")
    tale.at(1).peeked(L, "a", 1, "thread", call="check", held=False)
    tale.at(3).continued("a")
    tale.at(3.5).left(L, "a", 1, was_lost=True)
    tale.check(BOUNDS)


def test_body_ends_after_the_signal(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.callback_added(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, UNCONFIRMED)
    tale.callback_called(L, "a", 1)
    tale.at(3).left(L, "a", 1, was_lost=True)
    (wrong,) = tale.wrong()
    assert str(wrong) == (
        "I25 at 1.0000: /l: a (token 1) was notified of the loss at 1.0000, and its body ran on "
        "until 3.0000"
    )


def test_resigned_body_goes_on(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.callback_added(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, RESIGNED)
    tale.peeked(L, "a", 1, "thread", held=False)
    tale.at(3).left(L, "a", 1)
    tale.check(BOUNDS)


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_callback_is_called_once_for_a_loss(
    tale: HistoryBuilder, is_lost: bool, calls: int
) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.callback_added(L, "a", 1)
    if is_lost:
        tale.at(1).stepped_down(L, "a", 1, UNCONFIRMED)
    for _ in range(calls):
        tale.callback_called(L, "a", 1)
    tale.at(1).left(L, "a", 1, was_lost=is_lost)
    assert tale.broken() == ([] if calls == is_lost else ["I25"])


def test_killed_process_calls_nothing_back(tale: HistoryBuilder) -> None:
    tale.at(0).entered(L, "a", 1)
    tale.callback_added(L, "a", 1)
    tale.at(1).stepped_down(L, "a", 1, UNCONFIRMED)
    tale.killed("a")
    tale.check(BOUNDS)


# --- I26: own znodes -----------------------------------------------------------------------------


def test_hold_with_a_persistent_znode(tale: HistoryBuilder) -> None:
    tale.at(0).waits("b", 9)
    tale.node_created(path_of(1), 1)
    tale.at(1).entered(L, "a", 1, path=path_of(1), session_id=0)
    tale.at(2).left(L, "a", 1)
    tale.node_deleted(path_of(1), 1001)
    (wrong,) = tale.wrong(replace(BOUNDS, is_complete=False))
    assert wrong.invariant == "I26"
    assert wrong.text.startswith("/l: a (token 1) entered with a znode that is no session's: ")


@pytest.mark.parametrize("is_announced", [True, False])
def test_znode_deleted_by_the_session_of_another_client(
    tale: HistoryBuilder, is_announced: bool
) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).stepped_down(L, "a", 1, DELETED)
    tale.left(L, "a", 1, was_lost=True)
    if is_announced:
        tale.hostile(session_of("b"))
    tale.at(2).gone("a", 1, by=session_of("b"))
    assert tale.broken() == ([] if is_announced else ["I26"])


@pytest.mark.parametrize("was_changed", [True, False])
def test_znode_that_its_owner_had_left_deleted_by_another_client(
    tale: HistoryBuilder, was_changed: bool
) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).left(L, "a", 1)
    gone = path_of(1), 1001, session_of("a"), session_of("b")
    tale.at(3).node_deleted(*gone, was_changed=was_changed)
    assert tale.broken() == ([] if was_changed else ["I26"])


def test_hold_lost_to_a_delete_by_its_own_session(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).gone("a", 1, by=session_of("a"))
    tale.stepped_down(L, "a", 1, DELETED)
    tale.left(L, "a", 1, was_lost=True)
    assert "I26" in tale.broken()


def test_hold_lost_as_deleted_while_its_znode_is_there(tale: HistoryBuilder) -> None:
    tale.at(0).waits("a", 1)
    tale.at(1).holds("a", 1)
    tale.at(2).stepped_down(L, "a", 1, DELETED)
    tale.left(L, "a", 1, was_lost=True)
    tale.at(3).gone("a", 1, by=session_of("a"))
    assert tale.broken() == ["I26"]


@pytest.mark.parametrize("is_revoked", [True, False])
def test_znode_of_the_next_one_at_a_fixed_path_after_an_operator_deleted_the_first(
    tale: HistoryBuilder, is_revoked: bool
) -> None:
    """It enters by the answer to its create, as its znode is gone already."""
    tale.at(0).joined(PATH, "a")
    tale.node_created(PATH, 1, session_of("a"))
    if is_revoked:
        tale.revoked(PATH, "a")
    tale.at(1).node_deleted(PATH, 2, session_of("a"))
    tale.node_created(PATH, 3, session_of("b"))
    tale.entered(PATH, "a", 1, path=PATH, session_id=session_of("a"))
    tale.at(1.1).left(PATH, "a", 1)
    assert tale.broken() == ([] if is_revoked else ["I3", "I4"])


def test_forged_znodes_are_nobodys_predecessors(tale: HistoryBuilder) -> None:
    tale.at(0).hostile(HOSTILE)
    tale.node_created(f"{PARENT}/forged", 1, HOSTILE)
    tale.waits("a", 2)
    tale.at(1).holds("a", 2)
    tale.at(2).leaves("a", 2)
    tale.check(BOUNDS)
