"""The record of requests over which connections are lost, by itself."""

from __future__ import annotations

import pytest

from aiolead._session.requests.call import READ, Call, no_result
from aiolead._session.requests.suspects import (
    FORGOTTEN_AFTER,
    LOSSES,
    LOSSES_OF_SHORT,
    SHORT,
    Suspects,
)
from aiolead._wire.codes import OpCode
from aiolead.errors import RequestRefusedError

TIMEOUT = 10.0


def read(size: int) -> Call[None]:
    call = Call(OpCode.GET_DATA, b"", no_result, READ, "/a")
    call.size = size
    return call


@pytest.mark.parametrize(("size", "together"), [(SHORT, 2), (SHORT + 1, 1)])
def test_old_losses_are_forgotten(size: int, together: int) -> None:
    suspects, call = Suspects(), read(size)
    for number in range(LOSSES_OF_SHORT):
        for _ in range(together):
            now = number * (FORGOTTEN_AFTER + 1) * TIMEOUT
            assert suspects.lost(call, now, TIMEOUT, "closed") is None


@pytest.mark.parametrize(("size", "budget"), [(SHORT, LOSSES_OF_SHORT), (SHORT + 1, LOSSES)])
def test_losses_one_after_the_other_refuse_it(size: int, budget: int) -> None:
    suspects, call = Suspects(), read(size)
    lost = [suspects.lost(call, number * TIMEOUT, TIMEOUT, "closed") for number in range(budget)]
    assert lost[:-1] == [None] * (budget - 1)
    assert isinstance(lost[-1], RequestRefusedError)
    # A short one may be sent: its length is not the cause.
    held_back = suspects.refusal(call, (budget - 1) * TIMEOUT) is not None
    assert held_back == lost[-1].is_held_back == (size > SHORT)
