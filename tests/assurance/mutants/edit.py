"""Finds code by its meaning, within a named function, and replaces it.

The searched code is parsed and compared as a syntax tree. So neither comments, line breaks and
quotes, nor its place within the function, nor the rest of the file matter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import dedent, indent

from .model import Change, StaleMutantError

Scope = ast.AST
"""A function, a class, an assignment, or a whole module."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where code was found: a range of bytes, and whether it is one of whole statements."""

    start: int
    end: int
    column: int
    is_statement: bool


def replaced(text: str, change: Change) -> str:
    """The text of a module with one change made.

    Raises:
        StaleMutantError: the function, or the code in it, is not there exactly once.
    """
    scopes = list(scopes_of(ast.parse(text), change.qualname))
    if not scopes:
        raise StaleMutantError(f"{change.where}: not found")
    old = dedent(change.old).strip("\n")
    # A property and its setter have one name.
    spans = [span for scope in scopes for span in _found(text, scope, old)]
    if len(spans) != 1:
        raise StaleMutantError(f"{change.where}: found {len(spans)} times: {change.old!r}")
    result = spliced(text, spans[0], dedent(change.new).strip("\n"))
    try:
        ast.parse(result)
    except SyntaxError as error:
        raise StaleMutantError(f"{change.where}: {error}: {change.new!r}") from None
    return result


def spliced(text: str, span: Span, new: str) -> str:
    """The text of a module with new code in a place."""
    data = text.encode()
    return (data[: span.start] + _written(new, span).encode() + data[span.end :]).decode()


def scopes_of(tree: ast.Module, qualname: str) -> Iterator[Scope]:
    """The definitions of a qualified name: `Class.method`, `Class`, `function`, `CONSTANT`."""
    found: list[Scope] = [tree]
    for name in qualname.split(".") if qualname else ():
        found = [node for scope in found for node in _defined(scope, name)]
    yield from found


def _defined(scope: Scope, name: str) -> Iterator[Scope]:
    """The definitions of a name in a scope, also those below `if` and `try`."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                yield node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _defined(node, name)


# --- finding -----------------------------------------------------------------------------------


def _found(text: str, scope: Scope, old: str) -> Iterator[Span]:
    if old.endswith(":") and "\n" not in old:
        (pattern,) = ast.parse(f"{old} pass").body
        yield from _headers(text, scope, pattern)
        return
    statements = ast.parse(old).body
    if len(statements) == 1 and isinstance(statements[0], ast.Expr):
        yield from _expressions(text, scope, statements[0].value)
    else:
        yield from _blocks(text, scope, statements)


def _expressions(text: str, scope: Scope, pattern: ast.expr) -> Iterator[Span]:
    wanted = _meaning(pattern)
    whole = {id(node.value) for node in ast.walk(scope) if isinstance(node, ast.Expr)}
    for node in ast.walk(scope):
        if isinstance(node, ast.expr) and _meaning(node) == wanted:
            yield span_of(text, node, node, is_statement=id(node) in whole)


def _blocks(text: str, scope: Scope, pattern: Sequence[ast.stmt]) -> Iterator[Span]:
    wanted = [_meaning(each) for each in pattern]
    for node in ast.walk(scope):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            meanings = [_meaning(each) for each in block]
            for start in range(len(block) - len(wanted) + 1):
                end = start + len(wanted)
                if meanings[start:end] == wanted:
                    yield span_of(text, block[start], block[end - 1], is_statement=True)


def _headers(text: str, scope: Scope, pattern: ast.stmt) -> Iterator[Span]:
    """The code between the keyword and the colon of a compound statement."""
    wanted = [_meaning(each) for each in _header(pattern)]
    for node in ast.walk(scope):
        if type(node) is type(pattern) and [_meaning(each) for each in _header(node)] == wanted:
            parts = _header(node)
            yield span_of(text, parts[0], parts[-1], is_statement=False)


def _header(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If() | ast.While():
            return [node.test]
        case ast.For() | ast.AsyncFor():
            return [node.target, node.iter]
        case ast.With() | ast.AsyncWith():
            items = [(each.context_expr, each.optional_vars) for each in node.items]
            return [part for item in items for part in item if part is not None]
    raise StaleMutantError(f"no condition, loop or with: {ast.unparse(node)!r}")


def _meaning(node: ast.AST) -> str:
    return re.sub(r"(, )?ctx=(Load|Store|Del)\(\)", "", ast.dump(node))


def span_of(text: str, first: ast.AST, last: ast.AST, *, is_statement: bool) -> Span:
    """Where the code of two nodes is, and all between them."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    line, column = first.lineno, first.col_offset  # type: ignore[attr-defined]
    end_line, end_column = last.end_lineno, last.end_col_offset  # type: ignore[attr-defined]
    return Span(
        start=starts[line - 1] + column,
        end=starts[end_line - 1] + end_column,
        column=len(lines[line - 1]) - len(lines[line - 1].lstrip()),
        is_statement=is_statement,
    )


# --- replacing ---------------------------------------------------------------------------------


def _written(new: str, span: Span) -> str:
    if span.is_statement:
        return indent(new or "pass", " " * span.column).lstrip(" ")
    if new.endswith(":") and "\n" not in new:
        (statement,) = ast.parse(f"{new} pass").body
        parts = _header(statement)
        bounds = span_of(new, parts[0], parts[-1], is_statement=False)
        return new.encode()[bounds.start : bounds.end].decode()
    return f"({new})"
