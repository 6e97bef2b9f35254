"""Every wait ends, and no loop is without a pause."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import CUTS, SILENCE

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="end-of-stream-unnoticed",
        wrong="A connection that the server closes is taken for a silent one.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.net.supervisor:Supervisor._carry",
                "await connection.carrier.carry(feed, take)",
                """
                try:
                    await connection.carrier.carry(feed, take)
                except anyio.EndOfStream:
                    await anyio.sleep_forever()
                """,
            ),
        ),
        tests=("tests/client/test_faults.py",),
    ),
    Mutant(
        name="pings-too-rarely",
        wrong="An idle session is pinged once in a session timeout.",
        changes=(
            Change(
                "_session.lease.timing:Timing.ping_after",
                "self.patience / 3",
                "self.patience",
            ),
            Change(
                "_session.lease.timing:Timing.silent_after",
                "self.patience * 2 / 3",
                "self.patience * 2",
            ),
        ),
        tests=("tests/session/test_session_healthy.py",),
        simulated=True,
    ),
    Mutant(
        name="half-open-unnoticed",
        wrong="A connection over which nothing comes any more is kept.",
        aim=Aim((SILENCE,), least=0.5, groups=3),
        changes=(
            Change(
                "_session.machine:SessionMachine._silent_due",
                "self._liveness.since + self.timing.silent_after",
                "self._liveness.since + 1e9",
            ),
        ),
        tests=("tests/session/test_session_life.py",),
        simulated=True,
    ),
    Mutant(
        name="observer-ends-with-the-connection",
        wrong="An observer of an election ends silently when a connection is lost.",
        seen_in="aiozk's election",
        changes=(
            Change(
                "_recipes._core.observe:View._follow",
                """
                await self._before_next_try(error)
                continue
                """,
                "return",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="It takes a session that ends between the two requests of a look, or a "
        "look while no server is reached for a session timeout.",
    ),
    Mutant(
        name="connecting-without-a-limit",
        wrong="An attempt to connect may last forever.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.net.supervisor:Supervisor._open_carrier",
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
        tests=("tests/assurance/simulation/test_schedules.py",),
        simulated=True,
    ),
    Mutant(
        name="back-off-without-a-limit",
        wrong="The back-off doubles beyond the session timeout.",
        seen_in="aiozk: 4, 8, 16, 32, 60 s",
        changes=(
            Change(
                "_client.net.host_list:Backoff.delay",
                "limit = min(FIRST * 2 ** min(self._round - 2, 16), LONGEST, session_timeout / 10)",
                "limit = FIRST * 2 ** min(self._round - 2, 16)",
            ),
            Change(
                "_client.net.host_list:Backoff.delay",
                "self._rng.uniform(0.0, limit)",
                "self._rng.uniform(limit / 2, limit) + session_timeout * 0.0",
            ),
        ),
        tests=("tests/session/test_session_timing.py",),
    ),
    Mutant(
        name="no-patience-while-disconnected",
        wrong="Requests wait without a limit while no server is reached.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session.machine:SessionMachine._fail_overdue",
                "self.requests.fail_overdue(now, patience, lambda: unreached(patience))",
                "self.requests.fail_overdue(now, 1e9, lambda: unreached(patience))",
            ),
            Change(
                "_session.machine:SessionMachine.next_deadline",
                "min(due, since + self.timing.patience)",
                "min(due, since + 1e9)",
            ),
        ),
        tests=("tests/client/test_requests.py",),
    ),
    Mutant(
        name="limit-ignored-while-disconnected",
        wrong="The timeout of a wait does not count while there is no connection.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes._core.acquire:Acquirable._persist",
                "await before_next_try(client, error, Step.ACQUIRE)",
                """
                with anyio.CancelScope(shield=True):
                    await before_next_try(client, error, Step.ACQUIRE)
                """,
            ),
            Change(
                "_recipes._core.acquire:Acquirable._persist",
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
        tests=("tests/recipes/test_rare_moments.py",),
    ),
    Mutant(
        name="timeout-starts-again",
        wrong="The timeout of a wait starts again whenever the queue changes.",
        seen_in="kazoo",
        changes=(
            Change(
                "_recipes._core.contexts:TenureContext._wait_in_time",
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
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="release-waits-without-a-limit",
        wrong="A release waits for the servers' answer, shielded and without a limit.",
        seen_in="aiozk; kazoo",
        aim=Aim(((*CUTS, *SILENCE),), least=0.5, groups=3),
        changes=(
            Change(
                "_recipes._core.tenure:Tenure._confirmed",
                "await wait_shielded(answered, self._client.session_timeout / 3, scope)",
                "await wait_shielded(answered, self._client.session_timeout * 1000, scope)",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="What it waits for ends by itself when a server answers again or the "
        "session is over, so it only takes too long.",
        simulated=True,
    ),
    Mutant(
        name="closing-waits-forever",
        wrong="Closing waits without a limit for holders and for the servers' answer.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.client_host:ClientHost.close_session",
                "with anyio.move_on_after(machine.timing.holders_wait, shield=True):",
                "with anyio.CancelScope(shield=True):",
            ),
            Change(
                "_client.client_host:ClientHost.close_session",
                "with anyio.move_on_after(machine.timing.close_wait, shield=True):",
                "with anyio.CancelScope(shield=True):",
            ),
        ),
        tests=("tests/client/test_connect.py",),
    ),
    Mutant(
        name="closed-clients-hang",
        wrong="Requests of a closed client are queued like any other.",
        seen_in="aiozk; kazoo #473",
        changes=(
            Change(
                "_session.machine:SessionMachine.submit",
                "self.state.is_final",
                "self.state is None",
            ),
        ),
        tests=("tests/session/test_session_life.py",),
    ),
    Mutant(
        name="busy-loop-at-the-end",
        wrong="The end of a stream is read again and again.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.net.carrier:StreamCarrier._read",
                "data = await self._receive()",
                """
                try:
                    data = await self._receive()
                except anyio.EndOfStream:
                    await anyio.sleep(0)
                    continue
                """,
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        simulated=True,
    ),
)
