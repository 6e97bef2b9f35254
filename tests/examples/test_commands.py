"""Every example as a command: help, a usage line, Ctrl-C, and a server that is not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.pages import ROOT, WHOLE, Program

from aiolead.testing import EmbeddedServer, ThreadedServer
from aiolead.testing.launch import free_ports

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(each.name for each in EXAMPLES.glob("[!_]*.py"))

ENDLESS: dict[str, tuple[str, ...]] = {
    "bounded_buffer.py": ("take", "1"),
    "configuration.py": (),
    "double_barrier.py": ("worker-1",),
    "election_asyncio.py": (),
    "election_trio.py": (),
    "mirror.py": (),
    "observe.py": (),
    "observe_config.py": (),
    "queue_worker.py": (),
    "services.py": ("ask",),
    "shared_work.py": ("anna",),
    "warm_standby.py": ("anna",),
    "who_is_there.py": ("anna",),
}
"""The examples that go on until Ctrl-C, and their arguments."""

NEED_ARGUMENTS = (
    *("bounded_buffer.py", "cron_once.py", "double_barrier.py", "read_write.py", "services.py"),
    *("shared_work.py", "warm_standby.py", "who_is_there.py"),
)


def run(*command: str, hosts: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "AIOLEAD_HOSTS"}
    env |= {"PYTHONPATH": str(ROOT)} | ({} if hosts is None else {"AIOLEAD_HOSTS": hosts})
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=WHOLE,
        cwd=ROOT,
        env=env,
        check=False,
    )


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


@pytest.mark.parametrize("script", [*SCRIPTS, "observability/metrics.py"])
def test_help_describes_the_example(script: str) -> None:
    done = run(f"examples/{script}", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {Path(script).name} [-h]")
    text = (EXAMPLES / script).read_text()
    assert " ".join(text.split('"')[3].split()[:5]) in " ".join(done.stdout.split())


@pytest.mark.parametrize("script", [*NEED_ARGUMENTS, "observability/metrics.py"])
def test_missing_argument_prints_a_usage_line(script: str) -> None:
    done = run(f"examples/{script}")
    assert done.returncode == 2
    assert "the following arguments are required" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("script", ENDLESS)
def test_signal_ends_the_example_with_one_line(
    script: str, number: signal.Signals, server: ThreadedServer
) -> None:
    chroot = f"/{script.partition('.')[0]}"
    hosts = f"{server.connect_string}{chroot}"
    with Program(f"examples/{script}", *ENDLESS[script], hosts=hosts) as program:
        while not server.sessions():  # until it has connected
            time.sleep(0.01)
        program.send(number)
        assert program.finish() == 130, "\n".join(program.lines)
        assert program.lines[-1] == "stopped by Ctrl-C"
        assert not any("Traceback" in line for line in program.lines)


def test_missing_server_is_reported_with_advice() -> None:
    (port,) = free_ports(1)
    done = run("examples/lock_asyncio.py", hosts=f"127.0.0.1:{port}")
    assert done.returncode == 69
    said, line = done.stderr.splitlines()
    assert said.startswith("no server yet, trying: ")
    assert re.search(rf"127\.0\.0\.1:{port}.*\(to start a server: aiolead server\)$", line)


def test_index_has_every_script() -> None:
    index = (EXAMPLES / "README.md").read_text()
    below = {each.parent.name for each in EXAMPLES.glob("*/README.md")}
    for name in (*SCRIPTS, *below):
        assert re.search(rf"\]\({re.escape(name)}/?\)", index), name
    for name in re.findall(r"\]\(([^)#]+)\)", index):
        assert (EXAMPLES / name).exists(), name
