"""The rules in Python are those of the specification: compared at every state that TLC computes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from .checks import FOLDER
from .lease_rules import NA, Client, Rules
from .tlc import Graph, TlcNotFoundError, find_tlc, graph, with_constants

pytestmark = pytest.mark.exhaustive("needs TLC, and checks no code of the library")

CLIENT_ACTIONS = {
    "Disconnect",
    "Connect",
    "SendA",
    "SendWrite",
    "SendSecond",
    "Receive",
    "Begin",
    "Cancel",
    "EndBody",
}
CONSTANTS = {"Tau": 3, "Wait": 1, "Grace": 1, "Margin": 0}
RULES = Rules(tau=3, wait=1, grace=1, margin=0)


@pytest.fixture(scope="module")
def computed() -> Graph:
    try:
        find_tlc()
    except TlcNotFoundError as error:
        pytest.skip(str(error))
    cfg = (FOLDER / "lease-small.cfg").read_text("utf-8")
    return graph("lease", with_constants(cfg, {key: str(n) for key, n in CONSTANTS.items()}))


def client_of(state: str) -> Client:
    """The client's variables of a state as TLC prints it."""
    found = dict(re.findall(r'/\\ (\w+) = "?([^"\n]*)"?', state))

    def age(name: str) -> float:
        return NA if found[name] == "100" else int(found[name])

    return Client(
        connected=found["place"] != "none",
        request=found["request"],
        where=found["where"],
        a_kind=found["aKind"],
        a_sent=age("aSent"),
        a_answered=age("aAnswered"),
        w_sent=age("wSent"),
        w_answered=age("wAnswered"),
        left=int(found["left"]),
        body=found["body"],
        spare=int(found["spare"]),
    )


def steps_of(computed: Graph) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    after: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, target, action in computed.steps:
        after[source].append((action, target))
    for number, state in computed.states.items():
        yield state, [(action, computed.states[target]) for action, target in after[number]]


@pytest.mark.timeout(300)
def test_client_steps_are_those_of_the_specification(computed: Graph) -> None:
    compared: dict[str, int] = defaultdict(int)
    for state, steps in steps_of(computed):
        before = client_of(state)
        expected = {(action, client_of(to)) for action, to in steps if action in CLIENT_ACTIONS}
        assert set(RULES.steps(before)) == expected, state
        for action, _ in expected:
            compared[action] += 1
    assert set(compared) == CLIENT_ACTIONS


@pytest.mark.timeout(300)
def test_other_steps_are_those_of_the_specification(computed: Graph) -> None:
    decided = 0
    for state, steps in steps_of(computed):
        before = client_of(state)
        for action, to in steps:
            if action in CLIENT_ACTIONS:
                continue
            after = client_of(to)
            if action == "Tick":
                assert RULES.tick(before) == after, state
            elif before.where != after.where and after.where == "answered":
                assert RULES.answer(before) == after, state
        age = int(re.findall(r"touchAge = (\d+)", state)[0])
        lives = 'session = "lives"' in state
        decided += any(action == "Decide" for action, _ in steps)
        assert any(action == "Decide" for action, _ in steps) == (lives and RULES.may_decide(age))
    assert decided
