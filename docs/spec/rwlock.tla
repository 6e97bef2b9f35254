------------------------------- MODULE rwlock -------------------------------
(***************************************************************************)
(* ReadWriteLock: readers and writers in one queue, with downgrading.      *)
(*                                                                         *)
(* WHAT IT MODELS.  Readers and writers, each with a client of its own,    *)
(* queue at one path.  A writer waits for everybody before it, a reader    *)
(* for the writers before it; each watches the nearest of those.  A writer *)
(* that holds may become a reader in three steps: it creates a reader with *)
(* its own number, moves its hold to that as the answer arrives, and then  *)
(* deletes the writer.  The answer to the create may be lost, with the     *)
(* create applied, not applied, or on its way.  Contenders give up, also   *)
(* in the middle of downgrading; sessions expire; an operator deletes      *)
(* znodes.                                                                 *)
(*                                                                         *)
(* SERVERS.  As in queue.tla: `tree` is committed, each client sees the    *)
(* committed states in order, with any delay (`lag`).                      *)
(*                                                                         *)
(* THE CODE behind each action (aiolead/_recipes/):                        *)
(*                                                                         *)
(*   Join, Create         contender_queue.py  Contender._join              *)
(*   List                 kernel.py  sharing                               *)
(*   Wake                 Contender.get                                    *)
(*   Enter                hold.py  _lease_to_begin_with                    *)
(*   StartDowngrade       read_write.py  WriteHeld._create_reader          *)
(*   CreateReader         the create, at the servers                       *)
(*   Deliver, Moved       read_write.py  WriteHeld._move_to; the loss of a *)
(*                        hold whose znode is gone: znode.py  Znode.lost   *)
(*   FindOut              znode.py  Znode.resolve, and the loop in         *)
(*                        read_write.py  WriteHeld.downgrade               *)
(*   Release, GiveUp      znode.py  Znode.discard, of both znodes          *)
(*   Delete               naming.py; Znode._delete_lost; servers           *)
(*                                                                         *)
(* ASSUMED.  The lease (lease.tla).  After a write of a session, nothing   *)
(* is applied that it had on its way over a lost connection                *)
(* (SessionMovedException; reading.py  catch_up).                          *)
(*                                                                         *)
(* LEFT OUT.  What queue.tla has: lost creates of contenders, orphans,     *)
(* several contenders of one client.  Refused creates and deletes.  A body *)
(* that goes on after a cancelled call of downgrade() is one that          *)
(* downgrades for a long time: it counts as a writer until its hold moves. *)
(* The bounds: four contenders, one turn each, at most `Faults` faults.    *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Readers, Writers,
    None,
    Faults,         \* how many faults a run may have
    Kinds,          \* of faults: "cut", "expire", "operator", and, counted as
                    \* a fault although it is none, "give up"
    MaxLag          \* by how many changes a client may lag

Contenders == Readers \cup Writers
Symmetry == Permutations(Readers) \cup Permutations(Writers)

VARIABLES
    \* The servers.
    tree,       \* the znodes: contender, whether it is a reader's, number
    number,     \* the next number
    over,       \* [contender]: the servers have ended its session
    removed,    \* znodes that an operator has deleted
    stale,      \* contenders whose create of a reader is on a lost connection
    view, lag,  \* [contender]: what it sees, and what has not reached it
    \* Each contender.
    pc, node,
    sent,       \* its create of a reader is on its way
    watch,      \* the znode that it watches
    next,       \* it holds once that one is gone, without another look
    pending,    \* znodes whose delete is pending
    \* The model.
    token,      \* the greatest token of a writer
    faults

vars == <<tree, number, over, removed, stale, view, lag, pc, node, sent, watch,
          next, pending, token, faults>>

Init ==
    /\ tree = {} /\ number = 1 /\ removed = {} /\ stale = {}
    /\ over = [c \in Contenders |-> FALSE]
    /\ view = [c \in Contenders |-> {}] /\ lag = [c \in Contenders |-> <<>>]
    /\ pc = [c \in Contenders |-> "join"]
    /\ node = [c \in Contenders |-> None]
    /\ sent = [c \in Contenders |-> FALSE]
    /\ watch = [c \in Contenders |-> None]
    /\ next = [c \in Contenders |-> FALSE]
    /\ pending = {} /\ token = 0 /\ faults = Faults

Queued == {"join", "sent", "here", "wait", "front"}
Writing == {"writing", "downgrading", "unknown"}
Holding == Writing \cup {"reading"}

-----------------------------------------------------------------------------
\* A client without a znode sees everything at once: that spares TLC states.
Follows(c, new) ==
    lag[c] = <<>> /\ ~ \E z \in tree \cup view[c] \cup new : z.c = c

Commit(new) ==
    /\ \A c \in Contenders : Len(lag[c]) < MaxLag \/ Follows(c, new)
    /\ tree' = new
    /\ view' = [c \in Contenders |-> IF Follows(c, new) THEN new ELSE view[c]]
    /\ lag' = [c \in Contenders |-> CASE Follows(c, new) -> <<>>
                                      [] new = tree -> lag[c]
                                      [] OTHER -> Append(lag[c], new)]

