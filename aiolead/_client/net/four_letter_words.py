"""Asking a server a four-letter word, on a connection of its own."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream


async def ask(stream: ByteStream, word: bytes, most: int, *, end: bytes | None = None) -> bytes:
    """The answer to a word; closes the stream.

    Args:
        stream: to the server.
        word: such as `isro`.
        most: how many bytes of the answer are enough.
        end: ends the answer; by default the server does, by closing the connection.

    Cancellation: closes the stream.
    """
    answer = bytearray()
    try:
        await stream.send(word)
        while len(answer) < most and not (end and end in answer):
            answer += await stream.receive(most)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # some reset the connection after their answer
    finally:
        await anyio.aclose_forcefully(stream)
    return bytes(answer)
