"""The znodes, and what a server remembers about each."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from ... import paths
from ...model import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Stat


def wrap32(value: int) -> int:
    """The value as Java's int holds it."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


QUOTAS = "/zookeeper/quota"

_LIMITS = "/zookeeper_limits"


class Lifetime(enum.Enum):
    """The cause that ends a znode, beside a delete."""

    PERSISTENT = enum.auto()
    EPHEMERAL = enum.auto()
    CONTAINER = enum.auto()
    TTL = enum.auto()


class Znode:
    """One znode. `creates` counts the children ever created; sequence numbers come from it.

    Its data is None where a client has written null instead of bytes.
    """

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "creates",
        "ctime",
        "czxid",
        "data",
        "lifetime",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "ttl_ms",
        "version",
    )

    def __init__(
        self,
        data: bytes | None,
        acl: tuple[ACL, ...],
        zxid: int,
        time_ms: int,
        *,
        lifetime: Lifetime = Lifetime.PERSISTENT,
        owner: int = 0,
        ttl_ms: int = 0,
    ) -> None:
        self.data: bytes | None = data
        self.acl: tuple[ACL, ...] = acl
        self.lifetime: Lifetime = lifetime
        self.owner: int = owner
        self.ttl_ms: int = ttl_ms
        self.czxid: int = zxid
        self.mzxid: int = zxid
        self.pzxid: int = zxid
        self.ctime: int = time_ms
        self.mtime: int = time_ms
        self.version: int = 0
        self.creates: int = 0
        self.aversion: int = 0
        # A dict for its order: the newest last, without ever sorting.
        self.children: dict[str, None] = {}

    def copy(self) -> Znode:
        """The same znode, for another tree."""
        twin = Znode.__new__(Znode)
        for name in Znode.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.children = dict(self.children)
        return twin

    @property
    def size(self) -> int:
        """Bytes of data."""
        return len(self.data or b"")

    def stat(self) -> Stat:
        """The `Stat` that clients see.

        Clients know `cversion` as the number of changes to the list of children: each create, and
        each delete, which are the creates less the children that are left.
        """
        count = len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            wrap32(2 * self.creates - count),
            self.aversion,
            self.owner,
            self.size,
            count,
            self.pzxid,
        )


class Tree:
    """All znodes by path, with indices of those that are deleted by themselves."""

    def __init__(self) -> None:
        root = Znode(b"", OPEN_ACL_UNSAFE, 0, 0)
        # Servers know the root by two names; clients may use either.
        self._nodes: dict[str, Znode] = {"/": root, "": root}
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._mortal: dict[str, Znode] = {}
        self._bytes = 0
        self.quotas: set[str] = set()
        """The paths that have a quota."""
        for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            self.insert(path, Znode(b"", OPEN_ACL_UNSAFE, 0, 0))
        config = self._nodes["/zookeeper/config"]
        config.acl, config.aversion = READ_ACL_UNSAFE, -1

    def __len__(self) -> int:
        return len(self._nodes)

    def copy(self) -> Tree:
        """A tree of its own that holds the same."""
        twin = Tree()
        twin._nodes = {path: node.copy() for path, node in self._nodes.items() if path}
        twin._nodes[""] = twin._nodes["/"]
        twin._ephemerals = {owner: dict(owned) for owner, owned in self._ephemerals.items()}
        twin._mortal = {path: twin._nodes[path] for path in self._mortal}
        twin._bytes = self._bytes
        twin.quotas = set(self.quotas)
        return twin

    def get(self, path: str) -> Znode | None:
        return self._nodes.get(path)

    def paths(self) -> Iterator[str]:
        """Every path but those of the server itself."""
        return (path for path in self._nodes if path not in ("", "/") and not is_own(path))

    def all_paths(self) -> list[str]:
        """Every path, parents before their children."""
        return [path for path in self._nodes if path]

    def restore(self, path: str, node: Znode) -> None:
        """Puts a znode there as it was; of the znodes that every server has, it replaces the state.

        Raises:
            KeyError: the znode has no parent.
        """
        existing = self._nodes.get(path)
        if existing is None:
            self.insert(path, node)
            return
        self.set_data(existing, node.data)
        for name in Znode.__slots__:
            if name not in ("data", "children"):
                setattr(existing, name, getattr(node, name))

    def insert(self, path: str, node: Znode) -> None:
        """Puts a znode under its parent, which must exist; the parent's counts stay as they are."""
        self._nodes[path] = node
        self._nodes[paths.parent(path)].children[paths.basename(path)] = None
        self._bytes += len(path) + node.size
        if _has_limits(path):
            self.quotas.add(path[len(QUOTAS) : -len(_LIMITS)])
        if node.lifetime is Lifetime.EPHEMERAL:
            self._ephemerals.setdefault(node.owner, {})[path] = None
        elif node.lifetime is not Lifetime.PERSISTENT:
            self._mortal[path] = node

    def remove(self, path: str) -> Znode:
        """Takes a znode away; the parent's counts stay as they are."""
        node = self._nodes.pop(path)
        del self._nodes[paths.parent(path)].children[paths.basename(path)]
        self._bytes -= len(path) + node.size
        if _has_limits(path):
            self.quotas.discard(path[len(QUOTAS) : -len(_LIMITS)])
        if node.lifetime is Lifetime.EPHEMERAL:
            owned = self._ephemerals[node.owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.owner]
        elif node.lifetime is not Lifetime.PERSISTENT:
            del self._mortal[path]
        return node

    def set_data(self, node: Znode, data: bytes | None) -> None:
        self._bytes += len(data or b"") - node.size
        node.data = data

    def ephemerals(self, session_id: int) -> list[str]:
        """The paths that a session owns, in the order of their creation."""
        return list(self._ephemerals.get(session_id, ()))

    def descendants(self, path: str) -> int:
        """How many znodes there are below a path."""
        if path == "/":
            return len(self._nodes) - 2
        return sum(name.startswith(path + "/") for name in self._nodes)

    def weigh(self, path: str) -> tuple[int, int]:
        """How many znodes a tree has, with its top, and how many bytes of data are in them."""
        sizes = [
            node.size
            for name, node in self._nodes.items()
            if name == path or name.startswith(path + "/")
        ]
        return len(sizes), sum(sizes)

    @property
    def has_mortals(self) -> bool:
        """Whether there are containers or znodes with a TTL."""
        return bool(self._mortal)

    def outlived(self, time_ms: int) -> list[str]:
        """Containers that lost their last child, and childless znodes past their TTL.

        A container that never had a child stays, or it could go before its first one comes.
        """
        return [
            path
            for path, node in self._mortal.items()
            if not node.children
            and (
                node.creates > 0
                if node.lifetime is Lifetime.CONTAINER
                else time_ms - node.mtime > node.ttl_ms
            )
        ]

    @property
    def ephemeral_count(self) -> int:
        return sum(map(len, self._ephemerals.values()))

    @property
    def approximate_bytes(self) -> int:
        return self._bytes


def is_own(path: str) -> bool:
    """Whether the path is the server's own, below `/zookeeper`."""
    return path == "/zookeeper" or path.startswith("/zookeeper/")


def _has_limits(path: str) -> bool:
    # Not on the root: a server takes no notice of that.
    return path.startswith(QUOTAS + "/") and path.endswith(_LIMITS) and path != QUOTAS + _LIMITS
