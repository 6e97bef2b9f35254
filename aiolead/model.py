"""The values that aiolead and its callers exchange: immutable, slotted, comparable."""

from __future__ import annotations

import base64
import enum
import ipaddress
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ._util.escaping import described, repr_with_session, unless_invalid
from .errors import ConfigurationError
from .paths import format_host

__all__ = [
    "ACL",
    "ANYONE",
    "CREATOR_ALL_ACL",
    "OPEN_ACL_UNSAFE",
    "READ_ACL_UNSAFE",
    "Auth",
    "CreateMode",
    "Created",
    "EnsembleConfig",
    "EventType",
    "Identity",
    "Missed",
    "MissedReason",
    "Participant",
    "Permission",
    "Quota",
    "QuotaUsage",
    "ServerSpec",
    "SessionCredentials",
    "SessionState",
    "Stat",
    "WatchEvent",
]

_MAX_LIMIT = 0x7FFF_FFFF_FFFF_FFFF
_PREFIX_LENGTH = r"[0-9]{1,3}"
_ANYWHERE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")  # noqa: S104 - read, not bound to


class Stat(NamedTuple):
    """A znode's metadata.

    Transaction ids (`czxid`, `mzxid`, `pzxid`) rise with every change of the ensemble. Times are
    the leader's wall clock, in milliseconds since 1970.
    """

    czxid: int
    """Transaction that created the znode. It is unique, so it serves as the fencing token."""
    mzxid: int
    """Transaction that last set its data."""
    ctime: int
    mtime: int
    version: int
    """How often its data was set since it was created."""
    cversion: int
    """How often its list of children changed."""
    aversion: int
    """How often its ACL was set."""
    ephemeral_owner: int
    """Session id of the owner of an ephemeral znode; 0 for a persistent one."""
    data_length: int
    num_children: int
    pzxid: int
    """Transaction that last changed the list of children."""


class CreateMode(enum.IntEnum):
    """The lifetime of a znode, and how it is named; the values are those on the wire."""

    PERSISTENT = 0
    EPHEMERAL = 1
    """Deleted by the server when the session ends."""
    PERSISTENT_SEQUENTIAL = 2
    """The server appends ten digits that rise with every create under the parent."""
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    """Deleted by the server some time after its last child is gone."""
    PERSISTENT_WITH_TTL = 5
    """Deleted by the server when it has no child and was not changed for its time to live."""
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6

    @cached_property
    def is_ephemeral(self) -> bool:
        return "EPHEMERAL" in self.name

    @cached_property
    def is_sequential(self) -> bool:
        return "SEQUENTIAL" in self.name

    @cached_property
    def has_ttl(self) -> bool:
        return "TTL" in self.name


class Permission(enum.IntFlag):
    """The permissions of an ACL entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


def _masked(scheme: str, id_: str) -> str:
    """The id without the secret behind the user's name in the scheme `digest`."""
    user, colon, _ = id_.partition(":")
    return f"{user}:***" if colon and scheme == "digest" else id_


