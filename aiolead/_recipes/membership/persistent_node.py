"""A znode that exists as long as a block."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, final

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import (
    AcquireTimeout,
    AioleadError,
    ConfigurationError,
    ReleaseError,
    UsageError,
)
from ...model import ACL, CreateMode, SessionState
from .._core.arguments import checked_acl, checked_client, checked_data, checked_path, checked_wait
from .._core.error_policy import log_refusal
from .znode_keeper import ZnodeKeeper

MODES = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT)


@dataclass(frozen=True, slots=True)
class NodeState:
    """Whether a kept znode is there.

    Attributes:
        is_present: whether it is, as far as we know: not while the link is lost.
        path: where; None while a sequential one has no number yet.
        czxid: the transaction that created it; None while it is not there, as far as we know.
        session_id: the session that owns it; 0 if it is not there, or persistent.
    """

    is_present: bool
    path: str | None
    czxid: int | None
    session_id: int


class KeptNode(AsyncIterable[NodeState]):
    """What everything has whose znode exists as long as a block. See `PersistentNode`."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.EPHEMERAL,
        restore: bool = True,
        timeout: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._client = checked_client(client)
        self._prefix = checked_path(path)
        self._first = checked_data(data)
        if mode not in MODES:
            allowed = ", ".join(each.name for each in MODES)
            raise ConfigurationError(f"mode: must be one of {allowed}, not {mode!r}")
        self._mode = mode
        self._restore = restore
        self._wait = checked_wait(timeout)
        self._acl = checked_acl(acl)
        self._entered = False
        self._keeper: ZnodeKeeper | None = None
        self._scope = anyio.CancelScope()
        self._is_inside = False
        self._error: AioleadError | None = None
        self._count = 0
        self._state = NodeState(False, None, None, 0)
        self._news = anyio.Event()

    def __repr__(self) -> str:
        there = "present" if self.is_present else "not present"
        return f"<{type(self).__name__} {self._state.path or self._prefix}, {there}>"

    @property
    def path(self) -> str:
        """The znode. A sequential one keeps its number, unless somebody else has it by then.

        Raises:
            UsageError: it is sequential, and was not entered yet.
        """
        if self._keeper is None or self._keeper.name is None:
            if self._mode is CreateMode.EPHEMERAL_SEQUENTIAL:
                raise UsageError(f"{self!r}: has no number before it is entered")
            return self._prefix
        return self._keeper.name

    @property
    def is_present(self) -> bool:
        """Whether the znode is there, as far as we know: not while the link is lost."""
        return self._state.is_present

    async def __aenter__(self) -> Self:
        if self._entered:
            raise UsageError(f"{self!r} was entered already; make another one")
        self._entered = True
        if self._client.state.is_final:
            await self._client.ready()  # raises what became of the client
        self._keeper = keeper = ZnodeKeeper(
            self._client,
            self._prefix,
            self._first,
            mode=self._mode,
            acl=self._acl,
            restore=self._restore,
            on_change=self._changed,
            on_end=self._ended,
        )
        is_there = False
        timeout = self._client.session_timeout
        try:
            self._client.backend.spawn(keeper.run, keeper.ended)
            # Without a wait it is tried once, which takes as long as it takes.
            with anyio.move_on_after(timeout if self._wait == 0 else self._wait):
                is_there = await self._made(is_patient=self._wait != 0)
        finally:
            if not is_there:
                keeper.discard()
                self._closed()
        if not is_there:
            why = "somebody else's is there" if keeper.is_blocked else "no server was reached"
            raise AcquireTimeout(f"{self._prefix}: not ours within {self._wait:g} seconds: {why}")
        # No checkpoint from here on.
        self._scope.__enter__()
        self._is_inside = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        keeper = self._keeper
        if keeper is None or not self._is_inside:
            return
        self._is_inside = False
        # From here on it is the client's work, whatever happens to this task.
        keeper.await_report(True)
        keeper.discard()
        self._closed()
        left = exc
        try:
            if self._scope.__exit__(exc_type, exc, traceback):
                left = None
        except BaseException as rest:
            # What is left of a group once our own cancellation is taken out of it.
            left = rest
        error: AioleadError | None = self._error
        with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
            await keeper.gone.wait()
        refusal = None
        if keeper.deletion is not None and keeper.deletion.is_done:
            refusal = keeper.deletion.error()
        else:
            keeper.await_report(False)
        if isinstance(refusal, ReleaseError):
            if left is None and error is None:
                raise refusal
            log_refusal(refusal)
        if left is None:
            if error is not None:
                raise error
            return
        if error is not None and left is not error:
            left.add_note(f"{self!r}: {error}")
        if left is exc:
            return
        context = left.__context__
        try:
            raise left
        finally:
            left.__context__ = context

    def __aiter__(self) -> AsyncIterator[NodeState]:
        """Whether it is there, from now on; the latest state wins. Ends with the block."""
        if self._keeper is None:
            raise UsageError(f"{self!r} was not entered")
        return _States(self)

    # --- for subclasses ------------------------------------------------------------------------

    def _want(self, data: bytes) -> int:
        """Has the znode hold other data, as soon as that is possible; returns its number."""
        if self._keeper is None or not self._is_inside:
            raise UsageError(f"{self!r} is not open: use `async with`")
        if self._error is not None:
            raise self._error
        return self._keeper.want(checked_data(data))

    async def _made(self, *, is_patient: bool) -> bool:
        """Waits until it is there; unless we are patient, gives up if somebody else's is."""
        await anyio.lowlevel.checkpoint()
        keeper = self._keeper
        while keeper is not None and keeper.written < 0:
            if self._error is not None:
                raise self._error
            if keeper.is_blocked and not is_patient:
                return False
            await self._news.wait()
        return True

    async def _written(self, generation: int) -> None:
        """Waits until the servers have confirmed data of that number, or later."""
        await anyio.lowlevel.checkpoint()
        keeper = self._keeper
        while keeper is not None and keeper.written < generation:
            if self._error is not None:
                raise self._error
            if not self._is_inside:
                raise UsageError(f"{self!r} was left meanwhile")
            await self._news.wait()

    # --- for the keeper ------------------------------------------------------------------------

    def _changed(self) -> None:
        keeper = self._keeper
        if keeper is None or keeper.gone.is_set():
            return
        node = keeper.node
        connected = self._client.state is SessionState.CONNECTED
        if node is None:
            state = NodeState(False, keeper.name, None, 0)
        else:
            state = NodeState(connected, node.path, node.token, node.session_id)
        if state != self._state:
            self._state = state
            self._count += 1
        self._wake()

    def _ended(self, error: AioleadError) -> None:
        """It cannot be kept any longer: what the block is built on is not true any more."""
        self._error = error
        self._closed()
        self._scope.cancel()

    def _closed(self) -> None:
        if self._state.is_present:
            self._state = NodeState(False, self._state.path, None, 0)
            self._count += 1
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def _next(self, seen: int) -> tuple[int, NodeState]:
        await anyio.lowlevel.checkpoint()
        while True:
            if self._count > seen:
                return self._count, self._state
            if self._error is not None:
                raise self._error
            if not self._is_inside:
                raise StopAsyncIteration
            await self._news.wait()


