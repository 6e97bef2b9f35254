"""Every row of the table of signals works; `benchmarks/shutdown.py` takes the times."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from aiolead.testing import EmbeddedServer
from benchmarks.shutdown import ROWS, HandOver, Row, hand_overs, table

NEVER = 600.0
"""The session timeout, in seconds: a session that is left behind outlives the test."""

NEEDED = {
    "celery": "celery",
    "uvicorn": "fastapi",
    "gunicorn": "uvicorn_worker",
    "hypercorn": "hypercorn",
    "aiohttp": "aiohttp",
}
"""The programs of rows with a word in their names, beside the packages of `make test`."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with EmbeddedServer.in_thread(min_session_timeout=NEVER, max_session_timeout=NEVER) as server:
        yield server.connect_string


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_next_contender_leads_after_a_signal(hosts: str, row: Row) -> None:
    for word, module in NEEDED.items():
        if word in row.name.lower() and importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    assert len(hand_overs(hosts, row, 1)) == 1


def test_table_shows_the_median_and_the_worst() -> None:
    times = [HandOver(0.001, 0.001), HandOver(0.0104, 0.002), HandOver(0.004, 0.003)]
    assert table({"a": times}).splitlines()[2:] == ["| a | 4 ms | 10 ms | 3 ms |"]
