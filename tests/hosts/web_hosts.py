"""The web servers and frameworks that host a client in the tests: how each is started and stopped.

Comments describe what a server does by itself on a signal, where that limits the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import SIGINT, SIGTERM, Signals
from typing import Literal

from aiolead.testing.launch import free_ports

To = Literal["first", "group"]
"""Which processes of a host get a signal: the first one, as in a container, or all of them, as with
systemd's default `KillMode`, or with Ctrl-C in a terminal."""

TERMINATE: tuple[Signals, To] = (SIGTERM, "first")
TERMINATE_ALL: tuple[Signals, To] = (SIGTERM, "group")
INTERRUPT: tuple[Signals, To] = (SIGINT, "first")
INTERRUPT_ALL: tuple[Signals, To] = (SIGINT, "group")


@dataclass(frozen=True)
class WebHost:
    """A program that serves HTTP, and contends in each of its workers.

    Attributes:
        command: the arguments of `Program`. `{port}` is a free port, for servers that do not take
            port 0.
        stops: the signals that close the session of each worker.
        workers: how many processes contend.
        statuses: the exit status after each signal, where it is not 0.
        or_else: another status that chance gives after a signal to the whole group; 0 for none.
        ready: a pattern for the line of each worker that handles signals from then on; empty if a
            worker does so before it contends.
    """

    command: tuple[str, ...]
    stops: tuple[tuple[Signals, To], ...] = (TERMINATE, TERMINATE_ALL, INTERRUPT, INTERRUPT_ALL)
    workers: int = 1
    statuses: Mapping[Signals, int] = field(default_factory=dict)
    or_else: int = 0
    ready: str = ""

    def arguments(self) -> list[str]:
        """The command, with a free port."""
        (port,) = free_ports(1)
        return [each.format(port=port) for each in self.command]


def _uvicorn(*arguments: str) -> tuple[str, ...]:
    return ("-m", "uvicorn", "--port", "0", *arguments)


def _gunicorn(*arguments: str) -> tuple[str, ...]:
    # Its control socket would lie in the home directory.
    return ("-m", "gunicorn", "--no-control-socket", "--bind", "127.0.0.1:0", *arguments)


def _hypercorn(*arguments: str) -> tuple[str, ...]:
    return ("-m", "hypercorn", "--bind", "127.0.0.1:0", *arguments)


def _granian(*arguments: str) -> tuple[str, ...]:
    return ("-m", "granian", "--interface", "asgi", "--port", "{port}", *arguments)


def _sanic(*arguments: str) -> tuple[str, ...]:
    return ("-m", "sanic", "sanic_app:app", "--port", "{port}", *arguments)


# It ends itself by the signal that it got.
_BY_SIGTERM = {SIGTERM: -SIGTERM}

# On SIGINT to the master alone, gunicorn sends SIGQUIT to its workers. uvicorn's worker ignores it,
# and is killed at the end of gunicorn's graceful timeout, 30 s.
_NOT_INTERRUPT = (TERMINATE, TERMINATE_ALL, INTERRUPT_ALL)

# A worker of hypercorn has no handler for SIGTERM: a signal to the whole group kills it.
_NOT_TERMINATE_ALL = (TERMINATE, INTERRUPT, INTERRUPT_ALL)

WEB_HOSTS = {
    "uvicorn-fastapi": WebHost(_uvicorn("fastapi_app:app"), statuses=_BY_SIGTERM),
    "uvicorn-starlette": WebHost(_uvicorn("starlette_app:app"), statuses=_BY_SIGTERM),
    "uvicorn-litestar": WebHost(_uvicorn("litestar_app:app"), statuses=_BY_SIGTERM),
    "uvicorn-django": WebHost(_uvicorn("django_app:app"), statuses=_BY_SIGTERM),
    "uvicorn-workers": WebHost(_uvicorn("--workers", "2", "fastapi_app:app"), workers=2),
    "gunicorn": WebHost(
        _gunicorn("-k", "uvicorn_worker.UvicornWorker", "-w", "2", "fastapi_app:app"),
        stops=_NOT_INTERRUPT,
        workers=2,
    ),
    "gunicorn-aiohttp": WebHost(
        _gunicorn("-k", "aiohttp.GunicornWebWorker", "-w", "2", "aiohttp_hooks:create_app"),
        workers=2,
    ),
    "hypercorn": WebHost(_hypercorn("starlette_app:app"), stops=_NOT_TERMINATE_ALL),
    "hypercorn-quart-trio": WebHost(
        _hypercorn("-k", "trio", "quart_app:app"), stops=_NOT_TERMINATE_ALL
    ),
    # As soon as one of its workers has ended, hypercorn terminates those that still shut down. It
    # takes over the status of a killed worker, unless it looks between the end of the worker's pipe
    # and that of the worker, as it nearly always does on an idle machine.
    "hypercorn-workers": WebHost(
        _hypercorn("-w", "2", "guarded_app:app"),
        stops=(TERMINATE, TERMINATE_ALL),
        workers=2,
        or_else=256 - SIGTERM,
    ),
    "granian": WebHost(
        _granian("--workers", "2", "starlette_app:app"), workers=2, ready=r"Started worker-\d+"
    ),
    "aiohttp-hooks": WebHost(("aiohttp_hooks.py",)),
    "aiohttp-context": WebHost(("aiohttp_context.py",)),
    "aiohttp-hooks-in-tasks": WebHost(("aiohttp_tasks.py", "hooks")),
    "aiohttp-context-in-tasks": WebHost(("aiohttp_tasks.py", "context")),
    "sanic": WebHost(_sanic("--single-process")),
    # Its first process spins if a signal arrives before all workers have reported to it, of which
    # it says nothing.
    "sanic-workers": WebHost(_sanic("--workers", "2"), stops=(), workers=2),
}
