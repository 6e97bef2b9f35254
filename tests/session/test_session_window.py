"""How many requests are in flight while they must be answered in time."""

from __future__ import annotations

import pytest

from aiolead._session.requests.request_queue import FEWEST, Window


def answer(window: Window, count: int, *, sent: float, took: float) -> None:
    """So many that were in flight together are answered."""
    for ahead in range(count):
        window.answered(ahead, sent, sent + took)


def test_it_doubles_with_each_full_window_that_was_answered_in_time() -> None:
    window, sizes = Window(1000, 1.0), []
    for _ in range(8):
        sizes.append(window.careful)
        answer(window, sizes[-1], sent=0.0, took=1.0)
    assert sizes == [16, 32, 64, 128, 256, 512, 1000, 1000]


def test_a_few_quick_answers_say_nothing_about_many_requests() -> None:
    window = Window(1000, 1.0)
    for _ in range(1000):
        answer(window, 3, sent=0.0, took=0.1)
    assert window.careful == FEWEST


def test_late_answers_halve_it_once_for_what_was_in_flight_together() -> None:
    window = Window(1000, 1.0)
    answer(window, 400, sent=0.0, took=0.5)
    assert window.careful == 800
    answer(window, 800, sent=1.0, took=1.1)
    assert window.careful == 400
    answer(window, 400, sent=3.0, took=5.0)
    assert window.careful == 200


def test_it_is_never_less_than_a_few_nor_more_than_the_user_allows() -> None:
    window = Window(100, 1.0)
    answer(window, 100, sent=0.0, took=0.5)
    assert window.careful == 100
    for sent in range(0, 100, 10):
        answer(window, 1, sent=sent, took=2.0)
    assert window.careful == FEWEST


@pytest.mark.parametrize("most", [1, 5, FEWEST])
def test_what_the_user_allows_may_be_less_than_a_few(most: int) -> None:
    window = Window(most, 1.0)
    assert window.careful == window.most == most


def test_without_need_for_care_it_is_what_the_user_allows() -> None:
    window = Window(1000, 1.0)
    answer(window, 1, sent=0.0, took=9.0)
    assert window.most == 1000


def test_the_next_server_has_to_show_its_own_speed() -> None:
    window = Window(1000, 1.0)
    answer(window, 500, sent=0.0, took=0.5)
    window.reset()
    assert window.careful == FEWEST
