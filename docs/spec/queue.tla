------------------------------- MODULE queue -------------------------------
(***************************************************************************)
(* The queue of contenders: elections, locks, semaphores' queues.          *)
(*                                                                         *)
(* WHAT IT MODELS.  Clients with one or more contenders each queue at one  *)
(* path for N places.  A contender creates an ephemeral sequential znode,  *)
(* lists the queue, watches its predecessor (and the one before that: the  *)
(* look-ahead watch), and holds when it is in front.  It may give up at    *)
(* any moment.  Connections are lost, with any request in flight applied,  *)
(* not applied, or applied later; servers lag; sessions expire; processes  *)
(* are killed; an operator deletes znodes, or the whole path, whose        *)
(* numbers then start again.                                               *)
(*                                                                         *)
(* SERVERS.  `tree` is what the quorum has committed.  Each client sees    *)
(* the committed states in order, with any delay: `lag` has the states     *)
(* that have not reached it yet.  Answers, listings and watch events come  *)
(* from that view.  So one variable stands for a server that lags and for  *)
(* packets on their way; a client that moves to another server never goes  *)
(* back (the zxid in its handshake), so nothing else changes.              *)
(*                                                                         *)
(* THE CODE behind each action (aiolead/_recipes/):                        *)
(*                                                                         *)
(*   Join                 contention/contender.py  Contender._create       *)
(*   Create, Delete       the servers                                      *)
(*   Deliver              _core/ephemeral.py  EphemeralNode._created,      *)
(*                        _on_event; contender.py  Contender._on_ahead;    *)
(*                        _core/pending_delete.py  PendingDelete._answered *)
(*   Cut                  _core/acquire.py  Acquirable._persist; the       *)
(*                        requests in flight have an unknown outcome       *)
(*   Resolve              _core/ephemeral.py  EphemeralNode.resolve        *)
(*   Look                 _core/ephemeral.py  EphemeralNode._delete_lost   *)
(*   BehindOurs           contender.py  Contender._behind_ours             *)
(*   List                 contender.py  Contender._list_queue, and         *)
(*                        contention/kernel.py  standing                   *)
(*   Arm                  contender.py  Contender._arm, _delete_orphan     *)
(*   Wake                 contender.py  Contender._try, _was_first         *)
(*   Enter                _core/acquire.py  Acquirable._await_lease        *)
(*   Release, GiveUp      _core/ephemeral.py  EphemeralNode.discard        *)
(*   Notice               contender.py  Contender._start_again             *)
(*                                                                         *)
(* ASSUMED.  The lease (lease.tla): a session does not expire while a body *)
(* runs under it, and a contender enters only if its session lives.        *)
(*                                                                         *)
(* LEFT OUT.  Time (a wait is over some time later, except where Late says *)
(* otherwise); readers and writers (rwlock.tla); ACLs and znodes that may  *)
(* not be read; foreign names and layouts; contenders with different       *)
(* numbers of places; the end of the numbers; ranks that are reported.     *)
(* The bounds: three contenders, `Rounds` turns each,  *)
(* at most `Faults` faults in a run.  Errors that need more contenders, or *)
(* more faults together, are left to the simulation.                       *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Contenders,
    Together,       \* those that belong to one client; each other has its own
    Home,           \* that client
    None,           \* no znode
    N,              \* places: how many may hold at once
    Rounds,         \* how many turns each contender wants
    Faults,         \* how many faults a run may have
    Kinds,          \* of faults: "cut", "expire", "kill", "delete", "wipe"
    MaxLag,         \* by how many changes a client may lag
    Late            \* TRUE: a request of a lost connection may be applied
                    \* even after the second look for it

ClientOf(c) == IF c \in Together THEN Home ELSE c
Clients == {ClientOf(c) : c \in Contenders}
Symmetry == Permutations(Together) \cup Permutations(Contenders \ Together)

VARIABLES
    \* The servers.
    tree,       \* the znodes: contender, its serial, session, number, czxid
    number,     \* the next sequence number of the path
    zxid,       \* how many znodes have been created
    over,       \* [client]: the servers have ended its session
    requests,   \* creates on their way
    \* Each client.
    view,       \* [client]: the znodes, as far as it has heard
    lag,        \* [client]: the committed states that it has not seen
    session,    \* [client]: counts its sessions
    dead,       \* [client]: killed
    pending,    \* znodes whose delete is pending: repeated until they are gone
    looks,      \* lost or unwanted creates that are being looked for
    front,      \* [client]: the last of its znodes known to be first
    \* Each contender.
    pc, node, serial, watch, next, gone, outlived, rounds,
    \* The model.
    faults,     \* how many may still come
    token       \* that of the latest holder

servers == <<tree, number, zxid, over, requests>>
contender == <<pc, node, serial, watch, next, gone, outlived, rounds>>
vars == <<servers, view, lag, session, dead, pending, looks, front,
          contender, faults, token>>

Queued == {"join", "sent", "lost", "here", "arm", "wait", "front"}

Init ==
    /\ tree = {} /\ number = 0 /\ zxid = 0
    /\ over = [k \in Clients |-> FALSE] /\ requests = {}
    /\ view = [k \in Clients |-> {}] /\ lag = [k \in Clients |-> <<>>]
    /\ session = [k \in Clients |-> 1] /\ dead = [k \in Clients |-> FALSE]
    /\ pending = {} /\ looks = {}
    /\ front = [k \in Clients |-> None]
    /\ pc = [c \in Contenders |-> "join"]
    /\ node = [c \in Contenders |-> None]
    /\ serial = [c \in Contenders |-> 0]
    /\ watch = [c \in Contenders |-> <<>>]
    /\ next = [c \in Contenders |-> FALSE]
    /\ gone = [c \in Contenders |-> {}]
    /\ outlived = [c \in Contenders |-> {}]
    /\ rounds = [c \in Contenders |-> Rounds]
    /\ faults = Faults /\ token = 0

-----------------------------------------------------------------------------
(* What is said of a znode, and by whom. *)

Range(seq) == {seq[i] : i \in 1 .. Len(seq)}
Mine(k) == {c \in Contenders : ClientOf(c) = k}
Is(z, c, n) == z.c = c /\ z.n = n

\* Recorded in the client's registry (NodeRegistry.is_claimed).
Claimed(z) == z \in pending \/ \E c \in Contenders : node[c] = z
\* The client may still find it after a lost create (NodeRegistry.is_wanted).
Expected(z) == pc[z.c] \in {"sent", "lost"} /\ serial[z.c] = z.n
\* A job of the client looks for it.
LookedFor(z) == \E job \in looks : Is(z, job.c, job.n)
Lives(z) == session[ClientOf(z.c)] = z.s /\ ~over[ClientOf(z.c)]

\* What a client sees makes a difference only while it has a znode.  The view
\* of the others follows at once: that spares TLC most of the states.
HasZnode(k, znodes) == \E z \in znodes : ClientOf(z.c) = k
Follows(k, new) == dead[k] \/ ~HasZnode(k, tree \cup view[k] \cup new)

Commit(new) ==
    /\ \A k \in Clients : Len(lag[k]) < MaxLag \/ Follows(k, new)
    /\ tree' = new
    /\ view' = [k \in Clients |-> IF Follows(k, new) THEN new ELSE view[k]]
    /\ lag' = [k \in Clients |-> CASE Follows(k, new) -> <<>>
                                   [] new = tree -> lag[k]
                                   [] OTHER -> Append(lag[k], new)]

\* Contender c has no znode any more, and joins again.
StartAgain(c) ==
    /\ pc' = [pc EXCEPT ![c] = "join"]
    /\ node' = [node EXCEPT ![c] = None]
    /\ watch' = [watch EXCEPT ![c] = <<>>]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ gone' = [gone EXCEPT ![c] = {}]
    /\ outlived' = [outlived EXCEPT ![c] = {}]

-----------------------------------------------------------------------------
(* The servers. *)

Create == \E r \in requests :
    LET z == [c |-> r.c, n |-> r.n, s |-> r.s, q |-> number, t |-> zxid + 1]
    IN /\ Lives(z)
       /\ Commit(tree \cup {z})
       /\ number' = number + 1 /\ zxid' = zxid + 1
       /\ requests' = requests \ {r}
       /\ UNCHANGED <<over, session, dead, pending, looks, front,
                      contender, faults, token>>

\* A request of a lost connection is never applied.
Drop == \E r \in requests :
    /\ ~(pc[r.c] = "sent" /\ serial[r.c] = r.n)
    /\ [c |-> r.c, n |-> r.n, step |-> "answer"] \notin looks
    /\ requests' = requests \ {r}
    /\ UNCHANGED <<tree, number, zxid, over, view, lag, session, dead, pending,
                   looks, front, contender, faults, token>>

Delete == \E z \in pending \cap tree :
    /\ Lives(z)
    /\ Commit(tree \ {z})
    /\ UNCHANGED <<number, zxid, over, requests, session, dead, pending,
                   looks, front, contender, faults, token>>

-----------------------------------------------------------------------------
(* What reaches a client, and what its callbacks do at once. *)

Deliver(k) ==
    /\ lag[k] # <<>> /\ ~dead[k]
    /\ LET new == Head(lag[k])
           made(c) == {z \in new : Is(z, c, serial[c])}
           answered == {c \in Mine(k) : pc[c] = "sent" /\ made(c) # {}}
           lost == {c \in Mine(k) : pc[c] = "held" /\ node[c] \notin new}
           unwanted == {z \in new :
                          /\ ClientOf(z.c) = k
                          /\ [c |-> z.c, n |-> z.n, step |-> "answer"] \in looks}
       IN /\ view' = [view EXCEPT ![k] = new]
          /\ lag' = [lag EXCEPT ![k] = Tail(@)]
          /\ pc' = [c \in Contenders |-> CASE c \in answered -> "here"
                                           [] c \in lost -> "out"
                                           [] OTHER -> pc[c]]
          /\ node' = [c \in Contenders |->
                        CASE c \in answered -> CHOOSE z \in made(c) : TRUE
                          [] c \in lost -> None
                          [] OTHER -> node[c]]
          /\ rounds' = [c \in Contenders |->
                          IF c \in lost THEN rounds[c] - 1 ELSE rounds[c]]
          /\ gone' = [c \in Contenders |->
                        IF c \in Mine(k) /\ pc[c] = "wait"
                        THEN gone[c] \cup
                             ((Range(watch[c]) \cap view[k]) \ new)
                        ELSE gone[c]]
          \* A pending delete ends with the answer that the znode is gone.
          /\ pending' = {z \in pending \cup unwanted :
                           ClientOf(z.c) = k => z \in new}
          /\ looks' = {job \in looks : ~ \E z \in unwanted :
                         Is(z, job.c, job.n)}
    /\ UNCHANGED <<servers, session, dead, front, serial, watch, next,
                   outlived, faults, token>>

