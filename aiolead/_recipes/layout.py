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


class Layout(enum.Enum):
    """The naming scheme of the contenders on a path."""

    CURATOR = "curator"
    """`lock-` or `latch-`, then the number: waited for by Curator, and by whoever understands it.

    Curator itself puts a random prefix before the marker, to find its own znode again after a lost
    answer; we go by the session that owns the znode instead. The name of a neighbour then follows
    from its number, so that joining a line needs no listing of it.
    """

    KAZOO = "kazoo"
    """32 hexadecimal digits, `__lock__`, then the number, for locks and elections alike."""

    def prefix(self, role: Role, session_id: int, count: int) -> str:
        """What the server appends the number to.

        Args:
            role: what is contended for.
            session_id: the session that contends.
            count: how many contenders that session has had: with its id, unique.
        """
        if self is Layout.CURATOR:
            return role.value
        return f"{session_id & (1 << 64) - 1:016x}{count:016x}__lock__"

    def neighbour(self, role: Role, sequence: int) -> str | None:
        """The name that a contender like us has with a given number, where that is known."""
        return f"{role.value}{sequence:010d}" if self is Layout.CURATOR else None

    def is_like_ours(self, role: Role, name: str) -> bool:
        """Whether a name could be one that we have given."""
        pattern = re.escape(role.value) if self is Layout.CURATOR else "[0-9a-f]{32}__lock__"
        return re.fullmatch(pattern + r"\d{10}", name, re.ASCII) is not None

    def misfit(self, role: Role, name: str) -> str | None:
        """Why a contender of that name and we would not exclude each other; None if we would."""
        marker = _marker(name)
        match marker:
            case None:
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


_MARKER = re.compile(r"(lock-|latch-|__lock__|__rlock__|__READ__|__WRIT__)-?\d{9,10}$", re.ASCII)


def _marker(name: str) -> str | None:
    match = _MARKER.search(name)
    return match[1] if match else None
