"""Leftovers at the end, when all processes have gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from .world import World


async def look_for_leftovers(world: World) -> None:
    """Wait until nothing is left, for as long as it may take; report the rest to the history.

    Sockets that a client closed are gone at once; the znodes of a killed process go when its
    session ends.
    """
    end = world.now + world.bounds().progress
    while any(_left(world).values()) and world.now < end:  # noqa: ASYNC110
        await anyio.sleep(world.schedule.tick / 2)
    for kind, left in _left(world).items():
        world.history.leftover(kind, len(left), ", ".join(left[:5]))


def _left(world: World) -> dict[str, list[str]]:
    servers = world.ensemble.servers
    return {
        "znodes": world.witness.ephemerals(),
        "sessions": [f"0x{session_id:x}" for session_id in world.ensemble.sessions()],
        "watches": [path for server in servers for path in server.watches()],
        "connections": [
            f"{connection.client.host} to {connection.target}"
            for connection in world.network.connections()
            # A server's side of a connection whose end it never learned is no leftover.
            if connection.client.is_open and not world.is_server(connection.client.host)
        ],
        "tasks": [f"of {process.name}" for process in world.alive()],
    }
