"""Tasks and their schedule. Of Celery's beat there must be one; aiolead sees to that.

AIOLEAD_HOSTS=127.0.0.1:2181 \
    aiolead run --forever /examples/beat -- celery --workdir examples/celery_beat -A tasks beat
"""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))

app.conf.beat_schedule = {
    "report": {
        "task": "tasks.report",
        "schedule": 1.0,
        # Each task carries the fencing token of beat's leadership, which `aiolead run` passes to
        # beat.
        "options": {"headers": {"token": os.environ.get("AIOLEAD_TOKEN")}},
    },
}


@app.task(bind=True)
def report(self) -> None:
    """Run by Celery's workers, wherever they are."""
    print(f"report, token {self.request.headers['token']}", flush=True)
