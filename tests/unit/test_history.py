"""The checker of histories finds what is wrong, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from support.history import History, violations


class Script(History):
    """A history in which every event comes one second after the one before."""

    def __init__(self) -> None:
        ticks = itertools.count()
        super().__init__(clock=lambda: float(next(ticks)))

    def turn(self, contender: str, token: int, line: str = "/l") -> None:
        self.joined(line, contender)
        self.entered(line, contender, token)
        self.left(line, contender, token)


@pytest.fixture
def script() -> Script:
    return Script()


def test_turns_one_after_another_are_fine(script: Script) -> None:
    script.turn("a", 1)
    script.turn("b", 2)
    script.turn("a", 3)
    script.check()


def test_nothing_is_fine(script: Script) -> None:
    script.check()


def test_two_at_once(script: Script) -> None:
    script.entered("/l", "a", 1)
    script.entered("/l", "b", 2)
    script.left("/l", "a", 1)
    script.left("/l", "b", 2)
    (wrong,) = violations(script.events)
    assert wrong == (
        "/l: the hold of b (token 2) from 1.0000 to 3.0000 began during that of "
        "a (token 1) from 0.0000 to 2.0000"
    )
    with pytest.raises(AssertionError, match="began during that of a"):
        script.check()


def test_a_hold_within_another(script: Script) -> None:
    script.entered("/l", "a", 1)
    script.turn("b", 2)
    script.left("/l", "a", 1)
    assert len(violations(script.events)) == 1


def test_two_places_hold_two_but_not_three(script: Script) -> None:
    script.entered("/l", "a", 1)
    script.entered("/l", "b", 2)
    assert [w for w in violations(script.events, places=2) if "began" in w] == []
    script.entered("/l", "c", 3)
    assert len([w for w in violations(script.events, places=2) if "began" in w]) == 1


def test_lines_do_not_exclude_each_other(script: Script) -> None:
    script.entered("/l", "a", 2)
    script.turn("b", 1, line="/m")
    script.left("/l", "a", 2)
    script.check()


@pytest.mark.parametrize("token", [4, 5])
def test_a_token_that_does_not_rise(script: Script, token: int) -> None:
    script.turn("a", 5)
    script.turn("b", token)
    (wrong,) = violations(script.events)
    assert "not above" in wrong


def test_a_waiter_that_was_never_served(script: Script) -> None:
    script.turn("a", 1)
    script.joined("/l", "b")
    assert violations(script.events) == ["/l: b has waited since 3.0000"]
    script.withdrew("/l", "b")
    script.check()


def test_a_holder_that_lost_and_joined_again_must_be_served_again(script: Script) -> None:
    script.joined("/l", "a")
    script.entered("/l", "a", 1)
    script.left("/l", "a", 1, was_lost=True)
    script.joined("/l", "a")
    assert violations(script.events) == ["/l: a has waited since 3.0000"]
    assert "a left (token 1), lost" in script.tell()


def test_a_holder_that_never_left(script: Script) -> None:
    script.entered("/l", "a", 1)
    assert violations(script.events) == ["/l: a has held since 0.0000"]


def test_a_revoked_hold_ends_there_but_its_holder_has_to_notice(script: Script) -> None:
    script.entered("/l", "a", 1)
    script.revoked("/l", "a")
    script.turn("b", 2)
    assert violations(script.events) == ["/l: a has held since 0.0000"]
    script.left("/l", "a", 1, was_lost=True)
    script.check()
