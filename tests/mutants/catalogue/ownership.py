"""Bugs in the proof that a znode is ours: forged names, shared paths, resumed sessions."""

from __future__ import annotations

from ..model import Change, Mutant

TESTS = "tests/recipes/test_ownership.py"

MUTANTS = (
    Mutant(
        number="401",
        name="forged-name-is-adopted",
        wrong="The search for a lost create adopts a znode with the prefix of its name, whoever "
        "owns it.",
        seen_in="aiolead, until somebody attacked it",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                "if stat is None or stat.ephemeral_owner != session_id:",
                "if stat is None or not session_id:",
            ),
        ),
        tests=(TESTS, "-k", "forged and trio"),
        simulated=False,
    ),
    Mutant(
        number="402",
        name="verdict-after-an-await",
        wrong="Whether an existing znode is from a lost create is decided by the task that waits "
        "for the answer, after later answers; and a znode of our session that nobody has counts.",
        seen_in="aiolead, until somebody attacked it",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                """
                look.add_done_callback(partial(self._ours_answered, look))
                _, stat = await look
                """,
                """
                _, stat = await look
                self._ours_answered(look)
                """,
            ),
            Change(
                "_recipes/_core/znode_registry.py",
                """
                return (
                    lost is not None
                    and lost.session_id == client.session_id
                    and any(stat.czxid > since for since in lost.since)
                    and self.is_unclaimed(client, stat)
                )
                """,
                """
                return lost is not self and self.is_unclaimed(client, stat)
                """,
            ),
            Change(
                "_recipes/_core/ephemeral_names.py",
                "if not self._is_contended:",
                "if self._path:",
            ),
        ),
        tests=(TESTS, "-k", "sibling_deletes"),
        note="It takes three mistakes: each of the other two nets is enough.",
        simulated=False,
    ),
    Mutant(
        number="403",
        name="contended-path-deleted-unproven",
        wrong="A znode at a path that others use is deleted by its path, whoever has made it.",
        seen_in="aiolead, until somebody attacked it",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                "if not self._is_contended:",
                "if self._path:",
            ),
        ),
        tests=(TESTS, "-k", "next_holder"),
        simulated=False,
    ),
    Mutant(
        number="404",
        name="registry-for-each-recipe",
        wrong="Each recipe knows only its own znodes, so it takes another recipe's znode of the "
        "same client for its own.",
        seen_in="aiolead, until somebody attacked it",
        changes=(
            Change(
                "_recipes/_core/znode_registry.py",
                "return client.backend.shared(None, cls)",
                "return cls()",
            ),
        ),
        tests=(TESTS, "-k", "persistent_node_does_not"),
        simulated=False,
    ),
    Mutant(
        number="405",
        name="session-mate-is-an-orphan",
        wrong="A client that continues a session deletes at once what another process has in it.",
        seen_in="aiolead, until somebody attacked it",
        changes=(
            Change(
                "_client/api/client_backend.py",
                "return max(0.0, machine.sole_at - self._core.clock()) if machine.is_passed_on "
                "else 0.0",
                "return 0.0 * machine.sole_at if machine.sole_at < 0 else 0.0",
            ),
        ),
        tests=(TESTS, "-k", "resumed_session_waits and trio"),
        simulated=False,
    ),
    Mutant(
        number="406",
        name="closes-the-session-of-another",
        wrong="A client that continues a session closes it although another process may hold "
        "something under it.",
        seen_in="aiolead, until its authors looked for siblings",
        changes=(
            Change(
                "_session/states.py",
                "return not self.is_passed_on or self._is_handed_over",
                "return self.session_id != 0 or self._is_handed_over",
            ),
        ),
        tests=(TESTS, "-k", "closing_a_resumed and trio"),
        simulated=False,
    ),
    Mutant(
        number="407",
        name="persistent-node-deletes-by-version",
        wrong="A persistent node deletes what is at its path if that has the version last seen.",
        seen_in="aiolead, until its simulation met it",
        changes=(
            Change(
                "_recipes/membership/persistent_node.py",
                "is_contended=self._is_contended,",
                "is_contended=False,",
            ),
        ),
        tests=(TESTS, "-k", "next_owner"),
        simulated=False,
    ),
)