@dataclass(frozen=True, slots=True)
class ACL:
    """One entry of an access control list: permissions for an identity (`scheme:id`).

    A client that matches any entry of a znode's list has that entry's permissions. The class
    methods make entries for ZooKeeper's schemes; `permissions` defaults to all. The repr masks the
    hash in the id of a `digest` entry, which permits offline guessing.
    """

    permissions: Permission
    scheme: str
    id: str

    def __repr__(self) -> str:
        shown = _masked(self.scheme, self.id)
        return f"ACL(permissions={self.permissions!r}, scheme={self.scheme!r}, id={shown!r})"

    @classmethod
    def world(cls, permissions: Permission = Permission.ALL) -> ACL:
        """For everybody."""
        return cls(permissions, *ANYONE)

    @classmethod
    def auth(cls, permissions: Permission = Permission.ALL) -> ACL:
        """For the creator of the znode: everything it has authenticated as (digest, SASL, TLS).

        Servers refuse it (`InvalidACLError`) from a client that has not authenticated.
        """
        return cls(permissions, "auth", "")

    @classmethod
    def digest(cls, user: str, password: str, permissions: Permission = Permission.ALL) -> ACL:
        """For clients that present `Auth.digest(user, password)`, whose errors it raises."""
        return Auth.digest(user, password).acl(permissions)

    @classmethod
    def ip(cls, network: str, permissions: Permission = Permission.ALL) -> ACL:
        """For an address, or a network such as `10.1.0.0/16`, as the server sees the client.

        Older servers support IPv4 only, and refuse anything else (`InvalidACLError`).

        Raises:
            ConfigurationError: `network` is neither.
        """
        address, slash, bits = str(network).partition("/")
        try:
            most: int = ipaddress.ip_address(address).max_prefixlen
        except ValueError:
            most = -1
        # Servers do not support the other notations of Python, such as netmasks.
        if most < 0 or (slash and not (re.fullmatch(_PREFIX_LENGTH, bits) and int(bits) <= most)):
            wrong = f"must be an IP address, or one with `/bits`, not {network!r}"
            raise ConfigurationError(f"network: {wrong}")
        return cls(permissions, "ip", network)

    @classmethod
    def x509(cls, subject: str, permissions: Permission = Permission.ALL) -> ACL:
        """For a client certificate with that subject, as in RFC 2253: `CN=app,O=Example`.

        Raises:
            ConfigurationError: `subject` is not such a name.
        """
        if not isinstance(subject, str) or "=" not in subject:
            raise ConfigurationError(f"subject: must be like CN=app,O=Example, not {subject!r}")
        return cls(permissions, "x509", subject)

    @classmethod
    def sasl(cls, name: str, permissions: Permission = Permission.ALL) -> ACL:
        """For a SASL login: a DIGEST-MD5 user or a Kerberos `principal@REALM`.

        The server applies its own mapping rules to the name first.

        Raises:
            ConfigurationError: `name` is empty.
        """
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name: must be text, and not empty, not {name!r}")
        return cls(permissions, "sasl", name)


ANYONE = ("world", "anyone")
"""The scheme and id of an `ACL` entry for everybody."""

OPEN_ACL_UNSAFE = (ACL.world(),)
"""Everybody may do everything: ZooKeeper's usual default."""

READ_ACL_UNSAFE = (ACL.world(Permission.READ),)
"""Everybody may read, nobody may change anything."""

CREATOR_ALL_ACL = (ACL.auth(),)
"""The creator of the znode may do everything, by the credentials of its session."""


