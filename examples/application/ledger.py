"""Invoices in SQLite, fenced: a writer whose token is older than one seen before is refused.

The same works in PostgreSQL, with `SELECT ... FOR UPDATE` in the place of `BEGIN IMMEDIATE`.
"""

import sqlite3


class Outdated(Exception):
    """Another leader has written since this one was elected."""


class Ledger:
    def __init__(self, path: str) -> None:
        # Transactions are begun by hand: the check and the write must be one.
        self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS fence (token INTEGER NOT NULL)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS invoices"
            " (number INTEGER PRIMARY KEY, text TEXT NOT NULL, token INTEGER NOT NULL)"
        )

    def add(self, text: str, token: int) -> int:
        """Add an invoice, as the leader with that fencing token; return its number."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            (newest,) = self._db.execute("SELECT COALESCE(MAX(token), 0) FROM fence").fetchone()
            if token < newest:
                raise Outdated(f"token {token} is older than {newest}: another leader has written")
            if token > newest:
                self._db.execute("DELETE FROM fence")
                self._db.execute("INSERT INTO fence VALUES (?)", (token,))
            added = self._db.execute(
                "INSERT INTO invoices (text, token) VALUES (?, ?)", (text, token)
            )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        assert added.lastrowid is not None, "SQLite numbers each row"
        return added.lastrowid

    def count(self) -> int:
        (number,) = self._db.execute("SELECT COUNT(*) FROM invoices").fetchone()
        return number

    def tokens(self) -> list[int]:
        """The tokens by which invoices were written, in the order of their numbers."""
        rows = self._db.execute("SELECT token FROM invoices ORDER BY number")
        return [token for (token,) in rows]

    def close(self) -> None:
        self._db.close()
