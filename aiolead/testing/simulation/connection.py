"""One connection: two ends, a flow of segments in each direction, and the rules of TCP.

Bytes arrive at the other end in order. Closing an end says so to its peer after all that
was sent; resetting it says so at once, once, and is lost where nothing arrives. Bytes that arrive
at a closed end are answered by a reset.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, final

from .timeline import Timer

if TYPE_CHECKING:
    from .network import Network, Path


class Endpoint(Protocol):
    """One end of a connection, as it is notified; nothing after it has closed or reset it."""

    def received(self, data: Any, /) -> None:
        """Bytes, cut anywhere, from a peer that sends bytes; else one object that it sent."""
        ...

    def ended(self) -> None:
        """The peer will send no more."""
        ...

    def broken(self) -> None:
        """The connection is no more: nothing comes, and nothing that is sent arrives."""
        ...


Accept = Callable[["Wire", str], Endpoint | None]
"""Takes a connection, with our wire and the peer's host; None refuses it."""


class Mark(enum.Enum):
    """The signals between two ends besides data."""

    OPEN = enum.auto()
    OPENED = enum.auto()
    REFUSED = enum.auto()
    END = enum.auto()
    RESET = enum.auto()


class _Segment:
    """Something on its way."""

    __slots__ = ("arrival", "data", "sent")

    def __init__(self, sent: float, arrival: float, data: Any) -> None:
        self.sent = sent
        self.arrival = arrival
        self.data = data


@final
class Flow:
    """One direction of a connection: what is on its way to one end.

    Attributes:
        path: which it takes.
        arrived: called with what arrives.
        unsent: bytes that have not arrived yet.
        when_sent: called once, and forgotten, as soon as something has arrived, or never will.
    """

    __slots__ = (
        "_connection",
        "_is_dead",
        "_queue",
        "_timeline",
        "_timer",
        "arrived",
        "path",
        "unsent",
        "when_sent",
    )

    def __init__(
        self, connection: Connection, path: Path, arrived: Callable[[Any], object]
    ) -> None:
        self.path: Path = path
        self.arrived: Callable[[Any], object] = arrived
        self._connection = connection
        self._timeline = connection.network.timeline
        self._queue: deque[_Segment] = deque()
        self._timer: Timer | None = None
        self._is_dead = False
        self.unsent: int = 0
        self.when_sent: Callable[[], object] | None = None

    def put(self, data: Any) -> None:
        """Sends something on its way, behind all else."""
        if self._is_dead:
            return
        if type(data) is bytes:
            self.unsent += len(data)
        now = self._timeline.now
        queue = self._queue
        last = queue[-1] if queue else None
        if last is None:
            arrival = now + self.path.delay()
        elif last.sent == now:
            # Both leave in one packet.
            if type(data) is bytes and type(last.data) is bytes:
                last.data += data
                return
            arrival = last.arrival
        else:
            arrival = now + self.path.delay()
            if arrival < last.arrival:
                arrival = last.arrival
        queue.append(_Segment(now, arrival, data))
        if self._timer is None:
            self._timer = self._timeline.at(queue[0].arrival, self._deliver)

    def put_reset(self) -> None:
        """Bytes in flight are dropped; the reset is sent once, whether it arrives or not."""
        if self.path.is_silent:
            self.clear()
        else:
            self.put(Mark.RESET)

    def resume(self, delay: float) -> None:
        """The path is no longer silent: what was held back arrives after a while."""
        if self._timer is None and self._queue:
            self._timer = self._timeline.after(delay, self._deliver)

    @property
    def late(self) -> float | None:
        """When the last packet arrives, if the path has become faster since it was sent."""
        arrival = self._queue[-1].arrival if self._queue else 0.0
        return arrival if arrival > self._timeline.now + self.path.range[1] else None

    def give_up(self) -> None:
        """Nothing arrives any more, and nobody says so."""
        self._is_dead = True
        self.clear()

    def clear(self) -> None:
        """Drops what has not arrived."""
        self._queue.clear()
        self.unsent = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell_sender()

    def _tell_sender(self) -> None:
        if self.when_sent is not None:
            when_sent, self.when_sent = self.when_sent, None
            when_sent()

    def _deliver(self) -> None:
        self._timer = None
        path, queue, now = self.path, self._queue, self._timeline.now
        if path.is_silent:
            while queue and queue[-1].data is Mark.RESET:
                queue.pop()
            path.hold(self)
            return
        while queue and queue[0].arrival <= now:
            segment = queue.popleft()
            data = segment.data
            if type(data) is bytes:
                while queue and queue[0].arrival <= now and type(queue[0].data) is bytes:
                    data += queue.popleft().data
                if self._carry(data, segment):
                    break
            else:
                self.arrived(data)
        if queue and self._timer is None:
            self._timer = self._timeline.at(queue[0].arrival, self._deliver)

    def _carry(self, data: bytes, segment: _Segment) -> bool:
        """Delivers as many of the bytes as come now; returns whether the rest comes later."""
        path = self.path
        size = len(data)
        rest_after = 0.0
        if path.drip is not None and size > path.drip[0]:
            size, rest_after = path.drip
        elif size > 1 and path.rng.random() < path.cuts:
            size, rest_after = path.rng.randrange(1, size), path.delay()
        if path.break_after is not None:
            if size >= path.break_after:
                size, path.break_after = path.break_after, None
                if size:
                    self.arrived(data[:size])
                self._connection.break_()
                return True
            path.break_after -= size
        self.unsent -= size
        self._tell_sender()
        if size == len(data):
            self.arrived(data)
            return False
        segment.data = data[size:]
        segment.arrival = self._timeline.now + rest_after
        self._queue.appendleft(segment)
        self.arrived(data[:size])
        return True