\* The client learns that its session is over, and begins another one.
Notice(k) ==
    /\ over[k] /\ ~dead[k]
    /\ over' = [over EXCEPT ![k] = FALSE]
    /\ session' = [session EXCEPT ![k] = @ + 1]
    /\ LET again == {c \in Mine(k) : pc[c] \in Queued}
       IN /\ pc' = [c \in Contenders |-> IF c \in again THEN "join" ELSE pc[c]]
          /\ node' = [c \in Contenders |-> IF c \in again THEN None ELSE node[c]]
          /\ watch' = [c \in Contenders |-> IF c \in again THEN <<>> ELSE watch[c]]
          /\ next' = [c \in Contenders |-> IF c \in again THEN FALSE ELSE next[c]]
          /\ gone' = [c \in Contenders |-> IF c \in again THEN {} ELSE gone[c]]
          /\ outlived' = [c \in Contenders |->
                            IF c \in again THEN {} ELSE outlived[c]]
    /\ pending' = {z \in pending : ClientOf(z.c) # k}
    /\ looks' = {job \in looks : ClientOf(job.c) # k}
    /\ requests' = {r \in requests : ClientOf(r.c) # k}
    /\ UNCHANGED <<tree, number, zxid, view, lag, dead, front, serial, rounds,
                   faults, token>>

