"""Every row of the table of signals works; `benchmarks/shutdown.py` takes the times."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from aiolead.testing import EmbeddedServer
from benchmarks.shutdown import ROWS, Row, hand_overs, table

NEVER = 600.0
"""The session timeout, in seconds: a session that is left behind outlives the test."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with EmbeddedServer.in_thread(min_session_timeout=NEVER, max_session_timeout=NEVER) as server:
        yield server.connect_string


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_next_contender_leads_after_a_signal(hosts: str, row: Row) -> None:
    if "celery" in row.name.lower() and importlib.util.find_spec("celery") is None:
        pytest.skip("needs Celery")
    assert len(hand_overs(hosts, row, 1)) == 1


def test_table_shows_the_median_and_the_worst() -> None:
    assert table({"a": [0.001, 0.0104, 0.004]}).splitlines()[2:] == ["| a | 4 ms | 10 ms |"]
