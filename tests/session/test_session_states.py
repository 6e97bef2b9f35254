"""The table of session states: every pair of state and trigger."""

from __future__ import annotations

import pytest
from kit.checks import check_each
from session.script import Script

from aiolead._session.states import TRANSITIONS, Trigger, after
from aiolead.model import SessionState as S

T = Trigger

# Written out a second time, by hand, row by row; the rows that are missing here are illegal.
TABLE = {
    (S.CONNECTING, T.ESTABLISHED): S.CONNECTED,
    (S.CONNECTING, T.ESTABLISHED_READ_ONLY): S.READ_ONLY,
    (S.CONNECTING, T.EXPIRED): S.EXPIRED,
    (S.CONNECTING, T.AUTH_REFUSED): S.AUTH_FAILED,
    (S.CONNECTING, T.CLOSED): S.CLOSED,
    (S.CONNECTED, T.CONNECTION_LOST): S.SUSPENDED,
    (S.CONNECTED, T.EXPIRED): S.EXPIRED,
    (S.CONNECTED, T.AUTH_REFUSED): S.AUTH_FAILED,
    (S.CONNECTED, T.CLOSED): S.CLOSED,
    (S.SUSPENDED, T.ESTABLISHED): S.CONNECTED,
    (S.SUSPENDED, T.EXPIRED): S.EXPIRED,
    (S.SUSPENDED, T.AUTH_REFUSED): S.AUTH_FAILED,
    (S.SUSPENDED, T.CLOSED): S.CLOSED,
    (S.READ_ONLY, T.EXPIRED): S.EXPIRED,
    (S.READ_ONLY, T.AUTH_REFUSED): S.AUTH_FAILED,
    (S.READ_ONLY, T.CLOSED): S.CLOSED,
    (S.EXPIRED, T.RETRY): S.CONNECTING,
    (S.EXPIRED, T.AUTH_REFUSED): S.AUTH_FAILED,
    (S.EXPIRED, T.CLOSED): S.CLOSED,
    (S.AUTH_FAILED, T.CLOSED): S.CLOSED,
}


@check_each("trigger", Trigger)
@check_each("state", S)
def test_every_pair(state: S, trigger: Trigger) -> None:
    if (state, trigger) in TABLE:
        assert after(state, trigger) is TABLE[state, trigger]
    else:
        with pytest.raises(RuntimeError, match=f"no transition from {state.name} when "):
            after(state, trigger)


def test_nothing_leaves_a_closed_client() -> None:
    assert not [key for key in TRANSITIONS if key[0] is S.CLOSED]


def test_an_illegal_trigger_leaves_the_machine_where_it_was() -> None:
    script = Script()
    script.connect()
    states = list(script.states)
    with pytest.raises(RuntimeError):
        script.machine._move(Trigger.RETRY)
    assert script.machine.state is S.CONNECTED
    assert script.states == states
