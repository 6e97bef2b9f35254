"""Nothing is left behind: no znode, watch or task, whatever is cancelled or lost."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import LOST_CREATES, LOST_LINKS

NO_ORPHANS = Change(
    "_recipes.contention.contender:Contender._on_look",
    "is_ours = stat.ephemeral_owner == client.session_id",
    "is_ours = stat.ephemeral_owner == 0",
)
"""Switches off the second safety net: the deletion of unclaimed znodes of this session."""

NOT_ADOPTED = Change(
    "_recipes._core.ephemeral:EphemeralNode.resolve",
    "await self._find(path, session_id, partial(self._adopt, create, path))",
    "repr(partial(self._adopt, create, path))",
)

NO_LATE_LOOK = Change(
    "_recipes._core.ephemeral:EphemeralNode._delete_lost_later",
    "self._client.backend.spawn(partial(in_background, path, job))",
    "repr(job)",
)
"""Switches off the look for a lost create in the background."""

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="lost-delete-counts-as-done",
        wrong="A delete whose answer was lost is taken for done.",
        seen_in="CURATOR-678; kazoo #732",
        aim=Aim((("delete-answer-lost", "delete-request-lost", *LOST_LINKS),), groups=3),
        changes=(
            Change(
                "_recipes._core.pending_delete:PendingDelete._answered",
                "if is_proof_refused or action in (Action.RECONNECT, Action.PAUSE):",
                "if self.is_done:",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="pending-deletes-are-tried-once",
        wrong="A pending delete that fails at the first try is dropped.",
        seen_in="kazoo #732",
        aim=Aim((("delete-answer-lost", "delete-request-lost", *LOST_LINKS),), groups=3),
        changes=(
            Change(
                "_recipes._core.error_policy:until_done",
                "await before_next_try(client, error, Step.RELEASE)",
                "return True",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="lost-create-is-forgotten",
        wrong="A create whose answer was lost is neither looked for nor cleaned up; the"
        " contender creates another znode.",
        seen_in="CURATOR-45",
        aim=Aim((LOST_CREATES,), groups=3),
        changes=(
            Change(
                "_recipes._core.ephemeral:EphemeralNode._created",
                """
                if not wanted:  # else that is settled by `resolve`, or `withdraw`
                    self._delete_lost_later(path, session_id)
                """,
                """
                if not wanted:  # else that is settled by `resolve`, or `withdraw`
                    self._delete_lost_later(path, session_id)
                else:
                    self._creating = None
                """,
            ),
            NO_ORPHANS,
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="lost-create-is-not-adopted",
        wrong="A create whose answer was lost is not looked for when the contender "
        "continues; only the late look is left.",
        changes=(NOT_ADOPTED,),
        tests=("tests/recipes/test_faults_link.py",),
    ),
    Mutant(
        name="lost-create-is-never-deleted",
        wrong="A create whose answer was lost is neither adopted, nor looked for later,"
        " nor deleted as an orphan.",
        aim=Aim((LOST_CREATES,), groups=3),
        changes=(
            NOT_ADOPTED,
            NO_ORPHANS,
            NO_LATE_LOOK,
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="no-second-look",
        wrong="A create that is applied after a look in vain is never found.",
        changes=(
            NO_LATE_LOOK,
            NO_ORPHANS,
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="It takes a create that arrives after its client has looked for it elsewhere.",
    ),
    Mutant(
        name="cancelled-waiter-stays-in-queue",
        wrong="A waiter that is cancelled, or whose timeout ends, leaves its znode in the queue.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes._core.holding_recipe:HoldingRecipe._contend",
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
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="cancelled-create-stays",
        wrong="A contender that is cancelled before its create was answered leaves a znode.",
        seen_in="CURATOR-79, CURATOR-18; aiozk",
        changes=(
            Change(
                "_recipes._core.ephemeral:EphemeralNode._created",
                "self._delete(node, None)",
                "",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="cancelled-create-that-was-lost-stays",
        wrong="A contender that is cancelled while it is unknown whether its create was"
        " applied leaves a znode.",
        seen_in="go-zookeeper #229",
        changes=(
            Change(
                "_recipes._core.ephemeral:EphemeralNode.withdraw",
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
                "_recipes._core.ephemeral:EphemeralNode._created",
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
        tests=("tests/recipes/test_rare_moments.py",),
        note="It takes a cancel between the loss of a link and the next one.",
    ),
    Mutant(
        name="release-needs-an-await",
        wrong="A release begins with an await of the caller, so a cancelled caller "
        "releases nothing.",
        seen_in="CURATOR-62; redis-py #3847",
        changes=(
            Change(
                "_recipes._core.contexts:TenureScope._leave",
                "await tenure._release(scope)",
                """
                await anyio.lowlevel.checkpoint()
                await tenure._release(scope)
                """,
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="closing-leaves-tasks",
        wrong="Closing a client does not end its background tasks.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.core:Core.end_jobs",
                """
                tasks, self.tasks = self.tasks, None
                if tasks is not None:
                    tasks.end()
                """,
                "self.tasks = None",
            ),
        ),
        tests=("tests/client/test_connect.py",),
        simulated=True,
    ),
    Mutant(
        name="watches-of-those-who-left-stay",
        wrong="A contender that leaves the queue does not remove its watches.",
        seen_in="CURATOR-107, CURATOR-14; kazoo #175; aiozk",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._leave_watches",
                """
                for watch in self._ahead.values():
                    watch.close()
                self._ahead = _NO_WATCHES
                """,
                "self._ahead = _NO_WATCHES",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="They are gone with the holder's znode, so it takes a look while that is there.",
    ),
    Mutant(
        name="dropped-watch-stays",
        wrong="A watch that no object holds any more stays on the server.",
        seen_in="CURATOR-107; kazoo #175",
        changes=(
            Change(
                "_session.watches.registry:WatchRegistry.dropped",
                "self.dropped_slots.append(slot)",
                "pass",
            ),
        ),
        tests=("tests/client/test_watches.py",),
    ),
    Mutant(
        name="book-keeping-is-not-undone",
        wrong="A wait that ends in vain stays recorded as a use of the lock, so the "
        "next one is refused.",
        seen_in="aiozk: a dictionary by `id()`",
        changes=(
            Change(
                "_recipes._core.holding_recipe:TaskGuard.leave",
                "self._uses.pop(task, ())",
                "(user,)",
            ),
        ),
        tests=("tests/recipes/test_counts.py",),
        simulated=True,
    ),
    Mutant(
        name="lost-claims-stay",
        wrong="A claim of an item whose answer was lost, and that nobody wants any more, stays.",
        seen_in="CURATOR-45, of locks",
        changes=(
            Change(
                "_recipes._core.ephemeral_names:FixedNode._delete_lost_later",
                """
                self._uses += 1
                super()._delete_lost_later(path, session_id, already_looked=already_looked)
                """,
                "assert path, (session_id, already_looked)",
            ),
        ),
        tests=("tests/recipes/queues/test_queue_faults.py",),
    ),
)
