"""Plays half a minute of elections and locks, and takes pictures of the dashboard meanwhile.

    dashboard_picture.py docs/pictures/dashboard.png docs/pictures/dashboard-path.png

Needs Chromium, as the tests of the dashboard do. The contenders, the page and the browser are real.
"""

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE
from contextlib import AbstractAsyncContextManager

from playwright.async_api import async_playwright

import aiolead
from aiolead.testing import EmbeddedServer

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
WIDTH, HEIGHT = 1280, 800
ELECTION, LOCK = "/jobs/nightly", "/locks/invoices"
WITHIN = 30.0
"""How long anything may take, in seconds."""


async def lead(hosts: str, identity: str, seconds: float) -> None:
    """Leads once, for so long, after a wait in the queue."""
    async with (
        aiolead.connect(hosts) as client,
        aiolead.Election(client, ELECTION, identity=identity).leadership(),
    ):
        await asyncio.sleep(seconds)


async def hold(hosts: str, identity: str, seconds: float) -> None:
    """The same, with the lock."""
    async with (
        aiolead.connect(hosts) as client,
        aiolead.Lock(client, LOCK, identity=identity).acquire(),
    ):
        await asyncio.sleep(seconds)


async def play(hosts: str, tasks: asyncio.TaskGroup) -> None:
    """Three terms with a gap, a lock that goes round; a contender still waits at the end."""
    tasks.create_task(lead(hosts, "web-1:4021", 9))
    await asyncio.sleep(1)
    tasks.create_task(lead(hosts, "web-2:3377", 7))
    tasks.create_task(hold(hosts, "billing-1:977", 8))
    await asyncio.sleep(1)
    tasks.create_task(hold(hosts, "billing-2:1130", 100))
    await asyncio.sleep(20)
    tasks.create_task(lead(hosts, "web-3:2950", 100))
    await asyncio.sleep(1)
    tasks.create_task(lead(hosts, "web-1:4188", 100))
    await asyncio.sleep(0.5)
    tasks.create_task(lead(hosts, "web-2:3391", 100))
    await asyncio.sleep(6)


async def play_others(hosts: str, tasks: asyncio.TaskGroup) -> None:
    """More paths: an election without a leader, semaphores, locks."""
    async with aiolead.connect(hosts) as client:
        elections = [
            aiolead.Election(client, f"/jobs/{name}", identity=f"app-{n}:80{n}0")
            for n, name in enumerate(("billing", "cleanup", "mail", "reports"), 1)
        ]
        for election in elections:
            tasks.create_task(forever(election.leadership()))
        for n in (1, 2):
            slots = aiolead.Semaphore(client, "/imports", 2, identity=f"import-{n}:700{n}")
            tasks.create_task(forever(slots.acquire()))
        async with aiolead.Election(client, "/jobs/search", identity="app-9:8090").leadership():
            await asyncio.sleep(12)
        async with aiolead.Lock(client, "/locks/migration", identity="deploy-7:51").acquire():
            await asyncio.sleep(6)
        await asyncio.sleep(1000)


async def forever(holding: AbstractAsyncContextManager[object]) -> None:
    async with holding:
        await asyncio.sleep(1000)


async def take(url: str, file: str, file_of_path: str) -> None:
    """Pictures of the page as it is: all paths, then the election."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"needs one of {', '.join(BROWSERS)}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
        )
        await page.goto(url)
        await page.get_by_text("web-3:2950").first.wait_for()
        await page.locator("#servers li").first.wait_for()
        # The next beat has the page draw everything anew.
        await asyncio.sleep(2)
        await page.screenshot(path=file)
        await page.locator("#rows a").get_by_text(ELECTION).click()
        await page.select_option("#span", "60")
        await page.locator("#track .gap").first.wait_for()
        await page.locator("#track .gap").first.hover()
        await page.screenshot(path=file_of_path)
        await browser.close()


async def main(file: str, file_of_path: str) -> None:
    async with EmbeddedServer() as server:
        hosts = server.connect_string
        command = ("dashboard", "--json", "--listen", "127.0.0.1:0", "--hosts", hosts)
        dashboard = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aiolead", *command, stdout=PIPE
        )
        try:
            assert dashboard.stdout is not None
            first = await asyncio.wait_for(dashboard.stdout.readline(), WITHIN)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(play_others(hosts, tasks))
                await play(hosts, tasks)
                url = json.loads(first)["url"]
                await asyncio.wait_for(take(url, file, file_of_path), WITHIN)
                raise asyncio.CancelledError  # those who lead still
        except asyncio.CancelledError:
            pass
        finally:
            dashboard.terminate()
            await dashboard.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
