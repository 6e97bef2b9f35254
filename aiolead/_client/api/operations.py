"""The parts of operations: checked arguments, requests below the chroot, parsers of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple

from ..._session.ephemeral_paths import LENGTH, EphemeralPaths
from ..._session.requests import READ
from ..._session.watches import WatchKind, WatchRegistry, WatchSlot
from ..._util.escaping import described
from ..._wire.codes import OpCode
from ..._wire.jute import Reader, text_bytes
from ..._wire.long_frames import LongReader, Steps
from ..._wire.replies import (
    ACLReply,
    ChildrenReply,
    NumberReply,
    PathReply,
)
from ..._wire.requests import (
    Check,
    Create,
    Delete,
    SetData,
)
from ...abc import Watch
from ...errors import (
    AioleadError,
    ConfigurationError,
    InvalidPathError,
    NoNodeError,
    RemoteWireError,
    TransactionError,
    UsageError,
)
from ...model import ACL, OPEN_ACL_UNSAFE, Created, CreateMode, Stat
from ...paths import ListedPath, as_listed, is_plain, parent, told_path, validate
from ..core import Core, PendingReply, T
from .client_watches import ClientWatch

MAX_TTL = 0xFF_FFFF_FFFF / 1000
"""The longest time to live, in seconds: servers keep 40 bits of milliseconds."""


class Scope:
    """A view of the tree: all of it if `prefix` is empty, or what lies under that chroot.

    `is_users`: whether the program makes its requests; see `Call`. `default_acl`: that of a znode
    which is created without one.
    """

    __slots__ = ("default_acl", "is_users", "prefix")

    def __init__(
        self,
        prefix: str,
        *,
        is_users: bool = False,
        default_acl: tuple[ACL, ...] = OPEN_ACL_UNSAFE,
    ) -> None:
        self.prefix: str = prefix
        self.is_users: bool = is_users
        self.default_acl: tuple[ACL, ...] = default_acl

    def full(self, path: str) -> str:
        if not (isinstance(path, str) and is_plain(path)):
            validate(path)
        return (self.prefix + path if path != "/" else self.prefix) or "/"

    def strip(self, path: str) -> str:
        """The path in this view, from that on the server."""
        return told_path(path[len(self.prefix) :] or "/")

    # --- writes --------------------------------------------------------------------------------

    def create_request(
        self,
        path: str,
        data: bytes,
        mode: CreateMode,
        acl: Sequence[ACL] | None,
        ttl: float | None,
    ) -> Create:
        if not isinstance(mode, CreateMode):
            raise ConfigurationError(f"mode: must be a CreateMode, not {mode!r}")
        if isinstance(path, ListedPath):
            path = str(path)  # it may be read and deleted, but nobody is to make another one
        if mode.is_sequential and isinstance(path, str) and path.endswith("/"):
            # The server appends the digits before it looks at the path.
            full = self.full(path + "0")[:-1]
        elif path == "/" and not self.prefix:
            raise InvalidPathError("path: the root cannot be created")
        else:
            full = self.full(path)
        acl = self.default_acl if acl is None else checked_acl(acl)
        if type(data) is not bytes:
            data = _checked_data(data)
        if mode.has_ttl:
            if ttl is None:
                raise ConfigurationError(f"ttl: {mode.name} needs a time to live, in seconds")
            ttl = checked_duration("ttl", ttl, least=0.001, most=MAX_TTL)
            return Create(full, data, acl, mode, round(ttl * 1000), OpCode.CREATE_TTL)
        if ttl is not None:
            raise ConfigurationError(f"ttl: only modes WITH_TTL take one, not {mode.name}")
        op = OpCode.CREATE_CONTAINER if mode is CreateMode.CONTAINER else OpCode.CREATE2
        return Create(full, data, acl, mode, op=op)

    def deletable(self, path: str) -> str:
        """The full path of a znode that is to be deleted."""
        if path == "/":
            raise InvalidPathError("path: the root cannot be deleted")
        return self.full(path)

    def delete_request(self, path: str, version: int) -> Delete:
        return Delete(self.deletable(path), checked_version(version))

    def set_request(self, path: str, data: bytes, version: int) -> SetData:
        return SetData(self.full(path), _checked_data(data), checked_version(version))

    def check_request(self, path: str, version: int) -> Check:
        return Check(self.full(path), checked_version(version))

    # --- reads ---------------------------------------------------------------------------------

    def read(
        self, of: WatchableRead[T], core: Core, path: str, watch: Watch | None
    ) -> PendingReply[T]:
        full = self.full(path)
        body = text_bytes(full) + (b"\0" if watch is None else b"\1")
        arming = None
        if watch is not None:
            core.check_home()  # before anything has changed
            watches = core.machine.watches
            slot, is_of_data = _slot(watches, watch), of.op == OpCode.GET_DATA
            arming = watches.begin(slot, full, path, of.watches, is_of_data=is_of_data)
        reply = PendingReply(of.op, body, of.parse, READ, path, arming, of.on_error)
        reply.is_users = self.is_users
        reply.steps = of.steps
        return reply


def _slot(watches: WatchRegistry, watch: Watch) -> WatchSlot:
    slot = watch._slot_in(watches) if isinstance(watch, ClientWatch) else None
    if slot is None:
        raise UsageError("watch: must be made by this client's make_watch()")
    return slot


def created(prefix: str, request: Create, r: Reader) -> Created:
    full, stat = r.text(), r.stat()
    # The server's path begins with the one that we sent, so it is valid, too.
    return Created(request.checked(full)[len(prefix) :] or "/", stat)


def created_ephemeral(
    ephemerals: EphemeralPaths, prefix: str, request: Create, r: Reader
) -> Created:
    full, stat = r.text(), r.stat()
    request.checked(full)
    if full in ephemerals.paths or ephemerals.lost or not full.isascii():
        ephemerals.created(full)
    else:  # without a call: every lock does this
        ephemerals.paths[full] = LENGTH + len(full)
    return Created(full[len(prefix) :] or "/", stat)


def not_deleted(ephemerals: EphemeralPaths, path: str, error: AioleadError) -> AioleadError:
    if isinstance(error, NoNodeError):
        ephemerals.gone(path)
    return error


def not_created(prefix: str, path: str, error: AioleadError) -> AioleadError:
    if not isinstance(error, NoNodeError):
        return error
    if parent(path) == "/" and prefix:
        return NoNodeError(path, message=f"the chroot {prefix} is missing, see ensure_path('/')")
    return NoNodeError(path, message="the parent of the new znode is missing")


def _names(r: Reader) -> list[str]:
    return as_listed(r.texts())


def _children(r: Reader) -> tuple[list[str], Stat]:
    reply = ChildrenReply.read(r)
    return as_listed(reply.names), reply.stat


def _none_if_missing(error: AioleadError) -> Stat | AioleadError | None:
    return None if isinstance(error, NoNodeError) else error


class WatchableRead(NamedTuple, Generic[T]):
    """A read that may arm a watch, of the kind `watches`; the rest is as of a `Call`."""

    op: OpCode
    parse: Callable[[Reader], T]
    watches: WatchKind
    on_error: Callable[[AioleadError], T | AioleadError] | None = None
    steps: Callable[[LongReader], Steps[T]] | None = None


EXISTS: WatchableRead[Stat | None] = WatchableRead(
    OpCode.EXISTS, Reader.stat, WatchKind.DATA, _none_if_missing
)
# Null data, which only other clients write, comes as empty.
GET = WatchableRead(
    OpCode.GET_DATA, Reader.blob_and_stat, WatchKind.DATA, None, LongReader.blob_and_stat_in_steps
)
GET_CHILDREN = WatchableRead(
    OpCode.GET_CHILDREN, _names, WatchKind.CHILD, None, LongReader.texts_in_steps
)
GET_CHILDREN_AND_STAT = WatchableRead(
    OpCode.GET_CHILDREN2, _children, WatchKind.CHILD, None, LongReader.texts_and_stat_in_steps
)


def number(r: Reader) -> int:
    number = NumberReply.read(r).number
    if number < 0:
        raise RemoteWireError(f"a number of znodes, but it is {number}")
    return number


def acl_and_stat(r: Reader) -> tuple[list[ACL], Stat]:
    reply = ACLReply.read(r)
    return list(reply.acl), reply.stat


def synced(r: Reader) -> None:
    PathReply.read(r)


def checked(parse_multi: Callable[[Reader], object], r: Reader) -> None:
    """Read the answer to a transaction of one check; raise the error of the check."""
    try:
        parse_multi(r)
    except TransactionError as error:
        raise error.cause from None


def _checked_data(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigurationError(f"data: must be bytes, not {type(data).__name__}")
    return bytes(data)


def checked_version(version: object) -> int:
    # After 2^31 - 1 a version continues at -2^31.
    if type(version) is not int or not -0x8000_0000 <= version <= 0x7FFF_FFFF:
        raise ConfigurationError(
            f"version: must be -1 (any), or from -2^31 to 2^31 - 1, not {described(version)}"
        )
    return version


def checked_acl(acl: Sequence[ACL], name: str = "acl") -> tuple[ACL, ...]:
    entries = tuple(acl) if isinstance(acl, Iterable) else ()
    if not entries or not all(isinstance(entry, ACL) for entry in entries):
        # It may be, or hold, the hash of a password: it is not shown.
        raise ConfigurationError(f"{name}: must be a sequence of at least one ACL: [ACL.auth()]")
    return entries


def checked_duration(name: str, value: Any, *, least: float, most: float) -> float:
    """Returns a duration in seconds within bounds, or raises `ConfigurationError`."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        raise ConfigurationError(
            f"{name}: must be a number of seconds from {least:g} to {most:g}, "
            f"not {described(value)}"
        )
    return float(value)
