"""Limits on requests, and who may use a client."""

from __future__ import annotations

from ..model import Change, Mutant

LIMITS = (
    "tests/unit/session/test_session_limits.py",
    "tests/unit/session/test_session_request_queue.py",
)
HOME = ("tests/client/test_client_home.py",)

MUTANTS = (
    Mutant(
        number="95d",
        name="ephemeral-paths-without-a-limit",
        wrong="A session has any number of ephemeral znodes, and its end kills the servers.",
        changes=(
            Change(
                "_session/ephemeral_paths.py",
                "if self.size + more > self._most:",
                "if False:",
            ),
        ),
        tests=("tests/client/test_ephemeral_paths.py",),
    ),
    Mutant(
        number="95e",
        name="ephemeral-paths-of-refused-creates-stay-counted",
        wrong="Creates that were refused count until the session ends, and good ones are refused.",
        changes=(
            Change(
                "_session/ephemeral_paths.py",
                "if error.outcome is not Outcome.UNKNOWN or error.session_over:",
                "if error.session_over:",
            ),
        ),
        tests=("tests/client/test_ephemeral_paths.py",),
    ),
    Mutant(
        number="95",
        name="renewals-wait-in-the-queue",
        wrong="Renewals of the lease wait behind all that users have asked for.",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                "self.express.append(call)",
                "self.queue.append(call)",
            ),
        ),
        tests=LIMITS,
    ),
    Mutant(
        number="95b",
        name="everything-in-flight-while-holding",
        wrong="A renewal waits behind as many requests at the server as users may have there.",
        changes=(
            Change(
                "_session/machine.py",
                "self.requests.take(now, careful=bool(leases.settled or leases.fresh))",
                "self.requests.take(now, careful=False)",
            ),
        ),
        tests=LIMITS,
    ),
    Mutant(
        number="95c",
        name="answers-make-no-room",
        wrong="A request that is refused as nonsense is counted as in flight for ever.",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                """
                call = self.unanswered.popleft()
                self._counted -= call.kind.is_counted
                call._fail(error)
                """,
                """
                call = self.unanswered.popleft()
                call._fail(error)
                """,
            ),
        ),
        tests=LIMITS,
    ),
    Mutant(
        number="96",
        name="forks-share-the-connection",
        wrong="A forked child can write to its parent's connection.",
        changes=(
            Change("_client/loop_affinity.py", "os.dup2(nothing, fileno)", "pass"),
            Change("_client/client_host.py", "if self.core.is_forked:", "if False:"),
        ),
        tests=HOME,
    ),
)
