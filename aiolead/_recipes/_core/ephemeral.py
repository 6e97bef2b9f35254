"""The life of an ephemeral znode: one mechanism for all recipes.

The znode exists exactly as long as its owner wants it, whatever is cancelled or cut when:

* The answer to the create is recorded synchronously, even if nobody awaits it.
* A create whose answer was lost is looked for, never sent twice unseen.
* `withdraw` only hands over: the delete is queued in the client before it returns. What cannot be
  deleted at once is a pending delete of the client's own tasks. It ends with the znode, with the
  session, or with a refusal that was reported.
* The znode may be watched: the owner is notified when others delete it.

The states, and what each event makes of them:

    ==========  ===================  ============  =============  ===============  ===============
    state       create               answered      answer lost    withdraw         deleted, or
                                                                                   session over
    ==========  ===================  ============  =============  ===============  ===============
    ABSENT      CREATING             -             -              ABSENT           -
    CREATING    -                    PRESENT, or   UNRESOLVED     ABSENT; deleted  (by the answer)
                                     ABSENT and                   when the answer
                                     the error                    comes
    UNRESOLVED  `resolve` looks:     -             -              ABSENT; looked   ABSENT, by
                PRESENT if found,                                 for, deleted     `resolve`
                else ABSENT; one
                that turns up later
                is deleted
    PRESENT     -                    -             -              ABSENT; deleted  GONE
    GONE        -                    -             -              ABSENT           -
    ==========  ===================  ============  =============  ===============  ===============

`error_policy` is the table for the errors of servers. A znode is proven to be ours by its name
(`serial`) or by its czxid (`fixed`), never by the session alone: see `znode_registry`.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypedDict, Unpack

import anyio

from ..._internal_errors import contained
from ...abc import CoordinationClient, Hold, Reply, Watch
from ...errors import AioleadError, LossReason, NoNodeError
from ...model import ACL, Created, CreateMode, EventType, Stat, WatchEvent
from .error_policy import Action, Step, action_for, in_background, may_be_applied, pause, until_done
from .ownership import now
from .pending_delete import Departure, PendingDelete
from .znode_registry import NodeRegistry, RegisteredNode


class HoldOptions(TypedDict):
    """How something is held: see `abc.Lease.hold`."""

    urgent: bool
    resign_on_disconnect: bool


class NodeGone(Exception):
    """Our znode is not there any more. Never leaves the recipes."""


class ZnodeState(enum.Enum):
    """What is known of our znode; see the table of the module."""

    ABSENT = "absent"
    CREATING = "creating"
    UNRESOLVED = "unresolved"
    PRESENT = "present"
    GONE = "gone"


class EphemeralNode:
    """One ephemeral znode of this client.

    Args:
        client: the session.
        registry: shared by all of this client's recipes that make such znodes at this path.
        data: what it holds.
        acl: of the znode.
    """

    # There may be thousands, and most of what each costs is memory.
    __slots__ = (
        "_acl",
        "_client",
        "_create_path",
        "_create_session",
        "_creating",
        "_data",
        "_gone",
        "_look",
        "_lose",
        "_node",
        "_registry",
        "_watch",
    )

    def __init__(
        self,
        client: CoordinationClient,
        registry: NodeRegistry,
        data: bytes,
        *,
        acl: Sequence[ACL] | None,
    ) -> None:
        self._client = client
        self._registry = registry
        self._data = data
        self._acl = acl
        self._node: RegisteredNode | None = None
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._create_path = ""
        self._gone = False
        self._watch: Watch | None = None
        self._look: Reply[tuple[bytes, Stat]] | None = None
        self._lose: Callable[[LossReason], object] | None = None

    @property
    def node(self) -> RegisteredNode:
        """The znode. Only while there is one."""
        if self._node is None:
            raise AssertionError("there is no znode")
        return self._node

    @property
    def state(self) -> ZnodeState:
        if self._node is not None:
            gone = self._gone or self._is_over(self._node.session_id)
            return ZnodeState.GONE if gone else ZnodeState.PRESENT
        if self._creating is None:
            return ZnodeState.ABSENT
        return ZnodeState.UNRESOLVED if self._creating.is_done else ZnodeState.CREATING

    def check(self) -> None:
        """Raises `NodeGone` if the znode is known to be gone, or its session is over."""
        if self._gone or self._is_over(self.node.session_id):
            raise NodeGone

    def _is_over(self, session_id: int) -> bool:
        return session_id not in (0, self._client.session_id)

    # --- naming, and the proof that it is ours: for subclasses -----------------------------------

    @abstractmethod
    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        """The path of the next create, or its prefix, and its mode."""

    @abstractmethod
    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        """Records a znode as ours."""

    @abstractmethod
    def _unclaim(self, node: RegisteredNode) -> None:
        """It is gone: it is no longer recorded."""

    @abstractmethod
    async def _find(self, path: str) -> Created | None:
        """Looks for the znode of a create whose answer was lost.

        No checkpoint between the answer that shows it and the return.
        """

    @staticmethod
    @abstractmethod
    async def _delete_if_ours(client: CoordinationClient, node: RegisteredNode) -> None:
        """Deletes a znode if it is still that one: one try."""

    def _settle_name(self, path: str) -> None:
        """The outcome of a create is known, or its znode is not wanted any more."""

    def _note_lost(self, path: str, session_id: int, since: int) -> None:
        """The answer to a create was lost."""

    def _lost_create_looked(self) -> None:
        """It was looked for once, and deleted if it was there."""

    def _lost_create_over(self) -> None:
        """A create whose answer was lost, and that nobody wants, has left nothing behind."""

    # --- what subclasses hear of -----------------------------------------------------------------

    def _rouse(self) -> None:
        """The znode was deleted by others."""

    def _watch_ended(self) -> None:
        """The watch on the znode has ended with its session, or by an error."""

    def _saw(self, data: bytes) -> None:
        """What the znode holds."""

    # --- creating --------------------------------------------------------------------------------

    def create(self) -> Reply[Created]:
        """Sends the create. The answer is recorded even if nobody awaits it."""
        client = self._client
        path, mode = self._next_name(client.session_id)
        session_id = self._create_session = client.session_id if mode.is_ephemeral else 0
        self._create_path = path
        since = now(client)
        create = self._creating = self._send_create(path, mode)
        create.add_done_callback(partial(self._created, create, path, session_id, since))
        return create

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        return self._client.create(path, self._data, mode=mode, acl=self._acl)

    def _created(self, create: Reply[Created], path: str, session_id: int, since: int) -> None:
        """The create is answered: in the client's task, before anything after it."""
        wanted = self._creating is create
        error = create.error()
        if error is None:
            node = self._claim_created(create, session_id, since)
            self._settle_name(path)
            if wanted:
                self._creating = None
                self._node = node
            else:
                self._delete(node, None)
        elif may_be_applied(error):
            self._note_lost(path, session_id, since)
            if not wanted:  # else that is settled by `resolve`, or `withdraw`
                self._delete_lost_later(path, session_id)
        else:
            self._settle_name(path)
            if wanted:
                self._creating = None

    def _claim_created(
        self, create: Reply[Created], session_id: int, _since: int
    ) -> RegisteredNode:
        return self._claim(create.result(), session_id)

    def take(self, created: Created) -> None:
        """Takes a znode for ours that was found."""
        self._node = self._claim(created, created.stat.ephemeral_owner)

    async def resolve(self) -> bool:
        """Finds out what became of a create whose answer was lost; whether there is a znode.

        Raises:
            ConnectionLossError, SessionExpiredError: that is not known yet.
        """
        if self._node is not None and self._is_over(self._node.session_id):
            self.withdraw()
        create, path = self._creating, self._create_path
        if create is not None and not create.is_done:
            try:
                await create
            except AioleadError as error:
                if not may_be_applied(error):
                    raise
        if self._creating is not None:
            if not self._is_over(self._create_session):
                found = await self._find(path)
                if found is None:
                    # It may still be on its way: whatever turns up later is not wanted any more.
                    self._delete_lost_later(path, self._create_session, already_looked=True)
                else:
                    self.take(found)
                    self._settle_name(path)
            else:
                self._settle_name(path)
            self._creating = None
        return self._node is not None

    def _delete_lost_later(
        self, path: str, session_id: int, *, already_looked: bool = False
    ) -> None:
        job = partial(self._delete_lost, path, session_id, already_looked=already_looked)
        self._client.backend.spawn(partial(in_background, path, job))
        self._settle_name(path)

    async def _delete_lost(self, path: str, session_id: int, *, already_looked: bool) -> None:
        """Deletes the znode of a create whose answer was lost, and that nobody wants.

        A create that was on its way over a connection that we gave up may be applied after the
        first look, so there is another one when the session timeout has passed. (One that comes
        even later is found by our next contender that would have to wait for it.)

        Args:
            path: what the create was sent with.
            session_id: the session; once it is over there is nothing to delete.
            already_looked: whether the first look was in vain.

        Raises:
            AioleadError: the delete was refused.
        """
        client, was_found = self._client, False

        async def find_and_delete() -> bool:
            """False if the session is over."""
            nonlocal was_found
            found: list[RegisteredNode] = []

            async def find() -> None:
                created = await self._find(path)
                if created is not None:
                    found.append(self._claim(created, session_id))

            is_alive = await until_done(client, session_id, find)
            for node in found:
                was_found = True
                try:
                    await self._delete_until_gone(client, node)
                finally:
                    self._unclaim(node)
            return is_alive

        try:
            is_alive = True
            try:
                if not already_looked:
                    is_alive = await find_and_delete()
            finally:
                self._lost_create_looked()
            if is_alive and not was_found:
                await anyio.sleep(client.session_timeout)
                await find_and_delete()
        finally:
            self._lost_create_over()

    # --- watching --------------------------------------------------------------------------------

    def seen_gone(self) -> None:
        """An answer has shown that it is gone: what is at its path now is not ours."""
        self._gone = True

    def watch(self) -> None:
        """Watches for its deletion by others, unless that is done already."""
        if self._watch is None:
            self._send_look()

    def unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _make_watch(self) -> Watch:
        watch = self._watch = self._client.backend.make_watch(
            contained(self._on_event, self._unwatched)
        )
        return watch

    def _send_look(self) -> Reply[tuple[bytes, Stat]]:
        node = self.node
        look = self._look = self._client.get(node.path, watch=self._make_watch())
        look.add_done_callback(contained(partial(self._seen, node, look), self._unwatched))
        return look

    def _seen(self, node: RegisteredNode, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._look is look:
            self._look = None
        if node is not self._node:
            return
        error = look.error()
        if error is None:
            data, stat = look.result()
            # A znode of that path may be another one: made anew, or restored by somebody.
            gone = stat.czxid != node.token
            if not gone:
                self._saw(data)
        else:
            gone = isinstance(error, NoNodeError)
            if action_for(error, Step.ACQUIRE) is Action.PAUSE:
                self.unwatch()  # it was not armed
                self._client.backend.spawn(partial(self._watch_later, node), self._unwatched)
        if gone:
            self._lost()

    async def _watch_later(self, node: RegisteredNode) -> None:
        await anyio.sleep(pause(self._client))
        if node is self._node and not self._gone:
            self.watch()

    def _unwatched(self, error: AioleadError | None) -> None:
        """The watch failed: nothing is held without it."""
        if error is None or error.session_over or self._node is None:
            return
        self.unwatch()
        self._watch_ended()
        if self._lose is not None:
            self._lose(LossReason.INTERNAL)

    def _on_event(self, event: WatchEvent) -> None:
        self._watch = None
        if event.type is EventType.DELETED:
            self._lost()
        elif event.type is EventType.NONE or self._node is None:
            self._watch_ended()
        else:
            self.watch()

    async def looked_at(self) -> None:
        """Waits for the last look at it; no checkpoint if that was answered."""
        while self._look is not None:
            with suppress(NoNodeError):
                await self._look

    def _lost(self) -> None:
        self._gone = True
        self._rouse()
        if self._lose is not None:
            self._lose(LossReason.DELETED)

    # --- holding ---------------------------------------------------------------------------------

    def hold(self, lost: Callable[[LossReason], object], **options: Unpack[HoldOptions]) -> Hold:
        """Registers it as held; see `Acquirable.hold`."""
        return self._hold(self.node.path, lost, **options)

    def _hold(
        self,
        path: str,
        lost: Callable[[LossReason], object],
        *,
        urgent: bool,
        resign_on_disconnect: bool,
    ) -> Hold:
        def on_lost(reason: LossReason) -> None:
            self._gone = self._gone or reason is LossReason.DELETED
            lost(reason)

        hold = self._client.backend.lease.hold(
            path,
            on_lost,
            settled=self._hold_settled,
            urgent=urgent,
            resign_on_disconnect=resign_on_disconnect,
        )
        self._lose = hold.lose
        return hold

    def _hold_settled(self) -> None:
        """The lease of the hold is proven for the first time; now it is watched."""
        if self._node is not None:
            self.watch()

    # --- leaving ---------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Gives it up for good. Synchronous: the rest is the client's work.

        Returns:
            The pending delete; None if there is nothing to delete.
        """
        self._lose = None
        return self.withdraw()

    def withdraw(self) -> Departure | None:
        """As `discard`, but another one may be created."""
        create, self._creating = self._creating, None
        if create is not None and create.is_done:
            self._delete_lost_later(self._create_path, self._create_session)
        node, self._node = self._node, None
        watch, self._watch = self._watch, None
        if node is None:
            return None
        if self._gone or self._is_over(node.session_id):
            # What is at that path now may be somebody else's.
            self._gone = False
            self._unclaim(node)
            if watch is not None:
                watch.close()
            return None
        return self._delete(node, watch)

    def forget(self) -> None:
        self.unwatch()
        node, self._node = self._node, None
        if node is not None:
            self._unclaim(node)
        self._look = None
        self._gone = False

    def _delete(self, node: RegisteredNode, watch: Watch | None) -> Departure:
        client = self._client
        delete = self._send_delete(node)
        if watch is not None:
            # It fires with the delete; only a failed one leaves it behind.
            delete.add_done_callback(watch.close)
        later = partial(self._delete_until_gone, client, node)
        return PendingDelete(client, node.path, delete, later, partial(self._unclaim, node))

    def _send_delete(self, node: RegisteredNode) -> Reply[None]:
        return self._client.delete(node.path)

    @classmethod
    async def _delete_until_gone(cls, client: CoordinationClient, node: RegisteredNode) -> None:
        """Deletes a znode, over as many connections as it takes, while it can be ours."""
        await until_done(client, node.session_id, partial(cls._delete_if_ours, client, node))
