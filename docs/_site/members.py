"""Which members the reference shows where: each of them once.

A class that inherits from the same private base as a class before it on its page, such as
`ReentrantLock` after `Lock`, shows the members of its own, and names the others with links. So does
a class of `aiolead.blocking`, for the members that its async counterpart describes as well.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

API = Path(__file__).resolve().parents[1] / "reference" / "api"
BLOCKING = "aiolead.blocking"

NAMES = re.compile(r"^<!-- reference: (the rest of )?([\w.]+) -->\n((?:.+\n?)*)", re.MULTILINE)


def names_on(page: str) -> list[tuple[str, str]]:
    """The names that a page documents, each after its module."""
    return [
        (module, name)
        for rest, module, text in NAMES.findall(page)
        for name in (_unnamed(module) if rest else re.findall(r"`(\w+)`", text))
    ]


@functools.cache
def _unnamed(module: str) -> list[str]:
    """The public names of a module that no page names."""
    named = {
        name
        for page in API.glob("*.md")
        for rest, where, text in NAMES.findall(page.read_text("utf-8"))
        if where == module and not rest
        for name in re.findall(r"`(\w+)`", text)
    }
    return [name for name in importlib.import_module(module).__all__ if name not in named]


@functools.cache
def shown_elsewhere() -> dict[str, dict[str, str]]:
    """By the full name of a class: its members that are documented in another class, and which."""
    found: dict[str, dict[str, str]] = {}
    for page in sorted(API.glob("*.md")):
        before: list[str] = []
        for full in _classes(page):
            for other in before:
                for member in _members(_class(full)):
                    if _raw(_class(other), member) is _raw(_class(full), member):
                        found.setdefault(full, {}).setdefault(member, other)
            before.append(full)
    blocking = (full for page in API.glob("*.md") for full in _classes(page, of=BLOCKING))
    for full in blocking:
        name = full.removeprefix(f"{BLOCKING}.")
        for other in (f"aiolead.{name}", f"aiolead.types.{name}"):
            if other in _all_classes():
                for member in _members(_class(full)):
                    if _said(_class(full), member) == _said(_class(other), member):
                        shown = found.get(other, {}).get(member, other)
                        found.setdefault(full, {})[member] = shown
    return found


def documented_at(full: str) -> str:
    """The full name under which a member of a class is documented, by its full name."""
    cls, _, member = full.rpartition(".")
    other = shown_elsewhere().get(cls, {}).get(member)
    return f"{other}.{member}" if other else full


def _classes(page: Path, of: str = "aiolead") -> list[str]:
    """The full names of the classes on a page, in their order."""
    names = (f"{module}.{name}" for module, name in names_on(page.read_text("utf-8")))
    return [full for full in names if full.startswith(of) and inspect.isclass(_class(full))]


@functools.cache
def _all_classes() -> frozenset[str]:
    return frozenset(full for page in API.glob("*.md") for full in _classes(page))


def _class(full: str) -> type:
    module, _, name = full.rpartition(".")
    found: type = getattr(importlib.import_module(module), name)
    return found


def _members(cls: type) -> list[str]:
    """The public methods and properties of a class, from those of its bases that are aiolead's."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("aiolead")]
    names = dict.fromkeys(name for base in bases for name in vars(base) if name[0] != "_")
    documented = (property, classmethod, staticmethod)
    return [
        name
        for name in names
        if inspect.isroutine(raw := _raw(cls, name)) or isinstance(raw, documented)
    ]


def _raw(cls: type, member: str) -> object:
    return inspect.getattr_static(cls, member, None)


def _said(cls: type, member: str) -> str | None:
    return inspect.getdoc(getattr(cls, member, None))
