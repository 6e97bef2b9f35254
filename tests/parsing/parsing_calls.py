"""Which functions of the package parse something, by their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import aiolead

ROOT = Path(aiolead.__file__).parent

CONVERSIONS = frozenset({"int", "float"})
PATTERNS = frozenset({"match", "fullmatch", "search", "findall", "finditer"})
ATTRIBUTES = PATTERNS | {
    *("loads", "JSONDecoder", "raw_decode"),
    *("from_bytes", "unpack", "unpack_from", "iter_unpack", "fromhex", "unhexlify"),
    *("fromtimestamp", "utcfromtimestamp", "fromisoformat", "strptime"),
    *("parsedate", "parsedate_tz", "parsedate_to_datetime"),
    *("b64decode", "a2b_base64", "urlsplit", "urlparse", "parse_qs", "parse_qsl", "unquote"),
    *("ip_address", "ip_network", "IPv4Address", "IPv6Address", "literal_eval"),
}
"""Attributes, methods and functions that turn data into values."""

OURS = frozenset(
    {
        *("text", "whole", "hexadecimal", "fraction", "real"),
        *("json_value", "json_object", "base64_data", "http_date"),
    }
)
"""The functions of `aiolead._util.parsing` that do."""

TOTAL = frozenset({"replace", "backslashreplace", "ignore", "surrogateescape"})
"""How to decode bytes so that each of them gives a text."""

_NOT_CALLED = frozenset({"isinstance", "issubclass", "cast", "type"})


@dataclass
class _Module:
    """The names of a module that stand for parsing functions."""

    tree: ast.Module
    aliases: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                ours = (node.module or "").split(".")[-1] == "parsing"
                wanted = OURS if ours else ATTRIBUTES
                self.aliases |= {
                    name.asname or name.name for name in node.names if name.name in wanted
                }
        for statement in self.tree.body:
            # `_int_at = _INT.unpack_from`, with or without the type
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                continue
            if statement.value is not None and _is_attribute(statement.value):
                is_typed = isinstance(statement, ast.AnnAssign)
                targets = [statement.target] if is_typed else statement.targets
                self.aliases |= {each.id for each in targets if isinstance(each, ast.Name)}


@cache
def parsing_functions(root: Path = ROOT, *, without: tuple[str, ...] = ("testing",)) -> set[str]:
    """All functions that call one of these, as `module:function` or `module:Class.method`.

    A nested function counts as part of the outer one. Code that runs at import is `module:`.

    Args:
        root: the package.
        without: packages below it that are left out.
    """
    found: set[str] = set()
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        if parts[0] in without:
            continue
        module = _Module(ast.parse(file.read_text("utf-8")))
        for name, node in functions_of(module.tree):
            if any(_parses(each, module) for each in ast.walk(node)):
                found.add(f"{'.'.join(parts)}:{name}")
        outside = [node for node in module.tree.body if not isinstance(node, _SCOPES)]
        if any(
            _parses(each, module, at_import=True) for node in outside for each in ast.walk(node)
        ):
            found.add(f"{'.'.join(parts)}:")
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)


def functions_of(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, ast.AST]]:
    """The functions and methods of a module, with their names; not those that are inside others."""
    for node in tree.body:
        if isinstance(node, _FUNCTIONS):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")


def _parses(node: ast.AST, module: _Module, *, at_import: bool = False) -> bool:
    if isinstance(node, ast.Call):
        return (
            _is_conversion(node)
            or _is_mapped(node)
            or _is_alias(node.func, module)
            or _is_decode(node)
        )
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        # A module that gives such a method a name does not call it yet.
        return _is_attribute(node) and not at_import
    return False


def _is_conversion(call: ast.Call) -> bool:
    """`int(text)`: of what is no constant, nor a truth value."""
    if not isinstance(call.func, ast.Name) or call.func.id not in CONVERSIONS or not call.args:
        return False
    return not isinstance(call.args[0], ast.Constant | ast.Compare | ast.BoolOp)


def _is_decode(call: ast.Call) -> bool:
    """`data.decode()`, and what else is called so; unless there is a text for all bytes."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "decode":
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not any(
        isinstance(each, ast.Constant) and each.value in TOTAL | {"latin-1"} for each in given
    )


def _is_mapped(call: ast.Call) -> bool:
    """`map(int, texts)`, `Codec(str.encode, bytes.decode)`."""
    if isinstance(call.func, ast.Name) and call.func.id in _NOT_CALLED:
        return False
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        (isinstance(each, ast.Name) and each.id in CONVERSIONS)
        or (isinstance(each, ast.Attribute) and each.attr == "decode")
        for each in values
    )


def _is_alias(function: ast.expr, module: _Module) -> bool:
    return isinstance(function, ast.Name) and function.id in module.aliases


def _is_attribute(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    is_ours = isinstance(node.value, ast.Name) and node.value.id == "parsing"
    return node.attr in ATTRIBUTES or (is_ours and node.attr in OURS)
