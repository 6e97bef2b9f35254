"""Requests that not every server supports; see `aiolead._wire.versions`.

A server closes the connection on an unknown operation, with everything in flight there. So it is
asked for its version first, and the request is bound to that connection: the next one may lead to
an older server, as during an upgrade of the ensemble. `aiolead._session.present_server` has what is
known of the connected server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TypeVar

import anyio

from ..._session.requests import BOUND_READ, RETRIED_FOR, retried_in_vain
from ..._util.escaping import get_logger, in_seconds
from ..._wire.codes import OpCode
from ..._wire.jute import Reader, Record
from ..._wire.long_frames import LongReader, Steps
from ..._wire.replies import NamesReply
from ..._wire.requests import GetEphemerals
from ..._wire.versions import Feature, Release
from ...errors import (
    ConnectionLossError,
    Outcome,
    ServerError,
    SessionError,
    SessionExpiredError,
    UnsupportedError,
)
from ...model import CreateMode
from ..core import Core, PendingReply
from ..net.four_letter_words import Peer

logger = get_logger("aiolead.client")

T = TypeVar("T")
Bound = Callable[[], PendingReply[T]]


async def require(core: Core, feature: Feature) -> Peer:
    """Waits until the session is connected to a server that has a feature; returns that.

    There is no checkpoint between the last look and the return: a bound request that the caller
    submits at once goes to the server that was asked. Cancellation leaves the session's connection
    alone.

    Raises `UnsupportedError` if the server is too old or does not report its version;
    `ConnectionLossError` without a connection for the session timeout, or if the server could not
    be asked; `SessionError` once the session is over.
    """
    core.check_home()
    session_id, losses = core.machine.session_id, Losses(core)
    while True:
        peer = await _connected(core, session_id)
        server = core.machine.server
        release = server.given
        if release is None:
            release = await _release_of(core, peer)
        if core.supervisor.peer is not peer:
            losses.check()
            continue  # lost while we asked: the answer is about another server
        if release is None or not release.has(feature) or not server.has(feature):
            raise server.unsupported(feature)
        return peer


async def read_with(core: Core, feature: Feature, make: Bound[T]) -> T:
    """Sends a read that needs a feature, again after lost connections, for `RETRIED_FOR`."""
    losses = Losses(core)
    while True:
        peer = await require(core, feature)
        reply = core.submit(make())
        try:
            return await reply
        except ConnectionLossError:
            if core.supervisor.peer is peer:
                raise  # the server's own error: it has lost the ensemble
            losses.check()


def bound_read(
    op: OpCode,
    request: Record,
    parse: Callable[[Reader], T],
    path: str | None,
    steps: Callable[[LongReader], Steps[T]] | None = None,
) -> Bound[T]:
    """Returns a function that makes a read for `read_with`, one for each connection."""
    body = request.encode()

    def make() -> PendingReply[T]:
        reply = PendingReply(op, body, parse, path=path, kind=BOUND_READ)
        reply.steps = steps
        reply.is_users = True
        return reply

    return make


def recount_ephemerals(core: Core, max_reply: int) -> None:
    """Ask the servers, in the background, which ephemeral znodes the session has (3.6).

    Without effect if they cannot be asked, or if the answer could be longer than `max_reply`.
    """
    ephemerals = core.machine.ephemerals
    if 2 * ephemerals.size > max_reply:
        return

    def parse(r: Reader) -> None:
        ephemerals.recount(NamesReply.read(r).names)

    async def ask() -> None:
        make = bound_read(OpCode.GET_EPHEMERALS, GetEphemerals("/"), parse, None)
        try:
            with suppress(UnsupportedError, ConnectionLossError, ServerError, SessionError):
                await read_with(core, Feature.GET_EPHEMERALS, make)
            # Somebody may try again and again.
            await anyio.sleep(core.machine.timing.patience / 16)
        finally:
            ephemerals.is_asking = False

    ephemerals.is_asking = True
    core.start(ask)


async def _connected(core: Core, session_id: int) -> Peer:
    with anyio.move_on_after(core.machine.timing.patience):
        while core.supervisor.peer is None:
            core.check_open()
            _check_session(core, session_id)
            await core.next_change()
    _check_session(core, session_id)
    peer = core.supervisor.peer
    if peer is None:
        raise ConnectionLossError(
            f"no server was reached for {in_seconds(core.machine.timing.patience)}",
            outcome=Outcome.NOT_APPLIED,
        )
    return peer


class Losses:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._first = inf

    def check(self) -> None:
        """Notes a loss; raises `ConnectionLossError` if they have gone on for too long."""
        now = self._core.clock()
        self._first = min(self._first, now)
        if now - self._first > RETRIED_FOR * self._core.machine.timing.patience:
            raise retried_in_vain(now - self._first)


def _check_session(core: Core, session_id: int) -> None:
    if session_id not in (0, core.machine.session_id):
        error = SessionExpiredError("the session has expired")
        error.outcome = Outcome.NOT_APPLIED
        raise error


async def _release_of(core: Core, peer: Peer) -> Release | None:
    patience = core.machine.timing.patience / 3
    try:
        release = await peer.release(patience)
    except OSError as error:
        if isinstance(error, TimeoutError):
            _note(core, peer, None)
        if core.supervisor.peer is not peer:
            return None
        why = f"no answer in {in_seconds(patience)}" if isinstance(error, TimeoutError) else error
        raise ConnectionLossError(
            f"{peer.name} could not be asked for its version: {why} "
            '(connect(server_version="...") settles it)',
            outcome=Outcome.NOT_APPLIED,
        ) from error
    _note(core, peer, release)
    return release


def _note(core: Core, peer: Peer, release: Release | None) -> None:
    is_connected = core.supervisor.peer is peer
    core.machine.server.learned(peer.name, release, is_connected=is_connected)


async def learn_release(core: Core) -> None:
    """Ask a server that may not be ZooKeeper which one it is, as soon as it is connected.

    On ZooKeeper, only a request asks that needs to know it.
    """
    peer = core.supervisor.peer
    if peer is None:
        return
    with suppress(ConnectionLossError):
        release = await _release_of(core, peer)
        if core.supervisor.peer is peer:
            what = "does not report what it is" if release is None else f"is {release}"
            logger.info("%s %s", peer.name, what)


async def parents_without_containers(core: Core, path: str) -> CreateMode:
    """The mode of a parent, after the server was found to have no containers.

    A server whose release is not known yet is asked for it first.
    """
    server = core.machine.server
    if server.is_unknown:
        await learn_release(core)
        if server.has(Feature.CONTAINERS):
            return CreateMode.CONTAINER
    server.report_persistent_parents(path)
    return CreateMode.PERSISTENT
