"""ZooKeeper's own shell, `zkCli.sh`, prints the same for the embedded server as for a real one.

One Java process reads all commands from its standard input. The expected output is in `zkcli.txt`,
without the parts that differ between two runs. The test compares both servers with it. The embedded
server has the version of the real one, which is that of the shell, too.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.raw_client import has, text_of_version

from aiolead.testing import EmbeddedServer
from aiolead.testing.installation import find_installation
from aiolead.testing.servers import BlockingServer
from aiolead.types import Feature

pytestmark = pytest.mark.exhaustive("starts programs of ZooKeeper's own in Java")

EXPECTED = Path(__file__).with_name("zkcli.txt")

COMMANDS = """
ls /
create /app data
create -e /app/eph one
create -s /app/seq- two
create -s -e /app/both- three
create -c /app/cont
create -t 50000 /app/ttl x
create /app
create /none/child
create /app/eph/child
get /app
get -s /app/eph
set /app more
set -s -v 1 /app again
set -v 7 /app wrong
stat /app/seq-0000000001
stat /none
ls /app
ls -s /app
ls -R /app
getAllChildrenNumber /app
getEphemerals /app
getEphemerals
getAcl /app
addauth digest ann:secret
create /app/own secret auth:ann:cdrwa
getAcl /app/own
setAcl -s /app/cont world:anyone:r
getAcl -s /app/cont
set /app/cont x
setAcl /app/cont nonsense:x:r
whoami
setquota -n 10 /app
setquota -B 1000 /app
listquota /app
delquota -n /app
listquota /app
delquota /app
listquota /app
sync /app
delete /app
delete /none
delete -v 5 /app/seq-0000000001
delete -v 0 /app/seq-0000000001
get /none
deleteall /app
deleteall /none
ls /
config
addWatch /w
addWatch -m PERSISTENT /w
create /w x
set /w y
removewatches /w
get -w /w
set /w z
stat -w /w
delete /w
history
"""


@pytest.fixture(params=["embedded", "standalone"])
def hosts(request: pytest.FixtureRequest, real_server: BlockingServer) -> Iterator[str]:
    """An empty server that nobody else uses."""
    if request.param == "embedded":
        version = text_of_version(real_server.connect_string)
        with EmbeddedServer.in_thread(version=version) as server:
            yield server.connect_string
    else:
        with BlockingServer() as real:
            yield real.connect_string


def shell(hosts: str, commands: str, events: int) -> tuple[str, str]:
    """Run commands. Return the two outputs of the shell.

    Args:
        hosts: the server.
        commands: its input.
        events: how many there will be. Another thread of the shell prints them, so it is asked to
            quit when it has.
    """
    installation = find_installation()
    command = [
        *(str(installation.java), "-cp", installation.class_path),
        *("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "org.apache.zookeeper.ZooKeeperMain",
        *("-timeout", "10000", "-server", hosts),
    ]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        guard = threading.Timer(50, process.kill)
        guard.start()
        try:
            process.stdin.write(commands.strip() + "\n")
            process.stdin.flush()
            out, seen = [], 0
            while seen < events and (line := process.stdout.readline()):
                out.append(line)
                seen += line.startswith("WatchedEvent ") and "type:None" not in line
            process.stdin.write("quit\n")
            process.stdin.flush()
            out += process.stdout.readlines()
            assert process.wait() == 0
        finally:
            guard.cancel()
        errors.seek(0)
        return "".join(out), errors.read()


# The thread that prints them prints two pieces, between which other lines may come.
_MARK = "\nWATCHER::\n"
_EVENT = re.compile(r"\nWatchedEvent (.*)\n")


def told(out: str, err: str) -> str:
    """The outputs, without the parts that differ between two runs: times, and places of events."""
    out = out.replace(_MARK, "")
    events = [event for event in _EVENT.findall(out) if "type:None" not in event]
    out = _EVENT.sub("", out)
    out = re.sub(r"(?m)^(Connecting to|Welcome to|JLine support).*\n", "", out)
    out = re.sub(r"(?m)time = .*$", "time = TIME", out)
    # Java prints the elements of a set in any order.
    out = re.sub(r"(?m)^\[(.*)\]$", lambda m: ", ".join(sorted(m[1].split(", "))), out)
    out = re.sub(
        r"(?m)(?<=^Auth scheme: User\n)(\w+: \S+\n)+",
        lambda m: "".join(sorted(m[0].splitlines(keepends=True))),
        out,
    )
    # A new server counts its zxids from 1. There is one session.
    owners = re.findall(r"ephemeralOwner = (0x[0-9a-f]{2,})", out)
    for owner in owners:
        out = out.replace(owner, "SESSION")
    err = "".join(line for line in err.splitlines(keepends=True) if not _is_log(line))
    parts = {"It says": out, "Of errors": err, "Of events": "\n".join(events) + "\n"}
    return "\n".join(f"--- {name}\n{text.strip()}" for name, text in parts.items()) + "\n"


def test_lines_between_the_parts_of_an_event() -> None:
    out = "1 - ls\n\nWATCHER::\n2 - config\n\nWatchedEvent state:x\n3 - quit\n"
    parts = told(out, "").split("--- ")
    assert parts[1:] == [
        "It says\n1 - ls\n2 - config\n3 - quit\n",
        "Of errors\n\n",
        "Of events\nstate:x\n",
    ]


def _is_log(line: str) -> bool:
    return re.match(r"\[|\tat |\S*Exception:|log4j|SLF4J|Exiting JVM", line) is not None


@pytest.mark.real
def test_shell_prints_the_same_as_of_a_real_server(hosts: str) -> None:
    expected = EXPECTED.read_text()
    if not has(hosts, Feature.EVENT_ZXIDS):
        expected = re.sub(r"(?m)^(state:.*) zxid: -?\d+$", r"\1", expected)
    events = len(expected.partition("--- Of events\n")[2].splitlines())
    assert told(*shell(hosts, COMMANDS, events)) == expected
