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
(* numbers then start again.  A forger, which may create znodes at the     *)
(* path, uses the names of others.  And another process may continue the   *)
(* session of a first one, which may still be alive, hold, and come back.  *)
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
(*   Join                 contender_queue.py  Contender._join              *)
(*   Create, Delete       the servers                                      *)
(*   Deliver              znode.py  Znode._created,                        *)
(*                        _on_event; Ahead.happened;                       *)
(*                        naming.py  PendingDelete._answered               *)
(*   Cut                  hold.py  acquire; the                            *)
(*                        requests in flight have an unknown outcome       *)
(*   Resolve              znode.py  Znode.resolve                          *)
(*   Look                 znode.py  Znode._delete_lost                     *)
(*   BehindOurs           Contender._behind_ours                           *)
(*   List                 Contender._list_queue, and                       *)
(*                        kernel.py  standing                              *)
(*   Arm                  Ahead.read; Contender._seen                      *)
(*   Wake                 Contender.get, _was_first                        *)
(*   Enter                hold.py  _lease_to_begin_with                    *)
(*   Release, GiveUp      znode.py  Znode.discard                          *)
(*   Notice               Contender.restart                                *)
(*   Take                 _client/connect.py  connect(resume=), and a      *)
(*                        client that reconnects                           *)
(*   Settle               a session timeout after a handshake              *)
(*                                                                         *)
(* ASSUMED.  The lease (lease.tla): a session does not expire while a body *)
(* runs under it, and a contender enters only if its session lives.  A     *)
(* process that has lost its session's connection to another process holds *)
(* no longer than its lease, which counts from a request that it sent      *)
(* before.  Servers refuse it the deletes of znodes that it has not        *)
(* created (SessionMovedError); those of its own may still be applied.     *)
(*                                                                         *)
(* LEFT OUT.  Time (a wait is over some time later, except where Late says *)
(* otherwise); readers and writers (rwlock.tla); ACLs and znodes that may  *)
(* not be read; foreign names and layouts; contenders with different       *)
(* numbers of places; the end of the numbers; ranks that are reported; a   *)
(* session that expires although two processes use it.                     *)
(* The bounds: three contenders, `Rounds` turns each,                      *)
(* at most `Faults` faults in a run.  Errors that need more contenders, or *)
(* more faults together, are left to the simulation.                       *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Contenders,
    Together,       \* those that belong to one client; each other has its own
    Home,           \* that client
    Heirs,          \* those of another process that continues its session
    Heir,           \* that process, a client of its own
    Forger,         \* stands for the owner of a forged znode: see Forge
    None,           \* no znode
    N,              \* places: how many may hold at once
    Rounds,         \* how many turns each contender wants
    Faults,         \* how many faults a run may have
    Kinds,          \* of faults: "cut", "expire", "kill", "delete", "wipe",
                    \* "forge", "unforge" (not counted), "resume"
    MaxLag,         \* by how many changes a client may lag
    Late            \* TRUE: a request of a lost connection may be applied
                    \* even after the second look for it

ASSUME Heirs # {} => "expire" \notin Kinds

\* A client is a process.  Its session is named after the one that created it.
ClientOf(c) == CASE c \in Together -> Home
                 [] c \in Heirs -> Heir
                 [] OTHER -> c
Clients == {ClientOf(c) : c \in Contenders}
SessionOf(k) == IF k = Heir THEN Home ELSE k
Sessions == {SessionOf(k) : k \in Clients}
Symmetry == Permutations(Together) \cup Permutations(Heirs) \cup
            Permutations(Contenders \ (Together \cup Heirs))

VARIABLES
    \* The servers.
    tree,       \* the znodes.  The name has a contender, its serial, a session
                \* and a number (c, n, s, q); servers add czxid and owner (t, o)
    number,     \* the next sequence number of the path
    zxid,       \* how many znodes have been created
    over,       \* [session]: the servers have ended it
    requests,   \* creates on their way
    conn,       \* which of its processes the servers serve in Home's session
    stage,      \* since that one's handshake: "taken"; "seen": it has seen what
                \* had happened by then; "settled": for a session timeout
    evicted,    \* znodes that a client has deleted although a contender has them
    \* Each client.
    view,       \* [client]: the znodes, as far as it has heard
    lag,        \* [client]: the committed states that it has not seen
    session,    \* [session]: counts one after the other
    dead,       \* [client]: killed
    pending,    \* [client]: znodes that it deletes: repeated until they are gone
    looks,      \* lost or unwanted creates that are being looked for
    front,      \* [client]: the last of its znodes known to be first
    \* Each contender.
    pc, node, serial, watch, next, gone, outlived, rounds,
    \* The model.
    faults,     \* how many may still come
    token       \* that of the latest holder

link == <<conn, stage, evicted>>
servers == <<tree, number, zxid, over, requests, link>>
contender == <<pc, node, serial, watch, next, gone, outlived, rounds>>
vars == <<servers, view, lag, session, dead, pending, looks, front,
          contender, faults, token>>

Queued == {"join", "sent", "lost", "here", "arm", "wait", "front"}

Init ==
    /\ tree = {} /\ number = 0 /\ zxid = 0
    /\ over = [k \in Sessions |-> FALSE] /\ requests = {}
    /\ conn = Home /\ stage = "settled" /\ evicted = {}
    /\ view = [k \in Clients |-> {}] /\ lag = [k \in Clients |-> <<>>]
    /\ session = [k \in Sessions |-> 1] /\ dead = [k \in Clients |-> FALSE]
    /\ pending = [k \in Clients |-> {}] /\ looks = {}
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
Shares(k) == SessionOf(k) = Home /\ Heirs # {}  \* two processes use its session
Has(k) == Shares(k) => conn = k                 \* and the servers serve this one

\* The name of a znode is that of a create.  A forger may use it, too.
Is(z, c, n) == z.c = c /\ z.n = n
\* Nobody can create in a session of others.
IsOwnedBy(z, k) == z.o = SessionOf(k)
\* The proof that a znode is from a create: its name, and its owner.
IsProven(z, c, n) == Is(z, c, n) /\ IsOwnedBy(z, ClientOf(c))
\* A server's answer to the create says which one it is.
IsAnswer(z, c, n) == Is(z, c, n) /\ z.o # Forger

\* Recorded in the client's registry (NodeRegistry.is_claimed).
Claimed(k, z) == z \in pending[k] \/ \E c \in Mine(k) : node[c] = z
\* The client may still find it after a lost create (NodeRegistry.is_wanted).
Expected(z) == pc[z.c] \in {"sent", "lost"} /\ serial[z.c] = z.n
\* A job of the client looks for it.
LookedFor(z) == \E job \in looks : Is(z, job.c, job.n)
Lives(z) == LET s == SessionOf(ClientOf(z.c)) IN session[s] = z.s /\ ~over[s]

\* What a client sees makes a difference only while its session has a znode.
\* The view of the others follows at once: that spares TLC most of the states.
HasZnode(k, znodes) ==
    \E z \in znodes : SessionOf(ClientOf(z.c)) = SessionOf(k) /\ z.o # Forger
Follows(k, new) == dead[k] \/ ~HasZnode(k, tree \cup view[k] \cup new)

\* A process that the servers do not serve sees nothing.
Commit(new) ==
    /\ \A k \in Clients : Len(lag[k]) < MaxLag \/ Follows(k, new) \/ ~Has(k)
    /\ tree' = new
    /\ view' = [k \in Clients |-> IF Follows(k, new) THEN new ELSE view[k]]
    /\ lag' = [k \in Clients |-> CASE Follows(k, new) -> <<>>
                                   [] new = tree \/ ~Has(k) -> lag[k]
                                   [] OTHER -> Append(lag[k], new)]

\* Contender c has no znode any more, and joins again.
StartAgain(c) ==
    /\ pc' = [pc EXCEPT ![c] = "join"]
    /\ node' = [node EXCEPT ![c] = None]
    /\ watch' = [watch EXCEPT ![c] = <<>>]
    /\ next' = [next EXCEPT ![c] = FALSE]
    /\ gone' = [gone EXCEPT ![c] = {}]
    /\ outlived' = [outlived EXCEPT ![c] = {}]

\* The watches of these contenders, and the events of those, count no more.
ForgetWatches(those) ==
    /\ watch' = [c \in Contenders |-> IF c \in those THEN <<>> ELSE watch[c]]
    /\ next' = [c \in Contenders |-> IF c \in those THEN FALSE ELSE next[c]]
    /\ gone' = [c \in Contenders |-> IF c \in those THEN {} ELSE gone[c]]
    /\ outlived' = [c \in Contenders |-> IF c \in those THEN {} ELSE outlived[c]]

-----------------------------------------------------------------------------
(* The servers. *)

Create == \E r \in requests :
    LET z == [c |-> r.c, n |-> r.n, s |-> r.s, q |-> number, t |-> zxid + 1,
              o |-> SessionOf(ClientOf(r.c))]
    IN /\ Lives(z)
       /\ Commit(tree \cup {z})
       /\ number' = number + 1 /\ zxid' = zxid + 1
       /\ requests' = requests \ {r}
       /\ UNCHANGED <<over, link, session, dead, pending, looks, front,
                      contender, faults, token>>

\* A request of a lost connection is never applied.
Drop == \E r \in requests :
    /\ ~(pc[r.c] = "sent" /\ serial[r.c] = r.n)
    /\ [c |-> r.c, n |-> r.n, step |-> "answer"] \notin looks
    /\ requests' = requests \ {r}
    /\ UNCHANGED <<tree, number, zxid, over, link, view, lag, session,
                   dead, pending, looks, front, contender, faults, token>>

Delete == \E k \in Clients : \E z \in pending[k] \cap tree :
    /\ Lives(z)
    /\ Has(k) \/ ClientOf(z.c) = k
    /\ Commit(tree \ {z})
    /\ evicted' = {y \in evicted \cup {z} : node[y.c] = y}
    /\ UNCHANGED <<number, zxid, over, requests, conn, stage, session, dead,
                   pending, looks, front, contender, faults, token>>

-----------------------------------------------------------------------------
(* What reaches a client, and what its callbacks do at once. *)

Deliver(k) ==
    /\ lag[k] # <<>> /\ ~dead[k] /\ Has(k)
    /\ LET new == Head(lag[k])
           made(c) == {z \in new : IsAnswer(z, c, serial[c])}
           answered == {c \in Mine(k) : pc[c] = "sent" /\ made(c) # {}}
           lost == {c \in Mine(k) : pc[c] = "held" /\ node[c] \notin new}
           unwanted == {z \in new :
                          /\ ClientOf(z.c) = k /\ z.o # Forger
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
          /\ pending' = [pending EXCEPT ![k] = (@ \cup unwanted) \cap new]
          /\ looks' = {job \in looks : ~ \E z \in unwanted :
                         Is(z, job.c, job.n)}
          /\ stage' = IF Shares(k) /\ stage = "taken" THEN "seen" ELSE stage
    /\ UNCHANGED <<tree, number, zxid, over, requests, conn, evicted, session,
                   dead, front, serial, watch, next, outlived, faults, token>>

\* The client learns that its session is over, and begins another one.
Notice(k) ==
    /\ over[SessionOf(k)] /\ ~dead[k]
    /\ over' = [over EXCEPT ![SessionOf(k)] = FALSE]
    /\ session' = [session EXCEPT ![SessionOf(k)] = @ + 1]
    /\ IF Shares(k) THEN conn' = k /\ stage' = "settled" ELSE UNCHANGED link
    /\ LET again == {c \in Mine(k) : pc[c] \in Queued}
       IN /\ pc' = [c \in Contenders |-> IF c \in again THEN "join" ELSE pc[c]]
          /\ node' = [c \in Contenders |-> IF c \in again THEN None ELSE node[c]]
          /\ ForgetWatches(again)
    /\ pending' = [pending EXCEPT ![k] = {}]
    /\ looks' = {job \in looks : ClientOf(job.c) # k}
    /\ requests' = {r \in requests : ClientOf(r.c) # k}
    /\ UNCHANGED <<tree, number, zxid, evicted, view, lag, dead, front, serial,
                   rounds, faults, token>>

-----------------------------------------------------------------------------
(* Joining. *)

Join(c) ==
    /\ pc[c] = "join" /\ Has(ClientOf(c))
    /\ serial' = [serial EXCEPT ![c] = @ + 1]
    /\ requests' = requests \cup
         {[c |-> c, n |-> serial[c] + 1, s |-> session[SessionOf(ClientOf(c))]]}
    /\ pc' = [pc EXCEPT ![c] = "sent"]
    /\ UNCHANGED <<tree, number, zxid, over, link, view, lag, session,
                   dead, pending, looks, front, node, watch, next, gone,
                   outlived, rounds, faults, token>>

\* A write of our own session makes the server catch up, and shows that the
\* session lives.
CaughtUp(k) == lag[k] = <<>> /\ ~over[SessionOf(k)] /\ ~dead[k] /\ Has(k)

\* A lost create is looked for before another one is sent: among all that have
\* its name, since some may be forged.
Resolve(c) ==
    LET k == ClientOf(c)
        found == {z \in view[k] :
                    IsProven(z, c, serial[c]) /\ ~Claimed(k, z)}
    IN /\ pc[c] = "lost"
       /\ CaughtUp(k)
       /\ IF found # {}
          THEN /\ pc' = [pc EXCEPT ![c] = "here"]
               /\ \E z \in found : node' = [node EXCEPT ![c] = z]
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
        found == {z \in view[k] : IsProven(z, job.c, job.n)}
        onItsWay == \E r \in requests : r.c = job.c /\ r.n = job.n
    IN /\ job.step \in {"first", "second"}
       /\ CaughtUp(k)
       /\ (job.step = "second" /\ ~Late) => ~onItsWay
       /\ pending' = [pending EXCEPT ![k] = @ \cup found]
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
       /\ \E z \in pending[k] \cup {node[d] : d \in Mine(k)} :
            /\ z # None /\ z # node[c]
            /\ z.q + 1 = node[c].q
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
    IN /\ pc[c] = "here" /\ Has(k)
       /\ IF z \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED front
          ELSE /\ IF rank < N
                  THEN /\ pc' = [pc EXCEPT ![c] = "front"]
                       /\ NoteFront(k, z)
                       /\ UNCHANGED <<watch, next>>
                  ELSE /\ pc' = [pc EXCEPT ![c] = "arm"]
                       /\ watch' = [watch EXCEPT ![c] =
                            IF N = 1 /\ Claimed(k, near[1])
                            THEN <<near[1]>> ELSE near]
                       /\ next' = [next EXCEPT ![c] = N = 1 /\ rank = 1]
                       /\ UNCHANGED front
               /\ UNCHANGED <<node, gone, outlived>>
       /\ UNCHANGED <<servers, view, lag, session, dead, pending, looks,
                      serial, rounds, faults, token>>

\* No contender of the client that created it wants it, or looks for it.
IsForgotten(k, z) == ClientOf(z.c) = k /\ ~Claimed(k, z) /\ ~Expected(z)
\* Another process has created it, in our session.  Until its lease has surely
\* ended, it is another contender's: that process may hold.
IsAnothers(k, z) == Shares(k) /\ ClientOf(z.c) # k /\ ~Claimed(k, z)
IsOrphan(k, z) ==
    /\ IsOwnedBy(z, k) /\ z.s = session[SessionOf(k)]
    /\ IsForgotten(k, z) \/ (IsAnothers(k, z) /\ stage = "settled")

\* One request watches them all, and reports what has gone before it came.
Arm(c) ==
    LET k == ClientOf(c)
        names == Range(watch[c])
        orphans == {z \in names \cap view[k] : IsOrphan(k, z)}
    IN /\ pc[c] = "arm" /\ Has(k)
       /\ IF node[c] \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED pending
          ELSE /\ pc' = [pc EXCEPT ![c] = "wait"]
               /\ gone' = [gone EXCEPT ![c] = names \ view[k]]
               /\ outlived' = [outlived EXCEPT ![c] =
                    {z \in names : /\ ClientOf(z.c) = k /\ z.o # Forger
                                   /\ z \in view[k] \/ z \in @}]
               /\ pending' = [pending EXCEPT ![k] = @ \cup orphans]
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

