"""The session's lease, as recipes and users see it."""

from __future__ import annotations

from collections.abc import Callable

from ...abc import Hold
from ...errors import LossReason
from ..core import Core


class ClientLease:
    """See `aiolead.abc.Lease`; `prefix` is the chroot of the view that handed it out."""

    __slots__ = ("_core", "_prefix")

    def __init__(self, core: Core, prefix: str) -> None:
        self._core = core
        self._prefix = prefix

    @property
    def deadline(self) -> float:
        return self._core.machine.leases.deadline

    def remaining(self) -> float:
        return max(0.0, self.deadline - self._core.clock())

    def is_enough(self) -> bool:
        return self._core.machine.leases.is_enough(self._core.clock())

    def hold(
        self,
        path: str,
        lost: Callable[[LossReason], object],
        *,
        settled: Callable[[], object] | None = None,
        urgent: bool = False,
        resigns: bool = False,
    ) -> Hold:
        self._core.check_home()
        return self._core.machine.leases.hold(
            self._prefix + path,
            lost,
            settled=settled,
            urgent=urgent,
            resigns=resigns,
            now=self._core.clock(),
        )