-----------------------------------------------------------------------------
(* Joining. *)

Join(c) ==
    /\ pc[c] = "join"
    /\ serial' = [serial EXCEPT ![c] = @ + 1]
    /\ requests' = requests \cup
         {[c |-> c, n |-> serial[c] + 1, s |-> session[ClientOf(c)]]}
    /\ pc' = [pc EXCEPT ![c] = "sent"]
    /\ UNCHANGED <<tree, number, zxid, over, view, lag, session, dead, pending,
                   looks, front, node, watch, next, gone, outlived, rounds,
                   faults, token>>

\* A write of our own session makes the server catch up, and shows that the
\* session lives.
CaughtUp(k) == lag[k] = <<>> /\ ~over[k] /\ ~dead[k]

\* A lost create is looked for before another one is sent.
Resolve(c) ==
    LET k == ClientOf(c)
        found == {z \in view[k] : Is(z, c, serial[c]) /\ ~Claimed(z)}
    IN /\ pc[c] = "lost"
       /\ CaughtUp(k)
       /\ IF found # {}
          THEN /\ pc' = [pc EXCEPT ![c] = "here"]
               /\ node' = [node EXCEPT ![c] = CHOOSE z \in found : TRUE]
               /\ UNCHANGED looks
          ELSE /\ pc' = [pc EXCEPT ![c] = "join"]
               /\ looks' = looks \cup
                    {[c |-> c, n |-> serial[c], step |-> "second"]}
               /\ UNCHANGED node
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, front,
                      serial, watch, next, gone, outlived, rounds, faults,
                      token>>

