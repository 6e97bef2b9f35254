"""Who a session says it is: the SASL exchange of each connection, then the credentials.

The tokens of an exchange are made elsewhere, since some take their time: the machine passes each
token of the server on, and waits until it is given the next one of ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from .._wire.codes import XID_AUTH, XID_SASL, OpCode
from .._wire.jute import Reader
from .._wire.packets import encode_body, encode_request
from .._wire.refusal import server_error
from .._wire.replies import ReplyHeader, TokenReply
from .._wire.requests import AuthPacket, Sasl
from ..errors import (
    AioleadError,
    AuthFailedError,
    ConnectionLossError,
    Outcome,
    RemoteWireError,
)
from ..model import Auth
from .requests.call import Call

REFUSED = "the server refused the credentials"


class Exchange:
    """The SASL exchange of one connection.

    Args:
        on_challenge: called with each token of the server, and at first with an empty one: a call
            of `answer` is to follow.
    """

    def __init__(self, on_challenge: Callable[[bytes], object]) -> None:
        self._on_challenge = on_challenge
        self._is_last = False
        self._is_our_turn = True

    def begin(self) -> None:
        self._on_challenge(b"")

    def answer(self, token: bytes, *, is_last: bool) -> bytes:
        """The packet for a token of ours."""
        if not self._is_our_turn:
            raise RuntimeError("a token where the server was to speak")
        self._is_our_turn = False
        self._is_last = is_last
        return encode_request(XID_SASL, OpCode.SASL, encode_body(Sasl(token)))

    def receive(self, frame: bytes) -> bool:
        """Takes the server's answer; whether it was the last one.

        Raises:
            AuthFailedError: the server refuses us.
            RemoteWireError: it is the answer to something else.
        """
        r = Reader(frame)
        header = ReplyHeader.read(r)
        if header.xid != XID_SASL or self._is_our_turn:
            raise RemoteWireError(f"an answer with the xid {header.xid} during the login")
        if header.err:
            error = server_error(header.err)
            if isinstance(error, AuthFailedError):
                raise AuthFailedError("the server refused the SASL login")
            raise AuthFailedError(f"the server refused the SASL login: {error}")
        token = TokenReply.read(r).token
        self._is_our_turn = True
        if not self._is_last:
            self._on_challenge(token)
        return self._is_last


class _Credential:
    __slots__ = ("auth", "waiting")

    def __init__(self, auth: Auth) -> None:
        self.auth = auth
        self.waiting: list[Call[None]] = []


class Authentication:
    """What the machine does about identities: on each connection the SASL exchange, if there is to
    be one; then the credentials, in order; and who waits for an answer to them.

    Args:
        auth: the credentials.
        on_challenge: see `Exchange`; None where there is to be no exchange.
        send: takes packets for the server.
        introduce: called when the exchange is over, with the time.
        ended: the error of whoever comes too late.
    """

    def __init__(
        self,
        auth: Iterable[Auth],
        on_challenge: Callable[[bytes], object] | None,
        send: Callable[[bytes], object],
        introduce: Callable[[float], object],
        ended: Callable[[], AioleadError],
    ) -> None:
        self._entries = {entry: _Credential(entry) for entry in auth}
        self._presented: deque[tuple[_Credential, float]] = deque()  # with the time
        self._on_challenge = on_challenge
        self._exchange: Exchange | None = None
        self._send = send
        self._introduce = introduce
        self._ended = ended
        self._is_open = False
        self._is_over = False
        self._lost_at = -inf  # when the last connection was
        self.refusal = REFUSED
        """Why we were refused, if we were."""

    # --- the exchange --------------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the exchange goes on: nothing else may be sent."""
        return self._exchange is not None

    @property
    def is_wanted(self) -> bool:
        """Whether servers are to be told who we are, before anything is asked of them."""
        return self._on_challenge is not None or bool(self._entries)

    def begin(self, now: float) -> None:
        """The server knows the session."""
        if self._on_challenge is None:
            self._introduce(now)
        else:
            self._exchange = Exchange(self._on_challenge)
            self._exchange.begin()

    def answer(self, token: bytes | None, now: float, *, is_last: bool) -> None:
        """Gives the next token, in answer to `on_challenge`.

        Args:
            token: to be sent; None if the login is complete without one.
            now: the time.
            is_last: whether the login is complete, for our part, once the server says so.
        """
        if self._exchange is None:
            return  # the connection was lost meanwhile
        if token is None:
            self._complete(now)
        else:
            self._send(self._exchange.answer(token, is_last=is_last))

    def receive(self, frame: bytes, now: float) -> None:
        """Takes what the server answers during the exchange.

        Raises:
            AuthFailedError: the server refuses us.
            RemoteWireError: it is the answer to something else.
        """
        if self._exchange is not None and self._exchange.receive(frame):
            self._complete(now)

    def _complete(self, now: float) -> None:
        self._exchange = None
        self._introduce(now)

    # --- the credentials -----------------------------------------------------------------------

    def add(self, auth: Auth, call: Call[None], now: float) -> None:
        """Presents credentials to the present server, and to all later ones.

        The answer comes with the call. If there is no server now, it is the next one's.
        """
        if self._is_over:
            call._fail(self._ended())
            return
        entry = self._entries.setdefault(auth, _Credential(auth))
        call.queued_at = now
        entry.waiting.append(call)
        if self._is_open:
            self._present(entry, now)

    def present_all(self, now: float) -> None:
        """To a server on a new connection."""
        self._is_open = True
        for entry in self._entries.values():
            self._present(entry, now)

    def _present(self, entry: _Credential, now: float) -> None:
        self._presented.append((entry, now))
        body = encode_body(AuthPacket(entry.auth.scheme, entry.auth.credential))
        self._send(encode_request(XID_AUTH, OpCode.AUTH, body))

    @property
    def is_pending(self) -> bool:
        """Whether the server owes an answer."""
        return bool(self._presented)

    @property
    def presented_at(self) -> float:
        """When the oldest of those was sent that are not answered; there must be one."""
        return self._presented[0][1]

    def answered(self, err: int) -> None:
        """Takes the answer to the oldest packet.

        Raises:
            AuthFailedError: the credentials were refused.
        """
        entry, _ = self._presented.popleft()
        if err:
            raise AuthFailedError(REFUSED)
        waiting, entry.waiting = entry.waiting, []
        for call in waiting:
            call._succeed(None)

    @property
    def waiting_since(self) -> float | None:
        """Since when somebody waits for a connection; None if nobody does."""
        times = [call.queued_at for entry in self._entries.values() for call in entry.waiting]
        return max(min(times), self._lost_at) if times else None

    def connection_lost(self, now: float, patience: float, *, established: bool) -> None:
        """Whoever waits for an answer has it from the next server, unless it has waited for long.

        Args:
            now: the time.
            patience: how long requests wait for a connection.
            established: whether the connection came to anything.
        """
        self._is_open = False
        self._exchange = None
        self._presented.clear()
        if established:
            self._lost_at = now
            self._fail(lambda call: call._is_retried_too_long(now, patience), patience)

    def fail_overdue(self, now: float, patience: float) -> None:
        """Fails whoever has waited for `patience` seconds. The credentials are kept."""
        since = self._lost_at
        self._fail(lambda call: max(call.queued_at, since) + patience <= now, patience)

    def _fail(self, is_overdue: Callable[[Call[None]], bool], patience: float) -> None:
        for entry in self._entries.values():
            overdue = [call for call in entry.waiting if is_overdue(call)]
            entry.waiting = [call for call in entry.waiting if call not in overdue]
            for call in overdue:
                call._fail(
                    ConnectionLossError(
                        f"no server was shown the credentials for {patience:g} seconds; "
                        "the next one will be",
                        outcome=Outcome.NOT_APPLIED,
                    )
                )

    def fail_all(self) -> None:
        """There will be no connection any more."""
        self._is_over = True
        for entry in self._entries.values():
            waiting, entry.waiting = entry.waiting, []
            for call in waiting:
                call._fail(self._ended())
