"""How `aiolead top` shows a scene: a live table, lines of text, or objects."""

from __future__ import annotations

import errno
import os
import sys
from abc import ABC, abstractmethod

import anyio
from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live

from .. import render
from ..output import can_show, is_terminal, undone_at_once, write_json, write_line
from ..scene import Feed, said
from .keys import single_keys, until_q
from .picture import Picture

__all__ = ["open_view"]

EVERY = 1.0
"""How often times are shown anew where nothing happens, in seconds."""


class View(ABC):
    """Args: the feed, and whether to end as soon as what there is was shown."""

    def __init__(self, feed: Feed, *, once: bool) -> None:
        self._feed = feed
        self._once = once

    @abstractmethod
    async def show(self) -> None:
        """Shows the scene, until it is cancelled; or once.

        Raises:
            OSError: it cannot be written any more.
        """

    async def _all_seen(self) -> int:
        """Waits until all that there is was seen; gives the revision."""
        revision = self._feed.scene.revision
        while not self._feed.scene.is_current:
            revision = await self._feed.changed(revision)
        return revision


class LineView(View):
    """What there is, then what happens: lines of text, or objects."""

    def __init__(self, feed: Feed, *, once: bool, as_json: bool) -> None:
        super().__init__(feed, once=once)
        self._as_json = as_json

    async def show(self) -> None:
        scene = self._feed.scene
        revision = await self._all_seen()
        # What happens from here on is told; what has happened before is in what there is.
        number = self._newest(0)
        self._tell_all()
        was_current = True
        closed = scene.unreadable
        while not self._once:
            revision = await self._feed.changed(revision)
            closed = self._tell_access(closed)
            for one in scene.since(number):
                number = one.number
                if self._as_json:
                    write_json(said.happening_as_json(one))
                else:
                    line = scene.line(one.path)
                    text = said.happening_as_text(one, line.kind if line else "")
                    at = render.moment(round(one.at * 1000))
                    write_line(f"{at}  {render.escaped(one.path)}  {text}")
            if scene.is_current is not was_current:
                was_current = scene.is_current
                self._tell_link()

    def _tell_access(self, before: list[str]) -> list[str]:
        """Tells which znodes may not be read any more, and which may again; gives the former."""
        now = self._feed.scene.unreadable
        if now != before:
            for path in sorted({*before} ^ {*now}):
                is_closed = path in now
                if self._as_json:
                    event = "unreadable" if is_closed else "readable"
                    write_json({"time": render.now(), "event": event, "path": path})
                elif is_closed:
                    write_line(f"{render.now()}  {said.unreadable([path], 1)}")
                else:
                    write_line(f"{render.now()}  {render.escaped(path)}  is gone, or may be read")
        return now

    def _newest(self, number: int) -> int:
        happenings = self._feed.scene.since(number)
        return happenings[-1].number if happenings else number

    def _tell_all(self) -> None:
        scene, now = self._feed.scene, self._feed.clock()
        if self._as_json:
            write_json(said.scene_as_json(scene, now))
            return
        for line in scene.lines:
            holders = [
                f"{said.name_of(term.identity)} {said.verb(line.kind)} "
                f"(token {term.token}, for {said.since(term, now)})"
                for term in line.terms
            ]
            waiting = [said.name_of(one.identity) for one in line.waiting]
            text = ", ".join(holders) or f"nobody {said.verb(line.kind)}"
            if waiting:
                text += f"; behind: {', '.join(waiting)}"
            write_line(f"{render.moment(round(now * 1000))}  {render.escaped(line.path)}  {text}")
        if closed := scene.unreadable:
            write_line(
                f"{render.moment(round(now * 1000))}  {said.unreadable(closed, len(closed))}"
            )

    def _tell_link(self) -> None:
        scene = self._feed.scene
        if self._as_json:
            event = "current" if scene.is_current else "not current"
            write_json({"time": render.now(), "event": event, "state": scene.link.value})
        elif scene.is_current:
            write_line(f"{render.now()}  the link is back: all that has happened is told")
        else:
            write_line(f"{render.now()}  no link to the servers ({scene.link.value})")


class TableView(View):
    """A table that fills the terminal, and what happens below it."""

    def __init__(self, feed: Feed, title: str, *, once: bool) -> None:
        super().__init__(feed, once=once)
        self._picture = Picture(scene=feed.scene, title=title, can_show=can_show)
        self._console = Console(highlight=False, emoji=False, markup=False)

    async def show(self) -> None:
        if self._once:
            await self._all_seen()
            self._fit()
            self._console.print(self._drawn(height=1 << 16))
            return
        # Whatever ends it, the terminal is then as it was.
        with (
            single_keys() as has_keys,
            Live(
                console=self._console,
                screen=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live,
            undone_at_once(_leave_screen),
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_drawing, live)
                if has_keys:
                    await until_q()
                    tasks.cancel_scope.cancel()

    async def _keep_drawing(self, live: Live) -> None:
        revision = -1
        while True:
            if not is_terminal():
                # It was closed. Rich writes nothing then, and would say nothing for ever.
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._fit()
            live.update(self._drawn(self._console.height), refresh=True)
            with anyio.move_on_after(EVERY):
                revision = await self._feed.changed(revision)

    def _fit(self) -> None:
        """Takes the terminal's own size.

        Rich goes by `COLUMNS` and `LINES` where they are set, which do not change with a window.
        """
        size = os.get_terminal_size(sys.stdout.fileno())
        if size.columns and size.lines:
            self._console.size = ConsoleDimensions(size.columns, size.lines)

    def _drawn(self, height: int) -> Group:
        # Not the last column: whatever is written there may make the terminal go on to a new line.
        width = max(1, self._console.width - 1)
        return Group(*self._picture.draw(self._feed.clock(), width, height))


def _leave_screen() -> None:
    """Shows what was on the terminal before, and the cursor."""
    os.write(sys.stdout.fileno(), b"\x1b[?1049l\x1b[?25h")


def open_view(feed: Feed, title: str, *, as_json: bool, once: bool) -> View:
    """The kind of view that suits standard output.

    Args:
        feed: what to show.
        title: where that is.
        as_json: whether a program reads it.
        once: whether to show it once only.
    """
    if as_json or not is_terminal() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return LineView(feed, once=once, as_json=as_json)
    return TableView(feed, title, once=once)
