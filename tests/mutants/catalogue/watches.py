"""Watches: what is armed, what is re-armed, and whom an event wakes."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, LOST_LINKS, RARE

PERSISTENT = (
    "tests/unit/session/test_session_persistent_watches.py",
    "tests/unit/session/test_session_watches_random.py",
)
"""Tests of persistent watches; what is simulated sets none."""

OBSERVE = "tests/recipes/election/test_observe.py"

MUTANTS = (
    Mutant(
        number="29",
        name="data-watches-not-rearmed",
        wrong="Watches for a deletion are not re-armed over a reconnect.",
        seen_in="aiozk; kazoo #151; rust-zookeeper #97",
        changes=(Change("_session/watches/registry.py", "tuple(chunk[WatchKind.DATA]),", "(),"),),
    ),
    Mutant(
        number="29b",
        name="exist-watches-not-rearmed",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="Watches for a creation are not re-armed over a reconnect.",
        changes=(
            Change(
                "_session/watches/registry.py",
                "tuple(chunk[WatchKind.EXIST]),",
                "(),",
            ),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="29c",
        name="child-watches-not-rearmed",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="Watches for children are not re-armed over a reconnect.",
        changes=(
            Change(
                "_session/watches/registry.py",
                "tuple(chunk[WatchKind.CHILD]),",
                "(),",
            ),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="30",
        name="no-watch-is-rearmed",
        wrong="A reconnect drops all watches.",
        changes=(
            Change(
                "_session/watches/registry.py",
                "for kind, armed in self._armed.items():",
                "for kind, armed in list(self._armed.items())[:0]:",
            ),
        ),
    ),
    Mutant(
        number="31",
        name="watches-rearmed-from-now",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="Watches are re-armed relative to the new connection, so that what changed in the "
        "meantime is not reported.",
        changes=(
            Change(
                "_session/machine.py",
                "self._set_watches(self.watches.rearm(self.last_zxid, self._own_room), now)",
                "self._set_watches(self.watches.rearm(2**63 - 1, self._own_room), now)",
            ),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="31b",
        name="dropped-rearming-forgets-its-zxid",
        wrong="Watches that an overloaded server did not set are set relative to the last answer, "
        "so that earlier changes are not reported.",
        simulated=False,
        changes=(
            Change(
                "_session/watches/registry.py",
                "since = int(min(relative_zxid, self._unwatched_since))",
                "since = relative_zxid",
            ),
        ),
        tests=("tests/client/test_throttled_watches.py",),
    ),
    Mutant(
        number="32",
        name="rearming-is-awaited-by-the-reader",
        wrong="The task that reads answers waits for that to the re-arming before it reads on.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/carrier.py",
                """
                while feed(data):
                    await checkpoint()
                    data = b""
                """,
                """
                while feed(data):
                    await checkpoint()
                    data = b""
                while feed.func.__self__._machine.watches.unanswered:
                    await anyio.sleep(0.01)
                """,
            ),
        ),
    ),
    Mutant(
        number="33",
        name="rearming-in-one-request",
        wrong="All watches are re-armed by one request, however long it is.",
        seen_in="aiozk; ZOOKEEPER-706",
        changes=(
            Change(
                "_session/watches/registry.py",
                "if size and size + cost > limit:",
                "if size and size + cost > limit * 1000000:",
            ),
        ),
        note="It takes more than 128 KiB of watched paths.",
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="34",
        name="watch-after-the-read",
        wrong="A neighbour's watch is armed by the answer alone: what had become of the neighbour "
        "when the server looked at it is forgotten.",
        seen_in="CURATOR-527",
        changes=(
            Change(
                "_session/watches/arming.py",
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
                "_session/watches/arming.py",
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
        tests=("tests/recipes/test_unread.py", "-k", "asyncio"),
        note="A second net: who has heard of nothing for a while asks. So it is only later.",
    ),
    Mutant(
        number="35",
        name="missing-neighbour-ignored",
        wrong="A neighbour that is not there to be watched is waited for all the same.",
        seen_in="CURATOR-645",
        changes=(
            Change(
                "_recipes/contention/contender.py",
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
    ),
    Mutant(
        number="36",
        name="everybody-watches-the-first",
        wrong="All who wait watch the holder, so that its departure wakes all of them.",
        seen_in="kazoo's read/write lock",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "watch = tuple(reversed(line[first:rank]))",
                "watch = tuple(line[:places])",
            ),
            Change(
                "_recipes/contention/contender.py",
                """
                place = self._take_standing() or (self._behind_ours() if waits else None)
                place = place or await self._list_queue()
                """,
                "place = await self._list_queue()",
            ),
        ),
        tests=("tests/unit/recipes/test_contention.py",),
    ),
    Mutant(
        number="36b",
        name="watches-the-successor",
        wrong="A waiter watches the one behind it where there is one.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
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
    ),
    Mutant(
        number="36c",
        name="one-watch-for-several-places",
        wrong="With several places, a waiter watches only the nearest one before it.",
        changes=(
            Change(
                "_recipes/contention/kernel.py",
                "first = max(0, rank - places - look_ahead)",
                "first = max(0, rank - 1 - look_ahead)",
            ),
        ),
        tests=("tests/unit/recipes/test_contention.py",),
    ),
    Mutant(
        number="44",
        name="waiters-are-not-told-of-an-expiry",
        wrong="Watches of a session that is over say nothing.",
        seen_in="aiozk; etcd #11456 and #19597",
        changes=(
            Change(
                "_session/watches/registry.py",
                """
                for slot in slots:
                    slot.fire(WatchEvent(EventType.NONE, slot.label))
                """,
                "",
            ),
        ),
    ),
    Mutant(
        number="45",
        name="event-replaced-while-unset",
        wrong="The event that a waiter waits for is replaced after the watches were armed, so that "
        "what came in between is forgotten.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
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
    ),
    Mutant(
        number="48",
        name="observer-ends-with-the-link",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="An observer of an election stops, without a word, when a link is lost.",
        seen_in="aiozk's election",
        changes=(
            Change(
                "_recipes/_core/observe.py",
                """
                except AioleadError as error:
                    await self._before_next_try(error)
                    continue
                """,
                """
                except AioleadError:
                    return
                """,
            ),
        ),
        tests=RARE,
        note="It takes a session that ends between the two requests of a look, or a look while no "
        "server is reached for a session timeout.",
    ),
    Mutant(
        number="48b",
        name="observer-is-not-told-of-a-new-session",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="An observer does not look again when the session is connected again.",
        changes=(
            Change(
                "_recipes/_core/observe.py",
                "if state in self._served_in or state.is_final:",
                "if state.is_final:",
            ),
        ),
        tests=(OBSERVE, *ASYNCIO),
    ),
    Mutant(
        number="48c",
        name="late-observer-gets-what-was-known",
        wrong="An observer that joins while the reading is out of date begins with what was known "
        "before, although it could have changed.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if self.is_live and not self._is_outdated:",
                "if self._count:",
            ),
        ),
        tests=(OBSERVE, "-k", "during_a_change and trio"),
        simulated=False,
    ),
    Mutant(
        number="48d",
        name="late-observer-gets-what-was-marked-as-old",
        wrong="An observer that joins after a reconnect begins with what was seen before the "
        "connection was lost, as its watches are armed again.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if self.is_live and not self._is_outdated:",
                "if self.is_live:",
            ),
        ),
        tests=(OBSERVE, "-k", "after_a_reconnect and trio"),
        simulated=False,
    ),
    Mutant(
        number="48e",
        name="observer-that-joins-during-a-reading-misses-it",
        wrong="A reading is passed on to those alone that were there when it began.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if is_live or view in self._began_with:",
                "if view in self._began_with:",
            ),
        ),
        tests=(OBSERVE, "-k", "during_a_change and trio"),
        simulated=False,
    ),
    Mutant(
        number="48k",
        name="late-observer-misses-what-its-client-wrote",
        wrong="An observer that joins during a reading begins with it, although it began before "
        "what the observer's client has written.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if is_live or view in self._began_with:",
                "if True:",
            ),
        ),
        tests=(OBSERVE, "-k", "its_client_wrote and asyncio"),
        simulated=False,
    ),
    Mutant(
        number="48f",
        name="observer-that-leaves-ends-the-others",
        wrong="The first observer that leaves ends the reading of all observers of its client.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if not self.views:",
                "if True:",
            ),
        ),
        tests=(OBSERVE, "-k", "last_observer and trio"),
        simulated=False,
    ),
    Mutant(
        number="48g",
        name="reading-outlives-its-observers",
        wrong="The reading goes on, with its watches, when the last observer has left.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if not self.views:",
                "if False:",
            ),
        ),
        tests=(OBSERVE, "-k", "last_observer and trio"),
        simulated=False,
    ),
    Mutant(
        number="48h",
        name="ended-reading-is-joined",
        wrong="An observer joins the reading that the last observer has just ended.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if reading is None or reading.has_ended:",
                "if reading is None:",
            ),
        ),
        tests=(OBSERVE, "-k", "as_the_last and trio"),
        simulated=False,
    ),
    Mutant(
        number="48j",
        name="failed-reading-is-joined",
        wrong="An observer joins a reading that has failed, and fails for a reason that is gone.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "if reading is None or reading.has_ended:",
                "if reading is None:",
            ),
            Change(
                "_recipes/_core/sharing.py",
                "if reading.has_ended and by_key.get(self._key) is reading:",
                "if reading._error is None and by_key.get(self._key) is reading:",
            ),
        ),
        tests=(OBSERVE, "-k", "after_a_failure and trio"),
        simulated=False,
    ),
    Mutant(
        number="48i",
        name="observers-share-what-is-not-the-same",
        wrong="Observers share one reading although they ask for another number of leaders.",
        changes=(
            Change(
                "_recipes/_core/sharing.py",
                "self._key = (type(self), path, key)",
                "self._key = (type(self), path)",
            ),
        ),
        tests=(OBSERVE, "-k", "several_leaders_read and trio"),
        simulated=False,
    ),
    Mutant(
        number="75",
        name="removes-a-watch-that-is-needed",
        wrong="Taking back one watch removes the server's, also if another one here needs it.",
        changes=(
            Change("_session/watches/registry.py", "if not wanted:", "if wanted or not wanted:"),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="75b",
        name="deletion-not-for-child-watches",
        wrong="A deletion does not consume the watch for children.",
        changes=(
            Change(
                "_session/watches/one_shot.py",
                "EventType.DELETED: (WatchKind.DATA, WatchKind.EXIST, WatchKind.CHILD),",
                "EventType.DELETED: (WatchKind.DATA, WatchKind.EXIST),",
            ),
        ),
        tests=("tests/unit/session/test_session_watches.py",),
    ),
    Mutant(
        number="75c",
        name="one-shot-watch-over-a-persistent-one",
        wrong="A read sets its watch although a persistent one is there, which that ends.",
        seen_in="ZOOKEEPER-4466",
        changes=(
            Change(
                "_session/watches/arming.py",
                "return body if self._registry.is_one_shot(self._path, self._kind) "
                'else body[:-1] + b"\\0"',
                "return body",
            ),
        ),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75d",
        name="child-watch-ended-by-a-recursive-one",
        wrong="A reconnect sets a watch for children before the recursive one that ends it.",
        seen_in="ZOOKEEPER-4466",
        changes=(Change("_session/watches/registry.py", "(late if ended else early)", "early"),),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75e",
        name="persistent-watches-not-rearmed",
        wrong="Watches are re-armed by SetWatches, which knows no persistent ones.",
        changes=(
            Change("_session/watches/registry.py", "tuple(chunk[AddWatchMode.PERSISTENT]),", "(),"),
            Change("_session/watches/registry.py", "tuple(chunk[AddWatchMode.RECURSIVE]),", "(),"),
            Change(
                "_session/watches/registry.py",
                "OpCode.SET_WATCHES2 if persistent else OpCode.SET_WATCHES",
                "OpCode.SET_WATCHES",
            ),
        ),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75f",
        name="gap-not-told",
        wrong="A stream does not say that the link was down.",
        changes=(Change("_session/watches/persistent.py", "self.events.miss(self.gap)", "pass"),),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75g",
        name="gap-told-too-early",
        wrong="A stream says so when the link is lost, so that what is read then is stale.",
        changes=(
            Change(
                "_session/watches/persistent.py",
                "                stream.gap = reason",
                "                stream.gap = reason; stream.rearmed()",
            ),
        ),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75h",
        name="expiry-told-as-a-reconnect",
        wrong="A stream says of a new session that the link was down.",
        changes=(
            Change(
                "_session/watches/persistent.py",
                "self._gap(MissedReason.EXPIRED)",
                "self._gap(MissedReason.RECONNECTED)",
            ),
        ),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75i",
        name="overflow-not-told",
        wrong="Events that find no room are dropped without a word.",
        changes=(
            Change(
                "_session/watches/persistent.py",
                "self._overflow(MissedReason.OVERFLOW)",
                "pass",
            ),
        ),
        tests=("tests/unit/session/test_session_event_buffer.py",),
        simulated=False,
    ),
    Mutant(
        number="75j",
        name="merged-across-a-deletion",
        wrong="A change of a znode is merged into one from before its deletion.",
        changes=(
            Change(
                "_session/watches/persistent.py",
                "self._latest.pop((type_, event.path), None)",
                "pass",
            ),
        ),
        tests=("tests/unit/session/test_session_event_buffer.py",),
        simulated=False,
    ),
    Mutant(
        number="75k",
        name="removal-ends-one-shot-watches",
        wrong="One-shot watches that lived on a persistent one end with it, without a word.",
        changes=(
            Change(
                "_session/watches/registry.py",
                """
                del self.persistent.by_path[path]
                self.persistent_changes += 1
                self._set_again(path)
                """,
                """
                del self.persistent.by_path[path]
                self.persistent_changes += 1
                """,
            ),
        ),
        tests=PERSISTENT,
        simulated=False,
    ),
    Mutant(
        number="75l",
        name="dropped-watch-stays",
        wrong="A watch that nobody holds any more stays on the server.",
        seen_in="CURATOR-107; kazoo #175",
        changes=(
            Change("_session/watches/registry.py", "self.dropped_slots.append(slot)", "pass"),
        ),
        tests=("tests/client/test_client_streams.py",),
        simulated=False,
    ),
)