\* A create that nobody wants: the second look comes a session timeout later.
Look == \E job \in looks :
    LET k == ClientOf(job.c)
        found == {z \in view[k] : Is(z, job.c, job.n)}
        onItsWay == \E r \in requests : r.c = job.c /\ r.n = job.n
    IN /\ job.step \in {"first", "second"}
       /\ CaughtUp(k)
       /\ (job.step = "second" /\ ~Late) => ~onItsWay
       /\ pending' = pending \cup found
       /\ looks' = (looks \ {job}) \cup
            IF job.step = "first" /\ found = {}
            THEN {[job EXCEPT !.step = "second"]} ELSE {}
       /\ UNCHANGED <<servers, view, lag, session, dead, front, contender,
                      faults, token>>

-----------------------------------------------------------------------------
(* Waiting. *)

\* Another contender of this client is just before: no listing.
BehindOurs(c) ==
    LET k == ClientOf(c)
    IN /\ pc[c] = "here" /\ N = 1
       /\ \E z \in pending \cup {node[d] : d \in Contenders} :
            /\ z # None /\ z # node[c]
            /\ ClientOf(z.c) = k /\ z.q + 1 = node[c].q
            /\ watch' = [watch EXCEPT ![c] = <<z>>]
       /\ next' = [next EXCEPT ![c] = FALSE]
       /\ pc' = [pc EXCEPT ![c] = "arm"]
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, looks, front,
                      node, serial, gone, outlived, rounds, faults, token>>

\* Of interest to the client's other contenders.
NoteFront(k, z) ==
    front' = IF k = Home /\ N = 1 THEN [front EXCEPT ![k] = z] ELSE front

\* The znodes before z, the nearest first, `most` of them.
Nearest(z, queue, most) ==
    LET before == {y \in queue : y.q < z.q}
        F[i \in 0 .. most] ==
            IF i = 0 THEN <<>>
            ELSE LET left == before \ Range(F[i - 1])
                 IN IF left = {} THEN F[i - 1]
                    ELSE Append(F[i - 1], CHOOSE y \in left :
                                            \A x \in left : x.q <= y.q)
    IN F[most]

