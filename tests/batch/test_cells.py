"""What is written to Parquet is what is read back, and what other people write is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kuiperinfer.batch.cells import cell, column, column_type, in_shape
from kuiperinfer.errors import InputError

DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_, np.complex64]


def through_a_file(array: Any, folder: Path) -> Any:
    path = folder / "cells.parquet"
    pq.write_table(pa.table({"x": array}), path)
    return pq.read_table(path)["x"]


def as_complex(array: Any) -> Any:
    return array.view(np.complex64 if array.dtype == np.float32 else np.complex128)[..., 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("is_free", [False, True])
def test_rows_come_back(tmp_path: Path, dtype: Any, shape: tuple[int, ...], is_free: bool) -> None:
    rows = list((np.random.default_rng(1).standard_normal((5, *shape)) * 50).astype(dtype))
    kind = column_type((None,) * len(shape) if is_free else shape, np.dtype(dtype))
    back = through_a_file(column([np.asarray(row) for row in rows], kind), tmp_path)
    for row, scalar in zip(rows, back, strict=True):
        found = cell(scalar)
        if is_free and shape:
            found = found["values"].reshape(found["shape"])
        assert np.array_equal(as_complex(found) if row.dtype.kind == "c" else found, row)


def test_tensors_are_known_to_others(tmp_path: Path) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    kind = column_type((2, 3), rows.dtype)
    back = through_a_file(column(list(rows), kind), tmp_path)
    assert np.array_equal(back.combine_chunks().to_numpy_ndarray(), rows)
    with pytest.raises(InputError, match=r"shape \(2, 3\) in all rows, found \(3, 2\)"):
        column([rows[0], rows[0].T], kind)


@given(hnp.arrays(st.sampled_from([np.float32, np.int64, np.uint8]), hnp.array_shapes(max_dims=3, max_side=4)))
def test_nested_lists_are_arrays(array: Any) -> None:
    number = pa.from_numpy_dtype(array.dtype)
    kind: Any = number
    for _ in array.shape:
        kind = pa.list_(kind)
    found = cell(pa.array([array.tolist()], kind)[0])
    assert found.dtype == array.dtype
    assert np.array_equal(found, array, equal_nan=array.dtype.kind == "f")


def test_other_cells() -> None:
    assert cell(pa.array([b"ab"])[0]) == b"ab"
    assert cell(pa.array(["ab"])[0]) == "ab"
    assert cell(pa.array([7], pa.int16())[0]) == np.int16(7)
    assert cell(pa.array([{"bytes": b"x", "path": None}])[0]) == {"bytes": b"x"}
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2)
    assert cell(fixed[1]).tolist() == [3.0, 4.0]
    assert cell(pa.array([[]], pa.list_(pa.float32()))[0]).shape == (0,)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (pa.array([None], pa.int8()), "the cell is empty"),
        (pa.array([[1, None]]), "empty entries"),
        (pa.array([[[1], [1, 2]]]), "different lengths: 1, 2"),
        (pa.array([["a"]]), "lists of numbers, found string"),
    ],
)
def test_cells_that_are_no_arrays(array: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        cell(array[0])


def test_rows_in_the_shape_of_the_model() -> None:
    flat = np.arange(6)
    assert in_shape(flat, (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert in_shape(flat, (6,)) is flat
    assert in_shape(flat.reshape(2, 3), (None, 3)).shape == (2, 3)
    assert in_shape(np.asarray(5), ()).shape == ()
    for shape, written in (((2, 4), "(2, 4)"), ((None, 6), r"(?, 6)"), ((5,), "(5)")):
        with pytest.raises(InputError) as caught:
            in_shape(flat, shape)
        assert f"a row of shape {written}, found (6,)" in str(caught.value)
