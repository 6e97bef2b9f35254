"""Asks a server a four-letter word, on a separate connection."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream


async def ask(stream: ByteStream, word: bytes, most: int, *, end: bytes | None = None) -> bytes:
    """Sends a word such as `isro`, returns the answer, and closes the stream, also when cancelled.

    It reads until there are `most` bytes, or `end`, or the server has closed the connection.
    """
    answer = bytearray()
    try:
        await stream.send(word)
        while len(answer) < most and not (end and end in answer):
            answer += await stream.receive(most)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # some servers reset the connection after their answer
    finally:
        await anyio.aclose_forcefully(stream)
    return bytes(answer)
