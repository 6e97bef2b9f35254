"""The herd: electing by watching the parent, and by watching the predecessor. See README.md.

`aiolead demo herd` measures the same on the embedded server: `aiolead.cli.herd_measurement`.
"""

from __future__ import annotations

import argparse
import platform
from contextlib import ExitStack
from pathlib import Path

import anyio
from anyio.abc import ByteStream

import aiolead
from aiolead.cli.herd_measurement import WAYS, Result, measure, on_embedded, plot
from aiolead.testing import BlockingServer

SIZES = (2, 3, 5, 10, 30, 100, 300, 1000)


async def on_real(way: str, contenders: int, hosts: str) -> Result:
    async with aiolead.connect(hosts) as client:
        await aiolead.admin.delete_all(client, "/herd")

    async def dial(host: str, port: int) -> ByteStream:
        return await anyio.connect_tcp(host, port)

    return await measure(way, contenders, hosts, dial)


# --- what is said of it --------------------------------------------------------------------------

_HEAD = (
    "| contenders | watching | notifications | requests | bytes to the server | bytes from it "
    "| next leader after |\n|---|---|---|---|---|---|---|"
)


def line(result: Result) -> str:
    traffic = result.traffic
    return (
        f"| {result.contenders} | the {result.way} | {traffic.events:,} | {traffic.requests:,} "
        f"| {traffic.bytes_in:,} | {traffic.bytes_out:,} | {result.seconds * 1000:.1f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many contend")
    parser.add_argument("--real", action="store_true", help="on a real ZooKeeper")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draws a picture, too")
    options = parser.parse_args()
    results: list[Result] = []
    print(_HEAD)
    with ExitStack() as stack:
        hosts = ""
        if options.real:
            server = BlockingServer(tick_time=2.0, extra={"maxClientCnxns": 0})
            hosts = stack.enter_context(server).connect_string
        for contenders in options.sizes:
            for way in WAYS:
                if options.real:
                    result = anyio.run(on_real, way, contenders, hosts)
                else:
                    result = anyio.run(on_embedded, way, contenders)
                results.append(result)
                print(line(result), flush=True)
    kind = "a real ZooKeeper" if options.real else "the embedded server"
    print(f"\n{kind}, {platform.platform()}, Python {platform.python_version()}")
    if options.plot:
        try:
            plot(results, options.plot)
            print(f"({options.plot})")
        except ImportError:
            print("(No picture: matplotlib is not there; pip install --group soak)")


if __name__ == "__main__":
    main()
