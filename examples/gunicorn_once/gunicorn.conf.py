"""gunicorn's settings, and the hooks of each worker. It reads this by itself where it is started
beside it."""

from pathlib import Path
from typing import Any

chdir = str(Path(__file__).parent)


def post_worker_init(worker: Any) -> None:
    """In each worker, once it has loaded the application: also with `preload_app`."""
    worker.wsgi.start()


def worker_exit(server: Any, worker: Any) -> None:
    """In a worker that ends in good order."""
    if worker.wsgi is not None:
        worker.wsgi.stop()
