"""The herd: electing by watching the parent, and by watching the predecessor. See README.md.

`aiolead demo herd` measures the same on the embedded server: `aiolead.cli.herd`.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio
from anyio.abc import ByteStream

import aiolead
from aiolead.cli.herd import WAYS, Result, measure, on_embedded
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


def plot(results: Sequence[Result], file: Path) -> None:
    """Draw a picture; raises `ImportError` without matplotlib."""
    from matplotlib import rc_context  # pyright: ignore[reportMissingImports]
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for way in WAYS:
        mine = [result for result in results if result.way == way]
        sizes = [result.contenders for result in mine]
        label = f"watching the {way}"
        left.plot(sizes, [each.traffic.events for each in mine], marker="o", label=label)
        right.plot(sizes, [each.traffic.bytes_out for each in mine], marker="o", label=label)
    for axes, title in ((left, "notifications"), (right, "bytes from the server")):
        axes.set(xscale="log", yscale="log", title=f"{title} per hand-over", xlabel="contenders")
        axes.grid(visible=True, alpha=0.3)
    left.legend()
    # Texts as texts make it small, and the rest is the same each time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "herd"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


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
