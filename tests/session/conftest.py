"""A scripted conversation with a session, which has neither a socket nor a clock."""

from __future__ import annotations

import pytest
from session.script import Script, connected


@pytest.fixture
def script() -> Script:
    return connected()