@final
class Wire:
    """The operations of one end of a connection.

    Attributes:
        host: of this end.
        peer_host: of the other.
        is_open: whether this end is neither closed nor broken.
    """

    __slots__ = ("_connection", "_endpoint", "_has_ended", "_out", "host", "is_open", "peer_host")

    def __init__(
        self, connection: Connection, host: str, peer_host: str, endpoint: Endpoint | None
    ) -> None:
        self.host: str = host
        self.peer_host: str = peer_host
        self.is_open: bool = True
        self._connection = connection
        self._endpoint = endpoint
        self._has_ended = False
        self._out: Flow

    @property
    def unsent(self) -> int:
        """Bytes that were sent and have not arrived."""
        return self._out.unsent

    def when_sent(self, do: Callable[[], object]) -> None:
        """Call `do` once, when something has arrived, or nothing will any more."""
        self._out.when_sent = do

    def send(self, data: Any) -> None:
        """Sends bytes, or any one object. Never waits; without effect on an end that is closed."""
        if self.is_open and not self._has_ended:
            self._out.put(data)

    def end(self) -> None:
        """Says that nothing more will be sent, after all that was; receiving goes on."""
        if self.is_open and not self._has_ended:
            self._has_ended = True
            self._out.put(Mark.END)

    def close(self) -> None:
        """Says that nothing more will be sent, after all that was, and receives nothing more."""
        self.end()
        self._leave()

    def reset(self) -> None:
        """Breaks the connection; bytes that were sent and have not arrived are lost."""
        if self.is_open:
            self._out.put_reset()
            self._leave()

    # --- for the connection --------------------------------------------------------------------

    def join(self, out: Flow) -> None:
        self._out = out

    def accepted(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def break_(self) -> None:
        """The connection was broken, and this end gets to know."""
        if self.is_open:
            endpoint = self._endpoint
            self._leave()
            if endpoint is not None:
                endpoint.broken()

    def arrived(self, data: Any) -> None:
        endpoint = self._endpoint
        if data is Mark.RESET:
            self.break_()
        elif not self.is_open or endpoint is None:
            if data is not Mark.END:
                self._out.put_reset()
        elif data is Mark.END:
            endpoint.ended()
        else:
            endpoint.received(data)

    def _leave(self) -> None:
        self.is_open = False
        self._endpoint = None
        self._connection.left()


@final
class Connection:
    """A connection from its first packet to its last; made by `Network.connect`.

    Attributes:
        network: to which it belongs.
        client: the end that opened it.
        server: the other.
        target: the address that the client connected to, `host:port`.
    """

    def __init__(
        self,
        network: Network,
        source: str,
        target: str,
        endpoint: Endpoint,
        opened: Callable[[Wire | None], object],
    ) -> None:
        there, back = network.path(source, target), network.path(target, source)
        self.network = network
        self.target = target
        self.client: Wire = Wire(self, there.source, there.target, endpoint)
        self.server: Wire = Wire(self, there.target, there.source, None)
        self._opened: Callable[[Wire | None], object] | None = opened
        self._has_arrived = False
        self._there = Flow(self, there, self._arrived_first)
        self._back = Flow(self, back, self._answered)
        self.client.join(self._there)
        self.server.join(self._back)

    def open(self) -> None:
        """Sends the first packet."""
        self._there.put(Mark.OPEN)

    def abandon(self) -> None:
        """The client gives up before it was answered."""
        if self._opened is not None:
            self._opened = None
            if not self._has_arrived:
                self._there.clear()
                self.server.is_open = False
            self.client.reset()

    def break_(self) -> None:
        """Breaks it at both ends, at once."""
        self._there.clear()
        self._back.clear()
        opened, self._opened = self._opened, None
        self.server.break_()
        if opened is None:
            self.client.break_()
        else:
            self.client.close()
            opened(None)

    def finish(self) -> None:
        """Notify both ends, as a box between them would, that the other end sends no more."""
        self.client.end()
        self.server.end()

    @property
    def late(self) -> list[float]:
        """The `Flow.late` of the directions that have one."""
        return [late for flow in (self._there, self._back) if (late := flow.late) is not None]

    def left(self) -> None:
        """One end is closed or broken."""
        if not self.client.is_open and not self.server.is_open:
            self._there.clear()
            self._back.clear()
            self.network.forget(self)

    def _arrived_first(self, _open: Any) -> None:
        """The first packet has arrived at the server's host."""
        self._has_arrived = True
        self._there.arrived = self.server.arrived
        accept = self.network.listener(self.target)
        if accept is None or self._there.path.refuses:
            self._refuse()
            return
        self._back.put(Mark.OPENED)
        endpoint = accept(self.server, self.client.host)
        if endpoint is None:
            self._back.clear()
            self._refuse()
        else:
            self.server.accepted(endpoint)

    def _refuse(self) -> None:
        self._back.put(Mark.REFUSED)
        self.server.is_open = False

    def _answered(self, answer: Any) -> None:
        """The answer to it has arrived at the client's."""
        self._back.arrived = self.client.arrived
        opened, self._opened = self._opened, None
        if answer is Mark.OPENED and opened is not None:
            opened(self.client)
        elif answer is Mark.OPENED:
            # Given up meanwhile.
            self._there.put_reset()
        else:
            self.client.close()
            if opened is not None:
                opened(None)
