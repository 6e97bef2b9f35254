"""The story of `aiolead demo` (an election, a crash, a resignation), and its summary."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import anyio

from .. import Client, Election
from .._escaping import in_seconds
from ..errors import AioleadError, NoNodeError, NotEmptyError
from ..testing import EmbeddedServer
from . import exits
from .demo_processes import DemoFailed, DemoProcess, DemoProcesses, DemoTerm
from .demo_screen import PlainScreen, open_screen
from .first_of import first_of
from .options import Common
from .process_keeper import clock

NAMES = ("anna", "ben", "cleo")
SESSION_TIMEOUT = 3.0
"""In seconds; short, since the user waits for it."""
PATIENCE = 20.0
"""Longest time for a step on a busy machine, in seconds."""
LOOK_EVERY = 0.1
"""Time between two refreshes of the screen, in seconds."""


async def play(common: Common) -> int:
    """Play the story; return the exit code."""
    if common.hosts:
        return await _play_on(common, common.hosts, f"aiolead demo, on {common.hosts}")
    async with EmbeddedServer() as server:
        hosts = server.connect_string
        # The environment's credentials are for other servers.
        own = Common(
            hosts=hosts,
            session_timeout=common.session_timeout,
            backend=common.backend,
            as_json=common.as_json,
            quiet=common.quiet,
            debug=common.debug,
        )
        return await _play_on(own, hosts, f"aiolead demo, on its own ZooKeeper server ({hosts})")


async def _play_on(common: Common, hosts: str, title: str) -> int:
    timeout = common.session_timeout or SESSION_TIMEOUT
    path = f"/aiolead-demo-{uuid.uuid4().hex[:8]}"
    processes = DemoProcesses(NAMES, lambda name: [hosts, path, name, str(timeout), common.backend])
    async with common.connected() as client:
        screen = open_screen(title, processes, as_json=common.as_json)
        story = _Story(screen, processes, client, path)
        try:
            with processes.killed_at_end(), screen:
                await first_of(processes.run, story.keep_looking, story.play)
        except (DemoFailed, AioleadError) as failure:
            common.reporter.error(f"this did not happen as promised: {failure}")
            return exits.FAILED
        screen.sum_up(summary(processes.terms, story.hand_overs, screen.begin))
        broken = broken_promises(processes.terms, story.hand_overs)
        for promise in broken:
            common.reporter.error(f"this did not happen as promised: {promise}")
        screen.sum_up(next_steps(own_name()))
        with suppress(NoNodeError, NotEmptyError):
            await client.delete(path)
    return exits.FAILED if broken else exits.OK


class _Story:
    """The events, in order."""

    def __init__(
        self, screen: PlainScreen, processes: DemoProcesses, client: Client, path: str
    ) -> None:
        self._screen = screen
        self._processes = processes
        self._election = Election(client, path)
        self.hand_overs: list[HandOver] = []

    async def keep_looking(self) -> None:
        """Refresh the screen, until cancelled."""
        while True:
            # A server that does not answer now is asked again; each step has its own limit.
            with suppress(AioleadError):
                queue = await self._election.contenders()
                self._screen.queue = [each.identity for each in queue]
            self._screen.refresh()
            await anyio.sleep(LOOK_EVERY)

    async def play(self) -> None:
        """Play it; raises `DemoFailed` if something did not happen in time."""
        tell = self._screen.tell
        tell("Three processes start. Each wants to lead, and ZooKeeper lets one.")
        await self._all_contend()
        first = await self._leader()
        behind = ", then ".join(self._screen.queue[1:])
        tell(f"{first.name} leads. Behind, as they came: {behind}.")
        await anyio.sleep(1.5)

        timeout = first.session_timeout
        tell(f"Now {first.name} is killed (SIGKILL), as in a crash, without a goodbye.", "red")
        killed = self._processes.kill(first)
        tell(
            "The servers cannot tell a crash from a slow network, in which case\n"
            f"{first.name} would still lead. So they wait until its session is out:\n"
            f"{timeout:g} s after its last sign of life."
        )
        second = await self._leader()
        took_over = _begin(second)
        self.hand_overs.append(HandOver(first.name, second.name, killed, took_over, timeout))
        tell(f"{second.name} leads, {took_over - killed:.2f} s after the crash.", "green")
        await anyio.sleep(1.5)

        tell(f"Now {second.name} is asked to end (SIGTERM): it stops, and then resigns.")
        self._processes.ask_to_end(second)
        third = await self._leader(after=second)
        took_over = _begin(third)
        stopped = second.term.end if second.term else took_over
        self.hand_overs.append(HandOver(second.name, third.name, stopped, took_over, None))
        milliseconds = (took_over - stopped) * 1000
        tell(f"{third.name} leads, {milliseconds:.1f} ms after {second.name} had stopped.", "green")
        await anyio.sleep(1.0)

        tell(f"{third.name} is asked to end, too.")
        self._processes.ask_to_end(third)
        await self._processes.until(
            lambda: third.state == "ended", PATIENCE, f"{third.name} did not end"
        )

    async def _all_contend(self) -> None:
        with anyio.move_on_after(PATIENCE):
            while len(self._screen.queue) < len(NAMES):
                self._processes.check()
                await anyio.sleep(LOOK_EVERY)
            return
        raise DemoFailed(f"not all of {', '.join(NAMES)} contended within {in_seconds(PATIENCE)}")

    async def _leader(self, after: DemoProcess | None = None) -> DemoProcess:
        processes = self._processes
        await processes.until(
            lambda: processes.leader not in (None, after), PATIENCE, "nobody began to lead"
        )
        leader = processes.leader
        assert leader is not None
        return leader


def _begin(member: DemoProcess) -> float:
    return member.term.begin if member.term else clock()


# --- the summary ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandOver:
    """A hand-over from one leader (`left`) to the next (`came`).

    `ended` is when the first had stopped for sure: dead, or by its own report. `timeout` is the
    session timeout that had to pass, in seconds; None for a resignation.
    """

    left: str
    came: str
    ended: float
    began: float
    timeout: float | None

    @property
    def took(self) -> float:
        """Seconds without a leader."""
        return self.began - self.ended


def broken_promises(terms: Sequence[DemoTerm], hand_overs: Sequence[HandOver]) -> list[str]:
    """The promises that were broken; empty if none were."""
    broken = [
        f"{one.name} and {next_one.name} led at once"
        for one, next_one in pairwise(terms)
        if next_one.begin <= one.end
    ]
    broken += [
        f"the token fell, from {one.token} to {next_one.token}"
        for one, next_one in pairwise(terms)
        if next_one.token <= one.token
    ]
    broken += [
        f"{each.came} led before {each.left} had stopped" for each in hand_overs if each.took <= 0
    ]
    return broken


def summary(
    terms: Sequence[DemoTerm], hand_overs: Sequence[HandOver], start: float
) -> list[tuple[str, str]]:
    """Lines and their styles; times are counted from `start`."""
    lines = [("", ""), ("What you just saw", "bold")]
    for number, term in enumerate(terms):
        begin, end = term.begin - start, term.end - start
        how = "was killed" if number == 0 else "resigned"
        line = f"  {term.name:<5} led from {begin:5.2f} s to {end:5.2f} s, token {term.token}, "
        lines.append((line + how, ""))
    if not broken_promises(terms, hand_overs):
        tokens = " < ".join(str(term.token) for term in terms)
        lines += [
            ("  One leader at a time, by the clocks of the processes themselves.", "green"),
            (f"  Tokens rise ({tokens}), so that stores can refuse leaders of the past.", "green"),
        ]
    for each in hand_overs:
        if each.timeout is None:
            text = f"  After a resignation the next one led {each.took * 1000:.1f} ms later."
        else:
            text = (
                f"  After a crash the next one led {each.took:.2f} s later: when the session "
                f"({each.timeout:g} s) was out."
            )
        lines.append((text, "green"))
    return lines


def own_name() -> str:
    """The command as the user can type it here: by its path, if it is not found by its name."""
    own = Path(sys.executable).with_name("aiolead")
    found = shutil.which("aiolead")
    if found is not None and Path(found).exists() and Path(found).samefile(own):
        return "aiolead"
    if not own.exists():
        return f"{sys.executable} -m aiolead"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)


def next_steps(name: str) -> list[tuple[str, str]]:
    """Lines and their styles; `name` is what to type to run the command."""
    steps = (
        (f"{name} server", "a ZooKeeper server to play with"),
        ("export AIOLEAD_HOSTS=127.0.0.1:2181", "where it is, for all that follows"),
        (f"{name} run /demo -- sleep 60", "in two terminals; then stop one of them"),
        (f"{name} observe /demo", "who leads, as it changes"),
        (f"{name} run --help", "for your own program, in any language"),
    )
    width = max(len(typed) for typed, _ in steps) + 3
    return [
        ("", ""),
        ("What to do next", "bold"),
        *((f"  {typed:<{width}}{why}", "") for typed, why in steps),
        ("In Python: async with aiolead.Election(client, path).leadership() as term: ...", ""),
    ]
