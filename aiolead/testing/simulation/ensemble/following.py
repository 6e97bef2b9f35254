"""FOLLOWING and OBSERVING: ZooKeeper's `Follower`, `Observer` and what they share.

A learner promises itself to its leader's epoch, is brought to the leader's state, and serves
clients once a quorum was. Without messages from the leader it goes on: it answers reads and pings,
and records the sessions that are alive, until the leader was silent for too long.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from ...._wire.jute import Record
from ....errors import ServerError
from .life import Silence
from .links import Link
from .log import Entry
from .messages import (
    Ack,
    Commit,
    EpochAck,
    Inform,
    Join,
    Message,
    NewEpoch,
    NewLeader,
    Ping,
    Pong,
    Proposal,
    Request,
    Revalidate,
    Revalidated,
    Sync,
    SyncAck,
    Synced,
    UpToDate,
)
from .pipeline import Pipeline
from .sync import SyncKind

if TYPE_CHECKING:
    from .server import Server

TRIES = 5
"""How often a learner tries to connect to its leader, who may not know yet that it was elected."""

BETWEEN_TRIES = 0.1
"""Seconds between two tries."""


class Following:
    """The role of a server that has a leader.

    Args:
        server: which.
        leader: the id of the server that was elected.
    """

    asks_for_sync = True
    lags = False

    def __init__(self, server: Server, leader: int) -> None:
        self.leader = leader
        self.is_serving: bool = False
        self.state = "following" if server.is_voter else "observing"
        self.pipeline: Pipeline = Pipeline(
            server.id, server.clients, server.replica, server.new_ticket, self
        )
        self._server = server
        self._replica = server.replica
        self._tries = 0
        self._link = self._new_link()
        limit = server.settings.init_limit * server.settings.tick
        self._silence = Silence(server.life, limit, server.look)
        self._epoch = self._synced = 0
        # Messages between the synchronisation and its end: proposals, and the newest commit.
        self._waiting: list[Message] = []
        self._touched: dict[int, int] = {}

    def start(self) -> None:
        self._connect()

    def stop(self) -> None:
        self._silence.stop()
        self._link.close()

    def crash(self) -> None:
        """The process is killed."""

    # --- for the clients of this server ----------------------------------------------------------

    def touch(self, session_id: int, timeout_ms: int) -> bool:
        """Writes it down for the leader's next ping. It cannot know whether the session is over."""
        self._touched[session_id] = timeout_ms
        return True

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        self._link.send(Revalidate(session_id, timeout_ms))

    def forward(self, request: Request) -> None:
        self._link.send(request)

    def refusal(self, session_id: int) -> ServerError | None:
        return None

    # --- the leader ------------------------------------------------------------------------------

    def _new_link(self) -> Link:
        return Link(self._server.life, self._heard, self._unconnected)

    def _connect(self) -> None:
        server = self._server
        self._tries += 1
        target = server.address_of(self.leader)
        self._link.connect(server.network, server.host, target, self._connected)

    def _connected(self) -> None:
        self._link.gone = self._server.look
        self._link.send(Join(self._server.id, self._server.accepted_epoch))

    def _unconnected(self) -> None:
        if self._tries >= TRIES:
            self._server.look()
        else:
            self._link = self._new_link()
            self._server.life.after(BETWEEN_TRIES, self._try_again)

    def _try_again(self) -> None:
        if self._server.role is self:
            self._connect()

    def _heard(self, message: Message) -> None:
        self._silence.heard()
        if self.is_serving:
            self._heard_serving(message)
            return
        match message:
            case NewEpoch():
                self._promise(message.epoch)
            case Sync():
                self._synchronise(message)
            case NewLeader():
                self._server.current_epoch = self._epoch
                settings = self._server.settings
                self._silence.set_limit(settings.sync_limit * settings.tick)
                self._link.send(SyncAck(self._epoch))
            case UpToDate():
                self._serve()
            case Proposal() | Commit() | Inform():
                self._waiting.append(message)
            case Ping():
                pass
            case _:
                raise AssertionError(f"{message!r} from a leader that is not ready")

    def _promise(self, epoch: int) -> None:
        server = self._server
        if epoch < server.accepted_epoch:
            # It has promised itself to a later leader.
            server.look()
            return
        is_new = epoch > server.accepted_epoch
        server.accepted_epoch = self._epoch = epoch
        counts = server.current_epoch if is_new else -1
        self._link.send(EpochAck(counts, self._replica.zxid))

    def _synchronise(self, sync: Sync) -> None:
        """Takes over the leader's state. New entries are applied when a quorum has them."""
        replica = self._replica
        if sync.kind is SyncKind.SNAP and sync.snapshot is not None:
            replica.restore(sync.snapshot)
        elif sync.kind is SyncKind.TRUNC:
            replica.truncate(sync.zxid)
        for entry in sync.entries:
            replica.append(entry)
        replica.persisted(replica.log.last)
        self._synced = replica.log.last

    def _serve(self) -> None:
        server, replica = self._server, self._replica
        replica.commit(self._synced)
        self.is_serving = True
        replica.applied = self._applied
        server.established(self._epoch)
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._heard_serving(message)

    def _heard_serving(self, message: Message) -> None:
        match message:
            case Proposal():
                self._log(message.entry)
            case Commit():
                self._replica.commit(message.zxid)
            case Ping():
                touched, self._touched = self._touched, {}
                self._link.send(Pong(touched))
            case Inform():
                self._replica.append(message.entry)
                self._replica.persisted(message.entry.zxid)
                self._replica.commit(message.entry.zxid)
            case Revalidated():
                self._server.clients.revalidated(message.session_id, is_valid=message.is_valid)
            case Synced():
                self.pipeline.synced()
            case _:
                raise AssertionError(f"{message!r} from a leader that leads")

    def _applied(self, entry: Entry, reply: Record | None, error: int) -> None:
        if entry.op is OpCode.CREATE_SESSION:
            # Every learner vouches for a new session once, wherever its client is.
            self._touched[entry.session_id] = entry.timeout_ms
        self.pipeline.committed(entry, reply, error)

    def _log(self, entry: Entry) -> None:
        self._replica.append(entry)
        link = self._link
        self._server.persist(entry.zxid, partial(link.send, Ack(entry.zxid)))
