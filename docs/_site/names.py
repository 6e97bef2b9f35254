"""Names of ours in signatures and docstrings lead to where they are documented.

Classes are defined in modules that users never see; signatures name them by those. Other projects'
names, and what has no place in the reference (type variables, private bases), stay plain text.
"""

import builtins
import functools
import importlib
import inspect
import re
from types import ModuleType

from docutils import nodes
from members import documented_at
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import find_pending_xref_condition

MODULES = (
    "aiolead",
    "aiolead.errors",
    "aiolead.events",
    "aiolead.model",
    "aiolead.types",
    "aiolead.abc",
    "aiolead.adapters.aiozk",
    "aiolead.blocking",
    "aiolead.instrumentation.otel",
    "aiolead.instrumentation.prometheus",
    "aiolead.instrumentation.structlog",
    "aiolead.paths",
    "aiolead.testing",
    "aiolead.testing.simulation",
)
"""The modules whose names are public."""


def _say_where_they_are_defined() -> None:
    """Sphinx reads what stands below attributes in the file of the module that a class names."""
    for face in (importlib.import_module("aiolead"), importlib.import_module("aiolead.types")):
        for where, names in face._exports.names_by_module.items():
            for name in names.split():
                thing = getattr(face, name)
                if inspect.isclass(thing) and thing.__module__ == face.__name__:
                    thing.__module__ = f"aiolead.{where}"


_say_where_they_are_defined()


def exported(module: ModuleType) -> list[str]:
    return list(module.__all__)


@functools.cache
def _by_identity() -> dict[int, str]:
    """The public name of each public thing, by the thing."""
    found: dict[int, str] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for public in exported(module):
            found.setdefault(id(getattr(module, public)), f"{name}.{public}")
    return found


def _name_what_only_checkers_import() -> None:
    """Give modules the public names that their annotations use and only type checkers import.

    Sphinx cannot evaluate such an annotation, and would look for any object with the last part of
    its name.
    """
    for name in MODULES:
        face = importlib.import_module(name)
        for public in exported(face):
            thing = getattr(face, public)
            members = vars(thing).values() if inspect.isclass(thing) else [thing]
            for function in filter(inspect.isfunction, members):
                text = " ".join(map(str, function.__annotations__.values()))
                names = function.__globals__
                for word in set(re.findall(r"\b(\w+)\.", text)) - names.keys():
                    names[word] = importlib.import_module(word)
                for word in set(re.findall(r"\w+", text)) - names.keys():
                    for place in ("aiolead", "aiolead.types", "aiolead.model"):
                        found = getattr(importlib.import_module(place), word, None)
                        if inspect.isclass(found):
                            names[word] = found
                            break


_name_what_only_checkers_import()


def public_name(thing: object) -> str | None:
    return _by_identity().get(id(thing))


def find(name: str, cls: type | None = None, module: str = "aiolead") -> str | None:
    """The full name of what is meant by a name, if it is public.

    Args:
        name: as it stands in a text: `Term`, `Term.check`, `check`.
        cls: the class whose documentation it stands in.
        module: the module whose names come first.
    """
    first, _, rest = name.partition(".")
    for place in (module, *MODULES):
        thing = getattr(importlib.import_module(place), first, None)
        full = public_name(thing) if inspect.isclass(thing) or inspect.isroutine(thing) else None
        if full and not rest:
            return full
        if full and "." not in rest and not rest.startswith("_") and hasattr(thing, rest):
            return documented_at(f"{full}.{rest}")
    if cls is not None and not rest and not name.startswith("_") and hasattr(cls, name):
        full = public_name(cls)
        return full and documented_at(f"{full}.{name}")
    return None


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    if node.get("refdomain") != "py":
        return None
    target: str = node["reftarget"]
    module, _, last = target.rpartition(".")
    full = None
    if module.startswith("aiolead"):
        thing = getattr(importlib.import_module(module), last, None) if _exists(module) else None
        full = public_name(thing)
    elif not module:
        full = find(last, module=node.get("py:module") or "aiolead")
    if full and full != target:
        domain = env.domains["py"]
        found = domain.resolve_any_xref(env, node["refdoc"], app.builder, full, node, content)
        if found:
            return found[0][1]
    # A public name that is not in the reference is missed; anything else stays plain text.
    return None if full else content


@functools.cache
def _exists(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


class _Signatures(SphinxPostTransform):
    """Names in a signature are those of its module, or builtins: not just any that are alike."""

    default_priority = 5  # before references are resolved

    def run(self, **_: object) -> None:
        for signature in self.document.findall(desc_signature):
            for node in signature.findall(pending_xref):
                node["py:module"] = node.get("py:module") or signature.get("module")
        for node in list(self.document.findall(pending_xref)):
            if node.get("refdomain") == "py" and hasattr(builtins, node["reftarget"]):
                shown = find_pending_xref_condition(node, "*")
                node.replace_self(shown.children if shown else node.children)


def setup(app: Sphinx) -> dict[str, object]:
    app.add_post_transform(_Signatures)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True}
