"""Keeps a scene up to date from the servers: it reads and watches, and writes nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import final

import anyio
from cyclopts import Parameter

from .. import Client, TreeCache, admin
from ..errors import (
    AioleadError,
    ConnectionLossError,
    InvalidPathError,
    NoAuthError,
    NoNodeError,
    ServerError,
    SessionExpiredError,
)
from ..model import SessionState, Stat
from ..paths import parent, validate
from ..types import TreeEvent, TreeNode
from .contender_queue import MOST_DATA
from .options import Positive
from .recipe_layouts import BESIDE
from .scene import Scene
from .scene_values import EnsembleHealth
from .server_inquiry import Inquirer, ServerAddress
from .server_survey import ask_all, connected_sessions, quorum_of
from .signals import first_of

HEALTH_EVERY = 5.0
"""Time between two inquiries about the servers' health, in seconds."""
AT_ONCE = 256
"""How many znodes are read in one batch."""
PAUSE = 0.05
"""Least time between two looks at changes, in seconds; the first look is at once."""
LONGEST_PATH = 4096
"""In characters; znodes with longer paths are left out, and what is below them."""
RESERVED = "/zookeeper"
"""ZooKeeper's own: nobody contends there."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """Options of commands that show a scene."""

    leaders: Positive | None = None
    """How many may lead at once, or hold a lock. Default: what contenders' names say, which those
    of aiolead do where it is more than one; else 1."""

    max_znodes: Positive = 100_000
    """How many znodes are read under each path; of a larger tree only a part is shown."""


SCENE = SceneOptions()


def steady_clock() -> Callable[[], float]:
    """A clock of seconds since 1970 that ignores changes of the time of day."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


