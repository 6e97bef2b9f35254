"""dramatiq with async actors: the client lives in the event loop of its middleware `AsyncIO`."""

import contextlib

import dramatiq
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware.asyncio import AsyncIO
from work import ELECTION, work

import aiolead


class Contending(dramatiq.Middleware):
    def after_worker_boot(self, broker, worker) -> None:
        get_event_loop_thread().run_coroutine(self._start())

    def before_worker_shutdown(self, broker, worker) -> None:
        get_event_loop_thread().run_coroutine(self._stack.aclose())

    async def _start(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        client = await self._stack.enter_async_context(aiolead.connect())
        election = aiolead.Election(client, ELECTION)
        await self._stack.enter_async_context(election.running(work(client)))


broker = StubBroker()
broker.add_middleware(AsyncIO())
broker.add_middleware(Contending())
dramatiq.set_broker(broker)


@dramatiq.actor
async def report() -> None:
    """dramatiq wants an actor."""
