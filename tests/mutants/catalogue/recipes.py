"""Who is in front: the line, its znodes and their owners."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, CUTS, DELETIONS, ENDS, LOST_CREATES, LOST_LINKS, SILENCE

NO_EXORCISM = Change(
    "_recipes/contender.py",
    "ours = stat.ephemeral_owner == self._client.session_id",
    "ours = stat.ephemeral_owner == 0",
)
"""Switches off the second net: znodes of ours before us that nobody claims are left alone."""

NO_LATE_LOOK = Change(
    "_recipes/contender.py",
    """
    self._creating = None
    self._client.spawn(
        partial(
            delete_lost,
    """,
    """
    self._creating = None
    (lambda _job: None)(
        partial(
            delete_lost,
    """,
)
"""Switches off the debt of a create whose answer was lost."""

MUTANTS = (
    Mutant(
        number="13",
        name="time-out-means-acquired",
        wrong="Waiting that ends by its limit returns as if it were our turn.",
        seen_in="aiozk",
        changes=(
            Change(
                "_recipes/context.py",
                """
                with anyio.move_on_after(wait):
                    in_front = await contender.reach_front()
                """,
                """
                with anyio.move_on_after(wait):
                    in_front = await contender.reach_front()
                in_front = contender._node is not None
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
                "_recipes/contender.py",
                "if self._own_gone or self.node.session_id != self._client.session_id:",
                "if self._node is None:",
            ),
        ),
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
                "_recipes/contender.py",
                "own = self._watch_own() if self._own_watch is None else None",
                "own = None",
            ),
        ),
    ),
    Mutant(
        number="14c",
        name="old-session-not-noticed",
        aim=Aim((ENDS,), groups=3),
        wrong="A contender of an expired session takes its old znode for one of the new session.",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                if self._node is not None and self._node.session_id != self._client.session_id:
                    self._forget()
                if self._node is not None:
                """,
                """
                if self._node is not None:
                """,
            ),
        ),
        note="A second net: the listing over the new session does not show the old znode, so the "
        "contender joins again all the same.",
    ),
    Mutant(
        number="14d",
        name="namesake-taken-for-ours",
        aim=Aim((DELETIONS,), groups=3),
        wrong="A znode of our znode's name counts as ours, also if the path was made anew.",
        changes=(
            Change(
                "_recipes/contender.py",
                "gone = look.result()[1].czxid != node.token",
                "gone = False",
            ),
        ),
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="15",
        name="adopts-by-name",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A znode that is named like ours is adopted, whoever owns it.",
        seen_in="CURATOR-498, CURATOR-604; kazoo",
        changes=(
            Change(
                "_recipes/line.py",
                "ours = stat.ephemeral_owner == session_id and content == data",
                "ours = True",
            ),
        ),
    ),
    Mutant(
        number="16",
        name="order-by-name",
        wrong="The line is sorted by whole names, not by numbers.",
        changes=(
            Change(
                "_recipes/contention.py", "line.sort()", "line.sort(key=lambda entry: entry[1])"
            ),
        ),
        note="Contenders of the default layout differ in their number alone.",
        tests=("tests/unit/test_contention.py",),
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
        tests=("tests/unit/test_contention.py",),
    ),
    Mutant(
        number="18",
        name="token-is-the-number",
        wrong="The fencing token is the number in the name, which starts anew with the path.",
        changes=(
            Change(
                "_recipes/tenure.py",
                "self.token: int = node.token",
                "self.token: int = node.sequence",
            ),
        ),
    ),
    Mutant(
        number="19",
        name="adopts-from-another-session",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A znode that is filled like ours is adopted without a look at its session.",
        seen_in="CURATOR-498",
        changes=(
            Change(
                "_recipes/line.py",
                "ours = stat.ephemeral_owner == session_id and content == data",
                "ours = content == data",
            ),
        ),
    ),
    Mutant(
        number="19b",
        name="claims-are-ignored",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The search for a lost create adopts the znode of another contender of this client.",
        changes=(
            Change(
                "_recipes/line.py",
                "unclaimed = [name for name in found if name not in self.claimed]",
                "unclaimed = list(found)",
            ),
            Change("_recipes/line.py", "if ours and name not in self.claimed:", "if ours:"),
        ),
    ),
    Mutant(
        number="19c",
        name="exorcises-the-living",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A znode before us that another contender of this client owns is deleted as a ghost.",
        changes=(
            Change(
                "_recipes/contender.py",
                "if ours and name not in self._line.claimed and "
                "self._layout.is_like_ours(self._role, name):",
                "if ours and self._layout.is_like_ours(self._role, name):",
            ),
        ),
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="20",
        name="lost-delete-counts-as-done",
        aim=Aim((("delete-answer-lost", "delete-request-lost", *LOST_LINKS),), groups=3),
        wrong="A delete whose answer was lost is taken for done.",
        seen_in="CURATOR-678; kazoo #732",
        changes=(
            Change(
                "_recipes/contender.py",
                "if isinstance(delete.error(), ConnectionLossError):",
                "if delete is None:",
            ),
        ),
    ),
    Mutant(
        number="20b",
        name="debts-are-tried-once",
        aim=Aim((("delete-answer-lost", "delete-request-lost", *LOST_LINKS),), groups=3),
        wrong="A debt that cannot be paid at the first try is dropped.",
        seen_in="kazoo #732",
        changes=(
            Change(
                "_recipes/line.py",
                """
                    await client.delete(node.path)
                except ConnectionLossError:
                    continue
                """,
                """
                    await client.delete(node.path)
                except ConnectionLossError:
                    return
                """,
            ),
        ),
    ),
    Mutant(
        number="20c",
        name="deletes-by-name-alone",
        aim=Aim((("delete-answer-lost", "line-deleted"),), groups=3),
        wrong="A debt is paid by deleting whatever has the name, without a look at whose it is.",
        changes=(
            Change(
                "_recipes/line.py",
                "if stat is None or stat.czxid != node.token:",
                "if stat is None:",
            ),
        ),
        note="It takes a path that is made anew while a debt is open, with the same number.",
    ),
    Mutant(
        number="20d",
        name="deletes-in-the-next-session",
        aim=Aim((("session-ended", "line-deleted"),), groups=3),
        wrong="Leaving deletes a znode of our znode's name also when our session is over.",
        changes=(
            Change(
                "_recipes/contender.py",
                "if self._own_gone or node.session_id != self._client.session_id:",
                "if node.token < 0:",
            ),
        ),
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="26",
        name="session-read-before-an-await",
        aim=Aim((ENDS,), groups=3),
        wrong="Which session creates the znode is noted before waiting for a connection.",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                await self._resolve()
                if self._node is not None:
                    return False
                session_id = client.session_id
                """,
                """
                session_id = client.session_id
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                await self._resolve()
                if self._node is not None:
                    return False
                """,
            ),
        ),
        note="It takes a session that ends while a contender waits for a connection, then a create "
        "whose answer is lost; and even then the look before waiting finds the ghost.",
    ),
    Mutant(
        number="27",
        name="loss-not-recorded",
        wrong="Losing cancels the body, but nothing remembers that it was lost.",
        changes=(Change("_recipes/tenure.py", "self._loss = reason", "del reason"),),
    ),
    Mutant(
        number="28",
        name="looks-before-it-creates",
        wrong="How many others there are is looked at before our znode is created.",
        seen_in="aiozk's Lease: list, then create",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                create = self._creating = client.create(
                """,
                """
                count = None if line.was_contended else client.exists(self._path)
                create = self._creating = client.create(
                """,
            ),
            Change(
                "_recipes/contender.py",
                """
                count = None if line.was_contended else client.exists(self._path)
                try:
                """,
                """
                try:
                """,
            ),
            Change(
                "_recipes/contender.py",
                "children = stat.num_children if stat is not None else 0",
                "children = stat.num_children + 1 if stat is not None else 0",
            ),
        ),
    ),
    Mutant(
        number="28b",
        name="one-place-too-many",
        wrong="With several places, one contender more than there are places may hold.",
        changes=(
            Change(
                "_recipes/contention.py",
                "if rank < places:",
                "if rank < places + (places > 1):",
            ),
        ),
    ),
    Mutant(
        number="37b",
        name="lost-create-is-forgotten",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A create whose answer was lost is neither looked for nor cleaned up; the contender "
        "makes another znode.",
        seen_in="CURATOR-45",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                    self._creating = create  # not settled yet
                    if self._discarded:
                """,
                """
                    if self._discarded:
                """,
            ),
            NO_EXORCISM,
        ),
    ),
    Mutant(
        number="38",
        name="lost-create-is-not-adopted",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A create whose answer was lost is not looked for when the contender goes on; only "
        "the late look is left.",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                if self._client.session_id == self._create_session:
                    node = await self._line.find_lost(
                        self._client, self._path, self._layout, self._role, self._data
                    )
                """,
                """
                if self._client.session_id == self._create_session:
                    node = None
                """,
            ),
        ),
        tests=("tests/recipes/test_faults_link.py", *ASYNCIO),
    ),
    Mutant(
        number="38b",
        name="lost-create-haunts-us",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The same, with both nets taken away: the late look, and deleting a ghost that we "
        "would wait for.",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                if self._client.session_id == self._create_session:
                    node = await self._line.find_lost(
                        self._client, self._path, self._layout, self._role, self._data
                    )
                """,
                """
                if self._client.session_id == self._create_session:
                    node = None
                """,
            ),
            NO_EXORCISM,
            NO_LATE_LOOK,
        ),
    ),
    Mutant(
        number="38c",
        name="no-second-look",
        aim=Aim((("link-stalled", "link-silent-up"),), least=0.7, groups=3),
        wrong="A create that is applied after we have looked for it in vain is never found.",
        changes=(NO_LATE_LOOK, NO_EXORCISM),
        note="It takes a create that arrives after its client has looked for it elsewhere.",
    ),
    Mutant(
        number="38d",
        name="looks-at-a-server-that-is-behind",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The search for a lost create does not have its server catch up first.",
        changes=(
            Change(
                "_recipes/line.py",
                "caught_up = client.sync(path)  "
                "# this server may not have seen what the last one applied",
                "caught_up = client.exists(path)",
            ),
        ),
        note="More than is needed, it seems: the leader vouches for a session that moves, in the "
        "order of commits, so that its new server has applied what the old one had.",
    ),
    Mutant(
        number="72",
        name="predecessor-gone-means-first",
        wrong="Who sees its predecessor go takes over, also if that one was only a waiter.",
        seen_in="a recipe for Node that led unchecked",
        changes=(
            Change(
                "_recipes/contention.py",
                "is_next=places == 1 and rank == 1)",
                "is_next=places == 1)",
            ),
        ),
    ),
    Mutant(
        number="72b",
        name="always-a-pair",
        wrong="Whoever joins a line takes the one before it for the holder.",
        changes=(
            Change(
                "_recipes/contender.py",
                "self._is_pair = children == 2",
                "self._is_pair = children >= 2",
            ),
        ),
    ),
    Mutant(
        number="72c",
        name="missing-neighbour-has-gone",
        wrong="A neighbour whose znode is not there is taken for one that has just left.",
        seen_in="ewhauser/zookeeper #31",
        changes=(
            Change(
                "_recipes/contender.py",
                """
                except NoNodeError:
                    self._ahead.pop(name).close()
                    complete = False
                """,
                """
                except NoNodeError:
                    self._ahead.pop(name).close()
                    self._gone.add(name)
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
                "_recipes/contender.py",
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
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="73",
        name="released-when-lost",
        aim=Aim(((*CUTS, *SILENCE, "closed"),), least=0.3, groups=3),
        wrong="The znode is deleted as soon as the hold is lost, while the body still stops.",
        seen_in="Kubernetes: ReleaseOnCancel",
        changes=(
            Change(
                "_recipes/tenure.py",
                """
                    self._loss = reason
                    self._on_lost()
                """,
                """
                    self._loss = reason
                    self._contender.discard()
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
                "_session/lease.py",
                """
                self.forget(held)
                self._winding[held] = None
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
                "_client/connect.py",
                """
                with anyio.move_on_after(machine.timing.wind_down, shield=True):
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
                "_recipes/context.py",
                """
                if left is None:
                    if tenure.loss is not None:
                        raise tenure._error() from None
                    return True
                """,
                """
                if left is None:
                    return True
                """,
            ),
        ),
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="74b",
        name="gone-before-release-unnoticed",
        aim=Aim((DELETIONS,), groups=3),
        wrong="The answer to the release that our znode was gone before is taken for success.",
        changes=(
            Change(
                "_recipes/tenure.py",
                "if isinstance(delete.error(), NoNodeError):",
                "if delete is None:",
            ),
        ),
        tests=("tests/recipes/test_lock.py", *ASYNCIO),
    ),
)
