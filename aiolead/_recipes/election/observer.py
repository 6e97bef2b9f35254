"""A view of an election, for programs that do not contend."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import final

from ..._util.contender_names import leaders_of, leading
from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...events import EventName
from ...model import Participant, SessionState
from ...paths import join
from .._core.observation import Observation, plain
from .._core.participants import participant
from .._core.reporting import hook_of
from .._core.sharing import SharedReading, SharedView
from ..contention.layouts import Layout, Role
from ..contention.neighbours import queue_order


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The leaders at one moment.

    Attributes:
        leaders: the leaders, first come first; empty if there are none.
        session_id: the session in which this was seen.
        is_current: False while the connection is lost, so that it may have changed since.
    """

    leaders: tuple[Participant, ...]
    session_id: int
    is_current: bool = True

    @property
    def leader(self) -> Participant | None:
        """The leader, the first one if there are several; None if there is none."""
        return self.leaders[0] if self.leaders else None


@final
class ElectionObserver(SharedView[ElectionState]):
    """The leaders, and each change of them: `async with election.observe() as view`. See `View`.

    Only the leaders' znodes are watched, and the queue only while it has fewer contenders than may
    lead: any number of observers and contenders do not disturb each other. The observers of one
    client share their reads.
    """

    def __init__(
        self, client: CoordinationClient, path: str, layout: Layout, role: Role, leaders: int
    ) -> None:
        super().__init__(client, path, (layout, role, leaders))
        self._layout = layout
        self._role = role
        self._leaders = leaders
        self._hook = hook_of(client)
        self._tokens: tuple[int, ...] | None = None

    def _make_reading(self) -> _LeaderReading:
        return _LeaderReading(self._client, self._path, self._layout, self._role, self._leaders)

    def _publish(self, observation: Observation[ElectionState]) -> None:
        super()._publish(observation)
        self._report(observation.value)

    def _report(self, state: ElectionState) -> None:
        """Report other leaders than before; not those of the first reading."""
        tokens = tuple(who.token for who in state.leaders)
        before, self._tokens = self._tokens, tokens
        if before is None or before == tokens:
            return
        leader = state.leader
        self._hook.emit(
            EventName.ELECTION_CHANGED,
            logging.INFO,
            session_id=state.session_id,
            path=self._path,
            fields={
                "identity": "" if leader is None else leader.identity,
                "token": 0 if leader is None else leader.token,
                "leaders": len(tokens),
            },
        )


@final
class _LeaderReading(SharedReading[ElectionState]):
    """Reads the leaders for all observers of one client."""

    def __init__(
        self, client: CoordinationClient, path: str, layout: Layout, role: Role, leaders: int
    ) -> None:
        super().__init__(client)
        self._path = path
        self._layout = layout
        self._role = role
        self._leaders = leaders

    def _publish(self, observation: Observation[ElectionState]) -> None:
        # A read-only server's answer may be old, and may be undone.
        is_current = self._client.state is SessionState.CONNECTED
        super()._publish(plain(replace(observation.value, is_current=is_current)))

    def _on_state(self, state: SessionState, session_id: int) -> None:
        super()._on_state(state, session_id)
        if self._count and state is not SessionState.CONNECTED:
            self._outdate(plain(replace(self._latest.value, is_current=False)))

    async def _read(self) -> Observation[ElectionState]:
        leaders = None
        while leaders is None:
            leaders = await self._read_leaders()
        return plain(ElectionState(tuple(leaders), self._client.session_id))

    async def _read_leaders(self) -> list[Participant] | None:
        """The leaders, with watches on what can change them; None if they changed meanwhile."""
        client, path = self._client, self._path
        self._asked.clear()
        try:
            queue = await self._queue(await client.get_children(path))
            if self._may_the_next_lead(queue):
                names = await client.get_children(path, watch=self._watch("the queue"))
                queue = await self._queue(names)
        except NoNodeError:
            self._drop_watches(["the queue"] if "the queue" in self._watches else [])
            there = await client.exists(path, watch=self._watch("the path"))
            return [] if there is None else None
        count = leading(queue, self._leaders)
        # The first that waits only because others allow fewer leaders: if it goes, those behind it
        # may lead.
        restricted = queue[count : count + 1] if count < self._leaders else []
        looks = [
            (name, client.get(join(path, name), watch=self._watch(name)))
            for name in (*queue[:count], *restricted)
        ]
        leaders: list[Participant] = []
        for name, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                self._unwatch(name)
                return None
            leaders.append(participant(join(path, name), data, stat, is_holder=True))
        return leaders[:count]

    def _may_the_next_lead(self, queue: list[str]) -> bool:
        """Whether a contender that joins now might lead, so that the queue has to be watched."""
        if len(queue) >= self._leaders:
            return False
        return len(queue) < min(map(leaders_of, queue), default=self._leaders)

    async def _queue(self, names: list[str]) -> list[str]:
        return await queue_order(self._client, self._path, names, self._layout, self._role)
