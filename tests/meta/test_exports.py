"""The public names: they are exported, documented, and their signatures name public classes."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kit.checks import check_each
from tools.write_exports import exported, generated

import aiolead
import aiolead.abc
import aiolead.admin
import aiolead.errors
import aiolead.model
import aiolead.paths
import aiolead.testing
import aiolead.types

MADE_BY_USERS = {name for _, name in exported("__all__")} - {"Held", "Phase", "Term"} | {
    *("ACL", "Auth", "Codec", "ConsistentHash", "DownPolicy", "Layout", "LeastLoaded"),
    *("Picker", "Quota", "RoundRobin", "TLS", "Watchdog", "WeightedRandom"),
}
"""The classes whose constructors are public. Users get all other objects from the library."""

PROTOCOLS = {
    "ClientBackend": aiolead.abc.Backend,
    "ClientLease": aiolead.abc.Lease,
    "PendingReply": aiolead.abc.Reply,
}
"""Classes whose methods are documented in the client interface."""

INTERNAL = {"Layout": {"fits", "is_like_ours", "is_of", "misfit", "ours", "prefix", "require"}}
"""Methods for recipes, although their names have no underscore."""

FACES = (aiolead, aiolead.types)
"""The modules that import their names at the first use."""


def _run(script: str) -> str:
    """The output of a script in a new process, which has imported nothing."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=Path(aiolead.__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def _imported_for_checkers(face: ModuleType) -> dict[str | None, set[str]]:
    """The names that a public module imports for type checkers, by module; None for modules."""
    tree = ast.parse(Path(str(face.__file__)).read_text())
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(checked.test) == "TYPE_CHECKING"
    found: dict[str | None, set[str]] = {}
    for node in checked.body:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1
            # Only these are exported for checkers: `import Lock as Lock`.
            assert all(alias.asname == alias.name for alias in node.names)
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return found


def _public_modules() -> set[str]:
    """The modules of the package without an underscore, which a program imports.

    The command and the plugin of pytest are started by their entry points.
    """
    files = Path(aiolead.__file__).parent.iterdir()
    found = {path.stem for path in files if path.suffix == ".py" or (path / "__init__.py").exists()}
    return {name for name in found if not name.startswith("_")} - {"cli", "pytest_plugin"}


