"""The election."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, final

import anyio

from ...abc import CoordinationClient
from ...errors import LeadershipLost, LossReason, UsageError
from ...model import ACL, Participant
from .._core.arguments import OnDisconnect, checked_count, checked_pause, checked_worker
from .._core.contexts import TenureContext
from .._core.tenure import Term
from ..contention.layouts import Layout, Role
from ..contention.queue_recipe import QueuedRecipe
from .campaign import Campaign
from .observer import ElectionObserver

_PAUSED_AFTER = (None, LossReason.REFUSED, LossReason.INTERNAL)
"""Ends of a term of which the next one may come at once: `None`, if the worker has returned."""


@final
class Election(QueuedRecipe[Term]):
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends.

        async with election.leadership() as term:      # waits its turn
            await work(fencing_token=term.token)

    The body is cancelled if leadership is lost, before the servers could give it to anybody else;
    `LeadershipLost` is then raised on leaving. Leaving the body resigns. Contenders lead in the
    order in which they came.

    Args:
        client: the session that contends.
        path: the path; created, as a container, when it is missing. Nothing else should use it.
        identity: what others see; host name and process id by default.
        leaders: how many may lead at once: the first in line. All contenders must agree on it.
        layout: whom to contend with; see `Layout`.
        on_disconnect: what becomes of leadership when the link is lost: `"keep"` keeps it while
            the lease lasts, `"resign"` gives it up at once.
        acl: of our znode, and of the path where it has to be created; everybody everything by
            default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _role = Role.ELECTION
    _tenure = Term
    _urgent = True
    _is_rare = True
    _to_hold = "async with election.leadership() as term:"

    if not TYPE_CHECKING:  # or else type checkers would let it be entered

        async def __aenter__(self) -> NoReturn:
            raise UsageError(
                f"{self!r} cannot be entered itself: write `{self._to_hold}`, or "
                "`await election.run(worker)`"
            )

        async def __aexit__(self, *_: object) -> None:
            pass

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        leaders: int = 1,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__(
            client,
            path,
            identity=identity,
            places=checked_count("leaders", leaders, most=1000),
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def leadership(self, *, timeout: float | None = None) -> TenureContext[Term]:
        """Leads for the body of an `async with`.

        Args:
            timeout: how long to wait for our turn, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: our turn did not come within that time.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self, timeout)

    async def run(
        self, worker: Callable[[Term], Awaitable[object]], *, pause: float = 1.0
    ) -> NoReturn:
        """Contends for ever, and calls `worker(term)` once per term.

        A worker that returns resigns. After a pause, in which nothing is held and others may lead,
        we go to the end of the line. A term that is lost cancels its worker, and we contend again
        at once; after a pause, if the servers refuse to confirm our znode (`LossReason.REFUSED`),
        since they will again, or something in aiolead fails (`LossReason.INTERNAL`). What the
        worker raises otherwise ends this, bare.

        Args:
            worker: a coroutine function, called with each term.
            pause: how long to pause after a worker has returned, in seconds, so that one that
                returns at once does not keep the servers busy. 0 contends again at once.

        Raises:
            ConfigurationError: an argument is malformed; nothing was sent.
            UsageError: `worker` is a coroutine (`run(worker())`) instead of a function.

        Cancellation: cancels the worker, awaits it, and resigns; or ends the pause.
        """
        checked_worker(worker)
        pause = checked_pause(pause)
        while True:
            term: Term | None = None
            try:
                async with self.leadership() as term:
                    await worker(term)
            except (LeadershipLost, BaseExceptionGroup) as error:
                # A group, if tasks of the worker's own task group have called `term.check()`.
                if term is None or not _is_loss_of(term.token, error):
                    raise
            if term is not None and term.loss in _PAUSED_AFTER:
                await anyio.sleep(pause)

    def campaign(self) -> Campaign:
        """Contends in the background, and tells what becomes of it, as an async iterator.

        For those who react to leadership rather than live inside of it: nothing is cancelled here
        when it is lost, so whoever acts as the leader has to look at `term.check()`.
        """
        return Campaign(self._client, self)

    def observe(self) -> ElectionObserver:
        """Who leads, and each change of it, as an async iterator, without contending."""
        return ElectionObserver(self._client, self._path, self._layout, self._role, self._places)

    async def revoke(self) -> list[Participant]:
        """Asks whoever leads now to resign, from any process. Nobody is forced.

        A leader sees `term.is_revocation_requested`, or waits for `term.revocation_requested()`.

        Returns:
            Whom it has asked: leaders that were not asked before.

        Raises:
            ConnectionLossError: the link was lost before all answers came; ask again.
            ServerError: what the server says to the write, such as `NoAuthError`.
        """
        return await self._revoke(())

    async def leader(self) -> Participant | None:
        """Who leads, the first of them where several do; None if nobody does.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        line = await self._line()
        return line[0] if line else None

    async def contenders(self) -> list[Participant]:
        """Who leads and who waits to, in order. A read, as `leader`."""
        return await self._line()


def _is_loss_of(token: int, error: BaseException) -> bool:
    """Whether an error, or everything in a group, says that one term was lost."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_loss_of(token, member) for member in error.exceptions)
    return isinstance(error, LeadershipLost) and error.token == token
