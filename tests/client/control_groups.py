"""Control groups of the kernel, for tests of processes that run out of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from kit.checks import until


@contextmanager
def limited_memory() -> Iterator[Path | None]:
    """A control group with little memory; None where the machine has none or does not allow it."""
    for root in map(Path, ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")):
        group = root / f"aiolead-{os.urandom(4).hex()}"
        with suppress(OSError):
            group.mkdir()
            names = ("memory.limit_in_bytes", "memory.max")
            limit = next((group / name for name in names if (group / name).exists()), None)
            if limit is not None:
                limit.write_text(str(160 << 20))
                break
            group.rmdir()
    else:
        yield None
        return
    yield group
    until(partial(_removed, group), "the control group is removed")


def _removed(group: Path) -> bool:
    with suppress(OSError):  # it still has processes
        group.rmdir()
    return not group.exists()
