"""What `aiolead demo` shows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from . import render
from .demo_troupe import DemoProcess, Troupe
from .output import is_fancy, write_json, write_line
from .process_keeper import clock

__all__ = ["DemoScreen", "Screen", "open_screen"]


@dataclass(slots=True)
class DemoScreen:
    """What there is to show.

    Attributes:
        title: one line.
        troupe: the processes.
        line: the names of those in line, first come first, as the servers tell it.
    """

    title: str
    troupe: Troupe
    line: list[str] = field(default_factory=list)
    begin: float = field(default_factory=clock)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return clock() - self.begin

    def place(self, member: DemoProcess) -> str:
        """Where a process stands."""
        match member.state:
            case "leads":
                return "leads"
            case "killed" if self.troupe.leader is None and self.line:
                return f"killed {clock() - member.killed_at:.1f} s ago"
            case "killed":
                return "killed"
            case "stops" | "ended":
                return "has resigned"
        if member.name in self.line[1:]:
            return f"waits, {_ORDINALS[self.line.index(member.name)]} in line"
        return "next in line" if member.name in self.line else "starts"


_ORDINALS = ["", "first", "second"]


class Screen(ABC):
    """A context manager."""

    def __init__(self, scene: DemoScreen) -> None:
        self._scene = scene

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refresh()

    @abstractmethod
    def tell(self, text: str, style: str = "") -> None:
        """Says what happens."""

    @abstractmethod
    def refresh(self) -> None:
        """Shows how things stand."""

    @abstractmethod
    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        """Shows the summary: lines and their styles."""


class PlainScreen(Screen):
    """Lines of text."""

    def __init__(self, scene: DemoScreen) -> None:
        super().__init__(scene)
        write_line(scene.title)

    def tell(self, text: str, style: str = "") -> None:
        indented = text.replace("\n", "\n" + " " * 10)
        write_line(f"{self._scene.elapsed:6.2f} s  {indented}", keep="\n")

    def refresh(self) -> None:
        pass

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        for line, _ in lines:
            write_line(line)


class JSONScreen(Screen):
    """Objects, one per line."""

    def tell(self, text: str, style: str = "") -> None:
        write_json({"at": round(self._scene.elapsed, 3), "text": " ".join(text.split())})

    def refresh(self) -> None:
        pass

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        write_json({"summary": [line.strip() for line, _ in lines if line.strip()]})


class LiveScreen(Screen):
    """A table that is kept up to date, and below it what happens."""

    def __init__(self, scene: DemoScreen) -> None:
        super().__init__(scene)
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._told: list[tuple[str, Text]] = []

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refresh()
        self._live.stop()

    def tell(self, text: str, style: str = "") -> None:
        self._told.append(
            (f"{self._scene.elapsed:6.2f} s", Text(render.escaped(text, keep="\n"), style))
        )
        self.refresh()

    def refresh(self) -> None:
        self._live.update(self.frame(), refresh=True)

    def frame(self) -> Group:
        """What is on the screen now."""
        told = Table.grid(padding=(0, 2))
        for at, text in self._told:
            told.add_row(Text(at, "dim"), text)
        return Group(Text(self._scene.title, "bold"), "", self._table(), "", told)

    def sum_up(self, lines: list[tuple[str, str]]) -> None:
        for line, style in lines:
            self._console.print(Text(line, style))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
        for heading in ("", "process", "pid", "state", "fencing token", "led for"):
            # Wide enough for all that comes: a table that jumps is hard to read.
            table.add_column(
                heading,
                justify="right" if heading in _NUMBERS else "left",
                min_width=22 if heading == "state" else None,
            )
        for member in self._scene.troupe.members.values():
            reign, leads = member.reign, member.state == "leads"
            style = "bold green" if leads else "red" if member.state == "killed" else ""
            now = clock() if leads else reign.end if reign else 0.0
            table.add_row(
                "●" if leads else " ",
                member.name,
                str(member.process.pid),
                self._scene.place(member),
                str(reign.token) if reign else "",
                f"{now - reign.begin:.1f} s" if reign else "",
                style=style,
            )
        return table


_NUMBERS = ("pid", "fencing token", "led for")


def open_screen(scene: DemoScreen, *, as_json: bool) -> Screen:
    """The kind of screen that suits standard output.

    Args:
        scene: what there is to show.
        as_json: whether a program reads it.
    """
    if as_json:
        return JSONScreen(scene)
    return LiveScreen(scene) if is_fancy() else PlainScreen(scene)