Goes(c, state) == pc' = [pc EXCEPT ![c] = state]

-----------------------------------------------------------------------------
(* Joining and waiting. *)

Join(c) ==
    /\ pc[c] = "join" /\ ~over[c]
    /\ Goes(c, "sent")
    /\ UNCHANGED <<tree, number, over, removed, stale, view, lag, node, sent,
                   watch, next, pending, token, faults>>

Create(c) ==
    /\ pc[c] = "sent" /\ node[c] = None /\ ~over[c]
    /\ LET z == [c |-> c, reads |-> c \in Readers, q |-> number]
       IN Commit(tree \cup {z}) /\ node' = [node EXCEPT ![c] = z]
    /\ number' = number + 1
    /\ UNCHANGED <<over, removed, stale, pc, sent, watch, next, pending, token,
                   faults>>

List(c) ==
    LET z == node[c]
        before == {y \in view[c] : y.q < z.q /\ (z.reads => ~y.reads)}
    IN /\ pc[c] = "here"
       /\ IF z \notin view[c]
          THEN /\ Goes(c, "join") /\ node' = [node EXCEPT ![c] = None]
               /\ UNCHANGED <<watch, next>>
          ELSE /\ UNCHANGED node
               /\ IF before = {}
                  THEN Goes(c, "front") /\ UNCHANGED <<watch, next>>
                  \* A writer and the reader that it becomes have one number.
                  ELSE \E nearest \in before :
                       LET \* A writer that has gone may have become a reader.
                           settles == z.reads \/ nearest.reads
                       IN /\ \A y \in before : y.q <= nearest.q
                          /\ Goes(c, "wait")
                          /\ watch' = [watch EXCEPT ![c] = nearest]
                          /\ next' = [next EXCEPT ![c] =
                                        Cardinality(before) = 1 /\ settles]
       /\ UNCHANGED <<tree, number, over, removed, stale, view, lag, sent,
                      pending, token, faults>>

Wake(c) ==
    /\ pc[c] = "wait"
    /\ watch[c] \notin view[c] \/ node[c] \notin view[c]
    /\ Goes(c, IF node[c] \in view[c] /\ next[c] THEN "front" ELSE "here")
    /\ watch' = [watch EXCEPT ![c] = None]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<tree, number, over, removed, stale, view, lag, node, sent,
                   pending, token, faults>>

Enter(c) ==
    /\ pc[c] = "front" /\ ~over[c]
    /\ Goes(c, IF node[c].reads THEN "reading" ELSE "writing")
    \* If an operator has deleted its znode by now, the token is an old one.
    /\ token' = IF node[c].reads \/ node[c] \in removed THEN token ELSE node[c].q
    /\ UNCHANGED <<tree, number, over, removed, stale, view, lag, node, sent,
                   watch, next, pending, faults>>

-----------------------------------------------------------------------------
(* Becoming a reader.  The body counts as a writer until its hold moves. *)

\* The reader that the writer z becomes.
AsReader(z) == [z EXCEPT !.reads = TRUE]

