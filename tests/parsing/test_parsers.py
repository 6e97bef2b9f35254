"""Every parser gives a value, or the error of its row, for any data of other processes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.checks import check_each
from parsing.hostile_data import DATA_CASES, NAME_CASES, hostile_data, hostile_names, mistyped
from parsing.parsers import NO_PARSERS, PARSERS, Parser, Reads
from parsing.parsing_calls import parsing_functions

LONGEST_NAME = 20_000
LONGEST_ERROR = 1000
"""In characters. The error about a megabyte of data goes into a log."""

EXAMPLES = settings(max_examples=30)
"""For each of many parsers. The worst cases are run besides."""


def run(parser: Parser, data: object) -> None:
    """Raises every error that is not in the parser's row."""
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


BY_NAME = [parser for parser in PARSERS if parser.reads is Reads.NAME]
BY_DATA = [parser for parser in PARSERS if parser.reads is not Reads.NAME]


@check_each("parser", BY_DATA, ids=str)
def test_worst_data_give_a_value_or_the_error(parser: Parser) -> None:
    for data in DATA_CASES.values():
        run(parser, as_text(data) if parser.takes_text else data or b"")
    for name in NAME_CASES.values() if parser.takes_text else ():
        run(parser, name)


@check_each("parser", BY_NAME, ids=str)
def test_worst_names_give_a_value_or_the_error(parser: Parser) -> None:
    for name in NAME_CASES.values():
        run(parser, name)
    for data in DATA_CASES.values():
        run(parser, as_text(data).replace("/", "")[:LONGEST_NAME])


@pytest.mark.parametrize(
    "parser", [parser for parser in BY_DATA if parser.reads is Reads.ZNODE], ids=str
)
def test_hostile_value_at_any_key_gives_a_value_or_the_error(parser: Parser) -> None:
    for data in mistyped():
        run(parser, data)


@pytest.mark.exhaustive("random data, beside the worst data", one_in=8)
@EXAMPLES
@given(st.data())
@pytest.mark.parametrize("parser", BY_DATA, ids=str)
def test_random_data_give_a_value_or_the_error(parser: Parser, data: st.DataObject) -> None:
    drawn = data.draw(hostile_data())
    run(parser, as_text(drawn) if parser.takes_text else drawn or b"")


@pytest.mark.exhaustive("random data, beside the worst data", one_in=8)
@EXAMPLES
@given(st.data())
@pytest.mark.parametrize("parser", BY_NAME, ids=str)
def test_random_names_give_a_value_or_the_error(parser: Parser, data: st.DataObject) -> None:
    run(parser, data.draw(hostile_names()))


# --- the table -----------------------------------------------------------------------------------


def test_table_has_every_function_that_parses() -> None:
    known = {function for parser in PARSERS for function in parser.covers} | NO_PARSERS.keys()
    found = parsing_functions()
    missing = {each for each in found - known if not each.startswith("_util.parsing:")}
    assert missing == set(), "give it a row in tests/parsing/parsers.py"
    assert known - found == set(), "remove what is gone from tests/parsing/parsers.py"


def test_names_of_parsers_are_unique() -> None:
    assert len({parser.name for parser in PARSERS}) == len(PARSERS)
