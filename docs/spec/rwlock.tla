------------------------------- MODULE rwlock -------------------------------
(***************************************************************************)
(* ReadWriteLock: readers and writers in one queue, with downgrading.      *)
(*                                                                         *)
(* WHAT IT MODELS.  Readers and writers, each with a client of its own,    *)
(* queue at one path.  A writer waits for everybody before it, a reader    *)
(* for the writers before it; each watches the nearest of those.  A writer *)
(* that holds may become a reader: one transaction deletes its znode and   *)
(* creates a reader with the same number.  Its answer may be lost, with    *)
(* the transaction applied, not applied, or on its way.  Contenders give   *)
(* up, also in the middle of downgrading; sessions expire.                 *)
(*                                                                         *)
(* SERVERS.  As in queue.tla: `tree` is committed, each client sees the    *)
(* committed states in order, with any delay (`lag`).                      *)
(*                                                                         *)
(* THE CODE behind each action (aiolead/_recipes/):                        *)
(*                                                                         *)
(*   Join, Create         contender_queue.py  Contender._join              *)
(*   List                 kernel.py  sharing                               *)
(*   Wake                 Contender.get                                    *)
(*   Enter                place.py  _lease_to_begin_with                   *)
(*   StartDowngrade       read_write.py  WriteContender._send              *)
(*   Downgrade            the transaction, at the servers                  *)
(*   Deliver              ._answered, ._reader_seen                        *)
(*   FindOut              ._find_out, ._stay, and the loop in              *)
(*                        read_write.py  WriteHeld.downgrade               *)
(*   Release, GiveUp      ._ReaderDeletion, znode.py  Znode.discard        *)
(*   Delete               pending_delete.py; _delete_reader; servers       *)
(*                                                                         *)
(* ASSUMED.  The lease (lease.tla).  After a write of a session, nothing   *)
(* is applied that it had on its way over a lost connection                *)
(* (SessionMovedException; reading.py  catch_up).                          *)
(*                                                                         *)
(* LEFT OUT.  What queue.tla has: lost creates, orphans, operators, several*)
(* contenders of one client.  A body that goes on to write although its    *)
(* call of downgrade() was cancelled: from that call on it counts as a     *)
(* reader here, as the docstring says.  The bounds: four contenders, one   *)
(* turn each, at most `Faults` faults.                                     *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Readers, Writers,
    None,
    Faults,         \* how many faults a run may have
    Kinds,          \* of faults: "cut", "expire", and, counted as faults
                    \* although they are none, "give up"
    MaxLag          \* by how many changes a client may lag

Contenders == Readers \cup Writers
Symmetry == Permutations(Readers) \cup Permutations(Writers)

VARIABLES
    \* The servers.
    tree,       \* the znodes: contender, whether it is a reader's, number
    number,     \* the next number
    over,       \* [contender]: the servers have ended its session
    stale,      \* contenders whose transaction is on a lost connection
    view, lag,  \* [contender]: what it sees, and what has not reached it
    \* Each contender.
    pc, node,
    sent,       \* its transaction is on its way
    watch,      \* the znode that it watches
    next,       \* it holds once that one is gone, without another look
    pending,    \* znodes whose delete is pending
    \* The model.
    token,      \* the greatest token of a writer
    faults

vars == <<tree, number, over, stale, view, lag, pc, node, sent, watch, next,
          pending, token, faults>>

Init ==
    /\ tree = {} /\ number = 1 /\ stale = {}
    /\ over = [c \in Contenders |-> FALSE]
    /\ view = [c \in Contenders |-> {}] /\ lag = [c \in Contenders |-> <<>>]
    /\ pc = [c \in Contenders |-> "join"]
    /\ node = [c \in Contenders |-> None]
    /\ sent = [c \in Contenders |-> FALSE]
    /\ watch = [c \in Contenders |-> None]
    /\ next = [c \in Contenders |-> FALSE]
    /\ pending = {} /\ token = 0 /\ faults = Faults

Queued == {"join", "sent", "here", "wait", "front"}
Holding == {"reading", "writing", "downgrading", "unknown"}

-----------------------------------------------------------------------------
\* A client without a znode sees everything at once: that spares TLC states.
Follows(c, new) == ~ \E z \in tree \cup view[c] \cup new : z.c = c

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
    /\ UNCHANGED <<tree, number, over, stale, view, lag, node, sent, watch,
                   next, pending, token, faults>>

Create(c) ==
    /\ pc[c] = "sent" /\ node[c] = None /\ ~over[c]
    /\ LET z == [c |-> c, reads |-> c \in Readers, q |-> number]
       IN Commit(tree \cup {z}) /\ node' = [node EXCEPT ![c] = z]
    /\ number' = number + 1
    /\ UNCHANGED <<over, stale, pc, sent, watch, next, pending, token, faults>>

\* The reader that the writer z becomes.
AsReader(z) == [z EXCEPT !.reads = TRUE]

Deliver(c) ==
    /\ lag[c] # <<>>
    /\ LET new == Head(lag[c])
           became == pc[c] = "downgrading" /\ AsReader(node[c]) \in new
       IN /\ view' = [view EXCEPT ![c] = new]
          /\ lag' = [lag EXCEPT ![c] = Tail(@)]
          /\ pc' = [pc EXCEPT ![c] =
               CASE pc[c] = "sent" /\ node[c] \in new -> "here"
                 [] became -> "reading"
                 [] OTHER -> @]
          /\ node' = IF became THEN [node EXCEPT ![c] = AsReader(@)] ELSE node
          /\ pending' = {z \in pending : z.c = c =>
                           \/ z \in new
                           \* The reader may still come while the writer is there.
                           \/ z.reads /\ [z EXCEPT !.reads = FALSE] \in new}
    /\ UNCHANGED <<tree, number, over, stale, sent, watch, next, token, faults>>

