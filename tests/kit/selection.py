"""Which tests a run selects, and on which event loop and kind of server each of them runs.

pytest runs whatever it is asked for, on every event loop and every kind of server. Four options
change that:

* `--promises`, used by `make test`: every behaviour test meets one event loop and one kind of
  server, which a hash of its node id chooses. Marks change that, see `MARKERS`.
  What `ELSEWHERE` lists is not even imported.
* `--every-combination`, used by `make test-all`: nothing is left out, and the run fails if a test
  has not met each combination of its event loops and servers.
* `--real-servers`, used by `tests/tools/every_zookeeper.py`: every test that can meet a real
  server meets each kind of them, on one event loop, which a hash of its node id chooses.
* `--engine NAME:VERSION`, used by `make test-all`: every test that can meet the embedded server
  meets it as another engine, on one event loop. One that needs what the engine refuses is skipped.

The choice depends on names alone: it is the same on every machine and in every process.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import gc
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from aiolead.errors import UnsupportedError

from . import clients
from .clients import OVER_AIOZK

T = TypeVar("T")

# --- event loops ----------------------------------------------------------------------------------

# In its debug mode asyncio notes the frames that made each callback, task and future, which is a
# good part of a test's time. One frame says who it was.
setattr(asyncio.constants, "DEBUG_STACK_DEPTH", 1)  # noqa: B010 - declared final


class DebugLoop(asyncio.SelectorEventLoop):
    """A loop in debug mode that does not note who made its futures, tasks and callbacks.

    For futures and tasks that would be the whole stack, whatever the depth that was asked for. What
    finds mistakes goes by the mode itself: calls from other threads, callbacks that are coroutines,
    slow callbacks, and where a coroutine was made that nobody awaits.
    """

    def get_debug(self) -> bool:
        return False


def eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - new in 3.12
    return loop


BACKENDS = [
    pytest.param(("asyncio", {"debug": True, "loop_factory": DebugLoop}), id="asyncio"),
    pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="asyncio+uvloop"),
    pytest.param(("trio", {}), id="trio"),
]
if sys.version_info >= (3, 12):
    BACKENDS.insert(2, pytest.param(("asyncio", {"loop_factory": eager_loop}), id="asyncio+eager"))
if OVER_AIOZK:
    # Without the debug mode, which takes its time: what it finds is found without aiozk.
    BACKENDS[:] = [pytest.param(("asyncio", {}), id="asyncio")]


LOOPS = tuple(str(backend.id) for backend in BACKENDS)
"""The event loops, by the names that they have in node ids."""

BACKEND_PARAMETERS = frozenset({"anyio_backend", "backend"})
"""The parameters for event loops: of coroutine tests, and of tests that run one themselves, such as
those on virtual time."""

EMBEDDED = "embedded"
REAL_SERVERS = ("standalone", "ensemble")
SERVERS = (EMBEDDED, *REAL_SERVERS)
"""The kinds of servers, by the names that they have in node ids."""

ZOOKEEPER = "zookeeper:3.8.0"
"""The engine of the embedded server unless `--engine` names another one."""

on_embedded = pytest.mark.parametrize("server", [EMBEDDED], indirect=True)
"""For what the client decides, whatever the server."""

REAL_FIXTURES = frozenset({"zookeeper_installed", "real_server", "real_ensemble"})
"""The fixtures of tests that run on real servers."""

# --- what `make test` selects -----------------------------------------------------------------

MARKERS = {
    "exhaustive(why, *, only='', one_in=0)": "`make test-all` runs it, and `make test` does not. "
    "`only` names the case that this is about, by the beginning of its id; `make test` runs one "
    "case of `one_in`, which a hash of its node id chooses",
    "promise(*, only='')": "`make test` runs it, whatever `exhaustive` says",
    "both_loops": "`make test` runs it on asyncio and on trio. A mistake there costs "
    "mutual exclusion, and the loops differ most in how they cancel",
    "only_zookeeper(why)": "`--engine` leaves it out: other engines do not promise this",
    "prefers_real_servers": "`make test` runs it with a real server whenever there can be one; "
    "other tests that take any kind of server meet the embedded one three times out of four",
}
"""The marks that decide what `make test` runs."""

ELSEWHERE = (
    "tests/cli/test_dashboard_page.py",
    "tests/cli/test_dashboard_states.py",
    "tests/docs/test_frameworks.py",
    "tests/docs/test_manifests.py",
    "tests/examples",
    "tests/hosts",
    "tests/assurance/interop",
    "tests/benchmarks",
    "tests/typing",
)
"""Folders and files for what only `make test-all` installs: a browser, frameworks, a compiler of
Java, pyright, and what examples and benchmarks need."""


@dataclass(frozen=True, slots=True)
class Combination:
    """On what a test runs.

    Attributes:
        test: its node id without the event loop and the server.
        loop: the event loop; empty for a test that has no parameter for it.
        server: the kind of server; empty for a test that does not take `server`.
    """

    test: str
    loop: str
    server: str

    @classmethod
    def of(cls, item: pytest.Item) -> Combination:
        return cls.named(item.nodeid.partition("[")[0], getattr(item, "callspec", None))

    @classmethod
    def named(cls, test: str, spec: Any) -> Combination:
        """The same for a test and pytest's `CallSpec2`, if it has one."""
        if spec is None:
            return cls(test, "", "")
        parts = spec.id.split("-")
        loop = "" if BACKEND_PARAMETERS.isdisjoint(spec.params) else _take(parts, LOOPS)
        server = _take(parts, SERVERS) if "server" in spec.params else ""
        return cls(f"{test}[{'-'.join(parts)}]" if parts else test, loop, server)

    @property
    def is_rotated(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.loop or self.server)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a test, see `MARKERS`."""

    exhaustive: tuple[pytest.Mark, ...]
    promise: tuple[pytest.Mark, ...]
    both_loops: bool
    prefers_real_servers: bool

    @classmethod
    def of(cls, item: pytest.Item) -> Marks:
        return cls(
            tuple(item.iter_markers("exhaustive")),
            tuple(item.iter_markers("promise")),
            item.get_closest_marker("both_loops") is not None,
            item.get_closest_marker("prefers_real_servers") is not None,
        )

    def is_promised(self, test: str) -> bool:
        """Whether `make test` runs a test, which is named without its event loop and server."""
        case = test.partition("[")[2]

        def is_meant(mark: pytest.Mark) -> bool:
            return case.startswith(mark.kwargs.get("only", ""))

        if any(is_meant(mark) for mark in self.promise):
            return True
        shares = [mark.kwargs.get("one_in", 0) for mark in self.exhaustive if is_meant(mark)]
        return all(share and _number(test, "case") % share == 0 for share in shares)


def _take(parts: list[str], names: tuple[str, ...]) -> str:
    """Takes the first of the names out of the parts of an id."""
    found = next((part for part in parts if part in names), "")
    if found:
        parts.remove(found)
    return found


def reaches_real_server(item: pytest.Item) -> bool:
    """Whether a test needs a real server.

    Not by marks on the parameters of fixtures: an indirect `parametrize` replaces those.
    """
    spec = getattr(item, "callspec", None)
    kinds = [value for value in spec.params.values() if isinstance(value, str)] if spec else []
    names = getattr(item, "fixturenames", ())
    return not (REAL_FIXTURES.isdisjoint(names) and set(REAL_SERVERS).isdisjoint(kinds))


def promised(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those of all tests that `make test` runs."""
    return set(_promised((Combination.of(item), Marks.of(item), item) for item in items))


