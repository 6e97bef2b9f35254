"""The errors for error codes on the wire."""

from __future__ import annotations

from ..errors import (
    AioleadError,
    AuthFailedError,
    ConnectionLossError,
    ServerError,
    SessionExpiredError,
    SessionMovedError,
    UnknownServerError,
)

_BY_CODE = {cls.code: cls for cls in ServerError.__subclasses__() if cls.code}


def server_error(code: int, path: str | None = None) -> AioleadError:
    """The error for a code: of the session, of the connection (-4), else a `ServerError`."""
    if cls := _BY_CODE.get(code):
        return cls(path)
    match code:
        case -4:
            return ConnectionLossError("the server lost its connection to the ensemble")
        case -112:
            return SessionExpiredError("the server says that the session expired")
        case -115:
            return AuthFailedError("the server refused the credentials")
        case -118:
            return SessionMovedError("the session was moved to another connection")
        case -124:
            return AuthFailedError(
                "the server takes authenticated clients only, so it closed the session"
            )
        case _:
            return UnknownServerError(code, path)
