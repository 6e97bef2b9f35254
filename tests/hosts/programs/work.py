"""What the leader does in each of these programs: it must not begin before the last one ended."""

import contextlib
import os
import time
from collections.abc import Awaitable, Callable

import anyio

import aiolead

ELECTION = "/hosts/scheduler"
AT_WORK = "/hosts/at-work"


def work(client: aiolead.Client) -> Callable[[aiolead.Term], Awaitable[None]]:
    """The worker of `election.run`. The znode `AT_WORK` is there as long as it runs."""

    async def worker(term: aiolead.Term) -> None:
        session = f"{term.session_id:x}"
        try:
            await client.create(AT_WORK, session.encode(), mode=aiolead.CreateMode.EPHEMERAL)
            print(f"{os.getpid()} leads in session {session}", flush=True)
            await anyio.sleep_forever()
        except aiolead.errors.NodeExistsError:
            print("Traceback: two lead at the same time", flush=True)
            raise
        except BaseException:
            print(f"{os.getpid()} is told to stop at {time.monotonic()}", flush=True)
            # Also if it was cancelled before the answer: the request was sent.
            with anyio.CancelScope(shield=True), contextlib.suppress(aiolead.errors.NoNodeError):
                await client.delete(AT_WORK)
            print(f"{os.getpid()} has stopped", flush=True)
            raise

    return worker
