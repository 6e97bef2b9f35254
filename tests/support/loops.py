"""The event loops that coroutine tests run on.

Not in conftest.py: importing that from a test module runs it a second time, and its loops would
then be others than those that pytest knows.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import sys

import pytest
import uvloop

from support.recipes import OVER_AIOZK

# In its debug mode asyncio notes the frames that made each callback, task and future, which is a
# good part of a test's time. One frame says who it was.
setattr(asyncio.constants, "DEBUG_STACK_DEPTH", 1)  # noqa: B010 - declared final


class DebugLoop(asyncio.SelectorEventLoop):
    """A loop in debug mode that does not note who made its futures, tasks and callbacks.

    For futures and tasks that would be the whole stack, whatever the depth that was asked for. What
    finds mistakes goes by the mode itself: calls from other threads, callbacks that are coroutines,
    slow callbacks, and where a coroutine was made that nobody awaits.
    """

    def get_debug(self) -> bool:
        return False


def eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - new in 3.12
    return loop


BACKENDS = [
    pytest.param(("asyncio", {"debug": True, "loop_factory": DebugLoop}), id="asyncio"),
    pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="asyncio+uvloop"),
    pytest.param(("trio", {}), id="trio"),
]
if sys.version_info >= (3, 12):
    BACKENDS.insert(2, pytest.param(("asyncio", {"loop_factory": eager_loop}), id="asyncio+eager"))
if OVER_AIOZK:
    # Without the debug mode, which takes its time: what it finds is found without aiozk.
    BACKENDS[:] = [pytest.param(("asyncio", {}), id="asyncio")]
