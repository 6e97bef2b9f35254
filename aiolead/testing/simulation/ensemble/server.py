"""One server: what it has on disk, the process that runs, and what can happen to both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...._wire.codes import OpCode
from ....model import Stat
from ..._server.sessions import password
from ..._server.settings import Settings
from ..connection import Endpoint, Wire
from ..network import Network
from ..timeline import Timeline
from .clients import Clients
from .election import Election, Role
from .facts import Truth
from .following import Following
from .leading import Leading
from .life import Life
from .links import Link
from .looking import Electoral
from .messages import Message
from .omissions import Omission
from .replica import Replica
from .settings import EnsembleSettings
from .sync import SyncKind

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_PORT = 2181
LEARNER_PORT = 2888
ELECTION_PORT = 3888


class Server:
    """One server of an ensemble. Made by `Ensemble`.

    Attributes:
        id: 1 and up; its number in the ensemble.
        host: its address without a port.
        address: where clients find it, `host:port`.
        is_voter: whether it votes; an observer does not.
        is_running: whether its process lives; one that is frozen does.
        is_frozen: whether its process is stopped.
        disk_delay: seconds until what is proposed is on its disk. May be set at any time.
        reply_delay: seconds by which all that it sends to clients is late. May be set at any time.
        apply_delay: seconds from a commit until it is applied here, while it leads. May be set at
            any time. Its own clients' syncs do not wait; learners receive the commits at once.
        omissions: the requests that will not be answered, as they come. May be changed at any time.
        syncs: how often it has brought a learner up to date, by the way it did.
    """

    def __init__(
        self,
        id_: int,
        timeline: Timeline,
        network: Network,
        rng: random.Random,
        settings: EnsembleSettings,
        truth: Truth,
        secret: bytes,
        hosts: Sequence[str],
    ) -> None:
        self.id = id_
        self.host: str = hosts[id_ - 1]
        self.address: str = f"{self.host}:{CLIENT_PORT}"
        self.timeline = timeline
        self.network = network
        self.settings = settings
        self.protocol: Settings = settings.of_one_server()
        self.truth = truth
        self.voters: int = settings.voters
        self.voter_ids: range = range(1, settings.voters + 1)
        self.is_voter: bool = id_ in self.voter_ids
        self.disk_delay: float = 0.0
        self.reply_delay: float = 0.0
        self.apply_delay: float = 0.0
        self.omissions: list[Omission] = []
        self.syncs: Counter[SyncKind] = Counter()
        # The content of the disk, besides the replica.
        self.accepted_epoch = 0
        self.current_epoch = 0
        self.replica: Replica = Replica(truth, settings.history, features=self.protocol.features)
        self._seed = rng.getrandbits(64)
        self._hosts = hosts
        self._secret = secret
        self._rate = settings.rates[(id_ - 1) % len(settings.rates)]
        phases = settings.phases
        drawn = rng.random() * settings.tick
        self._phase = phases[(id_ - 1) % len(phases)] if phases else drawn
        self._next_session_id = id_ << 56 | rng.getrandbits(39) << 16
        self._tickets = 0
        self.role: Leading | Following | None = None
        self.life: Life
        self.clients: Clients
        self._electoral: Electoral
        self._disk_busy_until = 0.0
        self.is_running: bool = False

    # --- what can happen to it -------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process; without effect if it runs."""
        if self.is_running:
            return
        self.is_running = True
        self.life = Life(self.timeline, self._rate, self._phase)
        self.clients = Clients(self)
        self.life.unsent, self.life.settle = self.clients.woken, self.clients.settle
        settings = self.settings
        election = Election(
            self.id,
            self.voter_ids,
            finalize_wait=settings.finalize_wait,
            first_repeat=settings.first_repeat,
            last_repeat=settings.last_repeat,
        )
        self._electoral = Electoral(
            election,
            self.life,
            self.network,
            self.host,
            lambda server: f"{self._hosts[server - 1]}:{ELECTION_PORT}",
            self._decided,
            settings.first_repeat,
        )
        self._disk_busy_until = 0.0
        self.network.listen(self.address, self.clients.accept)
        self.network.listen(f"{self.host}:{ELECTION_PORT}", self._accept_letters)
        self.look()

    def kill(self) -> None:
        """Ends the process, as SIGKILL does; without effect if it does not run.

        Its connections break and its memory is lost, with the watches of its clients and the
        sessions that they touched. The disk keeps the log and the epochs.
        """
        if not self.is_running:
            return
        self.is_running = False
        self.network.unlisten(self.address)
        self.network.unlisten(f"{self.host}:{ELECTION_PORT}")
        role, self.role = self.role, None
        if role is not None:
            role.crash()
        self.life.end()
        self.replica.crash()
        self.truth.tell("server", server=self.id, state="down")

    def freeze(self) -> None:
        """Stops the process, as SIGSTOP does. Its connections stay, and what comes in waits."""
        if self.is_running and not self.is_frozen:
            self.life.stop()
            self.truth.tell("server", server=self.id, state="frozen")

    def thaw(self) -> None:
        """Lets a frozen process go on: what has waited is done now, late."""
        if self.is_frozen:
            self.truth.tell("server", server=self.id, state="thawed")
            # Of its own: whether another process was ever stopped must not matter.
            self.life.go_on(random.Random(f"{self._seed} {self.timeline.now}"))  # noqa: S311

    def drop_request(self, op: OpCode, count: int = 1) -> None:
        """Loses the next requests for an operation that come to this server, with the connection.

        `OpCode.CREATE_SESSION` stands for the handshake.
        """
        if self.is_running:
            self.clients.dropped_requests[op] += count

    def drop_reply(self, op: OpCode, count: int = 1) -> None:
        """Carries the next requests for an operation out, and loses the answer and the connection.

        `OpCode.CREATE_SESSION` stands for the handshake.
        """
        if self.is_running:
            self.clients.dropped_replies[op] += count

    # --- what there is to see --------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        return self.is_running and self.life.is_stopped

    @property
    def is_serving(self) -> bool:
        """Whether it has a role in which it serves clients."""
        return self.role is not None and self.role.is_serving

    @property
    def state(self) -> str:
        """`down`, `looking`, `leading`, `following` or `observing`."""
        if not self.is_running:
            return "down"
        return "looking" if self.role is None else self.role.state

    @property
    def zxid(self) -> int:
        """The last one that its clients see."""
        return self.replica.processor.zxid

    def znodes(self) -> Mapping[str, tuple[bytes, Stat]]:
        """Data and Stat of every znode of its tree, but for ZooKeeper's own."""
        tree = self.replica.processor.tree
        nodes = ((path, tree.get(path)) for path in tree.paths())
        return {path: (node.data or b"", node.stat()) for path, node in nodes if node is not None}

    def sessions(self) -> list[int]:
        """The sessions that there are, as far as it knows, by id."""
        return sorted(self.replica.sessions)

    def attached(self) -> list[int]:
        """The sessions whose clients are connected to it, by id."""
        return sorted(self.clients.attached) if self.is_running else []

    def watches(self) -> Mapping[str, list[int]]:
        """The sessions that watch a path here, by path."""
        by_path = self.replica.processor.watches.by_path()
        return {
            path: sorted(connection.session_id for connection in watchers)
            for path, watchers in sorted(by_path.items())
        }

    # --- for its parts ---------------------------------------------------------------------------

    def address_of(self, server: int) -> str:
        """Where a leader takes its learners."""
        return f"{self._hosts[server - 1]}:{LEARNER_PORT}"

    def look(self) -> None:
        """Leaves the role, with all clients, and looks for a leader."""
        role, self.role = self.role, None
        if role is not None:
            role.stop()
        self.replica.applied = None
        self.clients.close_all()
        self.truth.tell("server", server=self.id, state="looking")
        self._electoral.look(self.current_epoch, self.replica.zxid)

    def established(self, epoch: int) -> None:
        """The role has begun: a quorum follows one leader."""
        role = self.role
        if role is None:
            raise AssertionError("a server without a role serves nobody")
        self._electoral.election.established(epoch)
        self.clients.office = role
        self.truth.tell("server", server=self.id, state=role.state)

    def persist(self, zxid: int, done: Callable[[], object]) -> None:
        """Writes the log up to an entry to the disk, and says when it is there."""
        now = self.timeline.now
        if not self.disk_delay and self._disk_busy_until <= now:
            self.replica.persisted(zxid)
            done()
            return
        role = self.role

        def written() -> None:
            if self.role is role:
                self.replica.persisted(zxid)
                done()

        self._disk_busy_until = max(now + self.disk_delay, self._disk_busy_until)
        self.life.after((self._disk_busy_until - now) * self._rate, written)

    def count_sync(self, kind: SyncKind) -> None:
        self.syncs[kind] += 1

    def time_ms(self) -> int:
        """Milliseconds since 1970, as this server has them."""
        return int((self.settings.epoch + self.timeline.now) * 1000)

    def new_session_id(self) -> int:
        self._next_session_id += 1
        return self._next_session_id

    def new_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def password(self, session_id: int) -> bytes:
        return password(self._secret, session_id)

    def _accept_letters(self, wire: Wire, _host: str) -> Endpoint:
        def first(letter: Message) -> None:
            link.take = self._electoral.heard
            self._electoral.heard(letter, is_first=True)

        link = Link(self.life, first, lambda: None)
        link.accepted(wire)
        return link

    def _decided(self) -> None:
        election = self._electoral.election
        leader = election.leader
        if leader is None:
            raise AssertionError("an election that is over names a leader")
        if election.role is Role.LEADING:
            self.role = Leading(self)
        else:
            self.role = Following(self, leader)
        self.role.start()