\* A process that the servers do not serve may have a lease from before, until
\* another one has had the session for its timeout.  One that comes back proves
\* its lease by a committed check of its znode.
MayEnter(k) == Shares(k) => IF conn = k THEN stage # "taken" ELSE stage # "settled"

\* In front, and the session is proven to live.
Enter(c) ==
    LET k == ClientOf(c)
    IN /\ pc[c] = "front" /\ MayEnter(k)
       /\ IF node[c] \notin view[k]
          THEN StartAgain(c) /\ UNCHANGED token
          ELSE /\ ~over[SessionOf(k)]
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
       /\ pending' = [pending EXCEPT ![k] = @ \cup ({node[c]} \cap view[k])]
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
Disconnect(k) ==
    /\ pc' = [c \in Contenders |->
                CASE c \in Mine(k) /\ pc[c] = "sent" -> "lost"
                  [] c \in Mine(k) /\ pc[c] \in {"arm", "wait"} -> "here"
                  [] OTHER -> pc[c]]
    /\ LET waiting == {c \in Mine(k) : pc[c] \in {"here", "arm", "wait"}}
       IN ForgetWatches(waiting)
    /\ looks' = {IF ClientOf(job.c) = k /\ job.step = "answer"
                 THEN [job EXCEPT !.step = "first"] ELSE job : job \in looks}

