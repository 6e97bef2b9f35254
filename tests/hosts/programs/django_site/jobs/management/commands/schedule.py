"""A command of which one process leads, with `aiolead.blocking`."""

import os
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand

from aiolead import CreateMode, blocking


class Command(BaseCommand):
    help = "Run the schedule while this process leads."

    def handle(self, **options: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        with blocking.connect() as client:
            with blocking.Election(client, "/hosts/scheduler").leadership():
                self._schedule(client)

    def _schedule(self, client: blocking.Client) -> None:
        session = f"{client.session_id:x}"
        client.create("/hosts/at-work", session.encode(), mode=CreateMode.EPHEMERAL)
        self.stdout.write(f"{os.getpid()} leads in session {session}")
        self.stdout.flush()
        try:
            while True:
                signal.pause()
        finally:
            self.stdout.write(f"{os.getpid()} has stopped")
            client.delete("/hosts/at-work")
