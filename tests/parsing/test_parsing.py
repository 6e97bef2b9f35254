"""The functions that parse data of other processes: each gives a value, or `MalformedError`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.checks import check_each
from parsing.hostile_data import DATA_CASES, JSON_VALUES, hostile_data

from aiolead import ServiceInstance
from aiolead._recipes.codec import encoded
from aiolead._recipes.recipe import (
    checked_count,
    checked_number,
    checked_pause,
    checked_wait,
)
from aiolead._util.escaping import described
from aiolead._util.parsing import (
    MAX_DEPTH,
    MAX_DIGITS,
    MalformedError,
    base64_data,
    check_json,
    fraction,
    hexadecimal,
    http_date,
    json_object,
    json_value,
    real,
    shown,
    text,
    whole,
)
from aiolead.errors import ConfigurationError, CounterOverflowError
from aiolead.types import Codec

OF_BYTES = (text, whole, hexadecimal, json_value, json_object)
OF_TEXT = (whole, hexadecimal, fraction, base64_data, http_date)


def parse(data: bytes) -> None:
    """Raises every error that is not a `MalformedError`."""
    as_text = data.decode(errors="replace")
    calls = [(call, data) for call in OF_BYTES] + [(call, as_text) for call in OF_TEXT]
    for call, given_data in calls:
        try:
            call(given_data)
        except MalformedError as error:
            why = str(error)
        else:
            continue
        assert why.isprintable()
        assert len(why) < 500


@given(hostile_data())
def test_random_data_give_a_value_or_malformed_error(data: bytes | None) -> None:
    parse(data or b"")


@check_each("data", DATA_CASES.values())
def test_worst_data_give_a_value_or_malformed_error(data: bytes | None) -> None:
    parse(data or b"")


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("0", 0),
        (b" -7\n", -7),
        ("+7", 7),
        ("0" * 299 + "1", 1),
        (str(2**63 - 1).encode(), 2**63 - 1),
    ],
)
def test_whole_number(said: str | bytes, number: int) -> None:
    assert whole(said) == number


@pytest.mark.parametrize(
    "said", ["", "-", "1_0", "1.0", "0x1", "1 0", "٣", "9223372036854775808", "1" * 301, b"\xb2"]
)
def test_text_that_is_no_whole_number_is_malformed(said: str | bytes) -> None:
    with pytest.raises(MalformedError):
        whole(said)


def test_bounds_of_a_whole_number() -> None:
    assert whole("9" * MAX_DIGITS, most=10**MAX_DIGITS - 1) == 10**MAX_DIGITS - 1
    with pytest.raises(MalformedError, match=r"must be from 1 to 5, not 0$"):
        whole("0", least=1, most=5)


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), math.inf, math.nan, True, "1", None], ids=shown
)
def test_value_that_is_no_real_number_is_malformed(value: object) -> None:
    with pytest.raises(MalformedError):
        real(value)


# --- JSON ----------------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [nested(MAX_DEPTH), 10**MAX_DIGITS - 1, 1 - 10**MAX_DIGITS], ids=shown
)
def test_greatest_json_values_are_accepted(value: Any) -> None:
    check_json(value)
    assert json_value(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "value",
    [nested(MAX_DEPTH + 1), 10**MAX_DIGITS, -(10**MAX_DIGITS), math.inf, math.nan, "\ud800"],
    ids=shown,
)
def test_json_values_beyond_the_limits_are_malformed(value: Any) -> None:
    for container in (value, [value], {"a": value}):
        with pytest.raises(MalformedError):
            check_json(container)
        with pytest.raises(MalformedError):
            json_value(json.dumps(container).encode())


def test_json_key_with_a_lone_surrogate_is_malformed() -> None:
    with pytest.raises(MalformedError):
        check_json({"\udfff": 1})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(VALUES)
def test_encoded_value_can_be_decoded(value: Any) -> None:
    codec = Codec.json()
    try:
        data = encoded(codec, value)
    except ConfigurationError:
        with pytest.raises((ValueError, OverflowError)):
            json_value(json.dumps(value).encode())
        return
    assert codec.decode(data) == value


# --- values that once raised another error -------------------------------------------------------

WEB = {"name": "web", "id": "a"}


@pytest.mark.parametrize("key", ["weight", "load", "registrationTimeUTC", "port", "payload"])
@pytest.mark.parametrize("value", ["400 digits", "5000 digits", "float overflow", "nested", "NaN"])
def test_instance_of_a_service_with_a_hostile_value_is_malformed(key: str, value: str) -> None:
    data = json.dumps(WEB)[:-1] + f', "{key}": {JSON_VALUES[value]}}}'
    with pytest.raises(MalformedError):
        ServiceInstance.from_json(data.encode())


def test_instance_that_no_argument_could_make_is_malformed() -> None:
    with pytest.raises(MalformedError) as caught:
        ServiceInstance.from_json(json.dumps(WEB | {"port": 70000}).encode())
    assert not isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize(
    "changes",
    [
        {"registered_at": 1.7e308},
        {"registered_at": 10**400},
        {"weight": 10**400},
        {"weight": 1e200},
        {"load": 10**5000},
        {"port": 10**5000},
        {"payload": nested(100)},
        {"payload": {"a": 10**400}},
        {"payload": "\ud800"},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_instance_that_could_not_be_read_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ServiceInstance(name="web", **changes).to_json()


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Codec.int64(), 10**5000),
        (Codec.decimal(), 10**300),
        (Codec.decimal(), 10**5000),
        (Codec.json(), 10**5000),
        (Codec.json(), nested(MAX_DEPTH + 1)),
        (Codec.json(), nested(500)),
        (Codec.json(), math.nan),
        (Codec.json(), "\ud800"),
    ],
    ids=shown,
)
def test_value_that_could_not_be_read_is_not_written(codec: Codec[Any], value: Any) -> None:
    with pytest.raises(ConfigurationError):
        encoded(codec, value)


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=shown)
@pytest.mark.parametrize(
    "check",
    [
        checked_wait,
        checked_pause,
        lambda value: checked_number("n", value),
        lambda value: checked_count("n", value, most=1),
    ],
)
def test_argument_that_is_too_great_is_refused(check: Callable[[int], object], value: int) -> None:
    with pytest.raises(ConfigurationError):
        check(value)


def test_waiting_forever_is_allowed() -> None:
    assert checked_wait(math.inf) == math.inf


def test_description_of_a_value_that_cannot_be_shown() -> None:
    assert described(10**5000) == "a value that cannot be shown, of type int"
    assert described("a") == "'a'"
    assert shown(10**5000) == "a number of more than 77 digits"
    assert str(CounterOverflowError("/n", 10**5000, "it is too great"))
