"""`aiolead server`."""

from __future__ import annotations

import signal
import socket

import pytest
from kazoo.client import KazooClient
from support.cli import Command

from aiolead.cli import main


def test_another_client_can_use_it() -> None:
    with Command("server", "--port", "0", fresh=True) as server:
        hosts = server.out.expect(r"^127\.0\.0\.1:\d+$")[0]
        server.err.expect("for development: everything is in memory")
        client = KazooClient(hosts)
        client.start(timeout=30)
        try:
            client.create("/from-kazoo", b"data")
            assert client.get("/from-kazoo")[0] == b"data"
        finally:
            client.stop()
            client.close()
        server.signal(signal.SIGTERM)
        assert server.finish() == 0
        assert server.out.rest() == [hosts]


def test_the_port_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["server", "--port", str(port)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "--port 0 takes a free one" in err


def test_no_such_port(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--port", "65536"]) == 2
    assert "0 to 65535" in capfd.readouterr().err
