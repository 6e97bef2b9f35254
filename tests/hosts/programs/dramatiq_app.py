"""dramatiq: a middleware opens the client in each worker process, and closes it."""

import dramatiq
from dramatiq.brokers.stub import StubBroker
from thread_work import Contender


class Contending(dramatiq.Middleware):
    def after_worker_boot(self, broker, worker) -> None:
        self._contender = Contender()
        self._contender.start()

    def before_worker_shutdown(self, broker, worker) -> None:
        self._contender.stop()


broker = StubBroker()
broker.add_middleware(Contending())
dramatiq.set_broker(broker)


@dramatiq.actor
def report() -> None:
    """dramatiq wants an actor."""
