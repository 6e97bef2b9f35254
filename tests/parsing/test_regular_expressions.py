"""No regular expression of the package takes more than linear time, whatever it is given.

Each one is tried with a part of a fitting text that is repeated many thousand times. That takes
milliseconds, or, if the time grows with the square of the length, longer than the test has.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aiolead
from aiolead._recipes.layouts import LIBRARIES
from aiolead._util import contender_names

pytestmark = pytest.mark.exhaustive(
    "tries each regular expression on long texts; test_parsers.py parses the worst data here"
)

ROOT = Path(aiolead.__file__).parent
LENGTH = 200_000
WITHIN = 120
METHODS = ("fullmatch", "match", "search")
BOUNDED = {
    "cli.doctor.queue_checks:_GUID": "it looks at 36 characters at most, from each one on",
    "paths:_SCHEME_END": "it is given 31 characters at most",
}
"""Those that are not linear, and why that does not matter."""


@cache
def expressions() -> dict[str, tuple[re.Pattern[Any], str]]:
    """Each expression of the modules, with the method that is called on it."""
    found = dict(_of_modules())
    matchers = [(kind.name, pattern) for kind, pattern in contender_names._matchers()]
    for scheme in LIBRARIES:
        for role, names in scheme.names.items():
            which = f"{scheme.label} {role}"
            matchers += [(f"{which} own", names.own_pattern), (which, names.any_pattern)]
    return found | {name: (pattern, "fullmatch") for name, pattern in matchers}


def _of_modules() -> Iterator[tuple[str, tuple[re.Pattern[Any], str]]]:
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        source = file.read_text("utf-8")
        if parts[0] == "testing" or not re.search(r"\bre\.\w+\(", source):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        for method, name in re.findall(r"\bre\.(\w+)\((\w+),", source):
            value = getattr(importlib.import_module(f"aiolead.{module}"), name, None)
            if isinstance(value, str):  # compiled at its first use
                yield f"{module}:{name}", (re.compile(value), method)
        for name, value in vars(importlib.import_module(f"aiolead.{module}")).items():
            if isinstance(value, re.Pattern):
                # `findall`, `sub` and the others search.
                called = set(re.findall(rf"\b{name}\.(\w+)", source))
                yield f"{module}:{name}", (value, max(called & {*METHODS} or {"search"}))
            elif isinstance(pattern := getattr(value, "__self__", None), re.Pattern):
                yield f"{module}:{name}", (pattern, value.__name__)


@pytest.mark.timeout(WITHIN)
@pytest.mark.parametrize("name", sorted(expressions().keys() - BOUNDED.keys()))
@settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_time_of_an_expression_is_linear(name: str, data: st.DataObject) -> None:
    pattern, method = expressions()[name]
    fits = data.draw(st.from_regex(pattern, fullmatch=True))
    is_text = isinstance(fits, str)
    begin = data.draw(st.integers(0, len(fits)))
    part = fits[begin : data.draw(st.integers(begin, len(fits)))][:50]
    if data.draw(st.integers(0, 3)) == 0 or not part:
        part = data.draw(st.sampled_from("\n 0a" if is_text else [b"\n", b" ", b"0", b"a"]))
    tail = "\0" if is_text else b"\0"
    getattr(pattern, method)(fits[:begin] + part * (LENGTH // len(part)) + tail)


def test_scan_finds_the_regular_expressions() -> None:
    assert len(expressions()) > 45
    assert BOUNDED.keys() <= expressions().keys()
