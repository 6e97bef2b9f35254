"""Requests that not every server supports; see `aiolead._wire.versions`.

A server answers an unknown operation with an error and closes the connection, with everything in
flight there. So it is asked for its version first, and the request is bound to that connection: the
next one may lead to an older server, as during an upgrade of the ensemble.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TypeVar

import anyio

from ..._session.requests import BOUND_READ, RETRIED_FOR, retried_in_vain
from ..._util.escaping import in_seconds
from ..._wire.codes import OpCode
from ..._wire.framing import encode_body
from ..._wire.jute import Reader, Record
from ..._wire.long_frames import LongReader, Steps
from ..._wire.replies import NamesReply
from ..._wire.requests import GetEphemerals
from ..._wire.versions import Feature, Version
from ...errors import (
    ConnectionLossError,
    Outcome,
    ServerError,
    SessionError,
    SessionExpiredError,
    UnsupportedError,
)
from ..core import Core
from ..net.four_letter_words import Peer
from .pending_reply import PendingReply

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
        version = core.server_version
        if version is None:
            version = await _version_of(core, peer)
        if core.supervisor.peer is not peer:
            losses.check()
            continue  # lost while we asked: the answer is about another server
        _check(feature, version, peer, is_given=core.server_version is not None)
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
    body = encode_body(request)

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


async def _version_of(core: Core, peer: Peer) -> Version | None:
    patience = core.machine.timing.patience / 3
    try:
        return await peer.version(patience)
    except OSError as error:
        if core.supervisor.peer is not peer:
            return None
        why = f"no answer in {in_seconds(patience)}" if isinstance(error, TimeoutError) else error
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
        why = f'{peer.name} does not report its version (connect(server_version="...") settles it)'
        raise UnsupportedError(feature.label, needs, None, why)
    found = ".".join(map(str, version))
    source = "connect(server_version=) says" if is_given else f"{peer.name} is"
    raise UnsupportedError(feature.label, needs, found, f"{source} {found}")