@dataclass(frozen=True, slots=True)
class Auth:
    """Credentials that a session presents. The secret never shows in a repr.

    Raises:
        ConfigurationError: `scheme` is no text, or `credential` is not bytes.
    """

    scheme: str
    credential: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, str) or not self.scheme:
            raise ConfigurationError("scheme: must be text, and not empty, such as 'digest'")
        if not isinstance(self.credential, bytes):
            # The value is not shown: it is the secret.
            raise ConfigurationError(
                f"credential: must be bytes, not {type(self.credential).__name__}: "
                "`Auth.digest(user, password)` takes text"
            )

    @classmethod
    def digest(cls, user: str, password: str) -> Auth:
        """A user name and a password, for ACL entries of the scheme `digest`.

        The password is sent in the clear: use TLS where the network is not trusted.

        Raises:
            ConfigurationError: the user is empty or contains a colon, or either argument is no
                text, or cannot be encoded as UTF-8.
        """
        if not isinstance(user, str) or not user or ":" in user:
            raise ConfigurationError(
                f"user: must be text, neither empty nor with ':', not {described(user)}"
            )
        if not isinstance(password, str):
            # Such as an unset variable: "None" would be a password that everybody can guess.
            raise ConfigurationError(f"password: must be text, not {type(password).__name__}")
        credential = unless_invalid(f"{user}:{password}".encode)
        if credential is None:
            raise ConfigurationError("user, password: must be text that can be encoded as UTF-8")
        return cls("digest", credential)

    def acl(self, permissions: Permission = Permission.ALL) -> ACL:
        """The ACL entry for these digest credentials.

        Raises:
            ConfigurationError: the scheme is not `digest`, or the credential is not UTF-8.
        """
        if self.scheme != "digest":
            raise ConfigurationError(f"scheme: only digest has an ACL id, not {self.scheme!r}")
        text = unless_invalid(self.credential.decode)
        if text is None:
            raise ConfigurationError("credential: must be UTF-8 for the scheme digest")
        user = text.partition(":")[0]
        # SHA-1 is what ZooKeeper's DigestAuthenticationProvider stores.
        import hashlib

        digest = base64.b64encode(hashlib.sha1(self.credential, usedforsecurity=False).digest())
        return ACL(permissions, "digest", f"{user}:{digest.decode()}")


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity of a connection, as the server has authenticated it.

    Attributes:
        scheme: such as `ip` or `digest`.
        id: such as an address or a user's name. For `digest` it is the user alone, without the
            secret of an `ACL` entry's id.
    """

    scheme: str
    id: str

    def __repr__(self) -> str:
        return f"Identity(scheme={self.scheme!r}, id={_masked(self.scheme, self.id)!r})"


class Created(NamedTuple):
    """The result of a create: the path with its sequence number, and the new znode's `Stat`."""

    path: str
    stat: Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of a tree, its top included: `count` of znodes and `bytes` of data; None: no limit.

    A server logs that a soft limit is exceeded. It refuses to exceed a hard one, `count_hard` or
    `bytes_hard` (`QuotaExceededError`), from ZooKeeper 3.7 on with `enforceQuota`.

    Raises:
        ConfigurationError: a limit is not a number from 0 to 2^63 - 1.
    """

    count: int | None = None
    bytes: int | None = None
    count_hard: int | None = None
    bytes_hard: int | None = None

    def __post_init__(self) -> None:
        for name in Quota.__slots__:
            limit = getattr(self, name)
            if limit is not None and not (type(limit) is int and 0 <= limit <= _MAX_LIMIT):
                raise ConfigurationError(
                    f"{name}: must be 0 to 2^63 - 1, or None, not {described(limit)}"
                )

    @property
    def has_limit(self) -> bool:
        """Whether anything is limited."""
        return self != Quota()

    @property
    def is_hard(self) -> bool:
        """Whether one of the limits is hard."""
        return self.count_hard is not None or self.bytes_hard is not None


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """Number of znodes and bytes of data of a tree with a quota, its top included."""

    count: int
    bytes: int


class EventType(enum.IntEnum):
    """The change of a watched znode; the values are those on the wire."""

    NONE = -1
    """The session ended, and the watch with it; the znode is unchanged."""
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6


class SessionState(enum.Enum):
    """The state of a session, as its client sees it."""

    CONNECTING = "connecting"
    """No session yet, or a new one after the old one expired."""
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session and its ephemerals may live on."""
    READ_ONLY = "read-only"
    """Connected to a server that is isolated from the quorum: stale reads only. That server made up
    the session, which ends with the connection."""
    EXPIRED = "expired"
    """The session is over. A new one, with a new id, follows automatically."""
    AUTH_FAILED = "auth failed"
    """The credentials were refused. Final."""
    CLOSED = "closed"
    """The client was closed. Final."""

    @cached_property
    def is_final(self) -> bool:
        return self in (SessionState.AUTH_FAILED, SessionState.CLOSED)


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """The credentials with which another client can resume a session; see `connect(resume=)`.

    They grant control over the session: keep them as you would a password.

    Attributes:
        session_id: the session.
        password: its secret. It never shows in a repr.
        timeout: the shortest session timeout granted so far, in seconds. A newly elected leader
            counts with the one that the session began with.
        last_zxid: the newest transaction seen. Servers behind it do not accept the session.
        is_detached: whether they are from `Client.detach`: the client that gave them holds nothing
            any more once it is closed, and leaves the session to the next one. If not, a client
            that resumes the session does not close it.
    """

    session_id: int
    password: bytes = field(repr=False)
    timeout: float
    last_zxid: int = 0
    is_detached: bool = False

    def __repr__(self) -> str:
        return repr_with_session(self)


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server of an ensemble, as the ensemble's configuration names it.

    `str` gives the line there: `server.1=zk1:2888:3888:participant;zk1:2181`.

    Attributes:
        id: its number.
        addresses: for other servers, each with host, quorum port and election port.
        client: host and port for clients; None if the configuration names none.
        secure_client: host and port for clients that use TLS, if they have their own.
        is_observer: whether it has no vote.
    """

    id: int
    addresses: tuple[tuple[str, int, int], ...]
    client: tuple[str, int] | None = None
    secure_client: tuple[str, int] | None = None
    is_observer: bool = False

    def __str__(self) -> str:
        role = "observer" if self.is_observer else "participant"
        peers = "|".join(
            f"{format_host(host, quorum)}:{election}:{role}"
            for host, quorum, election in self.addresses
        )
        clients = [format_host(*each) if each else "" for each in (self.client, self.secure_client)]
        text = ";".join([f"server.{self.id}={peers}", *clients])
        return text.rstrip(";") if self.client is None else text.removesuffix(";")

    def client_address(self, *, secure: bool = False) -> tuple[str, int] | None:
        """Host and port for a client (`secure`: one with TLS); None if none is configured.

        For a server that listens on all addresses, it is the host for other servers.
        """
        client = (self.secure_client or self.client) if secure else self.client
        if client is not None and client[0] in _ANYWHERE:
            return self.addresses[0][0], client[1]
        return client


@dataclass(frozen=True, slots=True)
class EnsembleConfig:
    """The servers of an ensemble, as in `/zookeeper/config`.

    Attributes:
        servers: by their numbers.
        version: the transaction that changed it last; -1 if that is not stated.
    """

    servers: tuple[ServerSpec, ...]
    version: int = -1

    def client_addresses(self, *, secure: bool = False) -> tuple[tuple[str, int], ...]:
        """The addresses for clients; see `ServerSpec.client_address`."""
        addresses = (server.client_address(secure=secure) for server in self.servers)
        return tuple(address for address in addresses if address is not None)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event that a watch reports.

    Attributes:
        type: the type of the change.
        path: the znode, as the watcher named it.
        zxid: the transaction that did it, from servers of 3.9 and newer; else -1.
    """

    type: EventType
    path: str
    zxid: int = -1


class MissedReason(enum.Enum):
    """Why a stream of events may have a gap."""

    RECONNECTED = "reconnected"
    """The connection was lost; servers do not report to a persistent watch what happened then."""
    EXPIRED = "expired"
    """The session expired. The watch is set again in the next one."""
    OVERFLOW = "overflow"
    """The reader was slower than the events: the buffer was full and has been dropped."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A gap in a stream of events: some may be missing here. A read from now on is not stale."""

    reason: MissedReason


@dataclass(frozen=True, slots=True)
class Participant:
    """A contender, as others see it.

    Attributes:
        identity: its own name for itself, the data of its znode, cut after 4,096 bytes.
        path: its znode.
        token: the fencing token that it has, or will have, as a holder (the znode's czxid).
        session_id: the session that owns the znode.
        is_holder: whether it leads, or holds the lock.
        is_revocation_requested: whether it was asked to release.
        is_ready: whether it can lead at once; False while it warms up
            (`election.campaign(ready=False)`).
    """

    identity: str
    path: str
    token: int
    session_id: int
    is_holder: bool
    is_revocation_requested: bool = False
    is_ready: bool = True

    def __repr__(self) -> str:
        return repr_with_session(self)
