"""The data of the claims and results of a task board: anything may have been written there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._recipes.task_board import Progress, decode_result, encode_result
from aiolead.types import TaskResult

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts, st.none() | st.floats(0, 1), texts)
def test_progress_is_read_as_written(worker: str, progress: float | None, note: str) -> None:
    said = Progress(worker, progress, note)
    assert Progress.decode(said.encode()) == said


@given(st.binary(max_size=50), texts, st.booleans(), texts)
def test_result_is_read_as_written(data: bytes, worker: str, is_failed: bool, note: str) -> None:
    result = TaskResult("task-0000000000", data, worker, is_failed, note)
    assert decode_result(result.task, encode_result(result)) == result


@given(st.binary(max_size=60))
def test_any_bytes_are_a_result_or_a_value_error(body: bytes) -> None:
    try:
        result = decode_result("task-0000000000", body)
    except ValueError:
        return
    assert body.endswith(result.data)


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body", [b"", b"host:17", b"\xff", b"[]", b"{}", b'{"worker":1,"progress":1,"note":""}', DEEP]
)
def test_invalid_progress_is_ignored(body: bytes) -> None:
    assert Progress.decode(body) is None


@pytest.mark.parametrize("progress", ["NaN", "1e400", "1" + "0" * 400])
def test_progress_that_is_no_json_is_ignored(progress: str) -> None:
    assert Progress.decode(f'{{"worker":"w","progress":{progress},"note":"n"}}'.encode()) is None


@pytest.mark.parametrize("progress", ["-1", "2", "true", '"1"', "1" + "0" * 299])
def test_progress_out_of_range_is_left_out(progress: str) -> None:
    body = f'{{"worker":"w","progress":{progress},"note":"n"}}'
    assert Progress.decode(body.encode()) == Progress("w", None, "n")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "does not end"),
        (b'{"worker":"w","failed":false,"note":""}', "does not end"),
        (b"[]\n", "must be a JSON object, not list"),
        (b"{}\n", "lacks"),
        (b"{\n", "."),
        (b"\xff\n", "."),
        (DEEP + b"\n", "nested too deeply"),
        (json.dumps({"worker": "w", "failed": 0, "note": ""}).encode() + b"\n", "lacks"),
    ],
)
def test_invalid_result_says_why(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=rf"{why}"):
        decode_result("task-0000000000", body)
