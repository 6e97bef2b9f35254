"""TLS on the connections: names, failures, and one task that sends while another receives."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream
from client.login.certificates import NAME, Authority

from aiolead import TLS
from aiolead._client.net.opener import ConnectionEnded, OneAtATime, Opener
from aiolead._client.net.tls import ContextSource
from aiolead.testing.streams import memory_stream_pair

Serve = Callable[[ByteStream], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def opener(serve: Serve, tls: TLS | ssl.SSLContext | None) -> AsyncIterator[Opener]:
    """An opener whose connections `serve` is at the other end of."""
    async with anyio.create_task_group() as tasks:

        async def dial(address: str, port: int) -> ByteStream:
            client, server = memory_stream_pair()
            tasks.start_soon(serve, server)
            return client

        yield Opener(dial, None if tls is None else ContextSource(tls))
        tasks.cancel_scope.cancel()


def echo(context: ssl.SSLContext) -> Serve:
    async def serve(stream: ByteStream) -> None:
        try:
            secure = await TLSStream.wrap(
                stream, server_side=True, ssl_context=context, standard_compatible=False
            )
            while True:
                await secure.send(await secure.receive())
        except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError):
            await stream.aclose()

    return serve


async def test_without_tls_it_is_the_dialled_stream() -> None:
    async def serve(stream: ByteStream) -> None:
        await stream.send(b"hello")

    async with opener(serve, None) as it:
        assert not it.is_encrypted
        assert await (await it.open("zk", "127.0.0.1", 2181)).receive() == b"hello"


@pytest.mark.parametrize("host", [NAME, f"{NAME}.", "127.0.0.1", "localhost"])
async def test_the_name_of_the_connect_string_is_checked(authority: Authority, host: str) -> None:
    context = authority.server_context(authority.issue())
    async with opener(echo(context), TLS(ca=authority.pem)) as it:
        assert it.is_encrypted
        stream = await it.open(host, "10.1.2.3", 2181)
        await stream.send(b"hello")
        assert await stream.receive() == b"hello"
        await stream.aclose()


@pytest.mark.parametrize("host", ["other.example", "10.1.2.3"])
async def test_another_name_is_refused(authority: Authority, host: str) -> None:
    context = authority.server_context(authority.issue())
    async with opener(echo(context), TLS(ca=authority.pem)) as it:
        with pytest.raises(ConnectionEnded, match=f"TLS: .*not valid for '{host}'"):
            await it.open(host, "127.0.0.1", 2181)
    relaxed = TLS(ca=authority.pem, check_hostname=False)
    async with opener(echo(context), relaxed) as it:
        await (await it.open(host, "127.0.0.1", 2181)).aclose()
    named = TLS(ca=authority.pem, server_hostname=NAME)
    async with opener(echo(context), named) as it:
        await (await it.open(host, "127.0.0.1", 2181)).aclose()


async def test_a_common_name_is_no_name_to_check(authority: Authority) -> None:
    pem = authority.issue(common_name=NAME, alternative_names=False)
    context = authority.server_context(pem)
    async with opener(echo(context), TLS(ca=authority.pem)) as it:
        with pytest.raises(ConnectionEnded, match=r"TLS: the server's certificate was refused: "):
            await it.open(NAME, "127.0.0.1", 2181)
    own = ssl.create_default_context(cafile=authority.pem)
    own.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    async with opener(echo(context), own) as it:  # a program may decide otherwise
        await (await it.open(NAME, "127.0.0.1", 2181)).aclose()


async def test_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    context = authority.server_context(authority.issue())
    stranger = Authority(tmp_path)
    async with opener(echo(context), TLS(ca=stranger.pem)) as it:
        with pytest.raises(ConnectionEnded, match=r"TLS: the server's certificate was refused: "):
            await it.open(NAME, "127.0.0.1", 2181)


@pytest.mark.parametrize("answer", [b"", b"imok, or so it seems to me"])
async def test_a_plain_text_port(authority: Authority, answer: bytes) -> None:
    async def serve(stream: ByteStream) -> None:
        await stream.receive()
        if answer:
            await stream.send(answer)
        await stream.aclose()

    async with opener(serve, TLS(ca=authority.pem)) as it:
        with pytest.raises(ConnectionEnded, match=r"TLS: .*: a plain-text port\?$"):
            await it.open(NAME, "127.0.0.1", 2181)


async def test_giving_up_during_the_handshake_closes_the_connection(authority: Authority) -> None:
    ended = anyio.Event()
    asked = anyio.Event()

    async def serve(stream: ByteStream) -> None:
        await stream.receive()
        asked.set()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        ended.set()

    async with opener(serve, TLS(ca=authority.pem)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.open, NAME, "127.0.0.1", 2181)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await ended.wait()


async def test_a_refusal_of_our_certificate_comes_late_and_breaks_the_stream(
    authority: Authority,
) -> None:
    """In TLS 1.3, the client's part of the handshake is over when the server looks at it."""
    context = authority.server_context(authority.issue(), wants_client=True)
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def serve(stream: ByteStream) -> None:
        # By hand, since anyio keeps to itself what a failed handshake would tell the other side.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                server.do_handshake()
            except ssl.SSLWantReadError:
                await stream.send(outgoing.read())
                incoming.write(await stream.receive())
            except ssl.SSLError:
                await stream.send(outgoing.read())
                return

    async with opener(serve, TLS(ca=authority.pem)) as it:
        stream = await it.open(NAME, "127.0.0.1", 2181)
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await stream.receive()
        assert "certificate required" in str(caught.value.__cause__)


async def test_the_receiving_task_may_send_while_the_sending_task_does() -> None:
    """As TLS makes it do when the keys are changed: in order, and neither is refused."""
    near, far = memory_stream_pair(capacity=4)
    stream = OneAtATime(near)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, b"first, long")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(stream.send, b"second")
        await anyio.wait_all_tasks_blocked()
        got = b""
        while len(got) < len(b"first, longsecond"):
            got += await far.receive()
    assert got == b"first, longsecond"


async def test_both_directions_at_once(authority: Authority) -> None:
    """More than any buffer holds, so that sender and receiver have to take turns."""
    context = authority.server_context(authority.issue())
    sent = bytes(range(256)) * 2048
    async with opener(echo(context), TLS(ca=authority.pem)) as it:
        stream = await it.open(NAME, "127.0.0.1", 2181)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, sent)
            got = b""
            while len(got) < len(sent):
                got += await stream.receive()
        assert got == sent
        await stream.aclose()
