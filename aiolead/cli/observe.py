"""`aiolead observe`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from .. import Election, ElectionState
from ..paths import validate
from . import exits
from .options import COMMON, Common
from .output import write_line
from .signals import Signals, until_signal

__all__ = ["observe"]


def observe(
    path: str,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    common: Common = COMMON,
) -> int:
    """Print who leads, and each change of it, until SIGINT or SIGTERM.

    Who leads only for a moment may be left out; the last one never is.

    Args:
        path: What is contended for.
        as_json: One JSON object per line: time (UTC), leader (null if nobody leads), token,
            session, and is_current (false while the link to the servers is lost).
        common: Where to connect.
    """
    validate(path)
    describe = _as_json if as_json else _as_text

    async def watch() -> None:
        async with common.connect() as client, Election(client, path).observe() as states:
            async for state in states:
                write_line(describe(state))

    async def work() -> None:
        await until_signal(signals, watch)

    with Signals() as signals:
        common.run(work)
    return exits.OK


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_json(state: ElectionState) -> str:
    leader = state.leader
    return json.dumps(
        {
            "time": _now(),
            "leader": leader and leader.identity,
            "token": leader and leader.token,
            "session": leader and f"{leader.session_id & 0xFFFF_FFFF_FFFF_FFFF:#x}",
            "is_current": state.is_current,
        }
    )


def _as_text(state: ElectionState) -> str:
    leader = state.leader
    who = "nobody leads" if leader is None else f"{leader.identity} leads (token {leader.token})"
    return f"{_now()}  {who}" + ("" if state.is_current else ", when last heard of")
