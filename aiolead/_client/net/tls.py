"""TLS: the user's settings, and the context for the next connection."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import final

import anyio
import anyio.to_thread

from ..._util.escaping import get_logger, unless_invalid
from ...errors import ConfigurationError

__all__ = ["TLS"]

logger = get_logger("aiolead.connection")

FilePath = str | os.PathLike[str]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """TLS from PEM files: `connect(tls=TLS(ca="ca.pem"))`.

    The files are read at `connect`, and again before a connection when one has changed, so that
    certificates can be replaced without losing the session. Unusable new files are logged, and the
    old ones stay in use until they change again.

    Attributes:
        ca: certificates of the authorities that sign the servers'; defaults to the system's.
        cert: the client's certificate, with the chain below its authority, if servers ask for one.
        key: its private key; defaults to the certificate's file.
        password: of the private key, if it is encrypted.
        server_hostname: the name in the servers' certificates, if not the one in the connect
            string.
        check_hostname: whether the certificate must have that name, in its `subjectAltName`: a
            common name does not count. Without this check, anybody with a certificate of the
            authority can pose as a server.

    Raises:
        ConfigurationError: the arguments do not go together.
    """

    ca: FilePath | None = None
    cert: FilePath | None = None
    key: FilePath | None = None
    password: str | None = field(default=None, repr=False)
    server_hostname: str | None = None
    check_hostname: bool = True

    def __post_init__(self) -> None:
        for name in ("ca", "cert", "key"):
            path = getattr(self, name)
            if path is not None and not (isinstance(path, (str, os.PathLike)) and str(path)):
                raise ConfigurationError(f"{name}: must be the path of a PEM file, not {path!r}")
        if self.password is not None and not isinstance(self.password, str):
            raise ConfigurationError("password: must be text")  # its value is never shown
        if self.password is not None and unless_invalid(self.password.encode) is None:
            raise ConfigurationError("password: must be text that can be encoded as UTF-8")
        if self.cert is None and (self.key is not None or self.password is not None):
            raise ConfigurationError("cert: missing, although there is a key or its password")
        wanted = self.server_hostname
        if wanted is not None and not (isinstance(wanted, str) and wanted):
            raise ConfigurationError(f"server_hostname: must be a host name, not {wanted!r}")
        if not isinstance(self.check_hostname, bool):
            raise ConfigurationError(f"check_hostname: must be a bool, not {self.check_hostname!r}")

    @property
    def files(self) -> tuple[FilePath, ...]:
        """The files that it is made from."""
        return tuple(path for path in (self.ca, self.cert, self.key) if path is not None)

    def load(self) -> ssl.SSLContext:
        """Read the files; raise `ConfigurationError` if they cannot be read or used."""
        from pathlib import Path

        for name in ("ca", "cert", "key"):
            if (path := getattr(self, name)) is not None:
                try:
                    Path(path).read_bytes()
                except OSError as error:
                    reason = error.strerror or type(error).__name__
                    raise ConfigurationError(f"{name}: cannot read {path}: {reason}") from None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"ca: no certificates in {self.ca}: {error.reason}") from None
        # Python's own minimum, unless Python was built to follow the system's.
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        # Renegotiation, which only old servers ask for, would make the writer read.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # A name that no certificate authority has to check (RFC 9525).
        context.hostname_checks_common_name = False
        context.check_hostname = self.check_hostname
        if self.cert is not None:
            self._load_own(context, self.cert)
        return context

    def _load_own(self, context: ssl.SSLContext, cert: FilePath) -> None:
        asked = False

        def password() -> str:
            # Without this callback, OpenSSL would ask on the terminal.
            nonlocal asked
            asked = True
            return self.password or ""

        where = f"cert: {cert}" if self.key is None else f"cert, key: {cert}, {self.key}"
        try:
            context.load_cert_chain(cert, self.key, password)
        except ssl.SSLError as error:
            if asked:
                wrong = "wrong" if self.password else "missing"
                raise ConfigurationError(
                    f"password: {wrong}, the key in {self.key or cert} is encrypted"
                ) from None
            reason = (error.reason or "no certificate and private key").lower().replace("_", " ")
            raise ConfigurationError(f"{where}: {reason}") from None


Stamp = tuple[tuple[int, int, int] | None, ...]
"""Time, size and inode of each file: they show whether a file was changed or replaced."""


def _stamp(files: tuple[FilePath, ...]) -> Stamp:
    stamp: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            found = os.stat(path)  # noqa: PTH116 - pathlib is imported where it is used
        except OSError:
            stamp.append(None)
        else:
            stamp.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamp)


@final
class ContextSource:
    """The TLS context for the next connection: a given one, or made from files.

    `name_of` maps a server's name to its certificate's, unless the files come with one.
    """

    def __init__(
        self, given: ssl.SSLContext | TLS, name_of: Callable[[str], str] | None = None
    ) -> None:
        self._tls: TLS | None = None
        self._name_of = name_of
        self._seen: Stamp = ()
        if isinstance(given, TLS):
            self._tls = given
            self._seen = _stamp(given.files)
            self._context = given.load()
        elif isinstance(given, ssl.SSLContext):
            if given.protocol == ssl.PROTOCOL_TLS_SERVER:
                raise ConfigurationError(
                    "tls: must be a context for clients, not for servers (PROTOCOL_TLS_SERVER)"
                )
            self._context = given
        else:
            raise ConfigurationError(f"tls: must be an ssl.SSLContext or a TLS, not {given!r}")

    def server_hostname(self, host: str) -> str:
        """Returns the name to check in a server's certificate, by its name in the list."""
        if self._tls is not None and self._tls.server_hostname is not None:
            return self._tls.server_hostname
        if self._name_of is not None:
            host = self._name_of(host)
        # Certificates have neither the zone of a link-local address nor a name's final dot.
        return host.partition("%")[0].removesuffix(".")

    async def current(self) -> ssl.SSLContext:
        """Returns the context, made again if a file has changed; cancelling leaves a slow disk."""
        if self._tls is not None:
            # Files may be on a network: the event loop must not wait for them.
            refresh = partial(_refresh, self._tls, self._seen)
            found = await anyio.to_thread.run_sync(refresh, abandon_on_cancel=True)
            if found is not None:
                self._seen, context = found
                if context is not None:
                    self._context = context
        return self._context


def _refresh(tls: TLS, seen: Stamp) -> tuple[Stamp, ssl.SSLContext | None] | None:
    """None if nothing has changed; else the files' new stamp, and a context if they are usable."""
    # Taken before the files are read: a change meanwhile is found the next time.
    stamp = _stamp(tls.files)
    if stamp == seen:
        return None
    try:
        context = tls.load()
    except ConfigurationError as error:
        logger.warning("TLS files have changed and are not used: %s", error)
        return stamp, None
    logger.info("TLS files have changed: the next connection uses them")
    return stamp, context
