"""Queues and task boards: items that are lost, handed out again, or never noticed."""

from __future__ import annotations

from ..model import Change, Mutant

QUEUE = "tests/recipes/queues/test_queue.py"
FAULTS = "tests/recipes/queues/test_queue_faults.py"
BELOW = "tests/recipes/test_znodes_below.py"
BOARD = "tests/recipes/tasks/test_task_board.py"
FORMATS = "tests/unit/recipes/test_queue_formats.py"
REACHED = "tests/simulation/test_recipes_reached.py"
EMBEDDED = "trio and not standalone and not ensemble"

MUTANTS = (
    Mutant(
        number="160",
        name="unanswered-acks-count",
        wrong="An acknowledgement whose answer was lost counts as applied.",
        changes=(
            Change(
                "_recipes/queues/claimed.py",
                """
                self._was_unanswered = True
                if await self._was_applied():
                    self._done()
                """,
                """
                self._was_unanswered = True
                self._done()
                """,
            ),
        ),
        tests=(FAULTS, "-k", "answer_to_an_ack and trio"),
        simulated=False,
    ),
    Mutant(
        number="160b",
        name="a-claim-that-is-gone-was-acknowledged",
        wrong="An acknowledgement whose answer was lost counts as applied if the claim is gone.",
        changes=(
            Change(
                "_recipes/queues/claimed.py",
                "return there is None",
                "return True",
            ),
        ),
        tests=(FAULTS, "-k", "taken_away and trio"),
        simulated=False,
    ),
    Mutant(
        number="160d",
        name="finished-items-with-znodes-below-are-handed-out-again",
        wrong="A finished item that cannot be deleted loses its claim, and is not marked.",
        changes=(
            Change(
                "_recipes/queues/claimed.py",
                "transaction.delete(self.path).create(self.path, self._mark, "
                "acl=self._recipe._acl)",
                "transaction.check(self.path).delete(self.path)",
            ),
        ),
        tests=(BELOW, "-k", "finished_once and trio"),
        simulated=False,
    ),
    Mutant(
        number="160c",
        name="acknowledging-loses-the-claim",
        wrong="The deletion of a claim by its own acknowledgement, heard of first, is a loss.",
        changes=(
            Change(
                "_recipes/queues/claimed.py",
                "if reason is LossReason.DELETED and (self._is_finishing or "
                "self._in_flight is not None):",
                "if reason is None:",
            ),
        ),
        tests=(FAULTS, "-k", "answer_to_an_ack and trio"),
        simulated=False,
    ),
    Mutant(
        number="161",
        name="claims-of-the-dead-unnoticed",
        wrong="Who waits does not watch the claims: what is given back is nobody's.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                "both = (self._claimed, self._present)",
                "both = (self._claimed, self._present) if not self.looks else (self._present,)",
            ),
        ),
        tests=(FAULTS, "-k", "dead and trio"),
        simulated=False,
    ),
    Mutant(
        number="161b",
        name="watches-end-with-their-session",
        wrong="Who waits goes on waiting for watches of a session that is over.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                """
                def _on_event(self, _event: WatchEvent) -> None:
                    self._changes += 1
                """,
                """
                def _on_event(self, _event: WatchEvent) -> None:
                    if _event.type.name == "NONE":
                        return
                    self._changes += 1
                """,
            ),
        ),
        tests=(QUEUE, "-k", f"session_ends and {EMBEDDED}"),
        simulated=False,
    ),
    Mutant(
        number="161c",
        name="looks-of-others-are-not-awaited",
        wrong="A consumer takes a queue for empty while another one of its client lists it.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                "changes = self._changes",
                "changes = self._listed = self._changes",
            ),
        ),
        tests=("tests/recipes/queues/test_queue_looks.py", "-k", "each_gets and trio"),
        simulated=False,
    ),
    Mutant(
        number="162",
        name="lost-claims-stay",
        wrong="A claim whose answer was lost, and that nobody wants any more, stays.",
        seen_in="CURATOR-45, of locks",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                """
                self._uses += 1
                super()._delete_lost_later(path, session_id, already_looked=already_looked)
                """,
                """
                assert path, (session_id, already_looked)
                """,
            ),
        ),
        tests=(FAULTS, "-k", "nobody_wants and trio"),
        simulated=False,
    ),
    Mutant(
        number="162b",
        name="passed-over-items-are-forgotten",
        wrong="An item that was reserved when it was listed is not offered when that ends.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                "if name in self._passed_over and not self.is_stale:",
                "if name in self._passed_over and not self._users:",
            ),
        ),
        tests=(FAULTS, "-k", "reserve and trio"),
        simulated=False,
    ),
    Mutant(
        number="162c",
        name="only-its-own-queue-gets-it",
        wrong="An item that is not reserved any more is offered by one queue object alone.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                "for available in tuple(self.users):",
                "for available in ():",
            ),
        ),
        tests=("tests/simulation/test_found.py", "-k", "reserved and trio"),
        simulated=False,
    ),
    Mutant(
        number="163",
        name="negative-priorities-last",
        wrong="A negative priority is named as if it were a great one.",
        changes=(Change("_recipes/queues/item_format.py", "{int(priority >= 0)}", "1"),),
        tests=(FORMATS,),
        simulated=False,
    ),
    Mutant(
        number="164",
        name="what-is-on-its-way-has-room",
        wrong="Puts that are on their way do not count for the limit of a queue.",
        changes=(
            Change(
                "_recipes/queues/work_queue.py",
                "return self._most - self._seen - (self._put - self._seen_at)",
                "return self._most - self._seen",
            ),
        ),
        tests=(QUEUE, "-k", f"on_its_way and {EMBEDDED}"),
        simulated=False,
    ),
    Mutant(
        number="165",
        name="results-go-by-their-numbers",
        wrong="The results with the smallest numbers go, though they may be the latest.",
        changes=(
            Change(
                "_recipes/tasks/results.py",
                "ages.append((found.czxid, path))",
                "ages.append((0, path))",
            ),
        ),
        tests=(BOARD, "-k", f"latest_results and {EMBEDDED}"),
        simulated=False,
    ),
    Mutant(
        number="165b",
        name="lost-reports-are-forgotten",
        wrong="A report on which the connection was lost is not said again.",
        changes=(
            Change(
                "_recipes/tasks/task.py",
                "self._progress = self._progress or progress",
                "pass",
            ),
        ),
        tests=(BOARD, "-k", f"said_again and {EMBEDDED}"),
        simulated=False,
    ),
    Mutant(
        number="166",
        name="due-to-the-second",
        wrong="An item is handed out in the second in which it is due, not when it is due.",
        changes=(
            Change(
                "_recipes/queues/item_format.py", "return key[0] / 1000", "return key[0] // 1000"
            ),
        ),
        tests=(REACHED, "-k", "delay and trio"),
        simulated=False,
    ),
    Mutant(
        number="166b",
        name="sleeps-past-the-time",
        wrong="Who waits for an item that is not due yet is woken by changes alone.",
        changes=(
            Change(
                "_recipes/queues/available_items.py",
                "self._until_due(self._heap[0][0]) if self._heap else None",
                "None",
            ),
        ),
        tests=(REACHED, "-k", "delay and trio"),
        simulated=False,
    ),
    Mutant(
        number="167",
        name="a-leaders-sync-is-trusted",
        wrong="Before it looks for a znode of its own, after an answer was lost, a recipe has the "
        "server catch up by a sync: a leader answers that as a read.",
        seen_in="aiolead, until the model of the leader did the same as the real one",
        changes=(
            Change(
                "_recipes/_core/reading.py",
                "await client.check(path)",
                "await client.sync(path)",
            ),
        ),
        tests=("tests/simulation/test_found.py", "-k", "leader"),
        simulated=False,
        note="It shows where claims and kept znodes are: the schedules of those are the test.",
    ),
    Mutant(
        number="167b",
        name="barrier-trusts-a-leaders-sync",
        wrong="Who waits at a barrier has the server catch up by a sync.",
        changes=(
            Change(
                "_recipes/barriers/barrier.py",
                "await client.check(self._path)",
                "await client.sync(self._path)",
            ),
        ),
        tests=("tests/simulation/test_omissions.py", "-k", "barrier"),
        simulated=False,
    ),
)
