"""The part of a client for recipes and adapters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, final

from ...abc import CoordinationClient, EventHook, Hold, HoldOwner, Reply
from ...errors import AioleadError
from ...model import SessionState, WatchEvent
from .. import loop_affinity
from ..core import Core, T
from .client_watches import ClientWatch
from .operations import Scope
from .pending_reply import PendingReply

if TYPE_CHECKING:
    from ..client_host import ClientHandle


@final
class ClientBackend:
    """See `aiolead.abc.Backend`; one for a client and its `unlimited` views.

    Threads and forks: as `aiolead.abc.Backend`.
    """

    __slots__ = ("_core", "_handle", "_scope", "_unlimited", "_view", "events", "lease")

    def __init__(
        self,
        core: Core,
        scope: Scope,
        handle: ClientHandle | None,
        view: Callable[[Core, str, ClientHandle | None, ClientBackend], CoordinationClient],
    ) -> None:
        self._core = core
        self._scope = scope
        self._handle = handle
        self._view = view
        self._unlimited: CoordinationClient | None = None
        self.events: EventHook = core.reporting.hub.below(scope.prefix, core.clock)
        self.lease: ClientLease = ClientLease(core, scope.prefix)

    @property
    def last_zxid(self) -> int:
        return self._core.machine.last_zxid

    @property
    def is_session_shared(self) -> bool:
        return self._core.is_session_shared

    @property
    def is_forked(self) -> bool:
        return self._core.is_forked

    def check_home(self) -> None:
        self._core.check_home()

    def bind(self, reply: Reply[T]) -> Reply[T]:
        self._core.check_home()
        assert isinstance(reply, PendingReply)
        reply.kind = replace(reply.kind, is_bound=True)
        return reply

    def unlimited(self) -> CoordinationClient:
        if self._unlimited is None:
            self._unlimited = self._view(self._core, self._scope.prefix, self._handle, self)
        return self._unlimited

    def full_path(self, path: str) -> str:
        return self._scope.full(path)

    @property
    def is_session_passed_on(self) -> bool:
        return self._core.machine.is_passed_on

    def sole_in(self) -> float:
        machine = self._core.machine
        return max(0.0, machine.sole_at - self._core.clock()) if machine.is_passed_on else 0.0

    def serial(self) -> int:
        return self._core.serial()

    def gave(self, serial: int) -> bool:
        return self._core.gave(serial)

    def shared(self, path: str | None, make: Callable[[], T]) -> T:
        return self._core.shared("" if path is None else self._scope.full(path), make)

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> ClientWatch:
        self._core.check_home()
        return ClientWatch(self._core, on_event)

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        return self._core.subscribe(on_state)

    def check_connected(self) -> None:
        self._core.check_connected()

    def spawn(
        self,
        job: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object] | None = None,
    ) -> None:
        self._core.spawn(job, on_end)


@final
class ClientLease:
    """See `aiolead.abc.Lease`; `prefix` is the chroot of the view that it belongs to.

    Threads and forks: as `aiolead.abc.Lease`.
    """

    __slots__ = ("_core", "_prefix")

    def __init__(self, core: Core, prefix: str) -> None:
        self._core = core
        self._prefix = prefix

    @property
    def deadline(self) -> float:
        return self._core.machine.leases.deadline

    def remaining(self) -> float:
        core = self._core
        if loop_affinity.process is not core.affinity.process:
            return 0.0  # a forked child holds nothing
        return max(0.0, core.machine.leases.deadline - core.clock())

    def is_enough(self) -> bool:
        core = self._core
        if loop_affinity.process is not core.affinity.process:
            return False
        return core.machine.has_enough_lease(core.clock())

    def expire(self) -> None:
        self._core.expire()

    def hold(
        self,
        path: str,
        owner: HoldOwner,
        *,
        urgent: bool = False,
        resign_on_disconnect: bool = False,
    ) -> Hold:
        self._core.check_home()
        return self._core.machine.leases.hold(
            self._prefix + path,
            owner,
            urgent=urgent,
            resign_on_disconnect=resign_on_disconnect,
            now=self._core.clock(),
        )
