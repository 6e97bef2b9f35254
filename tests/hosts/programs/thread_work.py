"""The work of `work.py` for hosts without an event loop: a thread of the process contends."""

import contextlib
import os
import threading

from work import AT_WORK, ELECTION

import aiolead
from aiolead import blocking


class Contender:
    """A client with a thread that contends, for hosts with hooks for start and stop."""

    def __init__(self) -> None:
        self._connection = blocking.connect()
        self._thread = threading.Thread(target=self._contend)
        self._leads = threading.Event()
        self._stops = threading.Event()

    def start(self) -> None:
        self._client = self._connection.__enter__()
        self._thread.start()

    def stop(self) -> None:
        self._stops.set()
        if self._leads.is_set():
            self._thread.join()  # resigns
        self._connection.__exit__(None, None, None)
        self._thread.join()  # a thread that still waits gets ClientClosedError

    def _contend(self) -> None:
        with contextlib.suppress(aiolead.TenureLost, aiolead.errors.ClientClosedError):
            with blocking.Election(self._client, ELECTION).leadership() as term:
                self._leads.set()
                self._work(term)

    def _work(self, term: blocking.Term) -> None:
        session = f"{term.session_id:x}"
        # It raises NodeExistsError if another leader is at work.
        self._client.create(AT_WORK, session.encode(), mode=aiolead.CreateMode.EPHEMERAL)
        print(f"{os.getpid()} leads in session {session}", flush=True)
        try:
            while not self._stops.wait(0.02):
                term.check()
        finally:
            print(f"{os.getpid()} has stopped", flush=True)
            self._client.delete(AT_WORK)
