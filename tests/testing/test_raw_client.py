"""A client without a session's life of its own, which helps a server along where a test asks."""

from __future__ import annotations

import socket
import threading

import pytest
from kit import raw_client
from kit.raw_client import RawClient

from aiolead._wire.codes import XID_PING
from aiolead._wire.framing import encode_record, encode_reply
from aiolead._wire.handshake import ConnectResponse
from aiolead._wire.replies import ReplyHeader
from aiolead._wire.requests import Exists


def answers_both(listener: socket.socket, ready: list[int]) -> None:
    """A server that answers a request only when another one has come."""
    link, _ = listener.accept()
    with link:
        link.recv(65536)
        link.sendall(encode_record(ConnectResponse(5000, 1, bytes(16))))
        ready.append(len(link.recv(65536)))
        ready.append(len(link.recv(65536)))
        link.sendall(encode_reply(ReplyHeader(1, 7, 0)) + encode_reply(ReplyHeader(XID_PING, 7, 0)))
        link.recv(65536)
        link.sendall(encode_reply(ReplyHeader(2, 8, 0)))
        link.recv(65536)


def test_a_ping_brings_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_client, "PING_AFTER", 0.05)
    came: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answers_both, args=(listener, came))
        server.start()
        client = RawClient(f"127.0.0.1:{listener.getsockname()[1]}", pings=True)
        for zxid in (7, 8):
            client.send(Exists("/"))
            assert client.receive()[0].zxid == zxid
        client.drop()
        server.join()
    assert came[1] == 12  # a ping
