"""The lines of the log in situations that are neither an outage nor a wait."""

from __future__ import annotations

import re
from typing import Any

import anyio
from kit.virtual_time import SESSION, Link, embedded, passes, virtually, with_virtual_server
from logs.log_lines import Lines

import aiolead
from aiolead import Client, Config, Lock
from aiolead.testing import EmbeddedServer, OpCode


def number(keys: Any) -> int:
    return int(keys["n"])


@with_virtual_server
async def test_invalid_configuration_is_a_warning_without_its_data(
    client: Client, lines: Lines
) -> None:
    raw, config = Config(client, "/config"), Config(client, "/config", parse=number)
    await raw.publish({"n": b"1"})
    async with config.observe() as view:
        await raw.publish({"n": b"a-secret"})
        await passes(1.0)
        await raw.publish({"n": b"another-secret"})
        await passes(1.0)
        assert view.value == 1
    line = (
        "W /config: what was published last is invalid (ValueError), and the value before stays in "
        "use; on_invalid= gets the error"
    )
    assert [each for each in lines.all if "connected" not in each] == [line, line]


@virtually
async def test_lost_quorum_looks_like_servers_that_hang_up(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client, Lock(client, "/l"):
        await passes(0.1)
        lines.new()
        server.set_read_only(True, grants_sessions=False)
        await passes(SESSION / 4)
        server.set_read_only(False)
        await passes(SESSION / 4)
        said = lines.new()
    hung_up = "the server closed the connection"
    may_be = "it has no quorum, or too many connections, or a port for TLS?"
    assert said == [
        f"W connection to zk:N lost ({hung_up}); the lease of 1 hold ends in N s",
        f"W no server, trying: zk:N: {hung_up} at the handshake: {may_be}",
        "W connected to zk:N again after N s: session 0xN kept",
    ]


@with_virtual_server
async def test_late_renewals_are_one_line_in_a_minute(client: Client, lines: Lines) -> None:
    for _ in range(5):
        client._core.lease_renewed(SESSION / 2, 1.0)
        await passes(10.0)
    await passes(20.0)
    client._core.lease_renewed(SESSION / 2, 1.0)
    late = [each for each in lines.all if "renewed late" in each]
    assert len(late) == 2
    assert late[1].endswith(" (and 4 times before)")


@with_virtual_server
async def test_overloaded_server_is_one_line_in_a_minute(
    server: EmbeddedServer, client: Client, lines: Lines
) -> None:
    for op in (OpCode.CREATE, OpCode.CREATE2, OpCode.MULTI):
        server.throttle(op, 1000)
    with anyio.move_on_after(70.0):
        async with Lock(client, "/l"):
            raise AssertionError
    said = [each for each in lines.all if each.startswith("W")]
    line = (
        "W the server is overloaded and dropped the request: /l/0N-1-lock-; it is sent again every "
        "N s"
    )
    assert said[0] == line
    assert re.fullmatch(rf"{line} \(and \d\d+ times before\)", said[1])
    assert len(said) == 2


async def test_healthy_program_prints_nothing_by_default(lines: Lines) -> None:
    async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
        async with Lock(client, "/l"):
            await anyio.sleep(0.1)
    assert not [each for each in lines.all if each.startswith("W")]
