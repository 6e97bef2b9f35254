"""One ephemeral sequential znode of ours under a path: from its creation to its deletion.

It exists exactly as long as its owner wants it, whatever is cancelled or cut when:

* Its name is taken note of synchronously, as the answer to the create comes in.
* `discard` only hands over: the delete is queued in the client before it returns. What cannot be
  deleted at once is a debt of the client, paid by its own tasks while the session lasts.
* A create whose answer was lost is looked for, never sent twice.
* It may be watched: its owner learns that others have deleted it, or ask for it (see `revocation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio

from .._internal_errors import contained
from .._tasks import Wakeup
from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    AioleadError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    SequenceExhaustedError,
)
from ..model import (
    ACL,
    ANYONE,
    Created,
    CreateMode,
    EventType,
    Permission,
    SessionState,
    Stat,
    WatchEvent,
)
from ..paths import join
from .deletion import Deletion, Departure
from .error_policy import Action, Step, action_for, in_background, may_be_applied, pause
from .layout import Layout, Role
from .line import Line, Node, delete_lost, delete_until_gone
from .revocation import is_request
from .sequence_range import LAST_SEQUENCE, warn_of_the_end


class OwnGone(Exception):
    """Our znode is not there any more. Never leaves the recipes."""


class Place:
    """A znode of ours among others.

    Args:
        client: the session.
        path: where it is.
        layout: how it is named.
        role: what kind of thing it is.
        data: what it holds: our identity.
        acl: of it.
    """

    # There may be thousands, and most of what each costs is memory.
    __slots__ = (
        "_acl",
        "_client",
        "_create_session",
        "_creating",
        "_data",
        "_discarded",
        "_is_asked_for",
        "_is_readable",
        "_layout",
        "_line",
        "_node",
        "_on_asked_for",
        "_on_own_gone",
        "_own_gone",
        "_own_look",
        "_own_watch",
        "_path",
        "_prefix",
        "_role",
        "_stale",
        "_wake",
    )

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        layout: Layout,
        role: Role,
        data: bytes,
        *,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._layout = layout
        self._role = role
        self._data = data
        self._acl = acl
        self._is_readable = acl is None or any(map(_lets_read, acl))
        """Whether we surely may read what we create."""
        self._line = client.shared(path, Line)
        self._node: Node | None = None
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._prefix = ""
        self._discarded = False
        # What watches have told since it was last looked at.
        self._wake = Wakeup()
        self._own_watch: Watch | None = None
        self._own_look: Reply[tuple[bytes, Stat]] | None = None
        self._own_gone = False
        self._stale = False
        self._on_own_gone: Callable[[LossReason], object] | None = None
        self._is_asked_for = False
        self._on_asked_for: Callable[[], object] | None = None

    @property
    def node(self) -> Node:
        """Our znode. Only while there is one."""
        if self._node is None:
            raise AssertionError("there is no znode")
        return self._node

    # --- creating ------------------------------------------------------------------------------

    async def _ready_to_create(self) -> bool:
        """Waits for the link; says whether there is no znode already, of a create that was lost."""
        if self._client.state is not SessionState.CONNECTED:
            await self._client.ready()
        await self._resolve()
        return self._node is None

    def _send_create(self) -> Reply[Created]:
        client, line = self._client, self._line
        session_id = client.session_id
        line.are_readable = line.are_readable and self._is_readable
        prefix = self._prefix = self._layout.prefix(self._role, session_id, client.serial())
        line.expect(prefix)
        self._create_session = session_id
        create = self._creating = client.create(
            join(self._path, prefix),
            self._data,
            mode=CreateMode.EPHEMERAL_SEQUENTIAL,
            acl=self._acl,
        )
        create.add_done_callback(self._created)
        return create

    async def _await_created(self, create: Reply[Created]) -> Node:
        try:
            await create
        except NodeExistsError:
            # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
            raise SequenceExhaustedError(self._path) from None
        node = self.node
        if not 0 <= node.sequence < LAST_SEQUENCE:
            self._drop_node()
            raise SequenceExhaustedError(self._path)
        warn_of_the_end(self._path, node.sequence)
        return node

    def _created(self) -> None:
        """The answer to our create is there: in the client's task, before anything after it."""
        create, self._creating = self._creating, None
        if create is None:
            return
        error = create.error()
        if error is None:
            node = Node.of(create.result(), self._client.session_id)
            self._line.claim(node.name, node.sequence)
            self._settle()
            self._node = node
            if self._discarded:
                self._drop_node()
        elif may_be_applied(error):
            self._creating = create  # not settled yet
            if self._discarded:
                self._owe_lost_create()
        else:
            self._settle()

    def _settle(self) -> None:
        """Nothing is to be searched for any more, or others do."""
        self._line.settle(self._prefix)
        self._prefix = ""

    async def _resolve(self) -> None:
        """Finds out what became of a create whose answer was lost."""
        if self._creating is None:
            return
        if self._client.session_id == self._create_session:
            node = await self._line.find_lost(self._client, self._path, self._prefix)
            if node is not None:
                self._creating = None
                self._settle()
                self._node = node
                return
            # It may still be on its way: whatever turns up later is not wanted any more.
            self._owe_lost_create(already_looked=True)
        else:
            self._settle()
        self._creating = None

    # --- our own znode -------------------------------------------------------------------------

    def _watch_own(self) -> Reply[tuple[bytes, Stat]]:
        """Has the deletion of our znode by others reported."""
        node = self.node
        self._own_watch = self._make_own_watch()
        look = self._own_look = self._client.get(node.path, watch=self._own_watch)
        seen = partial(self._own_seen, node, look)
        look.add_done_callback(contained(seen, self._own_unwatched))
        return look

    def _own_to_watch(self) -> tuple[str, Watch]:
        """The same, by `arm` with our own token: whatever has happened since is reported."""
        self._own_watch = self._make_own_watch()
        return self.node.path, self._own_watch

    def _make_own_watch(self) -> Watch:
        return self._client.make_watch(contained(self._on_own, self._own_unwatched))

    def _own_seen(self, node: Node, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._own_look is look:
            self._own_look = None
        if node is not self._node:
            return
        error = look.error()
        if error is None:
            data, stat = look.result()
            # We give no name twice, but somebody may have restored the path, with our znode's name.
            gone = stat.czxid != node.token
            if not gone and is_request(data):
                self._asked_for()
        else:
            gone = isinstance(error, NoNodeError)
            if action_for(error, Step.ACQUIRE) is Action.PAUSE:
                self._close_own_watch()  # it was not armed
                later = partial(self._watch_own_later, node)
                self._client.spawn(later, self._own_unwatched)
        if gone:
            self._lost_own()

    async def _watch_own_later(self, node: Node) -> None:
        await anyio.sleep(pause(self._client))
        if node is self._node and self._own_watch is None and not self._own_gone:
            self._watch_own()

    def _own_unwatched(self, error: AioleadError | None) -> None:
        """Our znode is not watched, if there was an error: nothing is held without that."""
        if error is None or error.session_over or self._node is None:
            return
        self._close_own_watch()
        self._stale = True
        self._wake.set()
        if self._on_own_gone is not None:
            self._on_own_gone(LossReason.INTERNAL)

    def _asked_for(self) -> None:
        if not self._is_asked_for:
            self._is_asked_for = True
            if self._on_asked_for is not None:
                self._on_asked_for()

    def when_asked_for(self, call: Callable[[], object]) -> None:
        """Has it called, synchronously, once others ask for what is held; or at once."""
        self._on_asked_for = call
        if self._is_asked_for:
            call()

    def _on_own(self, event: WatchEvent) -> None:
        self._own_watch = None
        if event.type is EventType.DELETED:
            self._lost_own()
        elif event.type is EventType.DATA_CHANGED and self._node is not None:
            self._watch_own()
        else:
            self._stale = True
            self._wake.set()

    async def _own_looked_at(self) -> None:
        """Waits for what the last look at our own znode shows; no checkpoint if it is known."""
        while self._own_look is not None:
            with suppress(NoNodeError):
                await self._own_look

    def _lost_own(self) -> None:
        self._own_gone = True
        self._wake.set()
        if self._on_own_gone is not None:
            self._on_own_gone(LossReason.DELETED)

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Gives the znode up. Synchronous: the rest is the client's work.

        Returns:
            That our znode goes, to wait for; None if there is none to delete.
        """
        self._discarded = True
        self._on_own_gone = self._on_asked_for = None
        if self._creating is not None and self._creating.is_done:
            self._owe_lost_create()
        return self._drop_node()

    def _forget(self) -> None:
        """Our znode is gone: nothing is left to delete."""
        self._close_own_watch()
        node, self._node = self._node, None
        if node is not None:
            self._line.forget(node.name)
        self._own_look = None
        self._own_gone = self._is_asked_for = False

    def _close_own_watch(self) -> None:
        watch, self._own_watch = self._own_watch, None
        if watch is not None:
            watch.close()

    def _drop_node(self) -> Departure | None:
        node, self._node = self._node, None
        if node is None:
            return None
        own_watch, self._own_watch = self._own_watch, None
        if self._own_gone or node.session_id != self._client.session_id:
            self._line.forget(node.name)
            if own_watch is not None:
                own_watch.close()
            return None
        client = self._client
        delete = client.delete(node.path)
        if own_watch is not None:
            # It fires with the delete; only a failed one leaves it behind.
            delete.add_done_callback(own_watch.close)
        debt = partial(delete_until_gone, client, node)
        return Deletion(client, node.path, delete, debt, partial(self._line.forget, node.name))

    def _owe_lost_create(self, *, already_looked: bool = False) -> None:
        self._creating = None
        job = partial(
            delete_lost,
            self._client,
            self._line,
            self._path,
            self._prefix,
            self._create_session,
            already_looked=already_looked,
        )
        self._client.spawn(partial(in_background, join(self._path, self._prefix), job))
        self._settle()


def _lets_read(entry: ACL) -> bool:
    """Whether an entry lets whoever creates a znode read it, whoever he is."""
    is_anyone = (entry.scheme, entry.id) == ANYONE or entry.scheme == "auth"
    return is_anyone and Permission.READ in entry.permissions


async def pay(client: CoordinationClient, line: Line, node: Node) -> None:
    try:
        await in_background(node.path, partial(delete_until_gone, client, node))
    finally:
        line.forget(node.name)
