"""The life of a znode of ours: one mechanism for all recipes.

The znode exists exactly as long as its owner wants it, whatever is cancelled or lost:

* The answer to the create is recorded synchronously, even if nobody awaits it.
* A *lost create* (its answer was lost) is looked for, and never sent again before that.
* `withdraw` queues the delete before it returns. A znode that cannot be deleted at once becomes a
  pending delete of the client; it ends with the znode, with the session, or with a reported
  refusal.
* The znode may be watched: the observer is notified when others delete it.

docs/explanation/ephemeral-znodes.md has the table of states. `naming` knows how the znode is named,
found and deleted, and what proves that it is ours. `errors` decides about errors of servers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypedDict, TypeVar, final

import anyio

from .._util.internal_errors import contained, internal_error
from ..abc import CoordinationClient, Hold, Reply, Watch
from ..errors import AioleadError, LossReason, NoNodeError
from ..model import ACL, Created, EventType, SessionState, Stat, WatchEvent
from .errors import Action, Step, action_for, in_background, may_be_applied, pause, until_done
from .naming import Departure, Naming, RegisteredNode, delete_until_gone, until_sole

R = TypeVar("R")


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


class ZnodeObserver(Protocol):
    """The owner of a znode, which learns what happens to it; all calls are synchronous."""

    def znode_gone(self) -> None:
        """Others have deleted the znode."""
        ...

    def watch_ended(self) -> None:
        """The watch on the znode has ended with its session, or by an error."""
        ...

    def data_seen(self, data: bytes) -> None:
        """The znode's data was read: others may have set it, to ask for a release."""
        ...


class NodeGone(Exception):
    """Our znode is gone. Never leaves the recipes."""


class ZnodeState(enum.Enum):
    """The knowledge about our znode; docs/explanation/ephemeral-znodes.md has the transitions."""

    ABSENT = "absent"
    CREATING = "creating"
    UNRESOLVED = "unresolved"
    PRESENT = "present"
    GONE = "gone"


