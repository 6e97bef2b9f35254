"""Any bytes from the network: a typed error, in bounded memory, and never a hang.

The frame reader, every record, and a whole client that gets changed conversations. Records one by
one are in `tests/wire/test_records.py`; `python -m tests.assurance.fuzz` does more of this.
"""

from __future__ import annotations

import struct
from functools import cache

import pytest
from assurance.fuzz.targets import TARGETS, Talker, seeds, talk
from hypothesis import given, settings
from hypothesis import strategies as st

from aiolead.errors import ConnectionLossError

PIECE = 20
"""So small, in bytes, that no answer comes before its request."""

NUMBERS = [-(2**31), -2, -1, 0, 1, 2**16, 2**24, 2**31 - 1]


@cache
def seeds_of(target: str) -> list[bytes]:
    return seeds(target)


def changed(data: st.DataObject, seed: bytes) -> bytes:
    """Well-formed bytes after one to four changes."""
    out = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        if not out:
            break
        start = data.draw(st.integers(0, len(out) - 1))
        end = min(len(out), start + data.draw(st.integers(1, 40)))
        match data.draw(st.sampled_from(["byte", "number", "lost", "again", "cut", "more"])):
            case "byte":
                out[start] = data.draw(st.integers(0, 255))
            case "number":
                out[start : start + 4] = struct.pack(">i", data.draw(st.sampled_from(NUMBERS)))
            case "lost":
                del out[start:end]
            case "again":
                out[end:end] = out[start:end]
            case "cut":
                del out[start:]
            case _:
                out[start:start] = data.draw(st.binary(max_size=20))
    return bytes(out)


@pytest.mark.exhaustive("random data, beside the worst data")
@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_changed_input_gives_a_typed_error(target: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(seeds_of(target)))
    TARGETS[target](changed(data, seed))


@pytest.mark.exhaustive("random data, beside the worst data")
@pytest.mark.parametrize("target", TARGETS)
@given(data=st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_random_input_gives_a_typed_error(target: str, data: bytes) -> None:
    TARGETS[target](data)


# Inputs that fuzzing has found, or simpler ones of the same kind.
FOUND = {
    # A nonce that the server's own character set cannot say.
    "login": b"\xff" + 'nonce="\u0791",algorithm=md5-sess'.encode()
}


@pytest.mark.parametrize(("target", "data"), FOUND.items())
def test_input_found_by_fuzzing_gives_a_typed_error(target: str, data: bytes) -> None:
    TARGETS[target](data)


# --- a client that gets one conversation -------------------------------------------------------


@cache
def told() -> bytes:
    """The answers of a server."""
    return talk()[1]


def tell(talker: Talker, data: bytes) -> bool:
    """Sends it in pieces; False as soon as the client leaves the connection for it."""
    for start in range(0, len(data), PIECE):
        talker.said()
        if not (talker.hear(data[start : start + PIECE]) and talker.pass_time(0.02)):
            return False
    return True


def asking() -> Talker:
    talker = Talker()
    talker.ask()
    talker.open()
    return talker


def test_unchanged_conversation_answers_every_call() -> None:
    talker = asking()
    assert tell(talker, told())
    assert all(call.is_done for call in talker.calls)
    talker.close()


def test_conversation_may_end_after_any_byte() -> None:
    whole = told()
    for size in range(0, len(whole), 5):
        talker = asking()
        assert tell(talker, whole[:size])
        talker.lose()
        errors = [call.error() for call in talker.calls if call.is_done]
        lost = [error for error in errors if isinstance(error, ConnectionLossError)]
        assert all(error.outcome.name == "UNKNOWN" for error in lost)
        talker.close()


@pytest.mark.parametrize("number", NUMBERS)
def test_number_at_any_place_of_a_conversation_does_no_harm(number: int) -> None:
    """In the place of any four bytes, a length or a count is 2 GiB, or negative."""
    whole, packed = told(), struct.pack(">i", number)
    for start in range(NUMBERS.index(number), len(whole) - 4, len(NUMBERS)):
        talker = asking()
        if not tell(talker, whole[:start] + packed + whole[start + 4 :]):
            talker.lose()
        talker.close()


def test_each_frame_may_be_missing_or_doubled() -> None:
    whole, frames, start = told(), [], 0
    while start < len(whole):
        end = start + 4 + int.from_bytes(whole[start : start + 4], "big")
        frames.append(whole[start:end])
        start = end
    assert len(frames) > 25
    for index in range(len(frames)):
        for instead in (b"", frames[index] * 2, frames[index - 1]):
            talker = asking()
            data = b"".join([*frames[:index], instead, *frames[index + 1 :]])
            if not tell(talker, data):
                talker.lose()
            talker.close()
