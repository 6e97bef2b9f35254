"""The complete application: its own tests, and its workers as processes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from kit.pages import PATIENCE, ROOT, Program, end_lost_session

from aiolead.testing import EmbeddedServer

FOLDER = ROOT / "examples" / "application"


def test_own_tests_of_the_application_pass() -> None:
    """As its reader runs them: in their folder, with the plugin that aiolead installs."""
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    arguments = (*command, "--noconftest", "-c", "/dev/null", "--rootdir", str(FOLDER), str(FOLDER))
    with Program(sys.executable, *arguments, cwd=FOLDER) as tests:
        assert tests.finish() == 0, tests.lines
        assert "3 passed" in tests.lines[-1]


def _status(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return json.load(response)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_as_processes(tmp_path: Path, how: signal.Signals) -> None:
    """One sends; when it is restarted or killed another one does, and tokens rise in the file."""
    database = tmp_path / "invoices.db"
    options = "--workers 3 --timeout-worker-healthcheck 30 --port 0"
    command = ("-m", "uvicorn", "--factory", *options.split(), "--app-dir", str(FOLDER))
    with EmbeddedServer.in_thread() as zookeeper:
        os.environ["DATABASE"] = str(database)
        try:
            hosts = zookeeper.connect_string
            server = Program(sys.executable, *command, "app:create_app", hosts=hosts)
        finally:
            del os.environ["DATABASE"]
        with server:
            url = server.wait_for(r"running on (http://\S+)")[1]
            first = int(server.wait_for(r"(\d+) leads, token \d+")[1])
            server.wait_for(rf"{first} sent invoice \d+")
            assert str(_status(url)["leader"]).endswith(f":{first}")
            os.kill(first, how)
            if how is signal.SIGKILL:
                end_lost_session(zookeeper)
            second = int(server.wait_for(r"(\d+) leads, token \d+")[1])
            assert second != first
            server.wait_for(rf"{second} sent invoice \d+")
            assert server.finish(signal.SIGTERM) == 0
            assert not any("Traceback" in line for line in server.lines), server.lines
        assert zookeeper.sessions() == {}, "workers that stop in good order close their sessions"
    with closing(sqlite3.connect(database)) as finished:
        rows = finished.execute("SELECT token FROM invoices ORDER BY number")
        tokens = [token for (token,) in rows]
    assert tokens == sorted(tokens)
    assert len(set(tokens)) >= 2
