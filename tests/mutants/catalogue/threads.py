"""Bugs of threads and forks. The simulation has neither: tests have to see these."""

from __future__ import annotations

from ..model import Change, Mutant

HOLDING = "tests/blocking/test_blocking_holding.py"
LOSSES = "tests/blocking/test_blocking_losses.py"
INTERRUPTED = "tests/blocking/test_blocking_interrupted.py"
PLACES = "tests/blocking/test_blocking_places.py"
LOOKING = "tests/recipes/test_threads.py"
FORKS = "tests/recipes/test_forks.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        number="301",
        name="threads-are-released-when-lost",
        wrong="What a thread holds is released as it is lost, while its body goes on.",
        changes=(
            Change(
                "blocking/_thread_task.py", "anyio.CancelScope(shield=True)", "anyio.CancelScope()"
            ),
        ),
        tests=(f"{LOSSES}::test_the_znode_stays_until_the_body_has_been_left",),
        simulated=False,
    ),
    Mutant(
        number="302",
        name="lost-bodies-go-on-writing",
        wrong="What a thread asks for in a body that is lost is sent, and then refused.",
        changes=(
            Change(
                "blocking/_thread_task.py", "await anyio.lowlevel.checkpoint_if_cancelled()", "pass"
            ),
        ),
        tests=(f"{LOSSES}::test_the_znode_stays_until_the_body_has_been_left",),
        simulated=False,
    ),
    Mutant(
        number="303",
        name="interrupted-threads-stay-in-line",
        wrong="A thread that is interrupted while it waits for a lock leaves its znode there.",
        changes=(Change("blocking/_loop.py", "self._post(partial(task.abandon, job))", "pass"),),
        tests=(INTERRUPTED,),
        simulated=False,
    ),
    Mutant(
        number="304",
        name="closed-clients-wait-for-bodies",
        wrong="A client that is closed waits for threads that do not leave their bodies.",
        changes=(Change("blocking/_loop.py", "task.dismiss()", "pass"),),
        tests=(f"{HOLDING}::test_a_body_that_outlives_the_client",),
        simulated=False,
    ),
    Mutant(
        number="305",
        name="children-wait-for-ever",
        wrong="A forked child asks an event loop that it does not have.",
        changes=(Change("blocking/_loop.py", "return os.getpid() != self._pid", "return False"),),
        tests=(f"{PLACES}::test_a_forked_child_is_told_and_does_no_harm",),
        simulated=False,
    ),
    Mutant(
        number="306",
        name="each-call-has-a-task-of-its-own",
        wrong="What a thread does within a block is another task's: it waits for itself.",
        changes=(Change("blocking/_loop.py", "mine.task = task", "pass"),),
        tests=(f"{HOLDING}::test_a_lock_and_an_election",),
        simulated=False,
    ),
    Mutant(
        number="307",
        name="nobody-tells-threads",
        wrong="The event that tells a thread of the loss is not set.",
        changes=(Change("blocking/_proxy.py", "tenure.add_lost_callback(self.lost.set)", "pass"),),
        tests=(f"{LOSSES}::test_by_expiry",),
        simulated=False,
    ),
    Mutant(
        number="308",
        name="threads-stop-event-loops",
        wrong="It can be called in a thread that runs an event loop, which stands still then.",
        changes=(Change("blocking/_loop.py", "if _runs_event_loop():", "if False:"),),
        tests=(f"{PLACES}::test_in_its_own_event_loop",),
        simulated=False,
    ),
    Mutant(
        number="309",
        name="lost-items-are-not-told-to-threads",
        wrong="A thread that iterates over a queue is told that the client was closed when it has "
        "lost its item, and its `on_lost` is not called.",
        changes=(
            Change(
                "blocking/_proxy.py",
                "return self._current._tenures() if isinstance(self._current, Proxy) else ()",
                "return ()",
            ),
        ),
        tests=("tests/blocking/test_blocking_recipes.py::test_an_item_that_is_lost",),
        simulated=False,
    ),
    Mutant(
        number="310",
        name="one-hold-is-two-objects-of-a-thread",
        wrong="A thread that enters a lock again is given another object for the same hold.",
        changes=(Change("blocking/_proxy.py", "loop.proxies.get(id(value))", "None"),),
        tests=(f"{HOLDING}::test_the_other_recipes",),
        simulated=False,
    ),
    Mutant(
        number="393",
        name="requests-outlive-their-event-loop",
        wrong="A thread waits forever for the answer to a request when the event loop has crashed.",
        changes=(Change("blocking/_loop.py", "while self._requests:", "while False:"),),
        tests=("tests/blocking/test_blocking_closing.py::test_a_request_whose_event_loop_crashes",),
        simulated=False,
    ),
    Mutant(
        number="394",
        name="interrupted-requests-are-sent",
        wrong="A request of a thread that no longer waits for it is sent all the same.",
        changes=(Change("blocking/_thread_task.py", "if self.is_abandoned:", "if False:"),),
        tests=(f"{INTERRUPTED}::test_a_request_that_was_not_sent_yet",),
        simulated=False,
    ),
    Mutant(
        number="431",
        name="threads-end-holds",
        wrong="A thread that sees the end of the lease first ends the hold itself: the body is "
        "never cancelled, and no scope around it can cancel it.",
        seen_in="solara #1181; aiomqtt: a cancellation from another thread",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                "backend.lease.expire()",
                "self._settle_by_clock()",
            ),
        ),
        # Most others cannot even be ended then.
        tests=(f"{LOOKING}::test_a_look_after_the_event_loop_has_ended_says_lost",),
        simulated=False,
    ),
    Mutant(
        number="432",
        name="children-hold",
        wrong="A forked child goes on as a holder after its parent has left or crashed.",
        changes=(
            Change(
                "_client/api/client_backend.py",
                "return 0.0  # a forked child holds nothing",
                "pass",
            ),
        ),
        tests=(FORKS,),
        simulated=False,
    ),
    Mutant(
        number="433",
        name="failed-cancellations-are-done-with",
        wrong="A loss whose body could not be cancelled is not tried again.",
        changes=(Change("_session/lease/lease_book.py", "self._unheard[held] = lost", "pass"),),
        tests=("tests/unit/session/test_session_unheard_losses.py",),
        simulated=False,
    ),
    Mutant(
        number="434",
        name="other-loops-release",
        wrong="A tenure is released in the event loop of another thread.",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                """
                self._client.backend.check_home()
                if not self._released:
                """,
                """
                if not self._released:
                """,
            ),
        ),
        tests=(f"{LOOKING}::test_another_event_loop_is_refused_and_changes_nothing",),
        simulated=False,
    ),
    Mutant(
        number="435",
        name="threads-make-views",
        wrong="A view is made in a thread, with what belongs to no event loop or to another one.",
        changes=(
            Change(
                "_recipes/_core/observe.py",
                """
                client.backend.check_home()
                self._client = client
                """,
                """
                self._client = client
                """,
            ),
        ),
        tests=("tests/recipes/test_callers.py::test_a_closed_client_is_as_the_table_says",),
        simulated=False,
    ),
)
