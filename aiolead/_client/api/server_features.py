"""Requests that need what not every server has: see `aiolead._wire.versions`.

A server answers an unknown operation with an error and closes the connection, with everything in
flight there. So it is asked for its version first, and such a request is bound to that connection:
the next one may lead to an older server, as during an upgrade of the ensemble.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeVar

import anyio

from ..._session.requests.call import BOUND_READ, RETRIED_FOR, retried_in_vain
from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.packets import encode_body
from ..._wire.records import Record
from ..._wire.versions import Feature, Version
from ...errors import ConnectionLossError, Outcome, SessionExpiredError, UnsupportedError
from ..core import Core
from ..net.peer import Peer
from .pending_reply import PendingReply

T = TypeVar("T")
Bound = Callable[[], PendingReply[T]]


async def require(core: Core, feature: Feature) -> Peer:
    """Waits until the session is connected to a server that has a feature; returns that.

    There is no checkpoint between the last look and the return: a bound request that the caller
    submits at once goes to the server that was asked.

    Raises:
        UnsupportedError: the server is too old, or does not tell its version.
        ConnectionLossError: there was no connection for the session timeout, or the server could
            not be asked for its version.
        SessionError: the session is over.
        UsageError: from elsewhere than where the client belongs.

    Cancellation: nothing was asked of the session's own connection.
    """
    core.check_home()
    session_id, losses = core.machine.session_id, Losses(core)
    while True:
        peer = await _connected(core, session_id)
        version = core.server_version
        if version is None:
            version = await _version_of(core, peer)
        if core.peer is not peer:
            losses.check()
            continue  # it was lost while we asked, so the answer is about nothing
        _check(feature, version, peer, is_given=core.server_version is not None)
        return peer


async def read_with(core: Core, feature: Feature, make: Bound[T]) -> T:
    """Sends a read that needs a feature, again after each lost connection.

    Like any read: see `requests.call.RETRIED_FOR`.

    Args:
        core: the client.
        feature: what the server must have.
        make: makes the call; see `bound_read`.

    Raises:
        As `require`, and what the server says.

    Cancellation: abandons the answer.
    """
    losses = Losses(core)
    while True:
        peer = await require(core, feature)
        reply = core.submit(make())
        try:
            return await reply
        except ConnectionLossError:
            if core.peer is peer:
                raise  # the server's own word: it has lost the ensemble
            losses.check()


def bound_read(
    op: OpCode, request: Record, parse: Callable[[Reader], T], path: str | None
) -> Bound[T]:
    """Makes a read for `read_with`, one for each connection."""
    body = encode_body(request)
    return lambda: PendingReply(op, body, parse, path=path, kind=BOUND_READ)


async def _connected(core: Core, session_id: int) -> Peer:
    with anyio.move_on_after(core.machine.timing.patience):
        while core.peer is None:
            core.check_open()
            _check_session(core, session_id)
            await core.next_change()
    _check_session(core, session_id)
    if core.peer is None:
        raise ConnectionLossError(
            f"no server was reached for {core.machine.timing.patience:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )
    return core.peer


class Losses:
    """Connections that are lost over one read."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._first = inf

    def check(self) -> None:
        """One was lost: raises `ConnectionLossError` if that has gone on for too long."""
        now = self._core.clock()
        self._first = min(self._first, now)
        if now - self._first > RETRIED_FOR * self._core.machine.timing.patience:
            raise retried_in_vain(now - self._first)


def _check_session(core: Core, session_id: int) -> None:
    if session_id not in (0, core.machine.session_id):
        error = SessionExpiredError("the session has expired")
        error.outcome = Outcome.NOT_APPLIED
        raise error


async def _version_of(core: Core, peer: Peer) -> Version | None:
    patience = core.machine.timing.patience / 3
    try:
        return await peer.version(patience)
    except OSError as error:
        if core.peer is not peer:
            return None
        why = f"no answer in {patience:g} seconds" if isinstance(error, TimeoutError) else error
        raise ConnectionLossError(
            f"{peer.name} could not be asked for its version: {why} "
            '(connect(server_version="...") settles it)',
            outcome=Outcome.NOT_APPLIED,
        ) from error


def _check(feature: Feature, version: Version | None, peer: Peer, *, is_given: bool) -> None:
    if version is not None and feature.is_in(version):
        return
    needs = ".".join(map(str, feature.since[:2]))
    if version is None:
        why = f'{peer.name} does not tell its version (connect(server_version="...") settles it)'
        raise UnsupportedError(feature.label, needs, None, why)
    found = ".".join(map(str, version))
    source = "connect(server_version=) says" if is_given else f"{peer.name} is"
    raise UnsupportedError(feature.label, needs, found, f"{source} {found}")
