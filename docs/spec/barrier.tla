------------------------------ MODULE barrier ------------------------------
(***************************************************************************)
(* The rounds of DoubleBarrier: in together, out together.                 *)
(*                                                                         *)
(* WHAT IT MODELS.  Members, each with a client of its own, enter a double *)
(* barrier, run their bodies, and leave.  A member has an ephemeral znode. *)
(* The one that sees `Count` members creates the znode `ready`, which lets *)
(* all of them in; a round lasts from there until `ready` is removed.  A   *)
(* member that comes during a round joins it.  Leaving waits until all     *)
(* have left.  A member may give up, its body may fail, its requests may   *)
(* be lost, its session may expire, its process may be killed.             *)
(*                                                                         *)
(* SERVERS. `tree` is what the quorum has committed: the members' znodes,  *)
(* `ready` with its czxid, and the version of the path, which counts how   *)
(* often `ready` was removed, or kept. Each member sees the committed      *)
(* states in order, with any delay (`lag`), and reads what it sees. Its    *)
(* requests take any time. What was in flight on a lost connection         *)
(* (`stale`) is applied later or never; not after a later write of its     *)
(* session, and not after its end.                                         *)
(*                                                                         *)
(* THE CODE behind each action (aiolead/_recipes/barriers.py):             *)
(*                                                                         *)
(*   Join, ReadReady,     BarrierMembership.get,                           *)
(*   CountMembers           _join, _members; SendReady: _decide            *)
(*   LookAtOthers         ._is_under_way                                   *)
(*   AskToKeep, Keep      keep_ready: a read, a write of the               *)
(*                          path, and a read of `ready`                    *)
(*   Withdraw             ._is_under_way, when keep_ready has returned     *)
(*   WakeUp               the watches of .get and .others_left, and        *)
(*                          ._has_to_stay_away                             *)
(*   GiveUp, BodyFails    .discard, .left_early                            *)
(*   EndBody              _BarrierContext.__aexit__                        *)
(*   OwnGone              ._own_left                                       *)
(*   ReadAgain, ListAgain ._is_over                                        *)
(*   Check, Remove        remove_ready: three reads, and a                 *)
(*                          transaction                                    *)
(*   TidyRead, TidyList   tidy                                             *)
(*   Create, Delete, what happens in Ready and Remove, Late: the servers   *)
(*                                                                         *)
(* ASSUMED.  The lease (lease.tla): a session does not expire while a body *)
(* runs under it.                                                          *)
(*                                                                         *)
(* LEFT OUT.  Children that are no members, whose names or owners tell     *)
(* (CountMembers reads both: a request `ready` may take any time, so the   *)
(* reads of owners in between add no behaviour);                           *)
(* lost creates of members (the mechanism is that of queue.tla);           *)
(* operators; a refused delete; a path that may not be written; a member   *)
(* that comes again while its clean-up still runs; a delete that is        *)
(* repeated, after a lost connection, behind a later create.  The bounds:  *)
(* three members, each once or twice inside, at most `Faults` faults.      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Members,
    None,           \* no `ready`, no znode, no request
    Count,          \* how many make a round
    Again,          \* those that enter twice
    Faults,         \* how many faults a run may have
    Kinds,          \* of faults: "cut", "expire", "kill"; counted as faults,
                    \* although they are none: "fail" (a body), "give up"
    MaxLag          \* by how many changes a member's server may lag

Symmetry == Permutations(Again) \cup Permutations(Members \ Again)

VARIABLES
    \* The servers.
    tree,       \* the members' znodes, `ready`, and the path's version
    zxid,       \* how many znodes have been created
    over,       \* [member]: the servers have ended its session
    stale,      \* requests on their way over lost connections
    view, lag,  \* [member]: what it sees, and what has not reached it
    \* Each member.
    pc, node, round, times,
    request,    \* the write that it waits for
    pending,    \* znodes whose delete is pending: repeated until they are gone
    saw,        \* `ready`, as it has read it
    watch,      \* the znodes that it looks at, or whose deletion wakes it;
                \* of one that has withdrawn: the older ones it did it for
    then,       \* where it goes on when `ready` is removed
    \* The model.
    left,       \* rounds that a member has left, after its body
    enough,     \* there were `Count` members since the barrier was empty
    counted,    \* the znodes that were counted for the latest round
    withdrawn,  \* those of members that have withdrawn, to come again
    faults

vars == <<tree, zxid, over, stale, view, lag, pc, node, round, times, request,
          pending, saw, watch, then, left, enough, counted, withdrawn, faults>>

\* Only Ready, Late and Withdraw change these.
history == <<counted, withdrawn>>

Empty == [members |-> {}, ready |-> None, version |-> 0]

Init ==
    /\ tree = Empty /\ zxid = 0 /\ stale = {}
    /\ over = [m \in Members |-> FALSE]
    /\ view = [m \in Members |-> Empty] /\ lag = [m \in Members |-> <<>>]
    /\ pc = [m \in Members |-> "join"]
    /\ node = [m \in Members |-> None]
    /\ round = [m \in Members |-> 0]
    /\ times = [m \in Members |-> IF m \in Again THEN 2 ELSE 1]
    /\ request = [m \in Members |-> None]
    /\ pending = {}
    /\ saw = [m \in Members |-> None]
    /\ watch = [m \in Members |-> {}]
    /\ then = [m \in Members |-> "none"]
    /\ left = {} /\ enough = FALSE /\ counted = {} /\ withdrawn = {}
    /\ faults = Faults

\* Where a member can be.
Entering == {"join", "sent", "seen", "count", "decide", "others", "asleep",
             "keep", "kept", "aside"}
Leaving == {"leaving", "again", "list", "await", "left"}
Tidying == {"tidying", "tidy", "tidy list"}
Removing == {"check", "remove"}     \* in all three; see `then`
Ended == {"out", "dead"}

-----------------------------------------------------------------------------
\* A member without a znode sees everything at once: it makes no difference,
\* and spares TLC states.
Follows(m) == pc[m] \in {"join", "out", "dead"}

\* `readers` are those that see it at once, too.
CommitSeen(new, readers) ==
    LET follows(m) == Follows(m) \/ m \in readers
    IN /\ \A m \in Members : Len(lag[m]) < MaxLag \/ follows(m)
       /\ tree' = new
       /\ view' = [m \in Members |-> IF follows(m) THEN new ELSE view[m]]
       /\ lag' = [m \in Members |-> CASE follows(m) -> <<>>
                                      [] new = tree -> lag[m]
                                      [] OTHER -> Append(lag[m], new)]
       /\ enough' = /\ new.members # {}
                    /\ enough \/ Cardinality(new.members) >= Count
Commit(new) == CommitSeen(new, {})

SameTree == UNCHANGED <<tree, view, lag, enough>>

Goes(m, state) == pc' = [pc EXCEPT ![m] = state]

\* A later write of a session overtakes what it has on its way elsewhere
\* (SessionMovedException).
Written(m) ==
    /\ ~over[m]
    /\ stale' = {r \in stale : r.m # m}

Applied(m) == request' = [request EXCEPT ![m] = None]

\* A refusal is answered behind everything that was committed before it.
Refused(m) == SameTree /\ lag[m] = <<>>

-----------------------------------------------------------------------------
(* Entering. *)

Join(m) ==
    /\ pc[m] = "join"
    /\ Goes(m, "sent")
    /\ request' = [request EXCEPT ![m] = [m |-> m, kind |-> "create", n |-> 0,
                                      counts |-> {}]]
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round, times,
                   pending, saw, watch, then, left, enough, history, faults>>

