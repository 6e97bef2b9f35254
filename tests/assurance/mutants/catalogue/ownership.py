"""Only a proof makes a znode ours: neither its name, nor its path, nor its version."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import LOST_CREATES

ANY_OWNER = Change(
    "_recipes._core.ephemeral_names:SerialNode._look_answered",
    "if stat is None or stat.ephemeral_owner != session_id:",
    "if stat is None or not session_id:",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="adopts-by-name",
        wrong="The search for a lost create adopts any znode in the queue, whoever owns it.",
        seen_in="CURATOR-498, CURATOR-604; kazoo",
        aim=Aim((LOST_CREATES,), groups=3),
        changes=(
            Change(
                "_recipes._core.ephemeral_names:SerialNode._find",
                "await look_at_all([name for name in names if name.startswith(prefix)], look_at)",
                "await look_at_all([name for name in names if prefix], look_at)",
            ),
            ANY_OWNER,
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="claims-are-ignored",
        wrong="The search for a lost create adopts the znode of another contender of this client.",
        aim=Aim((LOST_CREATES,), groups=3),
        changes=(
            Change(
                "_recipes.contention.layouts:_Form.prefix",
                'f"{self.head}{session}{count:{self.identity.count}}{several}{self.tail}"',
                'f"{self.head}{session}{1:{self.identity.count}}{several}{self.tail}"',
            ),
            Change(
                "_recipes._core.ephemeral_names:SerialNode._look_answered",
                "if not self._names.is_claimed(name):",
                "if stat:",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="Either net is enough: names that a client gives once, and claims.",
        simulated=True,
    ),
    Mutant(
        name="forged-name-is-adopted",
        wrong="The search for a lost create adopts a znode with the prefix of its name,"
        " whoever owns it.",
        seen_in="aiolead, until somebody attacked it",
        changes=(ANY_OWNER,),
        tests=("tests/recipes/test_ownership.py",),
    ),
    Mutant(
        name="next-holder-deleted",
        wrong="A znode that a check has shown to be gone is deleted by its path, which "
        "is another holder's by then.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes._core.acquire:Acquirable._await_lease",
                "znodes[-1].seen_gone()",
                "znodes[-1].check()",
            ),
        ),
        tests=("tests/recipes/locks/test_exclusive.py",),
    ),
    Mutant(
        name="closes-the-session-of-another",
        wrong="A client that continues a session closes it although another process may"
        " hold something under it.",
        seen_in="aiolead, until its authors looked for siblings",
        changes=(
            Change(
                "_session.states:SessionLife.is_own",
                "not self.is_passed_on or self._is_handed_over",
                "self.session_id != 0 or self._is_handed_over",
            ),
        ),
        tests=("tests/recipes/test_ownership.py",),
    ),
    Mutant(
        name="persistent-node-deletes-by-version",
        wrong="A persistent node deletes what is at its path if that has the version last seen.",
        seen_in="aiolead, until its simulation met it",
        changes=(
            Change(
                "_recipes.membership.persistent_node:PersistentNode.__init__",
                "self._is_contended",
                "False",
            ),
        ),
        tests=("tests/recipes/test_ownership.py",),
    ),
    Mutant(
        name="password-forgotten",
        wrong="A reconnect shows the session without its password.",
        changes=(
            Change(
                "_session.machine:SessionMachine._handshake_answered",
                "self._password = response.password",
                'self._password = b""',
            ),
        ),
        tests=("tests/session/test_session_machine.py",),
        simulated=True,
    ),
)
