"""Contenders in simulated schedules follow the specification of the queue.

`python -m tests.assurance.spec.queue_traces` checks any number of schedules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FunctionType, ModuleType
from unittest import mock

import pytest

from aiolead._recipes import contender_queue as contender_module
from aiolead._recipes.naming import Sequential
from aiolead._recipes.znode import Znode
from aiolead.testing.simulation.run import load_scenario
from tests.assurance.mutants.fixtures import mutated_or_skip

from .queue_recorder import Fact, Pending, Recorder, Step
from .queue_replay import violations
from .queue_traces import checked
from .schedules import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_schedules_follow_the_specification(name: str) -> None:
    scenario = load_scenario(f"tests/assurance/simulation/scenarios.py:{name}")
    actions = set()
    for seed in range(6):
        recorder, found, _ = checked(scenario, seed, "asyncio" if seed % 2 else "trio")
        assert not found, f"seed {seed}: {found}"
        actions |= {each.action for each in recorder.trace if isinstance(each, Step)}
    assert {"List", "Arm", "Front", "Enter", "Leave", "Notice"} <= actions


# --- planted bugs ------------------------------------------------------------------------------

KERNEL = "_recipes/kernel.py"
CLASSES: dict[str, tuple[type, ...]] = {
    "_recipes/contender_queue.py": (
        contender_module.Contender,
        contender_module.Ahead,
        contender_module.LocalContenders,
    ),
    "_recipes/znode.py": (Znode,),
    "_recipes/naming.py": (Sequential,),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A bug of the catalogue in the methods of contenders, or in the function of the kernel."""
    changed = mutated_or_skip(name)
    with ExitStack() as stack:
        for file, text in changed.items():
            real = CLASSES.get(file, ())
            module = ModuleType("aiolead._recipes.planted")
            module.__package__ = "aiolead._recipes"
            stack.enter_context(mock.patch.dict(sys.modules, {module.__name__: module}))
            exec(compile(text, file, "exec"), module.__dict__)
            if not real:
                assert file == KERNEL
                standing = mock.patch.object(contender_module, "standing", module.standing)
                stack.enter_context(standing)
                continue
            # The other classes are the real ones: above all the exceptions.
            changes = {each: vars(module.__dict__[each.__name__]) for each in real}
            others = vars(sys.modules[real[0].__module__]).items()
            module.__dict__.update({key: each for key, each in others if isinstance(each, type)})
            for cls, methods in changes.items():
                for key, method in methods.items():
                    # A method that calls `super()` works in its own class only.
                    if (
                        isinstance(method, FunctionType)
                        and "__class__" not in method.__code__.co_freevars
                    ):
                        stack.enter_context(mock.patch.object(cls, key, method))
        yield


def found_in(name: str, bug: str, seeds: range) -> tuple[list[str], list[str]]:
    """The findings of the check of traces, and those of the invariants of the history."""
    scenario = load_scenario(f"tests/assurance/simulation/scenarios.py:{name}")
    traced, others = [], []
    for seed in seeds:
        with planted(bug):
            _, found, more = checked(scenario, seed, "asyncio")
        traced += found
        others += more
    return traced, others


@pytest.mark.exhaustive("checks the check of traces")
def test_bug_that_no_invariant_sees_is_seen_in_its_trace() -> None:
    """It takes two places, and two that leave in a certain order, before anybody waits in vain."""
    found, others = found_in("contend", "one-watch-for-several-places", range(4, 7))
    assert others == []
    assert found
    assert all(each.startswith("List: the specification does not allow") for each in found)


@pytest.mark.exhaustive("checks the check of traces")
@pytest.mark.parametrize(
    ("name", "bug", "seed", "action"),
    [
        ("contend", "watches-the-successor", 0, "List"),
        ("crowd", "predecessor-gone-means-first", 0, "List"),
        ("crowd", "departed-predecessor-was-first", 3, "Wake"),
        ("contend", "missing-predecessor-has-gone", 3, "Front"),
        ("contend", "own-znode-unwatched", 0, "Arm"),
        ("contend", "lost-create-is-forgotten", 1, "Join"),
        ("contend", "lost-create-is-not-adopted", 1, "Look"),
        ("contend", "no-second-look", 1, "Look"),
    ],
)
def test_planted_bug_is_seen_in_its_trace(name: str, bug: str, seed: int, action: str) -> None:
    found, _ = found_in(name, bug, range(seed, seed + 1))
    assert any(each.startswith(f"{action}: ") for each in found)


# --- the check itself --------------------------------------------------------------------------

PATH = "/lock/"
A, B, C, D = "a-0000000000", "b-0000000001", "c-0000000002", "d-0000000003"
SESSIONS = {A: 1, B: 2, C: 3, D: 4}
FORGED = "d-0000000004"


