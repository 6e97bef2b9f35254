"""Creates and deletes whose answers were lost: whose znode is whose, and who deletes it."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, ENDS, LOST_CREATES, LOST_LINKS, RARE

NO_EXORCISM = Change(
    "_recipes/contention/contender.py",
    "is_ours = stat.ephemeral_owner == client.session_id",
    "is_ours = stat.ephemeral_owner == 0",
)
"""Switches off the second net: znodes of ours before us that nobody claims are left alone."""

NO_LATE_LOOK = Change(
    "_recipes/_core/ephemeral.py",
    "self._client.backend.spawn(partial(in_background, path, job))",
    "repr(job)",
)
"""Switches off the debt of a create whose answer was lost."""

NO_COUNT = Change(
    "_recipes/contention/layouts.py",
    "{session}{count:{self.identity.count}}",
    "{session}{1:{self.identity.count}}",
)
"""Takes the count out of the names: those of one session differ only by the servers' numbers."""

NO_CLAIMS = Change(
    "_recipes/_core/ephemeral_names.py",
    "if not self._names.is_claimed(name):",
    "if stat:",
)
"""Lets the search for a lost create find what another contender of the client claims."""

REFUSALS = "tests/recipes/test_refusals.py"

EXCLUSIVE = "tests/recipes/locks/test_exclusive.py"

SHARED = "tests/adapters/test_aiozk_shared.py"

