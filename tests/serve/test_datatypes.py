"""Arrays as JSON numbers and as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import dtypes
from kuiperinfer.dtypes import DType
from kuiperinfer.serve.datatypes import datatype_name, dtype_named, from_bytes, from_json, to_bytes, to_json
from kuiperinfer.serve.refusals import Refusal
from tests.serve.models import DATATYPES


@pytest.mark.parametrize(("name", "datatype"), DATATYPES.items())
def test_names(name: str, datatype: str) -> None:
    dtype = dtypes.dtype_from_name(name)
    assert datatype_name(dtype) == datatype
    assert dtype_named(datatype) is dtype


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("BYTES", "datatype BYTES is not supported"),
        ("UINT64", "datatype UINT64 is not supported"),
        ("FP23", "found 'FP23'; did you mean 'FP32'"),
        ("fp32", "expected one of BOOL, UINT8"),
        (None, "found null"),
        (["FP32"], r"found \['FP32'\]"),
        ("x" * 1000, "found 'xxx"),
    ],
)
def test_names_that_are_none(name: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        dtype_named(name)
    assert len(str(caught.value)) < 300


@given(data=st.data(), dtype=st.sampled_from([dtypes.dtype_from_name(name) for name in DATATYPES]))
def test_through_json_and_bytes_and_back(data: st.DataObject, dtype: DType) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    bits = data.draw(
        st.binary(min_size=int(np.prod(shape)) * dtype.itemsize, max_size=int(np.prod(shape)) * dtype.itemsize)
    )
    raw = np.frombuffer(bits, np.uint8)
    raw = raw % 2 if dtype is dtypes.bool_ else raw
    array = raw.tobytes()
    found = from_bytes(memoryview(array), shape, dtype)
    assert found.shape == shape
    assert to_bytes(found) == array
    wide = dtypes.widen(found)
    if wide.dtype.kind == "f" and not np.isfinite(wide).all():
        with pytest.raises(Refusal, match="JSON cannot carry"):
            to_json(found, "y")
        return
    numbers = orjson.loads(orjson.dumps(to_json(found, "y"), option=orjson.OPT_SERIALIZE_NUMPY))
    again = from_json(numbers, shape, dtype)
    assert again.dtype == dtype.storage
    np.testing.assert_array_equal(dtypes.widen(again), wide)
    assert to_bytes(again) == array


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [  # a little more or less than the middle of two elements, which is lost where it becomes float32 first
        (1 + 2**-11 + 2**-40, dtypes.f16, 1 + 2**-10),
        (1 + 2**-11, dtypes.f16, 1),
        (-1 - 3 * 2**-11 + 2**-40, dtypes.f16, -1 - 2**-10),
        (2**-25 + 2**-60, dtypes.f16, 2**-24),
        (65519.99999999, dtypes.f16, 65504),
        (1 + 2**-8 + 2**-40, dtypes.bf16, 1 + 2**-7),
        (1 + 3 * 2**-8 - 2**-40, dtypes.bf16, 1 + 2**-7),
        (-(2**-134) - 2**-180, dtypes.bf16, -(2**-133)),
        (3.4028235e38, dtypes.f32, float(np.finfo(np.float32).max)),  # as it is commonly written, a little too large
    ],
)
def test_numbers_are_rounded_once(number: float, dtype: DType, expected: float) -> None:
    assert float(dtypes.widen(from_json([number], (1,), dtype))[0]) == expected


@given(st.lists(st.floats(-65519.0, 65519.0), min_size=1, max_size=20))
def test_half_numbers_are_rounded_as_numpy_rounds_them(numbers: list[float]) -> None:
    found = from_json(numbers, (len(numbers),), dtypes.f16)
    assert found.tobytes() == np.array(numbers, np.float16).tobytes()


def test_nested_and_flat_lists() -> None:
    for data in ([[1, 2, 3], [4, 5, 6]], [1, 2, 3, 4, 5, 6]):
        assert from_json(data, (2, 3), dtypes.f32).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert from_json([], (0, 3), dtypes.i64).shape == (0, 3)
    assert from_json([7], (), dtypes.f32).shape == ()


@pytest.mark.parametrize(
    ("data", "dtype", "message"),
    [
        (5, dtypes.f32, "data: expected a list, found 5"),
        ("12", dtypes.f32, "expected a list"),
        ({"0": 1}, dtypes.f32, "expected a list"),
        ([1, [2]], dtypes.f32, "lists of equal length"),
        ([[1], [2, 3]], dtypes.f32, "lists of equal length"),
        (["1", "2"], dtypes.f32, r"data\[0\]: expected numbers for FP32, found '1'"),
        ([1, None], dtypes.f32, r"data\[1\]: expected numbers for FP32, found null"),
        ([{}, 1], dtypes.f32, "expected numbers for FP32, found {}"),
        ([True, False], dtypes.f32, "expected numbers for FP32, found a boolean"),
        ([[1], [True]], dtypes.u8, r"data\[1\]\[0\]: expected whole numbers from 0 to 255 for UINT8, found a boolean"),
        (
            [2, 1.5],
            dtypes.i32,
            r"data\[1\]: expected whole numbers from -2147483648 to 2147483647 for INT32, found 1.5",
        ),
        ([True, 2], dtypes.bool_, r"data\[1\]: expected true and false for BOOL, found 2"),
        ([1, 2], dtypes.bool_, "expected true and false for BOOL"),
        ([1, 300], dtypes.u8, r"data\[1\]: expected whole numbers from 0 to 255 for UINT8, found 300"),
        ([[[1, -1]]], dtypes.u8, r"expected 2 elements for shape \[2\], found \[1, 1, 2\]"),
        ([-1, 2**63], dtypes.u8, r"data\[0\]: expected whole numbers from 0 to 255 for UINT8, found -1"),
        ([1, 2**31], dtypes.i32, r"data\[1\]: .* to 2147483647 for INT32, found 2147483648"),
        ([2**63, 2**63], dtypes.i64, r"data\[0\]: .* to 9223372036854775807 for INT64, found 9223372036854775808"),
        ([-1, 2**63], dtypes.i64, r"data\[1\]: .* to 9223372036854775807 for INT64, found 9223372036854775808"),
        ([1, 1e30], dtypes.i64, r"data\[1\]: .* to 9223372036854775807 for INT64, found 1e\+30"),
        ([10**30, 1], dtypes.i64, "expected whole numbers"),
        ([1, 1e39], dtypes.f32, r"data\[1\]: expected numbers in the range of FP32, found 1e\+39"),
        ([70000, 1], dtypes.f16, "in the range of FP16, found 70000"),
        ([65520, 1], dtypes.f16, "in the range of FP16"),
        ([3.4028236e38, 1], dtypes.f32, "in the range of FP32"),
        ([1e300, 1], dtypes.bf16, "in the range of BF16"),
        ([1], dtypes.f32, r"expected 2 elements for shape \[2\], found \[1\]"),
        ([1, 2, 3], dtypes.f32, r"expected 2 elements for shape \[2\], found \[3\]"),
        ([[1, 2]], dtypes.f32, r"expected 2 elements for shape \[2\], found \[1, 2\]"),
        ([], dtypes.f32, r"expected 2 elements"),
    ],
)
def test_data_that_do_not_fit(data: Any, dtype: DType, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        from_json(data, (2,), dtype)


def test_lists_that_are_too_deep() -> None:
    data: Any = [1.0]
    for _ in range(200):
        data = [data]
    with pytest.raises(Refusal):
        from_json(data, (1,), dtypes.f32)


def test_bools_are_nothing_but_0_and_1() -> None:
    with pytest.raises(Refusal, match="BOOL bytes must be 0 or 1"):
        from_bytes(memoryview(b"\x00\x02"), (2,), dtypes.bool_)


def test_bytes_at_odd_places() -> None:
    found = from_bytes(memoryview(b"x" + np.arange(3, dtype=np.float64).tobytes())[1:], (3,), dtypes.f64)
    assert found.tolist() == [0, 1, 2]


def test_the_place_of_what_does_not_fit() -> None:
    with pytest.raises(Refusal, match=r"data\[1\]\[2\]: expected whole numbers from -128 to 127 for INT8, found 128"):
        from_json([[1, 2, 3], [4, 5, 128]], (2, 3), dtypes.i8)