def created(name: str, session: int = 0) -> Fact:
    session = session or SESSIONS[name]
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
    watched: bool = True,
    at: float = 0.0,
) -> Step:
    number = SESSIONS[name]
    return Step(
        action,
        at,
        number,
        number,
        number,
        PATH + name,
        10 + number,
        1,
        names,
        watch,
        is_next,
        zxid=zxid,
        watched=watched,
    )


def about_d(action: str, *names: str, path: str = "", is_next: bool = False, at: float = 0) -> Step:
    """A step about the create of D, by its contender, which has no znode unless `path` says so."""
    token = 14 if path else 0
    about = {"create": "d-", "parent": "/lock", "about": 4}
    return Step(action, at, 4, 4, 4, path, token, 1, names, next=is_next, zxid=15, **about)


LOST = (about_d("Join"), created(D), about_d("CreateLost"), about_d("Find"))
NEVER_APPLIED = (about_d("Join"), about_d("CreateLost"), about_d("Find"), about_d("Resolve"))
GIVEN_UP = (about_d("Job"), about_d("LookBegins"), about_d("Find"))
LATER = step("Cut", D, at=1.0)
LEFT = replace(step("Leave", D), path="")
A_HOLDS = (step("List", A, (A,)), step("Front", A), step("Enter", A))


def unwatched(action: str, name: str, watch: tuple[str, ...] = ()) -> Step:
    return step(action, name, (), watch, watched=False)


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
        # A lost create: it is found, though another znode has its name, or looked for again.
        (created(FORGED, 99), *LOST, about_d("Resolve", D), about_d("Resolved", path=PATH + D)),
        (*NEVER_APPLIED, about_d("Job", is_next=True), about_d("LookBegins"), LATER),
        (
            *(*NEVER_APPLIED, about_d("Job", is_next=True), about_d("Resolved")),
            *(about_d("Find"), about_d("Look"), about_d("LookOver")),
        ),
        # It is applied after the look has begun.
        (about_d("Join"), about_d("CreateLost"), about_d("Find"), created(D), about_d("Resolve")),
        (created(D), *GIVEN_UP, about_d("Look", D), about_d("LookOver")),
        (*GIVEN_UP, about_d("Look"), Fact("ended", 1.0, session=4), about_d("LookOver")),
        # A holder's znode is deleted, and it is notified.
        (
            *(*A_HOLDS, step("Watched", A), deleted(A, 99)),
            *(step("Deliver", A, zxid=20), step("Cut", A, zxid=20, at=1.0)),
        ),
        # The servers have deleted it, and its client has not seen that yet.
        (step("List", B, (A, B), (A,), is_next=True), deleted(A, 99), step("Arm", B, (), (A,))),
    ],
)
def test_allowed_trace_has_no_violation(trace: tuple[Fact | Step | Pending, ...]) -> None:
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
        # The search for lost creates.
        ((*LOST[:3], about_d("Join")), "Join"),
        ((*LOST, about_d("Resolve")), "Resolve"),  # it was there when the look began
        ((created(FORGED, 99), *LOST, about_d("Resolve", FORGED)), "Resolve"),
        ((about_d("Join"), about_d("Find"), about_d("Resolve")), "Resolve"),  # nothing is lost
        ((*LOST, about_d("Resolve", D), about_d("Resolved", path=PATH + FORGED)), "Resolve"),
        ((*LOST[:3], about_d("Resolved")), "Resolve"),  # without a look
        ((*NEVER_APPLIED, about_d("Resolved"), LATER), "Look"),
        ((*LOST[:3], LEFT, LATER), "Look"),
        ((about_d("UnwantedLost"), LATER), "Look"),
        ((about_d("Job"), LATER), "Look"),  # it does not begin
        ((about_d("Job", is_next=True),), "Look"),  # without a first look
        ((created(D), *GIVEN_UP, about_d("Look")), "Look"),
        ((created(FORGED, 99), *GIVEN_UP, about_d("Look", FORGED)), "Look"),
        ((*GIVEN_UP, about_d("Look"), about_d("LookOver")), "Look"),  # one look is missing
        ((about_d("Find"), about_d("Look")), "Look"),
        # The own znode.
        ((step("List", B, (A, B), (A,), is_next=True), unwatched("Arm", B, (A,))), "Arm"),
        ((*A_HOLDS, unwatched("Settled", A)), "Settled"),
        ((*A_HOLDS, step("Deliver", A)), "Deliver"),  # it is there
        (
            (
                *(*A_HOLDS, step("Watched", A), deleted(A, 99)),
                *(step("Cut", A, zxid=20), step("Cut", A, zxid=20, at=1.0)),
            ),
            "Deliver",
        ),
    ],
)
def test_forbidden_trace_is_reported(trace: tuple[Fact | Step | Pending, ...], action: str) -> None:
    found = violations(recorded(*trace))
    assert found
    assert found[0].startswith(f"{action}: ")
