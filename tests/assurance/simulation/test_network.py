"""The simulated network keeps what TCP promises, and breaks what TCP does not."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest

from aiolead.testing.simulation.connection import Wire
from aiolead.testing.simulation.loops import Backend, run_virtual
from aiolead.testing.simulation.network import Network, host_of
from aiolead.testing.simulation.stream import MAX_UNSENT, SimulatedStream, dial
from aiolead.testing.simulation.timeline import Deadlock, Timeline

CLIENT, SERVER = "10.0.1.1", "10.0.0.1"
ADDRESS = f"{SERVER}:2181"

T = TypeVar("T")


class End:
    """One end of a connection, which notes its reports and their times."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.wire: Wire | None = None
        self.parts: list[Any] = []
        self.told: list[tuple[float, str]] = []
        self.on_received: Callable[[Any], object] = lambda _data: None

    def received(self, data: Any) -> None:
        self.parts.append(data)
        self.on_received(data)

    def ended(self) -> None:
        self.told.append((self.timeline.now, "ended"))

    def broken(self) -> None:
        self.told.append((self.timeline.now, "broken"))

    def opened(self, wire: Wire | None) -> None:
        self.wire = wire
        self.told.append((self.timeline.now, "refused" if wire is None else "opened"))

    @property
    def what(self) -> list[str]:
        return [what for _, what in self.told]

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)


class Scene:
    """A server, a client, and the paths between them; packets take 10 ms and arrive whole."""

    def __init__(self, seed: int = 1, backend: Backend = "asyncio") -> None:
        self.backend = backend
        self.timeline = Timeline()
        self.network = Network(self.timeline, seed)
        self.there = self.network.path(CLIENT, SERVER)
        self.back = self.network.path(SERVER, CLIENT)
        for path in (self.there, self.back):
            path.range, path.cuts = (0.01, 0.01), 0.0
        self.accepted: list[End] = []
        self.network.listen(ADDRESS, self.accept)

    def accept(self, wire: Wire, host: str) -> End:
        assert host == CLIENT
        end = End(self.timeline)
        end.wire = wire
        self.accepted.append(end)
        return end

    def start(self) -> tuple[End, Callable[[], None]]:
        client = End(self.timeline)
        return client, self.network.connect(CLIENT, ADDRESS, client, client.opened)

    def connected(self) -> tuple[End, End, Wire, Wire]:
        client, _ = self.start()
        self.run(1.0)
        server = self.accepted[-1]
        assert client.wire is not None
        assert server.wire is not None
        client.told.clear()
        return client, server, client.wire, server.wire

    def play(self, main: Callable[[], Awaitable[T]]) -> T:
        """Runs a coroutine function on the event loop of the test, in the time of the scene."""
        return run_virtual(main, backend=self.backend, timeline=self.timeline)

    def run(self, seconds: float) -> None:
        end = self.timeline.now + seconds
        while self.timeline.now < end:
            self.timeline.advance(end)
        assert self.timeline.failure is None


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_connecting_takes_a_round_trip(scene: Scene) -> None:
    client, _ = scene.start()
    scene.run(1.0)
    assert client.told == [(pytest.approx(0.02), "opened")]
    assert client.wire is not None
    assert (client.wire.host, client.wire.peer_host) == (CLIENT, SERVER)
    assert [str(c.target) for c in scene.network.connections()] == [ADDRESS]