\* If the member has withdrawn, the delete was sent before.
Create(m) ==
    /\ request[m] # None /\ request[m].kind = "create"
    /\ Written(m)
    /\ \A z \in pending : z.m = m => z \notin tree.members
    /\ LET z == [m |-> m, t |-> zxid + 1]
       IN /\ Commit([tree EXCEPT !.members = @ \cup {z}])
          /\ node' = [node EXCEPT ![m] = z]
    /\ zxid' = zxid + 1
    /\ request' = [request EXCEPT ![m] = None]
    /\ UNCHANGED <<over, pc, round, times, pending, saw, watch, then, left,
                   history, faults>>

Deliver(m) ==
    /\ lag[m] # <<>>
    /\ LET new == Head(lag[m])
           made == pc[m] = "sent" /\ node[m] \in new.members
           let == /\ pc[m] = "decide" /\ request[m] = None
                  /\ new.ready # None /\ new.ready.m = m
                  /\ new.ready.t > node[m].t
       IN /\ view' = [view EXCEPT ![m] = new]
          /\ lag' = [lag EXCEPT ![m] = Tail(@)]
          /\ pc' = [pc EXCEPT ![m] = CASE made -> "seen"
                                       [] let -> "inside"
                                       [] OTHER -> @]
          /\ round' = IF let THEN [round EXCEPT ![m] = new.ready.t] ELSE round
          /\ pending' = {z \in pending : z.m = m => z \in new.members}
    /\ UNCHANGED <<tree, zxid, over, stale, node, times, request, saw,
                   watch, then, left, enough, history, faults>>

