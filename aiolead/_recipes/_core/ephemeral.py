"""The life of an ephemeral znode: one mechanism for all recipes.

The znode exists exactly as long as its owner wants it, whatever is cancelled or lost:

* The answer to the create is recorded synchronously, even if nobody awaits it.
* A *lost create* (its answer was lost) is looked for, and never sent again before that.
* `withdraw` queues the delete before it returns. A znode that cannot be deleted at once becomes a
  pending delete of the client; it ends with the znode, with the session, or with a reported
  refusal.
* The znode may be watched: the owner is notified when others delete it.

docs/explanation/ephemeral-znodes.md has the table of states. `error_policy` decides about errors
of servers. `znode_registry` says what proves that a znode is ours.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypedDict

import anyio

from ..._internal_errors import contained, internal_error
from ...abc import CoordinationClient, Hold, Reply, Watch
from ...errors import AioleadError, LossReason, NoNodeError
from ...model import ACL, Created, CreateMode, EventType, Stat, WatchEvent
from .error_policy import Action, Step, action_for, in_background, may_be_applied, pause, until_done
from .pending_delete import Departure, PendingDelete
from .znode_registry import OwnZnodes, RegisteredNode, until_sole


class HoldOptions(TypedDict):
    """See `abc.Lease.hold`."""

    urgent: bool
    resign_on_disconnect: bool


class Holder(Protocol):
    """A tenure, as the znodes of its hold see it; all calls are synchronous."""

    def _lose(self, reason: LossReason) -> None:
        """The hold has ended without a release; called once at most."""
        ...

    def _ask_for(self) -> None:
        """Others ask for a release."""
        ...


class NodeGone(Exception):
    """Our znode is gone. Never leaves the recipes."""


Found = Callable[[Created], object]
"""Called with a znode of ours, as the answer arrives that shows it."""


class ZnodeState(enum.Enum):
    """The knowledge about our znode; docs/explanation/ephemeral-znodes.md has the transitions."""

    ABSENT = "absent"
    CREATING = "creating"
    UNRESOLVED = "unresolved"
    PRESENT = "present"
    GONE = "gone"


class EphemeralNode:
    """One ephemeral znode of this client.

    `path` is that of the znode, or of its parent if its name is only known once it exists.
    `znodes` is the registry of this client's znodes.
    """

    # There may be thousands, and memory is most of what each costs.
    __slots__ = (
        "_acl",
        "_client",
        "_create_path",
        "_create_session",
        "_creating",
        "_data",
        "_gone",
        "_hold",
        "_holder",
        "_look",
        "_node",
        "_own_znodes",
        "_path",
        "_watch",
    )

    def __init__(
        self,
        client: CoordinationClient,
        znodes: OwnZnodes,
        path: str,
        data: bytes,
        acl: Sequence[ACL] | None,
    ) -> None:
        self._client = client
        self._own_znodes = znodes
        self._path = path
        self._data = data
        self._acl = acl
        self._node: RegisteredNode | None = None
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._create_path = ""
        self._gone = False
        self._watch: Watch | None = None
        self._look: Reply[tuple[bytes, Stat]] | None = None
        self._hold: Hold | None = None
        self._holder: Holder | None = None

    @property
    def node(self) -> RegisteredNode:
        """The znode; only valid while there is one."""
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
        """Raise `NodeGone` if the znode is known to be gone, or its session is over."""
        node = self._node
        assert node is not None, "there is no znode"
        if self._gone or node.session_id not in (0, self._client.session_id):
            raise NodeGone

    def _is_over(self, session_id: int) -> bool:
        return session_id not in (0, self._client.session_id)

    # --- naming, and the proof that it is ours: for subclasses -----------------------------------

    @abstractmethod
    def _next_name(self, session_id: int) -> tuple[str, CreateMode]:
        """The path of the next create, or its prefix, and its mode."""

    @abstractmethod
    def _claim(self, created: Created, session_id: int) -> RegisteredNode:
        """Record a znode as ours."""

    @abstractmethod
    def _unclaim(self, node: RegisteredNode) -> None:
        """Remove the record of a znode that is gone."""

    @abstractmethod
    async def _find(self, path: str, session_id: int, found: Found) -> None:
        """Look for the znode of a lost create of that session; call `found` if it is there.

        `found` is called once at most, as the answer arrives that proves it. It must record the
        znode at once: a later answer may change what is known.
        """

    @staticmethod
    @abstractmethod
    async def _delete_if_ours(client: CoordinationClient, node: RegisteredNode) -> None:
        """Delete a znode if it is still the same one; one attempt."""

    def _settle_name(self, path: str) -> None:
        """The outcome of a create is known, or its znode is not wanted any more."""

    def _note_lost(self, path: str, session_id: int, since: int) -> None:
        """The answer to a create was lost."""

    def _lost_create_looked(self) -> None:
        """A lost create was looked for once, and deleted if it was there."""

    def _lost_create_over(self) -> None:
        """A lost create that nobody wants has left nothing behind."""

    # --- notifications for subclasses ------------------------------------------------------------

    def _rouse(self) -> None:
        """Others deleted the znode."""

    def _watch_ended(self) -> None:
        """The watch on the znode ended with its session, or by an error."""

    def _saw(self, data: bytes) -> None:
        """The znode's data was read."""

    # --- creating --------------------------------------------------------------------------------

    def create(self) -> Reply[Created]:
        """Send the create. The answer is recorded even if nobody awaits it."""
        session_id = self._client.session_id
        path, mode = self._next_name(session_id)
        session_id = self._create_session = session_id if mode.is_ephemeral else 0
        self._create_path = path
        since = self._client.backend.last_zxid
        try:
            create = self._creating = self._send_create(path, mode)
        except BaseException:
            self._creating = None
            self._settle_name(path)  # nothing was sent
            raise
        create.add_done_callback(partial(self._created, create, path, session_id, since))
        return create

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        return self._client.create(path, self._data, mode=mode, acl=self._acl)

    def _created(self, create: Reply[Created], path: str, session_id: int, since: int) -> None:
        """Process the answer to a create: in the client's task, before any later answer."""
        wanted = self._creating is create
        error = create.error()
        if error is None:
            node = self._claim_created(create, session_id, since)
            self._settle_name(path)
            if wanted:
                self._creating = None
                self._create_path = ""
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
        """Adopt a znode that is proven to be ours; call it as the answer arrives that shows it."""
        self._node = self._claim_found(created, created.stat.ephemeral_owner)

    def _claim_found(self, created: Created, session_id: int) -> RegisteredNode:
        """Record a znode as ours that a lost create has made."""
        return self._claim(created, session_id)

    def _adopt(self, create: Reply[Created], path: str, created: Created) -> None:
        """Adopt the znode of a lost create, unless that was given up meanwhile."""
        if self._creating is create:
            self._creating = None
            self.take(created)
            self._settle_name(path)

    async def resolve(self) -> bool:
        """Find out what became of a lost create; return whether there is a znode.

        Raises `ConnectionLossError` or `SessionExpiredError` if that is still unknown.
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
        if create is not None and self._creating is create:
            session_id = self._create_session
            if self._is_over(session_id):
                self._settle_name(path)
            else:
                await self._find(path, session_id, partial(self._adopt, create, path))
                if self._creating is create:
                    # It may still be on its way; if it turns up later, it is not wanted any more.
                    self._delete_lost_later(path, session_id, already_looked=True)
            self._creating = None
        return self._node is not None

    def _delete_lost_later(
        self, path: str, session_id: int, *, already_looked: bool = False
    ) -> None:
        job = partial(self._delete_lost, path, session_id, already_looked=already_looked)
        self._client.backend.spawn(partial(in_background, path, job))
        self._settle_name(path)

    async def _delete_lost(self, path: str, session_id: int, *, already_looked: bool) -> None:
        """Delete the znode of a lost create that nobody wants; raise a refusal.

        A create on a connection that was given up may be applied after the first look, so another
        look follows after the session timeout. (If it is applied even later, our next contender
        that would have to wait for it finds it.) `already_looked` says that the first look found
        nothing.
        """
        client, was_found = self._client, False

        async def find_and_delete() -> bool:
            """Return False if the session is over."""
            nonlocal was_found
            found: list[RegisteredNode] = []

            def claim(created: Created) -> None:
                found.append(self._claim_found(created, session_id))

            async def find() -> None:
                await self._find(path, session_id, claim)

            try:
                is_alive = await until_done(client, session_id, find)
                for node in found:
                    was_found = True
                    await self._delete_until_gone(client, node)
            finally:
                for node in found:
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
                await until_sole(client)
                await find_and_delete()
        finally:
            self._lost_create_over()

    # --- watching --------------------------------------------------------------------------------

    def seen_gone(self) -> None:
        """Note that an answer showed it gone: what is at its path now is not ours."""
        self._gone = True

    def watch(self) -> None:
        """Watch for its deletion by others, unless it is watched already."""
        if self._watch is None:
            self._send_look()

    def unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _make_watch(self) -> Watch:
        watch = self._watch = self._client.backend.make_watch(self._on_watch)
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
            # Another znode may be at that path: created again, or restored.
            gone = stat.czxid != node.token
            if not gone:
                self._saw(data)
        else:
            gone = isinstance(error, NoNodeError)
            if action_for(error, Step.FOLLOW) is Action.PAUSE:
                self.unwatch()  # it was not armed
                self._client.backend.spawn(partial(self._watch_later, node, error), self._unwatched)
        if gone:
            self._lost()

    async def _watch_later(self, node: RegisteredNode, error: AioleadError) -> None:
        await anyio.sleep(pause(self._client, error))
        if node is self._node and not self._gone:
            self.watch()

    def _unwatched(self, error: AioleadError | None) -> None:
        """The watch failed, and without it nothing is held."""
        if error is None or error.session_over or self._node is None:
            return
        self.unwatch()
        self._watch_ended()
        if self._hold is not None:
            self._hold.lose(LossReason.INTERNAL)

    def _on_watch(self, event: WatchEvent) -> None:
        try:
            self._on_event(event)
        except Exception as error:
            self._unwatched(internal_error(error, self._on_event))

    def _on_event(self, event: WatchEvent) -> None:
        self._watch = None
        if event.type is EventType.DELETED:
            self._lost()
        elif event.type is EventType.NONE or self._node is None:
            self._watch_ended()
        else:
            self.watch()

    async def looked_at(self) -> None:
        """Wait for the last look at it; no checkpoint if that was answered."""
        while self._look is not None:
            with suppress(NoNodeError):
                await self._look

    def _lost(self) -> None:
        self._gone = True
        self._rouse()
        if self._hold is not None:
            self._hold.lose(LossReason.DELETED)

    # --- holding ---------------------------------------------------------------------------------

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        self._holder = holder
        return self._begin_hold(self.node.path, options)

    def _begin_hold(self, path: str, options: HoldOptions) -> Hold:
        hold = self._hold = self._client.backend.lease.hold(
            path,
            self._hold_lost,
            settled=self._hold_settled,
            urgent=options["urgent"],
            resign_on_disconnect=options["resign_on_disconnect"],
        )
        return hold

    def _hold_lost(self, reason: LossReason) -> None:
        self._gone = self._gone or reason is LossReason.DELETED
        if self._holder is not None:
            self._holder._lose(reason)

    def _hold_settled(self) -> None:
        """Watch it, now that the lease of the hold is proven for the first time."""
        if self._node is not None:
            self.watch()

    # --- leaving ---------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Abandon the znode for good; synchronous. Return its pending delete, if there is one."""
        # The tenure refers to us, too: a reference cycle would wait for the garbage collector.
        self._hold = self._holder = None
        return self.withdraw()

    def withdraw(self) -> Departure | None:
        """As `discard`, but another znode may be created afterwards."""
        create, self._creating = self._creating, None
        if create is not None and create.is_done:
            self._delete_lost_later(self._create_path, self._create_session)
        node, self._node = self._node, None
        watch, self._watch = self._watch, None
        if node is None:
            return None
        if self._gone or node.session_id not in (0, self._client.session_id):
            # A znode at that path may belong to another client by now.
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
            # The delete fires the watch; only a failed one leaves it behind.
            delete.add_done_callback(watch.close)
        later = partial(self._delete_until_gone, client, node)
        return PendingDelete(client, node.path, delete, later, partial(self._unclaim, node))

    def _send_delete(self, node: RegisteredNode) -> Reply[None]:
        return self._client.delete(node.path)

    @classmethod
    async def _delete_until_gone(cls, client: CoordinationClient, node: RegisteredNode) -> None:
        """Delete a znode over as many connections as it takes, while it can be ours."""
        await until_done(client, node.session_id, partial(cls._delete_if_ours, client, node))
