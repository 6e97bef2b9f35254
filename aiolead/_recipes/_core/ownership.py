"""Which znodes of our session are from a lost create: one whose answer was lost.

A unique name proves it: our session, and a number that the client gives once (`Backend.serial`). At
a fixed path it depends on the session:

* Usually only this client creates znodes in it. One that no recipe of this client claims is from a
  lost create.
* A shared session (`Backend.is_session_shared`) has znodes of another library, too. A znode is ours
  only if a create of ours at that path was lost in this session, and the znode is younger than that
  request. Servers do not say more.
"""

from __future__ import annotations

from ...abc import CoordinationClient


def is_shared(client: CoordinationClient) -> bool:
    return client.backend.is_session_shared


def now(client: CoordinationClient) -> int:
    """The newest known zxid, below that of all later creates; 0 if the session is not shared."""
    backend = client.backend
    return backend.last_zxid if backend.is_session_shared else 0


class LostCreates:
    """The lost creates at one path; kept only where the session is shared."""

    def __init__(self) -> None:
        self._session_id = 0
        self._since: list[int] = []

    def add(self, client: CoordinationClient, session_id: int, since: int) -> None:
        """Record a lost create, sent in a session when `now` was `since`."""
        if not is_shared(client):
            return
        if session_id != self._session_id:
            self._session_id = session_id
            self._since.clear()
        self._since.append(since)

    def may_have_made(self, client: CoordinationClient, czxid: int) -> bool:
        """Whether an unclaimed znode of our session may be from one of them."""
        if not is_shared(client):
            return True
        return self._session_id == client.session_id and any(czxid > each for each in self._since)

    @property
    def is_empty(self) -> bool:
        return not self._since

    def found(self, czxid: int) -> None:
        """Remove the create of a znode that was found; later znodes are from others."""
        for since in self._since:
            if czxid > since:
                self._since.remove(since)
                return
