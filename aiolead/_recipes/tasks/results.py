"""The results of tasks: waiting for one, and deleting old ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio

from ...abc import CoordinationClient
from ...errors import (
    AioleadError,
    InvalidDataError,
    NoAuthError,
    NoNodeError,
    NotEmptyError,
    SessionError,
)
from ...model import ACL, WatchEvent
from ...paths import join
from .._core.error_policy import Action, Step, action_for, before_next_try
from .._core.reading import catch_up
from .._core.reporting import PathWarnings
from .task_records import TaskResult, decode_result

AT_ONCE = 100
"""How many results are read or deleted in one batch."""


class Results:
    """The results below a path; at a quarter more than `keep`, the oldest are deleted."""

    def __init__(
        self, client: CoordinationClient, path: str, keep: int, acl: Sequence[ACL] | None
    ) -> None:
        self.path = path
        self._client = client
        self._keep = keep
        self.acl = acl
        self._is_trimming = self._is_due = False
        self._set_aside = 0
        """How many results have znodes of others below, as of the last trimming."""
        self._warnings = client.backend.shared(path, PathWarnings)

    # --- waiting ---------------------------------------------------------------------------------

    async def wait_for(self, task: str, task_path: str) -> TaskResult:
        """Wait for the result of a task; see `TaskBoard.result`."""
        client, path = self._client, join(self.path, task)
        has_caught_up = False
        while True:
            try:
                return await self._read(task, path)
            except NoNodeError:
                pass  # not yet
            except AioleadError as error:
                await before_next_try(client, error, Step.ASK)
                continue
            changed = anyio.Event()
            watch = client.backend.make_watch(partial(_set, changed))
            other = client.backend.make_watch(partial(_set, changed))
            try:
                # In this order: a result is created as its task is deleted.
                result = client.exists(path, watch=watch)
                # Servers send no event for an unreadable result, but one for its task's end.
                is_there = client.exists(task_path, watch=other)
                again = client.exists(path)
                if await result is None and await again is None:
                    if await is_there is not None:
                        await changed.wait()
                    elif has_caught_up:
                        raise NoNodeError(task_path)
                    else:
                        # The task may have been submitted through a server that is ahead of this
                        # one.
                        await catch_up(client, task_path)
                        has_caught_up = True
            except AioleadError as error:
                await before_next_try(client, error, Step.ASK)
            finally:
                watch.close()
                other.close()

    async def _read(self, task: str, path: str) -> TaskResult:
        body, stat = await self._client.get(path)
        try:
            return decode_result(task, body)
        except ValueError as error:
            raise InvalidDataError(path, error, version=stat.version) from error

    # --- keeping ---------------------------------------------------------------------------------

    def count(self) -> None:
        """Delete old results in the background if there are too many."""
        self._is_due = True
        if not self._is_trimming:
            self._is_trimming = True
            self._client.backend.spawn(self._trim)

    async def _trim(self) -> None:
        """Delete old results, also of an overloaded server; after other errors the next task does.

        Results that others have put znodes below stay, and are not counted.
        """
        client = self._client
        try:
            while self._is_due:
                self._is_due = False
                try:
                    await self._delete_old()
                except (NoNodeError, SessionError):
                    return
                except AioleadError as error:
                    if action_for(error, Step.FOLLOW) is Action.RECONNECT:
                        return
                    await before_next_try(client, error, Step.FOLLOW)
                    self._is_due = True
        finally:
            self._is_trimming = False

    async def _delete_old(self) -> None:
        client, keep = self._client, self._keep
        stat = await client.exists(self.path)
        if stat is None or stat.num_children - self._set_aside <= keep + keep // 4:
            return
        paths = [join(self.path, name) for name in await client.get_children(self.path)]
        # By age, not by number: a task may have taken long.
        ages: list[tuple[int, str]] = []
        self._set_aside = 0
        for start in range(0, len(paths), AT_ONCE):
            batch = paths[start : start + AT_ONCE]
            for path, look in [(path, client.exists(path)) for path in batch]:
                with suppress(NoAuthError):  # then others trim it
                    found = await look
                    if found is not None and found.num_children:
                        self._pass_over(path)
                    elif found is not None:
                        ages.append((found.czxid, path))
        old = [path for _, path in sorted(ages)][: max(0, len(ages) - keep)]
        for start in range(0, len(old), AT_ONCE):
            batch = old[start : start + AT_ONCE]
            for path, delete in [(path, client.delete(path)) for path in batch]:
                try:
                    await delete
                except NoNodeError:
                    pass  # others trim, too
                except NotEmptyError:
                    self._pass_over(path)

    def _pass_over(self, path: str) -> None:
        self._set_aside += 1
        self._warnings.warn_of_children(path, "Until then the result is kept")


def _set(event: anyio.Event, _: WatchEvent) -> None:
    event.set()
