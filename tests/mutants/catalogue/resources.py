"""What is left behind, and what ends."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, CUTS, RARE, SILENCE

MUTANTS = (
    Mutant(
        number="49",
        name="cancelled-waiter-stays-in-line",
        wrong="A waiter that is cancelled, or whose limit ends, leaves its znode in the line.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes/_core/holding_recipe.py",
                """
                if tenure is None:
                    acquirable.discard()
                """,
                """
                if tenure is None:
                    acquirable._leave_watches()
                """,
            ),
        ),
    ),
    Mutant(
        number="50",
        name="cancelled-create-stays",
        wrong="A candidate that is cancelled before its create was answered leaves a znode.",
        seen_in="CURATOR-79, CURATOR-18; aiozk",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                else:
                    self._delete(node, None)
                """,
                """
                else:
                    assert node
                """,
            ),
        ),
    ),
    Mutant(
        number="50b",
        name="cancelled-create-that-was-lost-stays",
        aim=Aim(
            (("create-answer-lost",), ("link-refused", "quorum-lost"), ("cancelled",)),
            least=0.3,
            spread=0.1,
            groups=3,
        ),
        wrong="A contender that is cancelled while it is unknown whether its create was applied "
        "leaves a znode.",
        seen_in="go-zookeeper #229",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if create is not None and create.is_done:
                    self._delete_lost_later(self._create_path, self._create_session)
                """,
                """
                if create is not None and create.is_done:
                    assert create
                """,
            ),
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if not wanted:  # else that is settled by `resolve`, or `withdraw`
                    self._delete_lost_later(path, session_id)
                """,
                """
                if not wanted:
                    assert create
                """,
            ),
        ),
        tests=RARE,
        note="It takes a cancel between the loss of a link and the next one.",
    ),
    Mutant(
        number="51",
        name="release-is-the-callers-work",
        wrong="Releasing begins with an await of the caller's: whoever is cancelled releases "
        "nothing.",
        seen_in="CURATOR-62; redis-py #3847",
        changes=(
            Change(
                "_recipes/_core/contexts.py",
                """
                else:
                    await tenure._release(scope)
                """,
                """
                else:
                    await anyio.lowlevel.checkpoint()
                    await tenure._release(scope)
                """,
            ),
        ),
    ),
    Mutant(
        number="52",
        name="release-waits-without-a-limit",
        aim=Aim(((*CUTS, *SILENCE),), least=0.5, groups=3),
        wrong="Releasing waits for the servers' word, shielded and without a limit.",
        seen_in="aiozk; kazoo",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                "await wait_shielded(answered, self._client.session_timeout / 3, scope)",
                "await wait_shielded(answered, self._client.session_timeout * 1000, scope)",
            ),
        ),
        tests=RARE,
        note="What it waits for ends by itself when a server answers again or the session is over, "
        "so it only takes too long.",
    ),
    Mutant(
        number="54",
        name="closing-waits-for-ever",
        aim=Aim((("closed",),), groups=3),
        wrong="Closing waits, without a limit, for holders and for the servers' goodbye.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/client_host.py",
                "with anyio.move_on_after(machine.timing.holders_wait, shield=True):",
                "with anyio.CancelScope(shield=True):",
            ),
            Change(
                "_client/client_host.py",
                "with anyio.move_on_after(machine.timing.close_wait, shield=True):",
                "with anyio.CancelScope(shield=True):",
            ),
        ),
        tests=("tests/client/test_client_connect.py", *ASYNCIO),
    ),
    Mutant(
        number="54e",
        name="waits-as-long-as-granted",
        wrong="Waits count with the session timeout that the server granted, however long that is.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_session/lease/timing.py",
                "return min(self.granted, self.asked)",
                "return self.granted",
            ),
        ),
        tests=("tests/client/test_client_grants.py",),
        note="The simulation's servers grant what real ones do.",
    ),
    Mutant(
        number="54b",
        name="closing-leaves-tasks",
        wrong="Closing does not end the client's jobs.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/core.py",
                """
                tasks, self.tasks = self.tasks, None
                if tasks is not None:
                    tasks.end()
                """,
                """
                self.tasks = None
                """,
            ),
        ),
    ),
    Mutant(
        number="54f",
        name="cancel-all-ends-the-connection",
        wrong="A program that cancels all tasks of asyncio ends the client's before its session is "
        "closed.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_client/asyncio_tasks.py",
                "if isinstance(msg, str) and SCOPES in msg:",
                "if not isinstance(msg, int):",
            ),
        ),
        tests=("tests/client/test_guest.py", "-k", "cancel_all_closes"),
    ),
    Mutant(
        number="54g",
        name="nobody-closes-a-forgotten-client",
        wrong="A client that the program has not closed goes on as the event loop ends, which "
        "waits for it forever.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_client/asyncio_tasks.py",
                "owner.add_done_callback(lambda _owner: self.on_abandoned())",
                "owner.add_done_callback(lambda _owner: None)",
            ),
        ),
        tests=("tests/client/test_guest.py", "-k", "cancelled_main_task"),
    ),
    Mutant(
        number="54h",
        name="leaving-is-cut-short",
        wrong="A cancellation of asyncio while the client is left ends the wait for its session.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_shielding.py",
                "cancelled = error",
                "raise",
            ),
        ),
        tests=(
            "tests/client/test_guest.py::test_native_cancellation_while_leaving_closes_the_session",
        ),
    ),
    Mutant(
        number="54c",
        name="closing-leaves-the-session",
        aim=Aim((("closed",),), groups=3),
        wrong="Closing does not tell the servers, so that the ephemeral znodes stay until the "
        "session expires.",
        changes=(
            Change(
                "_client/client_host.py",
                "if machine.state is SessionState.CONNECTED:",
                "if machine.state is SessionState.CLOSED:",
            ),
        ),
        tests=("tests/client/test_client_connect.py", *ASYNCIO),
    ),
    Mutant(
        number="54d",
        name="closed-clients-hang",
        wrong="Requests of a closed client are queued like any other.",
        seen_in="aiozk; kazoo #473",
        changes=(
            Change(
                "_session/machine.py",
                """
                if self.state.is_final:
                    call._fail(self.ended())
                """,
                """
                if self.state is None:
                    call._fail(self.ended())
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_life.py",),
    ),
    Mutant(
        number="55",
        name="watches-of-those-who-left-stay",
        wrong="A contender that leaves the line does not take back its watches.",
        seen_in="CURATOR-107, CURATOR-14; kazoo #175; aiozk",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                for watch in self._ahead.values():
                    watch.close()
                self._ahead = _NO_WATCHES
                """,
                """
                self._ahead = _NO_WATCHES
                """,
            ),
        ),
        tests=RARE,
        note="They are gone with the holder's znode, so it takes a look while that is there.",
    ),
    Mutant(
        number="56",
        name="arming-never-ends",
        wrong="A read that was to arm a watch and failed counts for ever as one that will.",
        changes=(
            Change(
                "_session/requests/call.py",
                """
                self._abandon()
                self._error = error
                """,
                """
                self._error = error
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="56b",
        name="listeners-stay",
        wrong="Whoever waits for a connection stays subscribed for ever.",
        changes=(
            Change(
                "_client/core.py",
                """
                try:
                    await changed.wait()
                finally:
                    unsubscribe()
                """,
                """
                try:
                    await changed.wait()
                finally:
                    del unsubscribe
                """,
            ),
        ),
        tests=("tests/client/test_client_core.py", *ASYNCIO),
    ),
    Mutant(
        number="56c",
        name="claims-stay",
        wrong="The name of a znode that was deleted stays claimed for ever.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                "delete, later, partial(self._unclaim, node))",
                "delete, later, partial(repr, node))",
            ),
        ),
        tests=("tests/recipes/queues/test_claims.py", *ASYNCIO),
    ),
    Mutant(
        number="57",
        name="busy-loop-at-the-end",
        wrong="The end of a stream is read again and again.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/carrier.py",
                """
                data = await self._receive()
                while feed(data):
                """,
                """
                try:
                    data = await self._receive()
                except anyio.EndOfStream:
                    await anyio.sleep(0)
                    continue
                while feed(data):
                """,
            ),
        ),
    ),
    Mutant(
        number="58",
        name="book-keeping-is-not-undone",
        wrong="A wait that ends in vain stays in the book of who waits for what, so that the next "
        "one is refused.",
        seen_in="aiozk: a dictionary by `id()`",
        changes=(
            Change(
                "_recipes/_core/holding_recipe.py",
                """
                mine = self._uses.pop(task, ())
                if mine != (user,):
                """,
                """
                mine = (user,)
                if mine != (user,):
                """,
            ),
        ),
    ),
    Mutant(
        number="59",
        name="loss-is-told-twice",
        wrong="A hold that ends again is reported as lost again.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "lost, self._lost, self._settled = self._lost, None, None",
                "lost, self._settled = self._lost, None",
            ),
            Change(
                "_recipes/_core/tenure.py",
                "if self._released or (self._loss is not None and self._lasted is not None):",
                "if self._released:",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
)
