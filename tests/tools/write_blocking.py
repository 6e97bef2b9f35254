"""Writes `aiolead/blocking/__init__.py`: the classes for threads, from the async ones.

    python -m tests.tools.write_blocking        # and the exported names, see `write_exports`

The file is committed, rather than made when a wheel is built: so a clone, an editable install and a
wheel have the same source without a further step, and readers find the lines of a traceback.

| in aiolead | in aiolead.blocking |
|---|---|
| `async def`, or a method that returns a `PendingReply` | a call that waits |
| a method that returns the context of a hold | the same, with `on_lost=`; entered with `with` |
| a method that returns `Self` | the same |
| a property | read at once, in any thread; those in `ASKED` in the event loop |
| another method | called in the event loop; those in `AT_ONCE` at once |
| `async with`, `async for` | `with`, `for` |

The tables below have all that cannot be derived. `BY_HAND` has the bases that are written by hand.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    from tests.tools import write_exports

    write_exports.write()

import aiolead
import aiolead.types

FOLDER = Path(aiolead.__file__).parent / "blocking"
if __name__ == "__main__":
    # The old text is not imported, since it may be stale or have the marks of a merge.
    sys.modules["aiolead.blocking"] = types.ModuleType("aiolead.blocking")
    sys.modules["aiolead.blocking"].__path__ = [str(FOLDER)]

from aiolead.blocking import _connect, _proxy  # noqa: E402

TARGET = FOLDER / "__init__.py"

ELSEWHERE = {
    "ClientLease": "for recipes and adapters",
    "ClientWatch": "for recipes and adapters",
    "Connection": "written by hand: the thread begins and ends with it",
    "Hosts": "an argument of `connect`",
    "Partitioner": "its workers are cancelled when an item moves, which no thread can be",
    "PendingReply": "a call waits",
}
"""Async classes that threads do not have, and why."""

SYNC = {"CampaignState": "has a term", "Picker": "takes a view, and users construct it"}
"""Classes without anything async that threads have, and why."""

NOT_HERE = {
    "Client": {
        "aclose": "leaving `blocking.connect` closes the client",
        "pipelined": "for calls without an await between them, and each call of a thread waits",
    },
    "Election": {"running": "a thread that calls `run` is that"},
    "Tenure": {"add_lost_callback": "`lost` and `on_lost` are for threads"},
}
"""Members of classes, and of their subclasses, that threads do not have, and why."""

ASKED = {
    "credentials": "it changes the session",
    "current": "it has two values, which belong together",
    "unread": "it looks at several collections",
}
"""Properties that are read in the event loop, since they take several steps, and why."""

BEGUN = {
    "credentials": "it changes the session",
    "detach": "it changes the session",
    "update_hosts": "the client has to move",
}
"""Members that need the event loop, as those that give an object for threads do, and why."""

OF_TASK = {"hold_count": "it counts the blocks of the thread"}
"""Properties that are read in the thread's task, and why."""

AT_ONCE = {
    "children": "reads a finished copy",
    "chroot": "makes a view",
    "fenced": "makes an object that sends nothing yet",
    "get": "reads a finished copy",
    "healthy": "may be called by any thread, also in a forked child",
    "read": "a constant",
    "transaction": "makes an object that sends nothing yet",
    "write": "a constant",
}
"""Members that are called or read at once, although their names and types do not show it."""

BY_HAND: dict[str, type[_proxy.Proxy]] = {
    "Client": _proxy.ClientBase,
    "Consumption": _proxy.Context,
    "Election": _proxy.ElectionBase,
    "MultiHeld": _proxy.HoldBase,
    "Reads": _proxy.ReadsBase,
    "Tenure": _proxy.TenureBase,
    "TenureContext": _proxy.HoldContext,
}
"""The bases of classes that have a part that is written by hand. Its members come first."""

WORDS = {
    "AsyncIterator": "Iterator",
    "CoordinationClient": "Client",
    "FencedClient": "Fence",
    "InstanceSource": "ServiceView",
}
"""Names in annotations, and what they are for threads."""

PUBLIC = (
    "aiolead",
    "aiolead.types",
    "aiolead.errors",
    "aiolead.model",
    "aiolead.events",
    "aiolead.testing",
)
"""Where names are imported from, first come first."""

