"""The process of a Python peer: `python -m benchmarks.peers.host NAME LOOP [--idle]`.

It reads lines from its standard input, `verb<TAB>name=value<TAB>...`, and answers each with one,
`ok<TAB>{...}` or `error<TAB>...`. Imports before the peer are kept few, since the peer's
memory is told from what was there before.

With `--idle`, the answers say how long the event loop had nothing to do (`idle`); it costs a
little, so it is not done where anything else is measured.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
import time
from typing import Any

import anyio
import anyio.to_thread

LOOPS = ("asyncio", "uvloop", "trio", "threads")


class Idle:
    """How long an event loop has waited for something to do, in seconds."""

    seconds = 0.0
    _since = 0.0

    # trio calls this.
    def before_io_wait(self, timeout: float) -> None:
        self._since = time.perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        self.seconds += time.perf_counter() - self._since

    def selector(self) -> Any:
        """The selector for asyncio."""
        import selectors

        idle = self

        class Timed(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                idle.before_io_wait(0.0)
                try:
                    return super().select(timeout)
                finally:
                    idle.after_io_wait(0.0)

        return Timed()


class Host:
    """One peer, and what is said to it and by it."""

    def __init__(self, name: str, idle: Idle | None) -> None:
        self._name = name
        self._idle = idle
        self._base = 0
        self._peer: Any = None

    async def serve(self) -> None:
        """Obeys until the input ends."""
        line = await anyio.to_thread.run_sync(sys.stdin.readline)
        gc.collect()
        self._base = resident()
        async with anyio.create_task_group() as tasks:
            module = importlib.import_module(f"benchmarks.peers.{self._name}")
            self._peer = module.make(tasks)
            while line:
                self._say(await self._obey(line.rstrip("\n")))
                line = await anyio.to_thread.run_sync(sys.stdin.readline)
            tasks.cancel_scope.cancel()

    def serve_blocking(self) -> None:
        """The same for a peer that has no event loop."""
        line = sys.stdin.readline()
        gc.collect()
        self._base = resident()
        self._peer = importlib.import_module(f"benchmarks.peers.{self._name}").make()
        while line:
            verb, arguments = parse(line.rstrip("\n"))
            try:
                self._say(self._told(verb, self._do(verb, arguments)))
            except Exception as error:
                self._say(_failed(error))
            line = sys.stdin.readline()

    async def _obey(self, line: str) -> str:
        verb, arguments = parse(line)
        before = self._idle.seconds if self._idle else 0.0
        try:
            answer = self._do(verb, arguments)
            if hasattr(answer, "__await__"):
                answer = await answer
        except Exception as error:
            return _failed(error)
        if self._idle:
            answer = {**(answer or {}), "idle": self._idle.seconds - before}
        return self._told(verb, answer)

    def _do(self, verb: str, arguments: dict[str, Any]) -> Any:
        match verb:
            case "start":
                return {"base": self._base, "pid": os.getpid()}
            case "memory":
                gc.collect()
                return {"resident": resident()}
            case "cpu":
                return {"cpu": time.process_time(), "at": time.monotonic_ns()}
            case "version":
                return {"version": self._peer.version()}
        gc.collect()
        return getattr(self._peer, verb)(**arguments)

    def _told(self, verb: str, answer: Any) -> str:
        import json  # after the memory of the beginning was taken

        return f"ok\t{json.dumps(answer or {})}"

    @staticmethod
    def _say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _failed(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = f"{type(error).__name__}: {error}"
    return "error\t" + " ".join(text.split())


def parse(line: str) -> tuple[str, dict[str, Any]]:
    """A verb and its arguments: whole numbers, other numbers, and text."""
    verb, *words = line.split("\t")
    return verb, {name: _value(text) for name, _, text in (w.partition("=") for w in words)}


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def resident() -> int:
    """The memory of this process's own that is in use, in bytes.

    Without the mapped files of the interpreter and libraries: all processes share them, and kernels
    take them away and bring them back as they like.
    """
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is memory, too
        kibibytes = next(line.split()[1] for line in file if line.startswith("RssAnon:"))
    return int(kibibytes) * 1024


def main() -> None:
    name, loop, *rest = sys.argv[1:]
    idle = Idle() if rest == ["--idle"] else None
    host = Host(name, idle)
    match loop:
        case "threads":
            host.serve_blocking()
        case "trio":
            options = {"instruments": [idle]} if idle else {}
            anyio.run(host.serve, backend="trio", backend_options=options)
        case "uvloop":
            import uvloop

            anyio.run(host.serve, backend_options={"loop_factory": uvloop.new_event_loop})
        case "asyncio":
            options = {}
            if idle:
                selector = idle.selector()
                options["loop_factory"] = lambda: asyncio.SelectorEventLoop(selector)
            anyio.run(host.serve, backend_options=options)
        case _:
            sys.exit(f"there is no loop {loop!r}, but {', '.join(LOOPS)}")


if __name__ == "__main__":
    main()