def test_bytes_arrive_later_and_in_order(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    wire.send(b"one")
    wire.send(b"two")
    assert wire.unsent == 6
    scene.run(0.005)
    assert server.parts == []
    wire.send(b"three")
    scene.run(0.006)
    assert server.parts == [b"onetwo"]  # bytes that are sent at one time leave in one packet
    scene.run(1.0)
    assert server.parts == [b"onetwo", b"three"]
    assert wire.unsent == 0


def test_objects_arrive_one_by_one(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    messages = [("proposal", 1), ("commit", 1)]
    for message in messages:
        wire.send(message)
    scene.run(1.0)
    assert server.parts == messages
    assert server.parts[0] is messages[0]


def test_fast_packet_does_not_overtake_a_slow_one(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    scene.there.range = (0.5, 0.5)
    wire.send(b"slow")
    scene.run(0.1)
    scene.there.range = (0.01, 0.01)
    wire.send(b"fast")
    scene.run(0.3)
    assert server.data == b""
    scene.run(0.2)
    assert server.data == b"slowfast"


def test_close_arrives_after_the_data(scene: Scene) -> None:
    client, server, wire, server_wire = scene.connected()
    wire.send(b"last words")
    wire.close()
    wire.send(b"too late")
    scene.run(1.0)
    assert server.data == b"last words"
    assert server.what == ["ended"]
    server_wire.close()
    scene.run(1.0)
    assert client.told == []  # an end that has closed gets no report
    assert scene.network.connections() == []


def test_sending_to_a_closed_end_is_reset(scene: Scene) -> None:
    client, server, wire, server_wire = scene.connected()
    server_wire.close()
    wire.send(b"crossing")
    scene.run(1.0)
    assert client.what == ["ended", "broken"]
    assert server.data == b""
    assert scene.network.connections() == []


def test_reset_arrives_after_the_data(scene: Scene) -> None:
    _, server, wire, server_wire = scene.connected()
    wire.send(b"data")
    wire.reset()
    scene.run(1.0)
    assert server.data == b"data"
    assert server.what == ["broken"]
    assert not server_wire.is_open


# --- attempts ------------------------------------------------------------------------------------


def test_address_without_a_listener_refuses(scene: Scene) -> None:
    scene.network.unlisten(ADDRESS)
    client, _ = scene.start()
    scene.run(1.0)
    assert client.told == [(pytest.approx(0.02), "refused")]
    assert scene.network.connections() == []


def test_address_has_one_listener(scene: Scene) -> None:
    with pytest.raises(OSError, match="in use"):
        scene.network.listen(ADDRESS, scene.accept)
    scene.network.unlisten(ADDRESS)
    scene.network.listen(ADDRESS, scene.accept)


def test_server_may_refuse(scene: Scene) -> None:
    scene.network.unlisten(ADDRESS)
    scene.network.listen(ADDRESS, lambda _wire, _host: None)
    client, _ = scene.start()
    scene.run(1.0)
    assert client.what == ["refused"]
    assert scene.network.connections() == []


def test_refusing_path_keeps_open_connections(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    scene.there.refuses = True
    client, _ = scene.start()
    wire.send(b"still here")
    scene.run(1.0)
    assert client.what == ["refused"]
    assert server.data == b"still here"


@pytest.mark.parametrize("after", [0.0, 0.015])
def test_abandoned_attempt_reports_nothing(scene: Scene, after: float) -> None:
    client, abandon = scene.start()
    scene.run(after)
    abandon()
    scene.run(1.0)
    assert client.told == []
    assert [server.what for server in scene.accepted] == [["broken"]] * (after > 0)
    assert scene.network.connections() == []


def test_abandoning_an_open_connection_has_no_effect(scene: Scene) -> None:
    client, abandon = scene.start()
    scene.run(1.0)
    abandon()
    assert client.wire is not None
    assert client.wire.is_open


# --- faults --------------------------------------------------------------------------------------


def test_silent_path_delivers_late(scene: Scene) -> None:
    client, server, wire, server_wire = scene.connected()
    scene.there.silence()
    wire.send(b"one")
    server_wire.send(b"the other way")
    scene.run(10.0)
    wire.send(b"two")
    scene.run(10.0)
    assert server.data == b""
    assert client.data == b"the other way"
    scene.there.heal()
    scene.run(2.0)
    assert server.data == b"onetwo"


def test_packet_under_way_as_a_path_falls_silent_is_late(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    wire.send(b"data")
    scene.run(0.005)
    scene.there.silence()
    scene.run(5.0)
    assert server.data == b""
    scene.there.heal()
    scene.run(2.0)
    assert server.data == b"data"


def test_path_may_forget_a_connection(scene: Scene) -> None:
    client, server, wire, server_wire = scene.connected()
    scene.there.silence()
    wire.send(b"one")
    scene.run(1.0)
    scene.there.heal(keep=False)
    wire.send(b"two")
    server_wire.send(b"back")
    scene.run(100.0)
    assert (server.data, server.told) == (b"", [])
    assert client.data == b"back"
    other, _ = scene.start()
    scene.run(1.0)
    assert other.what == ["opened"]  # new connections are not concerned


def test_attempt_on_a_silent_path_waits_for_the_healing(scene: Scene) -> None:
    scene.back.silence()
    client, _ = scene.start()
    scene.run(60.0)
    assert client.told == []
    scene.back.heal()
    scene.run(2.0)
    assert client.what == ["opened"]


def test_attempt_abandoned_in_silence_never_arrives(scene: Scene) -> None:
    scene.there.silence()
    _, abandon = scene.start()
    scene.run(1.0)
    abandon()
    scene.there.heal()
    scene.run(5.0)
    assert scene.accepted == []


def test_end_on_a_silent_path_arrives_late(scene: Scene) -> None:
    client, _, _, server_wire = scene.connected()
    scene.back.silence()
    server_wire.close()
    scene.run(10.0)
    assert client.told == []
    scene.back.heal()
    scene.run(2.0)
    assert client.what == ["ended"]


def test_reset_on_a_silent_path_is_lost(scene: Scene) -> None:
    """An end whose peer has died learns that only when it sends something."""
    client, _, wire, server_wire = scene.connected()
    scene.back.silence()
    server_wire.send(b"never repeated by the dead")
    server_wire.reset()
    scene.run(10.0)
    scene.back.heal()
    scene.run(10.0)
    assert (client.data, client.told) == (b"", [])
    assert wire.is_open
    wire.send(b"anybody there?")
    scene.run(1.0)
    assert client.what == ["broken"]


def test_reset_under_way_as_a_path_falls_silent_is_lost(scene: Scene) -> None:
    client, _, _, server_wire = scene.connected()
    server_wire.reset()
    scene.run(0.005)
    scene.back.silence()
    scene.run(1.0)
    scene.back.heal()
    scene.run(5.0)
    assert client.told == []


@pytest.mark.parametrize("how", ["path", "network"])
def test_reset_breaks_everything_between_two_hosts(scene: Scene, how: str) -> None:
    client, server, wire, _ = scene.connected()
    opening, _ = scene.start()
    wire.send(b"lost")
    if how == "path":
        scene.back.reset()
    else:
        scene.network.reset(SERVER, CLIENT)
    scene.run(1.0)
    assert client.what == ["broken"]
    assert server.what == ["broken"]
    assert opening.what == ["refused"]
    assert server.data == b""
    assert scene.network.connections() == []


def test_connection_may_be_finished_in_between(scene: Scene) -> None:
    client, server, _, _ = scene.connected()
    scene.network.connections()[0].finish()
    scene.run(1.0)
    assert client.what == ["ended"]
    assert server.what == ["ended"]


@pytest.mark.parametrize("size", [0, 1, 5, 6])
def test_connection_breaks_after_a_number_of_bytes(scene: Scene, size: int) -> None:
    client, server, wire, _ = scene.connected()
    scene.there.break_after = size
    wire.send(b"abc")
    scene.run(0.1)
    wire.send(b"def")
    scene.run(1.0)
    assert server.data == b"abcdef"[:size]
    assert server.what == ["broken"]
    assert client.what == ["broken"]
    assert scene.there.break_after is None  # once


def test_dripping_path_delivers_small_pieces(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    scene.there.drip = (3, 0.5)
    wire.send(b"0123456789")
    scene.run(1.2)
    assert server.parts == [b"012", b"345", b"678"]
    wire.send(b"ab")
    scene.run(2.0)
    assert server.data == b"0123456789ab"
    assert max(len(part) for part in server.parts) == 3


def test_packet_of_a_path_that_was_slow_is_late(scene: Scene) -> None:
    _, server, wire, back = scene.connected()
    wire.send(b"as ever")
    assert scene.network.late() is None
    scene.run(0.001)
    sent = scene.timeline.now
    scene.there.range = (5.0, 5.0)
    wire.send(b"slow")
    assert scene.network.late() is None  # nothing is late on a path that is slow
    scene.there.range = (0.01, 0.01)
    scene.run(1.0)
    assert scene.network.late() == pytest.approx(sent + 5.0)
    wire.send(b"held up behind it")
    back.send(b"not held up")
    scene.run(3.999)
    assert server.data == b"as ever"
    assert scene.network.late() is None  # by now it comes as soon as any other would
    scene.run(0.001)
    assert server.data == b"as everslowheld up behind it"


def test_packet_that_never_arrives_is_not_late(scene: Scene) -> None:
    _, _, wire, _ = scene.connected()
    scene.there.range = (5.0, 5.0)
    wire.send(b"slow")
    scene.there.range = (0.01, 0.01)
    assert scene.network.late() is not None
    scene.there.reset()
    assert scene.network.late() is None


def test_segments_are_cut(scene: Scene) -> None:
    _, server, wire, _ = scene.connected()
    scene.there.cuts = 0.5
    for _ in range(50):
        wire.send(b"0123456789")
        scene.run(1.0)
    lengths = {len(part) for part in server.parts}
    assert server.data == b"0123456789" * 50
    assert len(lengths) > 5


@pytest.mark.parametrize("seed", range(40))
def test_bytes_arrive_once_and_in_order_under_random_faults(seed: int) -> None:
    """All faults that do not break a connection, at random; in both directions at once."""
    scene = Scene(seed)
    rng = random.Random(seed)
    client, server, wire, server_wire = scene.connected()
    sent = {wire: b"", server_wire: b""}
    for _ in range(200):
        path = rng.choice((scene.there, scene.back))
        match rng.randrange(8):
            case 0:
                path.silence()
            case 1 | 2:
                path.heal()
            case 3:
                path.range = rng.choice(((0.0, 0.0), (0.001, 0.3), (0.0, 0.01)))
            case 4:
                path.drip = rng.choice((None, None, (2, 0.05)))
            case 5:
                path.cuts = rng.choice((0.0, 0.2, 0.9))
            case _:
                out = rng.choice((wire, server_wire))
                for _ in range(rng.randrange(1, 4)):
                    data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 30)))
                    sent[out] += data
                    out.send(data)
        scene.run(rng.choice((0.0, 0.001, 0.1, 1.0)))
        assert sent[wire].startswith(server.data)
        assert sent[server_wire].startswith(client.data)
    wire.end()
    server_wire.end()
    for path in (scene.there, scene.back):
        path.heal()
    scene.run(1000.0)
    assert server.data == sent[wire]
    assert client.data == sent[server_wire]
    assert client.what == ["ended"]
    assert server.what == ["ended"]
    assert wire.unsent == server_wire.unsent == 0


def test_delays_of_a_path_do_not_depend_on_other_paths() -> None:
    def arrivals(*, busy: bool) -> list[float]:
        timeline = Timeline()
        network = Network(timeline, 7)
        seen: list[float] = []
        for host in ("10.0.1.1", "10.0.1.2") if busy else ("10.0.1.1",):
            for n in range(20):
                path = network.path(host, SERVER)
                seen.extend([path.delay()] if host == "10.0.1.1" else [path.delay()] * 0)
                assert path.delay() >= 0.0001, n
        return seen

    assert arrivals(busy=True) == arrivals(busy=False)
    assert len(set(arrivals(busy=False))) == 20


def test_host_of_an_address() -> None:
    assert host_of("10.0.0.1:2181") == "10.0.0.1"
    assert host_of("10.0.0.1") == "10.0.0.1"
    assert host_of("[fd00::1]:2181") == "[fd00::1]"
    assert host_of("fd00::1") == "fd00::1"


# --- byte streams --------------------------------------------------------------------------------


def echoing(scene: Scene) -> None:
    """The server sends back what it gets."""

    def accept(wire: Wire, host: str) -> End:
        end = scene.accept(wire, host)
        end.on_received = wire.send
        return end

    scene.network.unlisten(ADDRESS)
    scene.network.listen(ADDRESS, accept)


@pytest.fixture(params=["asyncio", "trio"])
def played(request: pytest.FixtureRequest) -> Scene:
    """A scene for coroutines, on each event loop."""
    return Scene(backend=request.param)


def test_stream_sends_and_receives(played: Scene) -> None:
    echoing(played)

    async def main() -> None:
        async with await dial(played.network, CLIENT, ADDRESS) as stream:
            assert stream.extra_attributes == {}
            await stream.send(b"hello")
            assert await stream.receive() == b"hello"
            await stream.send(b"0123456789")
            assert await stream.receive(4) == b"0123"
            assert await stream.receive(4) == b"4567"
            assert await stream.receive(4) == b"89"
            with anyio.move_on_after(5) as scope:
                await stream.receive()
            assert scope.cancelled_caught
            await stream.send(b"again")
            assert await stream.receive() == b"again"
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"x")

    played.play(main)
    played.run(1.0)
    assert played.accepted[0].what == ["ended"]


def test_stream_ends_after_its_data(played: Scene) -> None:

    async def main() -> None:
        stream = await dial(played.network, CLIENT, ADDRESS)
        wire = played.accepted[0].wire
        assert wire is not None
        wire.send(b"bye")
        wire.close()
        await anyio.sleep(1)
        assert await stream.receive() == b"bye"
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        await stream.send(b"nobody hears")
        await anyio.sleep(1)
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"x")

    played.play(main)


def test_waiting_receive_ends_with_its_connection(played: Scene) -> None:

    async def receives(stream: SimulatedStream, error: type[Exception]) -> None:
        with pytest.raises(error):
            await stream.receive()

    async def main() -> float:
        for error in (anyio.BrokenResourceError, anyio.ClosedResourceError):
            stream = await dial(played.network, CLIENT, ADDRESS)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receives, stream, error)
                await anyio.sleep(1)
                with pytest.raises(anyio.BusyResourceError):
                    await stream.receive()
                if error is anyio.BrokenResourceError:
                    played.there.reset()
                else:
                    await stream.aclose()
        return anyio.current_time()

    assert played.play(main) == pytest.approx(2.04)


