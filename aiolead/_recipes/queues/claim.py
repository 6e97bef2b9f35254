"""The life of one claim: the ephemeral znode that says who works on an item.

    (nothing) ──reserve──> asked for ──> ours ──discard, or done with──> (nothing)
                   │            └── taken, or the item is gone: the next item
                   └── nothing to claim: wait

To claim is one transaction, that the item exists and the claim does not, and two reads behind it,
all in one segment. So nobody claims what is gone, and one round trip brings the item.

Its name is given back to the backlog when the znode is known to be gone, whatever is cancelled or
cut when: no two consumers of a client ever work for the same name, so a znode of that name which
our session owns is that of the claim. (Where the session is shared: see `ownership`.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from ..._internal_errors import contained
from ...abc import CoordinationClient, Hold, Reply, Watch
from ...errors import (
    AioleadError,
    ConnectionLossError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    Outcome,
    TransactionError,
)
from ...model import CreateMode, EventType, SessionState, Stat, WatchEvent
from ...paths import basename, join
from ..catching_up import catch_up
from ..deletion import Deletion, Departure
from ..error_policy import (
    Action,
    Step,
    action_for,
    before_next_try,
    in_background,
    may_be_applied,
    pause,
    until_done,
)
from ..line import Node
from ..ownership import is_shared, now
from .backlog import PATH_TRIES, Backlog

Decode = Callable[[bytes], tuple[bytes, ...]]
"""The parts of an item; raises ValueError for what is none."""


class _Gone(Exception):
    """Our claim is not there any more. Never leaves this module."""


class Claim:
    """One try at claiming an item: the first one that can be had. A `Candidate`.

    Args:
        client: the session.
        backlog: the items.
        data: what our znode holds.
        decode: makes parts of an item's bytes.
    """

    def __init__(
        self, client: CoordinationClient, backlog: Backlog, data: bytes, decode: Decode
    ) -> None:
        self.backlog = backlog
        self.parts: tuple[bytes, ...] = ()
        """The item's; only once it is ours."""
        self._client = client
        self._data = data
        self._decode = decode
        self._name: str | None = None  # what is reserved for us
        self._session_id = 0  # in which we have asked for it
        self._creating: Reply[object] | None = None
        self._is_ours = False
        self._is_doubtful = False  # whether an answer was lost since
        self._sent_at = 0  # what the newest transaction was as we first asked for it
        self._node: Node | None = None
        self._discarded = False
        self._looks = backlog.looks
        self._own_watch: Watch | None = None
        self._own_gone = False
        self._on_own_gone: Callable[[LossReason], object] | None = None
        backlog.enter()

    @property
    def node(self) -> Node:
        """Our znode. Only once it is held."""
        if self._node is None:
            raise AssertionError("there is no claim")
        return self._node

    @property
    def item(self) -> str:
        """The path of the item. Only while there is one."""
        return join(self.backlog.items, self.name)

    @property
    def name(self) -> str:
        """The name of the item, and of our znode. Only while there is one."""
        if self._name is None:
            raise AssertionError("nothing is claimed")
        return self._name

    @property
    def _path(self) -> str:
        return join(self.backlog.claims, self.name)

    # --- claiming --------------------------------------------------------------------------------

    async def reach_front(self) -> bool:
        """Waits until an item is ours, with a lease that lasts for a while; gives True.

        There is no checkpoint between the decision that it is and the return.

        Raises:
            ServerError: what the server says, such as `NoAuthError`.
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: leaves the claim as it is; `discard` it.

        On connection loss: goes on; after an expired session, with whatever item is first then.
        """
        return await self._persist(self._claim_any)

    async def try_front(self) -> bool:
        """Claims an item if there is one, without waiting for any.

        Raises, cancellation: as for `reach_front`.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(self._claim_present)
        raise ConnectionLossError(
            f"no server was reached for {self._client.session_timeout:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )

    async def _persist(self, attempt: Callable[[], Awaitable[bool]]) -> bool:
        client = self._client
        while True:
            try:
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                if self._name is not None and self._session_id != client.session_id:
                    self._forget()
                if not await attempt():
                    return False
                await self._await_lease()
            except _Gone:
                self._forget()
            except AioleadError as error:
                if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                    self._forget()
                else:
                    await before_next_try(client, error, Step.ACQUIRE)
            else:
                return True

    async def _claim_any(self) -> bool:
        while not await self._claim_present():
            await self.backlog.wait()
        return True

    async def _claim_present(self) -> bool:
        """Claims the first of the items that are there; False if none can be had."""
        backlog = self.backlog
        if self._name is not None and await self._claim():
            return True
        is_old = backlog.looks == self._looks
        if (is_old and backlog.is_contended) or (backlog.naming.is_strict and backlog.is_stale):
            await backlog.look()
        while True:
            name = backlog.pop()
            if name is None:
                if not backlog.is_stale:
                    return False
                await backlog.look()
                continue
            self._name = name
            if await self._claim():
                return True
            if backlog.looks == self._looks:
                # By an old list: what comes next on it is probably gone as well.
                await backlog.look()

    async def _claim(self) -> bool:
        """Claims the item that is reserved for us, and reads it; False if it is not to be had."""
        for _ in range(PATH_TRIES):
            if self._creating is not None:
                await self._resolve()
            asked = None if self._is_ours else self._ask()
            look, read = self._client.exists(self._path), self._client.get(self.item)
            if asked is not None:
                try:
                    await asked
                except TransactionError as error:
                    if self._name is None:
                        return False
                    if _is_parent_missing(error):
                        await self.backlog.make_claims()
                        continue
                    if not isinstance(error.cause, NodeExistsError):
                        raise error.cause from None
                    if not self._is_owned(await look):
                        self._not_ours()
                        return False
                    self._is_ours = True  # by an answer that was lost
            stat = await look
            if stat is None or not self._is_owned(stat):
                raise _Gone
            try:
                body, of_item = await read
            except NoNodeError:
                self._drop()  # somebody has deleted the item by hand
                return False
            return self._has(stat, body, of_item.version)
        raise ConnectionLossError(
            f"{self.backlog.claims} is deleted as soon as it is made",
            outcome=Outcome.NOT_APPLIED,
        )

    def _ask(self) -> Reply[object]:
        client = self._client
        self._session_id = client.session_id
        if not self._is_doubtful:
            self._sent_at = now(client)
        transaction = client.transaction().check(self.item)
        transaction.create(self._path, self._data, mode=CreateMode.EPHEMERAL, acl=self.backlog.acl)
        creating = self._creating = transaction.commit()
        creating.add_done_callback(partial(self._asked, creating))
        return creating

    def _asked(self, creating: Reply[object]) -> None:
        """The answer is there: in the client's task, before anything after it."""
        if self._creating is not creating:
            return
        error = creating.error()
        if may_be_applied(error):
            self._is_doubtful = True  # not settled yet
        else:
            self._creating = None
            if error is None:
                self._is_ours = True
            elif isinstance(error, TransactionError) and self._says_no(error):
                self._not_ours()
        if self._discarded:
            self._drop()

    def _says_no(self, error: TransactionError) -> bool:
        """Whether an answer means that the item is not to be had."""
        if _is_parent_missing(error):
            return False
        # A claim that is there already may be our own, if an answer was lost before.
        taken = isinstance(error.cause, NodeExistsError) and not self._is_doubtful
        return taken or isinstance(error.cause, NoNodeError)

    async def _resolve(self) -> None:
        """Finds out what became of a create whose answer was lost."""
        client = self._client
        await catch_up(client, self.backlog.items)
        look = client.exists(self._path)
        self._is_ours = self._is_owned(await look)
        self._creating = None

    def _is_owned(self, stat: Stat | None) -> bool:
        if stat is None or stat.ephemeral_owner != self._session_id:
            return False
        if not is_shared(self._client) or self._is_ours:
            return True
        return self._is_doubtful and stat.czxid > self._sent_at

    def _not_ours(self) -> None:
        name, self._name = self.name, None
        self._is_doubtful = False
        self.backlog.taken(name)

    def _has(self, stat: Stat, body: bytes, version: int) -> bool:
        """The item is ours; False if it makes no sense."""
        name, backlog = self.name, self.backlog
        key = backlog.naming.key(name)
        assert key is not None
        self._node = Node(self._path, key[1], stat.czxid, stat.ephemeral_owner)
        try:
            self.parts = self._decode(body)
        except ValueError as error:
            backlog.invalid(name, version, error)
            self._drop()
            return False
        return True

    async def _await_lease(self) -> None:
        """Waits until enough is left of the lease to begin with; see `Contender._await_lease`.

        Our claim was the first write; another one proves the session if that is needed.

        Raises:
            _Gone: our znode is not there any more.
        """
        client, writes = self._client, 1
        while not client.lease.is_enough():
            if writes >= 2:
                await anyio.sleep(client.session_timeout / 32)
            self._check_own()
            try:
                await client.check(self.node.path)
            except NoNodeError:
                raise _Gone from None
            writes += 1
        self._check_own()

    def _check_own(self) -> None:
        if self._own_gone or self.node.session_id != self._client.session_id:
            raise _Gone

    # --- holding ---------------------------------------------------------------------------------

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, surrender: bool) -> Hold:
        """Registers our claim as held; to be called right after `reach_front`.

        Args:
            lost: called once, synchronously, when the hold is over without our doing.
            urgent: whether the lease is renewed at once.
            surrender: whether a lost link ends the hold.
        """

        def on_lost(reason: LossReason) -> None:
            self._own_gone = self._own_gone or reason is LossReason.DELETED
            lost(reason)

        hold = self._client.lease.hold(
            self.node.path, on_lost, settled=self._watch_own, urgent=urgent, surrender=surrender
        )
        self._on_own_gone = hold.lose
        return hold

    def _watch_own(self) -> None:
        """Has the deletion of our claim by others reported."""
        node = self._node
        if node is None:
            return
        self._own_watch = self._client.make_watch(contained(self._on_own, self._own_unwatched))
        look = self._client.exists(node.path, watch=self._own_watch)
        seen = partial(self._own_seen, node, look)
        look.add_done_callback(contained(seen, self._own_unwatched))

    def _own_seen(self, node: Node, look: Reply[Stat | None]) -> None:
        if node is not self._node:
            return
        error = look.error()
        if error is not None:
            if action_for(error, Step.ACQUIRE) is Action.PAUSE:
                self._close_own_watch()  # it was not armed
                later = partial(self._watch_own_later, node)
                self._client.spawn(later, self._own_unwatched)
            return
        stat = look.result()
        if stat is None or stat.czxid != node.token:
            self._lost_own()

    async def _watch_own_later(self, node: Node) -> None:
        await anyio.sleep(pause(self._client))
        if node is self._node and self._own_watch is None:
            self._watch_own()

    def _own_unwatched(self, error: AioleadError | None) -> None:
        """Our claim is not watched, if there was an error: nothing is held without that."""
        if error is None or error.session_over or self._node is None:
            return
        self._close_own_watch()
        if self._on_own_gone is not None:
            self._on_own_gone(LossReason.INTERNAL)

    def _on_own(self, event: WatchEvent) -> None:
        self._own_watch = None
        if event.type is EventType.DELETED:
            self._lost_own()
        elif event.type is EventType.DATA_CHANGED:
            self._watch_own()

    def _lost_own(self) -> None:
        self._own_gone = True
        if self._on_own_gone is not None:
            self._on_own_gone(LossReason.DELETED)

    # --- ending ----------------------------------------------------------------------------------

    def done(self) -> None:
        """The item and our claim are gone together, by our own transaction."""
        name = self._name
        self._reset()
        if name is not None:
            self.backlog.vanished(name)

    def discard(self) -> Departure | None:
        """Gives the item back, if it is ours. Synchronous: the rest is the client's work.

        Returns:
            That our znode goes, to wait for; None if there is none to delete.
        """
        if not self._discarded:
            self._discarded = True
            self._on_own_gone = None
            self.backlog.leave()
        return self._drop()

    def _drop(self) -> Departure | None:
        name, node = self._name, self._node
        if name is None:
            return None
        creating = self._creating
        if creating is not None and not creating.is_done:
            return None  # `_asked` goes on with it
        path, client, backlog = self._path, self._client, self.backlog
        session_id = self._session_id
        is_over = session_id != client.session_id
        in_doubt = creating is not None or self._is_doubtful
        is_ours, since = self._is_ours, self._sent_at
        self._reset()
        if is_over or (node is not None and self._own_gone):
            backlog.free(name)
        elif is_ours:
            debt = partial(
                _delete_if_ours, client, backlog, path, session_id, since, may_come=False
            )
            return Deletion(client, path, client.delete(path), debt, partial(backlog.free, name))
        elif in_doubt:
            client.spawn(partial(_pay, client, backlog, path, session_id, since))
        else:
            backlog.free(name)
        return None

    def _forget(self) -> None:
        """The session is over, or our claim was deleted: nothing is left to delete."""
        name = self._name
        self._reset()
        self._own_gone = False
        if name is not None:
            self.backlog.free(name)

    def _reset(self) -> None:
        self._name = self._node = self._creating = None
        self._is_ours = self._is_doubtful = False
        self._close_own_watch()

    def _close_own_watch(self) -> None:
        watch, self._own_watch = self._own_watch, None
        if watch is not None:
            watch.close()


