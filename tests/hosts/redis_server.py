"""A Redis of the tests' own, for what is compared with it or needs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.checks import killed_at_the_end, until

from aiolead.testing.launch import free_ports


@contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """Runs a Redis in a directory; gives its port. Skips the test if there is no Redis."""
    server = shutil.which("redis-server")
    if server is None:
        if os.environ.get("AIOLEAD_REQUIRE_REDIS") == "1":
            pytest.fail("AIOLEAD_REQUIRE_REDIS=1, but there is no redis-server", pytrace=False)
        pytest.skip("needs redis-server")
    import redis

    (port,) = free_ports(1)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(
        [server, *options], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with killed_at_the_end(process):
        with redis.Redis(port=port) as client:

            def answers() -> bool:
                try:
                    return bool(client.ping())
                except redis.ConnectionError:
                    return False

            until(answers, "Redis answers")
        yield port
