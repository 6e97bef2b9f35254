"""Celery: a task that holds a lock until a file is there."""

import os
import warnings
from pathlib import Path

from celery import Celery
from celery.platforms import SecurityWarning

from aiolead import blocking

warnings.simplefilter("ignore", SecurityWarning)  # tests may run as root
FOLDER = Path(os.environ["FOLDER"])

app = Celery("celery_task", broker="filesystem://")
app.conf.worker_redirect_stdouts = False
app.conf.broker_transport_options = {
    "data_folder_in": str(FOLDER),
    "data_folder_out": str(FOLDER),
    "control_folder": str(FOLDER / "control"),
}


@app.task
def bill() -> None:
    with blocking.connect() as client, blocking.Lock(client, "/hosts/bill") as held:
        print(f"{os.getpid()} holds the lock", flush=True)
        while not (FOLDER / "go on").exists():
            held.check()
            held.lost.wait(0.02)
        print(f"{os.getpid()} has sent the bill", flush=True)
