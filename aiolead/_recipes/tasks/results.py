"""The results of tasks: how many are kept, and waiting for one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

from ...abc import CoordinationClient, Reply
from ...errors import (
    AioleadError,
    ConnectionLossError,
    InvalidDataError,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)
from ...model import ACL, Stat, WatchEvent
from ...paths import join
from .._core.catching_up import catch_up
from .._core.error_policy import Step, before_next_try
from .task_records import decode_result
from .task_states import TaskResult

AT_ONCE = 100
"""How many results are asked for, or deleted, in one go."""


class Results:
    """The results below a path, of which the latest are kept.

    Args:
        client: the session.
        path: where the results are.
        keep: how many are kept. When there are a quarter more, the oldest go.
        acl: of the results, and of the path where it has to be created.
    """

    def __init__(
        self, client: CoordinationClient, path: str, keep: int, acl: Sequence[ACL] | None
    ) -> None:
        self.path = path
        self._client = client
        self._keep = keep
        self.acl = acl
        self._is_trimming = False

    async def make(self) -> None:
        """Creates the path."""
        await self._client.ensure_path(self.path, acl=self.acl)

    # --- waiting ---------------------------------------------------------------------------------

    async def wait_for(self, task: str, task_path: str) -> TaskResult:
        """The result of a task, as soon as there is one.

        Raises:
            NoNodeError: there is neither such a task nor a result of it.
            NoAuthError: the result may not be read.
            InvalidDataError: the result makes no sense.
        """
        client, path = self._client, join(self.path, task)
        has_caught_up = False
        while True:
            try:
                return await self._read(task, path)
            except NoNodeError:
                pass  # not yet
            except AioleadError as error:
                await before_next_try(client, error, Step.FOLLOW)
                continue
            changed = anyio.Event()
            watch = client.backend.make_watch(partial(_set, changed))
            other = client.backend.make_watch(partial(_set, changed))
            try:
                # In this order: a task goes as its result comes.
                result = client.exists(path, watch=watch)
                # Servers do not tell of a result that we may not read; but that its task has gone.
                is_there = client.exists(task_path, watch=other)
                again = client.exists(path)
                if await result is None and await again is None:
                    if await is_there is not None:
                        await changed.wait()
                    elif has_caught_up:
                        raise NoNodeError(task_path)
                    else:
                        # This server may know less than that over which it was announced.
                        await catch_up(client, task_path)
                        has_caught_up = True
            except AioleadError as error:
                await before_next_try(client, error, Step.FOLLOW)
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
        """Has old results deleted if there are too many: the client's work, when it gets to it."""
        if not self._is_trimming:
            self._is_trimming = True
            self._client.backend.spawn(self._trim)

    async def _trim(self) -> None:
        client = self._client
        try:
            stat = await client.exists(self.path)
            if stat is None or stat.num_children <= self._keep + self._keep // 4:
                return
            names = await client.get_children(self.path)
            # By their age, not by their numbers: a task may have taken long.
            ages: list[tuple[int, str]] = []
            for start in range(0, len(names), AT_ONCE):
                batch = [join(self.path, name) for name in names[start : start + AT_ONCE]]
                looks: list[tuple[str, Reply[Stat | None]]] = [
                    (path, client.exists(path)) for path in batch
                ]
                for path, look in looks:
                    try:
                        found = await look
                    except NoAuthError:
                        continue  # how old it is is not for us to know: others trim it
                    if found is not None:
                        ages.append((found.czxid, path))
            old = [path for _, path in sorted(ages)][: max(0, len(ages) - self._keep)]
            for start in range(0, len(old), AT_ONCE):
                for delete in [client.delete(path) for path in old[start : start + AT_ONCE]]:
                    try:
                        await delete
                    except NoNodeError:
                        continue  # somebody else was at it
        except (ConnectionLossError, NoNodeError, SessionExpiredError):
            return  # whoever finishes the next task counts again
        finally:
            self._is_trimming = False


def _set(event: anyio.Event, _: WatchEvent) -> None:
    event.set()
