"""SASL: the settings, and the client's side of a login. GSSAPI is RFC 4752, by package `gssapi`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, final

import anyio

from .._util.daemon_threads import in_daemon_thread
from .._util.escaping import unless_invalid
from ..errors import AuthFailedError, ConfigurationError
from .net.opener import ConnectionEnded

NO_LAYER = 1
"""The bit for authentication alone: no signing or encrypting by Kerberos."""


def find_gssapi() -> Any:
    """Returns the package; `ConfigurationError` if it, or the system's library, is missing."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"SASL.gssapi: needs aiolead[kerberos], and the system's Kerberos library: {error}"
        ) from None


_TICKETS = "kinit gets one, a keytab in KRB5_CLIENT_KTNAME renews it"


def _in_short(error: Exception) -> str:
    """The part of an error of GSSAPI that Kerberos has written; the whole text without one."""
    text = str(error)
    _, _, minor = text.rpartition(", Minor (")
    return minor.partition("): ")[2] or text


class Kerberos:
    """The client's side of one login. Every step may block, on files and on the KDC."""

    blocks = True

    def __init__(self, service: str, host: str, principal: str | None) -> None:
        self._server = f"{service}@{host}"
        self._principal = principal
        self._context: Any = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes | None:
        """Returns the next token for the server; `ConnectionEnded` without a ticket."""
        gssapi = find_gssapi()
        if self._context is None:
            try:
                self._context = self._make_context(gssapi)
                return self._context.step() or b""
            except gssapi.exceptions.GSSError as error:
                raise ConnectionEnded(
                    f"SASL: no Kerberos ticket for {self._server}: {_in_short(error)} ({_TICKETS})"
                ) from error
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose_layer(challenge)
        except gssapi.exceptions.GSSError as error:
            raise AuthFailedError(
                f"the server did not prove that it is {self._server}: {_in_short(error)}"
            ) from error

    def _make_context(self, gssapi: Any) -> Any:
        name = gssapi.Name(self._server, gssapi.NameType.hostbased_service)
        credentials = None
        if self._principal is not None:
            owner = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
            credentials = gssapi.Credentials(name=owner, usage="initiate")
        flags = (
            gssapi.RequirementFlag.mutual_authentication,
            gssapi.RequirementFlag.integrity,  # of the exchange about the layers
            gssapi.RequirementFlag.out_of_sequence_detection,
        )
        return gssapi.SecurityContext(
            name=name,
            creds=credentials,
            mech=gssapi.MechType.kerberos,
            flags=flags,
            usage="initiate",
        )

    def _choose_layer(self, offer: bytes) -> bytes:
        """Declines the server's security layers: that is the business of TLS."""
        layers = self._context.unwrap(offer).message
        if len(layers) != 4 or not layers[0] & NO_LAYER:
            raise AuthFailedError("the server insists on signing or encrypting by Kerberos")
        self.is_complete = True
        # No name to act for: the user is the ticket's owner.
        choice: bytes = self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message
        return choice


__all__ = ["SASL"]

THREADS = 2
"""How many Kerberos steps may run at once. A step may hang, as without a KDC or a resolver."""


class Mechanism(Protocol):
    """The client's side of one login: takes and makes tokens."""

    @property
    def blocks(self) -> bool: ...

    @property
    def is_complete(self) -> bool: ...

    def step(self, challenge: bytes, /) -> bytes | None: ...


@final
@dataclass(frozen=True, slots=True)
class SASL:
    """A login by SASL on every connection: `connect(sasl=SASL.digest_md5(user, password))`.

    Made by `digest_md5` or `gssapi`. ACL entries of the scheme `sasl` name the user.
    """

    mechanism: str
    user: str | None = None
    _password: str = field(default="", repr=False)
    service: str = "zookeeper"
    host: str | None = None

    @classmethod
    def digest_md5(cls, user: str, password: str) -> SASL:
        """Log in by a user name and a password, which is not sent.

        The servers need a `DigestLoginModule` in their JAAS configuration. An eavesdropper can try
        passwords offline, and change what follows the login: use TLS on untrusted networks.

        Raises `ConfigurationError` if one of them is empty, or cannot be encoded as UTF-8.
        """
        for name, value in (("user", user), ("password", password)):
            if not isinstance(value, str) or not value:
                raise ConfigurationError(f"{name}: must be text, and not empty")
            if unless_invalid(value.encode) is None:
                raise ConfigurationError(f"{name}: must be text that can be encoded as UTF-8")
        return cls("DIGEST-MD5", user, password)

    @classmethod
    def gssapi(
        cls, *, service: str = "zookeeper", host: str | None = None, principal: str | None = None
    ) -> SASL:
        """Log in by Kerberos: needs `aiolead[kerberos]`, and a ticket or keytab where Kerberos
        looks.

        Tickets are not renewed here (`k5start` or `KRB5_CLIENT_KTNAME` do that). Without a ticket
        the client keeps trying, as when no server answers. Raises `ConfigurationError` for an
        invalid argument, or without the package `gssapi`.

        Args:
            service: of the servers' principals, `service/host@REALM`.
            host: of the servers' principals; defaults to each server's name in the connect string.
            principal: the user, if there are tickets of several; defaults to the default ticket's
                owner.
        """
        for name, value in (("service", service), ("host", host), ("principal", principal)):
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigurationError(f"{name}: must be text, and not empty, not {value!r}")
        find_gssapi()
        return cls("GSSAPI", principal, "", service, host)

    def _mechanism_for(self, host: str) -> Mechanism:
        if self.mechanism == "GSSAPI":
            return Kerberos(self.service, self.host or host, self.user)
        from .._wire.digest_md5 import DigestMD5

        return DigestMD5(self.user or "", self._password)


@final
class Login:
    def __init__(self, mechanism: Mechanism, threads: anyio.CapacityLimiter) -> None:
        self._mechanism = mechanism
        self._threads = threads
        self._challenge = b""
        self._challenged = anyio.Event()

    def challenged(self, token: bytes) -> None:
        self._challenge = token
        self._challenged.set()

    async def run(self, answer: Callable[[bytes | None, bool], object]) -> None:
        """Answers the server's tokens; `answer` takes a token, and whether it is the last.

        Raises `AuthFailedError` if the server is not what it should be, `ConnectionEnded` if no
        token could be made, as without a ticket.
        """
        while not self._mechanism.is_complete:
            await self._challenged.wait()
            self._challenged = anyio.Event()
            token = await self._step(self._challenge)
            answer(token, self._mechanism.is_complete)

    async def _step(self, challenge: bytes) -> bytes | None:
        step = partial(self._mechanism.step, challenge)
        if not self._mechanism.blocks:
            return step()
        borrower = object()
        await self._threads.acquire_on_behalf_of(borrower)
        # An abandoned step counts until it ends.
        release = partial(self._threads.release_on_behalf_of, borrower)
        return await in_daemon_thread(step, "aiolead-sasl", release)


@final
class Logins:
    def __init__(self, sasl: SASL) -> None:
        self._sasl = sasl
        # Our own limiter: steps that hang without a KDC must not use up everybody's threads.
        self._threads = anyio.CapacityLimiter(THREADS)
        self._current: Login | None = None

    def begin(self, host: str) -> Login:
        """Begins a login on a new connection; `host` is its name in the connect string."""
        self._current = Login(self._sasl._mechanism_for(host), self._threads)
        return self._current

    def challenged(self, token: bytes) -> None:
        """Passes on the server's token; the first one is empty and asks for ours."""
        if self._current is not None:
            self._current.challenged(token)
