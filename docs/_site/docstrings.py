"""Docstrings, as they read well in the source, in the markup that Sphinx reads.

They have names in single backticks, code by indentation, and lists as in Markdown.
"""

import importlib
import inspect
import re

from names import find
from sphinx.application import Sphinx

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns)( \((.+)\))?:$")
_CODE = re.compile(r"(?<![`:\\])`([^`]+)`(?!`)")
_NAME = re.compile(r"(?:aiolead\.)?([A-Za-z_][\w.]*)(\(\))?")
_ITEM = re.compile(r"\s*(?:[*-]|\d+\.) ")


def converted(lines: list[str], cls: type | None, module: str) -> list[str]:
    """The lines of a docstring, from those that somebody wrote."""
    made: list[str] = []
    in_section = in_code = in_table = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        after_blank = not made or not made[-1].strip()
        if line.strip() and indent == 0:
            in_code = False
            in_section = bool(_SECTION.match(line))
        if in_section and (heading := _SECTION.match(line)):
            made.append(f"{heading[1]} {_plain(heading[3])}:" if heading[3] else line)
            continue
        if line.strip() and not in_section and indent >= 4 and after_blank and not in_code:
            in_code = True
            made += ["::", ""]
        if in_code:
            made.append(line)
            continue
        if line.startswith("|"):
            made += _table_row(line, begins=not in_table)
            in_table = True
            continue
        in_table = False
        if _ITEM.match(line) and made and made[-1].strip() and not _ITEM.match(made[-1]):
            made.append("")
        made.append(_CODE.sub(lambda match: _marked(match[1], cls, module), line))
    return made


def _plain(when: str) -> str:
    """What stands in the heading of a section, in words alone, as napoleon wants it."""
    return re.sub(r"[^\w ]", "", when)


def _add_sections(app: Sphinx, lines: list[str]) -> None:
    """Tells napoleon of sections that say when something is raised: `Raises (on entering):`."""
    for line in lines:
        heading = _SECTION.match(line)
        if heading and heading[3]:
            section = (f"{heading[1]} {_plain(heading[3])}", "params_style")
            known = app.config.napoleon_custom_sections or ()
            if section not in known:
                app.config.napoleon_custom_sections = (*known, section)


def _marked(code: str, cls: type | None, module: str) -> str:
    name = _NAME.fullmatch(code)
    full = find(name[1], cls, module) if name else None
    return f":py:obj:`{code} <{full}>`" if full else f"``{code}``"


def _table_row(line: str, *, begins: bool) -> list[str]:
    if re.fullmatch(r"[|\s-]+", line):
        return []
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    head = [".. list-table::", "   :header-rows: 1", ""] if begins else []
    cells = [_CODE.sub(r"``\1``", cell) for cell in cells]
    return [*head, *(f"   {'* -' if n == 0 else '  -'} {cell}" for n, cell in enumerate(cells))]


def _convert(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    module, cls = _place(name)
    _add_sections(app, lines)
    lines[:] = converted(lines, cls, module)


def _place(name: str) -> tuple[str, type | None]:
    """The public module of a full name, and the class that it is or is in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        rest = parts[length:]
        cls = getattr(module, rest[0], None) if rest else None
        return module.__name__, cls if inspect.isclass(cls) else None
    return "aiolead", None


def _without_constructor(
    app: Sphinx,
    what: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None] | None:
    """Classes whose objects users are given, rather than make, show no constructor."""
    if signature is None or not inspect.isclass(thing):
        return None
    is_made = "Args:" in (thing.__doc__ or "") or hasattr(thing, "__dataclass_fields__")
    return None if is_made else ("", None)


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("autodoc-process-docstring", _convert, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _without_constructor)
    return {"parallel_read_safe": True}
