"""The base of recipes that are not held, and the checks of the arguments that recipes share.

Each argument is checked before anything is sent.
"""

from __future__ import annotations

import inspect
import math
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Literal, TypeVar

from .._util.contender_names import REVOKED, UNREADY
from .._util.escaping import described
from .._util.parsing import MalformedError, real
from ..abc import CoordinationClient
from ..errors import ConfigurationError, InvalidDataError
from ..model import ACL
from ..paths import validate
from .reading import MAX_IDENTITY

V = TypeVar("V")

OnDisconnect = Literal["keep", "resign"]
OnRevocation = Literal["ignore", "resign"]
OnInvalid = Callable[[InvalidDataError], object]

_client_types: set[type] = set()
"""The types of clients that were checked. A check of all methods of the protocol takes 14 µs."""


def checked_client(client: CoordinationClient) -> CoordinationClient:
    """Check the client; return it without the limit of requests, since a recipe sends few."""
    if type(client) not in _client_types:
        if not isinstance(client, CoordinationClient):
            raise ConfigurationError(
                f"client: must be a client, as `async with aiolead.connect()` gives, not {client!r}"
            )
        _client_types.add(type(client))
    return client.backend.unlimited()


def checked_path(path: str) -> str:
    validate(path)
    if path == "/":
        raise ConfigurationError("path: the root cannot be contended for")
    return path


_MARKS = (
    (REVOKED.decode(), "asks a holder to release"),
    (UNREADY.decode(), "marks a contender that warms up"),
)


def checked_identity(identity: str | None) -> str:
    """Check an identity, which defaults to host name and process id."""
    if identity is None:
        identity = f"{socket.gethostname()}:{os.getpid()}"
    if not checked_text("identity", identity, most=MAX_IDENTITY):
        raise ConfigurationError("identity: must not be empty")
    for mark, meaning in _MARKS:
        if identity.startswith(mark):
            raise ConfigurationError(
                f"identity: must not begin with {mark!r}, which {meaning}: {identity!r}"
            )
    return identity


def checked_text(name: str, text: str, *, most: int) -> str:
    """Check a text of at most `most` bytes of UTF-8."""
    if not isinstance(text, str):
        raise ConfigurationError(f"{name}: must be a str, not {text!r}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name}: is not valid Unicode: {text!r}") from None
    if size > most:
        raise ConfigurationError(f"{name}: has {size} bytes of UTF-8, at most {most} are allowed")
    return text


def checked_on_disconnect(on_disconnect: OnDisconnect) -> OnDisconnect:
    if on_disconnect not in ("keep", "resign"):
        raise ConfigurationError(
            f"on_disconnect: must be 'keep' or 'resign', not {on_disconnect!r}"
        )
    return on_disconnect


def checked_revocation(on_revocation: OnRevocation, grace: float) -> float | None:
    """Check what to do when others ask for a release; return the grace, None to ignore them."""
    if on_revocation not in ("ignore", "resign"):
        raise ConfigurationError(
            f"on_revocation: must be 'ignore' or 'resign', not {on_revocation!r}"
        )
    grace = checked_number("revocation_grace", grace)
    return grace if on_revocation == "resign" else None


def checked_acl(acl: Sequence[ACL] | None) -> Sequence[ACL] | None:
    """Check an ACL, and copy it: it may be an iterator, and each create needs it."""
    if acl is None:
        return None
    entries = tuple(acl) if isinstance(acl, Iterable) else ()
    if not entries or not all(isinstance(entry, ACL) for entry in entries):
        # The value is not shown: it may contain the hash of a password.
        raise ConfigurationError("acl: must be a sequence of at least one ACL: [ACL.auth()]")
    return entries


def checked_wait(timeout: float | None) -> float | None:
    """Check a timeout: None, or seconds from 0 up."""
    if timeout is None:
        return None
    if isinstance(timeout, float) and timeout == math.inf:
        return timeout
    return _checked_real("timeout", timeout, "None or seconds from 0 up")


def checked_pause(pause: float) -> float:
    return _checked_real("pause", pause, "seconds from 0 up")


def checked_count(name: str, value: int, *, least: int = 1, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(f"{name}: must be from {least} to {most}, not {described(value)}")
    return value


def checked_flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}: must be True or False, not {described(value)}")
    return value


def checked_on_invalid(on_invalid: OnInvalid | None) -> OnInvalid | None:
    if on_invalid is not None and not callable(on_invalid):
        raise ConfigurationError(f"on_invalid: must be a function, not {on_invalid!r}")
    return on_invalid


def checked_number(
    name: str, value: object, *, least: float = 0.0, most: float = math.inf
) -> float:
    is_limited = most < math.inf
    allowed = (
        f"a number from {least:g} to {most:g}" if is_limited else f"a number of {least:g} or more"
    )
    return _checked_real(name, value, allowed, least, most)


def _checked_real(
    name: str, value: object, allowed: str, least: float = 0.0, most: float = math.inf
) -> float:
    try:
        number = real(value)
    except MalformedError:
        number = -1.0
    if not least <= number <= most:
        raise ConfigurationError(f"{name}: must be {allowed}, not {described(value)}")
    return number


def checked_several(name: str, values: Iterable[V], of: str) -> list[V]:
    """Return the values as a list. A text and bytes are one value, and not several."""
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name}: must be several {of}, not {described(values)}")
    return list(values)


def checked_name(what: str, name: str) -> str:
    if not isinstance(name, str) or not name or "/" in name:
        raise ConfigurationError(f"{what}: must be a str without a slash, not {name!r}")
    validate(f"/{name}", name=what)
    return name


MAX_DATA = 1_000_000
"""Longest data of a `PersistentNode`, in bytes. Servers end a connection that sends 1 MiB."""


def checked_data(data: bytes) -> bytes:
    if not isinstance(data, bytes):
        raise ConfigurationError(f"data: must be bytes, not {type(data).__name__}")
    if len(data) > MAX_DATA:
        raise ConfigurationError(
            f"data: has {len(data)} bytes, at most {MAX_DATA} are allowed: keep it small, "
            "everybody who follows it reads it with each change"
        )
    return data


def _explained(init: Callable[..., None]) -> Callable[..., None]:
    """Refuse missing and unknown arguments with an error that names the class of the object.

    Python would name the class that defines `__init__`, which users may not know.
    """

    @wraps(init)
    def explained(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            traceback = error.__traceback__
            if traceback is None or traceback.tb_next is not None:
                raise  # by the body of `__init__`
            why = str(error).partition("() ")[2] or error
        else:
            return
        name, kind = type(self).__name__, inspect.Parameter
        needed = [
            each.name
            for each in inspect.signature(type(self)).parameters.values()
            if each.default is kind.empty and each.kind is kind.POSITIONAL_OR_KEYWORD
        ]
        raise ConfigurationError(f"{name}: {why}: write `{name}({', '.join(needed)})`")

    return explained


def explain_arguments(cls: type[Any]) -> None:
    """Let a new class refuse wrong arguments by its own name; see `_explained`."""
    if "__init__" in vars(cls):
        setattr(cls, "__init__", _explained(cls.__init__))  # noqa: B010 - no method of mypy's


class Recipe:
    """A recipe at a path that is not held.

    Threads and forks: a recipe is made and used in the client's event loop. Its properties may
    be read, and contexts to enter be made, in any thread; everything else raises `UsageError`
    elsewhere, before it has changed anything.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_arguments(cls)

    @_explained
    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._path
