"""Which clients can be adapted; checked before anything is touched."""

from __future__ import annotations

import asyncio
import importlib
import re
from typing import Any

from ...errors import ConfigurationError, UsageError

KNOWN = re.compile(r"0\.32\.\d+")
"""The versions whose private attributes the adapter knows."""


def check_version(zk: object) -> None:
    """Raises `ConfigurationError` unless this is a client of a known version."""
    try:
        aiozk: Any = importlib.import_module("aiozk")
    except ImportError as error:
        raise ConfigurationError(f"zk: needs aiolead[aiozk]: {error}") from None
    version = getattr(aiozk, "__version__", None)
    if not isinstance(version, str) or not KNOWN.fullmatch(version):
        raise ConfigurationError(
            f"zk: aiozk {version} is not known to the adapter, which needs private parts of it: "
            "install aiozk 0.32, or a newer aiolead"
        )
    if not isinstance(zk, aiozk.ZKClient):
        raise ConfigurationError(f"zk: must be an aiozk.ZKClient, not {type(zk).__name__}")


def check_ready(session: Any, plain: type, adapted: type) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "zk: aiozk lives on asyncio, and this runs on another event loop: use aiolead.connect"
        ) from None
    kind: type = type(session)
    if kind is adapted:
        raise UsageError("zk: the client is adapted already: share the client that this has given")
    if kind is not plain:
        raise UsageError(f"zk: its session is a {kind.__name__}, and not aiozk's own")
    task = session.repair_loop_task
    if session.closing or (task is not None and not session.started):
        raise UsageError("zk: the client was closed: make another one, and start it")
    if task is None:
        raise UsageError("zk: the client was not started: await zk.start() first")
    if task.get_loop() is not loop:
        raise UsageError("zk: the client belongs to another event loop: adapt it there")
