"""aiozk: `Lock` and `LeaderElection`, with an eye on the state of the session.

aiozk does not notify a holder: `is_locked` and `has_leadership` stay true when the session is lost.
A careful user waits for the session's states SUSPENDED and LOST. So this contender believes that it
holds until it releases or the session's state is one of these.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

import aiozk
from aiozk import exc
from aiozk.states import States

from ..diary import Diary
from ..role import Role
from ..stores import PlainSet

GLANCE = 0.005


def contend(role: Role, hosts: str, diary: Diary) -> None:
    asyncio.run(_contend(role, hosts, diary))


async def _contend(role: Role, hosts: str, diary: Diary) -> None:
    # Its annotations, where it has none, are guessed from the defaults.
    make: Any = aiozk.ZKClient
    client = make(hosts, session_timeout=role.session_timeout)
    await client.start()
    contender = Contender(client, role, diary)
    tasks = [asyncio.create_task(contender.watch_state()), asyncio.create_task(contender.run())]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tasks[1].cancel)
    with suppress(asyncio.CancelledError):
        await tasks[1]
    tasks[0].cancel()
    # Closing may hang without a connection.
    with suppress(TimeoutError, asyncio.TimeoutError, exc.ZKError):
        await asyncio.wait_for(client.close(), role.session_timeout)


class Contender:
    """Has its turns, one after the other."""

    def __init__(self, client: aiozk.ZKClient, role: Role, diary: Diary) -> None:
        self._client = client
        self._role = role
        self._diary = diary
        self._rng = role.rng
        self._believes = False
        self._plain = PlainSet(role.plain, diary.contender)

    async def watch_state(self) -> None:
        """Waits for each change of the session's state, as aiozk lets its users."""
        state = self._client.session.state
        others = (States.SUSPENDED, States.LOST, States.READ_ONLY)
        while True:
            await state.wait_for(States.CONNECTED)
            self._diary.session("connected", self._client.session.session_id or 0)
            await state.wait_for(*others)
            self._diary.session(state.current_state, self._client.session.session_id or 0)
            self._believe_no_more(lost=state.current_state)

    async def run(self) -> None:
        while True:
            self._diary.joined()
            recipe = self._recipe()
            try:
                await self._turn(recipe)
            except exc.ZKError:
                # No connection, or no session: an application tries again.
                self._diary.withdrew("error")
                await asyncio.sleep(0.1)
            finally:
                self._diary.withdrew("cancelled")

    def _recipe(self) -> Any:
        recipes = self._client.recipes
        if self._role.recipe == "aiozk-election":
            return recipes.LeaderElection(self._role.line)
        return recipes.Lock(self._role.line)

    async def _turn(self, recipe: Any) -> None:
        if self._role.recipe == "aiozk-election":
            await recipe.volunteer()
            await recipe.wait_for_leadership()
        else:
            await recipe.acquire()
        self._believes = True
        self._diary.entered()
        try:
            await self._hold()
        finally:
            self._believe_no_more(lost="")
            # A holder that is beaten keeps the process from going on for as long as this takes.
            if self._role.recipe == "aiozk-election":
                await recipe.resign()
            else:
                await recipe.release()

    async def _hold(self) -> None:
        role, loop = self._role, asyncio.get_running_loop()
        ends = loop.time() + self._rng.uniform(role.hold_least, role.hold_most)
        if self._client.session.state != States.CONNECTED:
            self._believe_no_more(lost=self._client.session.state.current_state)
        while self._believes and loop.time() < ends:
            if role.plain:
                await self._add_to_file()
            await asyncio.sleep(GLANCE)

    def _believe_no_more(self, *, lost: str) -> None:
        if self._believes:
            self._believes = False
            self._diary.left(lost=lost)

    async def _add_to_file(self) -> None:
        elements = self._plain.read()
        await asyncio.sleep(self._rng.uniform(0, GLANCE))
        if not self._believes:
            return
        element = self._diary.new_element()
        self._plain.write([*elements, element])
        self._diary.added("file", element)
