"""Data that a client has written as null, as Java's and kazoo's do for None, is not empty data."""

from __future__ import annotations

import pytest
from conftest import ServerUnderTest
from kit.raw_client import RawClient

from aiolead import connect
from aiolead._wire.codes import OpCode
from aiolead._wire.replies import DataReply
from aiolead._wire.requests import Create, GetData, Multi, SetData
from aiolead.model import OPEN_ACL_UNSAFE

OPS = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER)


def create(path: str, data: bytes | None, op: OpCode = OpCode.CREATE2) -> Create:
    return Create(path, data, OPEN_ACL_UNSAFE, 4 if op is OpCode.CREATE_CONTAINER else 0, op=op)


def data_of(client: RawClient, path: str) -> bytes | None:
    return DataReply.read(client.call(GetData(path))).data


def test_null_data_are_read_as_null(server: ServerUnderTest) -> None:
    top = server.chroot
    with RawClient(server.hosts) as client:
        for op in OPS:
            for name, data in (("null", None), ("empty", b"")):
                path = f"{top}/{op.name}-{name}"
                client.call(create(path, data, op))
                assert data_of(client, path) == data, path
        for data in (None, b"", b"x", None):
            client.call(SetData(top, data, -1))
            assert data_of(client, top) == data
        client.call(Multi((create(f"{top}/m", None, OpCode.CREATE), SetData(top, b"", -1))))
        assert (data_of(client, f"{top}/m"), data_of(client, top)) == (None, b"")


def test_failed_transaction_keeps_null_data(server: ServerUnderTest) -> None:
    top = server.chroot
    with RawClient(server.hosts) as client:
        client.call(SetData(top, None, -1))
        client.call(Multi((SetData(top, b"other", -1), SetData(f"{top}/none", b"", -1))))
        assert data_of(client, top) is None


@pytest.mark.parametrize("data", [None, b""])
async def test_client_returns_null_data_as_empty(
    server: ServerUnderTest, data: bytes | None
) -> None:
    with RawClient(server.hosts) as other:
        other.call(create(f"{server.chroot}/a", data))
    async with connect(server.connect_string) as client:
        await client.sync()
        found, stat = await client.get("/a")
        assert (found, stat.data_length) == (b"", 0)
        assert await client.reads().get("/a") == [(b"", stat)]
