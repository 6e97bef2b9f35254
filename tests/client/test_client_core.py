"""What the views of a client share leaves nothing behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio

from aiolead._client.connect_options import lease_clock
from aiolead._client.core import Core
from aiolead.model import SessionState


async def test_whoever_gives_up_waiting_for_a_connection_is_not_told_any_more() -> None:
    machine: Any = SimpleNamespace(state=SessionState.CONNECTING, leases=SimpleNamespace())
    core = Core(lambda _: machine, lease_clock)
    for _ in range(3):
        with anyio.move_on_after(0.001):
            await core.ready()
    assert core._subscribers == {}