StartDowngrade(c) ==
    /\ pc[c] = "writing"
    /\ Goes(c, "downgrading")
    /\ sent' = [sent EXCEPT ![c] = TRUE]
    /\ UNCHANGED <<tree, number, over, removed, stale, view, lag, node, watch,
                   next, pending, token, faults>>

CreateReader(c) ==
    /\ sent[c] /\ ~over[c]
    /\ Commit(tree \cup {AsReader(node[c])})
    /\ sent' = [sent EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<number, over, removed, stale, pc, node, watch, next, pending,
                   token, faults>>

\* The same, over a lost connection: later, or never.
LateReader == \E c \in stale :
    /\ \/ UNCHANGED <<tree, view, lag>>
       \/ ~over[c] /\ Commit(tree \cup {AsReader(node[c])})
    /\ stale' = stale \ {c}
    /\ UNCHANGED <<number, over, removed, pc, node, sent, watch, next, pending,
                   token, faults>>

\* The hold is on the reader, and the delete of the writer is sent.
Moved(c) ==
    /\ Goes(c, "reading")
    /\ node' = [node EXCEPT ![c] = AsReader(@)]

\* The quorum is asked, which also ends what is on its way; then the reader is
\* looked for.  If it is not there, the create is sent again.
FindOut(c) ==
    /\ pc[c] = "unknown" /\ lag[c] = <<>> /\ ~over[c]
    /\ stale' = stale \ {c}
    /\ IF AsReader(node[c]) \in view[c]
       THEN /\ Moved(c)
            /\ pending' = pending \cup {node[c]}
            /\ UNCHANGED sent
       ELSE /\ Goes(c, "downgrading")
            /\ sent' = [sent EXCEPT ![c] = TRUE]
            /\ UNCHANGED <<node, pending>>
    /\ UNCHANGED <<tree, number, over, removed, view, lag, watch, next, token,
                   faults>>

-----------------------------------------------------------------------------
(* Leaving. *)

\* The znodes to delete.  In the middle of downgrading there may be two.
Left(c) ==
    IF pc[c] \in {"downgrading", "unknown"}
    THEN {node[c], AsReader(node[c])} ELSE {node[c]}

Leave(c) ==
    /\ Goes(c, "out")
    /\ pending' = pending \cup Left(c)
    /\ watch' = [watch EXCEPT ![c] = None]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ stale' = IF sent[c] THEN stale \cup {c} ELSE stale
    /\ sent' = [sent EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<tree, number, over, removed, view, lag, node, token>>

Release(c) == pc[c] \in {"reading", "writing"} /\ Leave(c) /\ UNCHANGED faults

Fault(kind) == faults > 0 /\ kind \in Kinds /\ faults' = faults - 1

GiveUp(c) ==
    /\ pc[c] \in {"here", "wait", "front", "downgrading", "unknown"}
    /\ Fault("give up") /\ Leave(c)

Delete == \E z \in pending \cap tree :
    /\ ~over[z.c]
    /\ Commit(tree \ {z})
    /\ UNCHANGED <<number, over, removed, stale, pc, node, sent, watch, next,
                   pending, token, faults>>

