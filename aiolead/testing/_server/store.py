"""The part of a server that is kept on disk: its znodes and sessions, in an SQLite database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ...errors import ConfigurationError
from ...model import ACL, Permission
from .tree import Lifetime, Tree, Znode

FILE = "aiolead-server.sqlite3"

FORMAT = 1
"""The number of the tables' layout."""

_COUNTS = (
    "owner",
    "ttl_ms",
    "czxid",
    "mzxid",
    "pzxid",
    "ctime",
    "mtime",
    "version",
    "creates",
    "aversion",
)
"""The attributes of a znode that are numbers, each a column of its own."""

_TABLES = f"""
CREATE TABLE server (
    zxid INTEGER NOT NULL, next_session INTEGER NOT NULL, secret BLOB NOT NULL
);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, timeout_ms INTEGER NOT NULL);
CREATE TABLE znodes (
    number INTEGER PRIMARY KEY, path BLOB UNIQUE NOT NULL, data BLOB, acl TEXT NOT NULL,
    lifetime TEXT NOT NULL, {", ".join(f"{name} INTEGER NOT NULL" for name in _COUNTS)}
);
PRAGMA user_version = {FORMAT};
"""

# The columns come from `_COUNTS` alone. A znode that changes keeps its number, the order of its
# creation.
_KEEP = (
    f"INSERT INTO znodes (path, data, acl, lifetime, {', '.join(_COUNTS)}) "  # noqa: S608
    f"VALUES (?, ?, ?, ?, {', '.join('?' * len(_COUNTS))}) ON CONFLICT (path) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ("data", "acl", "lifetime", *_COUNTS))
)


class Kept(NamedTuple):
    """The state that a server continues with, beside its tree.

    Attributes:
        zxid: the transaction id of the last change.
        next_session: the id of the next session.
        secret: the secret from which the passwords of sessions are derived.
        sessions: the timeout of each session in milliseconds, by id.
    """

    zxid: int
    next_session: int
    secret: bytes
    sessions: dict[int, int]


class Store:
    """Keeps a server's state in a directory, which no other server may use meanwhile.

    Each change is in the file before it is answered, and survives the end of the process, SIGKILL
    included. It does not wait for the disk: what the system has not written yet is lost if the
    machine goes down.

    A change that cannot be kept raises, and so does every change after it: it is not answered.

    Args:
        folder: the directory; it is made if there is none.

    Raises:
        ConfigurationError: it cannot be used: another server does, or it has other data in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failure: sqlite3.Error | None = None
        with self._explaining():
            # Passwords of sessions follow from what is in it.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = sqlite3.connect(folder / FILE, timeout=0, isolation_level=None)
            try:
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = OFF")
                with self._transaction():
                    (found,) = self._db.execute("PRAGMA user_version").fetchone()
                if not found:
                    self._db.executescript(f"BEGIN; {_TABLES} COMMIT;")
                elif found != FORMAT:
                    raise sqlite3.DatabaseError(f"its format is {found}, not {FORMAT}")
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    def load(self, tree: Tree) -> Kept | None:
        """Fills a tree with what was kept; None if this is the first server here."""
        with self._explaining():
            row = self._db.execute("SELECT zxid, next_session, secret FROM server").fetchone()
            if row is None:
                return None
            columns = f"path, data, acl, lifetime, {', '.join(_COUNTS)}"
            rows = self._db.execute(f"SELECT {columns} FROM znodes ORDER BY number")  # noqa: S608
            for path, data, acl, lifetime, *counts in rows:
                node = Znode(data, _acl(acl), 0, 0, lifetime=Lifetime[lifetime])
                for name, value in zip(_COUNTS, counts, strict=True):
                    setattr(node, name, value)
                tree.restore(_text(path), node)
            sessions = dict(self._db.execute("SELECT id, timeout_ms FROM sessions"))
            zxid, next_session, secret = row
            return Kept(zxid, next_session, secret, sessions)

    def begin(self, kept: Kept, tree: Tree) -> None:
        """Keeps the state of a server that is new here, its own znodes included."""
        with self._transaction():
            values = kept.zxid, kept.next_session, kept.secret
            self._db.execute("INSERT INTO server VALUES (?, ?, ?)", values)
            self._keep(tree, tree.all_paths())

    def keep(self, tree: Tree, paths: Iterable[str], zxid: int) -> None:
        """Keeps the state that these paths have now: changed, created or deleted."""
        with self._transaction():
            self._keep(tree, paths)
            self._db.execute("UPDATE server SET zxid = ?", (zxid,))

    def add_session(self, session_id: int, timeout_ms: int, zxid: int) -> None:
        """Keeps a new session."""
        with self._transaction():
            self._db.execute("INSERT INTO sessions VALUES (?, ?)", (session_id, timeout_ms))
            values = zxid, session_id + 1
            self._db.execute("UPDATE server SET zxid = ?, next_session = ?", values)

    def drop_session(self, session_id: int) -> None:
        """Forgets a session whose znodes are deleted."""
        with self._transaction():
            self._db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _keep(self, tree: Tree, paths: Iterable[str]) -> None:
        for path in paths:
            node, name = tree.get(path), _bytes(path or "/")
            if node is None:
                self._db.execute("DELETE FROM znodes WHERE path = ?", (name,))
                continue
            acl = json.dumps([(entry.permissions, entry.scheme, entry.id) for entry in node.acl])
            counts = (getattr(node, count) for count in _COUNTS)
            self._db.execute(_KEEP, (name, node.data, acl, node.lifetime.name, *counts))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._failure is not None:
            # The server in memory is ahead of the file: a later change may not fit to what is kept.
            raise self._failure
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.commit()
        except sqlite3.Error as error:
            self._failure = error
            self._db.rollback()
            raise

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or type(error).__name__
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorname in ("SQLITE_BUSY", "SQLITE_LOCKED")
            why = "another server uses it" if busy else str(error)
        except (sqlite3.DatabaseError, ValueError, LookupError) as error:
            why = f"{FILE} is not of this server: {error}"
        else:
            return
        raise ConfigurationError(f"data_dir: {self._folder}: {why}") from None


def _acl(text: str) -> tuple[ACL, ...]:
    return tuple(ACL(Permission(bits), scheme, id_) for bits, scheme, id_ in json.loads(text))


# Paths may have half a surrogate pair in them, which SQLite's texts cannot.


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogatepass")
