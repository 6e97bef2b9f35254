"""What several hold or pass at once: exclusive znodes, permits, barriers."""

from __future__ import annotations

from ..model import Change, Mutant

EXCLUSIVE = "tests/recipes/locks/test_exclusive.py"
SEMAPHORE = "tests/recipes/locks/test_semaphore.py"
SEMAPHORE_LIMIT = "tests/recipes/locks/test_semaphore_limit.py"
BARRIERS = "tests/recipes/barriers/test_barriers.py"
FOREIGN = "tests/recipes/barriers/test_foreign_children.py"
SIMULATED = "tests/simulation/test_recipes_shared.py"

MUTANTS = (
    Mutant(
        number="140",
        name="permits-counted-before-they-were-made",
        wrong="Permits are good if there was room for one, not for all of them.",
        seen_in="kazoo 213",
        changes=(
            Change(
                "_recipes/locks/semaphore/permits.py",
                "return len(names) <= limit",
                "return len(names) - len(self._own) < limit",
            ),
        ),
        tests=(SIMULATED, "-k", "permits:permits and trio"),
        simulated=False,
    ),
    Mutant(
        number="141",
        name="waits-in-line-with-permits",
        wrong="Who has lost its place at the front keeps its permits while it waits behind others.",
        changes=(
            Change(
                "_recipes/locks/semaphore/permits.py",
                """
                if await contender.try_acquire():
                    return question or self._ask(watches=False)
                self._withdraw()
                """,
                """
                if await contender.try_acquire():
                    return question or self._ask(watches=False)
                """,
            ),
        ),
        tests=(SEMAPHORE, "-k", "operator_deletes and trio"),
        simulated=False,
    ),
    Mutant(
        number="141b",
        name="waiting-at-the-front-is-a-hold",
        wrong="A place at the front of a semaphore is registered as a hold, and never released.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/semaphore/permits.py",
                """
                contender.watch_place(self._rouse)
                """,
                """
                contender.watch_place(self._rouse)
                contender.hold(None, {"urgent": False, "resign_on_disconnect": False})
                """,
            ),
        ),
        tests=(SEMAPHORE, "-k", "holds_nothing and trio and curator"),
        simulated=False,
    ),
    Mutant(
        number="141c",
        name="lost-place-not-noticed",
        wrong="Who waits at the front of a semaphore does not notice that its place was deleted.",
        changes=(
            Change(
                "_recipes/locks/semaphore/permits.py",
                "if contender.is_place_lost:",
                "if False:",
            ),
        ),
        tests=(SEMAPHORE, "-k", "operator_deletes and trio"),
        simulated=False,
    ),
    Mutant(
        number="142",
        name="limit-not-watched",
        wrong="Who waits at the front does not notice that the limit was raised.",
        seen_in="CURATOR-75",
        changes=(
            Change(
                "_recipes/locks/semaphore/permits.py",
                'limit = LimitReply(client, where, self._arm(f"{where.limit} limit", watches))',
                "limit = LimitReply(client, where)",
            ),
        ),
        tests=(SEMAPHORE, "-k", "limit_is_changed and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="142c",
        name="published-limit-grants-more",
        wrong="A published limit, which anybody may write, grants more permits than the own one.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/semaphore/parts.py",
                "return published if self.follows else min(self.own, published)",
                "return published",
            ),
        ),
        tests=(SEMAPHORE_LIMIT, "-k", "grants_no_second_permit and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="142b",
        name="permits-of-two-layouts",
        wrong="Permits are given where semaphores of another library's layout give theirs.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/locks/semaphore/parts.py",
                "for name in where.misfits(names):",
                "for name in where.misfits(()):",
            ),
        ),
        tests=(SEMAPHORE, "-k", "another_layout and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="143",
        name="znode-of-another-task",
        wrong="A znode of our session is taken for that of our lost create, whoever here has it.",
        changes=(
            Change(
                "_recipes/_core/znode_registry.py",
                "stat.ephemeral_owner == client.session_id != 0 and stat.czxid not in self.claimed",
                "stat.ephemeral_owner == client.session_id != 0",
            ),
        ),
        tests=("tests/recipes/test_ownership.py", "-k", "sibling and trio"),
        simulated=False,
    ),
    Mutant(
        number="144",
        name="znode-of-another-released",
        wrong="A lost lock is released by its path, which is somebody else's by then.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if self._gone or node.session_id not in (0, self._client.session_id):
                    # A znode at that path may belong to another client by now.
                """,
                """
                if self._is_over(node.session_id):
                    # A znode at that path may belong to another client by now.
                """,
            ),
        ),
        tests=(EXCLUSIVE, "-k", "left_alone and trio"),
        simulated=False,
    ),
    Mutant(
        number="215",
        name="next-holder-deleted",
        wrong="A znode that a check has shown to be gone is deleted all the same, by its path: "
        "that is somebody else's by then, and two hold the lock.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/acquire.py",
                "znodes[-1].seen_gone()",
                "znodes[-1].check()",
            ),
        ),
        tests=(EXCLUSIVE, "-k", "next_one and trio"),
        simulated=False,
    ),
    Mutant(
        number="145",
        name="any-ready-lets-in",
        wrong="Whoever finds `ready` is let in, even if all who were in that round have died.",
        seen_in="Curator",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "if stat is not None and stat.czxid > self._own.node.token:",
                "if stat is not None:",
            ),
        ),
        tests=(BARRIERS, "-k", "dead_have_left and trio"),
        simulated=False,
    ),
    Mutant(
        number="146",
        name="leaves-without-looking-again",
        wrong="Who has seen one of the others leave a double barrier believes that all have.",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                """
                await self._wake.wait()
                """,
                """
                await self._wake.wait()
                return
                """,
            ),
        ),
        tests=(SIMULATED, "-k", "barriers:rounds and trio"),
        simulated=False,
    ),
    Mutant(
        number="146b",
        name="ready-goes-before-our-znode",
        wrong="Who leaves a double barrier takes `ready` away although its own znode may be there.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                """
                await self._own_left()
                while True:
                """,
                """
                while True:
                """,
            ),
            Change(
                "_recipes/barriers/barrier_membership.py",
                "left = sorted(members_among(await listing) - self._ownerless)",
                "left = sorted(members_among(await listing) - self._ownerless - {name})",
            ),
        ),
        tests=(BARRIERS, "-k", "ready_stays and trio and in_memory"),
        simulated=False,
    ),
    Mutant(
        number="146d",
        name="unaware-members-leave-ready",
        wrong="A member of a double barrier that gives up before it has seen `ready` leaves it.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "if self._may_leave_ready and not self.stays_to_the_end:",
                "if self._round is not None and not self.stays_to_the_end:",
            ),
        ),
        tests=(BARRIERS, "-k", "unaware"),
        simulated=False,
    ),
    Mutant(
        number="146c",
        name="late-removal-ends-the-next-round",
        wrong="A slow removal of `ready` also removes that of the next round.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "transaction().set(path, data, version=counter.version)",
                "transaction().set(path, data)",
            ),
        ),
        tests=(BARRIERS, "-k", "late_removal and trio"),
        simulated=False,
    ),
    Mutant(
        number="147",
        name="opening-missed",
        wrong="Who comes back to a closed barrier does not see that it was opened meanwhile.",
        changes=(
            Change(
                "_recipes/barriers/barrier.py",
                "if seen is not None and stat.czxid != seen:",
                "if False:",
            ),
        ),
        tests=(BARRIERS, "-k", "no_opening_is_missed and trio"),
        simulated=False,
    ),
    Mutant(
        number="147b",
        name="withdraws-although-others-may-count-it",
        wrong="A newcomer withdraws where an old `ready` and an older newcomer are, although that "
        "one may be about to remove `ready`: others begin a round with it, and it is not there.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "if await keep_ready(client, self._path, round_):",
                "if True:",
            ),
        ),
        tests=(BARRIERS, "-k", "who_withdraws and trio"),
        simulated=False,
    ),
    Mutant(
        number="147c",
        name="ready-goes-beside-a-newcomer",
        wrong="`ready` is removed although another member has come meanwhile.",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "if stat is not None and stat.czxid == round_ and await _is_alone(client, path, "
                "names, own):",
                "if stat is not None and stat.czxid == round_:",
            ),
        ),
        tests=(BARRIERS, "-k", "beside_a_member and trio"),
        simulated=False,
    ),
    Mutant(
        number="147d",
        name="persistent-children-are-members",
        wrong="A double barrier counts children that no session owns, if their names are UUIDs.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "return 1 + sum(map(bool, owners.values())) >= self._count",
                "return 1 + len(owners) >= self._count",
            ),
        ),
        tests=(FOREIGN, "-k", "in_too_early and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="147e",
        name="any-child-is-a-member",
        wrong="A double barrier counts children whatever their names.",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                "return {name for name in names if _MEMBER.fullmatch(name)}",
                "return {name for name in names if name != READY}",
            ),
        ),
        tests=(FOREIGN, "-k", "in_too_early and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="147f",
        name="leaving-waits-for-a-persistent-child",
        wrong="Who leaves a double barrier waits forever for a child that no session owns.",
        changes=(
            Change(
                "_recipes/barriers/barrier_membership.py",
                """
                if not stat.ephemeral_owner:
                    owners = await _owners(client, self._path, left)
                """,
                """
                if stat.ephemeral_owner is None:
                    owners = await _owners(client, self._path, left)
                """,
            ),
        ),
        tests=(FOREIGN, "-k", "out_together and trio and embedded"),
        simulated=False,
    ),
)
