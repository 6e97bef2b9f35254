"""Celery's worker: each process of the pool has a client, opened after the fork."""

import os
import warnings

from celery import Celery, signals
from celery.platforms import SecurityWarning
from thread_work import Contender

app = Celery("celery_app", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))
app.conf.worker_redirect_stdouts = False
warnings.simplefilter("ignore", SecurityWarning)  # tests may run as root

IN_POOL = os.environ.get("POOL", "prefork") == "prefork"
contenders: list[Contender] = []


def start(**_: object) -> None:
    contenders.append(Contender())
    contenders[0].start()


def stop(**_: object) -> None:
    contenders[0].stop()


if IN_POOL:
    signals.worker_process_init.connect(start)
    signals.worker_process_shutdown.connect(stop)
else:  # solo, threads: one process
    signals.worker_ready.connect(start)
    signals.worker_shutdown.connect(stop)
