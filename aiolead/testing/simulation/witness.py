"""Facts about the ensemble, reported to the history."""

from __future__ import annotations

from typing import Any

from ..._wire.codes import OpCode
from ..history import History
from .ensemble import WRITES
from .pace import Pace


class Witness:
    """Takes the ensemble's facts; see `ensemble.facts`.

    Args:
        history: the receiver of the facts.
        window: for how long requests are counted together, in seconds; see `Pace`.
    """

    def __init__(self, history: History, window: float) -> None:
        self._history = history
        self.pace: Pace = Pace(history, window)
        self._why: dict[int, str] = {}
        self._owners: dict[str, int] = {}

    def owner(self, path: str) -> int | None:
        """The session that owns a znode, 0 for none; None if there is no such znode."""
        return self._owners.get(path)

    def owned(self, session_id: int) -> list[str]:
        """The znodes of a session, in the order of their creation."""
        return [path for path, owner in self._owners.items() if owner and owner == session_id]

    def below(self, path: str) -> list[str]:
        """The ephemeral znodes right below a path, in the order of their creation."""
        return [p for p, owner in self._owners.items() if owner and p.rpartition("/")[0] == path]

    def ephemerals(self) -> list[str]:
        """All ephemeral znodes."""
        return [path for path, owner in self._owners.items() if owner]

    def __call__(self, kind: str, *, at: float, **details: Any) -> None:
        history = self._history
        match kind:
            case "requested":
                self.pace.requested(details["session"], at)
            case "connected":
                self.pace.connected(details["session"], at)
            case "changed":
                self.pace.changed(details["count"], at)
            case "znode-created":
                path, owner = details["path"], details["owner"]
                self._owners[path] = owner
                history.node_created(path, details["czxid"], owner)
            case "znode-deleted":
                path, by = details["path"], details["by"]
                self._owners.pop(path, None)
                # A leader that decided to end a session, and lost its quorum, has ended nothing.
                if details["with_session"] and self._why.get(by) == "expired":
                    by = 0  # nobody has asked for it
                history.node_deleted(
                    path,
                    details["zxid"],
                    details["owner"],
                    by,
                    was_changed=details["was_changed"],
                )
            case "session-created":
                history.session_opened(details["session"], details["timeout"])
            case "session-ending":
                self._why[details["session"]] = details["why"]
            case "session-ended":
                session = details["session"]
                history.session_over(session, self._why.pop(session, ""))
            case "leader-elected":
                history.leader_changed(str(details["server"]), details["epoch"])
            case "leader-lost":
                history.leader_changed()
            case "omitted":
                history.reached(_omitted(**details))
            case "stale-sync":
                history.reached("sync answered by a leader that had not applied all")
            case _:
                pass  # The rest is of no consequence for what users were promised.


def _omitted(*, op: OpCode, is_applied: bool, is_swallowed: bool, **_: object) -> str:
    """The fault of an unanswered request, by its name in `invariants.REPORTED`."""
    what = "swallowed" if is_swallowed else "skipped"
    if op not in WRITES:
        return f"read {what}"
    return f"write applied, and {what}" if is_applied else f"write {what} before it was applied"
