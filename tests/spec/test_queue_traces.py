"""What contenders do in simulated schedules is what the specification of the queue allows.

`python -m tests.spec.queue_traces` checks any number of schedules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from unittest import mock

import pytest

from aiolead._recipes.contention import contender as contender_module
from aiolead.testing.simulation.run import load_scenario
from tests.mutants.catalogue import MUTANTS
from tests.mutants.plant import mutated

from .queue_traces import Fact, Pending, Recorder, Step, checked, violations
from .schedules import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_schedules(name: str) -> None:
    scenario = load_scenario(f"tests/simulation/scenarios.py:{name}")
    actions = set()
    for seed in range(6):
        recorder, found, _ = checked(scenario, seed, "asyncio" if seed % 2 else "trio")
        assert not found, f"seed {seed}: {found}"
        actions |= {each.action for each in recorder.trace if isinstance(each, Step)}
    assert {"List", "Arm", "Front", "Enter", "Leave", "Notice"} <= actions


# --- planted bugs ------------------------------------------------------------------------------

KERNEL, CONTENDER = "_recipes/contention/kernel.py", "_recipes/contention/contender.py"


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A bug of the catalogue in the functions of the contender and of the kernel."""
    changed = mutated(next(each for each in MUTANTS if each.name == name))
    with ExitStack() as stack:
        for file in (KERNEL, CONTENDER):
            if file not in changed:
                continue
            module = ModuleType("aiolead._recipes.contention.planted")
            module.__package__ = "aiolead._recipes.contention"
            stack.enter_context(mock.patch.dict(sys.modules, {module.__name__: module}))
            exec(compile(changed[file], file, "exec"), module.__dict__)
            if file == KERNEL:
                standing = mock.patch.object(contender_module, "standing", module.standing)
                stack.enter_context(standing)
                continue
            for key, method in vars(module.Contender).items():
                # A method that calls `super()` works in its own class only.
                if (
                    isinstance(method, FunctionType)
                    and "__class__" not in method.__code__.co_freevars
                ):
                    real = contender_module.Contender
                    stack.enter_context(mock.patch.object(real, key, method))
        yield


def found_in(name: str, bug: str, seeds: range) -> tuple[list[str], list[str]]:
    """What the check of traces finds, and what the invariants of the history find."""
    scenario = load_scenario(f"tests/simulation/scenarios.py:{name}")
    traced, others = [], []
    for seed in seeds:
        with planted(bug):
            _, found, more = checked(scenario, seed, "asyncio")
        traced += found
        others += more
    return traced, others


def test_a_bug_that_no_invariant_of_the_history_sees() -> None:
    """It takes two places, and two that leave in a certain order, before anybody waits in vain."""
    found, others = found_in("contend", "one-watch-for-several-places", range(4, 7))
    assert others == []
    assert found
    assert all(each.startswith("List: the specification does not allow") for each in found)


@pytest.mark.parametrize(
    ("name", "bug", "seed", "action"),
    [
        ("contend", "watches-the-successor", 0, "List"),
        ("crowd", "predecessor-gone-means-first", 0, "List"),
        ("crowd", "whoever-was-before-us-was-first", 3, "Wake"),
        ("contend", "missing-neighbour-has-gone", 3, "Wake"),
    ],
)
def test_other_planted_bugs(name: str, bug: str, seed: int, action: str) -> None:
    found, _ = found_in(name, bug, range(seed, seed + 1))
    assert any(each.startswith(f"{action}: ") for each in found)


# --- the check itself --------------------------------------------------------------------------

PATH = "/lock/"
A, B, C = "a-0000000000", "b-0000000001", "c-0000000002"
SESSIONS = {A: 1, B: 2, C: 3}


def created(name: str) -> Fact:
    session = SESSIONS[name]
    return Fact("created", 0.0, PATH + name, 10 + session, session, zxid=10 + session)


def deleted(name: str, by: int, *, zxid: int = 20) -> Fact:
    return Fact("deleted", 1.0, PATH + name, 10 + SESSIONS[name], SESSIONS[name], by, zxid)


def step(
    action: str,
    name: str,
    names: tuple[str, ...] = (),
    watch: tuple[str, ...] = (),
    *,
    is_next: bool = False,
    zxid: int = 15,
) -> Step:
    number = SESSIONS[name]
    path, token = PATH + name, 10 + number
    return Step(
        action, 0.0, number, number, number, path, token, 1, names, watch, is_next, zxid=zxid
    )


THERE = (created(A), created(B), created(C))
B_WAITS = (
    step("List", B, (A, B, C), (A,), is_next=True),
    step("Arm", B, (), (A,)),
)


def recorded(*trace: Fact | Step | Pending) -> Recorder:
    recorder = Recorder()
    recorder.trace += [*THERE, step("Cut", A), step("Cut", B), step("Cut", C), *trace]
    return recorder


@pytest.mark.parametrize(
    "trace",
    [
        (step("List", A, (A, B, C)), step("Front", A), step("Enter", A)),
        (step("List", A, (A,)), step("Front", A), step("Enter", A)),
        (*B_WAITS, Pending(PATH + A), deleted(A, 1), step("Front", B, (A,)), step("Enter", B)),
        (*B_WAITS, deleted(A, 99), step("Front", B, (A,)), step("Enter", B)),
        (deleted(A, 1), Fact("ended", 1.0, session=1), step("Notice", A)),
        (step("Notice", A, zxid=0),),  # every server refuses its session
        # The servers have deleted it, and its client has not seen that yet.
        (step("List", B, (A, B), (A,), is_next=True), deleted(A, 99), step("Arm", B, (), (A,))),
    ],
)
def test_what_the_specification_allows(trace: tuple[Fact | Step | Pending, ...]) -> None:
    assert violations(recorded(*trace)) == []


@pytest.mark.parametrize(
    ("trace", "action"),
    [
        ((step("List", A, (A, C)),), "List"),  # that has never been so
        ((step("List", B, (A, B, C), ()),), "List"),
        ((step("List", B, (A, B, C), (A,)),), "List"),
        ((step("List", C, (A, B, C), (B,)),), "List"),
        ((step("List", B, (A, B), (A,), is_next=True), step("List", B, (A,))), "List"),
        ((step("ListWithoutOwn", A, (A, B, C)),), "List"),
        ((step("List", B, (A, B), (A,), is_next=True), step("Arm", B, (), (C,))), "Arm"),
        (
            (
                deleted(A, 99),
                step("List", B, (A, B), (A,), is_next=True),
                step("Arm", B, (), (A,), zxid=20),
            ),
            "Arm",
        ),
        ((*B_WAITS, step("Front", B, (A,))), "Wake"),
        ((*B_WAITS, deleted(A, 99), step("Front", B)), "Wake"),
        ((step("Front", A),), "Front"),
        ((step("Enter", A),), "Enter"),
        ((step("Notice", A),), "StartAgain"),
        ((deleted(A, 1),), "Delete"),
        ((deleted(A, 2),), "Delete"),
    ],
)
def test_what_the_specification_does_not_allow(
    trace: tuple[Fact | Step | Pending, ...], action: str
) -> None:
    found = violations(recorded(*trace))
    assert found
    assert found[0].startswith(f"{action}: ")
