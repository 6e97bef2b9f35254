"""arq: `on_startup` opens the client, and `on_shutdown` closes it, in another task."""

import contextlib
import os
import warnings
from typing import Any

from arq.connections import RedisSettings
from work import ELECTION, work

import aiolead

warnings.filterwarnings("ignore", "Call to deprecated close")  # by arq, of redis


async def report(context: dict[str, Any]) -> None:
    """arq wants a function."""


async def start(context: dict[str, Any]) -> None:
    context["stack"] = stack = contextlib.AsyncExitStack()
    client = await stack.enter_async_context(aiolead.connect())
    election = aiolead.Election(client, ELECTION)
    await stack.enter_async_context(election.running(work(client)))


async def stop(context: dict[str, Any]) -> None:
    await context["stack"].aclose()


class WorkerSettings:
    functions = (report,)
    on_startup = start
    on_shutdown = stop
    redis_settings = RedisSettings(port=int(os.environ["REDIS_PORT"]))
