"""New tensors: dtypes, shapes and values are those of PyTorch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import Tensor, dtypes, memory
from kuiperinfer import tensor as kt
from kuiperinfer.errors import DTypeError, InputError, ResourceLimitError, ShapeError

DATA: list[Any] = [
    3,
    2.5,
    True,
    1 + 2j,
    [],
    [1, 2, 3],
    [[1.0, 2], [3, 4]],
    [True, False],
    [1, 2.5],
    [True, 2],
    [1j, 2],
    (1, 2),
    [(1, 2), (3, 4)],
    [[[]]],
    [2**40],
    np.float64(2.5),
    np.int8(3),
    np.arange(6.0).reshape(2, 3),
    np.arange(6, dtype=np.int16)[::-2],
    np.zeros((2, 0), np.complex64),
    np.array(True),
    [np.float32(1), np.float32(2)],
    [np.arange(3), np.arange(3)],
]


def assert_equal(ours: Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype.torch_name == str(theirs.dtype)
    assert ours.shape == tuple(theirs.shape)
    assert ours.stride() == theirs.stride() or not theirs.numel()  # torch keeps those of empty NumPy arrays
    np.testing.assert_array_equal(np.asarray(ours.tolist()), np.asarray(theirs.tolist()))


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
@pytest.mark.parametrize("data", DATA, ids=repr)
def test_dtype_and_shape_of_data_are_those_of_torch(data: Any) -> None:
    theirs = torch.tensor(data if not isinstance(data, np.ndarray) else data.copy())
    assert_equal(kt.tensor(data), theirs.contiguous())
    assert_equal(Tensor(data), theirs.contiguous())


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype_holds_numbers(dtype: dtypes.DType) -> None:
    numbers = [0, 1, 1, 0] if dtype is dtypes.bool_ else [0, 1, 2, 100]
    for name in (dtype, dtype.name, dtype.torch_name, dtype.torch_names[0], getattr(torch, dtype.torch_names[0])):
        x = kt.tensor(numbers, dtype=name)
        assert x.dtype is dtype and x.shape == (4,)
        assert x.tolist() == numbers
        assert x.itemsize == x.element_size() == dtype.itemsize and x.nbytes == 4 * dtype.itemsize
    assert kt.zeros(2, 3, dtype=dtype).tolist() == [[0] * 3] * 2
    assert kt.full((2,), True, dtype).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (float, dtypes.f32),
        (int, dtypes.i64),
        (bool, dtypes.bool_),
        (complex, dtypes.c64),
        (np.float64, dtypes.f64),
        (np.dtype(">i2"), dtypes.i16),
        ("bool", dtypes.bool_),
        ("float", dtypes.f32),
        ("half", dtypes.f16),
        (np.int8, dtypes.i8),
    ],
)
def test_dtypes_in_every_spelling(name: Any, dtype: dtypes.DType) -> None:
    assert kt.zeros(1, dtype=name).dtype is dtype


def test_unknown_dtypes() -> None:
    with pytest.raises(DTypeError, match="unknown dtype 'f23'; did you mean"):
        kt.zeros(1, dtype="f23")
    with pytest.raises(DTypeError, match=r"NumPy dtype 'uint16' are not supported"):
        kt.zeros(1, dtype=np.uint16)
    with pytest.raises(DTypeError, match="expected a dtype such as"):
        kt.zeros(1, dtype=object())  # type: ignore[arg-type]


def test_data_is_copied() -> None:
    array = np.zeros(3, np.float32)
    first = kt.tensor(array)
    second = Tensor(first)
    array[0] = 1
    first[1] = 2
    assert (array.tolist(), first.tolist(), second.tolist()) == ([1, 0, 0], [0, 2, 0], [0, 0, 0])
    assert first.storage.block.exposed is False


def test_tensors_of_other_libraries_and_lists_of_tensors() -> None:
    theirs = torch.arange(6, dtype=torch.float64).reshape(2, 3).T
    assert kt.tensor(theirs).tolist() == theirs.tolist()
    assert kt.tensor([kt.tensor([1.0, 2]), kt.tensor([3.0, 4])]).tolist() == [[1, 2], [3, 4]]
    assert kt.tensor([kt.tensor(1), kt.tensor(2)]).dtype is dtypes.i64
    assert kt.tensor(np.array([1.5, -2], ml_dtypes.bfloat16)).dtype is dtypes.bf16
    assert kt.tensor(np.array([1.5, -2], ml_dtypes.bfloat16)).tolist() == [1.5, -2]
    assert kt.tensor(np.arange(3).astype(">i4")).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[1, 2], [3]], "lists of equal lengths"),
        ("text", "not supported"),
        (None, "not supported"),
        ([1, "a"], "not supported"),
        ({"a": 1}, "not supported"),
    ],
)
def test_what_is_no_number_is_refused(data: Any, message: str) -> None:
    with pytest.raises((InputError, DTypeError), match=message):
        kt.tensor(data)


@pytest.mark.parametrize("number", [256, -129, [1, 300]])
def test_integers_that_do_not_fit_are_refused(number: Any) -> None:
    with pytest.raises(DTypeError, match="do not fit i8, which has -128 to 127"):
        kt.tensor(number, dtype="i8")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, [1, 2**64]])
def test_integers_beyond_64_bits_are_refused(number: Any) -> None:
    with pytest.raises(DTypeError, match="integers outside of 64 bits do not fit any dtype"):
        kt.tensor(number)


def test_conversions_follow_torch() -> None:
    values = [1.9, -1.9, 0.0, 255.5]
    for dtype in (dtypes.i64, dtypes.bool_, dtypes.f16, dtypes.c64, dtypes.i8):
        theirs = torch.tensor(values).to(getattr(torch, dtype.torch_names[0]))
        assert kt.tensor(values).to(dtype).tolist() == theirs.tolist()
        assert kt.tensor(values, dtype=dtype).tolist() == theirs.tolist() or dtype is dtypes.i8


def test_short_names_of_conversions() -> None:
    x = kt.tensor([1.5, 0.0])
    names = "float double half bfloat16 long int short char byte bool"
    expected = "f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool"
    assert [str(getattr(x, name)().dtype) for name in names.split()] == expected.split()
    assert x.float() is x
    assert x.long().type_as(x).dtype is dtypes.f32


# ------------------------------------------------------------------------------------------- of one value


@pytest.mark.parametrize("size", [(), (0,), (3,), (2, 3), (2, 0, 4)])
def test_tensors_of_one_value(size: tuple[int, ...]) -> None:
    assert_equal(kt.zeros(size), torch.zeros(size))
    assert_equal(
        kt.ones(*size, dtype="i32"), torch.ones(*size, dtype=torch.int32) if size else torch.ones((), dtype=torch.int32)
    )
    assert kt.empty(size, dtype="f64").shape == size
    for value in (True, 3, -2.5, 1j):
        assert_equal(kt.full(size, value), torch.full(size, value))
    like = kt.full(size, 7, "i16")
    assert_equal(like, torch.full(size, 7, dtype=torch.int16))
    assert_equal(kt.zeros_like(like), torch.zeros(size, dtype=torch.int16))
    assert_equal(kt.ones_like(like, dtype="f64"), torch.ones(size, dtype=torch.float64))
    assert_equal(kt.full_like(like, -3), torch.full(size, -3, dtype=torch.int16))
    assert kt.empty_like(like).dtype is dtypes.i16


def test_sizes_may_be_any_integers() -> None:
    assert kt.zeros(np.int64(2), kt.tensor(3)).shape == (2, 3)
    assert kt.zeros([2, 3]).shape == kt.zeros(kt.zeros(2, 3).shape).shape == (2, 3)
    assert kt.full(2, 1.0).shape == (2,)


def test_bad_sizes_and_values() -> None:
    with pytest.raises(ShapeError, match=r"at least 0, found \(2, -1\)"):
        kt.zeros(2, -1)
    with pytest.raises(ShapeError, match="as integers"):
        kt.zeros(2.5)
    with pytest.raises(DTypeError, match="the number 300 is out of the range of u8"):
        kt.full((2,), 300, "u8")
    with pytest.raises(InputError, match="full: expected a number, found 'a'"):
        kt.full((2,), "a")
    with pytest.raises(ResourceLimitError, match="not enough memory"):
        kt.empty(1 << 40, 1 << 20)
    with pytest.raises(DTypeError, match="only floats have gradients; found a tensor of i64"):
        kt.zeros(2, dtype="i64", requires_grad=True)
    assert kt.zeros(2, requires_grad=True).requires_grad


def test_a_failed_allocation_leaves_nothing_behind() -> None:
    with memory.no_leaks():
        with memory.fail_allocation(2):
            first = kt.zeros(10)
            with pytest.raises(ResourceLimitError, match="not enough memory for an array of 80 bytes"):
                kt.zeros(20)
        del first


# ------------------------------------------------------------------------------------------- ranges

SMALL = st.integers(-20, 20)


@given(SMALL, SMALL, st.integers(1, 5), st.booleans())
def test_ranges_of_integers_are_those_of_torch(start: int, end: int, step: int, is_float: bool) -> None:
    step = step if end >= start else -step
    numbers: tuple[Any, ...] = (start / 2, end / 2, step / 4) if is_float else (start, end, step)
    assert_equal(kt.arange(*numbers), torch.arange(*numbers))
    if not is_float and end >= 0:
        assert_equal(kt.arange(end), torch.arange(end))
    if not is_float and end >= start:
        assert_equal(kt.arange(start, end, dtype="f64"), torch.arange(start, end, dtype=torch.float64))


@given(st.floats(-100, 100), st.floats(-100, 100), st.integers(0, 20))
def test_linspace_is_that_of_torch(start: float, end: float, steps: int) -> None:
    ours, theirs = kt.linspace(start, end, steps, dtype="f64"), torch.linspace(start, end, steps, dtype=torch.float64)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)
    single = kt.linspace(start, end, steps)
    np.testing.assert_allclose(single.numpy(), theirs.float().numpy(), rtol=2e-7, atol=1e-37)


@pytest.mark.parametrize(("n", "m"), [(3, None), (2, 4), (4, 2), (0, None), (3, 0)])
def test_eye_is_that_of_torch(n: int, m: int | None) -> None:
    assert_equal(kt.eye(n, m, dtype="i64"), torch.eye(n, n if m is None else m, dtype=torch.int64))


def test_bad_ranges() -> None:
    with pytest.raises(InputError, match="arange: expected end, start and end"):
        kt.arange()
    with pytest.raises(InputError, match="step: expected a number other than 0"):
        kt.arange(0, 1, 0)
    with pytest.raises(InputError, match="end lies on the other side"):
        kt.arange(3, 1)
    with pytest.raises(InputError, match="at least 0 steps"):
        kt.linspace(0, 1, -1)
    with pytest.raises(ShapeError, match="at least 0"):
        kt.eye(-1)


def test_as_tensor_copies_only_where_it_must() -> None:
    array = np.zeros(3, np.float32)
    shared = kt.as_tensor(array)
    array[0] = 1
    assert shared.tolist() == [1, 0, 0]
    assert kt.as_tensor(shared) is shared
    assert kt.as_tensor(array, dtype="f64").tolist() == [1, 0, 0]
    assert kt.as_tensor([1, 2]).dtype is dtypes.i64
