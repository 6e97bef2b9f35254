"""Stories of an ensemble whose servers lose each other, for a real one and for the model.

The ensemble has ticks of a quarter of a second and a sync limit of twelve: an isolated server
leaves its role after three seconds, or a little earlier. Nothing depends on when exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from assurance.conformance.differential import Actor, Stage
from assurance.simulation.ensemble_pair import ComparedEnsemble

from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.requests import SetData, SetWatches, Sync

EnsembleStory = Callable[[ComparedEnsemble, Stage], None]


def _ping(*actors: Actor) -> None:
    for actor in actors:
        actor.ask_raw(OpCode.PING, xid=XID_PING)


def _in_vain(stage: Stage, actor: Actor, request: str, patience: float = 0.3) -> None:
    actor.ask_in_vain(stage.request(request), patience)


def _catch_up(actor: Actor, role: str, root: str) -> None:
    """Make a server apply whatever others have answered before.

    A sync does that, except at the leader. It answers the syncs of its own clients as reads
    (`matchSyncs` of its CommitProcessor), and may not have applied the last commit yet. It has
    applied it once it answers a write.
    """
    actor.ask(SetData(root, b"", -1) if role == "leader" else Sync(root))


def _home(twin: ComparedEnsemble, stage: Stage, client: Actor, **options: float) -> None:
    """The session comes back to the leader, when all servers serve again."""
    twin.settle()
    stage.enter("home", twin.where["leader"], session=client.session, **options)
    stage.play("home: sync ~; get ~; ephemerals")


def one_order_for_all(twin: ComparedEnsemble, stage: Stage) -> None:
    """Writes at all servers, one after the other; reads behind a sync."""
    actors = {role: stage.enter(role, twin.where[role]) for role in ("leader", "follower", "other")}
    for turn in range(4):
        for number, (role, actor) in enumerate(actors.items()):
            _catch_up(actor, role, stage.root)
            flags = 3 if turn % 2 else 2
            stage.play(f"""
                {role}: create ~/{turn}-{number}- flags={flags}; set ~ x; set ~ x 99; check ~
                {role}: children ~
            """)
    for role, actor in actors.items():
        _catch_up(actor, role, stage.root)
        stage.play(f"{role}: ephemerals ~; get ~")


def a_follower_that_is_cut_off(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    holder = stage.enter("holder", twin.where["follower"], timeout=1.0)
    witness = stage.enter("witness", twin.where["leader"])
    pinger = stage.enter("pinger", twin.where["follower"], timeout=1.0)
    stage.play("holder: create ~/held flags=1")
    _catch_up(witness, "leader", root)
    stage.play("witness: get ~/held watch")
    _catch_up(holder, "follower", root)
    twin.isolate("follower")
    for actor in (holder, pinger):
        _ping(actor)
        stage.play(f"{actor.name}: get ~/held")
    # A renewal of the lease gets no answer. The next request of the session waits behind it.
    _in_vain(stage, holder, "check ~/held")
    _in_vain(stage, holder, "exists ~", 0.2)
    _ping(pinger)
    stage.play("""
        witness: set ~ new
        pinger: get ~
    """)
    twin.settle()
    # The follower has to join the leader again, and disconnects all of its clients.
    stage.play("holder, pinger: until closed")


def acknowledged_after_the_end(twin: ComparedEnsemble, stage: Stage) -> None:
    """The ensemble ends a session, and its follower goes on answering its pings."""
    root = stage.root
    pinger = stage.enter("pinger", twin.where["follower"], timeout=0.6)
    witness = stage.enter("witness", twin.where["leader"], timeout=10.0)
    stage.play("pinger: create ~/held flags=1")
    _catch_up(witness, "leader", root)
    stage.play("witness: get ~/held watch")
    _catch_up(pinger, "follower", root)
    twin.isolate("follower")
    began = twin.now()
    witness.wait_event(3.0, beside=pinger)
    took = twin.now() - began
    # Not before the timeout; a tick and a half more if nobody is slow.
    stage.note("the session has ended in time:", 0.4 < took < 2.0)
    _ping(pinger)
    stage.play("pinger: exists ~/held; until closed")
    twin.settle()
    stage.enter("pinger again", twin.where["follower"], session=pinger.session)


def a_session_lives_for_its_timeout_after_its_last_request(
    twin: ComparedEnsemble, stage: Stage
) -> None:
    root = stage.root
    witness = stage.enter("witness", twin.where["leader"])
    for role in ("leader", "follower"):
        actor = stage.enter(role, twin.where[role], timeout=0.6)
        stage.play(f"{role}: create ~/{role} flags=1")
        _catch_up(witness, "leader", root)
        stage.play(f"witness: get ~/{role} watch")
        _catch_up(actor, role, root)
        sent = twin.now()
        for _ in range(8):
            twin.wait(0.15)
            sent = twin.now()
            _ping(actor)
        witness.wait_event(3.0)
        # A real machine may be slow; it is never early.
        stage.note("not before its time:", twin.now() - sent > 0.6)
        actor.listen_until_closed()


def a_leader_that_is_cut_off(twin: ComparedEnsemble, stage: Stage) -> None:
    client = stage.enter("client", twin.where["leader"], timeout=10.0)
    writer = stage.enter("writer", twin.where["leader"], timeout=10.0)
    stage.play("client: create ~/held flags=1")
    twin.isolate("leader")
    _in_vain(stage, writer, "set ~ lost")
    # Answered by a leader without followers, since no quorum is asked.
    stage.play("client: sync ~; get ~")
    _ping(client)
    client.listen_until_closed()
    leader = twin.wait_leader()
    stage.enter("again", twin.where[leader], session=client.session, timeout=10.0)
    stage.play("again: get ~; exists ~/held; set ~ new; check ~/held")
    _home(twin, stage, client, timeout=10.0)


def a_session_that_moves(twin: ComparedEnsemble, stage: Stage) -> None:
    old = stage.enter("old", twin.where["follower"])
    stage.play("old: create ~/held flags=1")
    stage.enter("new", twin.where["other"], session=old.session)
    stage.play("""
        new: sync ~; exists ~/held
        old: get ~/held; set ~/held
        new: set ~/held new
    """)
    third = stage.enter("third", twin.where["leader"], session=old.session)
    stage.play("""
        third: check ~/held
        new: sync ~; check ~/held
    """)
    _catch_up(third, "leader", stage.root)
    stage.enter("back", twin.where["follower"], session=old.session)
    stage.play("""
        third: get ~/held
        back: delete ~/held
    """)


def a_session_that_nobody_owns(twin: ComparedEnsemble, stage: Stage) -> None:
    actor = stage.enter("actor", twin.where["follower"])
    for role in ("leader", "follower", "other"):
        address = twin.where[role]
        stage.enter(f"wrong id at {role}", address, session=(0x1234, actor.password))
        stage.enter(f"wrong password at {role}", address, session=(actor.session_id, bytes(16)))
        stage.enter(f"ahead at {role}", address, seen=1 << 60)


def who_has_seen_more_than_a_server_is_turned_away(twin: ComparedEnsemble, stage: Stage) -> None:
    writer = stage.enter("writer", twin.where["leader"], timeout=10.0)
    twin.isolate("follower")
    zxid = writer.raw(OpCode.SET_DATA, SetData(stage.root, b"new", -1).encode())
    stage.enter("ahead", twin.where["follower"], session=writer.session, seen=zxid)
    twin.settle()
    stage.enter("moved", twin.where["follower"], session=writer.session, seen=zxid)
    stage.play("moved: get ~")


def a_server_that_dies(twin: ComparedEnsemble, stage: Stage) -> None:
    """Its client reconnects to another server, which reports the events that it has missed."""
    root = stage.root
    client = stage.enter("client", twin.where["follower"], timeout=10.0)
    stage.enter("writer", twin.where["leader"], timeout=10.0)
    stage.play("""
        client: create ~/held flags=1
        writer: create ~/watched
        client: sync ~; get ~/watched watch
    """)
    seen = client.raw(OpCode.SYNC, Sync(root).encode())
    twin.kill("follower")
    stage.play("""
        client: until closed
        writer: set ~/watched
    """)
    again = stage.enter("again", twin.where["other"], session=client.session, seen=seen)
    stage.play("again: sync ~")
    again.ask(
        SetWatches(seen, (f"{root}/watched",), (f"{root}/made",), (root,), op=OpCode.SET_WATCHES),
        xid=-8,
    )
    stage.play("""
        again: listens; ephemerals
        writer: create ~/made
        again: sync ~; listens
    """)
    twin.settle()


def a_leader_that_dies(twin: ComparedEnsemble, stage: Stage) -> None:
    client = stage.enter("client", twin.where["leader"], timeout=10.0)
    stage.play("client: create ~/held flags=1; set ~ one")
    twin.kill("leader")
    client.listen_until_closed()
    leader = twin.wait_leader()
    again = stage.enter("again", twin.where[leader], session=client.session, timeout=10.0)
    stage.play("again: get ~")
    _ping(again)
    stage.play("again: set ~ two; create ~/more; children ~")
    twin.settle()


def a_follower_that_stops_and_goes_on(twin: ComparedEnsemble, stage: Stage) -> None:
    client = stage.enter("client", twin.where["follower"])
    stage.enter("writer", twin.where["leader"])
    stage.play("client: sync ~; get ~")
    twin.pause("follower")
    _in_vain(stage, client, "exists ~")
    stage.play("writer: set ~ new")
    twin.resume("follower")
    client.wait_answer()
    stage.play("client: sync ~; get ~")


def a_leader_that_stops_and_goes_on(twin: ComparedEnsemble, stage: Stage) -> None:
    client = stage.enter("client", twin.where["leader"])
    stage.play("client: create ~/held flags=1")
    twin.pause("leader")
    leader = twin.wait_leader()
    _in_vain(stage, client, "set ~ lost")
    stage.enter("again", twin.where[leader], session=client.session)
    stage.play("again: set ~ new")
    twin.resume("leader")
    stage.play("""
        client: until closed
        again: get ~
    """)
    _home(twin, stage, client)


def all_servers_die(twin: ComparedEnsemble, stage: Stage) -> None:
    client = stage.enter("client", twin.where["follower"])
    stage.play("client: create ~/held flags=1; set ~ kept")
    for role in ("leader", "follower", "other"):
        twin.kill(role)
    client.listen_until_closed()
    twin.settle()
    # Until the first write of the new epoch, only its leader answers with a zxid of it.
    stage.enter("first", twin.where["other"])
    stage.play("first: set ~ kept")
    stage.enter("again", twin.where["other"], session=client.session)
    stage.play("again: sync ~; get ~; ephemerals; set ~ new; create ~/more- flags=3")
