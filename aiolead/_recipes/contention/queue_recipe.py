"""What every recipe with a line of contenders has: who is in the line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

from ...abc import CoordinationClient, Reply
from ...errors import BadVersionError, ConfigurationError, NoNodeError
from ...model import ACL, Participant, Stat
from ...paths import join
from .._core.arguments import OnDisconnect
from .._core.candidate import Candidate
from .._core.holding_recipe import HoldingRecipe
from .._core.tenure import Tenure
from .contender import Contender
from .kernel import holding
from .layouts import Layout, Role
from .local_contenders import LocalContenders
from .neighbours import in_line
from .revocation import asking, is_request, participant

T = TypeVar("T", bound=Tenure)


class QueuedRecipe(HoldingRecipe[T]):
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
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
        layout.require(type(self).__name__, self._role)
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._places = places
        self._layout = layout
        # It lives for as long as anybody has it: what is known of the line outlives a contender.
        self._shared_line = self._client.backend.shared(path, LocalContenders)

    def _candidate(self) -> Contender:
        return Contender(
            self._client,
            self._path,
            self._layout,
            self._role,
            self._data,
            places=self._places,
            acl=self._acl,
        )

    def _begin(
        self,
        candidate: Candidate,
        on_lost: Callable[[], object],
        on_resigned: Callable[[], object] | None = None,
    ) -> T:
        tenure = super()._begin(candidate, on_lost, on_resigned)
        if isinstance(candidate, Contender):
            candidate.when_asked_for(tenure._ask_for)
        return tenure

    async def _line(self) -> list[Participant]:
        """Everybody in the line, first come first; in two round trips.

        A contender that leaves between the two is left out.
        """
        return [who for who, _, _ in await self._line_with_data()]

    async def _line_with_data(self) -> list[tuple[Participant, bytes, Stat]]:
        client = self._client
        try:
            names = await client.get_children(self._path)
        except NoNodeError:
            return []
        line = await in_line(client, self._path, names, self._layout, self._role)
        looks = [(name, client.get(join(self._path, name))) for name in line]
        found: list[tuple[str, bytes, Stat]] = []
        for name, look in looks:
            try:
                found.append((name, *await look))
            except NoNodeError:
                continue
        left = [name for name, _, _ in found]
        holders = holding(left, self._places, self._layout, self._role)
        return [
            (participant(join(self._path, name), data, stat, is_holder=n < holders), data, stat)
            for n, (name, data, stat) in enumerate(found)
        ]

    async def _revoke(self, roles: Sequence[Role]) -> list[Participant]:
        """Asks the holders to let go, but for those that were asked already.

        Args:
            roles: of whom, in a line of readers and writers.

        Returns:
            Whom it has asked.
        """
        asked: list[tuple[Participant, Reply[Stat]]] = []
        for who, data, stat in await self._line_with_data():
            name = who.path.rpartition("/")[2]
            role = Role.READ if self._layout.is_reader(name) else Role.WRITE
            if not who.is_holder or is_request(data) or (role not in roles and self._role.shares):
                continue
            is_ours = self._layout.is_like_ours(role if self._role.shares else self._role, name)
            request = asking(data, is_ours=is_ours)
            # By its version: where others have asked meanwhile, that is enough.
            asked.append((who, self._client.set(who.path, request, version=stat.version)))
        for _, answer in asked:
            with suppress(NoNodeError, BadVersionError):
                await answer
        return [who for who, _ in asked]
