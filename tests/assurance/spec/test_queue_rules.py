"""The rules in Python are those of the specification: compared at every state that TLC computes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from .checks import FOLDER
from .queue_rules import Client, Contender, Job, Rules, Znode
from .tlc import TlcNotFoundError, find_tlc, graph, with_constants

pytestmark = pytest.mark.exhaustive("needs TLC, and checks no code of the library")

WAITING = {"List", "Arm", "Wake", "Enter", "Release", "GiveUp"}
SEEKING = {"Resolve", "Look"}
ACTIONS = WAITING | SEEKING | {"BehindOurs"}

CONFIGURATIONS: dict[str, tuple[str, dict[str, str], int, set[str]]] = {
    "three clients": ("queue-three", {}, 1, WAITING),
    "two of one client": (
        "queue-together",
        {"Contenders": "{c1, c2}", "Kinds": '{"wipe"}'},
        1,
        WAITING | {"BehindOurs"},
    ),
    "two clients": ("queue-small", {"Kinds": '{"cut", "expire"}'}, 1, ACTIONS),
    "two places": ("queue-three", {"N": "2"}, 2, WAITING),
    "a forger": ("queue-forger", {"Contenders": "{c1}"}, 1, ACTIONS),
}


@pytest.fixture(scope="module", autouse=True)
def tlc() -> None:
    try:
        find_tlc()
    except TlcNotFoundError as error:
        pytest.skip(str(error))


# --- values as TLC prints them -----------------------------------------------------------------

TOKEN = re.compile(r'\s*(<<|>>|\|->|:>|@@|[\[\]{}(),]|"[^"]*"|-?\d+|\w+)')


class Values:
    """Reads one value; sets become frozensets, functions and records dictionaries."""

    def __init__(self, text: str) -> None:
        self._tokens = TOKEN.findall(text)
        self._at = 0

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _is(self, token: str) -> bool:
        found = self._tokens[self._at] == token
        self._at += found
        return found

    def read(self) -> Any:
        token = self._next()
        if token == "{":
            return frozenset(_frozen(each) for each in self._many("}"))
        if token == "<<":
            return tuple(self._many(">>"))
        if token in ("[", "("):
            end, arrow = ("]", "|->") if token == "[" else (")", ":>")
            pairs = {}
            while not self._is(end):
                key = self._next()
                assert self._is(arrow)
                pairs[key] = self.read()
                assert self._is(",") or self._is("@@") or self._tokens[self._at] == end
            return pairs
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        return int(token) if token.lstrip("-").isdigit() else token.strip('"')

    def _many(self, end: str) -> list[Any]:
        found = []
        while not self._is(end):
            found.append(self.read())
            self._is(",")
        return found


@cache
def read(text: str) -> Any:
    return Values(text).read()


def _frozen(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def test_values_are_read() -> None:
    text = '( c1 :>\n { [c |-> c1, n |-> 1], [c |-> c2, n |-> 2] } @@ c2 :> << {}, "a" >> )'
    assert Values(text).read() == {
        "c1": frozenset({(("c", "c1"), ("n", 1)), (("c", "c2"), ("n", 2))}),
        "c2": (frozenset(), "a"),
    }


# --- states ------------------------------------------------------------------------------------


VARIABLES = frozenset(
    ["pc", "node", "watch", "next", "gone", "outlived", "serial", "view", "front", "pending"]
) | {"over", "session", "lag", "dead", "requests", "looks"}


class State:
    """The variables of a state that contenders go by."""

    def __init__(self, text: str, together: frozenset[str]) -> None:
        self._found: Mapping[str, Any] = {
            name: read(value)
            for name, value in re.findall(r"/\\ (\w+) = (.*?)(?=\n/\\ |\Z)", text, re.DOTALL)
            if name in VARIABLES
        }
        self._together = together
        self.contenders = {c: self._contender(c) for c in self._found["pc"]}

    def client_of(self, contender: str) -> str:
        return "Home" if contender in self._together else contender

    def _znode(self, value: Any) -> Znode | None:
        if value == "None":
            return None
        z = dict(value)
        name = f"{self._create(z['c'], z['n'])}{z['q']:010}"
        return Znode(z["o"], name, z["q"], z["t"])

    def _create(self, contender: str, serial: int) -> str:
        # Serials are given once, so the session adds nothing.
        return f"{contender}-{serial}-"

    def _znodes(self, values: Any) -> frozenset[Znode]:
        return frozenset(z for each in values if (z := self._znode(each)) is not None)

    def _contender(self, c: str) -> Contender:
        found = self._found
        return Contender(
            found["pc"][c],
            self._znode(found["node"][c]),
            tuple(z for each in found["watch"][c] if (z := self._znode(each)) is not None),
            found["next"][c],
            self._znodes(found["gone"][c]),
            self._znodes(found["outlived"][c]),
            self._create(c, found["serial"][c]),
        )

    def client(self, c: str) -> Client:
        found, k = self._found, self.client_of(c)
        mine = [it.node for d, it in self.contenders.items() if self.client_of(d) == k]
        return Client(
            self._znodes(found["view"][k]),
            self._znode(found["front"][k]),
            self.pending(k) | frozenset(z for z in mine if z is not None),
            found["over"][k],
            k,
            not found["lag"][k] and not found["over"][k] and not found["dead"][k],
            frozenset(self._create(r["c"], r["n"]) for r in map(dict, found["requests"])),
        )

    def pending(self, client: str) -> frozenset[Znode]:
        return self._znodes(self._found["pending"][client])

    def jobs(self) -> dict[Job, str]:
        """Each with a contender of its client."""
        jobs = map(dict, self._found["looks"])
        return {Job(self._create(job["c"], job["n"]), job["step"]): job["c"] for job in jobs}

    def front(self, c: str) -> Znode | None:
        return self._znode(self._found["front"][self.client_of(c)])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_contender_steps_are_those_of_the_specification(name: str) -> None:
    file, constants, places, actions = CONFIGURATIONS[name]
    text = with_constants((FOLDER / f"{file}.cfg").read_text("utf-8"), constants)
    lines = [
        line
        for line in text.splitlines()
        if not line.startswith(("PROPERTY", "PROPERTIES", "SYMMETRY"))
    ]
    together = frozenset({"c1", "c2"}) if "Together = {c1" in text else frozenset[str]()
    computed = graph("queue", "\n".join(lines))
    after: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, target, action in computed.steps:
        after[source].append((action, target))
    states = {number: State(text, together) for number, text in computed.states.items()}
    rules, compared = Rules(places), Counter[str]()
    for number, state in states.items():
        expected = set()
        for action, target in after[number]:
            if action not in ACTIONS - {"Look"}:
                continue
            to = states[target]
            (c,) = (c for c, it in to.contenders.items() if it.pc != state.contenders[c].pc)
            it = to.contenders[c]
            # After leaving, a contender of the specification may join again.
            is_left = action in ("Release", "GiveUp")
            expected.add((action, c, replace(it, pc="out") if is_left else it, to.front(c)))
            compared[action] += 1
        allowed = set()
        for c, it in state.contenders.items():
            client = state.client(c)
            for action, to_it in rules.steps(it, client):
                # The specification records it for the client that has several contenders.
                is_noted = state.client_of(c) == "Home"
                front = rules.front(it, to_it, client) if is_noted else None
                allowed.add((action, c, to_it, front))
        assert allowed == expected, computed.states[number]
        looked = {_looked(state, states[to]) for action, to in after[number] if action == "Look"}
        compared["Look"] += len(looked)
        assert set(_looks(state, rules)) == looked, computed.states[number]
    assert set(+compared) == actions


Look = tuple[Job, Job | None, frozenset[Znode]]


def _looks(state: State, rules: Rules) -> Iterator[Look]:
    """The looks that the rules allow: a job, its rest, and its client's pending deletes."""
    for job, c in state.jobs().items():
        found = rules.look(job, state.client(c))
        if found is not None:
            again, znodes = found
            yield job, again, state.pending(state.client_of(c)) | znodes


def _looked(before: State, after: State) -> Look:
    """The same for a step of the specification."""
    (job,) = before.jobs().keys() - after.jobs().keys()
    again = after.jobs().keys() - before.jobs().keys()
    client = before.client_of(before.jobs()[job])
    return job, next(iter(again), None), after.pending(client)
