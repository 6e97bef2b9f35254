"""A client in a process that has no threads of its own.

Under gevent and eventlet, threads are greenlets of one thread, which a loop would block.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from kit.checks import no_threads

from aiolead import blocking
from aiolead.errors import UsageError


@pytest.mark.parametrize(
    ("library", "module", "function", "patched"),
    [
        ("gevent", "gevent.monkey", "is_module_patched", "threading"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_replaced_threads_are_refused(
    monkeypatch: pytest.MonkeyPatch, library: str, module: str, function: str, patched: str
) -> None:
    asked = SimpleNamespace(**{function: lambda name: name == patched})
    monkeypatch.setitem(sys.modules, module, asked)
    with pytest.raises(UsageError, match=f"{library} has replaced threads in this process"):
        with blocking.connect("127.0.0.1:1"):
            pass


def test_process_that_can_start_no_thread_is_refused() -> None:
    with no_threads(), pytest.raises(UsageError, match="this process can start none"):
        with blocking.connect("127.0.0.1:1", connect_timeout=0):
            pass


def test_gevent_without_patching_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SimpleNamespace(is_module_patched=lambda name: False)
    monkeypatch.setitem(sys.modules, "gevent.monkey", asked)
    with blocking.connect("127.0.0.1:1", connect_timeout=0):
        pass
