"""Whom the dashboard answers: by the host that was asked for, and by a token. Pure.

Any page that a browser shows may send it to any address. What keeps others out is the name that it
then asks for: whoever has his own name resolved to this machine's address (DNS rebinding) still
asks for his own name.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import final

__all__ = ["Doors", "host_of", "is_everywhere", "is_loopback"]

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@final
class Doors:
    """Decides whom to answer.

    Args:
        host: the address that is listened on.
        port: the port; other dashboards of this machine have other cookies.
        names: by what other names it may be asked for.
        token: what whoever asks must know; None to answer everybody.
    """

    def __init__(
        self, host: str, port: int, *, names: Iterable[str] = (), token: str | None = None
    ) -> None:
        self._names = {_plain(host), *map(_plain, names)}
        self._token = token
        self.cookie_name: str = f"aiolead-dashboard-{port}"

    @property
    def is_locked(self) -> bool:
        """Whether it takes a token."""
        return self._token is not None

    def knows(self, header: str, address: str) -> bool:
        """Whether it is us who was asked for.

        Args:
            header: the Host header of the request.
            address: of ours, that the request came in at: where all addresses are listened on, it
                may be asked for.
        """
        name = host_of(header)
        if name is None:
            return False
        is_local = name in _LOCAL_NAMES and is_loopback(_plain(address))
        return is_local or name in self._names or name == _plain(address)

    def opens_to(self, token: str) -> bool:
        """Whether that is the token."""
        wanted = self._token
        return wanted is not None and hmac.compare_digest(wanted.encode(), _bytes(token))

    def admits(self, authorization: str, cookies: str) -> bool:
        """Whether a request may be answered.

        Args:
            authorization: its header of that name; empty if it has none.
            cookies: its header Cookie; empty if it has none.
        """
        if self._token is None:
            return True
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.opens_to(credentials.strip()):
            return True
        try:
            found = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            self.cookie_value.encode(), _bytes(found.value)
        )

    @property
    def cookie_value(self) -> str:
        """What a browser keeps, once it has shown the token: it does not give that away."""
        return hmac.new((self._token or "").encode(), b"cookie", hashlib.sha256).hexdigest()


def host_of(header: str) -> str | None:
    """The name in a Host header, without the port; None if that is none."""
    name, port = header, ""
    if header.startswith("["):
        name, bracket, port = header[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
    elif ":" in header:
        name, _, port = header.partition(":")
    digits = port.removeprefix(":")
    if not name or not (digits.isascii() and (digits.isdigit() or not digits)):
        return None
    return _plain(name)


def is_everywhere(host: str) -> bool:
    """Whether an address stands for all that this machine has."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _plain(host: str) -> str:
    """One spelling for each name or address."""
    host = host.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
