"""Facts about the ensemble as a whole, regardless of what its clients have seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...._wire.codes import OpCode
from ....model import EventType
from ..._server.processor import Processor
from ..._server.transaction import Change
from ..timeline import Timeline
from .log import Entry


class OnFact(Protocol):
    """Receives the facts, as they happen.

    The kinds, with their details, which are passed by name:

    * `session-created`: `session` (its id), `timeout` (seconds).
    * `session-ending`: `session`, `why` (`expired` or `closed`), `server`: a leader has decided to
      end it. One that has lost its quorum may decide so, too, and nothing comes of it.
    * `session-ended`: `session`: the ensemble has agreed on it; its ephemerals are gone.
    * `znode-created`, `znode-deleted`: `path`, `czxid`, `owner` (a session, or 0), `zxid`: of the
      transaction that did it; the latter also `by`: whose request it was (of a session that ended,
      its own), or 0; `with_session`: whether it went as its session ended; and `was_changed`:
      whether its owner had changed its data.
    * `requested`: `session`: a server has taken a request of a client, pings included.
    * `connected`: `session`: a client has come with its session, or for one.
    * `changed`: `count`: a transaction has changed so many znodes, or a session.
    * `leader-elected`, `leader-lost`: `server`, `epoch`. The first when a quorum follows it, the
      second when it gives up or dies.
    * `omitted`: `server`, `session`, `op`, `is_applied`, `is_swallowed`: a request of a client was
      taken and is not answered; see `Omission`.
    * `stale-sync`: `session`: a leader answered a `sync` before it had applied what was committed.
    * `server`: `server`, `state`: `down`, `looking`, `leading`, `following`, `observing`, `frozen`
      or `thawed`. A role begins when clients are served in it.

    A write counts from the instant at which a quorum has it on disk and its leader knows.
    """

    def __call__(self, kind: str, *, at: float, **details: Any) -> None:
        """`at` is in seconds of the timeline."""
        ...


class Truth:
    """Reports each change once, when the first of the servers applies it.

    Attributes:
        zxid: of the last change that was reported.
        on_fact: the receiver; None if nobody cares.
        znodes: czxid and owner of every znode that there is, by path.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.zxid: int = 0
        self.on_fact: OnFact | None = None
        self.znodes: dict[str, tuple[int, int]] = {}
        self._changed_by_owner: set[str] = set()
        self._timeline = timeline
        self._events: Sequence[Change] = ()

    def tell(self, kind: str, **details: Any) -> None:
        if self.on_fact is not None:
            self.on_fact(kind, at=self._timeline.now, **details)

    def begin(self, entry: Entry, processor: Processor) -> bool:
        """Returns whether this server is the first to apply the entry; then `end` follows."""
        if entry.zxid <= self.zxid:
            return False
        self.zxid = entry.zxid
        processor.on_changes = self._changed
        return True

    def end(self, entry: Entry, processor: Processor) -> None:
        processor.on_changes = None
        events, self._events = self._events, ()
        zxid, znodes = entry.zxid, self.znodes
        is_of_session = entry.op in (OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION)
        if events or is_of_session:
            self.tell("changed", count=len(events) + is_of_session)
        for type_, path, _ in events:
            if type_ is EventType.CREATED:
                node = processor.tree.get(path)
                if node is None:
                    continue  # Created and deleted in one transaction: it has never been.
                znodes[path] = zxid, node.owner
                self.tell("znode-created", path=path, czxid=zxid, owner=node.owner, zxid=zxid)
            elif type_ is EventType.DATA_CHANGED and path in znodes:
                if znodes[path][1] == entry.session_id:
                    self._changed_by_owner.add(path)
            elif type_ is EventType.DELETED and path in znodes:
                czxid, owner = znodes.pop(path)
                was_changed = path in self._changed_by_owner
                self._changed_by_owner.discard(path)
                self.tell(
                    "znode-deleted",
                    path=path,
                    czxid=czxid,
                    owner=owner,
                    zxid=zxid,
                    by=entry.session_id,
                    with_session=entry.op is OpCode.CLOSE_SESSION,
                    was_changed=was_changed,
                )
        if entry.op is OpCode.CREATE_SESSION:
            timeout = entry.timeout_ms / 1000
            self.tell("session-created", session=entry.session_id, timeout=timeout)
        elif entry.op is OpCode.CLOSE_SESSION:
            self.tell("session-ended", session=entry.session_id)

    def _changed(self, events: Sequence[Change]) -> None:
        self._events = events
