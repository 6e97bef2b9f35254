"""`RateGate`: do something at most once per period, whichever process comes first.

The recipe that docs/contributing/adding-a-recipe.md writes step by step, on what the recipes inside
the package are built on: unlike all other examples it imports private modules. As a program it
makes one report a minute, however many processes run it:

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/rate_gate.py
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import anyio

import aiolead
from aiolead._recipes.errors import with_parent
from aiolead._recipes.fixed import Fixed, look_for_ours
from aiolead._recipes.holding import Contest, HeldRecipe
from aiolead._recipes.naming import Departure
from aiolead._recipes.place_parts import Alarm
from aiolead._recipes.recipe import OnDisconnect, checked_number
from aiolead._recipes.rivals import HolderQuery, only_holder
from aiolead._recipes.znode import NodeGone, Znode
from aiolead.abc import CoordinationClient
from aiolead.errors import BadVersionError, Fenced, NodeExistsError, NoNodeError
from aiolead.model import ACL


@final
class RateGate(HeldRecipe[aiolead.Held]):
    """Lets one process in per period.

        gate = RateGate(client, "/jobs/report", period=3600)
        async with gate.try_acquire() as held:
            if held is not None:
                await make_report()

    A run counts from its beginning, and also if it fails. Nobody is let in while another process is
    still inside. Periods are measured by the servers' clock, so the clocks of the processes do not
    matter. It is held, and lost, as an `ExclusiveLock` is.

    Args:
        client: the session that holds it.
        path: the znode that has the token of the last run. Below it, `running` is ephemeral.
        period: seconds from the beginning of a run until the next one may begin.
        identity: the name that others see; host name and process id by default.
        on_disconnect: `"keep"` keeps the hold over a lost connection while the lease lasts,
            `"resign"` ends it at once.
        acl: of both znodes; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        period: float,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        contest = Contest(
            type(self).__name__,
            client,
            path,
            aiolead.Held,
            partial(_run, checked_number("period", period)),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        super().__init__(contest)


def _run(period: float, contest: Contest[Any]) -> _Run:
    return _Run(contest.client, contest.path, contest.data, contest.acl, period)


class _Run:
    """One run: a `Place`."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        acl: Sequence[ACL] | None,
        period: float,
    ) -> None:
        self._client = client
        self._path = path
        self._acl = acl
        self._period = period
        self._alarm = Alarm(client)
        self._naming = Fixed(client, f"{path}/running", is_contended=True)
        self._own = Znode(client, self._naming, data, acl, self._alarm)
        self.is_new = False

    @property
    def znodes(self) -> Sequence[Znode]:
        return (self._own,)

    async def get(self, *, wait: bool) -> bool:
        # After a lost connection it is called again: `resolve` finds out what became of our create.
        while True:
            self._alarm.renew()
            if await self._own.resolve() or await self._create():
                left = await self._mark()
                if left <= 0.0:
                    return True
                self._own.withdraw()
                if not wait:
                    return False
                await anyio.sleep(left)
            elif not wait:
                return False
            elif not await self._is_ours_after_all():
                self.is_new = False
                await self._alarm.wait()

    async def _create(self) -> bool:
        """One request: whether we are inside; False if another process is."""
        try:
            await with_parent(self._client, self._path, self._own.create, acl=self._acl)
        except NodeExistsError:
            return False
        self.is_new = True
        return True

    async def _mark(self) -> float:
        """Marks this run as the last one, or gives the seconds that are left of the period."""
        client, own = self._client, self._own.node
        token = str(own.token).encode()
        while True:
            stat = await client.exists(own.path)
            if stat is None or stat.czxid != own.token:
                self._own.seen_gone()
                raise NodeGone
            data, mark = await client.get(self._path)
            if data == token:
                return 0.0  # the answer to our mark was lost
            # Both are times of the leader's clock.
            left = self._period - (stat.ctime - mark.mtime) / 1000
            if data and left > 0.0:
                return left
            try:
                # A transaction that checks our znode, too: nobody marks without being inside.
                await client.fenced(own.path).set(self._path, token, version=mark.version)
            except Fenced:
                self._own.seen_gone()
                raise NodeGone from None
            except BadVersionError:
                continue  # an operator has set it
            return 0.0

    async def _is_ours_after_all(self) -> bool:
        """Watches the znode of the process that is inside, unless a lost create of ours made it."""
        try:
            watch = self._alarm.watch()
            seen = await look_for_ours(self._client, self._own, self._naming, watch)
            return seen is None
        except NoNodeError:
            self._alarm.set()
            return False

    def unwatch(self) -> None:
        self._alarm.close()

    def restart(self) -> None:
        self._own.withdraw()

    def discard(self) -> Departure | None:
        self._alarm.close()
        return self._own.discard()

    def obstacle(self) -> str:
        return ""

    def holder_query(self) -> HolderQuery:
        return partial(only_holder, self._client, f"{self._path}/running")


async def main() -> None:
    async with aiolead.connect() as client:
        gate = RateGate(client, "/examples/report", period=60)
        async with gate.try_acquire() as held:
            if held is None:
                print("nothing to do: the last report is not a minute old", flush=True)
            else:
                print(f"makes the report, token {held.token}", flush=True)


if __name__ == "__main__":
    from _command import command

    with command(main):
        anyio.run(main)
