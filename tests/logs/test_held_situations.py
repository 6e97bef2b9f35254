"""The lines of the command in each situation after it has a session: waits, refusals and losses."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from kit.checks import until
from kit.cli import Command, outcome
from kit.raw_client import RawClient
from logs import log_lines

from aiolead import Auth
from aiolead.errors import NoNodeError
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode, ThreadedServer

SESSION = 2.0
OPTIONS = ("--session-timeout", f"{SESSION:g}")

pytestmark = pytest.mark.keeps_time(SESSION)

WORKS = (
    "trap 'exit 0' TERM; echo works $AIOLEAD_SESSION $AIOLEAD_NODE; while :; do sleep 0.05; done"
)
"""A command that ends with success when it is asked to."""

COMMANDS = {"run": ("run", "/l"), "lock": ("lock", "/l"), "once": ("once", "/l", "k")}

MAY_BE_PRINTED = (
    # Unless the keeper of the command, another process, was faster.
    "not held any more: told the command to end",
    # Unless the command has ended before.
    "connected to zk:N again after N s: session 0xN is new",
)


@dataclass(frozen=True, slots=True)
class Held:
    """A command that holds something, seen from the outside."""

    command: Command
    server: ThreadedServer
    proxy: FaultProxy
    session: int
    node: str


@contextmanager
def held(server: ThreadedServer, *words: str) -> Iterator[Held]:
    host, _, port = server.connect_string.rpartition(":")
    name, *path = words
    with (
        FaultProxy(host, int(port)) as proxy,
        Command(
            *(name, *OPTIONS, *path, "--", "sh", "-c", WORKS), hosts=proxy.connect_string
        ) as command,
    ):
        found = command.out.expect(r"works 0x(\w+) (\S+)")
        yield Held(command, server, proxy, int(found[1], 16), found[2])


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


# --- losses --------------------------------------------------------------------------------------


def expire(holder: Held) -> None:
    holder.server.expire_session(holder.session)


def delete(holder: Held) -> None:
    with RawClient(holder.server.connect_string) as operator:
        operator.delete(holder.node)


def forbid(holder: Held) -> None:
    changed = outcome("acl", holder.node, "world:anyone:a", hosts=holder.server.connect_string)
    assert changed[0] == 0


def freeze(holder: Held) -> None:
    """Stops the process until its session is over."""
    holder.command.signal(signal.SIGSTOP)

    def is_gone() -> bool:
        try:
            operator.exists(holder.node)
        except NoNodeError:
            return True
        return False

    with RawClient(holder.server.connect_string) as operator:
        until(is_gone, "the session has expired")
    holder.command.signal(signal.SIGCONT)


def cut(holder: Held) -> None:
    holder.proxy.down()


STOOD_STILL = "this process stood still for N s or more"
HUNG_UP = (
    "connection to zk:N lost (the server closed the connection); the lease of 1 hold ends in N s"
)
BROKE = (
    "connection to zk:N lost (the connection broke: Connection reset by peer); the lease of 1 hold "
    "ends in N s"
)

LOSSES: dict[str, tuple[Callable[[Held], object], list[str]]] = {
    "expired session": (expire, [HUNG_UP, "{what} lost (token N): the session expired"]),
    "deleted znode": (delete, ["{what} lost (token N): the znode was deleted by somebody else"]),
    "changed ACL": (forbid, ["{what} lost (token N): the servers refused to confirm the znode"]),
    "frozen process": (
        freeze,
        [
            f"{STOOD_STILL}: its event loop was blocked, or the process or its machine was frozen",
            (
                "{what} lost (token N): the lease ran out before the quorum confirmed it "
                f"({STOOD_STILL})"
            ),
        ],
    ),
    "dead server": (
        cut,
        [
            BROKE,
            "no server, trying: zk:N: Connection refused",
            (
                "{what} lost (token N): the lease ran out before the quorum confirmed it (no "
                "server for N s: zk:N: Connection refused)"
            ),
        ],
    ),
}
"""The lines after each loss, by its cause."""

CREATED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


def normal(line: str) -> str:
    """A line of the command, without what varies."""
    return CREATED.sub("T UTC", log_lines.normal(line.removeprefix("aiolead: ")))


SUBJECTS = {"run": "leadership of /l", "lock": "lock of /l", "once": "claim of /l/k"}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("cause", LOSSES)
def test_command_prints_why_it_has_lost(server: ThreadedServer, cause: str, name: str) -> None:
    lose, wanted = LOSSES[cause]
    with held(server, *COMMANDS[name]) as holder:
        lose(holder)
        assert holder.command.finish() == 74
        printed = [normal(line) for line in holder.command.err.rest()]
    printed = [line for line in printed if line != "leads /l (token N)"]
    assert len(set(printed)) == len(printed), "nothing is printed twice"
    lines = [line for line in printed if line not in MAY_BE_PRINTED]
    assert sorted(lines) == sorted(each.format(what=SUBJECTS[name]) for each in wanted)
    assert lines[-1].startswith(SUBJECTS[name])


def test_command_prints_that_it_was_asked_to_release(server: ThreadedServer) -> None:
    with held(server, "lock", "/l") as holder:
        asked = outcome("revoke", "/l", hosts=server.connect_string)
        assert (asked[0], len(asked[1]), asked[2]) == (0, 1, [])
        assert holder.command.finish() == 0
        printed = holder.command.err.rest()
    assert printed == ["aiolead: asked to release the lock /l: told the command to end"]


# --- waits and refusals ---------------------------------------------------------------------------


def foreign(server: ThreadedServer) -> None:
    with RawClient(server.connect_string) as operator:
        operator.create("/l")
        operator.create("/l/restored-lock-0000000000")


def forbidden(server: ThreadedServer) -> None:
    with RawClient(server.connect_string) as operator:
        operator.create("/l", acl=(Auth.digest("anna", "open-sesame").acl(),))


def overloaded(server: ThreadedServer) -> None:
    for op in (OpCode.CREATE, OpCode.CREATE2, OpCode.MULTI):
        server.throttle(op, 1)


def election(server: ThreadedServer) -> None:
    with RawClient(server.connect_string) as other:
        other.create("/l")
        other.create("/l/_c_x-latch-0000000000")


def queue(server: ThreadedServer) -> None:
    with RawClient(server.connect_string) as other:
        other.create("/l")
        other.create("/l/queue-0000000000")


def nothing(_server: ThreadedServer) -> None:
    pass


BEHIND = (
    "/l/restored-lock-0000000000: contenders wait for this znode, which belongs to no session: it "
    "will never go away by itself. It was created T UTC. If no program needs it, delete it: "
    "aiolead rm /l/restored-lock-0000000000"
)

REFUSALS: dict[str, tuple[Callable[[ThreadedServer], object], str, int, list[str]]] = {
    "foreign znode": (
        foreign,
        "lock --wait 0.5 /l -- true",
        75,
        [
            BEHIND,
            (
                "did not get the lock /l: <Lock /l>: not our turn within N s, behind "
                "/l/restored-lock-0000000000, which belongs to no session: it will never go away "
                "by itself"
            ),
        ],
    ),
    "throttling server": (
        overloaded,
        "lock /l -- true",
        0,
        [
            (
                "the server is overloaded and dropped the request: /l/0N-1-lock-; it is sent again "
                "every N s"
            ),
        ],
    ),
    "election path": (
        election,
        "lock /l -- true",
        1,
        [
            (
                "/l/_c_x-latch-0000000000 (of no session) contends for a leader election on the "
                "same path (in the layout of Curator): give each recipe a path of its own"
            )
        ],
    ),
    "queue path": (
        queue,
        "run /l -- true",
        1,
        [
            (
                "/l/queue-0000000000 (of no session) is an item of a queue on the same path: give "
                "each recipe a path of its own"
            )
        ],
    ),
    "refused leaders": (
        nothing,
        "run --leaders 0 /l -- true",
        2,
        ["--leaders: must be 1 to 1000, not 0"],
    ),
    "refused permits": (
        nothing,
        "lock --slots 0 /l -- true",
        2,
        ["--slots: must be 1 or more, not 0"],
    ),
    "refused path": (nothing, "lock l -- true", 2, ["path: must start with '/', not 'l'"]),
    "refused time": (
        nothing,
        "lock --grace 9 /l -- true",
        2,
        [
            (
                "--grace: must be 0 to N s, a quarter of the session timeout (--session-timeout is "
                "10), not 9"
            )
        ],
    ),
    "refused login": (
        nothing,
        "lock --sasl gssapi:x /l -- true",
        2,
        ["--sasl: must be digest-md5:USER:PASSWORD, or gssapi"],
    ),
}
"""The scene, the command, its exit code and its lines."""


@pytest.mark.parametrize("case", REFUSALS)
def test_command_prints_why_it_does_not_hold(server: ThreadedServer, case: str) -> None:
    make, typed, code, wanted = REFUSALS[case]
    make(server)
    got, _, err = outcome(*typed.split(), hosts=server.connect_string)
    assert [normal(line.removeprefix("aiolead: ")) for line in err] == wanted
    assert got == code


MAY_NOT_READ = (
    "aiolead: not allowed by the znode's ACL: /l (--auth or --sasl logs in; aiolead acl shows who "
    "may do what)"
)


@pytest.mark.parametrize(
    "typed", ["top --once /l", "dashboard --listen 127.0.0.1:0 /l", "contenders /l", "observe /l"]
)
def test_command_prints_that_it_may_not_read_the_path(server: ThreadedServer, typed: str) -> None:
    forbidden(server)
    code, _, err = outcome(*typed.split(), hosts=server.connect_string)
    assert (code, err) == (77, [MAY_NOT_READ])


def test_doctor_prints_that_it_may_not_read_the_path(server: ThreadedServer) -> None:
    forbidden(server)
    code, out, err = outcome("doctor", "/l", hosts=server.connect_string)
    (n,) = (n for n, line in enumerate(out) if line.startswith("unknown "))
    assert out[n].split(maxsplit=2)[-1] == "/l: may not be listed"
    assert out[n + 1].strip() == "contenders need READ and CREATE there: see `aiolead acl`"
    assert (code, err) == (0, [])


def test_command_prints_who_holds_it(server: ThreadedServer) -> None:
    with held(server, "lock", "--id", "host-1:4711", "/l"):
        code, _, err = outcome("lock", "-n", "/l", "--", "true", hosts=server.connect_string)
        assert code == 75
        (line,) = err
        assert re.fullmatch(
            r"aiolead: did not get the lock /l: held by host-1:4711 \(there for \d+ s\)", line
        )


def test_command_that_waits_prints_who_holds_it(server: ThreadedServer) -> None:
    with (
        held(server, "run", "--id", "host-1:4711", "/l"),
        Command("run", "/l", "--", "true", hosts=server.connect_string) as waiter,
    ):
        waiter.err.expect(
            r"^aiolead: waits for leadership of /l: held by host-1:4711 \(there for \d+ s\); "
            r"1 waiting$"
        )
        assert waiter.finish(signal.SIGTERM) == 128 + signal.SIGTERM
        assert len(waiter.err.rest()) == 1
