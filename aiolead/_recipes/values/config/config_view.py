"""The view of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

from ...._internal_errors import call_back
from ....abc import CoordinationClient
from ....errors import InvalidDataError
from ..._core.arguments import OnInvalid
from ..._core.observe import View
from .config_snapshot import Published, Snapshot, read_snapshot

T = TypeVar("T")


@final
class ConfigView(View[T]):
    """A view of the current configuration, which is always valid. See `View`.

    An invalid version is skipped, and reported by `invalid` and to the configuration's
    `on_invalid`. Entering raises `InvalidDataError` if the present version is invalid.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        parse: Callable[[Snapshot], T],
        on_invalid: OnInvalid | None,
    ) -> None:
        super().__init__(client)
        self._path = path
        self._parse = parse
        self._on_invalid = on_invalid
        self._version = 0
        self._seen: int | None = None
        self._is_other = False
        self._invalid: InvalidDataError | None = None

    @property
    def version(self) -> int:
        """The version number of `value`; 0 before anything was published."""
        self._check_open()
        return self._version

    @property
    def published(self) -> Published[T]:
        """The configuration with its version."""
        return Published(self.value, self._version)

    @property
    def invalid(self) -> InvalidDataError | None:
        """The error of the latest version; None if that is valid, and therefore `value`."""
        return self._invalid

    async def _read(self) -> T:
        try:
            snapshot = await read_snapshot(self._client, self._path, self._watch(self._path))
            value = self._parse(snapshot)
        except InvalidDataError as error:
            if self._seen is None:
                raise
            self._skip(error)
            return self._value
        seen = snapshot.stat.mzxid if snapshot.stat is not None and snapshot.version else 0
        self._is_other = seen != self._seen
        self._seen, self._version, self._invalid = seen, snapshot.version, None
        return value

    def _skip(self, error: InvalidDataError) -> None:
        is_reported = self._invalid is not None and self._invalid.version == error.version
        self._is_other = False
        self._invalid = error
        if self._on_invalid is not None and not is_reported:
            call_back(self._on_invalid, error)

    def _is_news(self, before: T, after: T) -> bool:
        return self._is_other