MUTANTS = (
    Mutant(
        number="15",
        name="adopts-by-name",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The search for a lost create adopts what is in the line, whoever owns it.",
        seen_in="CURATOR-498, CURATOR-604; kazoo",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                "await look_at_all([name for name in names if name.startswith(prefix)], look_at)",
                "await look_at_all([name for name in names if prefix], look_at)",
            ),
            Change(
                "_recipes/_core/ephemeral_names.py",
                "if stat is None or stat.ephemeral_owner != session_id:",
                "if stat is None or not session_id:",
            ),
        ),
    ),
    Mutant(
        number="19",
        name="names-by-number-alone",
        aim=Aim((("link-silent-up", "line-deleted"),), groups=3),
        wrong="A line that is made anew has znodes of the same names: a fenced write, or a delete, "
        "that was held back until then takes another one's znode for its own.",
        seen_in="aiolead, until its own simulation found it",
        changes=(
            Change(
                "_recipes/contention/layouts.py",
                """
                session = _session(self.identity.session, session_id)
                return f"{self.head}{session}{count:{self.identity.count}}{several}{self.tail}"
                """,
                """
                session = _session(self.identity.session, 0)
                return f"{self.head}{session}{0:{self.identity.count}}{several}{self.tail}"
                """,
            ),
        ),
        tests=RARE,
    ),
    Mutant(
        number="19d",
        name="names-counted-anew",
        wrong="The contenders of a client are counted from the beginning again where nobody on the "
        "path is left: a line that is made anew has znodes of the same names.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                "prefix = self._prefix(session_id, self._client.backend.serial())",
                "prefix = self._prefix(session_id, len(self._names._claimed) + 1)",
            ),
        ),
        tests=("tests/recipes/test_counts.py", *ASYNCIO),
    ),
    Mutant(
        number="19b",
        name="claims-are-ignored",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The search for a lost create adopts the znode of another contender of this client.",
        changes=(NO_COUNT, NO_CLAIMS),
        tests=(*RARE, "-k", "other_one_of_its_client"),
        note="Either net is enough: names that a client gives once, and claims.",
    ),
    Mutant(
        number="19h",
        name="names-are-not-counted",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="All contenders of a session have the same name but for the number: of two, the one "
        "whose answer was lost is neither found nor deleted, and everybody waits for it.",
        changes=(NO_COUNT,),
        note="It takes several contenders of one client in a line.",
    ),
    Mutant(
        number="19c",
        name="exorcises-the-living",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="A znode before us that another contender of this client owns is deleted as a ghost.",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "return self._count_in(name) is not None and not self._local.is_wanted(name)",
                "return self._count_in(name) is not None",
            ),
            Change(
                "_recipes/contention/contender.py",
                "if count is None or not is_ours or self._local.is_wanted(name):",
                "if count is None or not is_ours:",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py", *ASYNCIO),
    ),
    Mutant(
        number="19g",
        name="who-looks-for-its-znode-has-none",
        wrong="A znode whose contender is about to look for it, since the answer to its create was "
        "lost, is deleted as a ghost by another contender of the client; and taken all the same.",
        seen_in="aiolead, until the simulation found it",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                elif may_be_applied(error):
                    self._note_lost(path, session_id, since)
                """,
                """
                elif may_be_applied(error):
                    self._settle_name(path)
                """,
            ),
            NO_CLAIMS,
        ),
        tests=(*RARE, "-k", "about_to_look"),
        simulated=False,
    ),
    Mutant(
        number="20",
        name="lost-delete-counts-as-done",
        aim=Aim((("delete-answer-lost", "delete-request-lost", *LOST_LINKS),), groups=3),
        wrong="A delete whose answer was lost is taken for done.",
        seen_in="CURATOR-678; kazoo #732",
        changes=(
            Change(
                "_recipes/_core/pending_delete.py",
                "if is_proof_refused or action in (Action.RECONNECT, Action.PAUSE):",
                "if self.is_done:",
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
                "_recipes/_core/error_policy.py",
                "await before_next_try(client, error, Step.RELEASE)",
                "return True",
            ),
        ),
    ),
    Mutant(
        number="20d",
        name="deletes-in-the-next-session",
        wrong="Leaving deletes what is at our znode's path also when our session is over.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if self._gone or node.session_id not in (0, self._client.session_id):
                    # A znode at that path may belong to another client by now.
                """,
                """
                if self._gone:
                    # A znode at that path may belong to another client by now.
                """,
            ),
        ),
        tests=(EXCLUSIVE, "-k", "session_is_over"),
        note="It takes a path that others use, too. In a line no other znode has our znode's name.",
        simulated=False,
    ),
    Mutant(
        number="26",
        name="session-read-before-an-await",
        aim=Aim((ENDS,), groups=3),
        wrong="Which session creates the znode is noted before waiting for a connection.",
        changes=(
            Change(
                "_recipes/_core/acquire.py",
                """
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                """,
                """
                client._noted = client.session_id
                if client.state is not SessionState.CONNECTED:
                    await client.ready()
                """,
            ),
            Change(
                "_recipes/_core/ephemeral.py",
                "session_id = self._create_session = session_id if mode.is_ephemeral else 0",
                """
                noted = getattr(self._client, "_noted", session_id)
                session_id = self._create_session = noted
                """,
            ),
        ),
        tests=RARE,
        note="It takes a session that ends while a contender waits for a connection, then a create "
        "whose answer is lost; and even then the look before waiting finds the ghost.",
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
                "_recipes/_core/ephemeral.py",
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
                "_recipes/_core/ephemeral.py",
                "await self._find(path, session_id, partial(self._adopt, create, path))",
                "repr(partial(self._adopt, create, path))",
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
                "_recipes/_core/ephemeral.py",
                "await self._find(path, session_id, partial(self._adopt, create, path))",
                "repr(partial(self._adopt, create, path))",
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
        tests=RARE,
        note="It takes a create that arrives after its client has looked for it elsewhere.",
    ),
    Mutant(
        number="38d",
        name="looks-at-a-server-that-is-behind",
        aim=Aim((LOST_CREATES,), groups=3),
        wrong="The search for a lost create does not have its server catch up first.",
        changes=(
            Change(
                "_recipes/_core/ephemeral_names.py",
                "await catch_up(client, above)",
                "await client.exists(above)",
            ),
        ),
        tests=("tests/simulation/test_servers_that_lag.py",),
        note="It takes a create that is proposed, but not committed, as its session moves: the "
        "leader vouches for the session at once. The second look finds the first znode later.",
    ),
    Mutant(
        number="20e",
        name="throttled-delete-counts-as-done",
        wrong="A delete that an overloaded server did not apply is not sent again: everybody else "
        "waits as long as the session lives.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/pending_delete.py",
                "if is_proof_refused or action in (Action.RECONNECT, Action.PAUSE):",
                "if is_proof_refused or action is Action.RECONNECT:",
            ),
        ),
        tests=(REFUSALS, "-k", "throttled_request"),
        simulated=False,
    ),
    Mutant(
        number="20f",
        name="refused-release-unnoticed",
        wrong="A release that the servers refuse is taken for one that was confirmed.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/error_policy.py",
                "if error is None or action_for(error, Step.RELEASE) is not Action.REFUSED:",
                "if error is None or error:",
            ),
        ),
        tests=(REFUSALS, "-k", "refused_release"),
        simulated=False,
    ),
    Mutant(
        number="20g",
        name="refused-release-is-only-logged",
        wrong="Who leaves a block is not told that its znode stays.",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                """
                if left is None:
                    raise refusal
                """,
                """
                if refusal.session_over:
                    raise refusal
                """,
            ),
        ),
        tests=(REFUSALS, "-k", "refused_release_is_raised"),
        simulated=False,
    ),
    Mutant(
        number="20h",
        name="throttled-reads-end-the-wait",
        wrong="A read that an overloaded server did not answer ends the wait for our turn, and "
        "`Election.run` with it.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/_core/error_policy.py",
                "(OVERLOADED, _row(Action.PAUSE, Action.PAUSE, Action.PAUSE)),",
                "(OVERLOADED, _row(Action.RAISE, Action.PAUSE, Action.PAUSE)),",
            ),
        ),
        tests=(REFUSALS, "-k", "throttled"),
        simulated=False,
    ),
    Mutant(
        number="38e",
        name="reader-looked-for-by-a-read",
        wrong="A reader whose transaction was not answered is looked for by a read: what a leader "
        "is about to apply stays as long as the session lives.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/locks/write_contender.py",
                """
                with suppress(NoNodeError):
                    await client.delete(writer.path)
                await client.delete(path)
                """,
                """
                await client.sync(path)
                if await client.exists(path) is not None:
                    await client.delete(path)
                """,
            ),
        ),
        tests=("tests/recipes/test_leaving.py", "-k", "not_show_yet"),
        simulated=False,
    ),
    Mutant(
        number="19e",
        name="exorcises-by-form",
        wrong="A znode before us that our session owns, and whose name has the form of ours, is "
        "deleted as a ghost: also that of aiozk, whose session we share.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "_recipes/contention/contender.py",
                "if count is None or not is_ours or self._local.is_wanted(name):",
                "if not is_ours or self._local.is_claimed(name):",
            ),
            Change(
                "_recipes/contention/contender.py",
                "if client.backend.gave(count):",
                "if count is None or client.backend.gave(count):",
            ),
        ),
        tests=(SHARED, "-k", "asked_to_let_go"),
        simulated=False,
    ),
    Mutant(
        number="19f",
        name="shared-session-taken-for-our-own",
        wrong="What is in our session is ours, also where the application shares it.",
        seen_in="aiolead, before its first release",
        changes=(
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
        ),
        tests=(SHARED,),
        simulated=False,
    ),
)
