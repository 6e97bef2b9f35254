"""Jobs that the threads of several processes share, each done at least once.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/queue_threads.py put resize-1.png resize-2.png
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/queue_threads.py
"""

import logging
import signal
import sys
import threading
from typing import Literal

from _command import command

import aiolead
from aiolead import blocking

WORKERS = 3

log = logging.getLogger("jobs")


def work(queue: blocking.Queue, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            # Nothing cancels a thread, so it looks up now and then.
            with queue.get(timeout=0.5) as item:
                job = item.data.decode()
                log.info("begins %s", job)
                if item.lost.wait(0.2):  # the work, which stops if the claim is lost
                    continue
                item.ack()  # from here on nobody gets it again
                log.info("has done %s", job)
        except aiolead.errors.AcquireTimeout:
            continue  # there is no job
        except aiolead.errors.ClaimLost as lost:
            log.info("somebody else gets it: %s", lost)


def main(what: Literal["work", "put"] = "work", *jobs: str) -> None:
    logging.basicConfig(format="%(threadName)s %(message)s", level=logging.INFO, stream=sys.stdout)
    logging.getLogger("aiolead").setLevel(logging.WARNING)
    with blocking.connect(grace_period=2.5) as client:
        queue = blocking.Queue(client, "/examples/jobs")
        if what == "put":
            queue.put_many([job.encode() for job in jobs])
            log.info("%d jobs put, %d are there", len(jobs), queue.size())
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        workers = [threading.Thread(target=work, args=(queue, stop)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()  # a job that has begun is finished
    log.info("stopped")


with command(main) as arguments:
    main(*arguments)
