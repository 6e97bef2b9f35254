"""Calling something in another thread, or in a forked child of the process of the tests."""

from __future__ import annotations

import os
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any


def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a thread while this event loop stands still; return or raise its end."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(function())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]


def in_child(function: Callable[[], Any]) -> Any:
    """Call a function in a forked child; return what it returns, which can be pickled.

    The child runs nothing else: neither the event loop nor any clean-up.

    Raises:
        AssertionError: it raised, or the child ended before it returned.
    """
    source, sink = os.pipe()
    with warnings.catch_warnings():
        # Of Python 3.12 and newer: the server has a thread. The child takes no locks of others.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.close(source)
            try:
                answer = (True, function())
            except BaseException as error:
                answer = (False, repr(error))
            with os.fdopen(sink, "wb") as pipe:
                pipe.write(pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    assert data, "the child ended without an answer"
    worked, answer = pickle.loads(data)
    assert worked, answer
    return answer
