"""The output of `aiolead demo`: a live table on a terminal, plain lines or objects elsewhere."""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from . import render
from .demo_processes import DemoProcess, DemoProcesses
from .output import is_fancy, write_json, write_line
from .process_keeper import clock

_ORDINALS = ["", "first", "second", "third"]
_NUMBERS = ("pid", "fencing token", "led for")


class PlainScreen:
    """A context manager: lines of text. `begin` is by `clock`."""

    def __init__(self, title: str, processes: DemoProcesses) -> None:
        self._title = title
        self._processes = processes
        self.begin: float = clock()

    def __enter__(self) -> Self:
        write_line(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return clock() - self.begin

    def tell(self, text: str, style: str = "") -> None:
        """Show an event."""
        indented = text.replace("\n", "\n" + " " * 10)
        write_line(f"{self.elapsed:6.2f} s  {indented}", keep="\n")

    def refresh(self) -> None:
        """Show the current state."""

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        """Show the summary: lines and their styles."""
        for line, _ in lines:
            write_line(line)


class JSONScreen(PlainScreen):
    """JSON objects, one per line."""

    def __enter__(self) -> Self:
        return self

    def tell(self, text: str, style: str = "") -> None:
        write_json({"at": round(self.elapsed, 3), "text": " ".join(text.split())})

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        write_json({"summary": [line.strip() for line, _ in lines if line.strip()]})


class LiveScreen(PlainScreen):
    """A live table, and the events below it."""

    def __init__(self, title: str, processes: DemoProcesses) -> None:
        super().__init__(title, processes)
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._told: list[tuple[str, Text]] = []

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self._live.stop()

    def tell(self, text: str, style: str = "") -> None:
        safe = Text(render.escaped(text, keep="\n"), style)
        self._told.append((f"{self.elapsed:6.2f} s", safe))
        self.refresh()

    def refresh(self) -> None:
        self._live.update(self.frame(), refresh=True)

    def frame(self) -> Group:
        told = Table.grid(padding=(0, 2))
        for at, text in self._told:
            told.add_row(Text(at, "dim"), text)
        return Group(Text(self._title, "bold"), "", self._table(), "", told)

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        for line, style in lines:
            self._console.print(Text(line, style))

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


def open_screen(title: str, processes: DemoProcesses, *, as_json: bool) -> PlainScreen:
    """The screen that suits standard output."""
    if as_json:
        return JSONScreen(title, processes)
    return (LiveScreen if is_fancy() else PlainScreen)(title, processes)
