"""The table of session states: every pair of state and trigger."""

from __future__ import annotations

import pytest
from kit.checks import check_each
from session.script import Script

from aiolead._session.states import TRANSITIONS, Trigger, after
from aiolead.model import SessionState as S

T = Trigger

# Written a second time, by hand, row by row; the rows that are missing here are illegal.
TABLE = {
    S.CONNECTING: {
        T.ESTABLISHED: S.CONNECTED, T.ESTABLISHED_READ_ONLY: S.READ_ONLY, T.EXPIRED: S.EXPIRED,
        T.AUTH_REFUSED: S.AUTH_FAILED, T.CLOSED: S.CLOSED,
    },
    S.CONNECTED: {
        T.CONNECTION_LOST: S.SUSPENDED, T.EXPIRED: S.EXPIRED,
        T.AUTH_REFUSED: S.AUTH_FAILED, T.CLOSED: S.CLOSED,
    },
    S.SUSPENDED: {
        T.ESTABLISHED: S.CONNECTED, T.EXPIRED: S.EXPIRED,
        T.AUTH_REFUSED: S.AUTH_FAILED, T.CLOSED: S.CLOSED,
    },
    S.READ_ONLY: {T.EXPIRED: S.EXPIRED, T.AUTH_REFUSED: S.AUTH_FAILED, T.CLOSED: S.CLOSED},
    S.EXPIRED: {T.RETRY: S.CONNECTING, T.AUTH_REFUSED: S.AUTH_FAILED, T.CLOSED: S.CLOSED},
    S.AUTH_FAILED: {T.CLOSED: S.CLOSED},
    S.CLOSED: {},
}  # fmt: skip


@check_each("trigger", Trigger)
@check_each("state", S)
def test_every_pair_of_state_and_trigger(state: S, trigger: Trigger) -> None:
    if trigger in TABLE[state]:
        assert after(state, trigger) is TABLE[state][trigger]
    else:
        with pytest.raises(RuntimeError, match=f"no transition from {state.name} when "):
            after(state, trigger)
    assert ((state, trigger) in TRANSITIONS) is (trigger in TABLE[state])


def test_illegal_trigger_leaves_the_state_unchanged(script: Script) -> None:
    states = list(script.states)
    with pytest.raises(RuntimeError):
        script.machine._move(Trigger.RETRY)
    assert script.machine.state is S.CONNECTED
    assert script.states == states
