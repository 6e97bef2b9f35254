"""Plays a minute of an election and a lock, and takes a picture of the dashboard meanwhile.

    dashboard_picture.py docs/pictures/dashboard.png

Needs Chromium, as the tests of the dashboard do. The contenders, the page and the browser are real.
"""

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE

from playwright.async_api import async_playwright

import aiolead
from aiolead.testing import EmbeddedServer

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
WIDTH, HEIGHT = 760, 690
ELECTION, LOCK = "/jobs/nightly", "/locks/invoices"
WITHIN = 30.0
"""How long anything may take, in seconds."""


async def lead(hosts: str, identity: str, seconds: float) -> None:
    """Leads once, for so long, and waits in line before."""
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
    """Three terms with a gap, a lock that goes round; somebody is in line at the end."""
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


async def take(url: str, file: str) -> None:
    """A picture of the page as it is."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"needs one of {', '.join(BROWSERS)}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
        )
        await page.goto(url)
        await page.select_option("#span", "60")
        await page.get_by_text("web-3:2950").first.wait_for()
        # The next beat has the page draw the timeline anew.
        await asyncio.sleep(2)
        await page.screenshot(path=file)
        await browser.close()


async def main(file: str) -> None:
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
                players = tasks.create_task(play(hosts, tasks))
                await players
                await asyncio.wait_for(take(json.loads(first)["url"], file), WITHIN)
                raise asyncio.CancelledError  # those who lead still
        except asyncio.CancelledError:
            pass
        finally:
            dashboard.terminate()
            await dashboard.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