@final
class Feed:
    """Keeps a scene up to date while `run` runs; any number of tasks may wait for `changed`.

    `paths` are elections and locks, or have some below; without any, everything is shown.
    `inquirer` asks every `interval` seconds which sessions are connected, and less often how the
    servers are; `servers` must be all servers, or nothing follows from their answers. A malformed
    path raises `ConfigurationError`.
    """

    def __init__(
        self,
        client: Client,
        paths: Iterable[str],
        options: SceneOptions = SCENE,
        *,
        inquirer: Inquirer | None = None,
        servers: Sequence[ServerAddress] = (),
        interval: float = 2.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._paths = _tops(validate(path) for path in paths) or ["/"]
        self._inquirer = inquirer
        self._servers = servers
        self._interval = interval
        self.clock: Callable[[], float] = clock or steady_clock()
        self.scene: Scene = Scene(self._paths, leaders=options.leaders)
        beside = [f"{path}{end}" for path in self._paths if path != "/" for end in BESIDE]
        self._parts = [
            PartOfTree(client, path, options.max_znodes, partial(self.scene.leave_out, path))
            for path in _tops([*self._paths, *beside])
        ]
        self._is_open = anyio.Event()
        self._unread: dict[str, TreeNode] = {}
        self._todo = anyio.Event()
        self._changed = anyio.Event()
        self._is_caught_up = self._was_quiet = False

    async def changed(self, revision: int) -> int:
        """Wait until the scene has another revision; return it."""
        while self.scene.revision == revision:
            await self._changed.wait()
        return self.scene.revision

    async def caught_up(self) -> int:
        """Wait until the scene is current; return its revision."""
        revision = self.scene.revision
        while not self.scene.is_current:
            revision = await self.changed(revision)
        return revision

    async def check_access(self) -> None:
        """Raise `NoAuthError` if a path may not be listed, before anything else is done."""
        for path in self._paths:
            # `run` waits for what does not exist, and for what is not connected.
            with suppress(NoNodeError, ConnectionLossError, SessionExpiredError):
                await self._client.get_children(path)

    async def run(self) -> None:
        """Read, watch and ask, until cancelled. Once.

        Raises `NoAuthError` (a path may not be read), and errors of a client that has ended.
        """
        works: list[Callable[[], Awaitable[None]]] = [self._follow_session, self._follow_trees]
        works += [partial(self._follow_tree, part) for part in self._parts]
        if self._inquirer is not None:
            works.append(partial(self._ask, self._inquirer))
            works.append(partial(self._ask_health, self._inquirer))
        await first_of(*works)

    async def during(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run until some work is done, or either fails; raise the error of either."""
        await first_of(self.run, work)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # --- our own session -----------------------------------------------------------------------

    async def _follow_session(self) -> None:
        async with self._client.observe() as states:
            async for change in states:
                if change.state is not SessionState.CONNECTED:
                    self._is_caught_up = False
                self.scene.set_session(change.state, change.session_id, self.clock())
                self._todo.set()
                self._notify()
        await anyio.sleep_forever()

    # --- the znodes ----------------------------------------------------------------------------

    async def _follow_trees(self) -> None:
        async with AsyncExitStack() as stack:
            for part in tuple(self._parts):
                with self._unless_beside(part):
                    await stack.enter_async_context(part.cache)
            self._is_open.set()
            while True:
                self._todo = anyio.Event()
                await self._read()
                self._look()
                with anyio.move_on_after(None if self._is_caught_up else PAUSE):
                    await self._todo.wait()
                await anyio.sleep(PAUSE)

    def _look(self) -> None:
        # Live caches with nothing new since the last look have reported all they know.
        is_live = all(part.cache.is_live for part in self._parts)
        is_quiet = not self._unread and not self._todo.is_set()
        if is_live and is_quiet and self.scene.session_state is SessionState.CONNECTED:
            self._is_caught_up = self._is_caught_up or self._was_quiet
            self._was_quiet = True
        else:
            self._was_quiet = False
        self.scene.settle(self.clock(), is_current=self._is_caught_up)
        self._notify()

    async def _follow_tree(self, part: PartOfTree) -> None:
        await self._is_open.wait()
        if part in self._parts:
            with self._unless_beside(part):
                async for event in part.cache.events(initial=True):
                    if event.new is None and event.path != part.cache.path:
                        part.forget(event.path)
                    self._note(event)
                    self._todo.set()
        await anyio.sleep_forever()

    @contextmanager
    def _unless_beside(self, part: PartOfTree) -> Iterator[None]:
        """Do without a path that nobody asked for, if this client may not read it."""
        try:
            yield
        except NoAuthError:
            if part.cache.path in self._paths:
                raise
            self._parts.remove(part)

    def _note(self, event: TreeEvent) -> None:
        node = event.new
        stat = None if node is None else node.stat
        # An ephemeral znode has no children to read; as a contender it is shown without a name.
        is_open = node is None or node.is_readable or bool(stat and stat.ephemeral_owner)
        self.scene.may_read(event.path, is_open)
        if node is None:
            self._unread.pop(event.path, None)
            self.scene.remove(event.path)
        elif stat is None:
            self._unread.pop(event.path, None)  # not even its place in the queue is known
        elif not _can_be_asked_for(event.path):
            self._unread.pop(event.path, None)
            self.scene.put(event.path, stat, None)
        elif not node.is_readable or not self.scene.needs_data(event.path, stat):
            self._unread.pop(event.path, None)
            self.scene.put(event.path, stat, b"" if node.is_readable else None)
        else:
            self._unread[event.path] = node

    async def _read(self) -> None:
        """Read the data of new or changed contenders."""
        while self._unread:
            some = list(islice(self._unread.items(), AT_ONCE))
            asked = [(path, node, self._client.get(path)) for path, node in some]
            for path, node, reply in asked:
                data: bytes | None
                stat: Stat | None
                try:
                    data, stat = await reply
                except NoNodeError:
                    data, stat = None, None  # the cache will report that it is gone
                except ServerError:
                    data, stat = None, node.stat  # without a name, but with a place
                except (ConnectionLossError, SessionExpiredError):
                    await self._client.ready()
                    break
                if self._unread.get(path) is node:  # else it is gone, or has changed
                    del self._unread[path]
                    if stat is not None:
                        self.scene.put(path, stat, data and data[:MOST_DATA])

    # --- the sessions --------------------------------------------------------------------------

    async def _ask(self, inquirer: Inquirer) -> None:
        while True:
            revision = self.scene.revision
            connected = await connected_sessions(inquirer, self._servers)
            self.scene.set_connected(connected, self.clock())
            if self.scene.revision != revision:
                self._notify()
            # Servers that do not answer are asked less often.
            await anyio.sleep(self._interval * (1 if connected is not None else 10))

    async def _ask_health(self, inquirer: Inquirer) -> None:
        while True:
            answers = await ask_all(inquirer, self._servers)
            config = None
            with anyio.move_on_after(HEALTH_EVERY), suppress(AioleadError):
                config = await admin.get_config(self._client)
            quorum = quorum_of(answers, config)
            self.scene.set_health(EnsembleHealth(self.clock(), answers, quorum))
            self._notify()
            await anyio.sleep(HEALTH_EVERY)


class PartOfTree:
    """The first `most` znodes of a tree that are seen, parents before children, in a `TreeCache`.

    `on_more` is called when another one is left out.
    """

    def __init__(self, client: Client, path: str, most: int, on_more: Callable[[], object]) -> None:
        self._top = path
        self._most = most
        self._on_more = on_more
        self._chosen: set[str] = {path}
        # Without data: `Feed._read` reads those of contenders, and bounds them. A chosen path that
        # is not read yet may lose its place, so the copy may have more znodes for a moment.
        self.cache: TreeCache = TreeCache(
            client, path, data=False, select=self._is_chosen, max_nodes=2 * most + AT_ONCE
        )

    def _is_chosen(self, path: str) -> bool:
        # A hostile server may claim that each znode has a child, without end.
        if path == RESERVED or len(path) > LONGEST_PATH:
            return False
        chosen = self._chosen
        if path in chosen:
            return True
        if parent(path) not in chosen:
            return False
        if len(chosen) - len(self.cache) > self._most // 16 + AT_ONCE:
            # Most of those are gone by now.
            chosen.intersection_update([self._top, *filter(self.cache.__contains__, chosen)])
        if len(chosen) >= self._most:
            self._on_more()
            return False
        chosen.add(path)
        return True

    def forget(self, path: str) -> None:
        """Make room for another one: a znode is gone."""
        self._chosen.discard(path)


def _can_be_asked_for(path: str) -> bool:
    """False for a path that only a server other than ZooKeeper's reports."""
    try:
        validate(path)
    except InvalidPathError:
        return False
    return True


def _tops(paths: Iterable[str]) -> list[str]:
    """The paths that are not below one of the others."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(top == "/" or path.startswith(f"{top}/") for top in found):
            found.append(path)
    return found
