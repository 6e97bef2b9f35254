"""One contender is next, the right one, and only that one is woken."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ENDS

OWN_ZNODE_UNCHECKED = Change(
    "_recipes._core.ephemeral:EphemeralNode.check",
    """
    if self._gone or node.session_id not in (0, self._client.session_id):
        raise NodeGone
    """,
    """
    if self._node is None:
        raise NodeGone
    """,
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="time-out-means-acquired",
        wrong="A wait that ends by its timeout returns as if the lock were acquired.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes._core.contexts:TenureContext._wait_in_time",
                """
                with anyio.move_on_after(timeout):
                    in_front = await acquirable.acquire()
                """,
                """
                with anyio.move_on_after(timeout):
                    in_front = await acquirable.acquire()
                in_front = acquirable._node is not None
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="own-znode-not-looked-at-again",
        wrong="A contender that takes over does not check that its own znode is still there.",
        seen_in="CURATOR-696",
        changes=(OWN_ZNODE_UNCHECKED,),
        tests=("tests/recipes/test_rare_moments.py",),
        note="It shows only where two deletions, ours and our predecessor's, are told "
        "in one go. Else the next listing, or the watch on our znode, says so.",
    ),
    Mutant(
        name="own-znode-unwatched",
        wrong="A waiter does not watch its own znode.",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._arm",
                "if self._watch is None:",
                "if False:",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        note="A second net: who takes over without having watched its znode looks at "
        "it. So it joins again all the same, only later.",
    ),
    Mutant(
        name="old-session-never-noticed",
        wrong="A contender of an expired session takes its old znode for one of the new"
        " session, by its name alone.",
        aim=Aim((ENDS,), groups=3),
        changes=(
            Change(
                "_recipes.contention.contender:Contender._join",
                "self._node is not None and self._node.session_id != self._client.session_id",
                "False",
            ),
            OWN_ZNODE_UNCHECKED,
            Change(
                "_recipes._core.ephemeral:EphemeralNode._seen",
                "stat.czxid != node.token",
                "False",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        note="Both nets are taken away: that who takes over looks at the session of "
        "its znode, and at its czxid. Two held at once where the path was made "
        "anew meanwhile, as long as names were used again. The test sees that the"
        " old znode is looked for.",
        simulated=True,
    ),
    Mutant(
        name="departed-predecessor-was-first",
        wrong="A waiter behind another contender of its client takes over as that "
        "leaves, whether it held or not.",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._was_first",
                "self._local.front == name and name in self._outlived and self._is_one_at_a_time",
                "self._local.is_claimed(name) and self._is_one_at_a_time",
            ),
        ),
        tests=("tests/assurance/simulation/test_scenarios.py",),
        note="The simulation is that with several contenders of each client in a line.",
    ),
    Mutant(
        name="order-by-name",
        wrong="The queue is sorted by whole names, not by sequence numbers.",
        changes=(
            Change(
                "_recipes.contention.kernel:in_order",
                "line.sort()",
                "line.sort(key=lambda entry: entry[1])",
            ),
        ),
        tests=("tests/recipes/test_contention.py",),
        note="Contenders of the default layout differ in their number alone.",
        simulated=True,
    ),
    Mutant(
        name="token-is-the-sequence-number",
        wrong="The fencing token is the sequence number, which starts again with the path.",
        changes=(
            Change(
                "_recipes._core.tenure:Tenure._take",
                "self._token = node.token",
                "self._token = node.sequence",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="looks-before-it-creates",
        wrong="The queue is listed before the own znode is created.",
        seen_in="aiozk's Lease: list, then create",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._join",
                "create, listing = self.create(), self._client.get_children(self._path)",
                "listing, create = self._client.get_children(self._path), self.create()",
            ),
            Change(
                "_recipes.contention.contender:Contender._join",
                "self._standing = await self._place_among(names)",
                "self._standing = await self._place_among([*names, self.node.name])",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="one-place-too-many",
        wrong="With several places, one contender more than there are places may hold.",
        changes=(
            Change(
                "_recipes.contention.kernel:standing",
                "if rank < min(least, places):",
                "if rank < min(least, places) + (places > 1):",
            ),
        ),
        tests=("tests/recipes/test_contention.py",),
        simulated=True,
    ),
    Mutant(
        name="predecessor-gone-means-first",
        wrong="A waiter takes over when its predecessor goes, even if that was only a waiter.",
        seen_in="a recipe for Node that led unchecked",
        changes=(
            Change(
                "_recipes.contention.kernel:standing",
                "places == 1 and rank == 1",
                "places == 1",
            ),
        ),
        tests=("tests/recipes/test_counts.py",),
        simulated=True,
    ),
    Mutant(
        name="missing-predecessor-has-gone",
        wrong="A predecessor whose znode is not there is taken for one that was the first.",
        seen_in="ewhauser/zookeeper #31",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._try",
                """
                if not await self._arm(place.watch):
                    place = await self._list_queue()
                    continue
                """,
                """
                if not await self._arm(place.watch):
                    place = await self._list_queue()
                    continue
                if place.watch[0] in self._ahead_gone:
                    break
                """,
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        simulated=True,
    ),
    Mutant(
        name="any-event-is-a-departure",
        wrong="Any event of a predecessor's watch is taken for its deletion.",
        seen_in="Curator's barrier, GH-1290",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._on_ahead",
                "event.type is EventType.DELETED",
                "event.type is not None",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
    ),
    Mutant(
        name="one-watch-for-several-places",
        wrong="With several places, a waiter watches only the nearest contender before it.",
        changes=(
            Change(
                "_recipes.contention.kernel:standing",
                "first = max(0, rank - places - look_ahead)",
                "first = max(0, rank - 1 - look_ahead)",
            ),
        ),
        tests=("tests/recipes/test_contention.py",),
    ),
    Mutant(
        name="watches-the-successor",
        wrong="A waiter watches the contender behind it, if there is one.",
        changes=(
            Change(
                "_recipes.contention.kernel:standing",
                """
                watch = tuple(reversed(line[first:rank]))
                return QueuePosition(rank, watch, is_next=places == 1 and rank == 1, extra=extra)
                """,
                """
                watch = tuple(line[rank + 1 : rank + 2] or line[rank - 1 : rank])
                return QueuePosition(rank, watch, is_next=False, extra=extra)
                """,
            ),
        ),
        tests=("tests/recipes/test_counts.py",),
        simulated=True,
    ),
    Mutant(
        name="watch-after-the-read",
        wrong="A predecessor's watch is armed by the answer alone, so a change between "
        "the read and the answer is forgotten.",
        seen_in="CURATOR-527",
        changes=(
            Change(
                "_session.watches.arming:BulkArming.sending",
                """
                if not self._is_sent:
                    self._is_sent = True
                    for slot, path in self._slots:
                        self._registry.arm_early(slot, path)
                wanted = [path for slot, path in self._slots if self._is_due(slot, path)]
                """,
                """
                self._is_sent = True
                wanted = [path for slot, path in self._slots]
                """,
            ),
            Change(
                "_session.watches.arming:BulkArming.armed",
                """
                for slot, path in self._slots:
                    self._registry.armed_early(slot, path)
                """,
                """
                for slot, path in self._slots:
                    self._registry.arm_early(slot, path)
                    self._registry.armed_early(slot, path)
                """,
            ),
        ),
        tests=("tests/recipes/test_unread.py",),
        note="A second net: who has heard of nothing for a while asks. So it is only later.",
    ),
    Mutant(
        name="missing-predecessor-is-waited-for",
        wrong="A predecessor that is not there to be watched is waited for all the same.",
        seen_in="CURATOR-645",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._arm",
                """
                if armed is not None:
                    await armed
                """,
                """
                if armed is not None:
                    await armed
                    self._gone.clear()
                """,
            ),
        ),
        tests=("tests/recipes/test_counts.py",),
        simulated=True,
    ),
    Mutant(
        name="event-replaced-while-unset",
        wrong="The event of a waiter is replaced after the watches were armed, so an "
        "earlier wake-up is lost.",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._try",
                """
                if not (self._ahead_gone or self._gone or self._stale):
                    if unread := self._unread(place.watch):
                        await self._wait_and_check(unread)
                    else:
                        await self._wake.wait()
                """,
                """
                self._wake = Wakeup()
                await self._wake.wait()
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="everybody-watches-the-first",
        wrong="All waiters watch the holder, so its departure wakes all of them.",
        seen_in="kazoo's read/write lock",
        changes=(
            Change(
                "_recipes.contention.kernel:standing",
                "watch = tuple(reversed(line[first:rank]))",
                "watch = tuple(line[:places])",
            ),
            Change(
                "_recipes.contention.contender:Contender._try",
                """
                place = self._take_standing() or (self._behind_ours() if waits else None)
                place = place or await self._list_queue()
                """,
                "place = await self._list_queue()",
            ),
        ),
        tests=("tests/recipes/test_contention.py",),
        simulated=True,
    ),
    Mutant(
        name="waiter-lists-queue-in-a-loop",
        wrong="A waiter lists the queue without waiting for an event: a loop without a pause.",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._try",
                """
                if unread := self._unread(place.watch):
                    await self._wait_and_check(unread)
                else:
                    await self._wake.wait()
                """,
                "self._stale = True",
            ),
        ),
        tests=("tests/recipes/test_counts.py",),
    ),
    Mutant(
        name="waiters-list-queue-for-a-request",
        wrong="A waiter lists the queue when the contender before it is asked to release.",
        seen_in="Curator",
        changes=(
            Change(
                "_recipes.contention.contender:Contender._on_ahead",
                "event.type is EventType.DATA_CHANGED",
                "False",
            ),
        ),
        tests=("tests/recipes/locks/test_revocation.py",),
    ),
    Mutant(
        name="writer-gone-means-next",
        wrong="A writer takes over as the writer before it goes, although that one has "
        "become a reader.",
        seen_in="CURATOR-621",
        changes=(
            Change(
                "_recipes.contention.kernel:sharing",
                "settles_it = role is Role.READ or layout._is_reader(nearest)",
                "settles_it = True",
            ),
        ),
        tests=("tests/assurance/simulation/test_scenarios.py",),
    ),
    Mutant(
        name="downgrades-in-two-steps",
        wrong="A downgrade deletes the writer, and does not create the reader in the "
        "same transaction.",
        seen_in="CURATOR-276",
        changes=(
            Change(
                "_recipes.locks.write_contender:WriteContender._send",
                "self._client.fenced(writer.path).transaction().create(path, "
                "self._data, mode=CreateMode.EPHEMERAL, acl=self._acl)",
                "self._client.fenced(writer.path).transaction()",
            ),
        ),
        tests=("tests/recipes/locks/test_read_write.py",),
    ),
    Mutant(
        name="condition-releases-before-it-registers",
        wrong="A waiter of a condition releases the lock, then registers: a "
        "notification in between is lost.",
        seen_in="CURATOR-527",
        changes=(
            Change(
                "_recipes.locks.condition:ConditionHeld.wait",
                """
                await waiter.join()
                self.check()
                """,
                "",
            ),
            Change(
                "_recipes.locks.condition:ConditionHeld.wait",
                "release = self._let_go(refused)",
                """
                release = self._let_go(refused)
                await anyio.sleep(0.05)
                await waiter.join()
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_condition.py",),
    ),
    Mutant(
        name="permits-counted-before-they-were-made",
        wrong="A semaphore grants its permits if there is room for one of them.",
        seen_in="kazoo 213",
        changes=(
            Change(
                "_recipes.locks.semaphore.permits:Permits._is_within_limit",
                "len(names) <= limit",
                "len(names) - len(self._own) < limit",
            ),
        ),
        tests=("tests/assurance/simulation/test_scenarios.py",),
    ),
    Mutant(
        name="limit-not-watched",
        wrong="A waiter at the front of a semaphore does not notice that the limit was raised.",
        seen_in="CURATOR-75",
        changes=(
            Change(
                "_recipes.locks.semaphore.permits:Permits._ask",
                'limit = LimitReply(client, where, self._arm(f"{where.limit} limit", watches))',
                "limit = LimitReply(client, where)",
            ),
        ),
        tests=("tests/recipes/locks/test_semaphore.py",),
    ),
    Mutant(
        name="any-ready-lets-in",
        wrong="A double barrier lets in whoever finds `ready`, even if all members of "
        "that round have died.",
        seen_in="Curator",
        changes=(
            Change(
                "_recipes.barriers.barrier_membership:BarrierMembership._try",
                "if stat is not None and stat.czxid > self._own.node.token:",
                "if stat is not None:",
            ),
        ),
        tests=("tests/recipes/barriers/test_barriers.py",),
    ),
)
