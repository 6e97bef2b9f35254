"""`aiolead server`."""

from __future__ import annotations

import anyio

from ..errors import ConfigurationError
from . import exits
from .options import BASICS, Basics
from .output import write_json, write_line
from .signals import Signals, until_signal

__all__ = ["server"]


def server(
    *,
    host: str = "127.0.0.1",
    port: int = 2181,
    basics: Basics = BASICS,
) -> int:
    """Run a ZooKeeper server for development, until SIGINT or SIGTERM.

    It speaks ZooKeeper's protocol to every client, and keeps everything in memory: when it ends,
    all is gone. It has no copies and no protection; never use it in production.

    The first line on standard output is the connect string (with --json, in an object as "hosts").

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        basics: How to run.
    """
    from ..testing import EmbeddedServer  # nothing for the other commands

    if not 0 <= port <= 65535:
        raise ConfigurationError(f"--port: must be 0 to 65535, not {port}")
    reporter = basics.reporter

    async def serve() -> None:
        async with EmbeddedServer(host=host, port=port) as embedded:
            if basics.as_json:
                write_json({"hosts": embedded.connect_string})
            else:
                write_line(embedded.connect_string)
            reporter.state("a server for development: everything is in memory, and gone at its end")
            await anyio.sleep_forever()

    async def work() -> None:
        await until_signal(signals, serve)

    try:
        with Signals() as signals:
            basics.run(work)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        hint = "" if port == 0 else " (--port 0 takes a free one)"
        reporter.error(f"cannot listen on {host}, port {port}: {error.strerror or error}{hint}")
        return exits.FAILED
    return exits.OK
