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


# What is not ZooKeeper's protocol passes as it came; a leading "GET " is far too long a frame.
UP, DOWN = b"GET up", b"GET down"


def test_bytes_pass_both_ways_and_are_counted(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP
    pair.server.sendall(DOWN)
    assert read(pair.client, len(DOWN)) == DOWN
    assert proxy.connections == proxy.open_connections == 1
    # What has arrived is counted a moment later.
    counts = {"to_server": len(UP), "to_client": len(DOWN)}
    assert wait_until(lambda: proxy.bytes == counts, PATIENCE)


def test_much_data_passes_unharmed_while_the_reader_is_slow(pair: Pair) -> None:
    data = b"GET " + bytes(range(256)) * 40_000
    sender = threading.Thread(target=pair.client.sendall, args=(data,))
    sender.start()
    time.sleep(0.05)
    assert read(pair.server, len(data)) == data
    sender.join()


def test_a_half_closed_connection_stays_open_the_other_way(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    pair.client.shutdown(socket.SHUT_WR)
    assert read(pair.server, len(UP)) == UP
    assert pair.server.recv(1) == b""
    pair.server.sendall(DOWN)
    assert read(pair.client, len(DOWN)) == DOWN
    pair.server.close()
    assert pair.client.recv(1) == b""
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_a_reset_by_one_end_reaches_the_other(pair: Pair) -> None:
    pair.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    pair.client.close()
    with pytest.raises(ConnectionResetError):
        pair.server.recv(1)


def test_without_a_server_the_client_is_reset(listener: socket.socket, proxy: FaultProxy) -> None:
    listener.close()
    # While it connects, or right after.
    with (
        pytest.raises(ConnectionResetError),
        closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client,
    ):
        client.recv(1)


def test_with_patience_the_client_waits_for_the_server(listener: socket.socket) -> None:
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
    for end in (pair.client, pair.server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_fin(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP
    proxy.fin()
    for end in (pair.client, pair.server):
        assert end.recv(1) == b""
        end.sendall(b"too late, but no error yet")
        end.close()
    assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)


def test_refuse_while_a_process_is_started(proxy: FaultProxy) -> None:
    """Which has all sockets, and the listening one with them, for a moment."""
    listening = proxy._engine._listener
    assert listening is not None
    with listening.dup():
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)


def test_nobody_else_gets_a_port_that_is_refused(proxy: FaultProxy, pair: Pair) -> None:
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
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP, "what was open goes on"
    proxy.heal()
    assert proxy.port == port
    with closing(Pair(proxy, listener)) as later:
        later.client.sendall(UP)
        assert read(later.server, len(UP)) == UP


def test_ignore_and_heal(proxy: FaultProxy, pair: Pair, listener: socket.socket) -> None:
    proxy.ignore()
    with closing(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) as client:
        client.sendall(UP)
        assert is_silent(client)
        pair.client.sendall(UP)
        assert read(pair.server, len(UP)) == UP, "what was open goes on"
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert is_silent(pair.client)
    with closing(Pair(proxy, listener)) as later:
        later.client.sendall(UP)
        assert read(later.server, len(UP)) == UP


def test_what_was_stalled_arrives_late_and_in_order(proxy: FaultProxy, pair: Pair) -> None:
    proxy.stall()
    pair.client.sendall(UP)
    pair.server.sendall(DOWN)
    assert is_silent(pair.server)
    assert is_silent(pair.client)
    pair.client.sendall(b", more")
    proxy.heal()
    assert read(pair.server, len(UP) + 6) == UP + b", more"
    assert read(pair.client, len(DOWN)) == DOWN


def test_one_direction_may_be_stalled_alone(proxy: FaultProxy, pair: Pair) -> None:
    proxy.stall("to_client")
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP
    pair.server.sendall(DOWN)
    assert is_silent(pair.client)


def test_a_black_hole_hides_also_that_an_end_is_gone(proxy: FaultProxy, pair: Pair) -> None:
    proxy.blackhole()
    pair.client.sendall(UP)
    pair.client.close()
    assert is_silent(pair.server)
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        pair.server.recv(1)


def test_a_healed_black_hole_has_lost_its_connections(
    proxy: FaultProxy, pair: Pair, listener: socket.socket
) -> None:
    proxy.blackhole()
    pair.client.sendall(UP)
    assert is_silent(pair.server)
    proxy.heal()
    for end in (pair.client, pair.server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    with closing(Pair(proxy, listener)) as later:
        later.client.sendall(UP)
        assert read(later.server, len(UP)) == UP


def test_a_delay_delays_and_keeps_order(proxy: FaultProxy, pair: Pair) -> None:
    proxy.delay(0.1, jitter=0.1)
    started = time.monotonic()
    chunks = [b"GET%d" % n for n in range(20)]
    for chunk in chunks:
        pair.client.sendall(chunk)
    assert read(pair.server, len(b"".join(chunks))) == b"".join(chunks)
    assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize("size", [0, 1, 5, len(UP)])
def test_cut_after_so_many_bytes(proxy: FaultProxy, pair: Pair, size: int) -> None:
    proxy.cut_after(size, "to_server")
    pair.client.sendall(UP)
    assert read(pair.server, size) == UP[:size]
    for end in (pair.client, pair.server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)


def test_cut_after_with_a_fin(proxy: FaultProxy, pair: Pair) -> None:
    pair.client.sendall(UP)
    proxy.cut_after(5, "to_client", how="fin")
    pair.server.sendall(DOWN)
    assert read(pair.client, 5) == DOWN[:5]
    assert pair.client.recv(1) == b""


def test_cut_after_into_silence(proxy: FaultProxy, pair: Pair, listener: socket.socket) -> None:
    proxy.cut_after(5, "to_client", how="silence")
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP
    pair.server.sendall(DOWN)
    assert read(pair.client, 5) == DOWN[:5]
    assert is_silent(pair.client)
    pair.client.sendall(UP)
    assert is_silent(pair.server)
    with closing(Pair(proxy, listener)) as other:
        other.client.sendall(UP)
        assert read(other.server, len(UP)) == UP, "only one connection was cut"
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        pair.client.recv(1)


def test_a_cut_happens_once_and_counts_all_connections(
    proxy: FaultProxy, pair: Pair, listener: socket.socket
) -> None:
    proxy.cut_after(len(UP) + 1, "to_server")
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP
    with closing(Pair(proxy, listener)) as other:
        other.client.sendall(UP)
        assert read(other.server, 1) == UP[:1]
        with pytest.raises(ConnectionResetError):
            other.server.recv(1)
    pair.client.sendall(UP)
    assert read(pair.server, len(UP)) == UP


def test_closing_resets_everything_and_ends_the_thread(
    listener: socket.socket,
) -> None:
    before = threading.active_count()
    with FaultProxy("127.0.0.1", listener.getsockname()[1]) as proxy:
        pair = Pair(proxy, listener)
        proxy.refuse()
    with closing(pair):
        for end in (pair.client, pair.server):
            with pytest.raises(ConnectionResetError):
                end.recv(1)
    assert threading.active_count() == before


def test_a_port_that_is_taken_leaves_no_thread(listener: socket.socket) -> None:
    before = threading.active_count()
    port = listener.getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        FaultProxy("127.0.0.1", 1, listen_port=port).start()
    assert threading.active_count() == before


def test_a_defect_of_the_proxy_itself_does_not_pass_unseen(
    listener: socket.socket,
) -> None:
    class Broken(RawTap):
        def to_server(self, data: bytes) -> Iterator[Piece]:
            raise ZeroDivisionError

    proxy = FaultProxy("127.0.0.1", listener.getsockname()[1], tap=Broken)
    proxy.start()
    with closing(Pair(proxy, listener)) as pair:
        pair.client.sendall(UP)
        with pytest.raises(ConnectionResetError):
            pair.client.recv(1)
    with pytest.RaisesGroup(ZeroDivisionError):
        proxy.close()


@pytest.mark.parametrize("verb", ["reset", "heal", "refuse", "stall"])
def test_verbs_need_a_running_proxy(verb: str) -> None:
    proxy = FaultProxy("127.0.0.1", 1)
    order: Callable[[], None] = getattr(proxy, verb)
    with pytest.raises(UsageError, match="does not run"):
        order()


async def test_it_is_an_asynchronous_context_manager_too(embedded: str) -> None:
    host, _, port = embedded.rpartition(":")
    async with FaultProxy(host, int(port)) as proxy:
        with RawClient(proxy.connect_string) as client:
            client.exists("/")
        assert proxy.connections == 1
