"""The reference as Markdown, for readers on a code host: `python docs/_site/markdown.py`.

Writes a page in docs/reference/names for each page of docs/reference/api: every public name with
its signature and its docstring. The site has the same from autodoc, and leaves these pages out.
"""

import inspect
import re
import sys
import textwrap
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from reference import NOT_FOR_USERS, names_on, said_of

API = Path(__file__).resolve().parents[1] / "reference" / "api"
NAMES = API.with_name("names")

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields)( \(.+\))?:$")
_ITEM = re.compile(r"( {4})([*\w., /`]+): (.*)")


class _Bare:
    """An annotation without the quotation marks that `inspect` puts around text."""

    def __init__(self, annotation: object) -> None:
        self._text = (
            annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        )

    def __repr__(self) -> str:
        return self._text


def _bare(annotation: object) -> object:
    return annotation if annotation is inspect.Parameter.empty else _Bare(annotation)


def _signature(thing: object) -> str:
    try:
        known = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [
        each.replace(annotation=_bare(each.annotation))
        for each in known.parameters.values()
        if each.name != "self"
    ]
    returns = known.return_annotation
    made = known.replace(parameters=parameters, return_annotation=_bare(returns))
    # A default that is an object shows where it is in memory.
    return re.sub(r"<(?:function |class )?'?([\w.]*)[^>]*>", r"\1", str(made))


def _docstring(thing: object) -> str:
    """A docstring as Markdown: sections become lists."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    made: list[str] = []
    in_section = False
    for line in lines:
        if section := _SECTION.match(line):
            in_section = True
            made += [f"**{section[1]}{section[2] or ''}:**", ""]
        elif in_section and line.startswith("    "):
            item = _ITEM.match(line)
            made.append(f"* `{item[2]}`: {item[3]}" if item else f"  {line.strip()}")
        elif in_section and line.strip():
            in_section = False
            made.append(line)
        else:
            made.append(line)
    return "\n".join(made).strip()


def _members(name: str, cls: type) -> list[tuple[str, object]]:
    """The public members of a class that are documented, in the order of their definition."""
    found: dict[str, object] = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("aiolead"):
            continue
        for member, raw in vars(base).items():
            documented = inspect.isroutine(raw) or isinstance(raw, property | classmethod)
            hidden = member.startswith("_") or member in NOT_FOR_USERS.get(name, ())
            if documented and not hidden and inspect.getdoc(getattr(cls, member, None)):
                found.setdefault(member, raw)
    return list(found.items())


def _entry(module: str, name: str) -> list[str]:
    thing = getattr(import_module(module), name)
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        return [f"## `{module}.{name}`", "", *said_of(name, thing)]
    head = (
        "" if inspect.isclass(thing) and "Args:" not in (thing.__doc__ or "") else _signature(thing)
    )
    kind = "class " if inspect.isclass(thing) else ""
    made = [f"## `{name}`", "", "```text", *_wrapped(f"{kind}{module}.{name}{head}"), "```", ""]
    made += [_docstring(thing)]
    if inspect.isclass(thing):
        for member, raw in _members(name, thing):
            public = getattr(thing, member)
            shown = "property" if isinstance(raw, property) else ""
            head = f"{shown} {member}".strip() + ("" if shown else _signature(public))
            if inspect.iscoroutinefunction(public):
                head = f"async {head}"
            made += ["", f"### `{name}.{member}`", "", "```text", *_wrapped(head), "```", ""]
            made += [_docstring(public)]
    return made


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 96, subsequent_indent="    ", break_on_hyphens=False)


THE_SAME = "blocking.md"
"""Its names are those of the asynchronous pages; `aiolead/blocking/__init__.pyi` has signatures."""


def page(api: Path) -> str:
    """The Markdown of a page of docs/reference/api."""
    text = api.read_text("utf-8")
    title = text.splitlines()[0].lstrip("# ")
    made = [
        f"# {title}: every name",
        "",
        "Written by `python docs/_site/markdown.py` from the docstrings. Overview:",
        f"[{title}](../api/{api.name}).",
    ]
    for module, name in names_on(text):
        made += ["", *_entry(module, name)]
    return "\n".join(line.rstrip() for line in "\n".join(made).splitlines()) + "\n"


def pages() -> dict[Path, str]:
    """The pages to write, each with its text."""
    return {NAMES / api.name: page(api) for api in sorted(API.glob("*.md")) if api.name != THE_SAME}


def main() -> None:
    NAMES.mkdir(exist_ok=True)
    wanted = pages()
    for old in set(NAMES.glob("*.md")) - wanted.keys():
        old.unlink()
    for file, text in wanted.items():
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
