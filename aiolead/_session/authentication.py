"""How a session identifies itself: the SASL exchange of each connection, then the credentials.

Tokens are made elsewhere, since some take time; this module never waits for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from .._util.escaping import in_seconds
from .._wire.codes import XID_AUTH, XID_SASL, OpCode, server_error
from .._wire.jute import Reader, encode_request
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
from .requests import Call

REFUSED = "the server refused the credentials"


class Exchange:
    """The SASL exchange of one connection.

    `on_challenge` is called with each server token, first with an empty one; call `answer` then.
    """

    def __init__(self, on_challenge: Callable[[bytes], object]) -> None:
        self._on_challenge = on_challenge
        self._is_last = False
        self._is_our_turn = True

    def begin(self) -> None:
        self._on_challenge(b"")

    def answer(self, token: bytes, *, is_last: bool) -> bytes:
        """Encode the client's next token."""
        if not self._is_our_turn:
            raise RuntimeError("a token where the server was to speak")
        self._is_our_turn = False
        self._is_last = is_last
        return encode_request(XID_SASL, OpCode.SASL, Sasl(token).encode())

    def receive(self, frame: bytes) -> bool:
        """Take the server's answer; return whether it was the last one.

        Raises `AuthFailedError` (login refused) or `RemoteWireError` (answer to something else).
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


class Authentication:
    """The login of each connection: the SASL exchange, if any, then the credentials in order.

    Without `on_challenge` there is no exchange. `on_complete` is called when the exchange is over;
    `ended` makes the error for calls after the end.
    """

    def __init__(
        self,
        auth: Iterable[Auth],
        on_challenge: Callable[[bytes], object] | None,
        send: Callable[[bytes], object],
        on_complete: Callable[[float], object],
        ended: Callable[[], AioleadError],
    ) -> None:
        # Credentials, each with the calls that wait for the server's answer.
        self._waiting: dict[Auth, list[Call[None]]] = {entry: [] for entry in auth}
        self.presented: deque[tuple[Auth, float]] = deque()
        """The credentials that the server has not answered yet, each with when it was sent."""
        self._on_challenge = on_challenge
        self._exchange: Exchange | None = None
        self._send = send
        self._on_complete = on_complete
        self._ended = ended
        self._is_open = False
        self._is_over = False
        self._lost_at = -inf  # when the last connection was lost
        self.refusal = REFUSED

    # --- the exchange --------------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Whether the exchange is in progress; nothing else may be sent meanwhile."""
        return self._exchange is not None

    @property
    def is_wanted(self) -> bool:
        """Whether the client has an identity, which it presents before any request."""
        return self._on_challenge is not None or bool(self._waiting)

    def begin(self, now: float) -> None:
        if self._on_challenge is None:
            self._on_complete(now)
        else:
            self._exchange = Exchange(self._on_challenge)
            self._exchange.begin()

    def answer(self, token: bytes | None, now: float, *, is_last: bool) -> None:
        """Send the next token; None completes the login, else the answer to the last token does."""
        if self._exchange is None:
            return  # the connection was lost meanwhile
        if token is None:
            self._complete(now)
        else:
            self._send(self._exchange.answer(token, is_last=is_last))

    def receive(self, frame: bytes, now: float) -> None:
        """Take a server token during the exchange. Raises as `Exchange.receive`."""
        if self._exchange is not None and self._exchange.receive(frame):
            self._complete(now)

    def _complete(self, now: float) -> None:
        self._exchange = None
        self._on_complete(now)

    # --- the credentials -----------------------------------------------------------------------

    def add(self, auth: Auth, call: Call[None], now: float) -> None:
        """Present credentials now (else on the next connection) and later; settle `call` then."""
        if self._is_over:
            call.fail(self._ended())
            return
        call.queued_at = now
        self._waiting.setdefault(auth, []).append(call)
        if self._is_open:
            self._present(auth, now)

    def present_all(self, now: float) -> None:
        self._is_open = True
        for auth in self._waiting:
            self._present(auth, now)

    def _present(self, auth: Auth, now: float) -> None:
        self.presented.append((auth, now))
        self._send(_packet(auth))

    @property
    def packets(self) -> list[bytes]:
        """The packets that present all credentials to a server, framed."""
        return [_packet(auth) for auth in self._waiting]

    def answered(self, err: int) -> None:
        """Take the answer to the oldest packet. Raises `AuthFailedError` for a refusal."""
        auth, _ = self.presented.popleft()
        if err:
            raise AuthFailedError(REFUSED)
        calls, self._waiting[auth] = self._waiting[auth], []
        for call in calls:
            call.succeed(None)

    @property
    def waiting_since(self) -> float | None:
        """Since when the oldest call waits for a connection; None if there is none."""
        times = [call.queued_at for calls in self._waiting.values() for call in calls]
        return max(min(times), self._lost_at) if times else None

    def connection_lost(self, now: float, patience: float, *, established: bool) -> None:
        """Keep calls for the next server; if the connection was `established`, fail old ones."""
        self._is_open = False
        self._exchange = None
        self.presented.clear()
        if established:
            self._lost_at = now
            self._fail(lambda call: call.is_retried_too_long(now, patience), patience)

    def fail_overdue(self, now: float, patience: float) -> None:
        """Fail calls that have waited for `patience` seconds. The credentials are kept."""
        since = self._lost_at
        self._fail(lambda call: max(call.queued_at, since) + patience <= now, patience)

    def _fail(self, is_overdue: Callable[[Call[None]], bool], patience: float) -> None:
        for auth, calls in list(self._waiting.items()):
            overdue = [call for call in calls if is_overdue(call)]
            self._waiting[auth] = [call for call in calls if call not in overdue]
            for call in overdue:
                call.fail(
                    ConnectionLossError(
                        f"no server was shown the credentials for {in_seconds(patience)}; "
                        "the next one will be",
                        outcome=Outcome.NOT_APPLIED,
                    )
                )

    def fail_all(self) -> None:
        self._is_over = True
        waiting = [call for calls in self._waiting.values() for call in calls]
        self._waiting.clear()
        for call in waiting:
            call.fail(self._ended())


def _packet(auth: Auth) -> bytes:
    body = AuthPacket(auth.scheme, auth.credential).encode()
    return encode_request(XID_AUTH, OpCode.AUTH, body)
