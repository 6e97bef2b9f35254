"""The base of recipes that are not held: a client, a path, the ACL of the znodes they create."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ...abc import CoordinationClient
from ...errors import ConfigurationError
from ...model import ACL
from .arguments import checked_acl, checked_client, checked_path


def _explained(init: Callable[..., None]) -> Callable[..., None]:
    """Refuse missing and unknown arguments by the name of the class that is made.

    Python names the class that defines `__init__`, which users may not know.
    """

    @wraps(init)
    def explained(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            traceback = error.__traceback__
            if traceback is None or traceback.tb_next is not None:
                raise  # of something in there
            why = str(error).partition("() ")[2] or error
        else:
            return
        name, kind = type(self).__name__, inspect.Parameter
        needed = [
            each.name
            for each in inspect.signature(type(self)).parameters.values()
            if each.default is kind.empty and each.kind is kind.POSITIONAL_OR_KEYWORD
        ]
        raise ConfigurationError(f"{name}: {why}: write `{name}({', '.join(needed)})`")

    return explained


def explain_arguments(cls: type[Any]) -> None:
    """Refuse wrong arguments of a new class by its name: see `_explained`."""
    if "__init__" in vars(cls):
        setattr(cls, "__init__", _explained(cls.__init__))  # noqa: B010 - no method of mypy's


class Recipe:
    """A recipe at a path that is not held.

    Threads and forks: a recipe is made and used in the client's event loop. Its properties may
    be read, and contexts to enter be made, in any thread; everything else raises `UsageError`
    elsewhere, before it has changed anything.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_arguments(cls)

    @_explained
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