@final
class Znode:
    """One znode of this client.

    `observer` is None if it is never watched. `data` and `acl` are those of the next create.
    """

    # There may be thousands, and memory is most of what each costs.
    __slots__ = (
        "_acl",
        "_client",
        "_create_path",
        "_create_session",
        "_creating",
        "_finding",
        "_hold",
        "_holder",
        "_naming",
        "_observer",
        "_on_over",
        "_uses",
        "_watch",
        "current",
        "data",
        "is_asked_for",
        "is_gone",
        "look",
    )

    def __init__(
        self,
        client: CoordinationClient,
        naming: Naming,
        data: bytes,
        acl: Sequence[ACL] | None,
        observer: ZnodeObserver | None,
    ) -> None:
        self._client = client
        self._naming = naming
        self.data: bytes = data
        self._acl = acl
        self._observer = observer
        self.current: RegisteredNode | None = None
        """The znode; None while there is none, as far as it is known."""
        self.is_gone: bool = False
        """Whether `current` is known to be gone."""
        self.is_asked_for: bool = False
        """Whether others ask for a release, which only an observer knows: see `ask_holder`."""
        self.look: Reply[tuple[bytes, Stat]] | None = None
        """The last look at it, until that is answered."""
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._create_path = ""
        self._finding: Reply[Any] | None = None
        """The look that may show that an existing znode is ours."""
        self._watch: Watch | None = None
        self._hold: Hold | None = None
        self._holder: Holder | None = None
        self._uses = 0
        """Unanswered creates, znodes of ours, and searches for lost creates."""
        self._on_over: Callable[[], object] | None = None

    @property
    def node(self) -> RegisteredNode:
        """The znode; only valid while there is one."""
        if self.current is None:
            raise AssertionError("there is no znode")
        return self.current

    @property
    def state(self) -> ZnodeState:
        if self.current is not None:
            gone = self.is_gone or self._is_over(self.current.session_id)
            return ZnodeState.GONE if gone else ZnodeState.PRESENT
        if self._creating is None:
            return ZnodeState.ABSENT
        return ZnodeState.UNRESOLVED if self._creating.is_done else ZnodeState.CREATING

    def check(self) -> None:
        """Raise `NodeGone` if the znode is known to be gone, or its session is over."""
        node = self.current
        assert node is not None, "there is no znode"
        if self.is_gone or node.session_id not in (0, self._client.session_id):
            raise NodeGone

    def _is_over(self, session_id: int) -> bool:
        return session_id not in (0, self._client.session_id)

    # --- creating --------------------------------------------------------------------------------

    def create(self) -> Reply[Created]:
        """Send the create. The answer is recorded even if nobody awaits it."""
        session_id, since = self._client.session_id, self._client.backend.last_zxid
        create, path, mode = self._naming.send_create(session_id, self.data, self._acl)
        is_early = mode.is_ephemeral and not session_id
        session_id = self._create_session = session_id if mode.is_ephemeral else 0
        self._creating, self._create_path = create, path
        self._uses += 1
        created = partial(self._created, create, path, session_id, since, is_early)
        create.add_done_callback(created)
        return create

    def _created(
        self, create: Reply[Created], path: str, session_id: int, since: int, is_early: bool
    ) -> None:
        """Process the answer to a create: in the client's task, before any later answer.

        `is_early`: it was made for a session that had not begun yet.
        """
        wanted = self._creating is create
        error = create.error()
        if error is None:
            node = self._naming.claim(create.result(), session_id, since)
            self._uses += 1
            self._naming.settle(path)
            if wanted:
                self._creating = None
                self._create_path = ""
                self.current = node
            else:
                self._naming.delete(node, self.data, None, self.unclaim)
        elif may_be_applied(error):
            if is_early:
                # It was sent in the session that has begun since, whose connection was lost.
                session_id = self._client.session_id
                if wanted:
                    self._create_session = session_id
            self._naming.note_lost(path, session_id, since)
            if not wanted:  # else that is settled by `resolve`, or `withdraw`
                self._delete_lost_later(path, session_id)
        else:
            self._naming.settle(path)
            if wanted:
                self._creating = None
        self._uses -= 1
        if self._on_over is not None:
            self._check_over()

    def take(self, created: Created) -> None:
        """Adopt a znode that is proven to be ours; call it as the answer arrives that shows it."""
        self.current = self._claim_found(created, created.stat.ephemeral_owner)

    def replace(self, node: RegisteredNode) -> None:
        """More is known about the znode by now, such as its czxid."""
        self.current = node

    def _claim_found(self, created: Created, session_id: int) -> RegisteredNode:
        node = self._naming.claim(created, session_id)
        self._uses += 1
        return node

    def unclaim(self, node: RegisteredNode) -> None:
        """Remove the record of a znode that is gone."""
        self._naming.unclaim(node)
        self._uses -= 1
        if self._on_over is not None:
            self._check_over()

    def _adopt(self, create: Reply[Created], path: str, created: Created) -> None:
        """Adopt the znode of a lost create, unless that was given up meanwhile."""
        if self._creating is create and self._naming.may_adopt():
            self._creating = None
            self.take(created)
            self._naming.settle(path)

    async def resolve(self) -> bool:
        """Find out what became of a lost create; return whether there is a znode.

        Raises `ConnectionLossError` or `SessionExpiredError` if that is still unknown.
        """
        if self.current is not None and self._is_over(self.current.session_id):
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
                self._naming.settle(path)
            else:
                await self._find(path, session_id, partial(self._adopt, create, path))
                if self._creating is create:
                    # It may still be on its way; if it turns up later, it is not wanted any more.
                    self._delete_lost_later(path, session_id, already_looked=True)
            self._creating = None
        return self.current is not None

    async def found_lost(self) -> bool:
        """Wait for a connection; return whether a lost create has left a znode."""
        if self._client.state is not SessionState.CONNECTED:
            await self._client.ready()
        is_absent = self.current is None and self._creating is None
        return not is_absent and await self.resolve()

    async def _find(self, path: str, session_id: int, found: Callable[[Created], object]) -> None:
        await self._naming.find(path, session_id, self.data, found)

    def _delete_lost_later(
        self, path: str, session_id: int, *, already_looked: bool = False
    ) -> None:
        self._uses += 1
        job = partial(self._delete_lost, path, session_id, already_looked=already_looked)
        self._client.backend.spawn(partial(in_background, path, job))
        self._naming.settle(path)

    async def _delete_lost(self, path: str, session_id: int, *, already_looked: bool) -> None:
        """Delete the znode of a lost create that nobody wants; raise a refusal.

        A create on a connection that was given up may be applied after the first look, so another
        look follows after the session timeout. (If it is applied even later, our next contender
        that would have to wait for it finds it.) `already_looked` says that the first look found
        nothing.
        """
        client, was_found = self._client, False
        is_late_awaited = self._naming.is_late_create_awaited

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
                    await delete_until_gone(client, self._naming, node)
            finally:
                for node in found:
                    self.unclaim(node)
            return is_alive

        try:
            is_alive = True
            try:
                if not already_looked:
                    is_alive = await find_and_delete()
            finally:
                if not is_late_awaited:
                    self._one_use_less()
            if is_alive and not was_found:
                await anyio.sleep(client.session_timeout)
                await until_sole(client)
                await find_and_delete()
        finally:
            if is_late_awaited:
                self._one_use_less()

    # --- whether an existing znode is ours -------------------------------------------------------

    def find_by(self, look: Reply[R], judge: Callable[[R], object]) -> None:
        """Call `judge` with what a look shows, as its answer arrives; not after `withdraw`."""
        self._finding = look
        look.add_done_callback(partial(self._find_answered, look, judge))

    def _find_answered(self, look: Reply[R], judge: Callable[[R], object]) -> None:
        if self._finding is not look:
            return  # given up meanwhile
        self._finding = None
        if look.error() is None:
            judge(look.result())

    # --- whether anything is left of it ----------------------------------------------------------

    def when_over(self, call: Callable[[], object]) -> None:
        """Register a callback for when no znode of ours is there, nor may come.

        Called synchronously, perhaps at once. Register it only after giving the znode up.
        """
        self._on_over = call
        self._check_over()

    def _one_use_less(self) -> None:
        self._uses -= 1
        self._check_over()

    def _check_over(self) -> None:
        call = self._on_over
        if call is not None and not self._uses:
            self._on_over = None
            call()

    # --- watching --------------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        return self._watch is not None

    def seen_gone(self) -> None:
        """Note that an answer showed it gone: what is at its path now is not ours."""
        self.is_gone = True

    def watch(self) -> None:
        """Watch for its deletion by others, unless it is watched already."""
        if self._watch is None:
            self.send_look()

    def unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def send_look(self) -> Reply[tuple[bytes, Stat]]:
        """Read and watch it; the answer is processed even if nobody awaits it."""
        node = self.node
        watch = self._watch = self._client.backend.make_watch(self._on_watch)
        look = self.look = self._client.get(node.path, watch=watch)
        look.add_done_callback(contained(partial(self._seen, node, look), self._unwatched))
        return look

    def _seen(self, node: RegisteredNode, look: Reply[tuple[bytes, Stat]]) -> None:
        if self.look is look:
            self.look = None
        if node is not self.current:
            return
        error = look.error()
        if error is None:
            data, stat = look.result()
            # Another znode may be at that path: created again, or restored.
            gone = stat.czxid != node.token
            if not gone and self._observer is not None:
                self._observer.data_seen(data)
        else:
            gone = isinstance(error, NoNodeError)
            if action_for(error, Step.FOLLOW) is Action.PAUSE:
                self.unwatch()  # it was not armed
                self._client.backend.spawn(partial(self._watch_later, node, error), self._unwatched)
        if gone:
            self.lost()

    async def _watch_later(self, node: RegisteredNode, error: AioleadError) -> None:
        await anyio.sleep(pause(self._client, error))
        if node is self.current and not self.is_gone:
            self.watch()

    def _unwatched(self, error: AioleadError | None) -> None:
        """The watch failed, and without it nothing is held."""
        if error is None or error.session_over or self.current is None:
            return
        self.unwatch()
        self._report_watch_ended()
        self.lose_hold(LossReason.INTERNAL)

    def _report_watch_ended(self) -> None:
        if self._observer is not None:
            self._observer.watch_ended()

    def _on_watch(self, event: WatchEvent) -> None:
        try:
            self._on_event(event)
        except Exception as error:
            self._unwatched(internal_error(error, self._on_event))

    def _on_event(self, event: WatchEvent) -> None:
        node = self.current
        if event.type is not EventType.NONE and (node is None or event.path != node.path):
            return  # it concerns a znode that was withdrawn, whose delete is not answered yet
        self._watch = None
        if event.type is EventType.DELETED:
            self.lost()
        elif event.type is EventType.NONE or self.current is None:
            self._report_watch_ended()
        else:
            self.watch()

    async def looked_at(self) -> None:
        """Wait for the last look at it; no checkpoint if that was answered."""
        while self.look is not None:
            with suppress(NoNodeError):
                await self.look

    def lost(self) -> None:
        """A server has shown that it is gone: its hold is lost."""
        self.is_gone = True
        if self._observer is not None:
            self._observer.znode_gone()
        self.lose_hold(LossReason.DELETED)

    # --- holding ---------------------------------------------------------------------------------

    def hold(self, holder: Holder, options: HoldOptions) -> None:
        """Hold it under the lease, until `discard`."""
        self._holder = holder
        self._hold = self._client.backend.lease.hold(self.node.path, self, **options)

    def lose_hold(self, reason: LossReason) -> None:
        """End its hold against the holder's will, if it has one that is not over yet."""
        if self._hold is not None:
            self._hold.lose(reason)

    def ask_holder(self) -> None:
        """Others ask the holder for a release: the present one, or the next."""
        self.is_asked_for = True
        if self._holder is not None:
            self._holder._ask_for()

    def hold_lost(self, reason: LossReason) -> None:
        self.is_gone = self.is_gone or reason is LossReason.DELETED
        if self._holder is not None:
            self._holder._lose(reason)

    def hold_settled(self) -> None:
        """Watch it, now that the lease of the hold is proven for the first time."""
        if self.current is not None:
            self.watch()

    # --- leaving ---------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Abandon the znode for good, and release its hold; synchronous.

        Return its pending delete, if there is one.
        """
        # They refer to us, too: a reference cycle would wait for the garbage collector.
        hold, self._hold = self._hold, None
        self._holder = self._observer = None
        departure = self.withdraw()
        if hold is not None:
            hold.release()
        return departure

    def withdraw(self) -> Departure | None:
        """As `discard`, but another znode may be created afterwards."""
        self._finding = None
        create, self._creating = self._creating, None
        if create is not None and create.is_done:
            self._delete_lost_later(self._create_path, self._create_session)
        node, self.current = self.current, None
        watch, self._watch = self._watch, None
        if node is None:
            return None
        if self.is_gone or node.session_id not in (0, self._client.session_id):
            # A znode at that path may belong to another client by now.
            self.is_gone = False
            self.unclaim(node)
            if watch is not None:
                watch.close()
            return None
        return self._naming.delete(node, self.data, watch, self.unclaim)

    def forget(self) -> None:
        """Give up a znode that is gone, without a request."""
        self.unwatch()
        node, self.current = self.current, None
        if node is not None:
            self.unclaim(node)
        self.look = None
        self.is_gone = False
        self.is_asked_for = False
