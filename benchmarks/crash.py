"""How long nobody leads after a crash of the leader, with its session guardian and without.

A real ensemble of three servers, and three contenders, each a process, all on this machine. In each
trial the leader ends: it is killed, or has a segmentation fault, or exits at once, or uses up the
memory of its control group. The time counts from the system call that ends it (without memory: from
its last sign of life), to the first line of the next leader's body. In each trial, the last sign of
life of all threads of the dead has to be earlier than that line.

    python -m benchmarks.crash --trials 200
    python -m benchmarks.crash --trials 200 --command        # `aiolead run` and its command
    python -m benchmarks.crash --trials 3 --without          # for contrast

docs/explanation/guardian.md quotes the numbers.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from client.control_groups import limited_memory
from client.guarded import Owner

from aiolead.testing import BlockingEnsemble

TIMEOUT = 10.0
"""The session timeout, in seconds."""

CONTENDERS = 3

COMMAND = """
import sys, time
print(time.monotonic(), flush=True)
with open(sys.argv[1], "w") as file:
    while True:
        file.seek(0)
        file.write(f"{time.monotonic():020.9f}")
        file.flush()
        time.sleep(0.0005)
"""
"""The command that `aiolead run` runs: it says when it begins, and shows that it lives."""


def summary(times: list[float]) -> str:
    times = sorted(times)
    # The value that 99 of 100 do not exceed.
    p99 = times[min(len(times) - 1, -(-len(times) * 99 // 100) - 1)]
    return (
        f"min {times[0] * 1000:.1f}, median {statistics.median(times) * 1000:.1f}, "
        f"p99 {p99 * 1000:.1f}, max {times[-1] * 1000:.1f} ms"
    )


def crashes(
    hosts: str, folder: Path, trials: int, end: str, settings: dict[str, Any]
) -> list[float]:
    """The seconds without a leader, of each trial. Raises `AssertionError` if two led at once."""
    times: list[float] = []
    with ExitStack() as stack:

        def start() -> Owner:
            more = {}
            if end == "out-of-memory":
                more["cgroup"] = str(stack.enter_context(limited_memory()))
            owner = stack.enter_context(Owner(hosts, folder, **settings, **more))
            owner.expect("connected")
            return owner

        queue = deque([start()])
        queue[0].expect("holds")
        while len(queue) < CONTENDERS:
            queue.append(start())
        for _ in range(trials):
            time.sleep(0.05)  # the newcomer has joined the queue, and all is quiet
            leader = queue.popleft()
            begin = time.monotonic()
            leader.process.kill() if end == "SIGKILL" else leader.order(end)
            led = queue[0].expect("holds")["at"]
            assert leader.last_sign_of_life < led, "the dead was alive while the next one led"
            leader.process.wait()
            times.append(led - (leader.last_sign_of_life if end == "out-of-memory" else begin))
            queue.append(start())
    return times


def commands(hosts: str, folder: Path, trials: int, options: list[str]) -> list[float]:
    """The same for `aiolead run`: until the first line of the next command."""
    times: list[float] = []
    run = [sys.executable, "-m", "aiolead", "run", "--hosts", hosts, *options]
    run += ["--session-timeout", str(TIMEOUT), "/jobs", "--"]
    processes: deque[tuple[subprocess.Popen[str], Path]] = deque()

    def start() -> None:
        life = folder / f"command-{os.urandom(4).hex()}"
        command = [*run, sys.executable, "-I", "-S", "-c", COMMAND, str(life)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        said = []
        while not (said and "waits" in said[-1]):
            said.append(process.stderr.readline())
            assert said[-1], f"it has ended: {said}"
        processes.append((process, life))

    def first_line() -> float:
        stream = processes[0][0].stdout
        assert stream is not None
        return float(stream.readline())

    try:
        start()
        first_line()
        start()
        for _ in range(trials):
            time.sleep(0.2)  # the second one has joined the queue, and the command works
            process, life = processes.popleft()
            begin = time.monotonic()
            process.kill()
            began = first_line()
            assert float(life.read_text()) < began, "two commands at once"
            process.communicate()
            times.append(began - begin)
            start()
    finally:
        for process, _ in processes:
            process.send_signal(signal.SIGTERM)
        for process, _ in processes:
            process.communicate()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--loops", nargs="+", default=["asyncio", "trio"])
    ends = ["SIGKILL", "segfault", "os._exit", "out-of-memory"]
    parser.add_argument("--ends", nargs="+", choices=ends, default=["SIGKILL"])
    parser.add_argument("--threads", type=int, default=1, help="that work in each contender")
    parser.add_argument("--command", action="store_true", help="`aiolead run`")
    parser.add_argument("--without", action="store_true", help="without a guardian")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="aiolead-crash-") as folder,
        BlockingEnsemble(3) as ensemble,
    ):
        hosts = ensemble.connect_string
        for loop in arguments.loops:
            if arguments.command:
                options = ["--backend", loop, *["--no-close-on-crash"][: arguments.without]]
                times = commands(hosts, Path(folder), arguments.trials, options)
                print(f"{loop}, aiolead run, {len(times)} trials: {summary(times)}", flush=True)
                continue
            settings = {
                "backend": loop,
                "timeout": TIMEOUT,
                "threads": arguments.threads,
                "election": True,
                "connect": {"close_on_crash": not arguments.without},
            }
            for end in arguments.ends:
                times = crashes(hosts, Path(folder), arguments.trials, end, settings)
                print(f"{loop}, {end}, {len(times)} trials: {summary(times)}", flush=True)


if __name__ == "__main__":
    main()
