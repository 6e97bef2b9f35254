"""aiolead: `Election.leadership` and `Lock.acquire`; the body lives for as long as it may."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

import aiolead
from aiolead.errors import AioleadError, TenureLost

from ..diary import Diary
from ..role import Role
from ..stores import PlainSet, Refused, StoreLink

GLANCE = 0.005
"""How long it does nothing, between two looks at whether it still holds, in seconds."""

PATIENCE = 60.0
"""How long it waits for its first session, in seconds."""


def contend(role: Role, hosts: str, diary: Diary) -> None:
    anyio.run(_contend, role, hosts, diary, backend=role.backend)


async def _contend(role: Role, hosts: str, diary: Diary) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_on_signal, tasks.cancel_scope)
        async with aiolead.connect(
            hosts, session_timeout=role.session_timeout, connect_timeout=PATIENCE
        ) as client:
            client.backend.subscribe(lambda state, session: diary.session(state.value, session))
            diary.session(client.state.value, client.session_id)
            holder = Holder(client, role, diary)
            while True:
                await holder.turn()


async def _cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


class Holder:
    """Has its turns, one after the other, and does with them what its role says."""

    def __init__(self, client: aiolead.Client, role: Role, diary: Diary) -> None:
        self._client = client
        self._role = role
        self._diary = diary
        self._rng = role.rng
        recipe = aiolead.Lock if role.recipe == "aiolead-lock" else aiolead.Election
        layout: aiolead.types.Layout = getattr(aiolead.types.Layout, role.layout or "CURATOR")
        self._recipe = recipe(client, role.line, identity=diary.contender, layout=layout)
        self._plain = PlainSet(role.plain, diary.contender)

    async def turn(self) -> None:
        """Waits for its turn and holds, until it has held long enough or has lost it."""
        recipe, diary = self._recipe, self._diary
        enter = recipe.acquire() if isinstance(recipe, aiolead.Lock) else recipe.leadership()
        diary.joined()
        try:
            async with enter as tenure:
                diary.entered(tenure.token, tenure.path, tenure.session_id)
                try:
                    await self._work(tenure)
                finally:
                    diary.left(lost=tenure.loss.value if tenure.loss else "")
        except TenureLost:
            pass
        except AioleadError:
            diary.withdrew("error")
            raise
        except anyio.get_cancelled_exc_class():
            diary.withdrew("cancelled")
            raise

    async def _work(self, tenure: aiolead.types.Tenure) -> None:
        role = self._role
        until = anyio.current_time() + self._rng.uniform(role.hold_least, role.hold_most)
        stores: list[Callable[[aiolead.types.Tenure], Awaitable[None]]] = []
        if role.plain:
            stores.append(self._add_to_file)
        if role.tokens:
            stores.append(self._add_by_token)
        if role.znode:
            stores.append(self._add_fenced)
        while anyio.current_time() < until:
            # The time comes first: if we are stopped in between, the answer is of a later time.
            at = self._diary.clock()
            self._diary.looked(held=tenure.is_held, at=at)
            for add in stores:
                await add(tenure)
            await anyio.sleep(self._rng.uniform(GLANCE, 4 * GLANCE))

    # --- read, change, write back ----------------------------------------------------------------

    async def _add_to_file(self, tenure: aiolead.types.Tenure) -> None:
        tenure.check()
        elements = self._plain.read()
        await anyio.sleep(self._rng.uniform(0, GLANCE))
        tenure.check()
        element = self._diary.new_element()
        self._plain.write([*elements, element])
        self._diary.added("file", element)

    async def _add_by_token(self, tenure: aiolead.types.Tenure) -> None:
        # No look at the clock: the store is to refuse, whatever we believe.
        link = StoreLink(self._role.tokens, self._diary.contender, tenure.token)
        with suppress(Refused):
            elements = await link.read()
            await anyio.sleep(self._rng.uniform(0, GLANCE))
            element = self._diary.new_element()
            await link.write([*elements, element])
            self._diary.added("tokens", element)

    async def _add_fenced(self, tenure: aiolead.types.Tenure) -> None:
        # No version and no `sync`: the event of the predecessor's end came after all its writes.
        fenced, path = tenure.fenced(), self._role.znode
        # If the link fails, whether it was written is not known: then nothing was confirmed.
        with suppress(AioleadError):
            data, _ = await self._client.get(path)
            await anyio.sleep(self._rng.uniform(0, GLANCE))
            element = self._diary.new_element()
            await fenced.set(path, data + f"{element}\n".encode())
            self._diary.added("znode", element)
