"""kazoo: `Election.run` and `Lock`, with the state listener that its documentation asks for.

kazoo does not interrupt a leader function; its documentation "highly recommends" to listen for the
states SUSPENDED and LOST and to react. So this contender believes that it holds until its function
has returned or its listener receives either, whichever comes first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from ..diary import Diary
from ..role import Role
from ..stores import PlainSet

GLANCE = 0.005
PATIENCE = 60


def contend(role: Role, hosts: str, diary: Diary) -> None:
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    client = KazooClient(hosts, timeout=role.session_timeout)
    contender = Contender(client, role, diary, leaving)
    client.add_listener(contender.heard)
    client.start(timeout=PATIENCE)
    # Signals reach the main thread alone, and kazoo's calls block: they have a thread of their own.
    worker = threading.Thread(target=contender.run, daemon=True)
    worker.start()
    leaving.wait()
    contender.cancel()
    worker.join()
    client.stop()
    client.close()


class Contender:
    """Has its turns, one after the other."""

    def __init__(
        self, client: KazooClient, role: Role, diary: Diary, leaving: threading.Event
    ) -> None:
        self._client = client
        self._role = role
        self._diary = diary
        self._leaving = leaving
        self._rng = role.rng
        self._beaten = threading.Event()
        self._believes = False
        self._mutex = threading.Lock()
        self._plain = PlainSet(role.plain, diary.contender)
        self._cancel: Callable[[], object] = lambda: None

    def heard(self, state: str) -> None:
        """kazoo's listener: called in its own thread, as the state changes."""
        self._diary.session(state.lower(), self._session_id())
        if state != KazooState.CONNECTED:
            self._believe_no_more(lost=state.lower())
            self._beaten.set()

    def _session_id(self) -> int:
        known = self._client.client_id
        return int(known[0] or 0) if known else 0

    def cancel(self) -> None:
        """Ends the waiting for a turn, or the turn."""
        self._beaten.set()
        self._cancel()

    def run(self) -> None:
        while not self._leaving.is_set():
            self._diary.joined()
            try:
                if self._role.recipe == "kazoo-lock":
                    lock = self._client.Lock(self._role.line, self._diary.contender)
                    self._cancel = lock.cancel
                    with lock:
                        self._lead()
                else:
                    election = self._client.Election(self._role.line, self._diary.contender)
                    self._cancel = election.cancel
                    election.run(self._lead)
            except KazooException:
                # No connection, or no session: an application tries again.
                self._leaving.wait(0.1)
            finally:
                self._diary.withdrew("cancelled" if self._leaving.is_set() else "error")

    def _lead(self) -> None:
        with self._mutex:
            self._believes = True
            self._diary.entered()
            if self._client.state == KazooState.CONNECTED and not self._leaving.is_set():
                self._beaten.clear()
        ends = self._diary.clock() + self._rng.uniform(self._role.hold_least, self._role.hold_most)
        while not self._beaten.wait(GLANCE) and self._diary.clock() < ends:
            if self._role.plain:
                self._add_to_file()
        self._believe_no_more(lost="")

    def _believe_no_more(self, *, lost: str) -> None:
        with self._mutex:
            if self._believes:
                self._believes = False
                self._diary.left(lost=lost)

    def _add_to_file(self) -> None:
        elements = self._plain.read()
        if self._beaten.wait(self._rng.uniform(0, GLANCE)):
            return
        element = self._diary.new_element()
        self._plain.write([*elements, element])
        self._diary.added("file", element)
