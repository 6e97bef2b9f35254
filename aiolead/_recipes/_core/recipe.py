"""The base of every recipe: a client, a path, and the ACL of the znodes that it creates."""

from __future__ import annotations

from collections.abc import Sequence

from ...abc import CoordinationClient
from ...model import ACL
from .arguments import checked_acl, checked_client, checked_path


class Recipe:
    """A recipe at a path.

    Threads and forks: a recipe is made and used in the client's event loop. Its properties may
    be read, and contexts to enter be made, in any thread; everything else raises `UsageError`
    elsewhere, before it has changed anything.
    """

    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._path
