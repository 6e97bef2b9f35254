"""What servers say of the ensemble, to a client that follows it (`observe_config=True`)."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from client.client_fake import STAT, FakeServer, usual
from kit.clients import eventually

from aiolead._wire.codes import OpCode
from aiolead._wire.config_text import MAX_SERVERS
from aiolead._wire.framing import encode_reply
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead._wire.requests import RequestHeader
from aiolead.errors import RemoteWireError
from aiolead.model import SessionState

SESSION = 1.0
MEGABYTE = 1 << 20


def member(number: object, host: str, port: object = 2181) -> str:
    return f"server.{number}={host}:2888:3888:participant;{host}:{port}"


REFUSED: dict[str, bytes] = {
    "forty thousand servers": "\n".join(member(n, "h") for n in range(40_000)).encode(),
    "a number of 5,000 digits": member("1" * 5_000, "zk1").encode(),
    "a port of 5,000 digits": member(1, "zk1", "1" * 5_000).encode(),
    "a name of a megabyte": member(1, "x" * 300_000).encode(),
    "a name with null in it": member(1, "zk\0one").encode(),
    "a name with controls": member(1, "zk\x1b[2Jone").encode(),
    "an address with null in it": member(1, "[::1\0]").encode(),
    "a zone with null in it": member(1, "[fe80::1%\0]").encode(),
    "no UTF-8": b"server.1=\xff\xfe:1:2;3",
    "semicolons": b"server.1=" + b";" * MEGABYTE,
    "spaces": b"server.1" + b" " * MEGABYTE + b"\nserver.2=",
}
TAKEN: dict[str, bytes] = {
    # Such names are resolved to nothing, without asking anybody.
    "a name with a long label": member(1, "x" * 64 + ".example").encode(),
    "a name of dots": member(1, "...").encode(),
    "a name of letters that are none": member(1, "\ufffd\u0378").encode(),
    "one server, a thousand times": "\n".join([member(1, "127.0.0.1")] * 999).encode(),
    "addresses": b"server.1=" + b"|".join([b"127.0.0.1:1:2"] * 50_000) + b";2181",
    "line separators": "\u2028".join(member(n, "127.0.0.1") for n in range(3)).encode(),
    "a version of a megabyte": b"version=" + b"f" * MEGABYTE,
    "zeros": bytes(MEGABYTE),
}


@pytest.mark.exhaustive("every answer is tried on one of several kinds of requests", one_in=4)
@pytest.mark.parametrize("name", [*REFUSED, *TAKEN])
async def test_any_configuration_of_the_ensemble(name: str) -> None:
    """The client goes on: with servers of it, or with those that it has."""
    config = {**REFUSED, **TAKEN}[name]

    def say(header: RequestHeader) -> bytes | None:
        if header.op == OpCode.GET_DATA:
            return encode_reply(ReplyHeader(header.xid, 1, 0), DataReply(config, STAT))
        return usual(header)

    options: dict[str, Any] = {"observe_config": True, "session_timeout": SESSION}
    async with FakeServer(say) as fake, fake.connect(**options) as client:
        await eventually(lambda: any(r.op == OpCode.GET_DATA for r in fake.requests), "followed")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        if name in REFUSED:
            with pytest.raises(RemoteWireError, match="no configuration of an ensemble") as caught:
                await client.get_config()
            assert len(str(caught.value)) < 500
        fake.streams[-1].close()
        if name in REFUSED:
            await eventually(lambda: client.state is SessionState.CONNECTED, "connected again")
        else:
            await anyio.sleep(SESSION / 4)
        assert not client.state.is_final
        # By hand it is brought back, whatever was taken.
        client.update_hosts("127.0.0.1:1")
        await eventually(lambda: client.state is SessionState.CONNECTED, "connected in the end")


async def test_as_many_servers_as_there_may_be_are_taken() -> None:
    members = [member(n, f"10.0.{n // 256}.{n % 256}") for n in range(MAX_SERVERS)]
    config = "\n".join(members).encode()

    def say(header: RequestHeader) -> bytes | None:
        if header.op == OpCode.GET_DATA:
            return encode_reply(ReplyHeader(header.xid, 1, 0), DataReply(config, STAT))
        return usual(header)

    async with FakeServer(say) as fake, fake.connect() as client:
        assert len((await client.get_config()).servers) == MAX_SERVERS