HEAD = '''\
"""aiolead for programs without an event loop: the same names, called and entered from threads.

    from aiolead import blocking

    with blocking.connect("zk1,zk2,zk3/app") as client:
        lock = blocking.Lock(client, "/invoices")
        with lock as held:
            for invoice in invoices:
                held.check()
                send(invoice)

The client and the recipes of `aiolead` run in an event loop in a thread of its own. Nothing cancels
a thread: `held.check()`, `held.lost` and `on_lost` report a loss.
"""

# Written by `python -m tests.tools.write_blocking`: do not edit. Each class stands for the async
# class of its name, has its signatures and docstrings, and passes calls on to the object in the
# event loop. `_proxy` has what is written by hand, `_loop` the thread with the event loop, `_inbox`
# the way into it, and `_thread_task` the task that acts for a thread.
# ruff: noqa: D417, F401
# mypy: disable-error-code="no-any-return"
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations
'''
ON_LOST = "on_lost: Callable[[TenureLost], object] | None = None"
Bound = dict[str, str]
"""Type variables, and what stands for them."""


# --- the classes ---------------------------------------------------------------------------------


def public_classes() -> dict[str, type]:
    """The public classes of aiolead, by name."""
    return {
        name: thing
        for module in (aiolead, aiolead.types)
        for name in module.__all__
        if inspect.isclass(thing := getattr(module, name))
    }


def is_async(cls: type) -> bool:
    """Whether a class has something to await."""
    return any(
        inspect.iscoroutinefunction(member) or name in ("__aiter__", "__await__")
        for base in cls.__mro__
        for name, member in vars(base).items()
    )


SOURCES: dict[str, type] = {
    name: cls
    for name, cls in sorted(public_classes().items())
    if (is_async(cls) or name in SYNC) and name not in ELSEWHERE
}
"""The async classes that threads have, by name."""


def is_constructed(name: str) -> bool:
    """Whether users construct the class, from an object that threads have."""
    first, *_ = inspect.signature(SOURCES[name]).parameters.values()
    takes_ours = first.annotation in {*WORDS, "Holdable"}
    return takes_ours and (name in aiolead.__all__ or name in SYNC)


def counterpart(kind: type) -> str | None:
    """The name of the class for threads that values of a type have; None if they stay as they are.

    See `_proxy.wrap`.
    """
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiolead"]
    return next((base.__name__ for base in ours if base.__name__ in SOURCES), None)


def _above(name: str) -> str | None:
    """The base of a class for threads that is generated as well; None if it has one by hand."""
    bases = () if name in BY_HAND else SOURCES[name].__mro__[1:]
    return next((base.__name__ for base in bases if base.__name__ in SOURCES), None)


def _is_entered(source: type) -> bool:
    """Whether `async with` enters objects of a class; some only raise an error that says how."""
    enter = getattr(source, "__aenter__", None)
    return enter is not None and enter.__annotations__["return"] != "NoReturn"


def _members(name: str) -> dict[str, tuple[type, Any]]:
    """The public members of an async class and where each is defined, bases first."""
    source = SOURCES[name]
    hidden = {each for base in source.__mro__ for each in NOT_HERE.get(base.__name__, ())}
    special = ("__aenter__", "__aiter__", "__contains__", "__iter__", "__len__")
    return {
        member: (base, thing)
        for base in reversed(source.__mro__[:-1])
        for member, thing in list(vars(base).items())
        if member not in hidden and (not member.startswith("_") or member in special)
    }


# --- annotations ---------------------------------------------------------------------------------


def _text(argument: object, bound: Bound) -> str:
    """A type argument, as it is written."""
    if isinstance(argument, type) and not typing.get_args(argument):
        return argument.__name__
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", repr(argument))
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    return re.sub(r"[~+-](\w+)", lambda name: bound.get(name[1], name[1]), text)


