"""The same work in many threads, for peers that have threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .interface import Answer, Stopwatch


def in_threads(
    op: str,
    get: Callable[[str], object],
    make_lock: Callable[[str], Any],
    path: str,
    threads: int,
    each: int,
) -> Answer:
    """Read a znode, or acquire a lock of the thread's own, so often in each thread."""
    begin = threading.Barrier(threads + 1)
    failures: list[BaseException] = []

    def work(lock: Any) -> None:
        begin.wait()
        try:
            for _ in range(each):
                if lock is None:
                    get(path)
                else:
                    with lock:
                        pass
        except BaseException as error:
            failures.append(error)

    locks = [make_lock(f"{path}/{i}") if op == "locks" else None for i in range(threads)]
    running = [threading.Thread(target=work, args=(lock,), daemon=True) for lock in locks]
    for thread in running:
        thread.start()
    with Stopwatch() as watch:
        begin.wait()
        for thread in running:
            thread.join()
    if failures:
        raise failures[0]
    return watch.answer()