\* A waiting member is inside once `ready` is younger than its own znode.
ReadReady(m) ==
    LET ready == view[m].ready
        isIn == ready # None /\ ready.t > node[m].t
    IN /\ pc[m] = "seen" /\ ~over[m]
       /\ saw' = [saw EXCEPT ![m] = IF isIn THEN None ELSE ready]
       /\ round' = IF isIn THEN [round EXCEPT ![m] = ready.t] ELSE round
       /\ Goes(m, IF isIn THEN "inside" ELSE "count")
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, times,
                      request, pending, watch, then, left, enough, history,
                      faults>>

CountMembers(m) ==
    LET others == view[m].members \ {node[m]}
    IN /\ pc[m] = "count"
       /\ CASE saw[m] = None /\ Cardinality(others) + 1 >= Count ->
                 /\ Goes(m, "decide")
                 /\ request' = [request EXCEPT ![m] =
                                  [m |-> m, kind |-> "ready", n |-> 0,
                                   counts |-> view[m].members]]
                 /\ UNCHANGED <<watch, then>>
            [] saw[m] = None /\ Cardinality(others) + 1 < Count ->
                 /\ Goes(m, "asleep") /\ UNCHANGED <<request, watch, then>>
            [] saw[m] # None /\ others = {} ->
                 /\ Goes(m, "check")
                 /\ then' = [then EXCEPT ![m] = "seen"]
                 /\ UNCHANGED <<request, watch>>
            [] saw[m] # None /\ others # {} ->
                 /\ Goes(m, "others")
                 /\ watch' = [watch EXCEPT ![m] = others]
                 /\ UNCHANGED <<request, then>>
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round,
                      times, pending, saw, left, enough, history, faults>>

\* `ready` is older than this member.  It joins the round if another member is
\* older than `ready`, and so still inside.  If there is none, the round is
\* over: the oldest member stays, until it is alone and removes `ready`; the
\* younger ones withdraw.
LookAtOthers(m) ==
    LET there == watch[m] \cap view[m].members
        older == {z \in there : z.t < node[m].t}
        isIn == \E z \in there : z.t < saw[m].t
        isYounger == ~isIn /\ older # {}
    IN /\ pc[m] = "others" /\ ~over[m]
       /\ Goes(m, CASE isIn -> "inside"
                    [] isYounger -> "keep"
                    [] OTHER -> "asleep")
       /\ round' = IF isIn THEN [round EXCEPT ![m] = saw[m].t] ELSE round
       /\ watch' = CASE isIn -> [watch EXCEPT ![m] = {}]
                     [] isYounger -> [watch EXCEPT ![m] = older]
                     [] OTHER -> watch
       /\ saw' = IF isIn THEN [saw EXCEPT ![m] = None] ELSE saw
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, times,
                      request, pending, then, left, enough, history, faults>>

-----------------------------------------------------------------------------
(* Withdrawing.  An older member may be about to remove `ready`, and others *)
(* may then begin a round with this znode.  So `ready` is kept first: from  *)
(* then on no removal is applied that has not listed this znode.            *)

