"""Who is in front: the line, and who takes over."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, CUTS, DELETIONS, ENDS, RARE, SILENCE

LEADERS_MIXED = "tests/recipes/election/test_leaders_mixed.py"

MUTANTS = (
    Mutant(
        number="13",
        name="time-out-means-acquired",
        wrong="Waiting that ends by its limit returns as if it were our turn.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes/_core/contexts.py",
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
    ),
    Mutant(
        number="14",
        name="own-znode-not-looked-at-again",
        aim=Aim((DELETIONS,), groups=3),
        wrong="Who takes over does not look whether its own znode is still there.",
        seen_in="CURATOR-696",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if self._gone or node.session_id not in (0, self._client.session_id):
                    raise NodeGone
                """,
                """
                if self._node is None:
                    raise NodeGone
                """,
            ),
        ),
        tests=RARE,
        note="It shows only where two deletions, ours and our predecessor's, are told in one go. "
        "Else the next listing, or the watch on our znode, says so.",
    ),
    Mutant(
        number="14b",
        name="own-znode-unwatched",
        aim=Aim((DELETIONS,), groups=3),
        wrong="A waiter does not watch its own znode.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                if self._watch is None:
                    if self._is_readable:
                """,
                """
                if False:
                    if self._is_readable:
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", "-k", "queues_again and trio and embedded"),
        note="A second net: who takes over without having watched its znode looks at it. So it "
        "joins again all the same, only later.",
    ),
    Mutant(
        number="14c",
        name="old-session-not-noticed",
        aim=Aim((ENDS,), groups=3),
        wrong="A contender of an expired session takes its old znode for one of the new session.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                if self._node is not None and self._node.session_id != self._client.session_id:
                    self.forget()
                if self._node is not None:
                """,
                """
                if self._node is not None:
                    assert self._node
                """,
            ),
        ),
        tests=RARE,
        note="A second net: who takes over looks at the session of its znode. So it joins again "
        "all the same, only later; the test sees what it asks for in vain before that.",
    ),
    Mutant(
        number="14e",
        name="old-session-never-noticed",
        aim=Aim((ENDS,), groups=3),
        wrong="A contender of an expired session takes its old znode for one of the new session, "
        "and goes by nothing but its name.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                if self._node is not None and self._node.session_id != self._client.session_id:
                    self.forget()
                if self._node is not None:
                """,
                """
                if self._node is not None:
                    assert self._node
                """,
            ),
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if self._gone or node.session_id not in (0, self._client.session_id):
                    raise NodeGone
                """,
                """
                if self._node is None:
                    raise NodeGone
                """,
            ),
            Change(
                "_recipes/_core/ephemeral.py",
                "gone = stat.czxid != node.token",
                "gone = False",
            ),
        ),
        tests=(*RARE, "-k", "proves_its_lease"),
        note="Both nets are taken away: that who takes over looks at the session of its znode, and "
        "at its czxid. Two held at once where the path was made anew meanwhile, as long as names "
        "were used again. The test sees that the old znode is looked for.",
    ),
    Mutant(
        number="14d",
        name="namesake-taken-for-ours",
        aim=Aim((DELETIONS,), groups=3),
        wrong="A znode of our znode's name counts as ours, also if the path was made anew.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                "gone = stat.czxid != node.token",
                "gone = False",
            ),
        ),
        tests=(*RARE, "-k", "of_our_name"),
    ),
    Mutant(
        number="14f",
        name="whoever-was-before-us-was-first",
        wrong="Who stands behind another contender of its client takes over as that goes, whether "
        "it held or not.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "return self._local.front == name and name in self._outlived and",
                "return self._local.is_claimed(name) and",
            ),
        ),
        tests=("tests/simulation/test_crowd.py",),
        note="The simulation is that with several contenders of each client in a line.",
    ),
    Mutant(
        number="14g",
        name="first-of-the-old-line-counts",
        wrong="Who stands behind another contender of its client takes over as the first one goes, "
        "also if that was the first of a line that was deleted and made anew.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "return self._local.front == name and name in self._outlived and",
                "return self._local.front == name and",
            ),
        ),
        tests=(*RARE, "-k", "old_line_was"),
        note="Found by the simulation, in two of 480 schedules with several contenders of each "
        "client in a line.",
    ),
    Mutant(
        number="16b",
        name="joins-before-it-looks",
        wrong="Whether the neighbours fit is seen when our own znode is among them already.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/contention/contender.py", "if kind in line.fits:", "if kind is not None:"
            ),
        ),
        tests=("tests/recipes/test_bad_input.py", *ASYNCIO),
    ),
    Mutant(
        number="16",
        name="order-by-name",
        wrong="The line is sorted by whole names, not by numbers.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "line.sort()",
                "line.sort(key=lambda entry: entry[1])",
            ),
        ),
        note="Contenders of the default layout differ in their number alone.",
        tests=("tests/unit/recipes/test_contention.py",),
    ),
    Mutant(
        number="17",
        name="sign-of-the-number-dropped",
        wrong="A number past the end of the range loses its sign.",
        seen_in="aiozk",
        changes=(
            Change(
                "paths.py",
                "return int(match.group()) if match else None",
                "return abs(int(match.group())) if match else None",
            ),
        ),
        note="It takes two thousand million contenders, or servers that begin there.",
        tests=("tests/unit/recipes/test_contention.py",),
    ),
    Mutant(
        number="18",
        name="token-is-the-number",
        wrong="The fencing token is the number in the name, which starts anew with the path.",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                "self._token = node.token",
                "self._token = node.sequence",
            ),
        ),
    ),
    Mutant(
        number="27",
        name="loss-not-recorded",
        wrong="Losing cancels the body, but nothing remembers that it was lost.",
        changes=(
            Change("_recipes/_core/tenure.py", "self._loss = self._loss or reason", "del reason"),
        ),
    ),
    Mutant(
        number="28",
        name="looks-before-it-creates",
        wrong="The line is looked at before our znode is created.",
        seen_in="aiozk's Lease: list, then create",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "create, listing = self.create(), self._client.get_children(self._path)",
                "listing, create = self._client.get_children(self._path), self.create()",
            ),
            Change(
                "_recipes/contention/contender.py",
                "self._standing = await self._place_among(names)",
                "self._standing = await self._place_among([*names, self.node.name])",
            ),
        ),
    ),
    Mutant(
        number="28b",
        name="one-place-too-many",
        wrong="With several places, one contender more than there are places may hold.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "if rank < min(least, places):",
                "if rank < min(least, places) + (places > 1):",
            ),
        ),
    ),
    Mutant(
        number="72",
        name="predecessor-gone-means-first",
        wrong="Who sees its predecessor go takes over, also if that one was only a waiter.",
        seen_in="a recipe for Node that led unchecked",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "is_next=places == 1 and rank == 1, extra=extra)",
                "is_next=places == 1, extra=extra)",
            ),
        ),
    ),
    Mutant(
        number="28c",
        name="numbers-of-leaders-of-others-ignored",
        wrong="A contender goes by its own number of leaders, whatever those before it allow.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "least = min(map(leaders_of, before), default=places)",
                "least = places",
            ),
        ),
        tests=(LEADERS_MIXED, "-k", "trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="28d",
        name="restricting-contender-not-watched",
        wrong="A contender watches its nearest neighbours only, not the one that allows fewest.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "return [name for n, name in enumerate(before) if n in kept]",
                "return before[-least:] if kept else []",
            ),
        ),
        tests=("tests/unit/recipes/test_contention_leaders.py",),
        simulated=False,
    ),
    Mutant(
        number="28e",
        name="observer-misses-the-restricting-contender",
        wrong="An observer watches the leaders only, so that it misses one who may lead by now.",
        changes=(
            Change(
                "_recipes/election/observer.py",
                "restricted = queue[count : count + 1] if count < self._leaders else []",
                "restricted = list[str]()",
            ),
        ),
        tests=(LEADERS_MIXED, "-k", "fewest and trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="72g",
        name="znode-of-no-session-is-waited-for-in-silence",
        wrong="Contenders wait forever for a znode that no session owns, and log nothing.",
        seen_in="pulsar 24057",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "if not stat.ephemeral_owner:",
                "if stat.ephemeral_owner is None:",
            ),
        ),
        tests=("tests/recipes/test_ownerless.py", "-k", "Lock and trio"),
        simulated=False,
    ),
    Mutant(
        number="72b",
        name="ours-before-us-holds",
        wrong="Whoever joins behind another one of its client takes that for the holder.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "return QueuePosition(1, (nearest,), is_next=False, is_exact=False)",
                "return QueuePosition(1, (nearest,), is_next=True, is_exact=False)",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="72c",
        name="missing-neighbour-has-gone",
        wrong="A neighbour whose znode is not there is taken for one that was the first.",
        seen_in="ewhauser/zookeeper #31",
        changes=(
            Change(
                "_recipes/contention/contender.py",
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
    ),
    Mutant(
        number="72d",
        name="any-event-is-a-departure",
        aim=Aim((ENDS,), groups=3),
        wrong="Any event of a predecessor's watch is taken for its deletion.",
        seen_in="Curator's barrier, GH-1290",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                """
                self._ahead.pop(name, None)
                if event.type is EventType.DELETED:
                """,
                """
                self._ahead.pop(name, None)
                if event.type is not None:
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="73",
        name="released-when-lost",
        aim=Aim(((*CUTS, *SILENCE, "closed"),), least=0.3, groups=3),
        wrong="The znode is deleted as soon as the hold is lost, while the body still stops.",
        seen_in="Kubernetes: ReleaseOnCancel",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                """
                    self._loss = self._loss or reason
                    self._on_lost()
                """,
                """
                    self._loss = self._loss or reason
                    self._acquirable.discard()
                    self._on_lost()
                """,
            ),
        ),
    ),
    Mutant(
        number="73b",
        name="losers-are-not-waited-for",
        aim=Aim((("closed",),), groups=3),
        wrong="A holder that has lost counts as gone at once, so closing does not wait for it.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                """
                self.forget(held)
                self._in_grace[held] = self._lease_proof.proven_until
                """,
                """
                self.forget(held)
                """,
            ),
        ),
    ),
    Mutant(
        number="73c",
        name="closing-does-not-wait-for-holders",
        aim=Aim((("closed",),), groups=3),
        wrong="Closing a client ends its session at once, while holders still stop.",
        changes=(
            Change(
                "_client/client_host.py",
                """
                with anyio.move_on_after(machine.timing.holders_wait, shield=True):
                    await core.holders_gone()
                """,
                """
                with anyio.move_on_after(0, shield=True):
                    await core.holders_gone()
                """,
            ),
        ),
    ),
    Mutant(
        number="74",
        name="loss-is-swallowed",
        wrong="Leaving a body that had lost its hold raises nothing.",
        seen_in="kazoo's Election",
        changes=(
            Change(
                "_recipes/_core/contexts.py",
                """
                    why = tenure._why_ended()
                    if why is not None:
                """,
                """
                    why = tenure._why_ended()
                    if why is not None and tenure.loss is not None:
                        return True  # type: ignore[return-value]
                    if why is not None:
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="74b",
        name="gone-before-release-unnoticed",
        aim=Aim((DELETIONS,), groups=3),
        wrong="The answer to the release that our znode was gone before is taken for success.",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                "if isinstance(error, NoNodeError):",
                "if gone is None:",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", *ASYNCIO),
    ),
)
