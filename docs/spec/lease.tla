-------------------------------- MODULE lease --------------------------------
(***************************************************************************)
(* The lease of a session: a client's server, the leader, and the proof.   *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS
    Tau,    \* the session timeout
    Half,   \* half a tick: how often the leader pings
    Grace   \* the grace period

VARIABLES
    touchAge,   \* at the leader: the time since the last touch
    pingAge,    \* at the leader: the time since the last ping
    ended,      \* whether the leader has ended the session
    down,       \* on the way from the leader to the client's server
    up,         \* on the way from the client's server to the leader
    touched,    \* at the client's server: whether the session was touched since its last answer
    aSent, aAnswered,   \* the client: the ages of request `a`; NA if there is none
    wSent,      \* the client: whether the write is on its way
    left,       \* the client: how long the session is still proven to live
    holds       \* whether the client's body runs

vars == <<touchAge, pingAge, ended, down, up, touched, aSent, aAnswered, wSent, left, holds>>

NA == 99

Init ==
    /\ touchAge = 0 /\ pingAge \in 0..Half /\ ended = FALSE
    /\ down = <<>> /\ up = <<>> /\ touched = FALSE
    /\ aSent = NA /\ aAnswered = NA /\ wSent = FALSE
    /\ left = Tau /\ holds = FALSE

Older(age, most) == IF age = NA THEN NA ELSE IF age < most THEN age + 1 ELSE age

Tick ==
    /\ pingAge < Half /\ ~ended
    /\ holds => left > Grace
    /\ touchAge' = Older(touchAge, Tau)
    /\ pingAge' = pingAge + 1
    /\ aSent' = Older(aSent, Tau)
    /\ aAnswered' = Older(aAnswered, Half)
    /\ left' = IF left > 0 THEN left - 1 ELSE 0
    /\ UNCHANGED <<ended, down, up, touched, wSent, holds>>

Ping ==
    /\ pingAge = Half
    /\ pingAge' = 0
    /\ down' = IF down /= <<>> /\ down[Len(down)] = "ping" THEN down ELSE Append(down, "ping")
    /\ UNCHANGED <<touchAge, ended, up, touched, aSent, aAnswered, wSent, left, holds>>

Expire ==
    /\ ~ended /\ touchAge = Tau
    /\ ended' = TRUE
    /\ UNCHANGED <<touchAge, pingAge, down, up, touched, aSent, aAnswered, wSent, left, holds>>

SendA ==
    /\ ~wSent
    /\ aSent' = 0 /\ aAnswered' = 0 /\ touched' = TRUE
    /\ UNCHANGED <<touchAge, pingAge, ended, down, up, wSent, left, holds>>

SendW ==
    /\ aAnswered = Half /\ ~wSent
    /\ wSent' = TRUE /\ touched' = TRUE
    /\ up' = Append(up, "write")
    /\ UNCHANGED <<touchAge, pingAge, ended, down, aSent, aAnswered, left, holds>>

Leader ==
    /\ up /= <<>> /\ pingAge < Half /\ ~ended
    /\ up' = Tail(up)
    /\ \/ /\ Head(up) = "touch"
          /\ touchAge' = IF ended THEN touchAge ELSE 0
          /\ UNCHANGED down
       \/ /\ Head(up) = "write"
          /\ down' = IF ended THEN down ELSE Append(down, "written")
          /\ UNCHANGED touchAge
    /\ UNCHANGED <<pingAge, ended, touched, aSent, aAnswered, wSent, left, holds>>

Server ==
    /\ down /= <<>>
    /\ down' = Tail(down)
    /\ \/ /\ Head(down) = "ping"
          /\ up' = IF touched /\ Len(up) < 2 THEN Append(up, "touch") ELSE up
          /\ touched' = FALSE
          /\ UNCHANGED <<aSent, aAnswered, wSent, left>>
       \/ /\ Head(down) = "written"
          /\ left' = IF Tau - aSent > left THEN Tau - aSent ELSE left
          /\ aSent' = NA /\ aAnswered' = NA /\ wSent' = FALSE
          /\ UNCHANGED <<up, touched>>
    /\ UNCHANGED <<touchAge, pingAge, ended, holds>>

Begin == /\ ~holds /\ left > Grace /\ holds' = TRUE
         /\ UNCHANGED <<touchAge, pingAge, ended, down, up, touched, aSent, aAnswered, wSent, left>>

Stop == /\ holds /\ holds' = FALSE
        /\ UNCHANGED <<touchAge, pingAge, ended, down, up, touched, aSent, aAnswered, wSent, left>>

Next == Tick \/ Ping \/ Expire \/ SendA \/ SendW \/ Leader \/ Server \/ Begin \/ Stop

Spec == Init /\ [][Next]_vars

NoTwoHolders == ~(holds /\ ended)

Bounded == left <= Tau
=============================================================================
