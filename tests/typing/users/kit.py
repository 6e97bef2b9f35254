"""What users' tests write: the kit, its servers and proxies. `import aiolead` is enough for it."""

from __future__ import annotations

from typing import assert_type

import aiolead


async def embedded() -> str:
    async with aiolead.testing.EmbeddedServer(tick_time=0.1) as server:
        assert_type(server, aiolead.testing.EmbeddedServer)
        return server.connect_string


def in_thread() -> str:
    with aiolead.testing.EmbeddedServer.in_thread() as server:
        assert_type(server, aiolead.testing.ThreadedServer)
        return server.connect_string


def proxy() -> str:
    with aiolead.testing.FaultProxy("127.0.0.1", 2181) as link:
        assert_type(link, aiolead.testing.FaultProxy)
        return link.connect_string


def modules() -> None:
    assert_type(aiolead.errors.NoNodeError("/a"), aiolead.NoNodeError)
    assert_type(aiolead.paths.join("/a", "b"), str)
    assert_type(aiolead.events.EventName, type[aiolead.events.EventName])
    assert_type(aiolead.instrumentation.Event, type[aiolead.events.Event])
    assert_type(aiolead.model.Stat, type[aiolead.model.Stat])


def any_client(client: aiolead.abc.CoordinationClient) -> aiolead.Lock:
    return aiolead.Lock(client, "/lock")
