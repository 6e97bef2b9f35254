"""The dashboard with 500 paths and 5,000 contenders: bytes of each update, frames in Chromium.

    python -m benchmarks.dashboard [SECONDS]

Ten hand-overs a second, for so many seconds (10). Needs Chromium and playwright.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

import anyio
from playwright.sync_api import sync_playwright

import aiolead
from aiolead.testing import EmbeddedServer

PATHS, CONTENDERS, A_SECOND = 500, 10, 10
MODE = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
FRAMES = """() => { window.frames_ = []; window.long_ = []; let last = performance.now();
  const next = (at) => { window.frames_.push(at - last); last = at; requestAnimationFrame(next); };
  requestAnimationFrame(next);
  new PerformanceObserver((list) => window.long_.push(...list.getEntries().map((e) => e.duration)))
    .observe({ type: "longtask" }); }"""


async def play(hosts: str, ready: threading.Event, end: threading.Event) -> None:
    """Fill the paths; then the holders of some leave, and join again."""
    async with aiolead.connect(hosts, session_timeout=40) as client:
        await client.create("/many")
        queues: list[list[str]] = []
        for n in range(PATHS):
            await client.create(f"/many/{n:03}")
            some = [
                client.create(f"/many/{n:03}/_c_x-latch-", b"host-%d:%d" % (who, n), mode=MODE)
                for who in range(CONTENDERS)
            ]
            queues.append([(await each).path for each in some])
        ready.set()
        turn = 0
        while not end.is_set():
            queue = queues[turn * 37 % PATHS]
            turn += 1
            await client.delete(queue.pop(0))
            path = queue[0].rpartition("/")[0]
            queue.append((await client.create(f"{path}/_c_x-latch-", b"again", mode=MODE)).path)
            await anyio.sleep(1 / A_SECOND)


def sizes_of_events(port: int, end: threading.Event, sizes: list[tuple[str, int]]) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/events")
    response = connection.getresponse()
    name = ""
    while not end.is_set():
        line = response.readline().decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            sizes.append((name, len(line)))
    connection.close()


def main(seconds: float) -> None:
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    ready, end, sizes = threading.Event(), threading.Event(), list[tuple[str, int]]()
    with EmbeddedServer.in_thread() as server:
        hosts = server.connect_string
        player = threading.Thread(target=anyio.run, args=(play, hosts, ready, end))
        player.start()
        ready.wait(120)
        command = [sys.executable, "-m", "aiolead", "dashboard", "--json"]
        command += ["--listen", "127.0.0.1:0", "--hosts", hosts]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as dashboard,
            sync_playwright() as playwright,
        ):
            assert dashboard.stdout is not None
            url = json.loads(dashboard.stdout.readline())["url"]
            port = urlsplit(url).port or 0
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1920, "height": 1080})
            page.goto(url)
            page.get_by_text(f"{PATHS} paths", exact=True).wait_for(timeout=60_000)
            args = (port, end, sizes)
            listener = threading.Thread(target=sizes_of_events, args=args)
            listener.start()
            page.evaluate(FRAMES)
            began = time.monotonic()
            page.wait_for_timeout(seconds * 1000)
            lasted = time.monotonic() - began
            frames, longest = page.evaluate("[window.frames_, window.long_]")
            elements = page.evaluate("document.querySelectorAll('*').length")
            end.set()
            player.join()
            listener.join()
            browser.close()
            dashboard.terminate()
    changes = [size for name, size in sizes if name == "change"]
    print(f"snapshot: {max(size for name, size in sizes if name == 'snapshot'):,} bytes")
    print(
        f"changes: {len(changes)}, median {statistics.median(changes):,.0f} bytes, "
        f"greatest {max(changes):,} bytes, {sum(changes) / lasted:,.0f} bytes a second"
    )
    slow = sum(each > 50 for each in frames)
    print(
        f"frames: {len(frames) / lasted:.0f} a second, median {statistics.median(frames):.1f} ms, "
        f"{slow} of {len(frames)} longer than 50 ms; long tasks: {len(longest)}, "
        f"the longest {max(longest, default=0):.0f} ms; {elements} elements"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 10)