-----------------------------------------------------------------------------
(* What reaches a client: answers and watch events, in the servers' order.  *)

Deliver(c) ==
    /\ lag[c] # <<>>
    /\ LET new == Head(lag[c])
           became == pc[c] = "downgrading" /\ AsReader(node[c]) \in new
           lost == ~became /\ pc[c] \in Holding /\ node[c] \notin new
           mine == pending \cup (IF became THEN {node[c]} ELSE {})
                           \cup (IF lost THEN Left(c) ELSE {})
       IN /\ view' = [view EXCEPT ![c] = new]
          /\ lag' = [lag EXCEPT ![c] = Tail(@)]
          /\ CASE became -> Moved(c)
               [] lost -> Goes(c, "out") /\ UNCHANGED node
               [] pc[c] = "sent" /\ node[c] \in new ->
                    Goes(c, "here") /\ UNCHANGED node
               [] pc[c] = "front" /\ node[c] \notin new ->
                    Goes(c, "here") /\ UNCHANGED node
               [] OTHER -> UNCHANGED <<pc, node>>
          /\ stale' = IF lost /\ sent[c] THEN stale \cup {c} ELSE stale
          /\ sent' = IF lost THEN [sent EXCEPT ![c] = FALSE] ELSE sent
          /\ pending' = {z \in mine : z.c = c =>
                           \/ z \in new
                           \* Only a read behind a write says that it never comes.
                           \/ z.reads /\ (c \in stale' \/ z \in tree)}
    /\ UNCHANGED <<tree, number, over, removed, watch, next, token, faults>>

-----------------------------------------------------------------------------
(* Faults. *)

Cut(c) ==
    /\ Fault("cut")
    /\ pc[c] \in {"downgrading", "wait"}
    /\ Goes(c, IF pc[c] = "wait" THEN "here" ELSE "unknown")
    /\ stale' = IF sent[c] THEN stale \cup {c} ELSE stale
    /\ sent' = [sent EXCEPT ![c] = FALSE]
    /\ watch' = [watch EXCEPT ![c] = None]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<tree, number, over, removed, view, lag, node, pending, token>>

\* No body runs under an expired session: lease.tla.
Expire(c) ==
    /\ Fault("expire")
    /\ ~over[c] /\ pc[c] \notin Holding
    /\ over' = [over EXCEPT ![c] = TRUE]
    /\ stale' = stale \ {c}
    /\ Commit({z \in tree : z.c # c})
    /\ UNCHANGED <<number, removed, pc, node, sent, watch, next, pending, token>>

Notice(c) ==
    /\ over[c]
    /\ over' = [over EXCEPT ![c] = FALSE]
    /\ LET again == pc[c] \in Queued
       IN /\ pc' = IF again THEN [pc EXCEPT ![c] = "join"] ELSE pc
          /\ node' = IF again THEN [node EXCEPT ![c] = None] ELSE node
          /\ watch' = [watch EXCEPT ![c] = None]
          /\ next' = [next EXCEPT ![c] = FALSE]
    /\ pending' = {z \in pending : z.c # c}
    /\ UNCHANGED <<tree, number, removed, stale, view, lag, sent, token, faults>>

Operator == \E z \in tree :
    /\ Fault("operator")
    /\ removed' = removed \cup {z}
    /\ Commit(tree \ {z})
    /\ UNCHANGED <<number, over, stale, pc, node, sent, watch, next, pending,
                   token>>

-----------------------------------------------------------------------------
Progress ==
    \/ Delete \/ LateReader
    \/ \E c \in Contenders :
         \/ Join(c) \/ Create(c) \/ Deliver(c) \/ List(c) \/ Wake(c) \/ Enter(c)
         \/ CreateReader(c) \/ FindOut(c) \/ Release(c) \/ Notice(c)

Next ==
    \/ Progress
    \/ Operator
    \/ \E c \in Contenders :
         StartDowngrade(c) \/ GiveUp(c) \/ Cut(c) \/ Expire(c)

Spec == Init /\ [][Next]_vars

\* Fairness: as long as anything can go on, something does.  Nobody has to
\* downgrade or give up, no fault has to happen.
FairSpec == Spec /\ WF_vars(Progress)

-----------------------------------------------------------------------------
(* PROPERTIES. *)

\* A writer is alone, unless an operator has deleted the znode of one of the
\* two, which then is about to learn that: the state is in its lag.
Exclusive ==
    \A c, d \in Contenders :
        c # d /\ pc[c] \in Writing /\ pc[d] \in Holding =>
            node[c] \in removed \/ node[d] \in removed

\* A holder has a znode, or is about to learn that it has none.
HoldersAreThere ==
    \A c \in Contenders :
        pc[c] \in Holding =>
            \/ node[c] \in tree
            \/ node[c] \in removed /\ node[c] \in view[c]

\* Every znode has an owner that uses it, or is about to delete it.
NothingForgotten ==
    \A z \in tree :
        \/ z \in pending
        \/ pc[z.c] \in Queued \cup Holding /\ node[z.c].q = z.q

\* Fencing tokens rise from writer to writer.
TokensRise == [][token' > token]_token

\* Everyone that waits gets in, in the end.
EveryoneServed ==
    \A c \in Contenders : (pc[c] \in Queued) ~> (pc[c] \notin Queued)
=============================================================================