def _bindings(source: type) -> dict[type, Bound]:
    """For a class and each of its bases: its type variables, by what stands for them."""
    found: dict[type, Bound] = {}

    def visit(cls: type, bound: Bound) -> None:
        found.setdefault(cls, bound)
        for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
            origin = typing.get_origin(base) or base
            names = [each.__name__ for each in getattr(origin, "__parameters__", ())]
            if isinstance(origin, type):
                arguments = [_text(each, bound) for each in typing.get_args(base)]
                visit(origin, dict(zip(names, arguments, strict=False)))

    visit(source, {})
    return found


def _object(name: str) -> Any:
    """The object of a name in the modules of aiolead."""
    for module in sorted(each for each in sys.modules if each.startswith("aiolead")):
        if name in vars(sys.modules[module]):
            return vars(sys.modules[module])[name]
    raise NameError(name)


def _entered_for(context: type) -> str:
    """The type that entering an async context gives."""
    for base in context.__mro__:
        for generic in base.__dict__.get("__orig_bases__", ()):
            if counterpart(typing.get_origin(generic) or object) == "TenureContext":
                return _text(typing.get_args(generic)[0], {})
    returns: str = context.__aenter__.__annotations__["return"]  # type: ignore[attr-defined]
    return returns


def docstring(thing: object) -> str:
    """The docstring of something async, with the code for threads; without who may call that."""

    def here(found: re.Match[str]) -> str:
        if found[1] is None:
            return "a " if found[0] == "an " else ""
        return f"blocking.{found[1]}" if found[1] in SOURCES else found[0]

    text = re.sub(
        r"\n\nThreads and forks:.*?(?=\n\n|\Z)", "", inspect.getdoc(thing) or "", flags=re.DOTALL
    )
    if hasattr(thing, "__dataclass_fields__"):  # these are properties here
        text = text.partition("\n\nAttributes:")[0]
    return re.sub(
        r"\ban (?=`async )|\b(?:async|await) (?=\w)|\baiolead\.(?:types\.)?(\w+)", here, text
    )


# --- the text ------------------------------------------------------------------------------------


DEFAULTS = {"P": "dict[str, bytes]", "V": "bytes"}
"""The type variables that have a default, for type checkers."""

LAZY = """
def __getattr__(name: str) -> ModuleType:
    if name != "admin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return importlib.import_module(f"{__name__}.admin")


def __dir__() -> list[str]:
    return [*__all__, "admin"]
"""
"""The calls of operators are a module, which is imported when it is needed."""


