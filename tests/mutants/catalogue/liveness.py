"""Getting on: connecting, backing off, telling everybody."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, LINKS, RARE, SILENCE

MUTANTS = (
    Mutant(
        number="39h",
        name="a-waiter-lists-the-queue-again-and-again",
        wrong="A waiter looks at the queue without waiting for an event: a loop without a pause.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                if unread := self._unread(place.watch):
                    await self._wait_and_check(unread)
                else:
                    await self._wake.wait()
                """,
                """
                self._stale = True
                """,
            ),
        ),
    ),
    Mutant(
        number="40",
        name="connecting-without-a-limit",
        wrong="An attempt to connect may last for ever.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/supervisor.py",
                """
                with anyio.fail_after(self._patience):
                    return await self._opener.open_carrier(host, address, port)
                """,
                """
                with anyio.fail_after(None):
                    return await self._opener.open_carrier(host, address, port)
                """,
            ),
        ),
    ),
    Mutant(
        number="40c",
        name="addresses-one-after-the-other",
        wrong="An unreachable address of a name is waited for before the next one is tried.",
        changes=(
            Change(
                "_racing.py",
                """
                with anyio.move_on_after(NEXT_AFTER):
                """,
                """
                with anyio.move_on_after(None):
                """,
            ),
        ),
        tests=("tests/client/test_client_names.py",),
        simulated=False,
    ),
    Mutant(
        number="40d",
        name="lookup-waited-for-although-addresses-are-known",
        wrong="A slow resolver uses up the session although the servers' addresses are known.",
        changes=(
            Change(
                "_client/net/known_addresses.py",
                """
                return min(KNOWN_AFTER, patience / 2) if server in self._known else inf
                """,
                """
                return inf
                """,
            ),
        ),
        tests=("tests/client/test_client_names.py",),
        simulated=False,
    ),
    Mutant(
        number="40b",
        name="handshake-without-a-limit",
        aim=Aim((("server-frozen", *SILENCE),), least=0.5, groups=3),
        wrong="A server that accepts and says nothing is waited for, for ever.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/supervisor.py",
                """
                with anyio.move_on_after(self._patience):
                    await connection.opened.wait()
                """,
                """
                with anyio.move_on_after(None):
                    await connection.opened.wait()
                """,
            ),
        ),
        tests=("tests/client/test_client_connect.py", *ASYNCIO),
    ),
    Mutant(
        number="41",
        name="back-off-without-a-limit",
        wrong="The back-off doubles beyond the session timeout.",
        seen_in="aiozk: 4, 8, 16, 32, 60 s",
        changes=(
            Change(
                "_client/net/host_list.py",
                "limit = min(FIRST * 2 ** min(self._round - 2, 16), LONGEST, session_timeout / 10)",
                "limit = FIRST * 2 ** min(self._round - 2, 16)",
            ),
            Change(
                "_client/net/host_list.py",
                "return self._rng.uniform(0.0, limit)",
                "return self._rng.uniform(limit / 2, limit) + session_timeout * 0.0",
            ),
        ),
        tests=(
            "tests/unit/session/test_session_life.py",
            "tests/unit/session/test_session_timing.py",
        ),
    ),
    Mutant(
        number="42",
        name="back-off-reset-by-connecting",
        wrong="A bare TCP connection counts as success, so a server that hangs up is asked again "
        "at once, for ever.",
        changes=(
            Change(
                "_client/net/supervisor.py",
                """
                self._doing = {name: "no answer to the handshake yet"}
                """,
                """
                self._backoff.succeeded()
                self._doing = {name: "no answer to the handshake yet"}
                """,
            ),
        ),
        tests=LINKS,
        note="What it costs is servers' time, which no invariant counts.",
    ),
    Mutant(
        number="46",
        name="only-the-first-is-told",
        wrong="A change of state reaches only the first of those who wait for it.",
        changes=(
            Change(
                "_client/core.py",
                "for on_state in list(self._subscribers.values()):",
                "for on_state in list(self._subscribers.values())[:1]:",
            ),
        ),
    ),
    Mutant(
        number="53",
        name="no-patience-while-disconnected",
        aim=Aim((("servers-killed", "quorum-lost", "link-refused"),), least=0.8, groups=3),
        wrong="Requests that no server was reached for wait without a limit.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session/machine.py",
                "self.requests.fail_overdue(now, patience, lambda: unreached(patience))",
                "self.requests.fail_overdue(now, 1e9, lambda: unreached(patience))",
            ),
            Change(
                "_session/machine.py",
                "due = min(due, since + self.timing.patience)",
                "due = min(due, since + 1e9)",
            ),
        ),
        tests=("tests/client/test_client_requests.py", *ASYNCIO),
    ),
    Mutant(
        number="53b",
        name="limit-ignored-while-disconnected",
        wrong="The limit of a wait for our turn does not count while there is no connection.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes/_core/acquire.py",
                "await before_next_try(client, error, Step.ACQUIRE)",
                """
                with anyio.CancelScope(shield=True):
                    await before_next_try(client, error, Step.ACQUIRE)
                """,
            ),
            Change(
                "_recipes/_core/acquire.py",
                """
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                """,
                """
                if client.state is not SessionState.CONNECTED:
                    with anyio.CancelScope(shield=True):
                        await client.ready()
                """,
            ),
        ),
        tests=RARE,
    ),
    Mutant(
        number="53c",
        name="limit-starts-anew",
        wrong="The limit of a wait for our turn starts anew whenever something happens in the "
        "line.",
        seen_in="kazoo",
        changes=(
            Change(
                "_recipes/_core/contexts.py",
                """
                with anyio.move_on_after(timeout):
                    in_front = await acquirable.acquire()
                """,
                """
                with anyio.move_on_after(timeout) as limit:

                    class Prolonging(type(acquirable)):
                        __slots__ = ()

                        def _on_ahead(self, name: str, event: object) -> None:
                            limit.deadline = anyio.current_time() + timeout
                            super()._on_ahead(name, event)

                    acquirable.__class__ = Prolonging
                    in_front = await acquirable.acquire()
                """,
            ),
        ),
    ),
    Mutant(
        number="76",
        name="writer-misses-what-comes-in-between",
        wrong="What is handed over while the writer sends waits for the next thing to send.",
        changes=(
            Change(
                "_client/net/carrier.py",
                """
                self._output = anyio.Event()
                while data := take():
                    await self._send(data)
                await self._output.wait()
                """,
                """
                if data := take():
                    await self._send(data)
                self._output = anyio.Event()
                await self._output.wait()
                """,
            ),
        ),
        tests=LINKS,
        note="It takes a send that has to wait. What was missed leaves with the next thing to be "
        "sent or received, a ping at the latest.",
    ),
)
