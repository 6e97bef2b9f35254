"""Celery beat, started by `aiolead run`: it needs no client of its own."""

import os

from celery import Celery, signals

app = Celery("celery_beat", broker="memory://")
app.conf.beat_schedule = {"report": {"task": "report", "schedule": 60.0}}
signals.beat_init.connect(lambda **_: print(f"{os.getpid()} is beat", flush=True), weak=False)