def _is_parent_missing(error: TransactionError) -> bool:
    return error.index == 1 and isinstance(error.cause, NoNodeError)


async def _pay(
    client: CoordinationClient, backlog: Backlog, path: str, session_id: int, since: int
) -> None:
    """Pays the debt of a claim whose create is in doubt, and that nobody wants."""
    job = partial(_delete_if_ours, client, backlog, path, session_id, since, may_come=True)
    try:
        await in_background(path, job)
    finally:
        backlog.free(basename(path))


async def _delete_if_ours(
    client: CoordinationClient,
    backlog: Backlog,
    path: str,
    session_id: int,
    since: int,
    *,
    may_come: bool,
) -> None:
    """Deletes a claim, over as many connections as it takes, while it can be ours.

    Args:
        client: whose session it is.
        backlog: where it belongs.
        path: of the claim.
        session_id: the session; once it is over there is no debt.
        since: the newest transaction that was known as it was asked for: see `ownership`.
        may_come: whether the claim may not be there yet: that the answer to its create was lost. A
            request may be applied long after we gave up its connection, so there are two looks, a
            session timeout apart.

    Raises:
        AioleadError: it was refused.
    """
    was_there = False

    async def delete() -> None:
        nonlocal was_there
        # The name says nothing: once ours is gone, the claim at this path is somebody else's.
        await catch_up(client, backlog.items)
        stat = await client.exists(path)
        if stat is not None and stat.ephemeral_owner == session_id and stat.czxid > since:
            was_there = True
            await client.delete(path)

    if await until_done(client, session_id, delete) and may_come and not was_there:
        await anyio.sleep(client.session_timeout)
        await until_done(client, session_id, delete)
