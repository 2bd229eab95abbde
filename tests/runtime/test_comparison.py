"""What counts as equal: shapes, dtypes, values, NaN and infinities, and the tolerance of each dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuiperinfer import dtypes
from kuiperinfer.dtypes import DType, narrow
from kuiperinfer.runtime.comparison import compare

INF, NAN = float("inf"), float("nan")


def array(values: Any, dtype: DType = dtypes.f32) -> dtypes.Array:
    return narrow(np.asarray(values, dtype.compute), dtype)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("values", [[1, 0, 1], [], [[1]], 1], ids=str)
def test_equal_arrays_agree_exactly(dtype: DType, values: Any) -> None:
    comparison = compare(array(values, dtype), array(values, dtype))
    assert comparison.ok
    assert comparison.error == 0.0


def test_another_shape_is_wrong_even_where_it_broadcasts() -> None:
    assert compare(array([[1.0]]), array([1.0])).problem == "found shape (1, 1), expected (1,)"
    assert compare(array([]), array([1.0])).problem == "found shape (0,), expected (1,)"


@pytest.mark.parametrize("other", [dtype for dtype in dtypes.ALL if dtype is not dtypes.f32], ids=str)
def test_another_dtype_is_wrong_even_where_values_are_equal(other: DType) -> None:
    assert compare(array([1.0], other), array([1.0])).problem == f"found dtype {other}, expected f32"


def test_byte_order_does_not_matter() -> None:
    assert compare(array([1.0]).astype(">f4"), array([1.0])).ok


@pytest.mark.parametrize(
    ("dtype", "within", "beyond"),
    [
        (dtypes.f32, 100.0009, 100.0011),
        (dtypes.f64, 100 + 0.9e-8, 100 + 1.1e-8),
        (dtypes.c64, 100 + 0.0009j, 100 + 0.0011j),
        (dtypes.c128, 100 + 0.9e-8j, 100 + 1.1e-8j),
        (dtypes.f16, 100.0625, 100.125),
        (dtypes.bf16, 100.5, 101.5),
    ],
    ids=str,
)
def test_floats_have_the_tolerance_of_their_dtype(dtype: DType, within: complex, beyond: complex) -> None:
    expected = array([100, 1, 0], dtype)
    assert compare(array([within, 1, 0], dtype), expected).ok
    comparison = compare(array([beyond, 1, 0], dtype), expected)
    assert not comparison.ok
    assert "at (0,): found 10" in str(comparison.problem)


def test_the_error_is_relative_to_the_largest_magnitude() -> None:
    assert compare(array([-1e6, 3.0]), array([-1e6, 0.0])).error == pytest.approx(3e-6)
    assert compare(array([1e-30]), array([0.0])).error == INF
    assert compare(array([3 + 4j], dtypes.c64), array([6 + 8j], dtypes.c64)).error == pytest.approx(0.5)


def test_a_given_tolerance_replaces_the_default_for_floats_only() -> None:
    assert compare(array([1.05]), array([1.0]), 0.1).ok
    assert not compare(array([1.05]), array([1.0]), 0.01).ok
    assert not compare(array([101], dtypes.i32), array([100], dtypes.i32), 0.1).ok


@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype.kind == "int"], ids=str)
def test_integers_are_exact(dtype: DType) -> None:
    comparison = compare(array([7, 3, 5], dtype), array([7, 4, 6], dtype))
    assert comparison.problem == "2 of 3 elements differ, first at (1,): found 3, expected 4"


def test_large_integers_are_not_compared_as_floats() -> None:
    assert not compare(array([2**62 + 1], dtypes.i64), array([2**62], dtypes.i64)).ok


def test_bools_are_exact() -> None:
    assert compare(array([True, False], dtypes.bool_), array([True, True], dtypes.bool_)).problem is not None


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.c64, dtypes.c32], ids=str)
def test_nan_equals_nan_and_infinities_need_their_sign(dtype: DType) -> None:
    expected = array([1.0, NAN, INF, -INF], dtype)
    assert compare(array([1.0, NAN, INF, -INF], dtype), expected).error == 0.0
    for wrong in ([1.0, 2.0, INF, -INF], [NAN, NAN, INF, -INF], [1.0, NAN, -INF, -INF], [1.0, NAN, INF, 3e4]):
        comparison = compare(array(wrong, dtype), expected)
        assert not comparison.ok
        assert comparison.error == INF


def test_nan_and_infinity_do_not_widen_the_tolerance_of_the_rest() -> None:
    assert not compare(array([INF, 1.1]), array([INF, 1.0])).ok


def test_random_values_are_compared_in_shape_and_dtype_only() -> None:
    assert compare(array([1.0]), array([5.0]), values=False).ok
    assert not compare(array([1.0]), array([5.0, 6.0]), values=False).ok
    assert not compare(array([1], dtypes.i32), array([5.0]), values=False).ok
