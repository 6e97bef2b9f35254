"""Writes `aiolead/blocking/__init__.pyi`, the types of the classes there.

    python -m tests.blocking.stub

Those classes are made from the async ones at run time, which no type checker follows.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiolead import blocking
from aiolead.blocking import _mirror

STUB = Path(blocking.__file__).with_suffix(".pyi")

HEAD = '''\
"""What type checkers read. Made by `python -m tests.blocking.stub`: do not edit."""

# fmt: off
# ruff: noqa
'''
EXIT = (
    "(self, exc_type: type[BaseException] | None, exc: BaseException | None, "
    "traceback: TracebackType | None) -> None"
)
PUBLIC = (
    "aiolead",
    "aiolead.types",
    "aiolead.errors",
    "aiolead.model",
    "aiolead.events",
    "aiolead.testing",
)
"""Where names are imported from, first come first."""

Bound = dict[str, str]
"""Type variables, and what stands for them."""


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
        if hasattr(sys.modules[module], name):
            return getattr(sys.modules[module], name)
    raise NameError(name)


class Stub:
    """The text of the stub, and what it has to import."""

    def __init__(self) -> None:
        self._variables: set[str] = set()
        self._modules: set[str] = set()
        self._imports: dict[str, set[str]] = {"types": {"TracebackType"}}

    def text(self) -> str:
        body = [line for name in sorted(_mirror.NAMES) for line in self._class(name)]
        body += self._connect()
        names = sorted(blocking.__all__)
        head = [HEAD.rstrip(), *(f"import {module}" for module in sorted(self._modules))]
        self._imports.setdefault("typing", set()).add("TypeVar")
        for module, imported in sorted(self._imports.items()):
            head.append(f"from {module} import {', '.join(sorted(imported))}")
        head.append("from . import admin as admin")
        head.append(f"\n__all__ = {names!r}\n")
        head += [f'{name} = TypeVar("{name}")' for name in sorted(self._variables)]
        return "\n".join([*head, *body, ""])

    # --- annotations -----------------------------------------------------------------------------

    def annotation(self, text: object, bound: Bound) -> str:
        """As it stands in the stub; notes what has to be imported for it."""
        return re.sub(
            r"""(['"]).*?\1|\b[A-Za-z_][\w.]*""",
            lambda word: word[0] if word[1] else self._word(word[0], bound),
            str(_mirror.threaded(text)),
        )

    def _word(self, word: str, bound: Bound) -> str:
        module, _, _ = word.partition(".")
        if module != word:
            self._modules.add(module)
            return word
        if word in bound:
            return self.annotation(bound[word], {})
        if word in blocking.__all__ or hasattr(builtins, word):
            return word
        if word == "Holdable":
            held = {name for name in _mirror.NAMES if hasattr(getattr(blocking, name), "acquire")}
            return " | ".join(sorted(held - {"MultiLock"}))
        if word == "InstanceSource":
            return "ServiceView"
        for place in ("collections.abc", "typing"):
            if word in sys.modules[place].__all__:
                self._imports.setdefault(place, set()).add(word)
                return word
        for place in PUBLIC:
            if hasattr(importlib.import_module(place), word) and not word.endswith("Context"):
                name = place.replace("aiolead", ".", 1) if place != "aiolead" else ".."
                self._imports.setdefault(name, set()).add(word)
                return word
        meant = _object(word)
        if isinstance(meant, typing.TypeVar):
            self._variables.add(word)
            return word
        if isinstance(meant, type) and (context := _mirror.name_for(meant)):
            return f"{context}[{self.annotation(_entered_for(meant), {})}]"
        if isinstance(meant, type) and not typing.get_args(meant):
            return self._word("Any", {})  # it is not public
        return self.annotation(_text(meant, {}), {})

    # --- classes ---------------------------------------------------------------------------------

    def _class(self, name: str) -> Iterator[str]:
        cls = getattr(blocking, name)
        bindings = _bindings(cls._source)
        above = next((base for base in cls.__mro__[1:] if base.__name__ in _mirror.NAMES), None)
        parameters = (
            [each.__name__ for each in cls._source.__parameters__]
            if above is None and (hasattr(cls._source, "__parameters__"))
            else []
        )
        bases = []
        if above is not None:
            arguments = [self.annotation(each, {}) for each in bindings[above._source].values()]
            bases.append(above.__name__ + (f"[{', '.join(arguments)}]" if arguments else ""))
        elif parameters:
            self._variables.update(parameters)
            self._imports.setdefault("typing", set()).add("Generic")
            bases.append(f"Generic[{', '.join(parameters)}]")
        yield ""
        if getattr(cls._source, "__final__", False):
            self._imports.setdefault("typing", set()).add("final")
            yield "@final"
        yield f"class {name}{f'({bases[0]})' if bases else ''}:"
        yield f"    {_summary(cls)}"
        if name in _mirror.MADE:
            yield from self._constructor(cls, bindings)
        for base in cls.__mro__[:-1]:
            if base is above:
                break
            members = {**inspect.get_annotations(base), **vars(base)}
            for attribute, member in members.items():
                yield from self._member(cls, bindings, attribute, member)

    def _constructor(self, cls: Any, bindings: dict[type, Bound]) -> Iterator[str]:
        owner = next(base for base in cls._source.__mro__ if "__init__" in vars(base))
        every = typing.get_overloads(owner.__init__)
        if every:
            self._imports.setdefault("typing", set()).add("overload")
        for each in every or [owner.__init__]:
            if every:
                yield "    @overload"
            signature = self._signature(inspect.signature(each), bindings[owner])
            yield f"    def __init__{signature}: ..."

    def _member(
        self, cls: Any, bindings: dict[type, Bound], name: str, member: Any
    ) -> Iterator[str]:
        special = {"__enter__": "__aenter__", "__next__": "__anext__"}.get(name, name)
        owner = next((base for base in cls._source.__mro__ if special in vars(base)), None)
        bound = bindings.get(owner, {}) if owner else {}
        if name == "__exit__":
            yield f"    def __exit__{EXIT}: ..."
        elif special != name:
            returns = vars(owner)[special].__annotations__["return"]
            yield f"    def {name}(self) -> {self.annotation(returns, bound)}: ..."
        elif name == "__iter__" and hasattr(cls._source, "__aiter__"):
            yield f"    def __iter__(self) -> {self._iterated(cls, bindings)}: ..."
        elif name in ("__iter__", "__len__", "__contains__"):
            signature = inspect.signature(vars(owner)[name])
            yield f"    def {name}{self._signature(signature, bound)}: ..."
        elif name == "__bool__":
            self._imports.setdefault("typing", set()).add("NoReturn")
            yield "    def __bool__(self) -> NoReturn: ..."
        elif name.startswith("_"):
            return
        elif isinstance(member, str):
            yield f"    {name}: {self.annotation(member, bound)}"
        elif isinstance(member, property):
            yield "    @property"
            returns = self.annotation(member.fget.__annotations__["return"], bound)
            yield f"    def {name}(self) -> {returns}:"
            yield f"        {_summary(member)}"
        elif inspect.isfunction(member):
            yield f"    def {name}{self._signature(inspect.signature(member), bound)}:"
            yield f"        {_summary(member)}"

    def _iterated(self, cls: Any, bindings: dict[type, Bound]) -> str:
        if hasattr(cls, "__next__"):
            return self.annotation("Self", {})
        owner = next(base for base in cls._source.__mro__ if "__aiter__" in vars(base))
        return self.annotation(vars(owner)["__aiter__"].__annotations__["return"], bindings[owner])

    def _signature(self, signature: inspect.Signature, bound: Bound) -> str:
        made = []
        is_keyword = False
        for each in signature.parameters.values():
            if each.kind is each.KEYWORD_ONLY and not is_keyword:
                made.append("*")
            is_keyword = is_keyword or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
            text = ("*" if each.kind is each.VAR_POSITIONAL else "") + each.name
            if each.annotation is not each.empty:
                text += f": {self.annotation(each.annotation, bound)}"
            if each.default is not each.empty:
                is_plain = each.default is None or type(each.default) in (
                    bool,
                    int,
                    float,
                    str,
                    bytes,
                )
                text += f" = {each.default!r}" if is_plain else " = ..."
            made.append(text)
        return f"({', '.join(made)}) -> {self.annotation(signature.return_annotation, bound)}"

    def _connect(self) -> Iterator[str]:
        yield ""
        yield "@final"
        yield "class Connection:"
        yield f"    {_summary(blocking.Connection)}"
        yield "    def __enter__(self) -> Client: ..."
        yield f"    def __exit__{EXIT}: ..."
        yield ""
        yield f"def connect{self._signature(inspect.signature(blocking.connect), {})}:"
        yield f"    {_summary(blocking.connect)}"


def _entered_for(context: type) -> str:
    """The type that entering an async context gives."""
    for base in context.__mro__:
        for generic in base.__dict__.get("__orig_bases__", ()):
            if _mirror.name_for(typing.get_origin(generic) or object) == "TenureContext":
                return _text(typing.get_args(generic)[0], {})
    returns: str = context.__aenter__.__annotations__["return"]  # type: ignore[attr-defined]
    return returns


def _summary(thing: object) -> str:
    """The first sentence of a docstring, or nothing but the three dots."""
    first, _, _ = (inspect.getdoc(thing) or "").partition("\n\n")
    sentence = re.split(r"(?<=\.)\s", " ".join(first.split()))[0].rstrip(":")
    if not sentence:
        return "..."
    escaped = sentence.replace("\\", "\\\\")
    return f'"""{escaped}"""'


def stub() -> str:
    """The text that the file should have."""
    return Stub().text()


if __name__ == "__main__":
    STUB.write_text(stub())
