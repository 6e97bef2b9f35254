"""An election among hosts of aiolead: hosts.py says what a stop has to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts.hosts import HostedElection, hosted_election


@pytest.fixture
def election() -> Iterator[HostedElection]:
    with hosted_election() as election:
        yield election
