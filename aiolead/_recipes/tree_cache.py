"""The tree cache: watching the tree, and the life of the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Self, final

import anyio

from ..abc import CoordinationClient, WatchStream
from ..errors import (
    AioleadError,
    ConfigurationError,
    InternalError,
    RequestRefusedError,
    UnsupportedError,
    UsageError,
)
from ..model import Missed, SessionState
from ..paths import validate
from .errors import Step, before_next_try
from .recipe import checked_client, checked_count
from .tree_reader import TreeCopy, TreeEvents, TreeNode, TreeReader
from .view import ClientJob, leaves_here

__all__ = ["TreeCache"]

MAX_NODES = 100_000
"""Default limit of the znodes in a cache."""


@final
class TreeCache:
    """A local copy of a tree, kept up to date. Curator's `CuratorCache`.

        async with TreeCache(client, "/app/services") as cache:
            cache.children("/app/services")
            node = cache.get("/app/services/one")
            async for event in cache.events(): ...

    Each znode in the copy moves from one of its states to a later one, never back. Once nothing
    changes any more, the copy equals the tree; until then, znodes may be from different moments.

    Each znode has a watch on its list of children. Besides, one recursive watch reports all
    changes, except those of unreadable znodes; before ZooKeeper 3.6, each znode has a second watch
    instead.

    To be entered once. Entering waits for the first full copy, over as many connections as it
    takes; leaving removes the watches.

    Args:
        client: the session.
        path: the top of the tree, which need not exist. `/` is allowed.
        data: whether to keep the data of the znodes, or only their `Stat`.
        select: decides by the path of each znode below the top whether to keep it and what is below
            it. It must be fast. Its exceptions end the cache with an `InternalError`.
        max_nodes: how many znodes there may be.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.

    Raises (on entering; later from `events`, `get` and `children`):
        TreeTooLargeError: the tree has more than `max_nodes` znodes.
        NoAuthError: the top may not be read. Other unreadable znodes are in the copy without data
            and children (`TreeNode.is_readable`); their creation and deletion are noticed, changes
            perhaps not. Servers do not report changed ACLs: a znode that becomes unreadable stays
            as it was until it is deleted or the connection is lost; one that becomes readable,
            until it is changed.
        RequestRefusedError (on entering): a reply is longer than `Limits.max_reply`. Later, the
            znode stays as it was, the cache is not live, and it is read again after growing pauses.
        ClientClosedError, AuthFailedError: the client has ended.

    On connection loss, and after an expired session: finds what changed by comparing transaction
    ids, and emits the events.

    Threads and forks: any thread may read the copy (`get`, `children`, `is_live` and others);
    it is made, entered, left and asked for `events` in the client's event loop, and elsewhere
    that raises `UsageError`. In a forked child the copy is what it was at the fork, and
    `is_live` is False.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        data: bool = True,
        select: Callable[[str], bool] | None = None,
        max_nodes: int = MAX_NODES,
    ) -> None:
        self._client = checked_client(client)
        self._job = ClientJob(self._client, self._run, self._end)
        self._path = validate(path)
        if select is not None and not callable(select):
            raise ConfigurationError(f"select: must be a function, not {select!r}")
        self._copy = TreeCopy()
        self._is_full = anyio.Event()
        self._reader = TreeReader(
            self._client,
            path,
            self._copy,
            keep_data=bool(data),
            select=select,
            most=checked_count("max_nodes", max_nodes, most=1 << 30),
            on_complete=self._is_full.set,
        )
        self._defect: InternalError | None = None
        self._has_gap = True
        """Whether something may have happened without an event, and was not looked for."""

    def __repr__(self) -> str:
        kind = "live" if self.is_live else "not live"
        return f"<TreeCache of {self._path}, {len(self)} znodes, {kind}>"

    @property
    def path(self) -> str:
        """The top of the tree."""
        return self._path

    @property
    def is_live(self) -> bool:
        """Whether the copy is complete, and the server reports what changes.

        Reported changes are read at once; `unread` has how many have not arrived yet. Servers
        report no changes of ACLs, nor of the data of unreadable znodes.
        """
        return (
            self._is_full.is_set()
            and not self._client.backend.is_forked
            and not (self._has_gap or self._job.ended.is_set())
            and self._reader.is_complete
            and self._client.state is SessionState.CONNECTED
        )

    @property
    def unread(self) -> int:
        """How many znodes are still to be read; 0 if the copy has all reported changes."""
        return self._reader.unread

    def get(self, path: str) -> TreeNode | None:
        """A znode of the copy, or None. Raises `UsageError` before entering."""
        self._check()
        return self._copy.nodes.get(path)

    def children(self, path: str) -> list[str] | None:
        """The sorted names of a znode's children in the copy; None if it does not exist there.

        Raises `UsageError` before entering.
        """
        self._check()
        return self._copy.children(path) if path in self._copy.nodes else None

    def __len__(self) -> int:
        return len(self._copy.nodes)

    def __contains__(self, path: object) -> bool:
        return path in self._copy.nodes

    def __iter__(self) -> Iterator[str]:
        """The present paths, sorted: a znode comes before what is below it."""
        return iter(sorted(self._copy.nodes))

    def events(self, *, initial: bool = False) -> TreeEvents:
        """The events from now on: `async for event in cache.events()`.

        With `initial`, they begin with the creation of all present znodes: those that `get` sees,
        if there is no checkpoint in between. Raises `UsageError` before entering, and outside of
        the client's event loop.
        """
        self._client.backend.check_home()
        self._check()
        return self._copy.reader(initial=initial)

    def _check(self) -> None:
        if not self._is_full.is_set():
            raise UsageError(
                "TreeCache: was not opened: enter it by `async with` (in a thread, `with`)"
            )
        if self._copy.error is not None:
            raise self._copy.error

    # --- its life ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._job.start(type(self).__name__)
        try:
            await self._is_full.wait()
            if self._copy.error is not None:
                raise self._copy.error
        except BaseException:
            self._job.cancel()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if leaves_here(self._client, exc):
            await self._job.end()

    def _end(self, error: AioleadError | None) -> None:
        self._copy.end(error or self._defect)
        self._is_full.set()

    async def _run(self) -> None:
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            await self._follow()
        finally:
            unsubscribe()
            self._reader.close()

    async def _follow(self) -> None:
        while True:
            stream = self._client.watch(self._path, recursive=True)
            try:
                async with stream:
                    self._client.backend.spawn(partial(self._listen, stream), self._not_listening)
                    await self._keep_up()
            except UnsupportedError:
                self._reader.watched = True
                await self._keep_up()
            except AioleadError as error:
                if isinstance(error, RequestRefusedError) and not self._is_full.is_set():
                    raise  # to the task that opens the cache
                await before_next_try(self._client, error, Step.FOLLOW)

    async def _listen(self, stream: WatchStream) -> None:
        """Record the stream's events until it is closed: no event waits for a read."""
        async for item in stream:
            if isinstance(item, Missed):
                self._look_at_all()
            else:
                self._reader.note_event(item.path)

    def _not_listening(self, error: AioleadError | None) -> None:
        """End the cache if `_listen` had a defect; errors of the stream are for `_run`."""
        if isinstance(error, InternalError):
            self._defect = error
            self._job.cancel()

    def _look_at_all(self) -> None:
        self._has_gap = False
        self._reader.note_all()

    async def _keep_up(self) -> None:
        self._look_at_all()
        while True:
            try:
                await self._reader.catch_up()
            except RequestRefusedError:
                if not self._is_full.is_set():
                    raise  # to the task that opens the cache
            except AioleadError as error:
                await before_next_try(self._client, error, Step.FOLLOW)
                continue
            await self._reader.wait()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        # One-shot watches are re-armed as they were, and report what happened meanwhile.
        if state is not SessionState.CONNECTED and not self._reader.watched:
            self._has_gap = True
