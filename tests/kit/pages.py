"""Running what the documentation shows: programs as child processes, and the code of its pages.

Sybil finds code on pages, too, but cannot run it as this does: fragments that `await` share one
event loop and one client for a page, on asyncio, uvloop and trio in turn; its evaluators are
synchronous, and its test items cannot be parametrized. Programs and tests of a page are child
processes.
"""

from __future__ import annotations

import ast
import inspect
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import pytest

from aiolead.events import Event, EventName

from .checks import until
from .cli import WITHIN, Lines

ROOT = Path(__file__).resolve().parents[2]

PATIENCE = WITHIN
"""A limit for the next step of a program, in seconds."""

WHOLE = 150.0
"""How long a program may take from its start to its end, which is many steps: some run tests that
start servers."""

MIGRATING = ROOT / "docs" / "how-to" / "migrating"
"""The pages whose programs are tested together: what was before, and what comes after."""

TUTORIAL = ROOT / "docs" / "tutorial" / "first-worker.md"
"""The page that is followed as a whole: its programs are processes that are killed and frozen."""

GETTING_STARTED = ROOT / "docs" / "tutorial" / "getting-started.md"
"""The page whose program grows from step to step."""

WHOLE_LINES = {"PYTHONUNBUFFERED": ""}
"""For processes that share a pipe, and flush what they print: a line is one write. Unbuffered, its
end is another one, and a line of another process may come between."""

SHOWN_ADDRESS = "127.0.0.1:2181"
"""Where the server is on the pages; the tests put their own server in its place."""


