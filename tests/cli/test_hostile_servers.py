"""Every command against servers that answer with hostile bytes.

It ends by itself or on a signal, reports the problem, and prints no byte of a server unescaped.
The commands that are tried against one server run at the same time.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen

import pytest
from cli import hostile_servers as hostile
from cli.hostile_servers import HostileServer
from kit.checks import until
from kit.cli import WITHIN, Command, Run, objects
from kit.raw_client import RawClient

from aiolead.cli import exits
from aiolead.cli.app import app

COMMANDS: Mapping[str, Sequence[str]] = {
    "run": ["/l", "--", "true"],
    "lock": ["/l", "--", "true"],
    "once": ["/l", "x", "--", "true"],
    "observe": ["/l"],
    "contenders": ["/l"],
    "revoke": ["/l"],
    "config": ["get", "/l"],
    "quota": ["/l"],
    "ephemerals": ["/l", "--limit", "50"],
    "find": ["/l", "--limit", "50"],
    "grep": ["x", "/l", "--limit", "50"],
    "cp": ["-r", "/l", "/copy", "--limit", "50"],
    "export": ["/l", "--limit", "50"],
    "import": ["/l", "--file", "/dev/null"],
    "members": [],
    "whoami": [],
    "sync": [],
    "top": ["/l"],
    "dashboard": ["/l", "--listen", "127.0.0.1:0"],
    "ls": ["/l", "--long"],
    "tree": ["/l", "--data", "--limit", "50"],
    "get": ["/l/x", "--hex"],
    "stat": ["/l/x"],
    "set": ["/l/x", "data"],
    "edit": ["/l/x"],
    "create": ["/l/y", "data"],
    "rm": ["/l/z"],
    "delete": ["/l/z"],
    "deleteall": ["/l/z"],
    "acl": ["/l/x"],
    "watch": ["/l"],
    "ensemble": [],
    "doctor": ["/l"],
    "bench": ["/l", "--seconds", "0.01"],
    "demo": [],
}
"""The arguments of each command that talks to servers."""

ALONE = {"server", "completion", "help", "shell", "cd", "pwd"}
"""The commands that talk to no server."""

ENDLESS = {"observe", "top", "dashboard", "watch", "run", "lock", "once", "demo"}
"""The commands that may run until a signal, or until another client releases a lock."""

pytestmark = [pytest.mark.timeout(300), pytest.mark.exhaustive("an edge of the command")]

SHORT = ["--connect-timeout", "0.5", "--session-timeout", "2"]
PATIENCE = {"ensemble", "doctor", "dashboard"}
"""The commands that ask servers about themselves, with `--patience`."""


def test_every_command_is_tried() -> None:
    names = {name for name in app if not name.startswith("-")}
    assert names == {*COMMANDS, *ALONE}


@contextmanager
def all_commands(
    hosts: Callable[[str], str], options: Sequence[str], asking: Sequence[str] = ()
) -> Iterator[dict[str, Command]]:
    """Runs all commands, with options of a client and options of `PATIENCE`."""
    with ExitStack() as stack:
        commands = {}
        for name, given in COMMANDS.items():
            at = given.index("--") if "--" in given else len(given)
            more = [*options, *(asking if name in PATIENCE else ())]
            # The demo has a server of its own, unless an option names others.
            more += ["--hosts", hosts(name)] if name == "demo" else []
            command = Command(
                name, *given[:at], *more, *given[at:], hosts=hosts(name), env={"VISUAL": "true"}
            )
            commands[name] = stack.enter_context(command)
        yield commands


def check_output(name: str, command: Command) -> str:
    """The output of a command that has ended: it is escaped, and shows no defect."""
    for stream in (command.out, command.err):
        stream.rest()
    lines = [*command.out.all, *command.err.all]
    raw = [line for line in lines if not line.isprintable()]
    assert not raw, f"{name} prints {raw!r}"
    said = "\n".join(lines)
    assert "--debug shows where" not in said, f"{name}: {said}"
    assert "Traceback" not in said, f"{name}: {said}"
    return said


def end_all(commands: dict[str, Command]) -> dict[str, str]:
    """Ends the endless commands, waits for the others, and checks the output of all."""
    codes = {name: each.finish() for name, each in commands.items() if name not in ENDLESS}
    for name in ENDLESS:
        commands[name].signal(signal.SIGINT)
    codes |= {name: commands[name].finish() for name in ENDLESS}
    said = {name: check_output(name, each) for name, each in commands.items()}
    # A command that was just ending by itself may die of the signal.
    assert all(code >= 0 or code == -signal.SIGINT for code in codes.values()), f"killed: {codes}"
    return said


@pytest.mark.parametrize(
    "behave",
    [
        hostile.close,
        hostile.silence,
        hostile.noise,
        hostile.flood,
        hostile.lines_without_end,
        hostile.drip,
        hostile.http,
        hostile.errors,
        hostile.garbage,
        hostile.lengths,
        hostile.names,
    ],
    ids=lambda behave: behave.__name__,
)
def test_every_command_ends(behave: hostile.Behaviour) -> None:
    with HostileServer(behave) as server, HostileServer(behave) as admin:
        asking = ["--patience", "0.5", "--admin-port", str(admin.port)]
        with all_commands(lambda _: server.hosts, SHORT, asking) as commands:
            said = end_all(commands)
    assert said["doctor"]
    assert said["ensemble"]


@pytest.mark.parametrize(
    ("behave", "number"),
    [
        (hostile.silence, signal.SIGINT),
        (hostile.drip, signal.SIGTERM),
        (hostile.lines_without_end, signal.SIGINT),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_command_stops_on_a_signal(behave: hostile.Behaviour, number: int) -> None:
    """Also while it waits, here for an hour."""
    options = ["--connect-timeout", "3600", "--session-timeout", "3600"]
    with ExitStack() as stack:
        servers = {name: stack.enter_context(HostileServer(behave)) for name in COMMANDS}
        with all_commands(
            lambda name: servers[name].hosts, options, ["--patience", "3600", "--admin-port", "0"]
        ) as commands:
            for name, command in commands.items():
                assert servers[name].was_asked.wait(WITHIN), name
                command.signal(number)
            codes = {name: command.finish() for name, command in commands.items()}
            for name, command in commands.items():
                check_output(name, command)
    if behave is hostile.lines_without_end and codes["ensemble"] == exits.UNAVAILABLE:
        del codes["ensemble"]  # the answer was too long before the signal came
    # A signal is the normal end of some commands.
    assert set(codes.values()) <= {0, 128 + number}, codes


@pytest.fixture
def hostile_znodes(embedded: str, chroot: str) -> Iterator[str]:
    """A queue of contenders with hostile names and hostile data."""
    data = [
        hostile.ESCAPES.encode(),
        b"\xff\xfe\x9b2J",
        b"",
        b"[" * 100_000,
        b'{"weight": 1' + b"0" * 5000 + b"}",
        b"__REVOKE__" + b"\x1b" * 1_000_000,
    ]
    with RawClient(embedded + chroot) as client:
        client.create("")
        client.create("/l")
        for path in ("/l/x", "/l/z"):
            client.create(path, data[0])
        for n, each in enumerate(data):
            for flags in (2, 3):  # persistent and ephemeral
                client.create(f"/l/\u202e\u2028_c_{n}-lock-", each, flags=flags)
        yield embedded + chroot


def test_every_command_escapes_hostile_znodes(hostile_znodes: str) -> None:
    options = ["--session-timeout", "10"]
    with all_commands(lambda _: hostile_znodes, options, ["--admin-port", "0"]) as commands:
        for name in ENDLESS:
            each = commands[name]
            until(lambda each=each: each.out.has_any or each.err.has_any, f"{name} says something")
        said = end_all(commands)
    for name in ("contenders", "doctor", "ls", "top", "tree"):
        assert r"\u202e" in said[name], said[name]


# --- admin servers -------------------------------------------------------------------------------

SRVR = b"Zookeeper version: 3.9.2\nLatency min/avg/max: 0/0.5/9\nZxid: 0x1\nMode: leader\n"


@pytest.mark.promise
@pytest.mark.parametrize("body", hostile.HOSTILE_JSON, ids=range(len(hostile.HOSTILE_JSON)))
def test_hostile_admin_server_is_reported(run: Run, body: bytes) -> None:
    only_srvr = hostile.answering({"srvr": SRVR.decode()})
    with HostileServer(only_srvr) as server, HostileServer(hostile.admin(body)) as admin:
        options = ["--connect-timeout", "0.1", "--admin-port", str(admin.port)]
        for command in (["ensemble"], ["ensemble", "--json"], ["doctor"], ["doctor", "--json"]):
            admin.was_asked.clear()
            code, out, err = run(*command, *options, hosts=server.hosts)
            assert admin.was_asked.is_set()
            assert code == (0 if "ensemble" in command else 69)
            assert all(line.isprintable() for line in [*out, *err])
            assert not any("--debug" in line for line in err)
            if "--json" in command:
                assert objects(out)


def test_refused_read_is_reported_once(run: Run) -> None:
    """The `sync` before it is refused as well."""
    with HostileServer(hostile.hanging_up) as server:
        code, out, err = run("get /l --session-timeout 1", hosts=server.hosts)
        assert (code, out, len(err)) == (exits.UNAVAILABLE, [], 1)
        assert err[0].startswith("aiolead: GET_DATA /l of 15 bytes is refused: ")
        code, out, err = run("sync /l --session-timeout 1", hosts=server.hosts)
        assert (code, out, len(err)) == (exits.UNAVAILABLE, [], 1)
        assert err[0].startswith("aiolead: SYNC /l of 14 bytes is refused: ")


def test_dashboard_survives_a_hostile_admin_server(embedded: str) -> None:
    port = int(embedded.rpartition(":")[2])
    behave = hostile.before(port, {b"srvr": SRVR, b"mntr": b""})
    admin_behave = hostile.admin(hostile.HOSTILE_JSON[0])
    with HostileServer(behave) as server, HostileServer(admin_behave) as admin:
        options = ["--listen", "127.0.0.1:0", "--admin-port", str(admin.port)]
        with Command("dashboard", *options, hosts=server.hosts) as command:
            url = command.out.expect("http://").string
            assert admin.was_asked.wait(WITHIN)

            def shows_the_leader() -> bool:
                with urlopen(f"{url}state", timeout=WITHIN) as answer:
                    servers = (json.load(answer)["servers"] or {}).get("all")
                return bool(servers) and servers[0]["role"] == "leader"

            until(shows_the_leader, "the page has the answer of the server")
            assert command.finish(signal.SIGINT) == 0
            check_output("dashboard", command)
