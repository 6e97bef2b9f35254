"""Nothing that another process wrote gets past a parser: a value, or the one error of its row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.checks import check_each
from parsing.hostile_data import (
    DATA_CASES,
    NAME_CASES,
    hostile_data,
    hostile_names,
    mistyped,
)
from parsing.parsers import NO_PARSERS, PARSERS, Parser, Reads
from parsing.parsing_calls import parsing_functions

LONGEST_NAME = 20_000

EXAMPLES = settings(max_examples=30)
"""For each parser. There are many of them, and the worst cases are run besides."""


LONGEST_ERROR = 1000
"""How many characters the error about a megabyte has at most: it goes into a log."""


def run(parser: Parser, data: object) -> None:
    """Raises whatever is not one of the parser's errors."""
    said = "said"
    try:
        parser.call(data)
    except parser.raises as error:
        said = str(error)
    assert said
    if parser.reads in (Reads.ZNODE, Reads.SERVER, Reads.FILE):
        assert len(said) <= LONGEST_ERROR


def as_text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def data_for(parser: Parser) -> Iterator[tuple[str, object]]:
    for name, data in DATA_CASES.items():
        yield name, as_text(data) if parser.takes_text else data or b""
    if parser.takes_text:
        yield from NAME_CASES.items()


BY_NAME = [parser for parser in PARSERS if parser.reads is Reads.NAME]
BY_DATA = [parser for parser in PARSERS if parser.reads is not Reads.NAME]


@check_each("parser", BY_DATA, ids=str)
def test_the_worst_data(parser: Parser) -> None:
    for _, data in data_for(parser):
        run(parser, data)


@check_each("parser", BY_NAME, ids=str)
def test_the_worst_names(parser: Parser) -> None:
    for name in NAME_CASES.values():
        run(parser, name)
    for data in DATA_CASES.values():
        run(parser, as_text(data).replace("/", "")[:LONGEST_NAME])


@pytest.mark.parametrize(
    "parser", [parser for parser in BY_DATA if parser.reads is Reads.ZNODE], ids=str
)
def test_each_hostile_value_at_each_key(parser: Parser) -> None:
    for _, data in mistyped():
        run(parser, data)


@pytest.mark.exhaustive("random data, beside the worst data", one_in=8)
@EXAMPLES
@given(st.data())
@pytest.mark.parametrize("parser", BY_DATA, ids=str)
def test_hostile_data(parser: Parser, data: st.DataObject) -> None:
    drawn = data.draw(hostile_data())
    run(parser, as_text(drawn) if parser.takes_text else drawn or b"")


@pytest.mark.exhaustive("random data, beside the worst data", one_in=8)
@EXAMPLES
@given(st.data())
@pytest.mark.parametrize("parser", BY_NAME, ids=str)
def test_hostile_names(parser: Parser, data: st.DataObject) -> None:
    run(parser, data.draw(hostile_names()))


# --- the table -----------------------------------------------------------------------------------


def test_every_function_that_parses_is_in_the_table() -> None:
    covered = {function for parser in PARSERS for function in parser.covers}
    found = {each for each in parsing_functions() if not each.startswith("_parsing:")}
    missing = found - covered - NO_PARSERS.keys()
    assert missing == set(), "give it a row in tests/parsing/parsers.py"


def test_no_function_of_the_table_is_gone() -> None:
    covered = {function for parser in PARSERS for function in parser.covers}
    assert (covered | NO_PARSERS.keys()) - parsing_functions() == set()


def test_the_names_of_parsers_are_unique() -> None:
    assert len({parser.name for parser in PARSERS}) == len(PARSERS)
