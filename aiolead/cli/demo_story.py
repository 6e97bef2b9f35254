"""The story of `aiolead demo`: an election, a crash, a resignation."""

from __future__ import annotations

import uuid
from contextlib import suppress

import anyio

from .. import Client, Election
from ..errors import AioleadError, NoNodeError, NotEmptyError
from ..testing import EmbeddedServer
from . import exits
from .demo_screen import DemoScreen, Screen, open_screen
from .demo_summary import NEXT_STEPS, HandOver, broken_promises, summary
from .demo_troupe import DemoFailed, DemoProcess, Troupe
from .options import Common
from .process_keeper import clock

__all__ = ["play"]

NAMES = ("anna", "ben", "cleo")
SESSION_TIMEOUT = 3.0
"""In seconds; short, since somebody waits for it."""
PATIENCE = 20.0
"""How long a step may take on a machine that has other things to do, in seconds."""
LOOK_EVERY = 0.1
"""How often the screen is brought up to date, in seconds."""


async def play(common: Common) -> int:
    """Plays it; returns the exit code."""
    if common.hosts:
        return await _play_on(common, common.hosts, f"aiolead demo, on {common.hosts}")
    async with EmbeddedServer() as server:
        hosts = server.connect_string
        return await _play_on(common, hosts, f"aiolead demo, on its own ZooKeeper server ({hosts})")


async def _play_on(common: Common, hosts: str, title: str) -> int:
    timeout = common.session_timeout or SESSION_TIMEOUT
    path = f"/aiolead-demo-{uuid.uuid4().hex[:8]}"

    def arguments(name: str) -> list[str]:
        return [hosts, path, name, str(timeout), common.backend]

    async with common.connect(hosts) as client:
        with Troupe(NAMES, arguments) as troupe:
            scene = DemoScreen(title, troupe)
            with open_screen(scene, as_json=common.as_json) as screen:
                story = _Story(scene, screen, client, path)
                failure = await story.tell()
        if failure is not None:
            common.reporter.error(f"this did not happen as promised: {failure}")
            return exits.FAILED
        screen.sum_up(summary(troupe.reigns, story.hand_overs, scene.begin))
        broken = broken_promises(troupe.reigns, story.hand_overs)
        for promise in broken:
            common.reporter.error(f"this did not happen as promised: {promise}")
        screen.sum_up(NEXT_STEPS)
        with suppress(NoNodeError, NotEmptyError):
            await client.delete(path)
    return exits.FAILED if broken else exits.OK


class _Story:
    """What happens, in order."""

    def __init__(self, scene: DemoScreen, screen: Screen, client: Client, path: str) -> None:
        self._scene = scene
        self._troupe = scene.troupe
        self._screen = screen
        self._client = client
        self._election = Election(client, path)
        self.hand_overs: list[HandOver] = []

    async def tell(self) -> Exception | None:
        """Tells it; returns what went wrong, if something did."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._troupe.start(tasks)
            tasks.start_soon(self._keep_looking)
            try:
                await self._tell()
            except (DemoFailed, AioleadError) as error:
                failure = error
            tasks.cancel_scope.cancel()
        return failure

    async def _keep_looking(self) -> None:
        while True:
            # A server that does not answer now is asked again; the story itself has its limits.
            with suppress(AioleadError):
                line = await self._election.contenders()
                self._scene.line = [each.identity for each in line]
            self._screen.refresh()
            await anyio.sleep(LOOK_EVERY)

    async def _tell(self) -> None:
        say = self._screen.tell
        say("Three processes start. Each wants to lead, and ZooKeeper lets one.")
        await self._everybody_in_line()
        first = await self._leader()
        say(f"{first.name} leads. Behind, as they came: {self._behind()}.")
        await anyio.sleep(1.5)

        timeout = first.session_timeout
        say(f"Now {first.name} is killed (SIGKILL), as in a crash, without a goodbye.", "red")
        killed = self._troupe.kill(first)
        say(
            "The servers cannot tell a crash from a slow network, in which case\n"
            f"{first.name} would still lead. So they wait until its session is out:\n"
            f"{timeout:g} s after its last sign of life."
        )
        second = await self._leader()
        took_over = self._begin(second)
        self.hand_overs.append(HandOver(first.name, second.name, killed, took_over, timeout))
        say(f"{second.name} leads, {took_over - killed:.2f} s after the crash.", "green")
        await anyio.sleep(1.5)

        say(f"Now {second.name} is asked to end (SIGTERM): it stops, and then resigns.")
        self._troupe.ask_to_end(second)
        third = await self._leader(after=second)
        took_over = self._begin(third)
        stopped = second.reign.end if second.reign else took_over
        self.hand_overs.append(HandOver(second.name, third.name, stopped, took_over, None))
        milliseconds = (took_over - stopped) * 1000
        say(f"{third.name} leads, {milliseconds:.1f} ms after {second.name} had stopped.", "green")
        await anyio.sleep(1.0)

        say(f"{third.name} is asked to end, too.")
        self._troupe.ask_to_end(third)
        await self._troupe.until(
            lambda: third.state == "ended", PATIENCE, f"{third.name} did not end"
        )

    async def _everybody_in_line(self) -> None:
        with anyio.move_on_after(PATIENCE):
            while len(self._scene.line) < len(NAMES):
                self._troupe.check()
                await anyio.sleep(LOOK_EVERY)
            return
        raise DemoFailed(f"not all of {', '.join(NAMES)} got in line within {PATIENCE:g} seconds")

    async def _leader(self, after: DemoProcess | None = None) -> DemoProcess:
        troupe = self._troupe
        await troupe.until(
            lambda: troupe.leader not in (None, after), PATIENCE, "nobody began to lead"
        )
        leader = troupe.leader
        assert leader is not None
        return leader

    def _behind(self) -> str:
        return ", then ".join(self._scene.line[1:])

    def _begin(self, member: DemoProcess) -> float:
        return member.reign.begin if member.reign else clock()
