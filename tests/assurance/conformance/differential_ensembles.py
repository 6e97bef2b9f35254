"""Stories of servers that lose each other, to be told to a real ensemble and to the model.

The ensemble has ticks of a quarter of a second and a sync limit of twelve: a server that is cut off
leaves its role after three seconds, or a little earlier. Nothing depends on when exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from assurance.conformance.differential import Actor, Stage, create
from assurance.simulation.ensemble_pair import ComparedEnsemble

from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.framing import encode_body
from aiolead._wire.requests import (
    Check,
    Delete,
    Exists,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    SetData,
    SetWatches,
    Sync,
)

EPHEMERAL = 1

EnsembleStory = Callable[[ComparedEnsemble, Stage], None]

STORIES: list[EnsembleStory] = []


def story(function: EnsembleStory) -> EnsembleStory:
    STORIES.append(function)
    return function


def ping(actor: Actor) -> None:
    actor.ask_raw(OpCode.PING, xid=XID_PING)


def check(path: str) -> Multi:
    return Multi((Check(path, -1),))


def catch_up(actor: Actor, role: str, root: str) -> None:
    """Has a server apply whatever others have answered before.

    A sync does that, but at a leader: it answers those of its own clients as reads (`matchSyncs` of
    its CommitProcessor), and may not have applied yet what it has just had committed. Behind a
    write it has.
    """
    actor.ask(SetData(root, b"", -1) if role == "leader" else Sync(root))


@story
def one_order_for_all(twin: ComparedEnsemble, stage: Stage) -> None:
    """Writes at all servers, one after the other; reads behind a sync."""
    root = stage.root
    actors = {role: stage.enter(role, twin.where[role]) for role in ("leader", "follower", "other")}
    for turn in range(4):
        for number, (role, actor) in enumerate(actors.items()):
            catch_up(actor, role, root)
            actor.ask(create(f"{root}/{turn}-{number}-", flags=3 if turn % 2 else 2))
            actor.ask(SetData(root, b"x", -1))
            actor.ask(SetData(root, b"x", 99))
            actor.ask(check(root))
            actor.ask(GetChildren(root))
    for role, actor in actors.items():
        catch_up(actor, role, root)
        actor.ask(GetEphemerals(root))
        actor.ask(GetData(root))


@story
def a_follower_that_is_cut_off(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    holder = stage.enter("holder", twin.where["follower"], timeout=1.0)
    witness = stage.enter("witness", twin.where["leader"])
    pinger = stage.enter("pinger", twin.where["follower"], timeout=1.0)
    holder.ask(create(f"{root}/held", flags=EPHEMERAL))
    catch_up(witness, "leader", root)
    witness.ask(GetData(f"{root}/held", True))
    catch_up(holder, "follower", root)
    twin.isolate("follower")
    for actor in (holder, pinger):
        ping(actor)
        actor.ask(GetData(f"{root}/held"))
    # A lease is renewed with this: no answer. What the same session asks for next waits behind it.
    holder.ask_in_vain(check(f"{root}/held"), 0.3)
    holder.ask_in_vain(Exists(root), 0.2)
    ping(pinger)
    witness.ask(SetData(root, b"new", -1))
    pinger.ask(GetData(root))
    twin.settle()
    # The follower has to join the leader anew, and lets all of its clients go.
    holder.listen_until_closed()
    pinger.listen_until_closed()


@story
def acknowledged_after_the_end(twin: ComparedEnsemble, stage: Stage) -> None:
    """The ensemble ends a session, and its follower goes on answering its pings."""
    root = stage.root
    pinger = stage.enter("pinger", twin.where["follower"], timeout=0.6)
    witness = stage.enter("witness", twin.where["leader"], timeout=10.0)
    pinger.ask(create(f"{root}/held", flags=EPHEMERAL))
    catch_up(witness, "leader", root)
    witness.ask(GetData(f"{root}/held", True))
    catch_up(pinger, "follower", root)
    twin.isolate("follower")
    began = twin.now()
    witness.wait_event(3.0, beside=pinger)
    took = twin.now() - began
    # Not before the timeout; a tick and a half more if nobody is slow.
    stage.note("the session has ended in time:", 0.4 < took < 2.0)
    ping(pinger)
    pinger.ask(Exists(f"{root}/held"))
    pinger.listen_until_closed()
    twin.settle()
    stage.enter("pinger again", twin.where["follower"], session=pinger.session)


@story
def a_session_lives_for_its_timeout_after_its_last_request(
    twin: ComparedEnsemble, stage: Stage
) -> None:
    root = stage.root
    witness = stage.enter("witness", twin.where["leader"])
    for role in ("leader", "follower"):
        actor = stage.enter(role, twin.where[role], timeout=0.6)
        actor.ask(create(f"{root}/{role}", flags=EPHEMERAL))
        catch_up(witness, "leader", root)
        witness.ask(GetData(f"{root}/{role}", True))
        catch_up(actor, role, root)
        sent = twin.now()
        for _ in range(8):
            twin.wait(0.15)
            sent = twin.now()
            ping(actor)
        witness.wait_event(3.0)
        # A real machine may be slow; it is never early.
        stage.note("not before its time:", twin.now() - sent > 0.6)
        actor.listen_until_closed()


@story
def a_leader_that_is_cut_off(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    client = stage.enter("client", twin.where["leader"], timeout=10.0)
    writer = stage.enter("writer", twin.where["leader"], timeout=10.0)
    client.ask(create(f"{root}/held", flags=EPHEMERAL))
    twin.isolate("leader")
    writer.ask_in_vain(SetData(root, b"lost", -1), 0.3)
    # Answered by a leader that nobody follows: no quorum is asked.
    client.ask(Sync(root))
    client.ask(GetData(root))
    ping(client)
    client.listen_until_closed()
    leader = twin.wait_leader()
    again = stage.enter("again", twin.where[leader], session=client.session, timeout=10.0)
    again.ask(GetData(root))
    again.ask(Exists(f"{root}/held"))
    again.ask(SetData(root, b"new", -1))
    again.ask(check(f"{root}/held"))
    twin.settle()
    home = stage.enter("home", twin.where["leader"], session=client.session, timeout=10.0)
    home.ask(Sync(root))
    home.ask(GetData(root))
    home.ask(GetEphemerals(""))


@story
def a_session_that_moves(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    old = stage.enter("old", twin.where["follower"])
    old.ask(create(f"{root}/held", flags=EPHEMERAL))
    new = stage.enter("new", twin.where["other"], session=old.session)
    new.ask(Sync(root))
    new.ask(Exists(f"{root}/held"))
    old.ask(GetData(f"{root}/held"))
    old.ask(SetData(f"{root}/held", b"", -1))
    new.ask(SetData(f"{root}/held", b"new", -1))
    third = stage.enter("third", twin.where["leader"], session=old.session)
    third.ask(check(f"{root}/held"))
    new.ask(Sync(root))
    new.ask(check(f"{root}/held"))
    catch_up(third, "leader", root)
    back = stage.enter("back", twin.where["follower"], session=old.session)
    third.ask(GetData(f"{root}/held"))
    back.ask(Delete(f"{root}/held", -1))


@story
def a_session_that_nobody_owns(twin: ComparedEnsemble, stage: Stage) -> None:
    actor = stage.enter("actor", twin.where["follower"])
    for role in ("leader", "follower", "other"):
        address = twin.where[role]
        stage.enter(f"wrong id at {role}", address, session=(0x1234, actor.password))
        stage.enter(f"wrong password at {role}", address, session=(actor.session_id, bytes(16)))
        stage.enter(f"ahead at {role}", address, seen=1 << 60)


@story
def who_has_seen_more_than_a_server_is_turned_away(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    writer = stage.enter("writer", twin.where["leader"], timeout=10.0)
    twin.isolate("follower")
    zxid = writer.raw(OpCode.SET_DATA, encode_body(SetData(root, b"new", -1)))
    stage.enter("ahead", twin.where["follower"], session=writer.session, seen=zxid)
    twin.settle()
    moved = stage.enter("moved", twin.where["follower"], session=writer.session, seen=zxid)
    moved.ask(GetData(root))


@story
def a_server_that_dies(twin: ComparedEnsemble, stage: Stage) -> None:
    """Its client comes back elsewhere, and hears of what it has missed."""
    root = stage.root
    client = stage.enter("client", twin.where["follower"], timeout=10.0)
    writer = stage.enter("writer", twin.where["leader"], timeout=10.0)
    client.ask(create(f"{root}/held", flags=EPHEMERAL))
    writer.ask(create(f"{root}/watched"))
    client.ask(Sync(root))
    client.ask(GetData(f"{root}/watched", True))
    seen = client.raw(OpCode.SYNC, encode_body(Sync(root)))
    twin.kill("follower")
    client.listen_until_closed()
    writer.ask(SetData(f"{root}/watched", b"", -1))
    again = stage.enter("again", twin.where["other"], session=client.session, seen=seen)
    again.ask(Sync(root))
    again.ask(
        SetWatches(seen, (f"{root}/watched",), (f"{root}/made",), (root,), op=OpCode.SET_WATCHES),
        xid=-8,
    )
    again.listen()
    again.ask(GetEphemerals(""))
    writer.ask(create(f"{root}/made"))
    again.ask(Sync(root))
    again.listen()
    twin.settle()


@story
def a_leader_that_dies(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    client = stage.enter("client", twin.where["leader"], timeout=10.0)
    client.ask(create(f"{root}/held", flags=EPHEMERAL))
    client.ask(SetData(root, b"one", -1))
    twin.kill("leader")
    client.listen_until_closed()
    leader = twin.wait_leader()
    again = stage.enter("again", twin.where[leader], session=client.session, timeout=10.0)
    again.ask(GetData(root))
    ping(again)
    again.ask(SetData(root, b"two", -1))
    again.ask(create(f"{root}/more"))
    again.ask(GetChildren(root))
    twin.settle()


@story
def a_follower_that_stops_and_goes_on(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    client = stage.enter("client", twin.where["follower"])
    writer = stage.enter("writer", twin.where["leader"])
    client.ask(Sync(root))
    client.ask(GetData(root))
    twin.pause("follower")
    client.ask_in_vain(Exists(root), 0.3)
    writer.ask(SetData(root, b"new", -1))
    twin.resume("follower")
    client.wait_answer()
    client.ask(Sync(root))
    client.ask(GetData(root))


@story
def a_leader_that_stops_and_goes_on(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    client = stage.enter("client", twin.where["leader"])
    client.ask(create(f"{root}/held", flags=EPHEMERAL))
    twin.pause("leader")
    leader = twin.wait_leader()
    client.ask_in_vain(SetData(root, b"lost", -1), 0.3)
    again = stage.enter("again", twin.where[leader], session=client.session)
    again.ask(SetData(root, b"new", -1))
    twin.resume("leader")
    client.listen_until_closed()
    again.ask(GetData(root))
    twin.settle()
    home = stage.enter("home", twin.where["leader"], session=client.session)
    home.ask(Sync(root))
    home.ask(GetData(root))
    home.ask(GetEphemerals(""))


@story
def all_servers_die(twin: ComparedEnsemble, stage: Stage) -> None:
    root = stage.root
    client = stage.enter("client", twin.where["follower"])
    client.ask(create(f"{root}/held", flags=EPHEMERAL))
    client.ask(SetData(root, b"kept", -1))
    for role in ("leader", "follower", "other"):
        twin.kill(role)
    client.listen_until_closed()
    twin.settle()
    # Until the first write of the new epoch, its leader alone answers with a zxid of it.
    stage.enter("first", twin.where["other"]).ask(SetData(root, b"kept", -1))
    again = stage.enter("again", twin.where["other"], session=client.session)
    again.ask(Sync(root))
    again.ask(GetData(root))
    again.ask(GetEphemerals(""))
    again.ask(SetData(root, b"new", -1))
    again.ask(create(f"{root}/more-", flags=3))