class Program:
    """A child process whose output is read at once. It is killed on exit, with its children.

    Args:
        *command: the arguments. This Python runs a script that ends in `.py`, and a module after
            `-m`.
        hosts: what `AIOLEAD_HOSTS` is set to; by default it is not set.
        cwd: the directory to run in.
        env: more variables of the environment. `PYTHONUNBUFFERED` is set otherwise.
    """

    def __init__(
        self,
        *command: str,
        hosts: str | None = None,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if command[0] == "-m" or command[0].endswith(".py"):
            command = (sys.executable, *command)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        environment.pop("AIOLEAD_HOSTS", None)
        if hosts is not None:
            environment["AIOLEAD_HOSTS"] = hosts
        path = [str(ROOT), environment.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        # A socket that was not closed, a coroutine that was not awaited: to be seen.
        environment["PYTHONWARNINGS"] = "default"
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = Lines(self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Its session is a process group, which may outlive it.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.rest()

    @property
    def lines(self) -> list[str]:
        """The lines that it has printed so far."""
        return [*self._output.all]

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits for a line with the pattern, after those that were waited for before.

        Raises:
            AssertionError: the program ended without it, or did not print it in time.
        """
        return self._output.expect(pattern)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals, *, whole_group: bool = False) -> None:
        """Sends a signal to it; with `whole_group` also to its own children."""
        if whole_group:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def interrupt(self) -> None:
        """Sends SIGINT, as Ctrl-C does."""
        self.send(signal.SIGINT)

    def terminate(self) -> None:
        self.send(signal.SIGTERM)

    def finish(self, number: signal.Signals | None = None) -> int:
        """Waits until it has ended, after a signal if one is given; returns its exit status."""
        if number is not None:
            self.send(number)
        status = self._process.wait(WHOLE)
        self._output.rest()
        return status

    def run(self) -> list[str]:
        """Waits until it has ended, well and without a warning; gives what it has printed.

        Raises:
            AssertionError: its exit status is not 0, or it printed a warning.
        """
        with self:
            status = self.finish()
        said = "\n".join(self.lines)
        assert status == 0, f"exit status {status}:\n{said}"
        assert "Warning" not in said, said
        return self.lines


def _is_blocking(node: ast.AST) -> bool:
    """Whether it names `aiolead.blocking`."""
    match node:
        case ast.Name("blocking") | ast.alias("blocking"):
            return True
    return False


@dataclass(frozen=True)
class Block:
    """A piece of Python on a page.

    A page is Markdown with fenced code. A block with test functions is a test module. A block that
    ends by running an event loop, or with `if __name__ == "__main__"`, is a program. A block that
    uses `aiolead.blocking` is a script, which runs without an event loop. Any other block is a
    fragment, which may `await`. A comment (`<!-- python`, lines, `-->`) is hidden from readers.
    """

    page: Path
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def kind(self) -> Literal["tests", "program", "script", "fragment"]:
        tree = self._tree()
        body = tree.body
        names = [
            node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        if any(name.startswith("test_") for name in names):
            return "tests"
        last = body[-1]
        match last.body[0] if isinstance(last, ast.Try) else last:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("asyncio" | "trio" | "anyio"), "run"))):
                return "program"
            case ast.If(ast.Compare(ast.Name("__name__"))):
                return "program"
        return "script" if any(map(_is_blocking, ast.walk(tree))) else "fragment"

    def _tree(self) -> ast.Module:
        # Line numbers as on the page.
        return ast.parse("\n" * (self.line - 1) + self.source, str(self))

    def at(self, address: str, shown: str = SHOWN_ADDRESS) -> Block:
        """The same, with a server's address in the place of the one that is shown."""
        return replace(self, source=self.source.replace(shown, address))

    def run_script(self, names: dict[str, Any]) -> None:
        """Runs it, with and into these names."""
        exec(compile(self._tree(), str(self), "exec"), names)

    async def run_fragment(self, names: dict[str, Any]) -> None:
        """Runs it, with and into these names."""
        code = compile(self._tree(), str(self), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result


_BLOCK = re.compile(r"^(?:```|<!-- )python\n(.*?)^(?:```|-->)$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```(.*)$", re.MULTILINE)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(page: Path) -> list[Block]:
    """The Python of a page, in order."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, match.start(1)) + 1, match[1])
        for match in _BLOCK.finditer(text)
    ]


def languages(page: Path) -> set[str]:
    """The languages of the fenced blocks of a page."""
    return set(_FENCE.findall(page.read_text())[::2])


def links(page: Path) -> list[Path]:
    """The files that a page links to."""
    found = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text())
    return [(page.parent / link).resolve() for link in found]


# --- examples -------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from asgi_lifespan import LifespanManager

    from aiolead.testing import ThreadedServer

EXAMPLES = ROOT / "examples"

Load = Callable[[str], ModuleType]
"""Imports an example, by its path below `examples`."""


def lifespan(app: Any) -> LifespanManager:
    """An ASGI application from its startup to its shutdown, as a server has them."""
    from asgi_lifespan import LifespanManager  # which `make test` does without

    return LifespanManager(app, startup_timeout=PATIENCE, shutdown_timeout=PATIENCE)


def end_lost_session(server: ThreadedServer) -> None:
    """Ends the session of a process that was killed, as its timeout would.

    Sessions short enough to wait for end under processes that a busy machine is slow to run, too.
    """

    def lost() -> list[int]:
        return [id_ for id_, session in server.sessions().items() if not session.is_connected]

    until(lambda: len(lost()) == 1, "the server has lost the connection of the process")
    server.expire_session(*lost())


class Said:
    """The lines that the examples print in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        self._lines += self._capsys.readouterr().out.splitlines()
        return self._lines

    def count(self, line: str) -> int:
        """How many lines begin so."""
        return sum(each.startswith(line) for each in self.lines)

    async def wait_for(self, line: str, times: int = 1) -> None:
        """Waits until a line was printed that begins so, that many times."""
        with anyio.fail_after(PATIENCE):
            while self.count(line) < times:  # noqa: ASYNC110
                await anyio.sleep(0.01)


# --- the table of events --------------------------------------------------------------------------

_ROW = re.compile(r"^\| `(\w+\.\w+)` \| (\w+(?:, \w+)*) \| ((?:`\w+` ?)*) \| ", re.MULTILINE)


def _events() -> dict[EventName, tuple[tuple[int, ...], tuple[str, ...]]]:
    page = (ROOT / "docs" / "how-to" / "observability.md").read_text("utf-8")
    rows = [(EventName(name), levels, fields) for name, levels, fields in _ROW.findall(page)]
    assert len({name for name, _, _ in rows}) == len(rows)
    numbers = logging.getLevelNamesMapping()
    return {
        name: (
            tuple(numbers[level.upper()] for level in levels.split(", ")),
            tuple(re.findall(r"\w+", fields)),
        )
        for name, levels, fields in rows
    }


EVENTS = _events()
"""The levels of each event, and the names of its fields, in order."""


class RecordedEvents:
    """A sink that keeps its events.

    Attributes:
        events: all events, in order.
        wrong: differences from the page. A client ignores the errors of sinks.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.wrong: list[str] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        levels, fields = EVENTS[event.name]
        if set(event.fields) != set(fields):
            self.wrong.append(f"{event.name} has the fields {sorted(event.fields)}")
        if event.level not in levels:
            self.wrong.append(f"{event.name} has the level {event.level}")
        str(event)

    def names(self, *beginnings: str) -> list[str]:
        """The names of the events, in order: all, or those with some beginnings."""
        return [
            event.name.value for event in self.events if event.name.startswith(beginnings or "")
        ]

    def of(self, name: EventName) -> list[Event]:
        return [event for event in self.events if event.name is name]