AskToKeep(m) ==
    /\ pc[m] = "keep" /\ request[m] = None
    /\ request' = [request EXCEPT ![m] =
                      [m |-> m, kind |-> "keep", n |-> view[m].version,
                       counts |-> {}]]
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, pc, node, round,
                   times, pending, saw, watch, then, left, enough, history,
                   faults>>

\* A write of the path at the version that was read.
Keeps(n) == tree.version = n
Kept == [tree EXCEPT !.version = @ + 1]

\* The read of `ready` is behind the answer, so it sees the write.
Keep(m) ==
    /\ request[m] # None /\ request[m].kind = "keep"
    /\ Written(m) /\ Applied(m)
    /\ IF Keeps(request[m].n)
       THEN /\ CommitSeen(Kept, {m}) /\ Goes(m, "kept")
            /\ pending' = {z \in pending : z.m = m => z \in tree.members}
            /\ UNCHANGED <<saw, watch>>
       ELSE /\ Refused(m) /\ Goes(m, "seen")
            /\ saw' = [saw EXCEPT ![m] = None]
            /\ watch' = [watch EXCEPT ![m] = {}]
            /\ UNCHANGED pending
    /\ UNCHANGED <<zxid, over, node, round, times, then, left, history,
                   faults>>

\* If it is another `ready` by now, or none, the next round may count on us.
Withdraw(m) ==
    LET isKept == view[m].ready = saw[m]
    IN /\ pc[m] = "kept" /\ ~over[m]
       /\ IF isKept
          THEN /\ Goes(m, "aside")
               /\ pending' = pending \cup {node[m]}
               /\ withdrawn' = withdrawn \cup {node[m]}
               /\ node' = [node EXCEPT ![m] = None]
               /\ UNCHANGED <<saw, watch>>
          ELSE /\ Goes(m, "seen")
               /\ saw' = [saw EXCEPT ![m] = None]
               /\ watch' = [watch EXCEPT ![m] = {}]
               /\ UNCHANGED <<pending, withdrawn, node>>
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, round, times, request,
                      then, left, enough, counted, faults>>

\* The watches on `ready`, and on the members that it has read.  One that has
\* withdrawn comes again if that `ready` or all the older members are gone.
WakeUp(m) ==
    /\ pc[m] \in {"asleep", "aside", "await"}
    /\ \/ view[m].ready # saw[m]
       \/ /\ pc[m] # "aside"
          /\ ~(watch[m] \subseteq view[m].members)
       \/ /\ pc[m] = "aside"
          /\ watch[m] \cap view[m].members = {}
    /\ Goes(m, CASE pc[m] = "asleep" -> "seen"
                 [] pc[m] = "aside" -> "join"
                 [] pc[m] = "await" -> "again")
    /\ saw' = [saw EXCEPT ![m] = None]
    /\ watch' = [watch EXCEPT ![m] = {}]
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round, times,
                   request, pending, then, left, enough, history, faults>>

-----------------------------------------------------------------------------
(* Leaving. *)

Fault(kind) == faults > 0 /\ kind \in Kinds /\ faults' = faults - 1

\* The own delete is queued.  After a good end the member waits for the others;
\* else it leaves at once, and removes `ready` if nobody is left to do it.
Discards(m, next) ==
    /\ Goes(m, next)
    /\ pending' = IF node[m] # None /\ node[m] \in view[m].members
                  THEN pending \cup {node[m]} ELSE pending
    /\ saw' = [saw EXCEPT ![m] = None]
    /\ watch' = [watch EXCEPT ![m] = {}]
    /\ UNCHANGED <<tree, zxid, over, view, lag, node, round, times, then,
                   left, enough, history>>

EndBody(m) == pc[m] = "inside" /\ Discards(m, "leaving")
              /\ UNCHANGED <<request, stale, faults>>
BodyFails(m) == Fault("fail") /\ pc[m] = "inside" /\ Discards(m, "tidying")
                /\ UNCHANGED <<request, stale>>
\* Its request may still be applied.
GiveUp(m) ==
    /\ Fault("give up")
    /\ pc[m] \in {"asleep", "decide", "keep", "aside"}
    /\ Discards(m, "tidying")
    /\ request' = [request EXCEPT ![m] = None]
    /\ stale' = stale \cup ({request[m]} \ {None})

