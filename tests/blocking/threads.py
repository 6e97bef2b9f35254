"""Helpers of the tests of `aiolead.blocking`: clients, daemon threads, signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from kit.checks import until
from kit.clients import SESSION, Served

from aiolead import blocking

Backend = Literal["asyncio", "trio"]


def connect(server: Served, backend: Backend = "asyncio", **options: Any) -> blocking.Connection:
    options = {"session_timeout": SESSION, "backend": backend, **options}
    return blocking.connect(server.connect_string, **options)


def in_daemon(act: Callable[[], object]) -> Future[Any]:
    """Run something in a daemon thread. If it hangs, only its test fails."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


class SoftLimit(Exception):
    """The exception that Celery and others raise out of a signal handler."""


def interrupted_when(check: Callable[[], object]) -> threading.Thread:
    """Send SIGUSR1 to this thread, the main one, as soon as something is so."""
    assert threading.current_thread() is threading.main_thread()
    main = threading.get_ident()

    def watch() -> None:
        until(check, "it is time to interrupt")  # type: ignore[arg-type]
        signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread
