"""Which requests the dashboard answers: by the host that was asked for, and by a token. Pure.

Any page in a browser may send requests to any address. The Host header keeps foreign pages out:
with DNS rebinding, an attacker's name resolves to this machine, but is still in the header.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
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

    def user_of(self, authorization: str, cookies: str) -> str | None:
        """The user, by the headers Authorization and Cookie (or empty): a browser by its cookie, or
        anybody else with the token, or without one. None if the request may not be answered.
        """
        if self._token is None:
            return ""
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.opens_to(credentials.strip()):
            return "token"
        try:
            found = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return None
        if found is None:
            return None
        browser = found.value.partition(".")[0]
        is_ours = hmac.compare_digest(self._cookie_of(browser).encode(), _bytes(found.value))
        return f"browser {browser}" if is_ours else None

    def new_cookie(self) -> str:
        """A cookie for a browser that has presented the token, which does not follow from it."""
        return self._cookie_of(secrets.token_hex(8))

    def _cookie_of(self, browser: str) -> str:
        key = (self._token or "").encode()
        return f"{browser}.{hmac.new(key, _bytes(browser), hashlib.sha256).hexdigest()}"


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
