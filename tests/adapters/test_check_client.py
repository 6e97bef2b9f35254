"""aiolead's own client and the adapted aiozk client keep every promise of the client interface."""

from __future__ import annotations

import logging

import aiozk
import pytest
from adapters.aiozk_peer import Adapted
from adapters.checking import check_client
from kit.faults import only_on

import aiolead

TIMEOUT = 2.0

pytestmark = pytest.mark.keeps_time(TIMEOUT)


async def test_own_client_keeps_every_promise(internal_errors: list[logging.LogRecord]) -> None:
    await check_client(lambda hosts: aiolead.connect(hosts, session_timeout=TIMEOUT), patience=20)
    assert len(internal_errors) == 1  # that of a promise about them


@pytest.mark.exhaustive("a client of another library")
@only_on("asyncio")
async def test_adapted_client_keeps_every_promise(
    internal_errors: list[logging.LogRecord],
) -> None:
    assert aiozk.__version__.startswith("0.32.")
    await check_client(lambda hosts: Adapted(hosts, session_timeout=TIMEOUT), patience=20)
