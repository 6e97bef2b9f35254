"""What every recipe with a line of contenders has: its arguments, and who is in the line."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Literal, TypeVar

import anyio

from ..abc import CoordinationClient
from ..errors import AlreadyHeldError, ConfigurationError, NoNodeError
from ..model import ACL, Participant
from ..paths import join, validate
from .contender import Contender
from .contention import in_order
from .layout import Layout, Role
from .tenure import Tenure

T = TypeVar("T", bound=Tenure)

OnSuspend = Literal["ride-out", "surrender"]

MAX_IDENTITY = 4096
"""Longest identity, in bytes: everybody who lists a line reads them all."""


def default_identity() -> str:
    """Host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


class TaskGuard:
    """Which tasks hold, or wait for, one path of a session: who waits for himself never ends."""

    def __init__(self) -> None:
        self._uses: set[tuple[int, int]] = set()  # (task, object)

    def enter(self, user: object, *, forever: bool) -> int:
        """Marks the current task as using an object, until `leave` is called.

        Args:
            user: the recipe object.
            forever: whether the task is going to wait without a limit. Then it must not hold the
                path by any object; otherwise, not by this one.

        Returns:
            The task, for `leave`.

        Raises:
            AlreadyHeldError: it would wait for itself.
        """
        task = anyio.get_current_task().id
        mine = [other for holder, other in self._uses if holder == task]
        if id(user) in mine or (mine and forever):
            raise AlreadyHeldError(
                f"this task already holds {user!r}, or waits for it: it would wait for itself"
            )
        self._uses.add((task, id(user)))
        return task

    def leave(self, task: int, user: object) -> None:
        self._uses.discard((task, id(user)))


class QueuedRecipe(Generic[T]):
    """A path with a line of contenders, the first `places` of which hold it."""

    _role: ClassVar[Role]

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None,
        places: int,
        layout: Layout,
        on_suspend: OnSuspend,
        acl: Sequence[ACL] | None,
    ) -> None:
        if not isinstance(client, CoordinationClient):
            raise ConfigurationError(
                f"client: must be a client, as `async with aiolead.connect()` gives, not {client!r}"
            )
        validate(path)
        if path == "/":
            raise ConfigurationError("path: the root cannot be contended for")
        if identity is None:
            identity = default_identity()
        if not isinstance(identity, str) or not identity:
            raise ConfigurationError(f"identity: must be a str that is not empty, not {identity!r}")
        try:
            data = identity.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"identity: is not valid Unicode: {identity!r}") from None
        if len(data) > MAX_IDENTITY:
            raise ConfigurationError(
                f"identity: has {len(data)} bytes of UTF-8, at most {MAX_IDENTITY} are allowed"
            )
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        if on_suspend not in ("ride-out", "surrender"):
            raise ConfigurationError(
                f"on_suspend: must be 'ride-out' or 'surrender', not {on_suspend!r}"
            )
        if acl is not None and not (acl and all(isinstance(entry, ACL) for entry in acl)):
            raise ConfigurationError(f"acl: must be a sequence of at least one ACL, not {acl!r}")
        self._client = client.unlimited()
        self._path = path
        self._identity = identity
        self._data = data
        self._places = places
        self._layout = layout
        self._surrender = on_suspend == "surrender"
        self._acl = acl
        self._tasks = client.shared(path, TaskGuard)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

    @property
    def path(self) -> str:
        """The path that is contended for."""
        return self._path

    @property
    def identity(self) -> str:
        """What we call ourselves; others see it."""
        return self._identity

    def _contender(self) -> Contender:
        """A new contender, not in the line yet."""
        return Contender(
            self._client,
            self._path,
            self._layout,
            self._role,
            self._data,
            places=self._places,
            acl=self._acl,
        )

    @abstractmethod
    def _begin(
        self,
        contender: Contender,
        on_lost: Callable[[], object],
        on_resigned: Callable[[], object] | None = None,
    ) -> T:
        """The tenure of a contender that is in front."""

    async def _line(self) -> list[Participant]:
        """Everybody in the line, first come first; in two round trips.

        A contender that leaves between the two is left out.
        """
        client = self._client
        try:
            names = await client.get_children(self._path)
        except NoNodeError:
            return []
        line = in_order(self._path, names, self._layout, self._role)
        looks = [(join(self._path, name), client.get(join(self._path, name))) for name in line]
        found: list[Participant] = []
        for path, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                continue
            found.append(
                Participant(
                    identity=data.decode(errors="replace"),
                    path=path,
                    token=stat.czxid,
                    session_id=stat.ephemeral_owner,
                    is_holder=len(found) < self._places,
                )
            )
        return found


def checked_wait(wait: float | None) -> float | None:
    """How long to wait for a turn.

    Raises:
        ConfigurationError: it is neither None nor a number of seconds that is not negative.
    """
    if wait is None:
        return None
    number = isinstance(wait, (int, float)) and not isinstance(wait, bool)
    if not number or not wait >= 0:
        raise ConfigurationError(f"wait: must be None or seconds from 0 up, not {wait!r}")
    return float(wait)
