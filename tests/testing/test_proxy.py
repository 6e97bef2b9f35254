"""The fault proxy below the protocol: what each fault does to two sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kit.checks import PATIENCE
from kit.raw_client import RawClient

from aiolead.errors import UsageError
from aiolead.testing._proxy.tap import Piece, RawTap
from aiolead.testing.launch import wait_until
from aiolead.testing.proxy import FaultProxy

SILENCE = 0.15
"""Long enough for bytes to arrive on loopback if they do arrive, in seconds."""


class Pair:
    """A connection through a proxy: the client's socket, and the server's."""

    def __init__(self, proxy: FaultProxy, listener: socket.socket) -> None:
        self.client = socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)
        self.server, _ = listener.accept()
        self.server.settimeout(PATIENCE)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def proxy(listener: socket.socket) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", listener.getsockname()[1], seed=1) as proxy:
        yield proxy


@pytest.fixture
def pair(proxy: FaultProxy, listener: socket.socket) -> Iterator[Pair]:
    with closing(Pair(proxy, listener)) as pair:
        yield pair


def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        assert chunk, f"closed after {data!r}"
        data += chunk
    return data


def is_silent(sock: socket.socket) -> bool:
    sock.settimeout(SILENCE)
    try:
        sock.recv(1)
    except TimeoutError:
        return True
    finally:
        sock.settimeout(PATIENCE)
    return False


# Data of another protocol pass unchanged. A leading "GET " would be far too long a frame.
UP, DOWN = b"GET up", b"GET down"


def passes_up(pair: Pair, data: bytes = UP) -> bool:
    pair.client.sendall(data)
    return read(pair.server, len(data)) == data


def passes_down(pair: Pair, data: bytes = DOWN) -> bool:
    pair.server.sendall(data)
    return read(pair.client, len(data)) == data


def assert_reset(*ends: socket.socket) -> None:
    for end in ends:
        with pytest.raises(ConnectionResetError):
            end.recv(1)


def test_bytes_pass_both_ways_and_are_counted(proxy: FaultProxy, pair: Pair) -> None:
    assert passes_up(pair)
    assert passes_down(pair)
    assert proxy.connections == proxy.open_connections == 1
    # Bytes are counted a moment after they have arrived.
    counts = {"to_server": len(UP), "to_client": len(DOWN)}
    assert wait_until(lambda: proxy.bytes == counts, PATIENCE)


def test_much_data_pass_to_a_slow_reader(pair: Pair) -> None:
    data = b"GET " + bytes(range(256)) * 40_000
    sender = threading.Thread(target=pair.client.sendall, args=(data,))
    sender.start()
    time.sleep(0.05)
    assert read(pair.server, len(data)) == data
    sender.join()


def test_half_closed_connection_stays_open_the_other_way(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    pair.client.shutdown(socket.SHUT_WR)
    assert read(pair.server, len(UP)) == UP
    assert pair.server.recv(1) == b""
    assert passes_down(pair)
    pair.server.close()
    assert pair.client.recv(1) == b""
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_reset_of_one_end_reaches_the_other(pair: Pair) -> None:
    pair.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    pair.client.close()
    assert_reset(pair.server)


def test_client_is_reset_without_a_server(listener: socket.socket, proxy: FaultProxy) -> None:
    listener.close()
    # While it connects, or right after.
    with (
        pytest.raises(ConnectionResetError),
        closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client,
    ):
        client.recv(1)


def test_patience_waits_for_the_server(listener: socket.socket) -> None:
    host, port = listener.getsockname()
    listener.close()
    with (
        FaultProxy(host, port, patience=PATIENCE) as proxy,
        closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client,
        closing(socket.create_server((host, port))) as late,
    ):
        late.settimeout(PATIENCE)
        server, _ = late.accept()
        with closing(server):
            client.sendall(UP)
            assert read(server, len(UP)) == UP


def test_reset(proxy: FaultProxy, pair: Pair) -> None:
    proxy.reset()
    assert_reset(pair.client, pair.server)
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_fin(proxy: FaultProxy, pair: Pair) -> None:
    assert passes_up(pair)
    proxy.fin()
    for end in (pair.client, pair.server):
        assert end.recv(1) == b""
        end.sendall(b"too late, but no error yet")
        end.close()
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_refuse_while_the_socket_is_inherited(proxy: FaultProxy) -> None:
    """Which has all sockets, and the listening one with them, for a moment."""
    listening = proxy._engine._listener
    assert listening is not None
    with listening.dup():
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)


def test_refused_port_stays_reserved(proxy: FaultProxy, pair: Pair) -> None:
    """As servers ask for one, which are then given any that looks free."""
    for _ in range(2):
        proxy.refuse()
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                server.bind(("127.0.0.1", proxy.port))
        proxy.heal()
    assert pair.client.fileno() != -1


def test_refuse_and_heal(proxy: FaultProxy, pair: Pair, listener: socket.socket) -> None:
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE)
    assert passes_up(pair), "open connections go on"
    proxy.heal()
    assert proxy.port == port
    with closing(Pair(proxy, listener)) as later:
        assert passes_up(later)


def test_ignore_and_heal(proxy: FaultProxy, pair: Pair, listener: socket.socket) -> None:
    proxy.ignore()
    with closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client:
        client.sendall(UP)
        assert is_silent(client)
        assert passes_up(pair), "open connections go on"
        proxy.heal()
        assert_reset(client)
    assert is_silent(pair.client)
    with closing(Pair(proxy, listener)) as later:
        assert passes_up(later)


def test_stalled_data_arrive_in_order(proxy: FaultProxy, pair: Pair) -> None:
    proxy.stall()
    pair.client.sendall(UP)
    pair.server.sendall(DOWN)
    assert is_silent(pair.server)
    assert is_silent(pair.client)
    pair.client.sendall(b", more")
    proxy.heal()
    assert read(pair.server, len(UP) + 6) == UP + b", more"
    assert read(pair.client, len(DOWN)) == DOWN


def test_stall_of_one_direction(proxy: FaultProxy, pair: Pair) -> None:
    proxy.stall("to_client")
    assert passes_up(pair)
    pair.server.sendall(DOWN)
    assert is_silent(pair.client)


def test_blackhole_hides_a_closed_end(proxy: FaultProxy, pair: Pair) -> None:
    proxy.blackhole()
    pair.client.sendall(UP)
    pair.client.close()
    assert is_silent(pair.server)
    proxy.heal()
    assert_reset(pair.server)


def test_healed_blackhole_has_lost_its_connections(
    proxy: FaultProxy, pair: Pair, listener: socket.socket
) -> None:
    proxy.blackhole()
    pair.client.sendall(UP)
    assert is_silent(pair.server)
    proxy.heal()
    assert_reset(pair.client, pair.server)
    with closing(Pair(proxy, listener)) as later:
        assert passes_up(later)


def test_delay_keeps_the_order(proxy: FaultProxy, pair: Pair) -> None:
    proxy.delay(0.1, jitter=0.1)
    started = time.monotonic()
    chunks = [b"GET%d" % n for n in range(20)]
    for chunk in chunks:
        pair.client.sendall(chunk)
    assert read(pair.server, len(b"".join(chunks))) == b"".join(chunks)
    assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize("size", [0, 1, 5, len(UP)])
def test_cut_after_a_number_of_bytes(proxy: FaultProxy, pair: Pair, size: int) -> None:
    proxy.cut_after(size, "to_server")
    pair.client.sendall(UP)
    assert read(pair.server, size) == UP[:size]
    assert_reset(pair.client, pair.server)


def test_cut_after_with_a_fin(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    proxy.cut_after(5, "to_client", how="fin")
    pair.server.sendall(DOWN)
    assert read(pair.client, 5) == DOWN[:5]
    assert pair.client.recv(1) == b""


def test_cut_after_into_silence(proxy: FaultProxy, pair: Pair, listener: socket.socket) -> None:
    proxy.cut_after(5, "to_client", how="silence")
    assert passes_up(pair)
    pair.server.sendall(DOWN)
    assert read(pair.client, 5) == DOWN[:5]
    assert is_silent(pair.client)
    pair.client.sendall(UP)
    assert is_silent(pair.server)
    with closing(Pair(proxy, listener)) as other:
        assert passes_up(other), "only one connection was cut"
    proxy.heal()
    assert_reset(pair.client)


def test_cut_happens_once_and_counts_all_connections(
    proxy: FaultProxy, pair: Pair, listener: socket.socket
) -> None:
    proxy.cut_after(len(UP) + 1, "to_server")
    assert passes_up(pair)
    with closing(Pair(proxy, listener)) as other:
        other.client.sendall(UP)
        assert read(other.server, 1) == UP[:1]
        assert_reset(other.server)
    assert passes_up(pair)


def test_closing_resets_connections_and_ends_the_thread(
    listener: socket.socket,
) -> None:
    before = threading.active_count()
    with FaultProxy("127.0.0.1", listener.getsockname()[1]) as proxy:
        pair = Pair(proxy, listener)
        proxy.refuse()
    with closing(pair):
        assert_reset(pair.client, pair.server)
    assert threading.active_count() == before


def test_taken_port_leaves_no_thread(listener: socket.socket) -> None:
    before = threading.active_count()
    port = listener.getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        FaultProxy("127.0.0.1", 1, listen_port=port).start()
    assert threading.active_count() == before


def test_error_of_the_proxy_itself_is_raised(
    listener: socket.socket,
) -> None:
    class Broken(RawTap):
        def to_server(self, data: bytes) -> Iterator[Piece]:
            raise ZeroDivisionError

    proxy = FaultProxy("127.0.0.1", listener.getsockname()[1], tap=Broken)
    proxy.start()
    with closing(Pair(proxy, listener)) as pair:
        pair.client.sendall(UP)
        assert_reset(pair.client)
    with pytest.RaisesGroup(ZeroDivisionError):
        proxy.close()


@pytest.mark.parametrize("verb", ["reset", "heal", "refuse", "stall"])
def test_verbs_need_a_running_proxy(verb: str) -> None:
    proxy = FaultProxy("127.0.0.1", 1)
    order: Callable[[], None] = getattr(proxy, verb)
    with pytest.raises(UsageError, match="does not run"):
        order()


async def test_proxy_is_an_asynchronous_context_manager(embedded: str) -> None:
    host, _, port = embedded.rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        with RawClient(proxy.connect_string) as client:
            client.exists("/")
        assert proxy.connections == 1
