"""Bugs of the simulated servers: the tests of the model must see these.

What the model does is held against real servers by `test_conformance.py`; its other tests keep it
there where no real ZooKeeper is at hand, and look at what a story cannot wait for.
"""

from __future__ import annotations

from ..model import Change, Mutant

TESTS = (
    "tests/simulation/test_ensemble_sessions.py",
    "tests/simulation/test_ensemble_roles.py",
    "tests/simulation/test_ensemble_clients.py",
)

FOLLOWING = "testing/simulation/ensemble/following.py"
BROADCAST = "testing/simulation/ensemble/broadcast.py"
CLIENTS = "testing/simulation/ensemble/clients.py"


def _bug(number: str, name: str, wrong: str, *changes: Change) -> Mutant:
    return Mutant(
        number=number, name=name, wrong=wrong, changes=changes, tests=TESTS, simulated=False
    )


MUTANTS: tuple[Mutant, ...] = (
    _bug(
        "60",
        "sessions-expire-a-tick-early",
        "Servers: a session ends up to a tick before its timeout.",
        Change(
            "testing/_server/sessions.py",
            "expires = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms",
            "expires = ((now_ms + timeout_ms) // self._tick_ms) * self._tick_ms",
        ),
    ),
    _bug(
        "60b",
        "touches-of-followers-are-lost",
        "Servers: the leader never hears of sessions that only a follower has heard of.",
        Change(
            FOLLOWING,
            """
            self._touched[session_id] = timeout_ms
            return True
            """,
            """
            return True
            """,
        ),
    ),
    _bug(
        "60c",
        "touches-of-followers-are-at-once",
        "Servers: the leader hears at once what a follower collects for its next ping: nothing is "
        "lost with a follower.",
        Change(
            FOLLOWING,
            """
            self._touched[session_id] = timeout_ms
            return True
            """,
            """
            if self.is_serving:
                self._link.send(Pong({session_id: timeout_ms}))
            return True
            """,
        ),
    ),
    _bug(
        "60d",
        "writes-touch-at-the-leader",
        "Servers: a request that is forwarded touches its session at the leader.",
        Change(
            BROADCAST,
            """
            refusal = self.sessions.check(request.session_id, owner)
            if refusal is None:
            """,
            """
            refusal = self.sessions.check(request.session_id, owner)
            self.sessions.touch(request.session_id, request.timeout_ms, self._now_ms())
            if refusal is None:
            """,
        ),
    ),
    _bug(
        "60e",
        "a-new-leader-forgets-sessions",
        "Servers: a new leader ends no session that was opened before it led.",
        Change(
            BROADCAST,
            "for session_id, timeout_ms in server.replica.sessions.items():",
            "for session_id, timeout_ms in list(server.replica.sessions.items())[:0]:",
        ),
    ),
    _bug(
        "60f",
        "the-future-is-served",
        "Servers: a server that is behind takes a client that has seen more than it has.",
        Change(
            CLIENTS,
            "if request.last_zxid_seen > server.replica.processor.zxid:",
            "if request.last_zxid_seen < 0:",
        ),
    ),
    _bug(
        "60g",
        "any-password-will-do",
        "Servers: a session is resumed with whatever password.",
        Change(
            CLIENTS,
            "if request.password != server.password(id_):",
            "if request.password is None:",
        ),
    ),
    _bug(
        "60h",
        "cut-off-followers-give-up-at-once",
        "Servers: a follower that does not hear of its leader serves nobody after half a tick: "
        "what makes ZooKeeper dangerous is not there.",
        Change(
            FOLLOWING,
            "self._silence.set_limit(settings.sync_limit * settings.tick)",
            "self._silence.set_limit(0.6 * settings.tick)",
        ),
    ),
    _bug(
        "60i",
        "leaders-without-followers-lead-on",
        "Servers: a leader that has lost its quorum goes on serving.",
        Change(
            "testing/simulation/ensemble/leading.py",
            "if alive.bit_count() < self._quorum:",
            "if alive.bit_count() < 0:",
        ),
    ),
    _bug(
        "60j",
        "one-server-is-a-quorum",
        "Servers: an entry is committed as soon as one server has it.",
        Change(
            BROADCAST,
            "if first.acks.bit_count() < self._quorum:",
            "if first.acks.bit_count() < 1:",
        ),
    ),
    _bug(
        "60k",
        "moved-sessions-go-unnoticed",
        "Servers: a session that has moved may still write by way of its old server.",
        Change(
            "testing/simulation/ensemble/sessions.py",
            "if self._owners.setdefault(session_id, owner) is not owner:",
            "if self._owners.setdefault(session_id, owner) is None:",
        ),
    ),
    _bug(
        "60l",
        "pings-overtake-writes",
        "Servers: a ping is answered although a write of the same session waits for the leader.",
        Change(
            "testing/simulation/ensemble/pipeline.py",
            """
            if queue is None:
                self._read(pending)
            """,
            """
            if queue is None or op is OpCode.PING:
                self._read(pending)
            """,
        ),
    ),
)