Delete == \E z \in pending :
    /\ z \in tree.members
    /\ Written(z.m)
    /\ Commit([tree EXCEPT !.members = @ \ {z}])
    /\ UNCHANGED <<zxid, over, pc, node, round, times, request, pending,
                   saw, watch, then, left, history, faults>>

\* While its znode is there, a newcomer that sees `ready` joins the round.
OwnGone(m) ==
    /\ pc[m] \in {"leaving", "tidying"}
    /\ node[m] \notin view[m].members
    /\ Goes(m, IF pc[m] = "leaving" THEN "again" ELSE "tidy")
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round, times,
                   request, pending, saw, watch, then, left, enough,
                   history, faults>>

ReadAgain(m) ==
    /\ pc[m] = "again"
    /\ saw' = [saw EXCEPT ![m] = view[m].ready]
    /\ Goes(m, "list")
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round, times,
                   request, pending, watch, then, left, enough, history,
                   faults>>

ListAgain(m) ==
    LET rest == view[m].members
    IN /\ pc[m] = "list"
       /\ CASE saw[m] = None \/ (saw[m] # None /\ saw[m].t # round[m]) ->
                 Goes(m, "left") /\ UNCHANGED <<request, then, watch>>
            [] saw[m] # None /\ saw[m].t = round[m] /\ rest = {} ->
                 /\ Goes(m, "check")
                 /\ then' = [then EXCEPT ![m] = "left"]
                 /\ UNCHANGED <<request, watch>>
            [] saw[m] # None /\ saw[m].t = round[m] /\ rest # {} ->
                 \* The one after it in a circle: any, for this model.
                 /\ Goes(m, "await")
                 /\ \E z \in rest : watch' = [watch EXCEPT ![m] = {z}]
                 /\ UNCHANGED <<request, then>>
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round,
                      times, pending, saw, left, enough, history, faults>>

TidyRead(m) ==
    /\ pc[m] = "tidy"
    /\ saw' = [saw EXCEPT ![m] = view[m].ready]
    /\ Goes(m, "tidy list")
    /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round, times,
                   request, pending, watch, then, left, enough, history,
                   faults>>

Ends(m) ==
    /\ Goes(m, IF times[m] > 1 THEN "join" ELSE "out")
    /\ times' = [times EXCEPT ![m] = @ - 1]
    /\ node' = [node EXCEPT ![m] = None]
    /\ round' = [round EXCEPT ![m] = 0]
    /\ saw' = [saw EXCEPT ![m] = None]
    /\ watch' = [watch EXCEPT ![m] = {}]
    /\ then' = [then EXCEPT ![m] = "none"]
    /\ view' = [view EXCEPT ![m] = tree]
    /\ lag' = [lag EXCEPT ![m] = <<>>]
    /\ UNCHANGED <<tree, zxid, over, pending, enough, history, faults>>

TidyList(m) ==
    /\ pc[m] = "tidy list"
    /\ IF saw[m] # None /\ view[m].members = {}
       THEN /\ Goes(m, "check")
            /\ then' = [then EXCEPT ![m] = "tidied"]
            /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round,
                           times, request, pending, saw, watch, left,
                           enough, history, faults>>
       ELSE Ends(m) /\ UNCHANGED <<request, stale, left>>

HasLeft(m) ==
    /\ pc[m] \in {"left", "tidied"}
    /\ left' = IF pc[m] = "left" THEN left \cup {round[m]} ELSE left
    /\ Ends(m)
    /\ UNCHANGED <<request, stale>>

-----------------------------------------------------------------------------
(* `ready`: the member that sees enough creates it.  It is removed by a     *)
(* transaction that names the version of the path.  Each removal makes a    *)
(* new version, so a request that was meant for one round does nothing in   *)
(* the next.                                                                *)

Ready(m) ==
    /\ request[m] # None /\ request[m].kind = "ready"
    /\ Written(m) /\ Applied(m)
    /\ IF tree.ready = None
       THEN /\ Commit([tree EXCEPT !.ready = [t |-> zxid + 1, m |-> m]])
            /\ zxid' = zxid + 1 /\ counted' = request[m].counts
            /\ UNCHANGED pc
       ELSE Refused(m) /\ Goes(m, "seen") /\ UNCHANGED <<zxid, counted>>
    /\ UNCHANGED <<over, node, round, times, pending, saw, watch, then, left,
                   withdrawn, faults>>

\* The path, `ready` and the members are read in this order.  They are one step
\* here: if the version or `ready` changes in between, nothing is removed.
Check(m) ==
    LET ready == view[m].ready
        isThere == ready # None /\ ready = saw[m]
        isAlone == view[m].members \subseteq {node[m]}
        isOver == isThere /\ isAlone
    IN /\ pc[m] = "check"
       /\ Goes(m, IF isOver THEN "remove" ELSE then[m])
       /\ request' = IF isOver
                     THEN [request EXCEPT ![m] =
                             [m |-> m, kind |-> "remove",
                              n |-> view[m].version, counts |-> {}]]
                     ELSE request
       /\ UNCHANGED <<tree, zxid, over, stale, view, lag, node, round,
                      times, pending, saw, watch, then, left, enough,
                      history, faults>>

\* Whether the transaction that has seen version n of the path is applied.
Removes(n) == tree.ready # None /\ tree.version = n
Removed == Commit([tree EXCEPT !.ready = None, !.version = @ + 1])

Remove(m) ==
    /\ request[m] # None /\ request[m].kind = "remove"
    /\ Written(m) /\ Applied(m)
    /\ IF Removes(request[m].n) THEN Removed ELSE Refused(m)
    /\ Goes(m, then[m])
    /\ UNCHANGED <<zxid, over, node, round, times, pending, saw, watch,
                   then, left, history, faults>>

\* The same, on its way over a lost connection; nobody waits for it.
Late == \E r \in stale :
    /\ ~over[r.m]
    /\ stale' = stale \ {r}
    /\ CASE r.kind = "ready" /\ tree.ready = None ->
              /\ Commit([tree EXCEPT !.ready =
                           [t |-> zxid + 1, m |-> r.m]])
              /\ zxid' = zxid + 1 /\ counted' = r.counts
         [] r.kind = "remove" /\ Removes(r.n) ->
              Removed /\ UNCHANGED <<zxid, counted>>
         [] r.kind = "keep" /\ Keeps(r.n) ->
              Commit(Kept) /\ UNCHANGED <<zxid, counted>>
         [] OTHER -> SameTree /\ UNCHANGED <<zxid, counted>>
    /\ UNCHANGED <<over, pc, node, round, times, request, pending, saw, watch,
                   then, left, withdrawn, faults>>

Drop == \E r \in stale :
    /\ stale' = stale \ {r}
    /\ SameTree
    /\ UNCHANGED <<zxid, over, pc, node, round, times, request, pending,
                   saw, watch, then, left, history, faults>>

-----------------------------------------------------------------------------
(* Faults. *)

\* Where a member goes on when its connection was lost.
Back(m) == CASE pc[m] \in {"decide", "keep"} -> "seen"
             [] pc[m] \in Removing /\ then[m] = "seen" -> "seen"
             [] pc[m] \in Removing /\ then[m] = "left" -> "again"
             [] pc[m] \in Removing /\ then[m] = "tidied" -> "tidy"

Cut(m) ==
    /\ Fault("cut")
    /\ pc[m] \in {"decide", "keep"} \cup Removing
    /\ Goes(m, Back(m))
    /\ stale' = stale \cup ({request[m]} \ {None})
    /\ request' = [request EXCEPT ![m] = None]
    /\ saw' = [saw EXCEPT ![m] = None]
    /\ watch' = [watch EXCEPT ![m] = {}]
    /\ UNCHANGED <<tree, zxid, over, view, lag, node, round, times, pending,
                   then, left, enough, history>>

End(m) ==
    /\ ~over[m] /\ pc[m] # "inside"
    /\ over' = [over EXCEPT ![m] = TRUE]
    /\ Commit([tree EXCEPT !.members = {z \in @ : z.m # m}])
    /\ UNCHANGED <<zxid, stale, pc, node, round, times, request, pending,
                   saw, watch, then, left, history>>

Expire(m) == Fault("expire") /\ pc[m] \notin Ended /\ End(m)
ExpireDead(m) == pc[m] = "dead" /\ End(m) /\ UNCHANGED faults

\* The client learns of it, and has another session.
Notice(m) ==
    /\ over[m] /\ pc[m] # "dead"
    /\ over' = [over EXCEPT ![m] = FALSE]
    /\ stale' = {r \in stale : r.m # m}
    /\ pending' = {z \in pending : z.m # m}
    /\ request' = [request EXCEPT ![m] = None]
    /\ LET enters == pc[m] \in Entering
                     \/ (pc[m] \in Removing /\ then[m] = "seen")
       IN /\ Goes(m, CASE enters -> "join"
                       [] pc[m] = "leaving" -> "again"
                       [] pc[m] = "tidying" -> "tidy"
                       [] pc[m] \in Removing /\ ~enters -> Back(m)
                       [] OTHER -> pc[m])
          /\ node' = IF enters THEN [node EXCEPT ![m] = None] ELSE node
          /\ saw' = IF enters THEN [saw EXCEPT ![m] = None] ELSE saw
          /\ watch' = IF enters THEN [watch EXCEPT ![m] = {}] ELSE watch
    /\ UNCHANGED <<tree, zxid, view, lag, round, times, then, left, enough,
                   history, faults>>

Kill(m) ==
    /\ Fault("kill") /\ pc[m] \notin Ended
    /\ Goes(m, "dead")
    /\ stale' = stale \cup ({request[m]} \ {None})
    /\ request' = [request EXCEPT ![m] = None]
    /\ pending' = {z \in pending : z.m # m}
    /\ node' = [node EXCEPT ![m] = None]
    /\ round' = [round EXCEPT ![m] = 0]
    /\ saw' = [saw EXCEPT ![m] = None]
    /\ watch' = [watch EXCEPT ![m] = {}]
    /\ then' = [then EXCEPT ![m] = "none"]
    /\ UNCHANGED <<tree, zxid, over, view, lag, times, left, enough, history>>

-----------------------------------------------------------------------------
Progress ==
    \/ Delete \/ Late \/ Drop
    \/ \E m \in Members :
         \/ Join(m) \/ Create(m) \/ Deliver(m) \/ ReadReady(m)
         \/ CountMembers(m) \/ LookAtOthers(m) \/ WakeUp(m) \/ EndBody(m)
         \/ AskToKeep(m) \/ Keep(m) \/ Withdraw(m)
         \/ OwnGone(m) \/ ReadAgain(m) \/ ListAgain(m) \/ TidyRead(m)
         \/ TidyList(m) \/ HasLeft(m) \/ Ready(m) \/ Check(m) \/ Remove(m)
         \/ ExpireDead(m) \/ Notice(m)

Next ==
    \/ Progress
    \/ \E m \in Members : BodyFails(m) \/ GiveUp(m)
    \/ \E m \in Members : Cut(m) \/ Expire(m) \/ Kill(m)

Spec == Init /\ [][Next]_vars

\* Fairness: as long as anything can go on, something does.  No fault has to
\* happen, nobody has to give up, and there are at most `Faults` faults.
FairSpec == Spec /\ WF_vars(Progress)

-----------------------------------------------------------------------------
(* PROPERTIES. *)

Inside == {m \in Members : pc[m] = "inside"}

\* Once a member has left, no body of its round runs.
OutTogether == \A m \in Inside : round[m] \notin left

\* Nobody is inside unless enough members were there at one moment.
InTogether == Inside # {} => enough

\* A body runs under a znode of its own.
InsideIsThere == \A m \in Inside : node[m] \in tree.members

\* A round has all the members that were counted for it: none of them has
\* withdrawn, to wait for another round.
AllCounted == counted \cap withdrawn = {}

\* Members that run at the same time are in one round.
OneRound == \A m, o \in Inside : round[m] = round[o]

\* In the end, nobody is on its way out, and too few wait to get in.
Waits == {m \in Members : pc[m] \in Entering \cup Removing}
NobodyStuck ==
    <>[](/\ Cardinality(Waits) < Count
         /\ \A m \in Members : pc[m] \notin Leaving \cup Tidying)
=============================================================================