List(c) ==
    LET z == node[c]
        before == {y \in view[c] : y.q < z.q /\ (z.reads => ~y.reads)}
        nearest == CHOOSE y \in before : \A x \in before : x.q <= y.q
        \* A writer that has gone may have become a reader.
        settles == z.reads \/ nearest.reads
    IN /\ pc[c] = "here"
       /\ IF z \notin view[c]
          THEN /\ Goes(c, "join") /\ node' = [node EXCEPT ![c] = None]
               /\ UNCHANGED <<watch, next>>
          ELSE /\ UNCHANGED node
               /\ IF before = {}
                  THEN Goes(c, "front") /\ UNCHANGED <<watch, next>>
                  ELSE /\ Goes(c, "wait")
                       /\ watch' = [watch EXCEPT ![c] = nearest]
                       /\ next' = [next EXCEPT ![c] =
                                     Cardinality(before) = 1 /\ settles]
       /\ UNCHANGED <<tree, number, over, stale, view, lag, sent, pending,
                      token, faults>>

Wake(c) ==
    /\ pc[c] = "wait"
    /\ watch[c] \notin view[c] \/ node[c] \notin view[c]
    /\ Goes(c, IF node[c] \in view[c] /\ next[c] THEN "front" ELSE "here")
    /\ watch' = [watch EXCEPT ![c] = None]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<tree, number, over, stale, view, lag, node, sent, pending,
                   token, faults>>

Enter(c) ==
    /\ pc[c] = "front" /\ ~over[c]
    /\ Goes(c, IF node[c].reads THEN "reading" ELSE "writing")
    /\ token' = IF node[c].reads THEN token ELSE node[c].q
    /\ UNCHANGED <<tree, number, over, stale, view, lag, node, sent, watch,
                   next, pending, faults>>

-----------------------------------------------------------------------------
(* Becoming a reader.  From here on the body counts as one: it does not     *)
(* know when the transaction is applied.                                    *)

StartDowngrade(c) ==
    /\ pc[c] = "writing"
    /\ Goes(c, "downgrading")
    /\ sent' = [sent EXCEPT ![c] = TRUE]
    /\ UNCHANGED <<tree, number, over, stale, view, lag, node, watch, next,
                   pending, token, faults>>

\* One transaction.  It fails if the writer's znode is not there any more.
Downgraded(c) ==
    /\ ~over[c]
    /\ IF node[c] \in tree
       THEN Commit((tree \ {node[c]}) \cup {AsReader(node[c])})
       ELSE UNCHANGED <<tree, view, lag>>

Downgrade(c) ==
    /\ sent[c] /\ Downgraded(c)
    /\ sent' = [sent EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<number, over, stale, pc, node, watch, next, pending, token,
                   faults>>

\* The same, over a lost connection: later, or never.
LateDowngrade == \E c \in stale :
    /\ \/ UNCHANGED <<tree, view, lag>>
       \/ Downgraded(c)
    /\ stale' = stale \ {c}
    /\ UNCHANGED <<number, over, pc, node, sent, watch, next, pending, token,
                   faults>>

