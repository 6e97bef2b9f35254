"""A check on many things is one test, which reports every one that fails."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.checks import check_each


def test_every_offender_is_reported() -> None:
    @check_each("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        assert number % 2, "it is even"

    with pytest.raises(AssertionError) as caught:
        check()
    text = str(caught.value)
    assert "2 of 4 fail" in text
    assert "2 (number 2): AssertionError: it is even" in text
    assert "4 (number 4): AssertionError: it is even" in text


def test_what_is_no_assertion_is_an_offender_too() -> None:
    @check_each("number", [0, 1])
    def check(number: int) -> None:
        assert 1 / number

    with pytest.raises(AssertionError, match="1 of 2 fail"):
        check()


def test_nothing_to_check_is_a_failure() -> None:
    @check_each("number", list)
    def check(number: int) -> None:
        pass

    with pytest.raises(AssertionError, match="nothing to check"):
        check()


class Color(enum.Enum):
    RED = 1


@check_each("color, number", lambda: [(color, 7) for color in Color])
def test_it_takes_fixtures(color: Color, number: int, request: pytest.FixtureRequest) -> None:
    assert (color, number) == (Color.RED, 7)
    assert request.node.name == "test_it_takes_fixtures"


@check_each("color", Color)
@given(number=st.integers())
def test_it_checks_properties(color: Color, number: int) -> None:
    assert color is Color.RED
    assert isinstance(number, int)
