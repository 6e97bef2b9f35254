"""Sessions and their expiry, in buckets of a tick as ZooKeeper's `ExpiryQueue` has them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

PASSWORD_SIZE = 16


def password(secret: bytes, session_id: int) -> bytes:
    """The password that proves the ownership of a session."""
    seed = secret + session_id.to_bytes(8, "big", signed=True)
    return hashlib.sha256(seed).digest()[:PASSWORD_SIZE]


@dataclass(slots=True)
class Session:
    """A session; `timeout_ms` is what was negotiated when it was made."""

    id: int
    timeout_ms: int
    expires_ms: int = 0


class Sessions:
    """Knows when each session expires.

    Args:
        tick_ms: the width of a bucket.
        first_id: the id of the first session; the following ones count up from it.
        secret: the secret from which passwords are derived.
    """

    def __init__(self, tick_ms: int, first_id: int, secret: bytes) -> None:
        self._tick_ms = tick_ms
        self._next_id = first_id
        self._secret = secret
        self._by_id: dict[int, Session] = {}
        self._buckets: dict[int, dict[int, Session]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> Session | None:
        return self._by_id.get(session_id)

    def all(self) -> list[Session]:
        return list(self._by_id.values())

    def password(self, session_id: int) -> bytes:
        return password(self._secret, session_id)

    def create(self, timeout_ms: int, now_ms: int) -> Session:
        session = self.track(self._next_id, timeout_ms, now_ms)
        self._next_id += 1
        return session

    def track(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Starts a session whose id was given out elsewhere."""
        session = self._by_id[session_id] = Session(session_id, timeout_ms)
        self.touch(session_id, timeout_ms, now_ms)
        return session

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> bool:
        """Puts the end of a session off; False if there is no such session.

        The end is a multiple of the tick, so that a session lives for its timeout and up to a
        tick more, never less.
        """
        session = self._by_id.get(session_id)
        if session is None:
            return False
        expires = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms
        if expires != session.expires_ms:
            self._unbucket(session)
            session.expires_ms = expires
            self._buckets.setdefault(expires, {})[session_id] = session
        return True

    def touch_all(self, now_ms: int) -> None:
        """Gives every session its full timeout again, as a server does that was restarted."""
        for session in self._by_id.values():
            self.touch(session.id, session.timeout_ms, now_ms)

    def remove(self, session_id: int) -> None:
        if session := self._by_id.pop(session_id, None):
            self._unbucket(session)

    def overdue(self, now_ms: int) -> list[Session]:
        """The sessions whose time is up, the earliest first. They stay until they are removed."""
        return [
            session
            for expires in sorted(self._buckets)
            if expires <= now_ms
            for session in self._buckets[expires].values()
        ]

    def next_expiry_ms(self) -> int | None:
        """When the next session ends if its client stays silent."""
        return min(self._buckets, default=None)

    def _unbucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.expires_ms)
        if bucket is not None:
            del bucket[session.id]
            if not bucket:
                del self._buckets[session.expires_ms]
