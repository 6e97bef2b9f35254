"""A znode that exists for the duration of a block."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

import anyio
import anyio.lowlevel

from .._util.escaping import in_seconds
from ..abc import CoordinationClient
from ..errors import AcquireTimeout, ConfigurationError, ReleaseError, UsageError
from ..model import ACL, CreateMode, SessionState
from .beside import BodyScope
from .errors import log_refusal
from .holding import propagate
from .kept_znode import ZnodeKeeper
from .recipe import checked_acl, checked_client, checked_data, checked_path, checked_wait
from .view import leaves_here

MODES = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT)


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a `PersistentNode`, as far as we know.

    Attributes:
        is_present: whether the znode exists; False while the connection is lost.
        path: its path; None while a sequential one has no number yet.
        czxid: the transaction that created it; None while it does not exist.
        session_id: the session that owns it; 0 if it does not exist, or is persistent.
    """

    is_present: bool
    path: str | None
    czxid: int | None
    session_id: int


class PersistentNode(AsyncIterable[NodeState]):
    """A znode that exists for the duration of a block, whatever happens to it meanwhile.

        async with aiolead.PersistentNode(client, "/workers/w1", b"idle") as node:
            await node.set(b"busy")

    Entering waits until the znode exists. If others delete it, or its session expires, it is
    created again. If another client's znode is at the path, for instance of a process that died a
    moment ago, entering waits for its end, and never deletes it. (A persistent znode has no owner:
    it is adopted, and deleted by any process that leaves.)

    A sequential znode keeps its number, unless another client has taken it meanwhile. Iterating,
    `async for state in node`, yields the latest `NodeState` until the block ends; a slow reader may
    skip states, never the last one.

    Args:
        client: the session.
        path: the znode. For a sequential one, the server appends the number.
        data: its initial data; a megabyte at most.
        mode: `EPHEMERAL` (the default), `EPHEMERAL_SEQUENTIAL`, or `PERSISTENT`.
        restore: whether data that others have set is overwritten with ours; defaults to True.
        timeout: how long entering waits, in seconds; forever by default. 0 tries once.
        acl: of the znode, and of missing parents, which are created as containers.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.

    Raises (on entering):
        AcquireTimeout: it did not exist within `timeout` seconds.
        RequestRefusedError: the data are too long for the servers or a proxy.
        ServerError: the servers refuse it, by `NoAuthError` for instance.
        UsageError: this client keeps that znode already.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete it. It is logged instead if the body raised or
            was cancelled, which propagates.
        ServerError: they refused to create it again, and the body was cancelled. It becomes a note
            if the body raises something else.
        SessionError: the client was closed.

    Cancellation: leaves nothing behind. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most; without a connection the client deletes it as soon as it can. On
    connection loss: continues. A read-only server counts as no server.

    Leave it in the task that entered it. Any task may leave it once the first one has ended.
    Otherwise leaving deletes the znode and raises `UsageError`.

    Threads and forks: any thread may read its properties; everything else raises `UsageError`
    outside of the client's event loop. In a forked child `is_present` is False.
    """

    _is_contended: ClassVar[bool] = True
    """Whether others may want the path, for a lock for instance: see `Fixed`."""

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
        client.backend.check_home()
        self._prefix = checked_path(path)
        checked_data(data)
        if mode not in MODES:
            allowed = ", ".join(each.name for each in MODES)
            raise ConfigurationError(f"mode: must be one of {allowed}, not {mode!r}")
        self._wait = checked_wait(timeout)
        self._body = BodyScope(self)
        self._keeper = ZnodeKeeper(
            self._client,
            path,
            data,
            mode=mode,
            acl=checked_acl(acl),
            restore=restore,
            is_contended=self._is_contended,
            on_end=self._body.cancel,
        )
        self._entered = self._is_inside = False

    def __repr__(self) -> str:
        there = "present" if self.is_present else "not present"
        return f"<{type(self).__name__} {self._keeper.name or self._prefix}, {there}>"

    @property
    def path(self) -> str:
        """The znode's path; `UsageError` while a sequential one has no number."""
        if self._keeper.name is None:
            raise UsageError(f"{self!r}: has no number before it is entered")
        return self._keeper.name

    @property
    def is_present(self) -> bool:
        """Whether the znode exists, as far as we know; False while the connection is lost."""
        return self.state.is_present

    @property
    def state(self) -> NodeState:
        """The present state."""
        keeper, node = self._keeper, self._keeper.node
        if node is None or keeper.is_discarded or keeper.error is not None:
            return NodeState(False, keeper.name, None, 0)
        is_connected = self._client.state is SessionState.CONNECTED
        return NodeState(is_connected, node.path, node.token, node.session_id)

    def __aiter__(self) -> AsyncIterator[NodeState]:
        if not self._entered:
            raise UsageError(f"{self!r} was not entered")
        return _States(self)

    async def set(self, data: bytes) -> None:
        """Set the data; return once the servers have confirmed them, or later ones.

        It raises `ServerError` or `SessionError` if the znode cannot be kept any longer; the body
        is cancelled, too. `RequestRefusedError`: the data are too long for the servers; the znode
        keeps those that it has. Cancellation: the data are still set. On connection loss:
        continues; after an expired session the new znode holds them.
        """
        await self._until_written(self._want(data))

    def _want(self, data: bytes) -> int:
        """Request other data; return their generation, for `_until_written`."""
        self._client.backend.check_home()
        if not self._is_inside:
            raise UsageError(f"{self!r} is not open: use `async with`")
        if self._keeper.error is not None:
            raise self._keeper.error
        return self._keeper.want(checked_data(data))

    async def _until_written(self, generation: int, *, is_patient: bool = True) -> bool:
        """Wait until the servers have confirmed a generation or later; see `ZnodeKeeper.want`.

        Unless it is patient, it returns False if another client's znode is there.
        """
        await anyio.lowlevel.checkpoint()
        keeper = self._keeper
        while keeper.written < generation or keeper.refusal(generation) is not None:
            if keeper.error is not None:
                raise keeper.error
            if keeper.is_discarded:
                raise UsageError(f"{self!r} was left meanwhile")
            refusal = keeper.refusal(generation)
            if refusal is not None:
                raise refusal
            if keeper.is_blocked and not is_patient:
                return False
            await keeper.change()
        return True

    # --- the block -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._client.backend.check_home()
        if self._entered:
            raise UsageError(f"{self!r} was entered already; make another one")
        self._entered = True
        if self._client.state.is_final:
            await self._client.ready()  # raises why the client ended
        keeper = self._keeper
        is_there = False
        timeout = self._client.session_timeout
        try:
            keeper.start()
            # `timeout=0` tries once, within a session timeout.
            with anyio.move_on_after(timeout if self._wait == 0 else self._wait):
                is_there = await self._until_written(0, is_patient=self._wait != 0)
        finally:
            if not is_there:
                keeper.discard()
        if not is_there:
            why = "somebody else's is there" if keeper.is_blocked else "no server was reached"
            raise AcquireTimeout(f"{self._prefix}: not ours within {in_seconds(self._wait)}: {why}")
        # No checkpoint from here on.
        self._body.enter()
        self._is_inside = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        keeper = self._keeper
        if not self._is_inside or not leaves_here(self._client, exc):
            return
        self._is_inside = False
        # From here on the client deletes it, whatever happens to this task.
        keeper.await_report(True)
        keeper.discard()
        left = self._body.leave(exc)
        error = keeper.error
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
        propagate(left, exc)


class _States(AsyncIterator[NodeState]):
    def __init__(self, node: PersistentNode) -> None:
        self._node = node
        self._seen: NodeState | None = None

    async def __anext__(self) -> NodeState:
        await anyio.lowlevel.checkpoint()
        keeper = self._node._keeper
        while (state := self._node.state) == self._seen:
            if keeper.error is not None:
                raise keeper.error
            if keeper.is_discarded:
                raise StopAsyncIteration
            await keeper.change()
        self._seen = state
        return state
