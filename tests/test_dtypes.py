"""Element types: promotion, storage, bits, and shapes under broadcasting, as PyTorch has them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import DTypeError, ShapeError, TensorSpec, dtypes
from kuiperinfer.dtypes import (
    ALL,
    DType,
    broadcast_shapes,
    cast,
    dtype_from_name,
    dtype_of,
    largest_finite,
    narrow,
    promote,
    result_type,
    widen,
)


def of_torch(dtype: torch.dtype) -> DType:
    return dtype_from_name(str(dtype))


pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")

TORCH = [getattr(torch, dtype.torch_names[0]) for dtype in ALL]
NUMBERS = [True, 3, 2.5, 1 + 2j]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(TORCH, TORCH)))
def test_promotion_of_two_dtypes(a: torch.dtype, b: torch.dtype) -> None:
    assert promote(of_torch(a), of_torch(b)) is of_torch(torch.promote_types(a, b))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(TORCH, TORCH)))
def test_tensors_with_dimensions_weigh_more_than_those_without(a: torch.dtype, b: torch.dtype) -> None:
    for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
        expected = torch.result_type(*(torch.empty(s, dtype=d) for s, d in zip(shapes, (a, b), strict=True)))
        found = result_type(*(TensorSpec(s, of_torch(d)) for s, d in zip(shapes, (a, b), strict=True)))
        assert found is of_torch(expected), shapes


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_weigh_least(dtype: torch.dtype, number: complex) -> None:
    for shape in ((2,), ()):
        expected = torch.result_type(torch.empty(shape, dtype=dtype), number)
        assert result_type(TensorSpec(shape, of_torch(dtype)), number) is of_torch(expected)
        assert result_type(number, TensorSpec(shape, of_torch(dtype))) is of_torch(expected)


def test_result_type_needs_an_operand() -> None:
    with pytest.raises(DTypeError):
        result_type()


@given(st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4), min_size=1, max_size=4))
def test_broadcasting(shapes: list[list[int]]) -> None:
    try:
        expected = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        with pytest.raises(ShapeError, match="cannot be broadcast"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == tuple(expected)


def test_every_bfloat16_is_rounded_as_pytorch_rounds() -> None:
    patterns = (np.arange(0, 1 << 16, dtype=np.uint32) << np.uint32(16)).repeat(5).reshape(-1, 5)
    patterns = patterns + np.array([0, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = np.ascontiguousarray(patterns).view(np.float32)
    found = narrow(values, dtypes.bf16)
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    np.testing.assert_array_equal(widen(found), expected)
    assert dtype_of(found) is dtypes.bf16


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_storage_goes_there_and_back(dtype: DType) -> None:
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype.compute)
    stored = narrow(values, dtype)
    assert stored.dtype == dtype.storage and stored.itemsize == dtype.itemsize and dtype_of(stored) is dtype
    np.testing.assert_array_equal(widen(stored), values)
    assert narrow(stored, dtype) is stored
    if dtype in (dtypes.bf16, dtypes.c32):
        bits = dtypes.to_bits(stored)
        assert bits.shape == ((2, 3, 2) if dtype is dtypes.c32 else (2, 3)) and bits.dtype == np.uint16
        assert dtypes.from_bits(bits, dtype).tobytes() == stored.tobytes()


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ALL, ALL)), ids=str)
def test_casts_between_stored_arrays(a: DType, b: DType) -> None:
    stored = narrow(np.array([0, 1, 3, 2.75]).astype(a.compute), a)
    found = cast(stored, b)
    assert dtype_of(found) is b
    assert (found is stored) == (a is b)
    np.testing.assert_array_equal(widen(found), widen(narrow(widen(stored), b)))


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype.kind == "float"], ids=str)
def test_largest_finite_number(dtype: DType) -> None:
    assert largest_finite(dtype) == torch.finfo(getattr(torch, dtype.torch_names[0])).max


def test_storage_without_arithmetic_cannot_be_mistaken() -> None:
    stored = narrow(np.ones(3, np.float32), dtypes.bf16)
    with pytest.raises(TypeError):
        stored + 1


def test_names() -> None:
    for dtype in ALL:
        assert dtype_from_name(dtype.name) is dtype
        assert all(dtype_from_name(f"torch.{name}") is dtype for name in dtype.torch_names)
        assert dtype_from_name(dtype.torch_name) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype
    with pytest.raises(DTypeError, match=r"did you mean 'torch\.float'"):
        dtype_from_name("torch.flota")
    with pytest.raises(DTypeError, match="uint16"):
        dtype_of(np.zeros(1, np.uint16))
    assert dtype_of(np.zeros(1, ">f4")) is dtypes.f32


def test_specs() -> None:
    spec = TensorSpec((2, 3), dtypes.f16)
    assert (spec.ndim, spec.size, spec.nbytes, str(spec)) == (2, 6, 12, "(2,3)f16")
    assert spec == TensorSpec.of(np.ones((2, 3), np.float16)) and spec.like(dtype=dtypes.f32) != spec
    assert spec.like((4,)) == TensorSpec((4,), dtypes.f16)
    assert TensorSpec((), dtypes.f32).size == 1 and TensorSpec((0, 5), dtypes.f32).size == 0
