"""`aiolead observe`."""

from __future__ import annotations

from typing import Any

from .. import Client, Election
from ..paths import validate
from ..types import ElectionState
from . import render
from .options import COMMON, Common


def observe(path: str, /, *, common: Common = COMMON) -> int:
    """Print who leads, and each change of it, until SIGINT or SIGTERM.

    A leader of a moment may be left out; the last one never is.

    With --json: time (UTC), leader (null if nobody leads), token, session, and is_current (false
    while the connection to the servers is lost).

    Args:
        path: The path of the election or lock.
        common: Where to connect.
    """
    validate(path)

    async def work(client: Client) -> None:
        async with Election(client, path).observe() as states:
            async for state in states:
                common.show(_as_json(state), _as_text(state))

    return common.with_client(work, endless=True, followed=True)


def _as_json(state: ElectionState) -> dict[str, Any]:
    leader = state.leader
    return {
        "time": render.now(),
        "leader": leader and leader.identity,
        "token": leader and leader.token,
        "session": leader and render.hexadecimal(leader.session_id),
        "is_current": state.is_current,
    }


def _as_text(state: ElectionState) -> str:
    leader = state.leader
    who = "nobody leads"
    if leader is not None:
        who = f"{render.escaped(leader.identity)} leads (token {leader.token})"
    return f"{render.now()}  {who}" + ("" if state.is_current else " (last known state)")