\* The quorum is asked, which also ends what is on its way; then the reader is
\* looked for.  If it is not there, the transaction is sent again.
FindOut(c) ==
    /\ pc[c] = "unknown" /\ lag[c] = <<>> /\ ~over[c]
    /\ stale' = stale \ {c}
    /\ IF AsReader(node[c]) \in view[c]
       THEN /\ Goes(c, "reading")
            /\ node' = [node EXCEPT ![c] = AsReader(@)]
            /\ UNCHANGED sent
       ELSE /\ Goes(c, "downgrading")
            /\ sent' = [sent EXCEPT ![c] = TRUE]
            /\ UNCHANGED node
    /\ UNCHANGED <<tree, number, over, view, lag, watch, next, pending, token,
                   faults>>

-----------------------------------------------------------------------------
(* Leaving. *)

\* In the middle of downgrading, either of the two znodes may be there.
Leave(c) ==
    /\ Goes(c, "out")
    /\ pending' = pending \cup
         (({node[c]} \cap view[c]) \cup
          IF pc[c] \in {"downgrading", "unknown"}
          THEN {node[c], AsReader(node[c])} ELSE {})
    /\ watch' = [watch EXCEPT ![c] = None]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ stale' = IF sent[c] THEN stale \cup {c} ELSE stale
    /\ sent' = [sent EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<tree, number, over, view, lag, node, token>>

Release(c) == pc[c] \in {"reading", "writing"} /\ Leave(c) /\ UNCHANGED faults

Fault(kind) == faults > 0 /\ kind \in Kinds /\ faults' = faults - 1

GiveUp(c) ==
    /\ pc[c] \in {"here", "wait", "front", "downgrading", "unknown"}
    /\ Fault("give up") /\ Leave(c)

\* The reader that may still come is deleted behind its writer: from then on it
\* is there, or never will be.
Delete == \E z \in pending \cap tree :
    /\ ~over[z.c]
    /\ (z.reads => [z EXCEPT !.reads = FALSE] \notin tree)
    /\ Commit(tree \ {z})
    /\ UNCHANGED <<number, over, stale, pc, node, sent, watch, next, pending,
                   token, faults>>

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
    /\ UNCHANGED <<tree, number, over, view, lag, node, pending, token>>

\* No body runs under an expired session: lease.tla.
Expire(c) ==
    /\ Fault("expire")
    /\ ~over[c] /\ pc[c] \notin Holding
    /\ over' = [over EXCEPT ![c] = TRUE]
    /\ stale' = stale \ {c}
    /\ Commit({z \in tree : z.c # c})
    /\ UNCHANGED <<number, pc, node, sent, watch, next, pending, token>>

Notice(c) ==
    /\ over[c]
    /\ over' = [over EXCEPT ![c] = FALSE]
    /\ LET again == pc[c] \in Queued
       IN /\ pc' = IF again THEN [pc EXCEPT ![c] = "join"] ELSE pc
          /\ node' = IF again THEN [node EXCEPT ![c] = None] ELSE node
          /\ watch' = [watch EXCEPT ![c] = None]
          /\ next' = [next EXCEPT ![c] = FALSE]
    /\ pending' = {z \in pending : z.c # c}
    /\ UNCHANGED <<tree, number, stale, view, lag, sent, token, faults>>

-----------------------------------------------------------------------------
Progress ==
    \/ Delete \/ LateDowngrade
    \/ \E c \in Contenders :
         \/ Join(c) \/ Create(c) \/ Deliver(c) \/ List(c) \/ Wake(c) \/ Enter(c)
         \/ Downgrade(c) \/ FindOut(c) \/ Release(c) \/ Notice(c)

Next ==
    \/ Progress
    \/ \E c \in Contenders :
         StartDowngrade(c) \/ GiveUp(c) \/ Cut(c) \/ Expire(c)

Spec == Init /\ [][Next]_vars

\* Fairness: as long as anything can go on, something does.  Nobody has to
\* downgrade or give up, no fault has to happen.
FairSpec == Spec /\ WF_vars(Progress)

-----------------------------------------------------------------------------
(* PROPERTIES. *)

\* A writer is alone; a writer that has begun to downgrade excludes writers.
Exclusive ==
    \A c, d \in Contenders :
        c # d /\ pc[c] = "writing" => pc[d] \notin Holding

\* A holder has a znode: the writer's, or the reader's that it may have become.
HoldersAreThere ==
    \A c \in Contenders :
        pc[c] \in Holding => \/ node[c] \in tree
                             \/ AsReader(node[c]) \in tree
                                /\ pc[c] \in {"downgrading", "unknown"}

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