List(c) ==
    LET k == ClientOf(c)
        z == node[c]
        rank == Cardinality({y \in view[k] : y.q < z.q})
        near == Nearest(z, view[k], IF N = 1 THEN 2 ELSE N)
    IN /\ pc[c] = "here"
       /\ IF z \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED front
          ELSE /\ IF rank < N
                  THEN /\ pc' = [pc EXCEPT ![c] = "front"]
                       /\ NoteFront(k, z)
                       /\ UNCHANGED <<watch, next>>
                  ELSE /\ pc' = [pc EXCEPT ![c] = "arm"]
                       /\ watch' = [watch EXCEPT ![c] =
                            IF N = 1 /\ ClientOf(near[1].c) = k
                               /\ Claimed(near[1])
                            THEN <<near[1]>> ELSE near]
                       /\ next' = [next EXCEPT ![c] = N = 1 /\ rank = 1]
                       /\ UNCHANGED front
               /\ UNCHANGED <<node, gone, outlived>>
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, looks,
                      serial, rounds, faults, token>>

\* One request watches them all, and reports what has gone before it came.
Arm(c) ==
    LET k == ClientOf(c)
        names == Range(watch[c])
        orphans == {z \in names \cap view[k] :
                      /\ ClientOf(z.c) = k /\ z.s = session[k]
                      /\ ~Claimed(z) /\ ~Expected(z)}
    IN /\ pc[c] = "arm"
       /\ IF node[c] \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED pending
          ELSE /\ pc' = [pc EXCEPT ![c] = "wait"]
               /\ gone' = [gone EXCEPT ![c] = names \ view[k]]
               /\ outlived' = [outlived EXCEPT ![c] =
                    {z \in names : /\ ClientOf(z.c) = k
                                   /\ z \in view[k] \/ z \in @}]
               /\ pending' = pending \cup orphans
               /\ UNCHANGED <<node, watch, next>>
       /\ UNCHANGED <<servers, view, lag, session, dead, looks, front, serial,
                      rounds, faults, token>>

Wake(c) ==
    LET k == ClientOf(c)
        wasFirst(z) == N = 1 /\ front[k] = z /\ z \in outlived[c]
    IN /\ pc[c] = "wait"
       /\ \/ /\ node[c] \notin view[k]
             /\ StartAgain(c) /\ UNCHANGED front
          \/ /\ node[c] \in view[k] /\ gone[c] # {}
             /\ IF /\ watch[c][1] \in gone[c]
                   /\ next[c] \/ wasFirst(watch[c][1])
                THEN /\ pc' = [pc EXCEPT ![c] = "front"]
                     /\ NoteFront(k, node[c])
                ELSE /\ pc' = [pc EXCEPT ![c] = "here"]
                     /\ UNCHANGED front
             /\ UNCHANGED <<node, watch, next, gone, outlived>>
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, looks,
                      serial, rounds, faults, token>>

-----------------------------------------------------------------------------
(* Holding and leaving. *)

\* In front, and the session is proven to live.
Enter(c) ==
    LET k == ClientOf(c)
    IN /\ pc[c] = "front"
       /\ IF node[c] \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED token
          ELSE /\ ~over[k]
               /\ pc' = [pc EXCEPT ![c] = "held"]
               \* If an operator has ended the hold by now, the token is an old
               \* one, and what is protected by tokens refuses it.
               /\ token' = IF node[c] \in tree THEN node[c].t ELSE token
               /\ watch' = [watch EXCEPT ![c] = <<>>]
               /\ next' = [next EXCEPT ![c] = FALSE]
               /\ gone' = [gone EXCEPT ![c] = {}]
               /\ outlived' = [outlived EXCEPT ![c] = {}]
               /\ UNCHANGED node
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, looks, front,
                      serial, rounds, faults>>

