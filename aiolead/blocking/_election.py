"""The election."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, final

import anyio

import aiolead

from .._escaping import described
from .._parsing import MalformedError, real
from ..errors import ConfigurationError, LeadershipLost
from ..model import ACL, Participant
from ._client import Client
from ._context import HoldContext
from ._locks import OnDisconnect
from ._tenure import OnLost, Term


@final
class Election:
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends.

        with election.leadership() as term:  # waits its turn
            for page in pages:
                term.check()
                work(page, fencing_token=term.token)

    Args: as for `aiolead.Election`, with a client of `aiolead.blocking`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        leaders: int = 1,
        layout: aiolead.types.Layout = aiolead.types.Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        def make(inner: aiolead.Client) -> aiolead.Election:
            return aiolead.Election(
                inner,
                path,
                identity=identity,
                leaders=leaders,
                layout=layout,
                on_disconnect=on_disconnect,
                acl=acl,
            )

        self._loop = client._loop
        self._recipe = client._make(make)

    def __repr__(self) -> str:
        return f"<blocking {self._recipe!r}>"

    @property
    def path(self) -> str:
        """The path that is contended for."""
        return self._recipe.path

    @property
    def identity(self) -> str:
        """What we call ourselves; others see it."""
        return self._recipe.identity

    def leadership(
        self, *, timeout: float | None = None, on_lost: OnLost | None = None
    ) -> HoldContext[Term]:
        """Leads for the body of a `with`.

        Args:
            timeout: how long to wait for our turn, in seconds; for ever by default. 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known. The body
                goes on meanwhile: it is for this to have it stop.

        Raises (on entering):
            AcquireTimeout: our turn did not come within that time.

        For loss and interruption see `HoldContext`.
        """
        loop = self._loop
        return HoldContext(
            loop,
            self._recipe.leadership(timeout=timeout),
            lambda term: Term(loop, term, on_lost),
        )

    def run(
        self,
        worker: Callable[[Term], object],
        *,
        pause: float = 1.0,
        on_lost: OnLost | None = None,
    ) -> NoReturn:
        """Contends for ever, and calls `worker(term)` in this thread once per term.

        A worker that returns resigns. After a pause, in which nothing is held and others may lead,
        we go to the end of the line. After a term that is lost we contend again, once its worker
        has ended: it has to look at `term.check()`. What it raises otherwise ends this; so does
        closing the client, with `ClientClosedError`.

        Args:
            worker: called with each term.
            pause: how long to pause after a worker has returned, in seconds; 0 contends again at
                once.
            on_lost: as for `leadership`.

        Raises:
            ConfigurationError: `pause` is no number of seconds; nothing was sent.
        """
        try:
            seconds = real(pause)
        except MalformedError:
            seconds = -1.0
        if seconds < 0:
            raise ConfigurationError(f"pause: must be seconds from 0 up, not {described(pause)}")
        while True:
            token = 0
            try:
                with self.leadership(on_lost=on_lost) as term:
                    token = term.token
                    worker(term)
                self._loop.call(partial(anyio.sleep, seconds))
            except LeadershipLost as lost:
                if lost.token != token:
                    raise

    def leader(self) -> Participant | None:
        """Who leads, the first of them where several do; None if nobody does.

        A read of the connected server, which may be a moment behind.
        """
        return self._loop.call(self._recipe.leader)

    def contenders(self) -> list[Participant]:
        """Who leads and who waits to, in order. A read, as `leader`."""
        return self._loop.call(self._recipe.contenders)

    def revoke(self) -> list[Participant]:
        """Asks whoever leads now to resign; returns whom. See `aiolead.Election.revoke`."""
        return self._loop.call(self._recipe.revoke)
