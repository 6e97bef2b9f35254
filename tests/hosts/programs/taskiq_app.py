"""taskiq's worker: the client is opened and closed by events of its broker."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from taskiq import AsyncBroker, BrokerMessage, TaskiqEvents, TaskiqState
from work import ELECTION, work

import aiolead


class Idle(AsyncBroker):
    """A broker without messages."""

    async def kick(self, message: BrokerMessage) -> None:
        raise NotImplementedError

    async def listen(self) -> AsyncGenerator[bytes, None]:
        await asyncio.sleep(3600)
        yield b""


broker = Idle()


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def start(state: TaskiqState) -> None:
    state.stack = stack = contextlib.AsyncExitStack()
    client = await stack.enter_async_context(aiolead.connect())
    election = aiolead.Election(client, ELECTION)
    await stack.enter_async_context(election.running(work(client)))


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def stop(state: TaskiqState) -> None:
    await state.stack.aclose()