class Writer:
    """The text of the module, and what it has to import."""

    def __init__(self) -> None:
        self._variables: dict[str, typing.TypeVar] = {}
        self._imports: dict[str, set[str]] = {}
        """By module: the names that the text needs."""
        self._types: dict[str, set[str]] = {}
        """The same, for names that only annotations need."""
        self._later: set[str] = set()
        """The classes of default values that are not imported before they are used."""

    def text(self) -> str:
        body: list[str] = []
        written: list[str] = []
        for name in SOURCES:
            body += self._class(name, written)
        body += self._connect()
        public = sorted([*SOURCES, "Connection", "connect"])
        self._import("typing", "TYPE_CHECKING", "Any", "TypeVar")
        self._import("types", "ModuleType")
        head = [HEAD, "import importlib", "import aiolead", *_import_lines(self._imports)]
        needed = set().union(*self._imports.values())
        types = {
            module: names - needed for module, names in self._types.items() if module != "aiolead"
        }
        head += ["if TYPE_CHECKING:", *(f"    {line}" for line in _import_lines(types))]
        if self._later:
            head += ["else:", *(f'    {name} = Later("{name}")' for name in sorted(self._later))]
        head += [f"__all__ = {public!r}", *map(self._variable, sorted(self._variables))]
        head += [LAZY]
        return "\n".join([*head, *body, ""])

    def _import(self, module: str, *names: str, is_type: bool = False) -> None:
        (self._types if is_type else self._imports).setdefault(module, set()).update(names)

    def _variable(self, name: str) -> str:
        if name in DEFAULTS:
            # The typing module has variables with a default from Python 3.13 on.
            return (
                "if TYPE_CHECKING:\n"
                "    from typing_extensions import TypeVar as DefaultTypeVar\n"
                f'    {name} = DefaultTypeVar("{name}", default={DEFAULTS[name]})\n'
                f'else:\n    {name} = TypeVar("{name}")'
            )
        is_covariant = self._variables[name].__covariant__
        return f'{name} = TypeVar("{name}"{", covariant=True" if is_covariant else ""})'

    # --- annotations and defaults ----------------------------------------------------------------

    def annotation(self, annotation: object, bound: Bound | None = None) -> str:
        """An annotation for threads; notes what has to be imported for it."""
        text = annotation if isinstance(annotation, str) else _text(annotation, {})
        return re.sub(
            r"""(['"]).*?\1|\b[A-Za-z_][\w.]*""",
            lambda word: word[0] if word[1] else self._word(word[0], bound or {}),
            re.sub(r"^PendingReply\[(.*)\]$", r"\1", text),
        )

    def _word(self, word: str, bound: Bound) -> str:
        word = WORDS.get(word, word)
        module, _, _ = word.partition(".")
        if module != word:
            self._import(module, is_type=True)
            return word
        if word in bound:
            return self.annotation(bound[word])
        if word in SOURCES or word == "Connection" or hasattr(builtins, word):
            return word
        if word == "Holdable":
            # Not just any object with these methods: it has to be one of this client.
            held = {name for name in SOURCES if hasattr(SOURCES[name], "acquire")}
            return " | ".join(sorted(held - {"MultiLock"}))
        for place in ("collections.abc", "typing"):
            if word in sys.modules[place].__all__:
                self._import(place, word)
                return word
        for place in PUBLIC:
            if hasattr(importlib.import_module(place), word) and not word.endswith("Context"):
                name = place.replace("aiolead", ".", 1) if place != "aiolead" else ".."
                self._import(name, word, is_type=True)
                return word
        meant = _object(word)
        if isinstance(meant, typing.TypeVar):
            self._variables[word] = meant
            return word
        if isinstance(meant, type) and (context := counterpart(meant)):
            return f"{context}[{self.annotation(_entered_for(meant))}]"
        if isinstance(meant, type) and not typing.get_args(meant):
            return "Any"  # it is not public
        return self.annotation(_text(meant, {}))

    def _default(self, value: object) -> str:
        if inspect.isbuiltin(value):
            self._import(value.__module__)
            return f"{value.__module__}.{value.__name__}"
        if type(value) in (types.NoneType, bool, int, float, str, bytes, tuple):
            return repr(value)
        if isinstance(value, type) and value.__module__ == "builtins":
            return value.__name__
        cls = type(value)
        member = next(each for each in dir(cls) if getattr(cls, each) is value)
        if cls.__name__ in aiolead.types.__all__:
            self._import("._proxy", "Later")
            self._later.add(cls.__name__)
        else:
            self._import("..model", cls.__name__)
        return f"{cls.__name__}.{member}"

    def _signature(
        self, function: Any, bound: Bound, *extra: str, is_overload: bool = False
    ) -> tuple[str, str, str]:
        """The parameters of a method, those that a call of the async one passes, and its type."""
        signature = inspect.signature(function)
        taken, passed = [], []
        is_keyword = False
        for each in signature.parameters.values():
            if each.annotation == "Watch | None":
                continue  # one-shot watches are for recipes
            if each.kind is each.KEYWORD_ONLY and not is_keyword:
                taken.append("*")
            is_keyword = is_keyword or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
            text = ("*" if each.kind is each.VAR_POSITIONAL else "") + each.name
            if each.name == "self":
                # It is annotated in functions that several classes share, too.
                is_annotated = is_overload and each.annotation is not each.empty
                text += f": {self.annotation(each.annotation)}" if is_annotated else ""
                taken.append(text)
                continue
            passed.append(f"{each.name}={text}" if each.kind is each.KEYWORD_ONLY else text)
            if each.annotation is not each.empty:
                text += f": {self.annotation(each.annotation, bound)}"
            if each.default is not each.empty:
                text += f" = {self._default(each.default)}"
            taken.append(text)
        if extra:
            taken += ["*"] * (not is_keyword) + list(extra)
        returns = self.annotation(signature.return_annotation, bound)
        return ", ".join(taken), ", ".join(passed), returns

    # --- classes ---------------------------------------------------------------------------------

    def _class(self, name: str, written: list[str]) -> Iterator[str]:
        """The class of a name, unless it was written, after its base."""
        if name in written:
            return
        above, source = _above(name), SOURCES[name]
        base = BY_HAND.get(name, _proxy.Block if _is_entered(source) else _proxy.Proxy)
        if above is not None:
            yield from self._class(above, written)
        written.append(name)
        bindings = _bindings(source)
        parameters = [each.__name__ for each in getattr(source, "__parameters__", ())]
        for each in parameters:
            self._word(each, {})
        if above is not None:
            # As strings: their names are imported for type checkers only.
            arguments = [f'"{self.annotation(each)}"' for each in bindings[SOURCES[above]].values()]
            bases = above + (f"[{', '.join(arguments)}]" if arguments else "")
            if parameters and not arguments:
                self._import("typing", "Generic")
                bases += f", Generic[{', '.join(parameters)}]"
        else:
            self._import("._proxy", base.__name__)
            bases = base.__name__
            if parameters:
                self._import("typing", "Generic")
                bases += f", Generic[{', '.join(parameters)}]"
        place = "aiolead" if name in aiolead.__all__ else "aiolead.types"
        any_type = f"[{', '.join(['Any'] * len(parameters))}]" if parameters else ""
        if getattr(source, "__final__", False):
            self._import("typing", "final")
            yield "@final"
        yield f"class {name}({bases}):"
        yield from _docstring(docstring(base if name in BY_HAND and base.__doc__ else source), 4)
        yield f"    _target: {place}.{name}{any_type}"
        yield ""
        if is_constructed(name):
            yield from self._constructor(name, f"{place}.{name}", bindings)
        inherited = {*dir(base)} | (_members(above).keys() if above else set())
        for member, (owner, thing) in _members(name).items():
            if member not in inherited:
                yield from self._member(name, member, thing, owner, bindings.get(owner, {}))

    def _constructor(self, name: str, source: str, bindings: dict[type, Bound]) -> Iterator[str]:
        owner = next(base for base in SOURCES[name].__mro__ if "__init__" in vars(base))
        for each in typing.get_overloads(owner.__init__):
            self._import("typing", "overload")
            taken, *_ = self._signature(each, bindings[owner], is_overload=True)
            yield "    @overload"
            yield f"    def __init__({taken}) -> None: ..."
        taken, passed, _ = self._signature(owner.__init__, bindings[owner])
        yield f"    def __init__({taken}) -> None:"
        yield f"        self._make({source}, {passed})"
        yield ""

    def _member(
        self, name: str, member: str, thing: Any, owner: type, bound: Bound
    ) -> Iterator[str]:
        if member == "__aenter__":
            if _is_entered(SOURCES[name]):
                returns = thing.__annotations__["return"]
                yield f"    def __enter__(self) -> {self.annotation(returns, bound)}:"
                yield "        return self._enter()"
                yield ""
        elif member == "__aiter__":
            yield from self._iterator(name, thing, bound)
        elif isinstance(thing, (property, types.MemberDescriptorType)):
            yield from self._property(member, thing, owner, bound)
        elif isinstance(thing, types.FunctionType):
            yield from self._method(member, thing, bound)

    def _iterator(self, name: str, thing: Any, bound: Bound) -> Iterator[str]:
        step = getattr(SOURCES[name], "__anext__", None)
        if step is None:
            returns = self.annotation(thing.__annotations__["return"], bound)
            yield f"    def __iter__(self) -> {returns}:"
            yield "        return self._iterator()"
        else:
            self._import("typing", "Self")
            yield "    def __iter__(self) -> Self:"
            yield "        return self"
            yield ""
            returns = self.annotation(step.__annotations__["return"], bound)
            yield f"    def __next__(self) -> {returns}:"
            yield "        return self._next()"
        yield ""

    def _property(self, member: str, thing: Any, owner: type, bound: Bound) -> Iterator[str]:
        annotations = thing.fget.__annotations__ if isinstance(thing, property) else {}
        found = annotations.get("return", owner.__annotations__.get(member))
        returns = self.annotation(found, bound)
        yield "    @property"
        yield f"    def {member}(self) -> {returns}:"
        yield from _docstring(docstring(thing) or f"See `{owner.__name__}`.", 8)
        value = f"self._target.{member}"
        if self._is_ours(returns):
            value = f"self._wrap({value})"
        if member in OF_TASK:
            value = f"self._of_task(lambda: {value})"
        elif member not in AT_ONCE and (member in ASKED or self._is_ours(returns)):
            way = "begin" if member in BEGUN else "ask"
            value = f"self._loop.{way}(lambda: {value})"
        yield f"        return {value}"
        yield ""

    def _method(self, member: str, function: types.FunctionType, bound: Bound) -> Iterator[str]:
        returned = str(function.__annotations__.get("return", ""))
        kind = function.__globals__.get(returned.partition("[")[0])
        context = counterpart(kind) if isinstance(kind, type) else None
        is_hold = context is not None and issubclass(BY_HAND.get(context, object), _proxy.Context)
        if is_hold:
            self._import("collections.abc", "Callable")
            self._import("..", "TenureLost", is_type=True)
        extra = [ON_LOST] if is_hold else []
        taken, passed, returns = self._signature(function, bound, *extra)
        yield f"    def {member}({taken}) -> {returns}:"
        said = docstring(function)
        yield from _docstring(_with_on_lost(said) if is_hold else said, 8)
        call = f"self._target.{member}({passed})"
        is_ours = self._is_ours(returns)
        if member == "__contains__":
            yield f"        return {passed} in self._target"
        elif member in ("__iter__", "__len__"):
            yield f"        return {member.strip('_')}(self._target)"
        elif is_hold:
            yield f"        return self._hold({call}, on_lost)"
        elif inspect.iscoroutinefunction(function):
            assert returns not in SOURCES, f"{member}: nothing wraps what it returns"
            yield f"        return self._loop.call(lambda: {call})"
        elif returned.startswith("PendingReply["):
            yield f"        return self._loop.request(lambda: {call})"
        elif returned == "Self":
            yield f"        {call}"
            yield "        return self"
        else:
            value = f"self._wrap({call})" if is_ours else call
            way = "begin" if is_ours or member in BEGUN else "ask"
            value = value if member in AT_ONCE else f"self._loop.{way}(lambda: {value})"
            yield f"        return {value}"
        yield ""

    def _is_ours(self, annotation: str) -> bool:
        """Whether values of a type may be, or contain, what stands for an async object."""
        return not set(re.findall(r"\w+", annotation)).isdisjoint(
            {*SOURCES, *self._variables, "Iterator"}
        )

    def _connect(self) -> Iterator[str]:
        ours, _, _ = self._signature(_connect.connect, {})
        taken, passed, _ = self._signature(aiolead.connect, {})
        self._import("._connect", "Connection")
        self._import("", "_connect")
        options = ours.partition("*, ")[2]
        yield f"def connect({taken}, {options}) -> Connection:"
        yield from _docstring(docstring(_connect.connect), 4)
        yield "    return _connect.connect("
        yield f"        lambda: aiolead.connect({passed}),"
        yield "        backend=backend, backend_options=backend_options)"


def _with_on_lost(text: str) -> str:
    """A docstring whose arguments end with `on_lost`."""
    said = "    on_lost: called with the loss, in a thread of its own, as soon as it is known."
    return re.sub(r"(\bArgs:\n(?: +.*\n?)+)", lambda args: f"{args[1].rstrip()}\n{said}\n", text)


def _docstring(text: str, indent: int) -> Iterator[str]:
    """The lines of a docstring."""
    if not text:
        return
    text = text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    first, *rest = text.splitlines()
    end = '"""'
    margin = " " * indent
    yield f'{margin}"""{first}' + ("" if rest else end)
    yield from (f"{margin}{line}".rstrip() for line in rest)
    if rest:
        yield margin + end


def _import_lines(imports: dict[str, set[str]]) -> Iterator[str]:
    for module, names in sorted(imports.items()):
        if not module:
            yield f"from . import {', '.join(sorted(names))}"
        elif names:
            yield f"from {module} import {', '.join(sorted(names))}"
        else:
            yield f"import {module}"


def generated() -> str:
    """The text that the file should have."""
    text = Writer().text()
    for command in (("check", "--select", "I", "--fix"), ("format",)):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(generated(), "utf-8")
