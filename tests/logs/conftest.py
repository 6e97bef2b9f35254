"""The log of the library, as the tests read it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from logs.log_lines import Lines


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    with caplog.at_level(logging.INFO, "aiolead"):
        yield Lines(caplog)