Cut(k) ==
    /\ Fault("cut") /\ ~dead[k] /\ Has(k)
    /\ Disconnect(k)
    /\ UNCHANGED <<servers, view, lag, session, dead, pending, front, node,
                   serial, rounds, token>>

\* Another process continues Home's session, or the first one comes back.  The
\* one that had the connection loses it, and may not know why.
Take(k) ==
    /\ Fault("resume") /\ Shares(k) /\ conn # k /\ ~dead[k] /\ ~over[Home]
    /\ conn' = k
    /\ stage' = IF view[k] = tree THEN "seen" ELSE "taken"
    /\ lag' = [lag EXCEPT ![conn] = <<>>,
                          ![k] = IF view[k] = tree THEN <<>> ELSE <<tree>>]
    /\ Disconnect(conn)
    /\ UNCHANGED <<tree, number, zxid, over, requests, evicted, view, session,
                   dead, pending, front, node, serial, rounds, token>>

\* A process has had the connection for a session timeout, so the lease of any
\* other process has ended.  Its waiters for znodes of the other one look again.
Settle ==
    /\ stage = "seen" /\ ~dead[conn]
    /\ \A c \in Contenders :
          pc[c] = "held" /\ Shares(ClientOf(c)) => ClientOf(c) = conn
    /\ stage' = "settled"
    /\ LET again == {c \in Mine(conn) :
                       pc[c] = "wait" /\ \E z \in Range(watch[c]) : IsAnothers(conn, z)}
       IN /\ pc' = [c \in Contenders |-> IF c \in again THEN "here" ELSE pc[c]]
          /\ ForgetWatches(again)
    /\ UNCHANGED <<tree, number, zxid, over, requests, conn, evicted, view, lag,
                   session, dead, pending, looks, front, node, serial, rounds,
                   faults, token>>