class _States(AsyncIterator[NodeState]):
    """One reader of the states, with its position."""

    def __init__(self, node: KeptNode) -> None:
        self._node = node
        self._seen = 0

    async def __anext__(self) -> NodeState:
        self._seen, state = await self._node._next(self._seen)
        return state


@final
class PersistentNode(KeptNode):
    """A znode that exists as long as a block, whatever happens to it meanwhile.

        async with aiolead.PersistentNode(client, "/workers/w1", b"idle") as node:
            await node.set(b"busy")

    Deleted by others, or gone with an expired session, it is made anew. Entering waits until it is
    there. Where a znode is already that is not ours, that of a process that died a moment ago
    perhaps, entering waits for its end; what is somebody else's is never deleted. (A persistent
    znode has no owner: it is taken over, and whoever leaves deletes it.)

    A sequential one keeps its number.

    Args:
        client: the session.
        path: the znode. For a sequential one, what the server appends the number to.
        data: what it holds at first.
        mode: `EPHEMERAL`, `EPHEMERAL_SEQUENTIAL`, or `PERSISTENT`.
        restore: whether data that others have set is overwritten with ours.
        timeout: how long entering waits for it, in seconds; for ever by default. 0 tries once.
        acl: of the znode, and of what is missing above it, which is created as containers.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.

    Raises (on entering):
        AcquireTimeout: it was not there within `timeout` seconds.
        ServerError: the servers refuse it: `NoAuthError`, for instance.
        UsageError: this client keeps that znode already.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete it, and the body ended normally. If it raised, or
            was cancelled, that goes on, and the refusal is in the log.
        ServerError: they refuse it later, when it has to be made anew. The body is then cancelled;
            if it raises something else, this is added to that as a note.
        SessionError: the client was closed.

    Cancellation: leaves nothing behind. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most; without a link the client deletes it as soon as it can.

    On connection loss: goes on. A server that is read-only is waited for like one that is away.
    """

    async def set(self, data: bytes) -> None:
        """Has the znode hold other data: when this returns, the servers have confirmed that, or
        what a later call has asked for.

        Raises:
            ServerError, SessionError: it cannot be kept any longer; the body is cancelled, too.

        Cancellation: the data remains what is wanted.

        On connection loss: goes on; after an expired session the new znode holds it.
        """
        await self._written(self._want(data))
