"""The election recipe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast, final

import anyio

from ..._util.contender_names import MOST_LEADERS
from ..._util.misuse import check_worker
from ...abc import CoordinationClient
from ...errors import LeadershipLost, LossReason, UsageError
from ...model import ACL, Participant
from .._core.arguments import OnDisconnect, checked_count, checked_pause
from .._core.beside import beside_body
from .._core.contexts import TenureContext
from .._core.holding_recipe import HoldingRecipe
from .._core.tenure import Term
from ..contention.contender_queue import ContenderQueue
from ..contention.layouts import Layout, Role
from .campaign import Campaign
from .observer import ElectionObserver

_Worker = Callable[[Term], Awaitable[object]]

_PAUSED_AFTER = (None, LossReason.REFUSED, LossReason.INTERNAL)
"""Ends of a term after which to pause, as the next could come at once; None: worker returned."""


@final
class Election(HoldingRecipe[Term]):
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends.

        async with election.leadership() as term:      # waits its turn
            await work(fencing_token=term.token)

    If leadership is lost, the body is cancelled before the servers could give it to another
    contender; leaving then raises `LeadershipLost`. Contenders lead in the order in which they
    came.

    Args:
        client: the session that contends.
        path: the path; created as a container if missing. Nothing else should use it.
        identity: the name that others see; defaults to host name and process id.
        leaders: how many may lead at once, 1 by default. All processes should pass the same number.
            Otherwise the smaller one counts: a contender leads only while fewer are before it than
            it and each of those allow. Each process logs that once for each path. 1 with
            `Layout.AIOZK`.
        layout: the naming scheme, `Layout.CURATOR` by default; see `Layout`.
        on_disconnect: when the connection is lost, `"keep"` (the default) leads on while the lease
            lasts, `"resign"` resigns at once.
        acl: of the znode, and of the path if it has to be created; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    if not TYPE_CHECKING:  # or else type checkers would let it be entered

        async def __aenter__(self) -> NoReturn:
            raise UsageError(
                f"{self!r} cannot be entered itself: write `{self._contest.to_hold}`, or "
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
        places = checked_count("leaders", leaders, most=MOST_LEADERS)
        self._queue = ContenderQueue(
            type(self).__name__, client, path, layout, Role.ELECTION, places=places
        )
        contest = self._queue.contest(
            Term,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            is_rare=True,
            urgent=True,
            to_hold="async with election.leadership() as term:",
            to_try="",
        )
        super().__init__(contest)
        layout._require_leaders(leaders)

    def leadership(self, *, timeout: float | None = None) -> TenureContext[Term]:
        """Lead for the body of an `async with`. Leaving resigns.

        It gives a `Term`: `token`, `path`, `identity`, `session_id`, `is_held`, `remaining()`,
        `check()`, `verify()`, `fenced()`, `resign()` (`release()`, `is_released`), `loss`,
        `add_lost_callback()`, `revocation_requested()` (`is_revocation_requested`) and
        `statistics()`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and loss see
        `TenureContext`.
        """
        return TenureContext(self._contest, timeout)

    async def run(self, worker: _Worker, *, pause: float = 1.0) -> NoReturn:
        """Contend forever, and call `worker(term)` once per term.

        A worker that returns resigns. A lost term cancels the worker; it contends again at once, or
        after the pause if the servers refuse to confirm the znode (`LossReason.REFUSED`), or
        aiolead fails (`LossReason.INTERNAL`). Other exceptions of the worker propagate unchanged.

        Args:
            worker: a coroutine function, called with each term.
            pause: seconds without a term after a worker has returned, 1 by default: one that
                returns at once should not overload the servers. 0 contends again at once.

        Raises:
            UsageError: `worker` is a coroutine (`run(worker())`) instead of a function.
            ConfigurationError: `worker` does not take a term, or is a `def` that is not async. A
                lambda, and a `def` with an annotation that says so, may return an awaitable.

        Cancellation: cancels the worker, awaits it, and resigns.
        """
        check_worker(worker, "term")
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

    def running(
        self, worker: _Worker, *, pause: float = 1.0
    ) -> AbstractAsyncContextManager[None, None]:
        """As `run`, in the background, for the body of an `async with`.

        Leaving cancels the worker, awaits it, and resigns, also when cancelled. An exception that
        ends `run` cancels the body, and is raised on leaving, unchanged; otherwise an exception of
        the body propagates unchanged. On connection loss: goes on.

        Leave it in the task that entered it. Any task may leave it once the first one has ended.
        Otherwise leaving resigns and raises `UsageError`.
        """
        check_worker(worker, "term")
        run = partial(self.run, worker, pause=checked_pause(pause))
        # It swallows nothing, which type checkers cannot know.
        return cast("AbstractAsyncContextManager[None, None]", beside_body(run, self))

    def campaign(self) -> Campaign:
        """Contend in the background, and observe the states.

        Losing leadership cancels nothing: code that acts as the leader must call `term.check()`.
        """
        return Campaign(self._contest)

    def observe(self) -> ElectionObserver:
        """Observe who leads, without contending."""
        queue = self._queue
        return ElectionObserver(queue.client, queue.path, queue.layout, queue.role, queue.places)

    async def revoke(self) -> list[Participant]:
        """Ask the present leaders, from any process, to resign. Nobody is forced.

        A leader sees `term.is_revocation_requested`, or waits for `term.revocation_requested()`.
        Returns the leaders that were asked, without those asked before.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; ask again.
            ServerError: the server's answer to the write, such as `NoAuthError`.
        """
        return await self._queue.revoke()

    async def leader(self) -> Participant | None:
        """The leader, the first one if there are several; None if there is none.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
        queue = await self._queue.contenders()
        return queue[0] if queue else None

    async def contenders(self) -> list[Participant]:
        """The leaders and the waiters, in order. A read, as `leader`."""
        return await self._queue.contenders()


def _is_loss_of(token: int, error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_loss_of(token, member) for member in error.exceptions)
    return isinstance(error, LeadershipLost) and error.token == token
