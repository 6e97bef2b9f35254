"""How a contender's znode is named, and which neighbours do not fit.

All libraries that contend on a path share one sequence counter, that of the parent, so its number
says who came first, whatever the rest of the name says. What differs is whom each library *sees*:
Curator sorts by what follows its marker, kazoo only looks at names with its own. Two libraries that
do not see each other both believe to be first.
"""

from __future__ import annotations

import enum
import re


class Role(enum.Enum):
    """What is contended for; decides the marker in the name."""

    ELECTION = "latch-"
    LOCK = "lock-"
    READ = "__READ__"
    WRITE = "__WRIT__"
    WAIT = "wait-"
    """Waiting for a condition: a line in which nobody holds."""

    @property
    def shares(self) -> bool:
        """Whether it contends in a line of readers and writers, where readers share."""
        return self in (Role.READ, Role.WRITE)


class Layout(enum.Enum):
    """The naming scheme of the contenders on a path."""

    CURATOR = "curator"
    """`<session>-<count>-`, then `lock-` or `latch-`, then the number.

    Curator waits for those, and so does whoever understands its names: what counts is what follows
    the marker. Curator itself puts a random prefix before it.
    """

    KAZOO = "kazoo"
    """32 hexadecimal digits, `__lock__`, then the number, for locks and elections alike.

    Readers have `__rlock__` there, writers `__lock__`.
    """

    def prefix(self, role: Role, session_id: int, count: int) -> str:
        """What the server appends the number to.

        No two znodes ever have the same name: numbers begin anew when a path was deleted and made
        again, and a request of ours that was held back until then (a fenced write, a delete) must
        not take somebody else's znode for ours.

        Args:
            role: what is contended for.
            session_id: the session that contends.
            count: how many contenders that session has had: with its id, unique.
        """
        owner = f"{session_id & (1 << 64) - 1:016x}"
        if self is Layout.CURATOR:
            return f"{owner}-{count:x}-{role.value}"
        return f"{owner}{count:016x}{_kazoo_marker(role)}"

    def is_like_ours(self, role: Role, name: str) -> bool:
        """Whether a name could be one that we have given."""
        if self is Layout.CURATOR:
            pattern = f"[0-9a-f]{{16}}-[0-9a-f]+-{role.value}"
        else:
            pattern = "[0-9a-f]{32}" + _kazoo_marker(role)
        return re.fullmatch(pattern + r"\d{10}", name, re.ASCII) is not None

    def is_reader(self, name: str) -> bool:
        """Whether a name is that of somebody who shares with other readers."""
        return _marker(name) == ("__READ__" if self is Layout.CURATOR else "__rlock__")

    def downgraded(self, name: str) -> str:
        """The name of the reader that a writer becomes: in the same place of the line."""
        if self is Layout.CURATOR:
            return name.replace("__WRIT__", "__READ__")
        return name.replace("__lock__", "__rlock__")

    def misfit(self, role: Role, name: str) -> str | None:
        """Why a contender of that name and we would not exclude each other; None if we would."""
        marker = _marker(name)
        match marker:
            case None:
                return None
            case "__READ__" | "__WRIT__" if self is Layout.CURATOR and role.shares:
                return None
            case "lock-" | "latch-" if self is Layout.CURATOR:
                if marker == role.value:
                    return None
                what = "a lock" if marker == "lock-" else "a leader election"
                return f"contends for {what} on the same path: give each recipe a path of its own"
            case "__lock__" | "__rlock__" if self is Layout.KAZOO:
                return None
            case "__lock__" | "__rlock__":
                library = "kazoo, which does not see us: use layout=Layout.KAZOO with it"
            case "__READ__" | "__WRIT__":
                library = "a read/write lock: give each recipe a path of its own"
            case _:
                library = "Curator, which does not see us: use layout=Layout.CURATOR with it"
        return f"belongs to {library}"


def _kazoo_marker(role: Role) -> str:
    return "__rlock__" if role is Role.READ else "__lock__"


_MARKER = re.compile(r"(lock-|latch-|__lock__|__rlock__|__READ__|__WRIT__)-?\d{9,10}$", re.ASCII)


def _marker(name: str) -> str | None:
    match = _MARKER.search(name)
    return match[1] if match else None
