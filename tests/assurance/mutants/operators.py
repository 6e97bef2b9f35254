"""The operators of random mutants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

WEIGHTS = {
    "compare": 15,
    "negate": 10,
    "return None": 10,
    "drop": 8,
    "swap": 8,
    "and/or": 7,
    "constant": 7,
    "await": 5,
    "finally": 5,
    "arithmetic": 4,
    "min/max": 4,
    "bool": 4,
}
"""The operators, and how often each is drawn beside the others."""

_PAIRS = (
    *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)),
    *((ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or)),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    old: new for pair in _PAIRS for old, new in (pair, pair[::-1])
}
UNTOUCHED = ("__repr__", "__str__", "__rich__", "__init_subclass__")
"""Functions that only show something."""
SKIPPED = ("annotation", "returns", "decorator_list", "bases", "type_params")

N = TypeVar("N", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Mutation:
    """New code for nodes that follow each other."""

    qualname: str
    operator: str
    nodes: Sequence[ast.stmt | ast.expr]
    new: str
    is_statement: bool


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Every mutation of a module."""
    yield from _inside(tree, "", in_finally=False)


def _inside(node: ast.AST, qualname: str, *, in_finally: bool) -> Iterator[Mutation]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if node.name in UNTOUCHED:
            return
        qualname = f"{qualname}.{node.name}" if qualname else node.name
    elif isinstance(node, ast.JoinedStr | ast.Assert | ast.Raise):
        return  # messages, and what the types need
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield from _of(node, qualname)
    for name, value in ast.iter_fields(node):
        if name in SKIPPED or (isinstance(node, ast.ClassDef) and name == "keywords"):
            continue
        children = value if isinstance(value, list) else [value]
        late = in_finally or name == "finalbody"
        if name in ("body", "orelse", "finalbody") and not isinstance(node, ast.ClassDef):
            yield from _of_block(children, qualname, in_finally=late)
        for child in children:
            if isinstance(child, ast.AST):
                yield from _inside(child, qualname, in_finally=late)


def _of_block(block: Sequence[ast.AST], qualname: str, *, in_finally: bool) -> Iterator[Mutation]:
    statements = [each for each in block if isinstance(each, ast.stmt)]
    for each in statements:
        if qualname and _is_effect(each):
            yield Mutation(qualname, "finally" if in_finally else "drop", [each], "pass", True)
    for first, second in pairwise(statements):
        # Assignments of values that are there do not notice their order.
        does = any(
            isinstance(x, ast.Call | ast.Await) for y in (first, second) for x in ast.walk(y)
        )
        if qualname and does and _is_simple(first) and _is_simple(second):
            new = f"{ast.unparse(second)}\n{ast.unparse(first)}"
            yield Mutation(qualname, "swap", [first, second], new, True)


def _is_effect(node: ast.stmt) -> bool:
    """Whether a statement can be left out without an unknown name."""
    match node:
        case ast.Expr(value=ast.Constant() | ast.Yield()):
            return False
        case ast.Expr():
            return not ast.unparse(node).startswith("logger.debug(")
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return isinstance(target, ast.Attribute | ast.Subscript)
    return False


def _is_simple(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and not (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _of(node: ast.AST, qualname: str) -> Iterator[Mutation]:
    def found(operator: str, of: ast.expr, new: ast.expr) -> Mutation:
        return Mutation(qualname, operator, [of], ast.unparse(new), False)

    match node:
        case ast.If() | ast.While() | ast.IfExp():
            if not isinstance(node.test, ast.Constant):
                yield found("negate", node.test, ast.UnaryOp(ast.Not(), node.test))
        case ast.Compare(ops=[op]):
            yield found("compare", node, _with(node, ops=[OTHER[type(op)]()]))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield found("return None", value, ast.Constant(None))
        case ast.Await():
            yield found("await", node, node.value)
        case ast.BoolOp(op=op):
            yield found("and/or", node, _with(node, op=OTHER[type(op)]()))
        case ast.BinOp(op=op) if type(op) in OTHER and not _is_text(node):
            yield found("arithmetic", node, _with(node, op=OTHER[type(op)]()))
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            yield found("min/max", node.func, ast.Name("max" if name == "min" else "min"))
        case ast.Constant(value=bool() as value):
            yield found("bool", node, ast.Constant(not value))
        case ast.Constant(value=int() | float() as value):
            yield found("constant", node, ast.Constant(value + 1))


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operator joins or formats text, or joins types."""
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _with(node: N, **fields: object) -> N:
    """A node with other fields."""
    new = copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