\* No body runs under an expired session: lease.tla.
End(s) ==
    /\ ~over[s]
    /\ \A c \in Contenders : SessionOf(ClientOf(c)) = s => pc[c] # "held"
    /\ over' = [over EXCEPT ![s] = TRUE]
    /\ Commit({z \in tree : z.o # s})
    /\ UNCHANGED <<number, zxid, requests, link, session, dead, pending, looks,
                   front, contender, token>>

Expire(k) == Fault("expire") /\ ~dead[k] /\ End(k)
ExpireDead(k) ==
    /\ dead[k] /\ Has(k)
    /\ End(SessionOf(k))
    /\ UNCHANGED faults

Kill(k) ==
    /\ Fault("kill") /\ ~dead[k]
    /\ dead' = [dead EXCEPT ![k] = TRUE]
    /\ pc' = [c \in Contenders |-> IF c \in Mine(k) THEN "dead" ELSE pc[c]]
    /\ node' = [c \in Contenders |-> IF c \in Mine(k) THEN None ELSE node[c]]
    /\ ForgetWatches(Mine(k))
    /\ pending' = [pending EXCEPT ![k] = {}]
    /\ looks' = {job \in looks : ClientOf(job.c) # k}
    /\ UNCHANGED <<servers, view, lag, session, front, serial, rounds, token>>

OperatorDeletes ==
    /\ Fault("delete")
    /\ \E z \in tree : Commit(tree \ {z})
    /\ UNCHANGED <<number, zxid, over, requests, link, session, dead, pending,
                   looks, front, contender, token>>

\* The path is deleted with all that is in it.  Numbers start again.
Wipe ==
    /\ Fault("wipe") /\ number > 0
    /\ Commit({}) /\ number' = 0
    /\ UNCHANGED <<zxid, over, requests, link, session, dead, pending, looks,
                   front, contender, token>>

\* A name that a client may look for, now or later.
IsSought(c, n) ==
    \/ pc[c] = "join" /\ n = serial[c] + 1
    \/ pc[c] \in {"sent", "lost"} /\ n = serial[c]
    \/ \E job \in looks : job.c = c /\ job.n = n

\* A writer that may create znodes at the path uses such a name; any other name
\* would only be in the way.  Its number is before all others, or the servers'.
\* Its znode is persistent, or of its own session: nobody can create a znode in
\* the session of others.
Forge ==
    /\ Fault("forge")
    /\ \E c \in Contenders, q \in {-1, number} : \E n \in 1 .. serial[c] + 1 :
         /\ IsSought(c, n) /\ \A z \in tree : z.q # q
         /\ Commit(tree \cup
                {[c |-> c, n |-> n, s |-> session[SessionOf(ClientOf(c))], q |-> q,
                  t |-> zxid + 1, o |-> Forger]})
    /\ number' = number + 1 /\ zxid' = zxid + 1
    /\ UNCHANGED <<over, requests, link, session, dead, pending, looks, front,
                   contender, token>>

\* It may delete the znode again.
Unforge ==
    /\ "unforge" \in Kinds
    /\ \E z \in tree : z.o = Forger /\ Commit(tree \ {z})
    /\ UNCHANGED <<number, zxid, over, requests, link, session, dead, pending,
                   looks, front, contender, faults, token>>

-----------------------------------------------------------------------------
\* All but what holders do.
Work ==
    \/ Create \/ Drop \/ Delete \/ Look \/ Settle
    \/ \E k \in Clients : Deliver(k) \/ Notice(k) \/ ExpireDead(k)
    \/ \E c \in Contenders :
         \/ Join(c) \/ Resolve(c) \/ BehindOurs(c) \/ List(c) \/ Arm(c)
         \/ Wake(c) \/ Enter(c)

Progress == Work \/ \E c \in Contenders : Release(c)

Next ==
    \/ Progress
    \/ \E c \in Contenders : GiveUp(c)
    \/ \E k \in Clients : Cut(k) \/ Expire(k) \/ Kill(k) \/ Take(k)
    \/ OperatorDeletes \/ Wipe \/ Forge \/ Unforge

Spec == Init /\ [][Next]_vars
\* Fairness: as long as servers, packets, clients or holders can go on, one of
\* them does.  That is weaker than fairness for each of them, so it asks for
\* more: they must not be able to go round in circles.  Nobody has to give up,
\* no fault has to happen, and there are at most `Faults` of them.
FairSpec == Spec /\ WF_vars(Progress)
\* The same, but holders need not leave.
WorkSpec == Spec /\ WF_vars(Work)

-----------------------------------------------------------------------------
(* PROPERTIES. *)

\* Its znode is there, or it has not heard yet that an operator deleted it.
Holders == {c \in Contenders : pc[c] = "held"}

\* Safety.  A hold that an operator has ended counts until then; but one whose
\* znode a client has deleted counts until it has ended.
AtMostN == Cardinality({c \in Holders : node[c] \in tree \cup evicted}) <= N

\* A holder knows nothing against its hold.
HoldersHold == \A c \in Holders : node[c] \in view[ClientOf(c)]

\* The znode of a contender is in the session of its client.
OwnedByHolder ==
    \A c \in Contenders : node[c] # None => IsOwnedBy(node[c], ClientOf(c))

\* A client deletes nothing but znodes of its session.
DeletesItsOwn == \A k \in Clients : \A z \in pending[k] : IsOwnedBy(z, k)

\* Nobody waits for a znode of an ended session: all that clients create goes
\* with their sessions.
NoDeadOwners == \A z \in tree : z.o = Forger \/ Lives(z)

\* Every znode has an owner that uses it, or is about to delete it.  If
\* requests may be applied at any time later, this does not hold.
NothingForgotten ==
    \A z \in tree :
        \/ Late \/ z.o = Forger \/ dead[ClientOf(z.c)]
        \/ Claimed(ClientOf(z.c), z) \/ Expected(z) \/ LookedFor(z)

\* Whatever happens, a client does not wait for a znode that it forgot, nor for
\* one that another process has left in its session.
NotForItself ==
    \A c \in Contenders : \A z \in Range(watch[c]) :
        LET k == ClientOf(c)
        IN (pc[c] = "wait" /\ z \in tree /\ IsOwnedBy(z, k))
           => \/ Claimed(k, z)
              \/ (ClientOf(z.c) = k /\ (Expected(z) \/ LookedFor(z)))
              \/ (IsAnothers(k, z) /\ stage # "settled")

\* A waiter waits for something that is there, or will be reported as gone.
NoLostWakeUp ==
    \A c \in Contenders :
        (pc[c] = "wait" /\ gone[c] = {} /\ node[c] \in view[ClientOf(c)])
        => /\ watch[c] # <<>>
           /\ Range(watch[c]) \subseteq view[ClientOf(c)]

\* With one place: the fencing token of each hold is greater than the last one.
\* If an operator has ended the hold before it begins, it has none.
Begins(c) == pc[c] # "held" /\ pc'[c] = "held" /\ node[c] \in tree
TokensRise == [][N = 1 => \A c \in Contenders : Begins(c) => token' > token]_vars

\* Every waiter that stays gets its turn once the faults have ended.
EveryoneServed ==
    \A c \in Contenders :
        (pc[c] \in Queued) ~> (pc[c] \notin Queued)

\* The same, if it is only assumed that no holder stays for ever.
ServedIfHoldersLeave ==
    (\A c \in Contenders : []<>(pc[c] # "held")) => EveryoneServed

\* A free place is taken, if anybody wants it, though no other holder leaves.
FreePlaceTaken ==
    (Cardinality(Holders) < N /\ \E c \in Contenders : pc[c] \in Queued)
    ~> (Cardinality(Holders) = N \/ \A c \in Contenders : pc[c] \notin Queued)

\* No wait is endless: not even one for what another process has left behind.
NoEndlessWait == \A c \in Contenders : (pc[c] = "wait") ~> (pc[c] # "wait")

\* All that clients have to clean up is cleaned up.
AllCleanedUp == <>[]((\A k \in Clients : pending[k] = {}) /\ looks = {})
=============================================================================
