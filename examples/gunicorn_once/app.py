"""A web application whose periodic job exactly one worker runs, however many there are.

AIOLEAD_HOSTS=127.0.0.1:2181 gunicorn -c examples/gunicorn_once/gunicorn.conf.py --workers 3 app:app

gunicorn.conf.py, beside this, calls `start` and `stop` in each worker.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import aiolead
from aiolead import blocking

EVERY = 0.25
"""How often the job is run, in seconds."""

RUNS = "/examples/gunicorn/runs"


class Application:
    def __init__(self) -> None:
        self._until_exit = contextlib.ExitStack()

    def start(self) -> None:
        """In a worker, after the fork: connects, and contends in a thread."""
        # A job that blocks until its role may be given away ends its worker: gunicorn has another.
        connection = blocking.connect(watchdog=True)
        self._client = self._until_exit.enter_context(connection)
        self._client.ensure_path(RUNS)
        self._election = blocking.Election(self._client, "/examples/gunicorn/scheduler")
        threading.Thread(target=self._contend, name="scheduler", daemon=True).start()

    def stop(self) -> None:
        """In a worker that ends: another one takes over at once."""
        self._until_exit.close()

    def _contend(self) -> None:
        with contextlib.suppress(aiolead.errors.ClientClosedError):  # that was `stop`
            self._election.run(self._schedule)

    def _schedule(self, term: blocking.Term) -> None:
        """Called once per term, in the thread that contends. Nothing cancels it: it looks."""
        print(f"worker {os.getpid()} runs the job, token {term.token}", flush=True)
        while not term.lost.wait(EVERY):
            self._job(term)

    def _job(self, term: blocking.Term) -> None:
        done, stat = self._client.get(RUNS)
        number = int(done or b"0") + 1
        term.check()
        # Refused by the servers, should we have lost it by now.
        term.fenced().set(RUNS, b"%d" % number, version=stat.version)
        print(f"worker {os.getpid()}: run {number}", flush=True)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        leader = self._election.leader()
        answer = {"leader": leader and leader.identity, "answered_by": self._election.identity}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


app = Application()
