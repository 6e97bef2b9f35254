"""The guardian of a pre-fork server belongs to the worker that opened the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from client.guarded import TIMEOUT, guardian_of, is_running
from kit.checks import PATIENCE, until

from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.exhaustive("needs gunicorn and uvicorn"),
]

CONFIG = """
import os
import aiolead.blocking

def post_worker_init(worker):
    connection = aiolead.blocking.connect({hosts!r}, session_timeout={timeout}, close_on_crash=True)
    client = worker.client = connection.__enter__()
    worker.connection = connection
    with open({file!r} + ".new", "w") as file:
        file.write(f"{{os.getpid()}} {{client.session_id}}")
    os.rename({file!r} + ".new", {file!r})
"""


def test_gunicorn(tmp_path: Path) -> None:
    """A worker is killed: its session is closed, and its server starts another one."""
    (tmp_path / "app.py").write_text("def app(environ, start_response): return []\n")
    told = tmp_path / "told"
    with EmbeddedServer.in_thread(max_session_timeout=2 * TIMEOUT) as zookeeper:
        given = {"hosts": zookeeper.connect_string, "timeout": TIMEOUT, "file": str(told)}
        (tmp_path / "config.py").write_text(CONFIG.format(**given))
        command = ["-m", "gunicorn", "-c", "config.py", "-b", f"unix:{tmp_path}/socket", "app:app"]
        server = subprocess.Popen([sys.executable, *command], cwd=tmp_path)
        try:
            until(told.exists, "a worker has connected")
            worker, session = map(int, told.read_text().split())
            guardian = guardian_of(worker)
            assert guardian
            assert guardian_of(server.pid) == 0
            told.unlink()
            os.kill(worker, signal.SIGKILL)
            until(lambda: session not in zookeeper.sessions(), "its session is closed")
            until(lambda: not is_running(guardian), "its guardian has ended")
            until(told.exists, "another worker has connected")
            other, _ = map(int, told.read_text().split())
            assert other != worker
            assert guardian_of(other)
        finally:
            server.terminate()
            server.wait(PATIENCE)
        until(lambda: not zookeeper.sessions(), "all sessions are closed")


APP = """
import contextlib, os
import aiolead

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    async with aiolead.connect({hosts!r}, session_timeout={timeout}, close_on_crash=True) as client:
        with open({file!r} + ".new", "w") as file:
            file.write(f"{{os.getpid()}} {{client.session_id}}")
        os.rename({file!r} + ".new", {file!r})
        await send({{"type": "lifespan.startup.complete"}})
        await receive()
    await send({{"type": "lifespan.shutdown.complete"}})
"""


def test_uvicorn(tmp_path: Path) -> None:
    """Its only worker is its only process; it is killed."""
    told = tmp_path / "told"
    with EmbeddedServer.in_thread(max_session_timeout=2 * TIMEOUT) as zookeeper:
        given = {"hosts": zookeeper.connect_string, "timeout": TIMEOUT, "file": str(told)}
        (tmp_path / "app.py").write_text(APP.format(**given))
        command = ["-m", "uvicorn", "--uds", f"{tmp_path}/socket", "app:app"]
        server = subprocess.Popen([sys.executable, *command], cwd=tmp_path)
        try:
            until(told.exists, "the worker has connected")
            worker, session = map(int, told.read_text().split())
            guardian = guardian_of(worker)
            assert guardian
            os.kill(worker, signal.SIGKILL)
            until(lambda: session not in zookeeper.sessions(), "its session is closed")
            until(lambda: not is_running(guardian), "its guardian has ended")
        finally:
            server.kill()
            server.wait(PATIENCE)
