"""Which requests the dashboard answers: by the host that was asked for, and by a token. Pure.

Any page in a browser may send requests to any address. The Host header keeps foreign pages out:
with DNS rebinding, an attacker's name resolves to this machine, but is still in the header.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv4Address, IPv6Address
from typing import final

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@final
class Doors:
    """Decides which requests to answer.

    `names` are other names that may be asked for; without a `token` everybody is answered. By
    `port`, several dashboards of one machine have different cookies.
    """

    def __init__(
        self, host: str, port: int, *, names: Iterable[str] = (), token: str | None = None
    ) -> None:
        self._names = {_plain(host), *map(_plain, names)}
        self._token = token
        self.cookie_name: str = f"aiolead-dashboard-{port}"

    @property
    def is_locked(self) -> bool:
        return self._token is not None

    def knows(self, header: str, address: str) -> bool:
        """Whether a Host header, in a request to our `address`, asks for this dashboard."""
        name = host_of(header)
        if name is None:
            return False
        is_local = name in _LOCAL_NAMES and is_loopback(_plain(address))
        return is_local or name in self._names or name == _plain(address)

    def opens_to(self, token: str) -> bool:
        wanted = self._token
        return wanted is not None and hmac.compare_digest(wanted.encode(), _bytes(token))

    def admits(self, authorization: str, cookies: str) -> bool:
        """Whether a request may be answered, by its headers Authorization and Cookie (or empty)."""
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
        """The cookie of a browser that has presented the token, which cannot be derived from it."""
        return hmac.new((self._token or "").encode(), b"cookie", hashlib.sha256).hexdigest()


def host_of(header: str) -> str | None:
    """The name in a Host header, without the port; None if it is malformed."""
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
    address = address_in(host)
    return address is not None and address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    address = address_in(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def address_in(host: str) -> IPv4Address | IPv6Address | None:
    """A host's address; that of IPv4 where IPv6 contains it. None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _plain(host: str) -> str:
    """One spelling for each name or address."""
    host = host.lower().removesuffix(".")
    return str(address_in(host) or host)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
