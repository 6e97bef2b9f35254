"""The machine that a run comes from."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path


def describe() -> dict[str, str]:
    """The properties of the machine that matter."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int((_first('/proc/meminfo', 'MemTotal') or '0').split()[0]) / 2**20:.0f} GiB",
        "disk": _disk(Path(tempfile.gettempdir())),
        "system": _system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _system() -> str:
    """Kernel and C library, without what distributors add to their versions."""
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    library = " ".join(platform.libc_ver()).strip()
    is_virtual = "hypervisor" in (_first("/proc/cpuinfo", "flags") or "").split()
    told = (f"{platform.system()} {kernel}", library, "a virtual machine" if is_virtual else "")
    return ", ".join(filter(None, told))


def busy(seconds: float = 1.0) -> float:
    """How much of all cores was used meanwhile, from 0 to 1; nothing of ours is to run then."""
    before = _ticks()
    time.sleep(seconds)
    total, idle = (now - then for now, then in zip(_ticks(), before, strict=True))
    return round(1 - idle / max(total, 1), 3)


def _ticks() -> tuple[int, int]:
    """Of all cores together: in all, and without work."""
    numbers = [int(word) for word in _lines("/proc/stat")[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def _disk(folder: Path) -> str:
    """The disk with the servers' files, and the time of a synchronous write."""
    mounts = [line.split()[1:3] for line in _lines("/proc/mounts")]
    above = [each for each in mounts if folder.resolve().is_relative_to(each[0])]
    _, kind = max(above, key=lambda each: len(each[0]))
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(50):
            os.write(file.fileno(), bytes(512))
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - start)
    return f"{kind}, fdatasync in {1000 * statistics.median(took):.2f} ms"


def _first(file: str, name: str) -> str | None:
    return next(_named(_lines(file), name), None)


def _named(lines: Iterable[str], name: str) -> Iterable[str]:
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            yield value.strip()


def _lines(file: str) -> list[str]:
    return Path(file).read_text("utf-8").splitlines()
