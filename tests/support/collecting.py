"""Collecting tests costs less: no garbage is looked for, and workers share a part of the work.

What is collected lives as long as the process. Without this, the garbage collector would look
through all of it, again and again: a seventh of what the tests took, in pauses that they saw.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    from _pytest.assertion import rewrite

    PARTS = (rewrite._read_pyc, rewrite._rewrite_test, rewrite._write_pyc, rewrite.get_cache_dir)
    SUFFIX, STATE = rewrite.PYC_TAIL, rewrite.assertstate_key
except (ImportError, AttributeError):  # pragma: no cover
    # They are not public. A pytest without them rewrites each module in each worker.
    PARTS = None


class QuickCollection:
    """Collects without the garbage collector, which ignores what it finds ever after. A plugin."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[Any]:
        gc.disable()
        try:
            rewrite_share(session.config)
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


def rewrite_share(config: pytest.Config) -> int:
    """Rewrite the assertions of this worker's share of the test modules, and compile them.

    All workers collect the same modules in the same order, at the same pace. In a fresh clone each
    of them would rewrite them all, which takes longer than to collect them. Whatever another worker
    has not finished when this one comes to it is rewritten here, too.

    Returns:
        how many modules were rewritten.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or PARTS is None or sys.dont_write_bytecode:
        return 0
    read, compiled, write, folder_of = PARTS
    number = int(worker["workerid"].removeprefix("gw"))
    if number >= worker["workercount"]:  # it takes the place of one that crashed
        return 0
    done = 0
    for path in sorted(set(_modules(config)))[number :: worker["workercount"]]:
        cached = folder_of(path) / f"{path.stem}{SUFFIX}"
        if read(path, cached) is None:
            cached.parent.mkdir(parents=True, exist_ok=True)
            source, code = compiled(path, config)
            write(config.stash[STATE], code, source, cached)
            done += 1
    return done


def _modules(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = config.rootpath / argument.partition("::")[0]
        if path.is_dir():
            yield from path.rglob("test_*.py")
