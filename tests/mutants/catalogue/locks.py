"""Readers and writers, locks that are taken again, several at once, requests, conditions."""

from __future__ import annotations

from ..model import Change, Mutant

SHARING = ("tests/unit/recipes/test_contention_sharing.py",)
READ_WRITE = "tests/recipes/locks/test_read_write.py"
REENTRANT = "tests/recipes/locks/test_reentrant.py"
MULTI = "tests/recipes/locks/test_multi.py"
ELSEWHERE = "tests/recipes/test_left_elsewhere.py"
REVOCATION = "tests/recipes/locks/test_revocation.py"
CONDITION = "tests/recipes/locks/test_condition.py"
CAMPAIGN = "tests/recipes/election/test_campaign.py"
SIMULATED = "tests/simulation/test_recipes_locks.py"
REACHED = "tests/simulation/test_recipes_reached.py"

MUTANTS = (
    Mutant(
        number="200",
        name="readers-overtake-writers",
        wrong="A reader only waits for the writer that holds, not for those that wait.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "before = [name for name in before if not layout._is_reader(name)]",
                "before = [name for name in before[:1] if not layout._is_reader(name)]",
            ),
        ),
        tests=SHARING,
        simulated=False,
    ),
    Mutant(
        number="201",
        name="writer-gone-means-next",
        wrong="A writer takes over as the writer before it goes, though that has become a reader.",
        seen_in="CURATOR-621",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "settles_it = role is Role.READ or layout._is_reader(nearest)",
                "settles_it = True",
            ),
        ),
        tests=(SIMULATED, "-k", "sharing and trio"),
        simulated=False,
    ),
    Mutant(
        number="202",
        name="downgrades-in-two-steps",
        wrong="The writer is deleted, and then the reader created, at the end of the line.",
        seen_in="CURATOR-276",
        changes=(
            Change(
                "_recipes/locks/write_contender.py",
                """
                .create(path, self._data, mode=CreateMode.EPHEMERAL, acl=self._acl)
                .delete(writer.path)
                """,
                """
                .delete(writer.path)
                """,
            ),
        ),
        tests=(READ_WRITE, "-k", "becomes_a_reader and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="203",
        name="hold-stays-on-the-writer",
        wrong="After a downgrade the lease goes on to confirm the writer's znode.",
        changes=(
            Change(
                "_recipes/locks/write_contender.py",
                """
                if error is None:
                    self._move_hold()
                """,
                """
                if error is None:
                    self._has_moved = True
                """,
            ),
        ),
        tests=(READ_WRITE, "-k", "(lost_in_the_middle or becomes_a_reader) and trio"),
        simulated=False,
    ),
    Mutant(
        number="204",
        name="lost-downgrade-counts-as-loss",
        wrong="If the answer to a downgrade is lost, and it was done, the hold counts as lost.",
        changes=(
            Change(
                "_recipes/locks/write_contender.py",
                "and self.downgrade is Downgrade.UNKNOWN",
                "and self.downgrade is Downgrade.DONE",
            ),
        ),
        tests=(READ_WRITE, "-k", "lost_in_the_middle and trio and reply"),
        simulated=False,
    ),
    Mutant(
        number="205",
        name="upgrades-are-waited-for",
        wrong="A task that reads and asks to write waits: for itself.",
        changes=(
            Change(
                "_recipes/locks/read_write.py",
                "if any(isinstance(user, ReadLock) for user in self._tasks.mine()):",
                "if False:",
            ),
        ),
        tests=(READ_WRITE, "-k", "never_made_a_writer and trio"),
        simulated=False,
    ),
    Mutant(
        number="206",
        name="inner-block-releases",
        wrong="Leaving an inner block of a re-entrant lock releases it.",
        changes=(
            Change(
                "_recipes/locks/lock.py",
                "outer.count -= 1",
                "await outer.held.release()",
            ),
        ),
        tests=(REENTRANT, "-k", "trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="206b",
        name="who-has-lost-it-is-inside",
        wrong="A task that has lost a re-entrant lock counts as inside, and never gets it again.",
        changes=(
            Change(
                "_recipes/locks/lock.py",
                "if self._task is not None and self._is_outermost(self._task):",
                "if self._task is not None and self._is_outermost(self._task) and exc is None:",
            ),
        ),
        tests=(REACHED, "-k", "reentrant and trio"),
        simulated=False,
    ),
    Mutant(
        number="206c",
        name="enters-again-after-the-loss",
        wrong="A task that has lost a re-entrant lock enters it again, as if it had it.",
        changes=(Change("_recipes/locks/lock.py", "entry.held.check()", "pass"),),
        tests=(REACHED, "-k", "reentrant and trio"),
        simulated=False,
    ),
    Mutant(
        number="206d",
        name="left-elsewhere-is-kept",
        wrong="What another task leaves than the one that entered is refused, and held on.",
        seen_in="aiolead",
        changes=(
            Change("_recipes/_core/contexts.py", "await tenure._release_elsewhere()", "pass"),
        ),
        tests=(ELSEWHERE, "-k", "abandoned_generator and trio-embedded-Lock"),
        simulated=False,
    ),
    Mutant(
        number="207",
        name="each-lock-has-the-whole-limit",
        wrong="The limit of several locks counts anew for each of them.",
        seen_in="Curator",
        changes=(
            Change(
                "_recipes/locks/multi.py",
                "left = None if deadline is None else max(0.0, deadline - anyio.current_time())",
                "left = None if deadline is None else 8.0",
            ),
        ),
        tests=(MULTI, "-k", "limit_is_not_that_of_each and trio"),
        simulated=False,
    ),
    Mutant(
        number="208",
        name="several-locks-in-any-order",
        wrong="Several locks are taken in the order in which they are given.",
        changes=(
            Change(
                "_recipes/locks/multi.py",
                "tuple(sorted(map(_checked, recipes), key=_order))",
                "tuple(map(_checked, recipes))",
            ),
        ),
        tests=(MULTI, "-k", "trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="208b",
        name="each-has-an-order-of-its-own",
        wrong="Several locks are taken in an order that each process has for itself.",
        changes=(
            Change(
                "_recipes/locks/multi.py",
                "sorted(map(_checked, recipes), key=_order)",
                "sorted(map(_checked, recipes), key=id)",
            ),
        ),
        tests=(REACHED, "-k", "multi and trio"),
        simulated=False,
    ),
    Mutant(
        number="208e",
        name="order-of-the-view",
        wrong="Several locks are taken in the order of their paths as each chroot has them.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/multi.py",
                "recipe._contended_path if isinstance(recipe, HoldingRecipe) else recipe.path",
                "recipe.path",
            ),
        ),
        tests=(MULTI, "-k", "name_the_same_locks and trio"),
        simulated=False,
    ),
    Mutant(
        number="208c",
        name="loss-of-one-is-swallowed",
        wrong="A block under several locks that ends as one of them is lost ends without a word.",
        changes=(
            Change(
                "_recipes/locks/multi.py",
                """
                if stack is not None:
                    await stack.__aexit__(exc_type, exc, traceback)
                """,
                """
                try:
                    await stack.__aexit__(exc_type, exc, traceback)
                except TenureLost:
                    return True
                """,
            ),
        ),
        tests=(REACHED, "-k", "multi and trio"),
        simulated=False,
    ),
    Mutant(
        number="208d",
        name="let-in-with-less",
        wrong="Who loses one of several locks as the last one becomes his is let in without it.",
        seen_in="aiolead",
        changes=(Change("_recipes/locks/multi.py", "several.check()", "pass"),),
        tests=(MULTI, "-k", "becomes_ours and trio"),
        simulated=False,
    ),
    Mutant(
        number="209",
        name="requests-are-not-read",
        wrong="A holder whose znode was changed does not look at what is in it.",
        changes=(
            Change(
                "_recipes/contention/queue_node.py",
                "if not self.is_asked_for and is_request(data):",
                "if False:",
            ),
        ),
        tests=(REVOCATION, "-k", "curators_request and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="210",
        name="waiters-list-the-line-for-a-request",
        wrong="Whoever waits behind one that was asked to let go lists the line.",
        seen_in="Curator",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "elif event.type is EventType.DATA_CHANGED:",
                "elif False:",
            ),
        ),
        tests=(REVOCATION, "-k", "not_disturbed and trio"),
        simulated=False,
    ),
    Mutant(
        number="211",
        name="orphaned-signals-stay",
        wrong="The notification of a waiter that has died wakes nobody else.",
        changes=(
            Change(
                "_recipes/locks/condition_signals.py",
                "orphans = [name for name in seen.orphans if name not in self.stuck][:AT_ONCE]",
                "orphans = list[str]()",
            ),
        ),
        tests=(CONDITION, "-k", "passes_it_on and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="211b",
        name="stuck-orphan-is-tried-without-a-pause",
        wrong="An orphan that the servers refuse to move is tried again at once, forever.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/condition_signals.py",
                "self.stuck.add(name)",
                "self.stuck.discard(name)",
            ),
        ),
        tests=("tests/recipes/locks/test_condition_signals.py", "-k", "trio"),
        simulated=False,
    ),
    Mutant(
        number="211c",
        name="signals-outlive-their-waiters",
        wrong="A notification whose waiter is gone wakes somebody who began to wait after it.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/condition_signals.py",
                "if not heir or signal.given < since]",
                "if not heir]",
            ),
        ),
        tests=("tests/recipes/locks/test_condition_signals.py", "-k", "came_after"),
        simulated=False,
    ),
    Mutant(
        number="211d",
        name="passed-on-signals-are-new",
        wrong="A notification that is passed on counts as given when it is passed on.",
        changes=(
            Change(
                "_recipes/locks/condition_signals.py",
                "return cls(author, whole(given, most=stat.czxid) if given else stat.czxid)",
                "return cls(author, stat.czxid)",
            ),
        ),
        tests=("tests/recipes/locks/test_condition_signals.py", "-k", "inherited"),
        simulated=False,
    ),
    Mutant(
        number="211e",
        name="persistent-waiters-are-notified",
        wrong="A persistent znode with the name of a waiter gets notifications.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/condition_signals.py",
                "if not stat.ephemeral_owner:",
                "if False:",
            ),
            Change(
                "_recipes/locks/condition_signals.py",
                "return bool(stat.ephemeral_owner)",
                "return True",
            ),
        ),
        tests=("tests/recipes/locks/test_condition_signals.py", "-k", "persistent or neither"),
        simulated=False,
    ),
    Mutant(
        number="212",
        name="lets-go-before-it-is-registered",
        wrong="A waiter lets go of the lock, and registers then: what comes between is missed.",
        seen_in="CURATOR-527",
        changes=(
            Change(
                "_recipes/locks/condition.py",
                """
                await waiter.join()
                self.check()
                with anyio.CancelScope() as refused:
                    release = self._let_go(refused)
                """,
                """
                with anyio.CancelScope() as refused:
                    release = self._let_go(refused)
                    await anyio.sleep(0.05)
                    await waiter.join()
                """,
            ),
        ),
        tests=(CONDITION, "-k", "begins_to_wait and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="213",
        name="cancelled-wait-goes-on",
        wrong="A block whose wait was cancelled inside of it goes on, without the lock.",
        changes=(
            Change(
                "_recipes/locks/condition.py",
                """
                if self._waits:
                    self._abandon()
                """,
                """
                """,
            ),
        ),
        tests=(CONDITION, "-k", "scope_around_a_wait and trio"),
        simulated=False,
    ),
    Mutant(
        number="214",
        name="rank-without-look-ahead",
        wrong="Where several lead, the second one in waiting is not told that it is the first.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "place = standing(line, own, self._places, look_ahead=self._on_rank is not None)",
                "place = standing(line, own, self._places)",
            ),
        ),
        tests=(CAMPAIGN, "-k", "knows_when_it_is_next and trio"),
        simulated=False,
    ),
)
