"""LOOKING: who leads? And the post between servers that carries the votes, whatever they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..network import Network
from .election import Election, Letter, Role
from .life import Life, LifeTimer
from .links import Link
from .messages import Message, Notice


class Electoral:
    """A server's part in elections, for one life of its process.

    Args:
        election: the kernel that decides.
        life: of the process.
        network: over which the letters go.
        host: of the server.
        address_of: where a server takes letters, by its id.
        decided: called when the server has a leader, or is it.
        least_age: for how long a connection is taken for good, in seconds.

    Every server answers those that look for a leader, also while it has one.
    """

    def __init__(
        self,
        election: Election,
        life: Life,
        network: Network,
        host: str,
        address_of: Callable[[int], str],
        decided: Callable[[], None],
        least_age: float,
    ) -> None:
        self.election = election
        self._life = life
        self._network = network
        self._host = host
        self._address_of = address_of
        self._decided = decided
        self._least_age = least_age
        self._links: dict[int, Link] = {}
        self._made: dict[int, float] = {}
        self._timer: LifeTimer | None = None
        self._deadline: float | None = None

    def look(self, epoch: int, zxid: int) -> None:
        """Starts an election; see `Election.look`."""
        self._did(self.election.look(self._life.clock(), epoch=epoch, zxid=zxid))

    def heard(self, notice: Message, *, is_first: bool = False) -> None:
        """A letter has come in, the first of its connection or not."""
        if isinstance(notice, Notice):
            if is_first:
                self._repeat_to(notice.sender)
            was_looking = self.election.role is Role.LOOKING
            now = self._life.clock()
            letters = self.election.receive(now, notice.sender, notice.notification)
            self._did(letters, was_looking=was_looking)

    def _time_passed(self) -> None:
        self._timer = self._deadline = None
        for peer in list(self._links):
            self._renew(peer)
        self._did(self.election.time_passed(self._life.clock()))

    def _did(self, letters: Iterable[Letter], *, was_looking: bool = True) -> None:
        for letter in letters:
            self._post(letter)
        deadline = self.election.deadline
        if deadline != self._deadline:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if deadline is not None:
                # A nanosecond more: a clock that is converted back and forth may fall short.
                delay = max(deadline - self._life.clock(), 0.0) + 1e-9
                self._timer = self._life.after(delay, self._time_passed)
            self._deadline = deadline
        if was_looking and self.election.role is not Role.LOOKING:
            self._decided()

    def _repeat_to(self, peer: int) -> None:
        """Says what was said last to a peer again, which has opened a connection.

        It may have been lost; and a server that receives messages often enough repeats nothing by
        itself. ZooKeeper's connections carry both ways, and begin with that.
        """
        self._renew(peer)
        newest = self.election.last_sent(peer)
        if newest is not None and peer not in self._links:
            self._post(Letter(peer, newest))

    def _renew(self, peer: int) -> None:
        """Has the next letter take a new connection.

        The old one may be dead, or stay half open, without anybody knowing. So a server that
        repeats a letter does not use it again, nor does one that a peer contacts by a new
        connection.
        """
        link = self._links.get(peer)
        if link is not None and self._life.clock() - self._made[peer] > self._least_age:
            link.close()
            del self._links[peer]

    def _post(self, letter: Letter) -> None:
        """Sends a letter. On a new connection the newest one goes first, and it is this one."""
        to = letter.to
        if to in self._links:
            self._links[to].send(Notice(self.election.server, letter.notification))
            return

        def gone() -> None:
            if self._links.get(to) is link:
                del self._links[to]

        def opened() -> None:
            newest = self.election.last_sent(to)
            if newest is not None:
                link.send(Notice(self.election.server, newest))

        link = Link(self._life, lambda _: None, gone)
        self._links[to] = link
        self._made[to] = self._life.clock()
        link.connect(self._network, self._host, self._address_of(to), opened)