def _public_names(module: ModuleType) -> set[str]:
    """The names in `__all__` of a module, or else those that it defines without an underscore."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    tree = ast.parse(inspect.getsource(module))
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                names.add(name)
            case ast.Assign(targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(ast.Name(name)):
                names.add(name)
    return {
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(module, name), typing.TypeVar)
    }


@pytest.mark.parametrize("face", FACES)
def test_exported_names_of_recipes_are_current(face: ModuleType) -> None:
    path = Path(str(face.__file__))
    assert path.read_text("utf-8") == generated(path), "run `python -m tests.tools.write_blocking`"


@pytest.mark.parametrize("face", FACES)
def test_names_imported_at_first_use_are_those_for_checkers(face: ModuleType) -> None:
    checked = {module: names for module, names in _imported_for_checkers(face).items() if module}
    assert {
        module: set(names.split()) for module, names in face._exports.names_by_module.items()
    } == checked
    assert face.__all__ == sorted(set().union(*checked.values()))


def test_number_of_names_at_the_top_is_bounded() -> None:
    """A recipe brings its class; nothing else does, except what every program writes."""
    of_recipes = {name for _, name in exported("__all__")}
    assert len(set(aiolead.__all__) - of_recipes) <= 20


def test_public_names_report_public_modules() -> None:
    public = [*FACES, aiolead.errors, aiolead.model, aiolead.events, aiolead.paths]
    public += [aiolead.abc, aiolead.admin]
    private = {
        name
        for face in public
        for name in _public_names(face)
        if getattr(getattr(face, name), "__module__", "").startswith("aiolead._")
    }
    assert private == set()


def test_types_of_fields_can_be_resolved() -> None:
    for face in FACES:
        for name in face.__all__:
            thing = getattr(face, name)
            if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
                assert typing.get_type_hints(thing), name


def test_package_looks_as_if_all_names_were_imported() -> None:
    found = _run(
        """
        import aiolead, pickle
        assert set(aiolead.__all__) <= set(dir(aiolead))
        assert aiolead.errors.NoNodeError is aiolead.NoNodeError
        assert aiolead.types.View.__module__ == "aiolead.types"
        assert aiolead.Lock is aiolead.Lock is vars(aiolead)["Lock"]
        value = aiolead.ACL.world()
        assert pickle.loads(pickle.dumps(value)) == value
        assert pickle.loads(pickle.dumps(aiolead.Lock)) is aiolead.Lock
        assert not hasattr(aiolead, "Lok")
        from aiolead import *
        assert Election is aiolead.Election
        try:
            from aiolead import Lok
        except ImportError as error:
            print(error.name, error)
        """
    )
    assert found.startswith("aiolead cannot import name 'Lok' from 'aiolead'")


def test_public_modules_are_those_for_checkers() -> None:
    assert _imported_for_checkers(aiolead)[None] == _public_modules()


@check_each("name", sorted(_public_modules()))
def test_public_modules_need_no_import_of_their_own(name: str) -> None:
    """After `import aiolead`, `aiolead.blocking.connect` exists."""
    found = _run(
        f"""
        import sys, aiolead
        assert {name!r} in dir(aiolead)
        assert "aiolead.{name}" not in sys.modules
        module = aiolead.{name}
        assert module is sys.modules["aiolead.{name}"]
        assert module is aiolead.{name} is vars(aiolead)[{name!r}]
        assert "trio" not in sys.modules
        print(module.__name__)
        """
    )
    assert found == f"aiolead.{name}\n"


# --- documentation -----------------------------------------------------------------------------


def _documented_constants() -> set[str]:
    """The names of `aiolead.model` that are followed by a docstring."""
    body = ast.parse(inspect.getsource(aiolead.model)).body
    found = set()
    for node, after in itertools.pairwise(body):
        match node, after:
            case ast.Assign([ast.Name(name)]), ast.Expr(ast.Constant(str())):
                found.add(name)
    return found


def _own_docstring(thing: object) -> str | None:
    return vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)


PUBLIC = {
    name: getattr(face, name)
    for face in (*FACES, aiolead.admin, aiolead.errors, aiolead.model, aiolead.events)
    for name in sorted(_public_names(face))
}
"""Everything that users import, except `aiolead.paths`, by name."""


@check_each("name", PUBLIC)
def test_every_name_is_documented(name: str) -> None:
    thing = PUBLIC[name]
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        assert name in _documented_constants()
        return
    doc = _own_docstring(thing)
    if doc is None and issubclass(thing, aiolead.errors.ServerError):
        # The message of an error code is its documentation.
        doc = thing.__dict__.get("summary")
    assert doc
    # The default docstring of a dataclass.
    assert not doc.startswith(f"{name}(")


def _public_methods(name: str) -> Iterator[tuple[str, typing.Any]]:
    """The methods and properties for users that a class of aiolead defines."""
    cls = PUBLIC[name]
    for base in cls.__mro__:
        if base.__module__.startswith("aiolead"):
            for method, attribute in vars(base).items():
                attribute = getattr(attribute, "fget", None) or inspect.unwrap(
                    getattr(attribute, "__func__", attribute)
                )
                is_ours = not method.startswith("_") and method not in INTERNAL.get(name, ())
                if is_ours and inspect.isfunction(attribute):
                    yield method, attribute


CLASSES = [name for name, thing in PUBLIC.items() if isinstance(thing, type)]


@check_each("name", CLASSES)
def test_every_method_is_documented(name: str) -> None:
    where = [PUBLIC[name], PROTOCOLS.get(name)]
    # Names such as `is_final` need no docstring.
    methods = {m for m, _ in _public_methods(name) if not m.startswith(("is_", "has_"))}
    documented = {m for m in methods for cls in where if inspect.getdoc(getattr(cls, m, None))}
    assert methods - documented == set()


LATE = {
    name: PUBLIC[name]
    for name in ("ChildrenView", "ClientStatistics", "DataView", "TenureStatistics")
}
"""Names in annotations that are imported, by their public names, in the call that needs them."""


# --- no private class in a public signature ----------------------------------------------------


def _classes_in(annotation: object) -> Iterator[type]:
    for part in typing.get_args(annotation):
        yield from _classes_in(part)
    origin = typing.get_origin(annotation) or annotation
    if inspect.isclass(origin):
        yield origin
    elif isinstance(annotation, list):
        for part in annotation:
            yield from _classes_in(part)


@check_each("name", CLASSES)
def test_signatures_name_public_classes_only(name: str) -> None:
    cls = PUBLIC[name]
    public = set(PUBLIC.values())
    public |= {getattr(aiolead.abc, n) for n in aiolead.abc.__all__}
    functions = dict(_public_methods(name))
    if name in MADE_BY_USERS:
        functions["__init__"] = cls.__init__
    private = {
        f"{method}: {found.__qualname__}"
        for method, function in functions.items()
        for annotation in typing.get_type_hints(function, localns=LATE).values()
        for found in _classes_in(annotation)
        if found.__module__.startswith("aiolead") and found not in public
    }
    assert private == set()


def test_names_of_the_test_kit_are_documented() -> None:
    names = aiolead.testing.__all__
    assert names == sorted(names)
    for name in names:
        assert _own_docstring(getattr(aiolead.testing, name)), name
