"""One reading of the servers for all views of the same thing in one session.

A thousand observers of an election cost the servers as much as one. The first view starts the
reading, the others join it, and the last one that leaves ends it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, TypeVar

import anyio

from ...abc import CoordinationClient
from .observation import Observation
from .observe import View

T = TypeVar("T")


class SharedReading(View[T]):
    """A view that passes each reading on to the views that share it. Not for users."""

    def __init__(self, client: CoordinationClient) -> None:
        super().__init__(client)
        self.views: dict[SharedView[T], None] = {}  # ordered, unlike a set
        self._began_with: set[SharedView[T]] = set()
        """The views that were there when the present reading began."""
        self._is_outdated = False

    @property
    def has_ended(self) -> bool:
        return self._closed or self._ended.is_set()

    def start(self) -> None:
        self._client.backend.spawn(self._job, self._end)

    def add(self, view: SharedView[T]) -> None:
        """Pass on what is known, if nothing can have changed since; else the next reading."""
        self.views[view] = None
        if self.is_live and not self._is_outdated:
            view._publish(self._latest)

    async def remove(self, view: SharedView[T]) -> None:
        """End the reading if that was the last view."""
        del self.views[view]
        if not self.views:
            self._close()
            with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
                await self._ended.wait()

    async def follow(self) -> None:
        """Wait for the end of the reading; raise why it has ended."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    async def _look(self) -> Observation[T]:
        self._began_with = set(self.views)
        return await super()._look()

    def _publish(self, observation: Observation[T]) -> None:
        self._is_outdated = False
        super()._publish(observation)
        is_live = self.is_live
        for view in list(self.views):
            # A view that has joined during the reading must see what its client wrote before.
            if is_live or view in self._began_with:
                view._publish(observation)

    def _outdate(self, observation: Observation[T]) -> None:
        """Pass on what was not read now; views that have nothing yet wait for a reading."""
        self._is_outdated = True
        super()._publish(observation)
        for view in list(self.views):
            if view._count:
                view._publish(observation)


class SharedReadings:
    """The readings of one session at one path, by what is read there."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, SharedReading[Any]] = {}


class SharedView(View[T]):
    """A view that shares its reading with all others of the session with the same path and key."""

    _reading: SharedReading[T]

    def __init__(self, client: CoordinationClient, path: str, key: Hashable = None) -> None:
        super().__init__(client)
        self._path = path
        self._readings = client.backend.shared(path, SharedReadings)
        # Views of the client with another chroot name the same znodes by other paths.
        self._key = (type(self), path, key)

    @abstractmethod
    def _make_reading(self) -> SharedReading[T]:
        """Return the reading to start when there is none."""

    @property
    def is_live(self) -> bool:
        return super().is_live and self._reading.is_live

    async def _run(self) -> None:
        by_key = self._readings.by_key
        reading: SharedReading[T] | None = by_key.get(self._key)
        if reading is None or reading.has_ended:
            if self._client.state.is_final:
                await self._client.ready()  # raises what became of the client
            reading = by_key[self._key] = self._make_reading()
            reading.start()
        self._reading = reading
        reading.add(self)
        try:
            await reading.follow()
        finally:
            await reading.remove(self)
            if reading.has_ended and by_key.get(self._key) is reading:
                del by_key[self._key]

    async def _read(self) -> Observation[T]:
        raise AssertionError("the shared reading reads")
