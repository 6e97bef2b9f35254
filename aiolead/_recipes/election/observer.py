"""Watching an election without taking part in it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import anyio

from ...abc import CoordinationClient, Watch
from ...errors import AioleadError, NoNodeError
from ...events import EventName
from ...model import Participant, SessionState, WatchEvent
from ...paths import join
from .._core.background import Background
from .._core.error_policy import Step, before_next_try
from .._core.reporting import hook_of
from ..contention.layouts import Layout, Role
from ..contention.neighbours import in_line
from ..contention.revocation import participant


@dataclass(frozen=True, slots=True)
class ElectionState:
    """Who leads.

    Attributes:
        leaders: those who lead, first come first; empty if nobody does.
        session_id: the session that this was seen over.
        is_current: False while the link is lost, so that it may have changed since.
    """

    leaders: tuple[Participant, ...]
    session_id: int
    is_current: bool = True

    @property
    def leader(self) -> Participant | None:
        """Who leads, the first of them where several do."""
        return self.leaders[0] if self.leaders else None


@final
class ElectionObserver(Background[ElectionState]):
    """Who leads, and each change of it: `async with election.observe() as states`.

    The latest state wins: who is slow may miss leaders, but never the last one.

    Only the leaders' znodes are watched, and the line itself only while it has fewer contenders
    than may lead: any number of observers and contenders do not disturb each other.
    """

    def __init__(
        self, client: CoordinationClient, path: str, layout: Layout, role: Role, leaders: int
    ) -> None:
        super().__init__(client)
        self._path = path
        self._layout = layout
        self._role = role
        self._leaders = leaders
        self._changed = anyio.Event()
        self._watches: list[Watch] = []
        self._hook = hook_of(client)
        self._tokens: tuple[int, ...] | None = None

    async def _run(self) -> None:
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            while True:
                self._changed = anyio.Event()
                try:
                    leaders = await self._look()
                except AioleadError as error:
                    await before_next_try(self._client, error, Step.FOLLOW)
                    continue
                if leaders is not None:
                    state = ElectionState(tuple(leaders), self._client.session_id)
                    # What a read-only server says may be old, and may be undone.
                    is_current = self._client.state is SessionState.CONNECTED
                    self._publish(replace(state, is_current=is_current))
                    self._tell(state)
                    await self._changed.wait()
        finally:
            unsubscribe()
            self._close_watches()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        if state is SessionState.CONNECTED:
            # A fresh look: what changed meanwhile, and whether the last state still stands.
            self._changed.set()
        elif self.current is not None:
            self._publish(replace(self.current, is_current=False))

    def _tell(self, state: ElectionState) -> None:
        """Tells of others that lead than before; not of those that were found at first."""
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

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _watch(self) -> Watch:
        watch = self._client.backend.make_watch(self._on_event)
        self._watches.append(watch)
        return watch

    def _close_watches(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    async def _look(self) -> list[Participant] | None:
        """Who leads, with watches on what can change it; None if it changed meanwhile."""
        client, path = self._client, self._path
        self._close_watches()
        try:
            names = await client.get_children(path)
            if len(await self._in_order(names)) < self._leaders:
                names = await client.get_children(path, watch=self._watch())
        except NoNodeError:
            return [] if await client.exists(path, watch=self._watch()) is None else None
        line = await self._in_order(names)
        first = [join(path, name) for name in line[: self._leaders]]
        looks = [(node, client.get(node, watch=self._watch())) for node in first]
        leaders: list[Participant] = []
        for node, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                return None
            leaders.append(participant(node, data, stat, is_holder=True))
        return leaders

    async def _in_order(self, names: Sequence[str]) -> list[str]:
        return await in_line(self._client, self._path, names, self._layout, self._role)
