"""What the leader does in each of these programs: it must not begin before the last one ended."""

import os
from collections.abc import Awaitable, Callable

import anyio

import aiolead

ELECTION = "/hosts/scheduler"
AT_WORK = "/hosts/at-work"


def work(client: aiolead.Client) -> Callable[[aiolead.Term], Awaitable[None]]:
    """The worker of `election.run`. The znode `AT_WORK` is there as long as it runs."""

    async def worker(term: aiolead.Term) -> None:
        session = f"{term.session_id:x}"
        # It raises NodeExistsError if another leader is at work.
        await client.create(AT_WORK, session.encode(), mode=aiolead.CreateMode.EPHEMERAL)
        print(f"{os.getpid()} leads in session {session}", flush=True)
        try:
            await anyio.sleep_forever()
        finally:
            print(f"{os.getpid()} has stopped", flush=True)
            with anyio.CancelScope(shield=True):
                await client.delete(AT_WORK)

    return worker
