"""Counterexamples of the lease as diagrams: `python -m tests.assurance.spec.diagrams` prints them.

Each line is a step of TLC's counterexample, in the column of the process that takes it. Steps of
time are left out, except for the time itself, and so are pings behind an unanswered ping.
"""

from __future__ import annotations

import re
import sys

from .checks import PlantedError
from .specifications import LEASE
from .tlc import Outcome, plant

SHOWN = (
    "ping counts as proof",
    "an event counts as proof",
    "a renewal counts itself",
    "no half tick between renewals",
    "no wind-down",
    "a sync counts after the proof has ended",
    "half a tick without drift",
    "a leader goes on without its followers",
)
_TIME = ("Tick", "ServersTick", "ClientTick")
_REQUESTS = {"ping": "a", "probe": "a second ping", "write": "w", "sync": "a sync"}
_REQUESTS |= {"second": "a second write", "handshake": "the handshake"}
_WIDTHS = (6, 28, 26)


def variables(state: str) -> dict[str, str]:
    """The variables of a state as TLC prints it."""
    return {name: value.strip('"') for name, value in re.findall(r"/\\ (\w+) = (.*)", state)}


def diagram(outcome: Outcome) -> str:
    """A counterexample as text, in columns."""
    lines = [_line("time", "leader", "client's server", "client"), ""]
    now = 0
    before = variables(outcome.trace[0][1])
    left, place = before["left"], before["place"]
    where = {"leader": "the leader", "follower": "a follower"}[place]
    lines.append(_line("0", "", "", f"connected to {where}, proven for {left}"))
    for action, state in outcome.trace[1:]:
        after = variables(state)
        if action in _TIME:
            now += action != "ClientTick"
        elif text := _text(action, before, after):
            lines.append(_line(str(now), *text))
        before = after
    lines.append(_line(str(now), _ending(before), "", ""))
    return "\n".join(lines)


def _ending(last: dict[str, str]) -> str:
    if last["session"] == "over":
        return "THE SESSION IS OVER, AND THE BODY RUNS"
    return f"THE SESSION CAN EXPIRE: THE LAST TOUCH IS {last['touchAge']} OLD, AND THE BODY RUNS"


def _line(time: str, leader: str, server: str, client: str) -> str:
    cells = zip((time, leader, server), _WIDTHS, strict=True)
    return ("".join(cell.ljust(width) for cell, width in cells) + client).rstrip()


def _text(
    action: str, before: dict[str, str], after: dict[str, str]
) -> tuple[str, str, str] | None:
    """What a step is, in the columns of the leader, of the client's server and of the client."""
    request = _REQUESTS.get(before["request"], "")
    sent = _REQUESTS.get(after["request"], "")
    head = re.match(r"<<(\w*)", before["up"].replace('"', ""))
    forwarded = _REQUESTS.get(head[1], "") if head else ""
    grown = int(after["left"]) > int(before["left"])
    proof = f": proven for {after['left']}" if grown else ""
    match action:
        case "Ping" if before["down"] == after["down"]:
            return None
        case "Ping":
            return ("ping ->", "", "")
        case "LeaderHasTouch":
            return ("has the touch", "", "")
        case "LeaderHasRequest":
            done = "answers" if forwarded == "a sync" else "commits"
            return (f"{done} {forwarded} ->", "", "")
        case "LeaderServes":
            return (f"answers {request} ->", "", "")
        case "Decide":
            return ("decides to end the session", "", "")
        case "End":
            return ("has ended it: another one holds", "", "")
        case "StopLeader":
            return ("stops", "", "")
        case "ContinueLeader":
            return ("goes on", "", "")
        case "SendEvent":
            return ("commits another's delete ->", "", "")
        case "FollowerServes" if after["where"] == "answered":
            return ("", f"answers {request} ->", "")
        case "FollowerServes":
            return ("", f"<- forwards {request}", "")
        case "FollowerHasPing":
            has = "reports its touches" if before["touched"] == "TRUE" else "has no touch to report"
            return ("", f"<- {has}", "")
        case "FollowerHasAnswer":
            return ("", f"answer to {request} ->", "")
        case "SendA" | "SendWrite" | "SendSecond" | "SendProbe":
            return ("", "", f"<- sends {sent}")
        case "Receive":
            return ("", "", f"has the answer to {request}{proof}")
        case "ReceiveEvent":
            return ("", "", f"has the event{proof}")
        case "Begin":
            return ("", "", "holds: its body runs")
        case "Cancel":
            return ("", "", "cancels its body, which runs on")
    return None


def shown() -> list[PlantedError]:
    """The errors whose counterexamples are printed."""
    by_name = {each.name: each for each in LEASE.planted}
    return [by_name[name] for name in SHOWN]


def section(error: PlantedError, outcome: Outcome) -> str:
    """A counterexample in Markdown."""
    return f"### {error.name.capitalize()}\n\n{error.about}\n\n```text\n{diagram(outcome)}\n```\n"


def main() -> None:
    for each in shown():
        sys.stdout.write(f"{section(each, plant(LEASE, each))}\n")


if __name__ == "__main__":
    sys.exit(main())
