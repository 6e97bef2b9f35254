"""`aiolead top`, and how it shows a scene: a live table, lines of text, or objects."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import anyio
from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live

from .. import Client
from ..errors import ConfigurationError
from . import render, scene_text
from .options import COMMON, Common, Flag, Seconds, ZnodePath
from .output import (
    can_show,
    is_terminal,
    undo_at_once,
    undone_at_once,
    write_json,
    write_line,
)
from .scene_feed import SCENE, Feed, SceneOptions
from .server_survey import InquiryOptions, all_servers, listed_servers
from .signals import Job, first_of, has_terminal
from .top_keys import TopControls, read_keys, single_keys
from .top_picture import Picture

EVERY = 1.0
"""Time between two refreshes when nothing happens, in seconds."""


def top(
    *path: ZnodePath,
    once: Flag = False,
    interval: Seconds = 2.0,
    scene: SceneOptions = SCENE,
    common: Common = COMMON,
) -> int:
    """Show leaders, contenders and events, live, until q, SIGINT or SIGTERM.

    Elections, locks and semaphores are shown, of any library, wherever they are under the paths. It
    reads and watches, and writes nothing. On a terminal it is a table (? shows its keys); in a
    pipe, or with a terminal that can do no more, it is lines of text: first what there is, then
    what happens.

    With --json: first an object with everything there is (time, state, is_current, unreadable,
    incomplete, lines, others), then one for each thing that happens (time, event, path, identity,
    token, gap, before).

    Args:
        path: Where to look. Default: everywhere.
        once: Show what there is, and end.
        interval: How often to ask all servers which sessions are connected, in seconds; 0: never.
        scene: The types and details to show.
        common: Where to connect.
    """
    if not (interval == 0 or 0.1 <= interval <= 3600):
        raise ConfigurationError(f"--interval: must be 0, or 0.1 to 3600 seconds, not {interval:g}")
    asks = interval and not once
    inquirer = InquiryOptions(admin_port=0).inquirer(common) if asks else None
    listed = listed_servers(common)

    async def work(client: Client) -> None:
        servers = listed
        if inquirer is not None:
            servers = await all_servers(client, servers, secure=inquirer.is_encrypted)
        feed = Feed(client, path, scene, inquirer=inquirer, servers=servers, interval=interval)
        view = open_view(feed, common.wanted_hosts, as_json=common.as_json, once=once)
        await feed.during(view.show)

    return common.with_client(work, endless=True, followed=True)


class LineView:
    """The current state, then each event: lines of text, or JSON objects."""

    def __init__(self, feed: Feed, *, once: bool, as_json: bool) -> None:
        self._feed, self._scene = feed, feed.scene
        self._once = once
        self._as_json = as_json

    async def show(self) -> None:
        """Show the scene, until cancelled or once; raises `OSError` if it cannot be written."""
        scene = self._scene
        revision = await self._feed.caught_up()
        # Earlier events are part of the current state.
        number = max((event.number for event in scene.since(0)), default=0)
        self._print_all()
        was_current = True
        closed, cut = scene.unreadable, scene.incomplete
        while not self._once:
            revision = await self._feed.changed(revision)
            closed = self._print_access(closed)
            if scene.incomplete != cut:
                cut = scene.incomplete
                self._print(scene_text.incomplete(cut), event="incomplete", paths=cut)
            for event in scene.since(number):
                number = event.number
                if self._as_json:
                    write_json(scene_text.event_as_json(event))
                else:
                    queue = scene.queue(event.path)
                    text = scene_text.event_as_text(event, queue.kind if queue else "")
                    at = scene_text.moment(event.at)
                    parts = [at, render.escaped(event.path), text]
                    write_line("  ".join(filter(None, parts)))
            if scene.is_current is not was_current:
                was_current = scene.is_current
                self._print_connection()

    def _print_access(self, before: list[str]) -> list[str]:
        """Print which znodes became unreadable or readable; return the unreadable ones."""
        now = self._scene.unreadable
        for path in sorted({*before} ^ {*now}):
            if path in now:
                self._print(scene_text.unreadable([path], 1), event="unreadable", path=path)
            else:
                text = f"{render.escaped(path)}  is gone, or may be read"
                self._print(text, event="readable", path=path)
        return now

    def _print_all(self) -> None:
        scene, now = self._scene, self._feed.clock()
        if self._as_json:
            write_json(scene_text.scene_as_json(scene, now))
            return
        at = scene_text.moment(now)
        for queue in scene.queues:
            verb = scene_text.verb(queue.kind)
            holders = [
                f"{scene_text.name_of(term.identity)} {verb} "
                f"(token {term.token}, for {scene_text.since(term, now)})"
                for term in queue.terms
            ]
            waiting = [scene_text.name_of(one.identity) for one in queue.waiting]
            text = ", ".join(holders) or f"nobody {verb if queue.kind else 'contends'}"
            if waiting:
                text += f"; behind: {', '.join(waiting)}"
            write_line(f"{at}  {render.escaped(queue.path)}  {text}")
        for other in scene.others:
            text = f"{other.kind}: {scene_text.use_as_text(other)}".rstrip(": ")
            write_line(f"{at}  {render.escaped(other.path)}  {text}")
        if closed := scene.unreadable:
            write_line(f"{at}  {scene_text.unreadable(closed, len(closed))}")
        if cut := scene.incomplete:
            write_line(f"{at}  {scene_text.incomplete(cut)}")

    def _print_connection(self) -> None:
        state = self._scene.session_state.value
        if self._scene.is_current:
            text = "the connection is back: all events are reported"
            self._print(text, event="current", state=state)
        else:
            text = f"no connection to the servers ({state})"
            self._print(text, event="not current", state=state)

    def _print(self, text: str, **details: object) -> None:
        """Print what happens now: the details as JSON, or the text."""
        if self._as_json:
            write_json({"time": render.now(), **details})
        else:
            write_line(f"{render.now()}  {text}")


class TableView:
    """A table that fills the terminal, and the newest events below it."""

    def __init__(self, feed: Feed, title: str, *, once: bool) -> None:
        self._feed = feed
        self._once = once
        controls = None if once else TopControls()
        self._picture = Picture(feed.scene, title, can_show, controls)
        self._is_hidden = False
        self._console = Console(highlight=False, emoji=False, markup=False)

    async def show(self) -> None:
        """Show the scene, until cancelled or once; raises `OSError` if it cannot be written."""
        if self._once:
            await self._feed.caught_up()
            self._fit()
            self._console.print(self._drawn(height=1 << 16))
            return
        # The terminal is restored, whatever ends this.
        with (
            single_keys() as take_keys,
            Live(
                console=self._console,
                screen=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live,
            undone_at_once(_leave_screen),
            self._stopped_by_key(live, take_keys),
        ):
            keys = partial(read_keys, partial(self._press, live))
            await first_of(partial(self._keep_drawing, live), *([keys] if take_keys else []))

    @contextmanager
    def _stopped_by_key(self, live: Live, take_keys: Callable[[], None] | None) -> Iterator[None]:
        """Have Ctrl-Z give the terminal back to the shell; `fg` brings the table back."""

        def come_back() -> None:
            # After `bg`, the terminal is the shell's.
            self._is_hidden = not has_terminal()
            if not self._is_hidden and take_keys is not None:
                take_keys()
                _enter_screen()
                live.update(self._drawn(self._console.height), refresh=True)

        def stop(_number: int, _frame: FrameType | None) -> None:
            if not self._is_hidden:
                undo_at_once()
            Job().suspend()
            come_back()

        self._come_back = come_back
        before = signal.getsignal(signal.SIGTSTP)
        if take_keys is None or before is signal.SIG_IGN:
            yield
            return
        signal.signal(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, before)

    def _press(self, live: Live, key: str) -> bool:
        controls = self._picture.controls
        goes_on = controls is None or controls.press(key)
        live.update(self._drawn(self._console.height), refresh=True)
        return goes_on

    async def _keep_drawing(self, live: Live) -> None:
        revision = -1
        while True:
            if not is_terminal():
                # It was closed. Rich would write nothing, forever.
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if self._is_hidden:
                self._come_back()
            if not self._is_hidden:
                self._fit()
                live.update(self._drawn(self._console.height), refresh=True)
            with anyio.move_on_after(EVERY):
                revision = await self._feed.changed(revision)

    def _fit(self) -> None:
        """Take the terminal's own size: `COLUMNS` and `LINES`, which Rich prefers, never change."""
        size = os.get_terminal_size(sys.stdout.fileno())
        if size.columns and size.lines:
            self._console.size = ConsoleDimensions(size.columns, size.lines)

    def _drawn(self, height: int) -> Group:
        # Not the last column: a character there may make the terminal begin a new line.
        width = max(1, self._console.width - 1)
        return Group(*self._picture.draw(self._feed.clock(), width, height))


def _enter_screen() -> None:
    os.write(sys.stdout.fileno(), b"\x1b[?1049h\x1b[?25l")


def _leave_screen() -> None:
    """Restore what was on the terminal before, and the cursor."""
    os.write(sys.stdout.fileno(), b"\x1b[?1049l\x1b[?25h")


def open_view(feed: Feed, title: str, *, as_json: bool, once: bool) -> LineView | TableView:
    """The view that suits standard output."""
    if as_json or not is_terminal() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return LineView(feed, once=once, as_json=as_json)
    return TableView(feed, title, once=once)
