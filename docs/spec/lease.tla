-------------------------------- MODULE lease --------------------------------
(***************************************************************************)
(* How a client proves that its session lives, and the hold under that     *)
(* proof: docs/explanation/safety.md as a state machine.                   *)
(*                                                                         *)
(* One session, its client, the server that the client is connected to,    *)
(* and the leader. Servers have no names: only the role of the client's    *)
(* server matters. It may have lost the leader and not noticed: then it is *)
(* "isolated". Or another leader was elected, and it has not noticed that: *)
(* then it is "deposed", the former leader or still its follower. Or it is *)
(* an "observer" that a follower feeds: two connections from the leader.   *)
(* Another                                                                 *)
(* client waits for the role: it holds from the instant at which the       *)
(* leader has ended the session. No real one can be earlier.               *)
(*                                                                         *)
(* Time is in units, by two clocks: the client's and the servers'. All     *)
(* variables are ages and remainders, so behaviours are not bounded in     *)
(* time. Messages may take any time; between two processes they keep their *)
(* order, or are lost with the connection.                                 *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS
    Tau,    \* the session timeout
    Half,   \* half a tick: how often a leader pings its followers
    Wait,   \* half a tick, as the client counts it
    Grace,  \* how long a body may run after its cancellation
    Drift,  \* how far the two clocks may get apart, in any interval
    Margin, \* what the client subtracts for that
    Rule,   \* what counts as a proof: see Proven; the others are planted errors
    Rounds, \* how many waits and confirmed writes prove a request: 2 if observers may be fed by followers
    Places, \* what the client's server may be: a subset of AllPlaces
    Faults  \* which may happen: a subset of AllFaults

AllPlaces == {"leader", "follower", "observer"}
AllFaults == {"isolation", "election", "stop", "move"}

ASSUME /\ Tau > Margin + Grace /\ 2 * Half <= Tau /\ Margin <= 1
       /\ Faults \subseteq AllFaults /\ Places \subseteq AllPlaces /\ Rounds \in 1..2
       /\ Rule \in {"two requests", "one request", "sync at any time", "ping", "event",
                    "itself", "handshake"}

VARIABLES
    \* The leader.
    touchAge,   \* how long ago it last learnt of a touch of the session
    pingAge,    \* how long ago it last pinged
    stopped,    \* whether its process is stopped
    late,       \* after that: "no", "yes", "answered" (one request, before it caught up)
    session,    \* "lives", "ending" (it has decided so), "over" (and has committed it)
    \* The client's server, and the connection between the two.
    place,      \* one of Places; "isolated", "deposed"; "closed": the server has closed the
                \* connection; "none": the client has none
    touched,    \* a follower: whether it has a touch that it has not reported
    down,       \* messages from the leader to the follower
    up,         \* messages from the follower to the leader
    \* An observer that a follower feeds. `touched`, `down` and `up` are that follower's.
    feederAge,  \* how long ago the follower last pinged the observer
    kept,       \* whether the observer has a touch that it has not reported
    fed,        \* messages from the follower to the observer
    asked,      \* messages from the observer to the follower
    \* The client's connection. It has one request at a time.
    request,    \* "none", "handshake", "ping", "write", "sync", "second" (a second write)
    where,      \* "sent", "served" (by the server; or the leader has it), "answered" or "none"
    \* The client's proof: request `a`, and the write `w` sent after its answer.
    aKind,      \* "none", "request", "handshake"
    aSent, aAnswered,   \* ages
    wSent, wAnswered,   \* ages; NA: there is none
    fSent,      \* of two rounds: when the request was sent that the first one has proven; or NA
    fKnown,     \* how long ago it was proven
    left,       \* how long the session is still proven to live
    \* The holder.
    body,       \* "none", "runs", "stops" (it was cancelled)
    spare,      \* how long a cancelled body may still run
    \* The clocks.
    skew        \* how far the client's is ahead

leaderVars == <<touchAge, pingAge, stopped, late, session>>
observerVars == <<feederAge, kept, fed, asked>>
serverVars == <<place, touched, down, up, observerVars>>
requestVars == <<request, where>>
firstVars == <<fSent, fKnown>>
proofVars == <<aKind, aSent, aAnswered, wSent, wAnswered, firstVars>>
bodyVars == <<body, spare>>
vars == <<leaderVars, serverVars, requestVars, proofVars, left, bodyVars, skew>>

NA == 100

Max(x, y) == IF x > y THEN x ELSE y
Min(x, y) == IF x < y THEN x ELSE y

\* Of two pings (or touches), one behind the other, the first one is enough: a touch that comes
\* later makes a session live longer.
Merged(queue, message) ==
    IF queue /= <<>> /\ queue[Len(queue)] = message THEN queue ELSE Append(queue, message)

Without(queue, message) == \A i \in DOMAIN queue : queue[i] /= message

Older(age, most) == IF age >= most THEN age ELSE age + 1

\* The two pings are not synchronised. Only where there is an observer, its follower's age matters.
FeedingBegins(at, age) == IF at = "observer" THEN age \in 0..Half ELSE age = 0

Init ==
    /\ touchAge = 0 /\ pingAge \in 0..Half /\ stopped = FALSE /\ late = "no"
    /\ session = "lives"
    /\ place \in Places /\ touched = FALSE /\ down = <<>> /\ up = <<>>
    /\ FeedingBegins(place, feederAge) /\ kept = FALSE /\ fed = <<>> /\ asked = <<>>
    /\ request = "none" /\ where = "none"
    /\ aKind = "none" /\ aSent = NA /\ aAnswered = NA /\ wSent = NA /\ wAnswered = NA
    /\ fSent = NA /\ fKnown = NA
    /\ left = Tau  \* the session was just created: a committed change
    /\ body = "none" /\ spare = 0 /\ skew \in 0..Drift

-----------------------------------------------------------------------------
(* Time. A leader that runs pings in time, and a client that runs cancels  *)
(* and ends its body in time (A3 to A5 of safety.md).                      *)

LeaderMayAge == stopped \/ late /= "no" \/ pingAge < Half \/ session = "over"
FeederMayAge == place = "observer" => feederAge < Half
ServersMayAge == LeaderMayAge /\ FeederMayAge

ClientMayAge ==
    /\ body = "runs" => left > Margin + Grace
    /\ body = "stops" => spare > 0

\* When the session is over, the time of the leader matters no more.
ServersAge ==
    /\ IF session = "over" THEN UNCHANGED <<touchAge, pingAge>>
       ELSE touchAge' = Older(touchAge, Tau + 1) /\ pingAge' = Older(pingAge, Half)
    /\ feederAge' = IF place = "observer" THEN feederAge + 1 ELSE 0
    /\ UNCHANGED <<place, touched, down, up, kept, fed, asked>>

\* A proof that is older than the session timeout is worth nothing.
ClientAges ==
    /\ aSent' = Older(aSent, Tau)
    /\ aAnswered' = Older(aAnswered, Wait)
    /\ wSent' = Older(wSent, Tau)
    /\ wAnswered' = Older(wAnswered, Wait)
    /\ fSent' = Older(fSent, Tau)
    /\ fKnown' = Older(fKnown, Wait)
    /\ left' = IF left = 0 THEN 0 ELSE left - 1
    /\ spare' = IF spare = 0 THEN 0 ELSE spare - 1

Tick ==
    /\ ServersMayAge /\ ClientMayAge
    /\ ServersAge /\ ClientAges
    /\ UNCHANGED <<stopped, late, session, requestVars, aKind, body, skew>>

ServersTick ==
    /\ skew > 0 /\ skew' = skew - 1
    /\ ServersMayAge /\ ServersAge
    /\ UNCHANGED <<stopped, late, session, requestVars, proofVars, left, bodyVars>>

ClientTick ==
    /\ skew < Drift /\ skew' = skew + 1
    /\ ClientMayAge /\ ClientAges
    /\ UNCHANGED <<leaderVars, serverVars, requestVars, aKind, body>>

-----------------------------------------------------------------------------
(* The leader: pings, touches, requests, the end of sessions.              *)

\* The leader has a connection to the client's server, or to the follower before it.
Followed == {"follower", "observer"}

Ping ==
    /\ ~stopped /\ pingAge = Half /\ session /= "over"
    /\ pingAge' = 0
    /\ down' = IF place \in Followed THEN Merged(down, "ping") ELSE down
    /\ UNCHANGED <<touchAge, stopped, late, session, place, touched, up, observerVars, requestVars, proofVars,
                   left, bodyVars, skew>>

\* What is due goes first. A leader that was stopped may answer one request before it has caught up:
\* before it has pinged and has the answer (A3).
MayAnswer == ~stopped /\ IF late = "no" THEN pingAge < Half ELSE late = "yes"

Answered == late' = IF late = "no" THEN "no" ELSE "answered"

CatchUp ==
    /\ ~stopped /\ late /= "no"
    /\ pingAge < Half
    /\ session = "lives" => Without(down, "ping") /\ Without(up, "touch")
    /\ late' = "no"
    /\ UNCHANGED <<touchAge, pingAge, stopped, session, serverVars, requestVars, proofVars, left,
                   bodyVars, skew>>

Touch == touchAge' = IF session = "lives" THEN 0 ELSE touchAge

LeaderHasTouch ==
    /\ ~stopped /\ up /= <<>> /\ Head(up) = "touch"
    /\ up' = Tail(up)
    /\ Touch
    /\ UNCHANGED <<pingAge, stopped, late, session, place, touched, down, observerVars,
                   requestVars, proofVars, left, bodyVars, skew>>

\* A request that a follower has forwarded touches nothing, but for the handshake. A session that
\* ends gets no write committed.
LeaderHasRequest ==
    /\ MayAnswer /\ up /= <<>> /\ Head(up) /= "touch"
    /\ up' = Tail(up)
    /\ Answered
    /\ IF Head(up) = "handshake" THEN Touch ELSE UNCHANGED touchAge
    /\ down' = IF session = "lives" \/ Head(up) = "sync" THEN Append(down, Head(up)) ELSE down
    /\ UNCHANGED <<pingAge, stopped, session, place, touched, observerVars, requestVars,
                   proofVars, left, bodyVars, skew>>

LeaderServes ==
    /\ MayAnswer /\ place = "leader" /\ where = "sent"
    /\ Answered /\ Touch
    /\ where' = IF session = "lives" \/ request \in {"sync", "ping", "probe"}
                THEN "answered" ELSE "served"
    /\ UNCHANGED <<pingAge, stopped, session, serverVars, request, proofVars, left, bodyVars, skew>>

\* Servers end a session strictly later than its timeout after the last touch.
Decide ==
    /\ ~stopped /\ touchAge > Tau /\ session = "lives"
    /\ session' = "ending"
    /\ UNCHANGED <<touchAge, pingAge, stopped, late, serverVars, requestVars, proofVars, left,
                   bodyVars, skew>>

\* Now the other client holds. The session's own server closes the connection when it learns of it.
End ==
    /\ ~stopped /\ session = "ending"
    /\ session' = "over" /\ touchAge' = 0 /\ pingAge' = 0
    /\ down' = IF place \in Followed THEN Append(down, "over") ELSE down
    /\ place' = IF place = "leader" THEN "closed" ELSE place
    /\ UNCHANGED <<stopped, late, touched, up, observerVars, requestVars, proofVars, left, bodyVars, skew>>

-----------------------------------------------------------------------------
(* The other servers.                                                      *)

Forwarded == IF request = "second" THEN "write" ELSE request

FollowerServes ==
    /\ place = "follower" /\ where = "sent"
    /\ touched' = (touched \/ request /= "handshake")
    /\ IF request \in {"ping", "probe"}
       THEN where' = "answered" /\ UNCHANGED up
       ELSE /\ where' = "served"
            /\ up' = Append(up, Forwarded)
    /\ UNCHANGED <<leaderVars, place, down, observerVars, request, proofVars, left, bodyVars, skew>>

FollowerHasPing ==
    /\ place \in Followed /\ down /= <<>> /\ Head(down) = "ping"
    /\ down' = Tail(down)
    /\ up' = IF touched THEN Merged(up, "touch") ELSE up
    /\ touched' = FALSE
    /\ UNCHANGED <<leaderVars, place, observerVars, requestVars, proofVars, left, bodyVars, skew>>

FollowerHasAnswer ==
    /\ place /= "observer" /\ down /= <<>> /\ Head(down) \in {"handshake", "write", "sync"}
    /\ down' = Tail(down)
    /\ where' = "answered"
    /\ UNCHANGED <<leaderVars, place, touched, up, observerVars, request, proofVars, left, bodyVars,
                   skew>>

FollowerHasEnd ==
    /\ place /= "observer" /\ down /= <<>> /\ Head(down) = "over"
    /\ place' = "closed" /\ down' = <<>> /\ up' = <<>> /\ touched' = FALSE
    /\ UNCHANGED <<leaderVars, observerVars, requestVars, proofVars, left, bodyVars, skew>>

\* Another client's znode is deleted, and this client watches it. Only a planted error uses events.
SendEvent ==
    /\ Rule = "event" /\ MayAnswer /\ place = "follower" /\ Without(down, "event")
    /\ down' = Append(down, "event")
    /\ Answered
    /\ UNCHANGED <<touchAge, pingAge, stopped, session, place, touched, up, observerVars,
                   requestVars, proofVars, left, bodyVars, skew>>

\* The others need a leader.
IsolatedServes ==
    /\ place = "isolated" /\ where = "sent"
    /\ where' = IF request \in {"ping", "probe"} THEN "answered" ELSE "served"
    /\ UNCHANGED <<leaderVars, serverVars, request, proofVars, left, bodyVars, skew>>

\* Writes need a quorum; a sync and a handshake do not.
DeposedServes ==
    /\ place = "deposed" /\ where = "sent"
    /\ where' = IF request \in {"write", "second"} THEN "served" ELSE "answered"
    /\ UNCHANGED <<leaderVars, serverVars, request, proofVars, left, bodyVars, skew>>

-----------------------------------------------------------------------------
(* An observer that a follower feeds. It reports its touches to the        *)
(* follower, as a follower does to the leader; the follower reports them   *)
(* to the leader with its own.                                             *)

FeederPings ==
    /\ place = "observer" /\ feederAge = Half
    /\ feederAge' = 0 /\ fed' = Merged(fed, "ping")
    /\ UNCHANGED <<leaderVars, place, touched, down, up, kept, asked, requestVars, proofVars, left,
                   bodyVars, skew>>

ObserverServes ==
    /\ place = "observer" /\ where = "sent"
    /\ kept' = (kept \/ request /= "handshake")
    /\ IF request \in {"ping", "probe"}
       THEN where' = "answered" /\ UNCHANGED asked
       ELSE where' = "served" /\ asked' = Append(asked, Forwarded)
    /\ UNCHANGED <<leaderVars, place, touched, down, up, feederAge, fed, request, proofVars, left,
                   bodyVars, skew>>

ObserverHasPing ==
    /\ place = "observer" /\ fed /= <<>> /\ Head(fed) = "ping"
    /\ fed' = Tail(fed)
    /\ asked' = IF kept THEN Merged(asked, "touch") ELSE asked
    /\ kept' = FALSE
    /\ UNCHANGED <<leaderVars, place, touched, down, up, feederAge, requestVars, proofVars, left,
                   bodyVars, skew>>

FeederHasTouch ==
    /\ place = "observer" /\ asked /= <<>> /\ Head(asked) = "touch"
    /\ asked' = Tail(asked)
    /\ touched' = TRUE
    /\ UNCHANGED <<leaderVars, place, down, up, feederAge, kept, fed, requestVars, proofVars, left,
                   bodyVars, skew>>

\* What is due goes first, as at the leader.
FeederHasRequest ==
    /\ place = "observer" /\ asked /= <<>> /\ Head(asked) /= "touch" /\ feederAge < Half
    /\ asked' = Tail(asked)
    /\ up' = Append(up, Head(asked))
    /\ UNCHANGED <<leaderVars, place, touched, down, feederAge, kept, fed, requestVars, proofVars,
                   left, bodyVars, skew>>

FeederHasAnswer ==
    /\ place = "observer" /\ down /= <<>> /\ Head(down) \notin {"ping", "event"} /\ feederAge < Half
    /\ down' = Tail(down)
    /\ fed' = Append(fed, Head(down))
    /\ UNCHANGED <<leaderVars, place, touched, up, feederAge, kept, asked, requestVars, proofVars,
                   left, bodyVars, skew>>

ObserverHasAnswer ==
    /\ place = "observer" /\ fed /= <<>> /\ Head(fed) \notin {"ping", "over"}
    /\ fed' = Tail(fed)
    /\ where' = "answered"
    /\ UNCHANGED <<leaderVars, place, touched, down, up, feederAge, kept, asked, request, proofVars,
                   left, bodyVars, skew>>

NoFeeding == feederAge' = 0 /\ kept' = FALSE /\ fed' = <<>> /\ asked' = <<>>

ObserverHasEnd ==
    /\ place = "observer" /\ fed /= <<>> /\ Head(fed) = "over"
    /\ place' = "closed" /\ down' = <<>> /\ up' = <<>> /\ touched' = FALSE
    /\ NoFeeding
    /\ UNCHANGED <<leaderVars, requestVars, proofVars, left, bodyVars, skew>>

-----------------------------------------------------------------------------
(* Faults.                                                                 *)

Disconnected ==
    /\ touched' = FALSE /\ down' = <<>> /\ up' = <<>> /\ request' = "none" /\ where' = "none"
    /\ aKind' = "none" /\ aSent' = NA /\ aAnswered' = NA /\ wSent' = NA /\ wAnswered' = NA
    /\ fSent' = NA /\ fKnown' = NA
    /\ NoFeeding

\* Some of what the leader had sent may still arrive. Answers to its pings would arrive nowhere. An
\* observer may lose its follower, or that one the leader, or both.
SomeArrives ==
    /\ down' \in {SelectSeq(sent, LAMBDA message : message /= "ping") :
                  sent \in {<<>>, fed, fed \o down}}
    /\ NoFeeding

\* The connection to the leader breaks.
LosesLeader ==
    /\ "isolation" \in Faults /\ place \in Followed
    /\ place' = "isolated" /\ up' = <<>> /\ touched' = FALSE
    /\ SomeArrives
    /\ UNCHANGED <<leaderVars, requestVars, proofVars, left, bodyVars, skew>>

\* A new leader starts all sessions again, with their full timeout. A server that takes part in the
\* election closes its clients' connections; one that does not may serve them for a while.
Elect ==
    /\ "election" \in Faults /\ session /= "over"
    /\ touchAge' = 0 /\ pingAge' = 0 /\ stopped' = FALSE /\ late' = "no"
    /\ session' = "lives"
    /\ \/ /\ place \in AllPlaces
          /\ place' = "deposed" /\ touched' = FALSE /\ up' = <<>>
          /\ SomeArrives
          /\ UNCHANGED <<requestVars, proofVars>>
       \/ /\ place \in {"isolated", "deposed", "closed", "none"}
          /\ UNCHANGED <<serverVars, requestVars, proofVars>>
       \/ place' = "none" /\ Disconnected
    /\ UNCHANGED <<left, bodyVars, skew>>

StopLeader ==
    /\ "stop" \in Faults /\ ~stopped
    /\ stopped' = TRUE
    /\ UNCHANGED <<touchAge, pingAge, late, session, serverVars, requestVars, proofVars, left,
                   bodyVars, skew>>

ContinueLeader ==
    /\ stopped
    /\ stopped' = FALSE /\ late' = IF late = "no" THEN "yes" ELSE late
    /\ UNCHANGED <<touchAge, pingAge, session, serverVars, requestVars, proofVars, left, bodyVars,
                   skew>>

\* The client moves to another server, or its server closes the connection.
Disconnect ==
    /\ place /= "none" /\ ("move" \in Faults \/ place = "closed")
    /\ place' = "none" /\ Disconnected
    /\ UNCHANGED <<leaderVars, left, bodyVars, skew>>

Connect ==
    /\ place = "none"
    /\ place' \in Places \cup (IF "isolation" \in Faults THEN {"isolated"} ELSE {})
                                        \cup (IF "election" \in Faults THEN {"deposed"} ELSE {})
    /\ request' = "handshake" /\ where' = "sent"
    /\ aKind' = "handshake" /\ aSent' = 0
    /\ FeedingBegins(place', feederAge')
    /\ UNCHANGED <<leaderVars, touched, down, up, kept, fed, asked, aAnswered, wSent, wAnswered,
                   firstVars, left, bodyVars, skew>>

-----------------------------------------------------------------------------
(* The client's requests, and what their answers prove.                    *)

IsFree == place /= "none" /\ request = "none"

\* Any request may be `a`, also a renewal: see Proves.
SendA ==
    /\ IsFree /\ wSent = NA
    /\ request' = "ping" /\ where' = "sent"
    /\ aKind' = "request" /\ aSent' = 0 /\ aAnswered' = NA
    /\ UNCHANGED <<leaderVars, serverVars, wSent, wAnswered, firstVars, left, bodyVars, skew>>

SendWrite ==
    /\ IsFree /\ wSent = NA /\ aAnswered /= NA /\ aSent < Tau
    /\ aKind = "request" => aAnswered >= Wait
    /\ fSent /= NA => fKnown >= Wait
    /\ request' = "write" /\ where' = "sent"
    /\ wSent' = 0
    /\ UNCHANGED <<leaderVars, serverVars, aKind, aSent, aAnswered, wAnswered, firstVars, left,
                   bodyVars, skew>>

SendSecond ==
    /\ IsFree /\ wAnswered /= NA
    /\ request' \in {"sync", "second"} /\ where' = "sent"
    /\ UNCHANGED <<leaderVars, serverVars, proofVars, left, bodyVars, skew>>

\* Planted: a second ping, and then an event, show that the server has contact with the leader.
SendProbe ==
    /\ Rule = "event" /\ IsFree /\ wSent = NA /\ aAnswered /= NA /\ aSent < Tau
    /\ aAnswered >= Wait
    /\ request' = "probe" /\ where' = "sent"
    /\ wSent' = 0
    /\ UNCHANGED <<leaderVars, serverVars, aKind, aSent, aAnswered, wAnswered, firstVars, left,
                   bodyVars, skew>>

\* The session lives until Tau after `sent`.
Proven(sent) == left' = Max(left, Tau - Min(sent, Tau))

\* The proof is complete: the write is the next `a`.
Next_a ==
    /\ aKind' = "request" /\ aSent' = wSent /\ aAnswered' = wAnswered
    /\ wSent' = NA /\ wAnswered' = NA

\* A write and a second request have followed `a`. Then the follower has its touch, from which the
\* leader collects it in the next round; or, if there is only one round, the leader has it.
Confirmed(counts) ==
    LET sent == IF Rounds = 1 THEN aSent ELSE fSent
    IN /\ IF counts /\ sent /= NA
          THEN Proven(IF Rule = "itself" THEN wSent ELSE sent)
          ELSE UNCHANGED left
       /\ IF Rounds = 1 THEN UNCHANGED firstVars ELSE fSent' = aSent /\ fKnown' = 0

Receive ==
    /\ where = "answered"
    /\ request' = "none" /\ where' = "none"
    /\ CASE request \in {"handshake", "ping"} ->
              /\ aAnswered' = 0
              /\ IF Rule = "ping" \/ (Rule = "handshake" /\ request = "handshake")
                 THEN Proven(aSent) ELSE UNCHANGED left
              /\ UNCHANGED <<aKind, aSent, wSent, wAnswered, firstVars>>
         [] request = "probe" ->
              wAnswered' = 0 /\ UNCHANGED <<aKind, aSent, aAnswered, wSent, firstVars, left>>
         [] request = "write" ->
              IF aKind = "handshake" \/ Rule = "one request"
              THEN Proven(aSent) /\ aKind' = "request" /\ aSent' = wSent /\ aAnswered' = 0
                   /\ wSent' = NA /\ wAnswered' = NA /\ UNCHANGED firstVars
              ELSE wAnswered' = 0 /\ UNCHANGED <<aKind, aSent, aAnswered, wSent, firstVars, left>>
         [] request \in {"sync", "second"} ->
              Next_a /\ Confirmed(request = "second" \/ left > 0 \/ Rule = "sync at any time")
    /\ UNCHANGED <<leaderVars, serverVars, bodyVars, skew>>

\* Events come behind the answers that the server has sent before.
ReceiveEvent ==
    /\ where /= "answered" /\ down /= <<>> /\ Head(down) = "event"
    /\ down' = Tail(down)
    /\ IF wAnswered /= NA THEN Proven(aSent) /\ Next_a /\ UNCHANGED firstVars
       ELSE UNCHANGED <<left, proofVars>>
    /\ UNCHANGED <<leaderVars, place, touched, up, observerVars, requestVars, bodyVars, skew>>

-----------------------------------------------------------------------------
(* The body.                                                               *)

Begin ==
    /\ body = "none" /\ left > Margin + Grace
    /\ body' = "runs"
    /\ UNCHANGED <<leaderVars, serverVars, requestVars, proofVars, left, spare, skew>>

Cancel ==
    /\ body = "runs" /\ left <= Margin + Grace
    /\ body' = "stops" /\ spare' = Grace
    /\ UNCHANGED <<leaderVars, serverVars, requestVars, proofVars, left, skew>>

EndBody ==
    /\ body = "stops"
    /\ body' = "none" /\ spare' = 0
    /\ UNCHANGED <<leaderVars, serverVars, requestVars, proofVars, left, skew>>

-----------------------------------------------------------------------------
Next ==
    \/ Tick \/ ServersTick \/ ClientTick
    \/ Ping \/ CatchUp \/ LeaderHasTouch \/ LeaderHasRequest \/ LeaderServes \/ Decide \/ End
    \/ FollowerServes \/ FollowerHasPing \/ FollowerHasAnswer \/ FollowerHasEnd
    \/ IsolatedServes \/ DeposedServes
    \/ FeederPings \/ FeederHasTouch \/ FeederHasRequest \/ FeederHasAnswer
    \/ ObserverServes \/ ObserverHasPing \/ ObserverHasAnswer \/ ObserverHasEnd
    \/ LosesLeader \/ Elect \/ StopLeader \/ ContinueLeader \/ Disconnect \/ Connect
    \/ SendA \/ SendWrite \/ SendSecond \/ Receive
    \/ SendEvent \/ SendProbe \/ ReceiveEvent
    \/ Begin \/ Cancel \/ EndBody

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises.                                                           *)

NoTwoHolders == session = "over" => body = "none"

\* The body has ended before any leader can begin to end the session.
EndedInTime == (session = "lives" /\ touchAge > Tau /\ ~stopped) => body = "none"

\* What the client takes for proven is true, whether or not it holds.
ProofIsTrue == session = "over" => left <= Margin
=============================================================================
