"""The servers that the command is tried on."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["embedded", pytest.param("standalone", marks=pytest.mark.real)])
def hosts(request: pytest.FixtureRequest, chroot: str) -> str:
    """A connect string; its chroot does not exist, as in a ZooKeeper that is new."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded") + chroot
    return request.getfixturevalue("zookeeper").connect_string + chroot


@pytest.fixture
def somewhere(embedded: str, chroot: str) -> str:
    """As `hosts`, but always the embedded server: for what does not depend on it."""
    return embedded + chroot