Leave(c) ==
    LET k == ClientOf(c)
    IN /\ pc' = [pc EXCEPT ![c] = IF rounds[c] > 1 THEN "join" ELSE "out"]
       /\ rounds' = [rounds EXCEPT ![c] = @ - 1]
       /\ node' = [node EXCEPT ![c] = None]
       /\ watch' = [watch EXCEPT ![c] = <<>>]
       /\ next' = [next EXCEPT ![c] = FALSE]
       /\ gone' = [gone EXCEPT ![c] = {}]
       /\ outlived' = [outlived EXCEPT ![c] = {}]
       /\ pending' = pending \cup ({node[c]} \cap view[k])
       /\ looks' = looks \cup
            CASE pc[c] = "sent" ->
                   {[c |-> c, n |-> serial[c], step |-> "answer"]}
              [] pc[c] = "lost" ->
                   {[c |-> c, n |-> serial[c], step |-> "first"]}
              [] OTHER -> {}
       /\ UNCHANGED <<servers, view, lag, session, dead, front, serial,
                      faults, token>>

Release(c) == pc[c] = "held" /\ Leave(c)
GiveUp(c) == pc[c] \in Queued \ {"join"} /\ Leave(c)

-----------------------------------------------------------------------------
(* Faults. *)

Fault(kind) == faults > 0 /\ kind \in Kinds /\ faults' = faults - 1

\* A connection is lost, or servers skip a request on it.  Requests in flight
\* may have been applied, and may be applied later.
Cut(k) ==
    /\ Fault("cut") /\ ~dead[k]
    /\ pc' = [c \in Contenders |->
                CASE c \in Mine(k) /\ pc[c] = "sent" -> "lost"
                  [] c \in Mine(k) /\ pc[c] \in {"arm", "wait"} -> "here"
                  [] OTHER -> pc[c]]
    /\ LET waiting == {c \in Mine(k) : pc[c] \in {"here", "arm", "wait"}}
       IN /\ watch' = [c \in Contenders |-> IF c \in waiting THEN <<>> ELSE watch[c]]
          /\ next' = [c \in Contenders |-> IF c \in waiting THEN FALSE ELSE next[c]]
          /\ gone' = [c \in Contenders |-> IF c \in waiting THEN {} ELSE gone[c]]
          /\ outlived' = [c \in Contenders |->
                            IF c \in waiting THEN {} ELSE outlived[c]]
    /\ looks' = {IF ClientOf(job.c) = k /\ job.step = "answer"
                 THEN [job EXCEPT !.step = "first"] ELSE job : job \in looks}
    /\ UNCHANGED <<servers, view, lag, session, dead, pending, front, node,
                   serial, rounds, token>>

