"""Scenes for tests: made of invented znodes, or kept up to date by a feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from kit.cli import WITHIN

from aiolead.cli import scene_text
from aiolead.cli.scene import Scene
from aiolead.cli.scene_feed import Feed
from aiolead.cli.scene_values import ContenderQueue, SceneEvent
from aiolead.model import SessionState, Stat

NOTHING = Stat(**dict.fromkeys(Stat._fields, 0))

Names = tuple[list[str | None], list[str | None]]
"""The identities of the holders, and of the contenders that wait."""


class StagedScene(Scene):
    """A connected scene, with methods that add and remove contenders.

    A znode is named after its transaction: `a` and 7 make `/a/_c_x-latch-0000000007`. The session
    has the number of the transaction, too. The znode was created at 1000 seconds.
    """

    def __init__(self, *paths: str, leaders: int | None = None) -> None:
        super().__init__(paths, leaders=leaders)
        self.set_session(SessionState.CONNECTED, 1, 0.0)
        self._reported = 0

    def enter(
        self,
        path: str,
        zxid: int,
        *,
        mark: str = "latch-",
        data: bytes | None = b"",
        name: str = "",
    ) -> None:
        stat = NOTHING._replace(czxid=zxid, ephemeral_owner=zxid, ctime=1_000_000)
        data = f"host-{zxid}".encode() if data == b"" else data
        self.put(f"{path}/{name or f'_c_x-{mark}{zxid:010d}'}", stat, data)

    def leave(self, path: str, zxid: int, *, mark: str = "latch-", name: str = "") -> None:
        self.remove(f"{path}/{name or f'_c_x-{mark}{zxid:010d}'}")

    def news(self, now: float, *, is_current: bool = True) -> list[SceneEvent]:
        """Derives the state from the znodes; the events since the last call."""
        self.settle(now, is_current=is_current)
        new = self.since(self._reported)
        self._reported += len(new)
        return new

    def texts(self, now: float) -> list[str]:
        return [scene_text.event_as_text(one, self.at(one.path).kind) for one in self.news(now)]

    def at(self, path: str) -> ContenderQueue:
        queue = self.queue(path)
        assert queue is not None
        return queue

    def names(self, path: str) -> Names:
        return names(self, path)


def names(scene: Scene, path: str) -> Names:
    queue = scene.queue(path)
    if queue is None:
        return [], []
    return [term.identity for term in queue.terms], [one.identity for one in queue.waiting]


@asynccontextmanager
async def running(feed: Feed) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        yield
        tasks.cancel_scope.cancel()


async def until(feed: Feed, condition: Callable[[], object]) -> None:
    """Waits until the scene of a feed is current, and a condition holds."""
    with anyio.fail_after(WITHIN):
        revision = -1
        while not (feed.scene.is_current and condition()):
            revision = await feed.changed(revision)
