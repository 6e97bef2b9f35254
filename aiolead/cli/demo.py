"""`aiolead demo`: an election of four processes, two crashes, a resignation, and a summary."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

import anyio
from cyclopts import App
from cyclopts import Group as Options
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .. import Client, Election
from ..errors import AioleadError, NoNodeError, NotEmptyError
from . import exits, render
from .demo_processes import PATIENCE, DemoFailed, DemoProcess, DemoProcesses, DemoTerm
from .options import Basics, Common, DemoOptions
from .output import is_fancy, write_json, write_line
from .process_keeper import clock
from .signals import first_of

NAMES = ("anna", "ben", "cleo", "dan")
UNGUARDED = "ben"
"""The second process to lead has no session guardian, for contrast."""
SESSION_TIMEOUT = 3.0
"""In seconds; short, since the user waits for it."""
LOOK_EVERY = 0.1
"""Time between two refreshes of the screen, in seconds."""


LOCAL = DemoOptions()


def demo(*, common: DemoOptions = LOCAL) -> int:
    """Show a failover; demo herd: the herd effect; demo ensemble: servers that elect.

    Four processes contend for leadership, with two crashes and a resignation, in ten seconds.
    Starts a ZooKeeper server of its own, also where AIOLEAD_HOSTS is set, unless --hosts is given
    on the command line. The session timeout is 3 seconds here by default. Exits with 1 if
    something did not happen as promised.

    Args:
        common: Where to connect.
    """
    return common.run_until_signal(lambda: play(common))


async def play(common: Common) -> int:
    if common.hosts:
        return await _play_on(common, common.hosts, f"aiolead demo, on {common.hosts}")
    from ..testing import EmbeddedServer  # other commands do not need it

    async with EmbeddedServer() as server:
        hosts = server.connect_string
        # The environment's credentials are for other servers.
        basics = {each.name: getattr(common, each.name) for each in fields(Basics)}
        own = Common(hosts=hosts, session_timeout=common.session_timeout, **basics)
        return await _play_on(own, hosts, f"aiolead demo, on its own ZooKeeper server ({hosts})")


async def _play_on(common: Common, hosts: str, title: str) -> int:
    timeout = common.session_timeout or SESSION_TIMEOUT
    path = f"/aiolead-demo-{uuid.uuid4().hex[:8]}"
    processes = DemoProcesses(
        NAMES,
        lambda name: [
            *(hosts, path, name, str(timeout), common.backend),
            "alone" if name == UNGUARDED else "guardian",
        ],
    )
    async with common.connected() as client:
        screen = Screen(title, processes, as_json=common.as_json)
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
    def __init__(self, screen: Screen, processes: DemoProcesses, client: Client, path: str) -> None:
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
                self._processes.queue_is([each.identity for each in queue])
            self._screen.refresh()
            await anyio.sleep(LOOK_EVERY)

    async def play(self) -> None:
        """Play it; raises `DemoFailed` if something did not happen in time."""
        tell = self._screen.tell
        tell("Four processes start. Each wants to lead, and ZooKeeper lets one.")
        await self._processes.until(
            lambda: len(self._processes.queue) == len(NAMES),
            len(NAMES) * PATIENCE,
            f"not all of {', '.join(NAMES)} contended",
        )
        first = await self._leader()
        behind = ", then ".join(self._processes.queue[1:])
        tell(f"{first.name} leads. Behind, as they came: {behind}.")
        await anyio.sleep(1.2)

        tell(f"Now {first.name} is killed (SIGKILL), as in a crash, without a goodbye.", "red")
        second = await self._hand_over(first, "guardian")
        tell(
            f"The session guardian of {first.name}, a small process of its own, saw that\n"
            f"{first.name} was dead, and closed its session at once."
        )
        await anyio.sleep(1.2)

        tell(f"Now {second.name} is killed, which has no guardian.", "red")
        tell(
            "The servers cannot distinguish a crash from a slow network, where\n"
            f"{second.name} would still lead. So they wait until its session expires:\n"
            f"{second.session_timeout:g} s after its last sign of life."
        )
        third = await self._hand_over(second, "expiry")
        await anyio.sleep(1.2)

        tell(f"Now {third.name} is asked to end (SIGTERM): it stops, and then resigns.")
        fourth = await self._hand_over(third, "resignation")
        await anyio.sleep(1.0)

        tell(f"{fourth.name} is asked to end, too.")
        self._processes.ask_to_end(fourth)
        await self._processes.until(
            lambda: fourth.state == "ended", PATIENCE, f"{fourth.name} did not end"
        )

    async def _hand_over(self, leader: DemoProcess, end: SessionEnd) -> DemoProcess:
        """Kill the leader, or ask it to end; return the next one."""
        if end == "resignation":
            after = f"{leader.name} had stopped"
            self._processes.ask_to_end(leader)
        else:
            after = "the crash"
            self._processes.kill(leader)
        heir = await self._leader(after=leader)
        ended = leader.killed_at or leader.led.end
        timeout = leader.session_timeout
        took = HandOver(leader.name, heir.name, end, ended, heir.led.begin, timeout)
        self.hand_overs.append(took)
        self._screen.tell(f"{heir.name} leads, {took.shown} after {after}.", "green")
        return heir

    async def _leader(self, after: DemoProcess | None = None) -> DemoProcess:
        processes = self._processes
        await processes.until(
            lambda: processes.leader not in (None, after), PATIENCE, "nobody began to lead"
        )
        leader = processes.leader
        assert leader is not None
        return leader


# --- the summary ---------------------------------------------------------------------------------


SessionEnd = Literal["guardian", "expiry", "resignation"]
"""Why a leader's znode went: a guardian closed its session, or that expired, or it resigned."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A hand-over from one leader (`left`) to the next (`came`).

    `ended` is when the first had stopped for sure: dead, or by its own report. `timeout` is its
    session timeout, in seconds.
    """

    left: str
    came: str
    end: SessionEnd
    ended: float
    began: float
    timeout: float = 0.0

    @property
    def took(self) -> float:
        """Seconds without a leader."""
        return self.began - self.ended

    @property
    def shown(self) -> str:
        return f"{self.took:.2f} s" if self.end == "expiry" else f"{self.took * 1000:.1f} ms"


def broken_promises(terms: Sequence[DemoTerm], hand_overs: Sequence[HandOver]) -> list[str]:
    """The promises that were broken; empty if none were."""
    broken: list[str] = []
    for one, after in pairwise(terms):
        if after.begin <= one.end:
            broken.append(f"{one.name} and {after.name} led at once")
        if after.token <= one.token:
            broken.append(f"the token fell, from {one.token} to {after.token}")
    for each in hand_overs:
        if each.took <= 0:
            broken.append(f"{each.came} led before {each.left} had stopped")
        if each.end == "guardian" and each.took >= each.timeout:
            closed = f"the guardian of {each.left} did not close its session"
            broken.append(f"{closed} before that expired")
    return broken


def summary(
    terms: Sequence[DemoTerm], hand_overs: Sequence[HandOver], start: float
) -> list[tuple[str, str]]:
    """Lines and their styles; times are counted from `start`."""
    lines = [("", ""), ("Summary", "bold")]
    killed = {each.left for each in hand_overs if each.end != "resignation"}
    for term in terms:
        begin, end = term.begin - start, term.end - start
        how = "was killed" if term.name in killed else "resigned"
        line = f"  {term.name:<5} led from {begin:5.2f} s to {end:5.2f} s, token {term.token}, "
        lines.append((line + how, ""))
    if not broken_promises(terms, hand_overs):
        tokens = " < ".join(str(term.token) for term in terms)
        lines += [
            ("  One leader at a time, by the clocks of the processes themselves.", "green"),
            (f"  Tokens rise ({tokens}), so that stores can refuse leaders of the past.", "green"),
        ]
    after = {
        "guardian": "After a crash the next one led {}: its guardian closed the session.",
        "expiry": "After a crash without a guardian, {}: when the session ({:g} s) expired.",
        "resignation": "After a resignation the next one led {}.",
    }
    for each in hand_overs:
        text = after[each.end].format(f"{each.shown} later", each.timeout)
        lines.append((f"  {text}", "green"))
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
        (f"{name} observe /demo", "the current leader, live"),
        (f"{name} run --help", "for your own program, in any language"),
    )
    width = max(len(typed) for typed, _ in steps) + 3
    return [
        ("", ""),
        ("Next steps", "bold"),
        *((f"  {typed:<{width}}{why}", "") for typed, why in steps),
        ("In Python: async with aiolead.Election(client, path).leadership() as term: ...", ""),
    ]


# --- the output --------------------------------------------------------------------------------

_ORDINALS = ["", "first", "second", "third"]
_NUMBERS = ("pid", "fencing token", "led for")


class Screen:
    """A context manager: events as lines of text, as JSON, or below a live table.

    `begin` is by `clock`.
    """

    def __init__(self, title: str, processes: DemoProcesses, *, as_json: bool) -> None:
        self._title = title
        self._processes = processes
        self._as_json = as_json
        self._console = Console(highlight=False)
        is_live = is_fancy() and not as_json
        self._live = Live(console=self._console, auto_refresh=False) if is_live else None
        self._told: list[tuple[str, Text]] = []
        self.begin: float = clock()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        elif not self._as_json:
            write_line(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        if self._live is not None:
            self._live.stop()

    def tell(self, text: str, style: str = "") -> None:
        """Show an event."""
        elapsed = clock() - self.begin
        at = f"{elapsed:6.2f} s"
        self._told.append((at, Text(render.escaped(text, keep="\n"), style)))
        if self._as_json:
            write_json({"at": round(elapsed, 3), "text": " ".join(text.split())})
        elif self._live is None:
            write_line(f"{at}  ", text.replace("\n", "\n" + " " * 10), keep="\n")
        self.refresh()

    def refresh(self) -> None:
        """Show the current state, on a terminal."""
        if self._live is not None:
            self._live.update(self.frame(), refresh=True)

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        """Show the summary: lines and their styles."""
        if self._as_json:
            write_json({"summary": [line.strip() for line, _ in lines if line.strip()]})
            return
        for line, style in lines:
            if self._live is None:
                write_line(line)
            else:
                self._console.print(Text(line, style))

    def frame(self) -> Group:
        """The picture on a terminal: the processes, and the events so far."""
        told = Table.grid(padding=(0, 2))
        for at, text in self._told:
            told.add_row(Text(at, "dim"), text)
        return Group(Text(self._title, "bold"), "", self._table(), "", told)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
        for heading in ("", "process", "pid", "state", "fencing token", "led for"):
            # Wide enough for every state: a table that jumps is hard to read.
            table.add_column(
                heading,
                justify="right" if heading in _NUMBERS else "left",
                min_width=22 if heading == "state" else None,
            )
        for member in self._processes.members.values():
            term, leads = member.term, member.state == "leads"
            style = "bold green" if leads else "red" if member.state == "killed" else ""
            now = clock() if leads else term.end if term else 0.0
            table.add_row(
                "●" if leads else " ",
                member.name,
                str(member.process.pid),
                self._state(member),
                str(term.token) if term else "",
                f"{now - term.begin:.1f} s" if term else "",
                style=style,
            )
        return table

    def _state(self, member: DemoProcess) -> str:
        match member.state:
            case "leads":
                return "leads"
            case "killed" if self._processes.leader is None and self._processes.queue:
                return f"killed {clock() - member.killed_at:.1f} s ago"
            case "killed":
                return "killed"
            case "stops" | "ended":
                return "has resigned"
        if member.name in self._processes.queue[1:]:
            return f"waits, {_ORDINALS[self._processes.queue.index(member.name)]} in queue"
        return "next in queue" if member.name in self._processes.queue else "starts"


command: App = App(
    name="demo",
    usage="Usage: aiolead demo [herd|ensemble] [OPTIONS]",
    group_parameters=Options("Options", sort_key=0),
)
command.default(demo)
command.command("aiolead.cli.herd:herd", name="herd", usage="Usage: aiolead demo herd [OPTIONS]")
command.command(
    "aiolead.cli.rehearse:rehearse",
    name="ensemble",
    usage="Usage: aiolead demo ensemble [OPTIONS]",
)
