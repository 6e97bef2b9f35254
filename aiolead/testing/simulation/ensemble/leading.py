"""LEADING: ZooKeeper's `Leader` and `LearnerHandler`, from the election until it is given up.

A new leader finds an epoch that a quorum accepts, brings the learners to its own state, and leads
once a quorum has it. From then on it counts in ticks who is still there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from ...._wire.jute import Record
from ....errors import ServerError
from ..connection import Endpoint, Wire
from .broadcast import Broadcast
from .election import quorum_size
from .learners import Learner, Stage
from .life import LifeTimer, Silence
from .links import Link
from .log import Entry
from .messages import (
    Ack,
    EpochAck,
    Join,
    Message,
    NewEpoch,
    NewLeader,
    Ping,
    Pong,
    Request,
    Revalidate,
    Revalidated,
    Sync,
    SyncAck,
    UpToDate,
)
from .pipeline import Pipeline
from .sync import SyncKind, plan_sync

if TYPE_CHECKING:
    from .server import Server


class Leading:
    """The role of a server that was elected.

    Args:
        server: which.

    Attributes:
        epoch: the one that it leads in, or wants to.
        broadcast: once a quorum follows; None before.
    """

    state = "leading"
    asks_for_sync = False

    def __init__(self, server: Server) -> None:
        self.epoch: int = server.accepted_epoch + 1
        self.broadcast: Broadcast | None = None
        self._server = server
        self._replica = server.replica
        self._quorum = quorum_size(server.voters)
        self.pipeline: Pipeline = Pipeline(
            server.id, server.clients, server.replica, server.new_ticket, self
        )
        self._summary = server.current_epoch, server.replica.zxid
        self._learners: list[Learner] = []
        self._unidentified: dict[Link, None] = {}
        """Connections that have not said whose they are."""
        # The voters that have joined, promised, and synchronised: one bit for each.
        me = 1 << server.id
        self._joined, self._promised, self._synced = me, me, me
        self._has_epoch = self._has_promises = False
        self._tick = 0
        self._skips_tick = True
        self._timer: LifeTimer | None = None

    @property
    def is_serving(self) -> bool:
        return self.broadcast is not None

    @property
    def leader(self) -> int:
        return self._server.id

    def start(self) -> None:
        server = self._server
        server.network.listen(server.address_of(server.id), self._accept)
        self._wait()
        self._consider_epoch()

    def stop(self) -> None:
        self._server.network.unlisten(self._server.address_of(self._server.id))
        if self._timer is not None:
            self._timer.cancel()
        for learner in list(self._learners):
            self._drop(learner)
        for link in list(self._unidentified):
            link.close()
        if self.broadcast is not None:
            self.broadcast.stop()
            self._server.truth.tell("leader-lost", server=self._server.id, epoch=self.epoch)

    def crash(self) -> None:
        """The process is killed."""
        self._server.network.unlisten(self._server.address_of(self._server.id))
        if self.broadcast is not None:
            self._server.truth.tell("leader-lost", server=self._server.id, epoch=self.epoch)

    # --- for the clients of this server ----------------------------------------------------------

    def touch(self, session_id: int, timeout_ms: int) -> bool:
        return self._lead().touch(session_id, timeout_ms)

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        is_valid = self._lead().revalidate(session_id, timeout_ms, self)
        self._server.clients.revalidated(session_id, is_valid=is_valid)

    def forward(self, request: Request) -> None:
        self._lead().submit(request, self)

    @property
    def lags(self) -> bool:
        return self._lead().lags

    def refusal(self, session_id: int) -> ServerError | None:
        return self._lead().sessions.check(session_id, self)

    # --- learners --------------------------------------------------------------------------------

    def _accept(self, wire: Wire, _host: str) -> Endpoint:
        link = Link(
            self._server.life,
            lambda message: self._join(link, message),
            lambda: self._unidentified.pop(link),
        )
        link.accepted(wire)
        self._unidentified[link] = None
        return link

    def _join(self, link: Link, join: Message) -> None:
        """A server wants to follow."""
        if not isinstance(join, Join):
            raise AssertionError(f"{join!r} is no introduction")
        del self._unidentified[link]
        server = self._server
        settings = server.settings
        silence = Silence(
            server.life, settings.init_limit * settings.tick, lambda: self._drop(learner)
        )
        learner = Learner(
            join,
            link,
            silence,
            is_voter=join.server in server.voter_ids,
            deadline=self._tick + settings.init_limit + settings.sync_limit,
        )
        link.take = partial(self._heard, learner)
        link.gone = partial(self._drop, learner)
        self._learners.append(learner)
        if not self._has_epoch:
            self.epoch = max(self.epoch, join.accepted_epoch + 1)
        if learner.is_voter:
            self._joined |= 1 << learner.server
        if self._has_epoch:
            self._invite(learner)
        else:
            self._consider_epoch()

    def _heard(self, learner: Learner, message: Message) -> None:
        learner.silence.heard()
        learner.deadline = self._tick + self._server.settings.sync_limit
        match message:
            case Ack():
                learner.acknowledged(message.zxid)
                if learner.is_voter:
                    self._lead().acknowledged(learner.server, message.zxid)
            case Pong():
                broadcast = self._lead()
                for session_id, timeout_ms in message.touched.items():
                    broadcast.touch(session_id, timeout_ms)
            case Request():
                if message.op is OpCode.SYNC:
                    self._lead().sync(learner)
                else:
                    self._lead().submit(message, learner)
            case Revalidate():
                session_id = message.session_id
                is_valid = self._lead().revalidate(session_id, message.timeout_ms, learner)
                learner.link.send(Revalidated(session_id, is_valid))
            case EpochAck():
                self._promise(learner, message)
            case SyncAck():
                self._sync_acked(learner)
            case _:
                raise AssertionError(f"{message!r} from a learner")

    def _drop(self, learner: Learner) -> None:
        if not learner.is_over:
            learner.close()
            self._learners.remove(learner)

    # --- finding an epoch, and followers for it --------------------------------------------------

    def _consider_epoch(self) -> None:
        if not self._has_epoch and self._joined.bit_count() >= self._quorum:
            self._has_epoch = True
            self._server.accepted_epoch = self.epoch
            self._wait()
            for learner in list(self._learners):
                self._invite(learner)
            self._consider_promises()

    def _invite(self, learner: Learner) -> None:
        learner.stage = Stage.INVITED
        learner.link.send(NewEpoch(self.epoch))

    def _promise(self, learner: Learner, ack: EpochAck) -> None:
        learner.zxid = ack.zxid
        learner.stage = Stage.PROMISED
        if self._has_promises:
            self._synchronise(learner)
            return
        if ack.current_epoch != -1:
            if (ack.current_epoch, ack.zxid) > self._summary:
                # It knows more than this leader, who must not make it forget.
                self._drop(learner)
                return
            if learner.is_voter:
                self._promised |= 1 << learner.server
        self._consider_promises()

    def _consider_promises(self) -> None:
        if not self._has_promises and self._promised.bit_count() >= self._quorum:
            self._has_promises = True
            self._server.current_epoch = self.epoch
            self._wait()
            for learner in list(self._learners):
                if learner.stage is Stage.PROMISED:
                    self._synchronise(learner)
            self._consider_synced()

    def _synchronise(self, learner: Learner) -> None:
        """Sends what a learner lacks, or has it drop what nobody else has."""
        replica, log = self._replica, self._replica.log
        if self.broadcast is None:
            # The entries of this leader's log count as committed as soon as a quorum has them, too.
            committed, last_processed = log.last, replica.zxid
        else:
            self.broadcast.catch_up()
            committed, last_processed = self.broadcast.committed, replica.processor.zxid
        plan = plan_sync(learner.zxid, log.zxids(committed), last_processed)
        self._server.count_sync(plan.kind)
        if plan.kind is SyncKind.SNAP:
            snapshot = replica.snapshot()
            entries = tuple(log.after(log.committed, committed))
            learner.link.send(Sync(plan.kind, snapshot.zxid, entries, snapshot))
        else:
            lacks = plan.proposals
            entries = tuple(log.after(lacks[0] - 1, lacks[-1])) if lacks else ()
            learner.link.send(Sync(plan.kind, plan.zxid, entries))
        if self.broadcast is not None:
            self.broadcast.forward(learner, plan.forward_after)
        learner.stage = Stage.SYNCING
        learner.link.send(NewLeader(self.epoch))

    def _sync_acked(self, learner: Learner) -> None:
        settings = self._server.settings
        learner.stage = Stage.SYNCED
        learner.silence.set_limit(settings.sync_limit * settings.tick)
        if learner.is_voter:
            self._synced |= 1 << learner.server
        if self.broadcast is not None:
            self._let_serve(learner)
        else:
            self._consider_synced()

    def _consider_synced(self) -> None:
        if (
            self.broadcast is None
            and self._has_promises
            and self._synced.bit_count() >= self._quorum
        ):
            self._establish()

    def _establish(self) -> None:
        """A quorum follows: what the log holds is committed, clients are served."""
        server, replica = self._server, self._replica
        zxid = self.epoch << 32
        server.truth.tell("leader-elected", server=server.id, epoch=self.epoch)
        replica.commit(replica.log.last)
        replica.begin_epoch(zxid)
        self.broadcast = Broadcast(server, zxid, self._learners)
        replica.applied = self._applied
        server.established(self.epoch)
        for learner in list(self._learners):
            if learner.stage is Stage.SYNCED:
                self._let_serve(learner)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = server.life.after(server.settings.tick / 2, self._half_tick)

    def _let_serve(self, learner: Learner) -> None:
        learner.stage = Stage.SERVING
        learner.link.send(UpToDate())

    def _applied(self, entry: Entry, reply: Record | None, error: int) -> None:
        self._lead().applied(entry, reply, error)
        self.pipeline.committed(entry, reply, error)

    def _lead(self) -> Broadcast:
        if self.broadcast is None:
            raise AssertionError("a leader that nobody follows was asked to lead")
        return self.broadcast

    # --- time ------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Each of the three steps to leadership may take the initial limit."""
        if self._timer is not None:
            self._timer.cancel()
        settings = self._server.settings
        limit = settings.init_limit * settings.tick
        self._timer = self._server.life.after(limit, self._server.look)

    def _half_tick(self) -> None:
        """Twice a tick: which learners are still there, and which sessions are alive?"""
        server = self._server
        self._timer = server.life.after(server.settings.tick / 2, self._half_tick)
        if not self._skips_tick:
            self._tick += 1
            alive = 1 << server.id
            for learner in self._learners:
                if learner.is_voter and self._tick <= learner.deadline:
                    alive |= 1 << learner.server
            if alive.bit_count() < self._quorum:
                server.look()
                return
        self._skips_tick = not self._skips_tick
        limit = server.settings.sync_limit * server.settings.tick
        ping = Ping()
        for learner in list(self._learners):
            if learner.owes_since(server.life) >= limit:
                self._drop(learner)
            elif learner.gets_proposals:
                learner.link.send(ping)
