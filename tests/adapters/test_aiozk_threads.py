"""An adapted client in threads and forked children: the same rules as for aiolead's own."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from adapters.aiozk_peer import started
from kit.clients import JumpingClock
from kit.elsewhere import in_child
from kit.faults import only_on

from aiolead import Lock, LockLost
from aiolead.adapters.aiozk import adapt
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer

pytestmark = only_on("asyncio")


async def test_a_thread_that_sees_the_end_first_leaves_ending_to_the_loop() -> None:
    clock, told = JumpingClock(), threading.Event()
    seen: list[BaseException] = []
    async with EmbeddedServer() as server, started(server.connect_string) as zk:
        async with adapt(zk) as client:
            client._core.clock = clock

            def look(held: Any) -> None:
                try:
                    held.check()
                except LockLost as lost:
                    seen.append(lost)

            with pytest.raises(LockLost), anyio.fail_after(10):
                async with Lock(client, "/lock") as held:
                    held.add_lost_callback(told.set)
                    clock.jump(100.0)
                    thread = threading.Thread(target=look, args=(held,))
                    thread.start()
                    thread.join()
                    assert len(seen) == 1
                    assert not told.is_set()
                    await anyio.sleep_forever()
            assert told.is_set()


async def test_a_forked_child_holds_nothing() -> None:
    async with EmbeddedServer() as server, started(server.connect_string) as zk:
        async with adapt(zk) as client, Lock(client, "/lock") as held:

            def look() -> tuple[bool, float, bool, str]:
                try:
                    held.check()
                except UsageError as error:
                    return held.is_held, held.remaining(), client.healthy(), str(error)
                return held.is_held, held.remaining(), client.healthy(), ""

            *values, refused = in_child(look)
            assert values == [False, 0.0, False]
            assert "was forked" in refused
            await held.verify()


async def test_it_is_not_left_in_another_thread() -> None:
    async with EmbeddedServer() as server, started(server.connect_string) as zk:
        adaptation = adapt(zk)
        async with adaptation as client, Lock(client, "/lock") as held:

            async def leave() -> None:
                await adaptation.__aexit__(None, None, None)

            with pytest.raises(UsageError, match="another thread"):
                await anyio.to_thread.run_sync(lambda: anyio.run(leave))
            await held.verify()
            await zk.exists("/")
