"""Whose a znode is that our session owns, after the answer to a create was lost.

A name that is given once proves it: it begins with our session and a number that the client gives
once (`Backend.serial`). At a fixed path there is no such name. Then it depends on the session:

* Mostly nobody but this client creates znodes in it. What is not claimed by a recipe of this client
  belongs to a create whose answer was lost.
* It may be shared (`Backend.is_session_shared`): the application creates znodes in it by another
  library. Then a znode is ours only if the answer to a create of ours, at that path, was lost in
  this session, and the znode was created after that create was sent. Servers do not say more.
"""

from __future__ import annotations

from ...abc import CoordinationClient


def is_shared(client: CoordinationClient) -> bool:
    """Whether others create znodes in the client's session, too."""
    return client.backend.is_session_shared


def now(client: CoordinationClient) -> int:
    """The newest known transaction: what is created from now on comes after it.

    0 where the session is not shared, and nobody needs to know.
    """
    return client.backend.last_zxid if is_shared(client) else 0


class LostCreates:
    """The creates at one path whose answers were lost.

    Where the session is not shared, nothing is kept, and everything may be of one of them.
    """

    def __init__(self) -> None:
        self._session_id = 0
        self._since: list[int] = []

    def add(self, client: CoordinationClient, session_id: int, since: int) -> None:
        """Records one.

        Args:
            client: the session.
            session_id: in which it was sent.
            since: what `now` was as it was sent.
        """
        if not is_shared(client):
            return
        if session_id != self._session_id:
            self._session_id = session_id
            self._since.clear()
        self._since.append(since)

    def may_have_made(self, client: CoordinationClient, czxid: int) -> bool:
        """Whether an unclaimed znode of our session is of one of them."""
        if not is_shared(client):
            return True
        return self._session_id == client.session_id and any(czxid > each for each in self._since)

    @property
    def is_empty(self) -> bool:
        return not self._since

    def found(self, czxid: int) -> None:
        """Its znode was found: what comes later is of another one."""
        for since in self._since:
            if czxid > since:
                self._since.remove(since)
                return