def test_dial_fails_or_is_cancelled_cleanly(played: Scene) -> None:

    async def main() -> None:
        played.there.silence()
        with anyio.move_on_after(10) as scope:
            await dial(played.network, CLIENT, ADDRESS)
        assert scope.cancelled_caught
        played.there.heal()
        played.there.refuses = True
        with pytest.raises(ConnectionRefusedError):
            await dial(played.network, CLIENT, ADDRESS)
        played.there.refuses = False
        # Cancelled at the instant at which the answer comes, just before it: nothing is left open.
        played.back.range = (0.0, 0.0)
        played.there.range = (0.25, 0.25)
        with anyio.CancelScope() as scope:
            played.timeline.after(0.25, lambda: played.timeline.after(0.0, scope.cancel))
            await dial(played.network, CLIENT, ADDRESS)
        assert scope.cancelled_caught
        await anyio.sleep(1)
        assert not any(c.client.is_open for c in played.network.connections())
        assert played.accepted[-1].what == ["ended"]

    played.play(main)


def test_send_waits_while_the_buffer_is_full(played: Scene) -> None:

    async def main() -> None:
        stream = await dial(played.network, CLIENT, ADDRESS)
        played.there.silence()
        await stream.send(bytes(MAX_UNSENT))
        assert anyio.current_time() == pytest.approx(0.02)
        played.timeline.after(100, played.there.heal)
        await stream.send(b"more")
        assert 100 < anyio.current_time() < 102
        await anyio.sleep(10)
        played.there.silence()
        await stream.send(bytes(MAX_UNSENT))
        played.timeline.after(100, played.there.reset)
        await stream.send(b"never")  # the connection breaks: nobody waits forever
        assert stream.is_open is False

    played.play(main)
    assert len(played.accepted[0].data) == MAX_UNSENT + 4


def test_stream_may_be_half_closed(played: Scene) -> None:

    async def main() -> None:
        stream = await dial(played.network, CLIENT, ADDRESS)
        await stream.send_eof()
        await anyio.sleep(1)
        server = played.accepted[0]
        assert server.what == ["ended"]
        assert server.wire is not None
        server.wire.send(b"answer")
        server.wire.close()
        assert await stream.receive() == b"answer"
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()

    played.play(main)


def test_waiting_for_a_silent_network_is_a_deadlock(played: Scene) -> None:
    played.there.silence()

    async def main() -> None:
        await dial(played.network, CLIENT, ADDRESS)

    with pytest.raises(Deadlock):
        played.play(main)