\* No body runs under an expired session: lease.tla.
End(k) ==
    /\ ~over[k]
    /\ \A c \in Mine(k) : pc[c] # "held"
    /\ over' = [over EXCEPT ![k] = TRUE]
    /\ Commit({z \in tree : ClientOf(z.c) # k})
    /\ UNCHANGED <<number, zxid, requests, session, dead, pending, looks,
                   front, contender, token>>

Expire(k) == Fault("expire") /\ ~dead[k] /\ End(k)
ExpireDead(k) == dead[k] /\ End(k) /\ UNCHANGED faults

Kill(k) ==
    /\ Fault("kill") /\ ~dead[k]
    /\ dead' = [dead EXCEPT ![k] = TRUE]
    /\ pc' = [c \in Contenders |-> IF c \in Mine(k) THEN "dead" ELSE pc[c]]
    /\ node' = [c \in Contenders |-> IF c \in Mine(k) THEN None ELSE node[c]]
    /\ watch' = [c \in Contenders |-> IF c \in Mine(k) THEN <<>> ELSE watch[c]]
    /\ next' = [c \in Contenders |-> IF c \in Mine(k) THEN FALSE ELSE next[c]]
    /\ gone' = [c \in Contenders |-> IF c \in Mine(k) THEN {} ELSE gone[c]]
    /\ outlived' = [c \in Contenders |-> IF c \in Mine(k) THEN {} ELSE outlived[c]]
    /\ pending' = {z \in pending : ClientOf(z.c) # k}
    /\ looks' = {job \in looks : ClientOf(job.c) # k}
    /\ UNCHANGED <<servers, view, lag, session, front, serial, rounds, token>>

OperatorDeletes ==
    /\ Fault("delete")
    /\ \E z \in tree : Commit(tree \ {z})
    /\ UNCHANGED <<number, zxid, over, requests, session, dead, pending,
                   looks, front, contender, token>>

\* The path is deleted with all that is in it.  Numbers start again.
Wipe ==
    /\ Fault("wipe") /\ number > 0
    /\ Commit({}) /\ number' = 0
    /\ UNCHANGED <<zxid, over, requests, session, dead, pending, looks,
                   front, contender, token>>

-----------------------------------------------------------------------------
Progress ==
    \/ Create \/ Drop \/ Delete \/ Look
    \/ \E k \in Clients : Deliver(k) \/ Notice(k) \/ ExpireDead(k)
    \/ \E c \in Contenders :
         \/ Join(c) \/ Resolve(c) \/ BehindOurs(c) \/ List(c) \/ Arm(c)
         \/ Wake(c) \/ Enter(c) \/ Release(c)

Next ==
    \/ Progress
    \/ \E c \in Contenders : GiveUp(c)
    \/ \E k \in Clients : Cut(k) \/ Expire(k) \/ Kill(k)
    \/ OperatorDeletes \/ Wipe

Spec == Init /\ [][Next]_vars
\* Fairness: as long as servers, packets, clients or holders can go on, one of
\* them does.  That is weaker than fairness for each of them, so it asks for
\* more: they must not be able to go round in circles.  Nobody has to give up,
\* no fault has to happen, and there are at most `Faults` of them.
FairSpec == Spec /\ WF_vars(Progress)

-----------------------------------------------------------------------------
(* PROPERTIES. *)

\* Its znode is there, or it has not heard yet that an operator deleted it.
Holders == {c \in Contenders : pc[c] = "held"}

\* Safety.  A hold that an operator has ended counts until then.
AtMostN == Cardinality({c \in Holders : node[c] \in tree}) <= N

\* A holder knows nothing against its hold.
HoldersHold == \A c \in Holders : node[c] \in view[ClientOf(c)]

\* Nobody waits for a znode of an ended session: servers delete those.
NoDeadOwners == \A z \in tree : Lives(z)

\* Every znode has an owner that uses it, or is about to delete it.  If
\* requests may be applied at any time later, this does not hold.
NothingForgotten ==
    \A z \in tree :
        \/ Late \/ dead[ClientOf(z.c)]
        \/ Claimed(z) \/ Expected(z) \/ LookedFor(z)

\* Whatever happens, a client does not wait for a znode that it forgot.
NotForItself ==
    \A c \in Contenders : \A z \in Range(watch[c]) :
        (pc[c] = "wait" /\ z \in tree /\ ClientOf(z.c) = ClientOf(c))
        => Claimed(z) \/ Expected(z) \/ LookedFor(z)

\* A waiter waits for something that is there, or will be reported as gone.
NoLostWakeUp ==
    \A c \in Contenders :
        (pc[c] = "wait" /\ gone[c] = {} /\ node[c] \in view[ClientOf(c)])
        => /\ watch[c] # <<>>
           /\ Range(watch[c]) \subseteq view[ClientOf(c)]

\* With one place: fencing tokens rise with the order of holds.
TokensRise == [][N = 1 => token' > token]_token

\* Every waiter that stays gets its turn once the faults have ended.
EveryoneServed ==
    \A c \in Contenders :
        (pc[c] \in Queued) ~> (pc[c] \notin Queued)

\* All that clients have to clean up is cleaned up.
AllCleanedUp == <>[](pending = {} /\ looks = {})
=============================================================================
