"""Access control: the schemes world, auth, digest and ip; x509 and sasl where they are on."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterable

from ..._wire.versions import Feature
from ...errors import InvalidACLError, NoAuthError
from ...model import ACL, ANYONE, Permission

Identity = tuple[str, str]
"""A scheme and an id that a connection has shown to be its own."""

SUPER: Identity = ("super", "")
"""The identity that may do everything, regardless of ACLs."""

DEFAULT_SCHEMES = frozenset({"digest", "ip"})
"""The schemes of ACL entries on a server with default settings, beside world and auth."""

AUTHENTICATED = frozenset({"digest", "sasl", "x509"})
"""The schemes that `auth` stands for. An address is no authentication: everybody has one."""


def authenticate(
    scheme: str, credential: bytes, address: str, super_digest: str | None = None
) -> list[Identity]:
    """The identities that a credential proves; none if the server does not accept it."""
    match scheme:
        case "digest":
            text = credential.decode(errors="replace")
            # The protocol's choice of hash, not ours.
            digest = hashlib.sha1(text.encode(), usedforsecurity=False).digest()
            id_ = f"{text.split(':', 1)[0]}:{base64.b64encode(digest).decode()}"
            return [*([SUPER] if id_ == super_digest else []), ("digest", id_)]
        case "ip":
            return [("ip", address)]
        case _:
            return []


def expand(
    acls: Iterable[ACL],
    identities: Iterable[Identity],
    path: str,
    schemes: frozenset[str] = DEFAULT_SCHEMES,
    features: Collection[Feature] = (),
) -> tuple[ACL, ...]:
    """The list as it is stored: without doubles, `auth` replaced by who the caller is.

    Raises:
        InvalidACLError: it is empty, names an unknown scheme or a malformed id, or says `auth`
            where the caller has authenticated as nobody.
    """
    expanded: list[ACL] = []
    for acl in dict.fromkeys(acls):
        if (acl.scheme, acl.id) == ANYONE:
            expanded.append(acl)
        elif acl.scheme == "auth":
            own = [ACL(acl.permissions, *who) for who in identities if who[0] in AUTHENTICATED]
            if not own:
                raise InvalidACLError(path)
            expanded += own
        elif acl.scheme in schemes and _is_valid(acl.scheme, acl.id, features):
            expanded.append(acl)
        else:
            raise InvalidACLError(path)
    if not expanded:
        raise InvalidACLError(path)
    return tuple(expanded)


def check(
    acls: tuple[ACL, ...], wanted: Permission, identities: Collection[Identity], path: str
) -> None:
    """Raises `NoAuthError` unless `allows`."""
    if not allows(acls, wanted, identities):
        raise NoAuthError(path)


def allows(acls: tuple[ACL, ...], wanted: Permission, identities: Collection[Identity]) -> bool:
    """Whether an entry allows one of the identities one of the permissions."""
    if not acls or SUPER in identities:
        return True
    for acl in acls:
        if acl.permissions & wanted:
            if (acl.scheme, acl.id) == ANYONE:
                return True
            if any(scheme == acl.scheme and _matches(acl, id_) for scheme, id_ in identities):
                return True
    return False


def masked(acls: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """The list for a reader who may not change it: the digests are struck out."""
    return tuple(
        ACL(acl.permissions, acl.scheme, acl.id.split(":", 1)[0] + ":x")
        if acl.scheme == "digest" and ":" in acl.id
        else acl
        for acl in acls
    )


def user(scheme: str, id_: str) -> str:
    """The name of an identity without its secret."""
    return id_.partition(":")[0] if scheme == "digest" else id_


def _is_valid(scheme: str, id_: str, features: Collection[Feature]) -> bool:
    match scheme:
        case "digest":
            # Exactly one colon with something behind it.
            return id_.count(":") == 1 and not id_.endswith(":")
        case "ip":
            return (":" not in id_ or Feature.IPV6_ACLS in features) and _network(id_) is not None
        case "sasl":
            # A plain name, or a principal of Kerberos.
            return "@" not in id_ or _PRINCIPAL.fullmatch(id_) is not None
        case "x509":
            return all("=" in part for part in id_.split(","))
        case _:
            return False


_PRINCIPAL = re.compile("[^/@]*(/[^/@]*)?@[^/@]*")


def _matches(acl: ACL, id_: str) -> bool:
    if acl.scheme == "ip":
        network, address = _network(acl.id), _network(id_)
        if isinstance(network, ipaddress.IPv4Network):
            return isinstance(address, ipaddress.IPv4Network) and address.subnet_of(network)
        return (
            network is not None
            and isinstance(address, ipaddress.IPv6Network)
            and address.subnet_of(network)
        )
    return acl.id == id_


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """`a.b.c.d` or `a.b.c.d/bits`, or the same with an IPv6 address of hexadecimal digits."""
    address, slash, bits = text.partition("/")
    if slash and not (bits.isascii() and bits.isdigit()):
        return None
    try:
        if ":" not in address:
            return ipaddress.IPv4Network(f"{address}/{bits or 32}", strict=False)
        if "." in address or "%" in address:
            return None
        return ipaddress.IPv6Network(f"{address}/{bits or 128}", strict=False)
    except ValueError:
        return None
