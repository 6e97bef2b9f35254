"""`aiolead observe`."""

from __future__ import annotations

from .. import Election
from ..paths import validate
from ..types import ElectionState
from . import exits, shown
from .options import COMMON, Common
from .output import write_line
from .signals import Signals, until_signal

__all__ = ["observe"]


def observe(
    path: str,
    /,
    *,
    common: Common = COMMON,
) -> int:
    """Print who leads, and each change of it, until SIGINT or SIGTERM.

    Who leads only for a moment may be left out; the last one never is.

    With --json: time (UTC), leader (null if nobody leads), token, session, and is_current (false
    while the link to the servers is lost).

    Args:
        path: What is contended for.
        common: Where to connect.
    """
    validate(path)
    describe = _as_json if common.as_json else _as_text

    async def watch() -> None:
        async with common.connect() as client, Election(client, path).observe() as states:
            async for state in states:
                write_line(describe(state))

    async def work() -> None:
        await until_signal(signals, watch, followed=True)

    with Signals() as signals:
        common.run(work)
    return exits.OK


def _as_json(state: ElectionState) -> str:
    leader = state.leader
    return shown.as_json(
        {
            "time": shown.now(),
            "leader": leader and leader.identity,
            "token": leader and leader.token,
            "session": leader and shown.hexadecimal(leader.session_id),
            "is_current": state.is_current,
        }
    )


def _as_text(state: ElectionState) -> str:
    leader = state.leader
    who = "nobody leads"
    if leader is not None:
        who = f"{shown.escaped(leader.identity)} leads (token {leader.token})"
    return f"{shown.now()}  {who}" + ("" if state.is_current else ", when last heard of")
