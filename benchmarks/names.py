"""The costs of dead nameservers, slow names and dead addresses, beside kazoo.

A network namespace with a small DNS server; an embedded server behind several addresses; clients as
processes, with the system's resolver and a session timeout of ten seconds. In each trial a client
connects by names, and acquires a lock. Then the server that it is connected to crashes, or all of
them get new addresses. An address of a dead server drops every packet.

    python -m benchmarks.names                          # 3 trials of each row, ten minutes
    python -m benchmarks.names --trials 1 --clients aiolead-trio kazoo "all addresses"

It needs `ip` and `unshare`, and a system that allows user namespaces, or root.
benchmarks/README.md quotes the table.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from benchmarks.names_network import (
    DEAD_DNS_SERVER,
    DNS_SERVER,
    NamesNetwork,
    in_namespaces,
    set_up,
)

TIMEOUT = 10.0
"""The session timeout, in seconds."""

PATIENCE = 60.0
"""How long a client may take to connect, in seconds."""

HOSTS = "zk1.test,zk2.test,zk3.test"

OLD = {f"zk{n}.test": f"10.8.0.{n}" for n in (1, 2, 3)}
NEW = {f"zk{n}.test": f"10.8.1.{n}" for n in (1, 2, 3)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial.

    Attributes:
        connected: how long connecting took, in seconds.
        back: how long it took until a request was answered after the change, in seconds.
        is_kept: whether the lock was held all the time, in the same session.
    """

    connected: float
    back: float
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Attributes:
    name: the name in the table.
    hosts: the connect string of the client.
    before: prepares the network.
    change: what happens while the client holds the lock.
    """

    name: str
    hosts: str
    before: Callable[[NamesNetwork], None]
    change: Callable[[NamesNetwork], None]


# --- what is wrong with the network ----------------------------------------------------------


def three_servers(network: NamesNetwork) -> None:
    network.up(*OLD.values())
    network.dns.names = {name: [address] for name, address in OLD.items()}


def dead_nameserver(network: NamesNetwork) -> None:
    three_servers(network)
    network.ask(DEAD_DNS_SERVER, DNS_SERVER)


def slow_names(network: NamesNetwork) -> None:
    three_servers(network)
    network.dns.delay = 2.0


def dead_addresses(network: NamesNetwork) -> None:
    """Two of five addresses of one name, in whatever order the client tries them."""
    network.up(*(f"10.8.0.{n}" for n in (1, 2, 3)))
    network.dns.names = {"zk.test": [f"10.8.0.{n}" for n in range(1, 6)]}


def dead_ipv6(network: NamesNetwork) -> None:
    network.up(*OLD.values())
    network.dns.names = {name: [f"fd00:8::{address[-1]}", address] for name, address in OLD.items()}


def crash(network: NamesNetwork) -> None:
    network.crash(*network.in_use())


def move(network: NamesNetwork) -> None:
    network.up(*NEW.values())
    network.dns.names = {name: [address] for name, address in NEW.items()}
    network.crash(*OLD.values())


ROWS = [
    Row("three servers, one crashes", HOSTS, three_servers, crash),
    Row("the first nameserver is dead, a server crashes", HOSTS, dead_nameserver, crash),
    Row("names take 2 s, a server crashes", HOSTS, slow_names, crash),
    Row("all addresses are new, names are fast", HOSTS, three_servers, move),
    Row("all addresses are new, names take 2 s", HOSTS, slow_names, move),
    Row("all addresses are new, the first nameserver is dead", HOSTS, dead_nameserver, move),
    Row(
        "2 of 5 addresses of a name are dead, a third one crashes", "zk.test", dead_addresses, crash
    ),
    Row("IPv6 addresses are dead, a server crashes", HOSTS, dead_ipv6, crash),
]


# --- the clients -----------------------------------------------------------------------------


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def aiolead_client(backend: str, hosts: str) -> None:
    import anyio

    import aiolead

    async def main() -> None:
        say("starts")
        try:
            async with (
                aiolead.connect(hosts, session_timeout=TIMEOUT, connect_timeout=PATIENCE) as client,
                aiolead.Lock(client, "/names").acquire() as held,
            ):
                session = client.session_id
                say("holds")
                await anyio.to_thread.run_sync(sys.stdin.readline)
                while True:
                    try:
                        await client.exists("/")
                        break
                    except aiolead.errors.ConnectionLossError:
                        pass
                say(held.is_held and client.session_id == session)
        except aiolead.LockLost:
            say(False)

    options = {}
    if backend == "uvloop":
        backend, options = "asyncio", {"use_uvloop": True}
    anyio.run(main, backend=backend, backend_options=options)


def kazoo_client(hosts: str) -> None:
    import kazoo.client
    import kazoo.exceptions

    say("starts")
    client = kazoo.client.KazooClient(hosts, timeout=TIMEOUT)
    lost: list[str] = []
    client.add_listener(lambda state: lost.append(state) if state == "LOST" else None)
    client.start(timeout=PATIENCE)
    client.Lock("/names").acquire()
    session, _ = client.client_id
    lost.clear()
    say("holds")
    sys.stdin.readline()
    while True:
        try:
            client.exists("/")
            break
        except kazoo.exceptions.KazooException:
            time.sleep(0.01)
    say(client.client_id[0] == session and not lost)


CLIENTS: dict[str, Callable[[str], None]] = {
    "aiolead": lambda hosts: aiolead_client("asyncio", hosts),
    "aiolead-uvloop": lambda hosts: aiolead_client("uvloop", hosts),
    "aiolead-trio": lambda hosts: aiolead_client("trio", hosts),
    "kazoo": kazoo_client,
}


# --- the measurement -------------------------------------------------------------------------


def trial(row: Row, client: str) -> Outcome:
    command = [sys.executable, "-m", "benchmarks.names", "--client", client, row.hosts]
    pipe = subprocess.PIPE
    with NamesNetwork() as network:
        row.before(network)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == '"starts"\n'
                begin = time.monotonic()
                assert process.stdout.readline() == '"holds"\n', f"{client} does not connect"
                connected = time.monotonic() - begin
                time.sleep(1.0)  # lookups in the background are over, if they can be
                # It may not connect again before all of the change has happened.
                process.send_signal(signal.SIGSTOP)
                row.change(network)
                process.send_signal(signal.SIGCONT)
                begin = time.monotonic()
                process.stdin.write("\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                assert answer, f"{client} has failed"
                return Outcome(connected, time.monotonic() - begin, json.loads(answer))
            finally:
                process.kill()


def table(found: dict[str, dict[str, list[Outcome]]]) -> str:
    clients = list(next(iter(found.values())))
    lines = [
        "| | " + " | ".join(f"{each}: connected | back | lock kept" for each in clients) + " |",
        "|---" * (1 + 3 * len(clients)) + "|",
    ]
    for name, by_client in found.items():
        cells = [
            cell
            for outcomes in by_client.values()
            for cell in (
                f"{max(each.connected for each in outcomes):.1f} s",
                f"{max(each.back for each in outcomes):.1f} s",
                f"{sum(each.is_kept for each in outcomes)} of {len(outcomes)}",
            )
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def command_for(*arguments: str) -> list[str]:
    """This program, in namespaces of its own."""
    return in_namespaces(sys.executable, "-m", "benchmarks.names", "--inside", *arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only rows whose names contain one of these")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=["aiolead", "kazoo"])
    parser.add_argument("--json", action="store_true", help="print what came of each trial")
    parser.add_argument("--client", choices=CLIENTS, help="be a client, of the servers WORDS")
    parser.add_argument("--inside", action="store_true", help="the namespaces are there")
    arguments = parser.parse_args()
    if arguments.client:
        CLIENTS[arguments.client](arguments.words[0])
        return
    if not arguments.inside:
        sys.exit(subprocess.call(command_for(*sys.argv[1:])))
    set_up()
    found: dict[str, dict[str, list[Outcome]]] = {}
    for row in ROWS:
        if any(word in row.name for word in arguments.words or [""]):
            for client in arguments.clients:
                outcomes = [trial(row, client) for _ in range(arguments.trials)]
                found.setdefault(row.name, {})[client] = outcomes
                print(row.name, client, outcomes, file=sys.stderr, flush=True)
    if arguments.json:
        print(
            json.dumps(
                {
                    name: {
                        client: [asdict(each) for each in outcomes]
                        for client, outcomes in rows.items()
                    }
                    for name, rows in found.items()
                }
            )
        )
    else:
        print(table(found))


if __name__ == "__main__":
    main()
