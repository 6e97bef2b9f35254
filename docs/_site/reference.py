"""The reference: pages name what is public, and the site has the docstrings in that place.

    <!-- reference: aiolead -->
    `Lock`, `Held`

    <!-- reference: the rest of aiolead -->

Each name stands on one page; the rest, in one place, is what no page names: so a new recipe is
there without a line. `tests/docs/test_site.py` checks that no other name is missing.
"""

import importlib
import inspect
import re
import sys

from docstrings import converted
from members import NAMES, names_on, shown_elsewhere
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

NOT_FOR_USERS = {
    "ClientWatch": {"_slot_in"},
    "Connection": {"close_session", "core"},
    "Layout": {"fits", "is_like_ours", "misfit", "prefix", "require"},
    "PendingReply": {"abandon", "drop", "fail", "is_retried_too_long", "succeed"},
    "SASL": {"mechanism_for"},
}
"""Methods of public classes that are for the library itself."""


def _directive(module: str, name: str) -> str:
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
    elif inspect.isroutine(thing):
        kind = "autofunction"
    else:
        lines = converted(said_of(name, thing), None, module)
        return "\n   ".join([f".. py:data:: {module}.{name}", "", *lines])
    lines = [f".. {kind}:: {module}.{name}"]
    elsewhere = shown_elsewhere().get(f"{module}.{name}", {})
    if hidden := {*NOT_FOR_USERS.get(name, ()), *elsewhere}:
        lines.append(f"   :exclude-members: {', '.join(sorted(hidden))}")
    for other in dict.fromkeys(elsewhere.values()):
        shown = [f":py:obj:`{m} <{other}.{m}>`" for m, where in elsewhere.items() if where == other]
        title = other.removeprefix("aiolead.").removeprefix("types.")
        lines += ["", f"   As in :py:obj:`{title} <{other}>`: {', '.join(shown)}."]
    return "\n".join(lines)


def said_of(name: str, thing: object) -> list[str]:
    """The docstring of a constant, in the module that defines it."""
    for module in sorted(m for m in sys.modules if m.startswith("aiolead")):
        if getattr(sys.modules[module], name, None) is thing:
            said = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
            if said:
                return said
    raise ValueError(f"{name} has no docstring where it is defined")


def _document(app: Sphinx, docname: str, source: list[str]) -> None:
    def directives(match: re.Match[str]) -> str:
        made = [_directive(module, name) for module, name in names_on(match[0])]
        return "\n".join(["```{eval-rst}", *made, "```", ""])

    source[0] = NAMES.sub(directives, source[0])


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("source-read", _document)
    return {"parallel_read_safe": True}