def _promised(each: Iterable[tuple[Combination, Marks, T]]) -> Iterator[T]:
    groups: dict[str, list[tuple[Combination, T]]] = {}
    marks: dict[str, Marks] = {}
    for combination, of_item, item in each:
        groups.setdefault(combination.test, []).append((combination, item))
        marks[combination.test] = of_item
    for test, group in groups.items():
        if marks[test].is_promised(test):
            yield from _chosen(test, marks[test], group)


def on_real_servers(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those with real servers, each on one event loop."""
    loops: dict[str, set[str]] = {}
    found = [(Combination.of(item), item) for item in items if reaches_real_server(item)]
    for each, _ in found:
        loops.setdefault(each.test, set()).add(each.loop)
    return {item for each, item in found if each.loop == _one_loop(each.test, loops[each.test])}


def _one_loop(test: str, loops: set[str]) -> str:
    known = [loop for loop in LOOPS if loop in loops] or [""]
    return known[_number(test, "loop") % len(known)]


def _chosen(test: str, marks: Marks, group: list[tuple[Combination, T]]) -> Iterator[T]:
    known = {each.loop for each, _ in group}
    is_both = marks.both_loops and {"asyncio", "trio"} <= known
    for loop in ("asyncio", "trio") if is_both else (_one_loop(test, known),):
        found = {each.server: item for each, item in group if each.loop == loop}
        real = [server for server in REAL_SERVERS if server in found]
        number = _number(test, loop)
        is_real = len(real) == len(found) or number % 4 == 0 or marks.prefers_real_servers
        if real and is_real:
            yield found[real[number // 4 % len(real)]]
        else:
            yield found[EMBEDDED if EMBEDDED in found else ""]


def _number(test: str, of: str) -> int:
    return int.from_bytes(blake2b(f"{of} {test}".encode(), digest_size=8).digest())


# --- the options ------------------------------------------------------------------------------


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiolead's own tests")
    group.addoption(
        "--promises",
        action="store_true",
        help="the tests of `make test`: see tests/kit/selection.py",
    )
    group.addoption(
        "--every-combination",
        action="store_true",
        help="fail if a test has not met each of its event loops and servers, as `make test-all`",
    )
    group.addoption(
        "--real-servers",
        action="store_true",
        help="only tests with real servers, each on one event loop, as tools/every_zookeeper.py",
    )
    group.addoption(
        "--engine",
        metavar="NAME:VERSION",
        default=ZOOKEEPER,
        help="only tests that take any kind of server, on the embedded one as another engine, such "
        "as clickhouse-keeper:24.8, each on one event loop",
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def on_other_engines(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those with any kind of server, on the embedded one, each on one event loop."""
    loops: dict[str, set[str]] = {}
    found = [
        (each, item)
        for item in items
        if (each := Combination.of(item)).server == EMBEDDED
        and item.get_closest_marker("only_zookeeper") is None
    ]
    for each, _ in found:
        loops.setdefault(each.test, set()).add(each.loop)
    return {item for each, item in found if each.loop == _one_loop(each.test, loops[each.test])}


class OtherEngine:
    """The plugin behind `--engine`. A test that needs what the engine refuses is skipped."""

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Iterator[None]:
        try:
            return (yield)
        except Exception as error:
            refusals = list(_leaves(error))
            if not all(isinstance(refusal, UnsupportedError) for refusal in refusals):
                raise
            pytest.skip(f"refused: {refusals[0]}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _select(config, items, on_other_engines(items))


class RealServers:
    """The plugin behind `--real-servers`."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _select(config, items, on_real_servers(items))


def _select(config: pytest.Config, items: list[pytest.Item], selected: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


class Promises:
    """The plugin behind `--promises`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Does not even import what needs packages that only `make test-all` installs."""
        return True if collection_path in {self._root / name for name in ELSEWHERE} else None

    @pytest.hookimpl(wrapper=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Iterator[None]:
        """Leaves out at once what would be deselected: making items is half of collecting."""
        result = yield
        test, calls = metafunc.definition.nodeid, metafunc._calls
        marks = Marks.of(metafunc.definition)
        chosen = _promised((Combination.named(test, call), marks, call) for call in calls)
        # One is left in any case: without a call, pytest would make an item without parameters.
        calls[:] = list(chosen) or calls[:1]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _select(config, items, promised(items))


class EveryCombination:
    """The plugin behind `--every-combination`: whether each rotated test met all that it can."""

    _PROPERTY = "combination"

    def __init__(self) -> None:
        self._met: dict[str, set[tuple[str, str]]] = {}
        self._expected: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Has each report say what to expect: where there are workers, they alone collect."""
        rotated = [(each, item) for item in items if (each := Combination.of(item)).is_rotated]
        loops: dict[str, set[str]] = {}
        servers: dict[str, set[str]] = {}
        for each, _ in rotated:
            loops.setdefault(each.test, set()).add(each.loop)
            servers.setdefault(each.test, set()).add(each.server)
        for each, item in rotated:
            count = len(loops[each.test]) * len(servers[each.test])
            told = (each.test, each.loop, each.server, count)
            item.user_properties.append((self._PROPERTY, told))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, told in report.user_properties:
            if name == self._PROPERTY:
                test, loop, server, count = told  # type: ignore[misc]
                self._expected[test] = count
                if report.when == "call" or report.skipped:
                    self._met.setdefault(test, set()).add((loop, server))

    def missing(self) -> list[str]:
        """The tests that did not run on everything, each with what it ran on."""
        return [
            f"{test}: {len(met)} of {count}, {sorted('-'.join(each) for each in met)}"
            for test, count in sorted(self._expected.items())
            if len(met := self._met.get(test, set())) != count
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        is_worker = hasattr(session.config, "workerinput")
        is_green = session.exitstatus == pytest.ExitCode.OK
        if not is_worker and is_green and self._expected and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if missing := self.missing():
            terminalreporter.section("not on every event loop and every server", red=True)
            for line in missing:
                terminalreporter.line(line)
        elif self._expected:
            terminalreporter.line(
                f"{len(self._expected)} tests met each of their event loops and servers: "
                f"{sum(self._expected.values())} combinations"
            )


def configure(config: pytest.Config) -> None:
    """Registers the marks, and what the options ask for."""
    for mark, means in MARKERS.items():
        config.addinivalue_line("markers", f"{mark}: {means}")
    if config.getoption("promises"):
        config.pluginmanager.register(Promises(config.rootpath), "aiolead-promises")
    if config.getoption("real_servers"):
        config.pluginmanager.register(RealServers(), "aiolead-real-servers")
    if config.getoption("--engine") != ZOOKEEPER:
        config.pluginmanager.register(OtherEngine(), "aiolead-other-engine")
    if config.getoption("every_combination"):
        config.pluginmanager.register(EveryCombination(), "aiolead-every-combination")


# --- what is run over aiozk -----------------------------------------------------------------------

CLIENT_FIXTURES = frozenset({"a", "b", "client", "other", "local"})
"""The fixtures of tests/recipes/conftest.py that are clients."""


def choose(items: list[pytest.Item]) -> list[pytest.Item]:
    """Leaves the tests that run, and gives the others."""
    others = [item for item in items if not _is_meant(item)]
    items[:] = [item for item in items if _is_meant(item)]
    return others


def _is_meant(item: Any) -> bool:
    """Whether the test's clients come from where they can be adapted, on asyncio."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    loop, options = params.get("anyio_backend", ("asyncio", {}))
    if loop != "asyncio" or "loop_factory" in options or reaches_real_server(item):
        return False  # it has chosen for itself where it runs
    openers = {clients.connect, clients.in_memory}
    module = {value for value in vars(item.module).values() if inspect.isroutine(value)}
    module |= {value for value in vars(item.module).values() if inspect.isclass(value)}
    is_given = not CLIENT_FIXTURES.isdisjoint(item.fixturenames)
    return inspect.iscoroutinefunction(item.obj) and (is_given or not openers.isdisjoint(module))


# --- collecting -----------------------------------------------------------------------------------

try:
    from _pytest.assertion import rewrite

    PARTS = (rewrite._read_pyc, rewrite._rewrite_test, rewrite._write_pyc, rewrite.get_cache_dir)
    SUFFIX, STATE = rewrite.PYC_TAIL, rewrite.assertstate_key
except (ImportError, AttributeError):  # pragma: no cover
    # They are not public. A pytest without them rewrites each module in each worker.
    PARTS = None


class QuickCollection:
    """Collects without the garbage collector, which ignores the collected objects later. A plugin.

    pytest has no such option. Measured with `pytest --collect-only --promises tests`: 7 s of CPU
    time with it, 13 s without. With `rewrite_share`, two workers of a fresh clone collect five
    folders in 5 s of CPU time, in place of 8 s.
    """

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[Any]:
        gc.disable()
        try:
            rewrite_share(session.config)
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


def rewrite_share(config: pytest.Config) -> int:
    """Rewrite the assertions of this worker's share of the test modules, and compile them.

    All workers collect the same modules in the same order, at the same pace. In a fresh clone each
    of them would rewrite them all, which takes longer than to collect them. Whatever another worker
    has not finished when this one comes to it is rewritten here, too.

    Returns:
        how many modules were rewritten.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or PARTS is None or sys.dont_write_bytecode:
        return 0
    read, compiled, write, folder_of = PARTS
    number = int(worker["workerid"].removeprefix("gw"))
    if number >= worker["workercount"]:  # it takes the place of one that crashed
        return 0
    done = 0
    for path in sorted(set(_modules(config)))[number :: worker["workercount"]]:
        cached = folder_of(path) / f"{path.stem}{SUFFIX}"
        if read(path, cached) is None:
            cached.parent.mkdir(parents=True, exist_ok=True)
            source, code = compiled(path, config)
            write(config.stash[STATE], code, source, cached)
            done += 1
    return done


def _modules(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = config.rootpath / argument.partition("::")[0]
        if path.is_dir():
            yield from path.rglob("test_*.py")
