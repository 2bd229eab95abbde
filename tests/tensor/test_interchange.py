"""Memory shared with NumPy and torch, in both directions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.dlpack import from_dlpack as torch_from_dlpack

from kuiperinfer import dtypes, memory
from kuiperinfer import tensor as kt
from kuiperinfer.errors import DTypeError, InputError

SHAREABLE = [dtype for dtype in dtypes.ALL if dtype not in (dtypes.bf16, dtypes.c32)]

# ------------------------------------------------------------------------------------------- NumPy


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_arrays_and_tensors_of_every_dtype_share_memory(dtype: dtypes.DType) -> None:
    array = np.zeros((2, 3), dtype.storage)
    x = kt.from_numpy(array)
    assert x.dtype is dtype and x.shape == (2, 3) and x.strides == (3, 1)
    x.fill_(1)
    assert kt.from_numpy(array).tolist() == [[1, 1, 1], [1, 1, 1]]
    back = x.numpy()
    assert np.shares_memory(back, array) and back.dtype == array.dtype
    back[0, 0] = np.zeros((), dtype.storage)
    assert x[0].tolist() == [0, 1, 1]


@given(st.data())
def test_any_view_of_an_array_can_become_a_tensor(data: st.DataObject) -> None:
    array = np.arange(24.0).reshape(2, 3, 4).transpose(data.draw(st.permutations(range(3))))
    step = st.sampled_from([None, 1, 2, -1, -2])
    view = array[tuple(slice(data.draw(st.integers(0, 3)), None, data.draw(step)) for _ in range(3))]
    view = view[..., data.draw(st.sampled_from([None, slice(None)]))]
    x = kt.from_numpy(view)
    assert x.shape == view.shape and x.tolist() == view.tolist()
    if view.size:
        assert x.data_ptr() == view.ctypes.data
        assert x.numpy().strides == view.strides
        x.fill_(-1)
        assert (view == -1).all()


def test_the_array_lives_as_long_as_the_tensor() -> None:
    array = np.arange(1000.0)
    died = weakref.ref(array)
    x = kt.from_numpy(array)[5:8]
    del array
    gc.collect()
    assert died() is not None and x.tolist() == [5, 6, 7]
    del x
    gc.collect()
    assert died() is None


def test_the_tensor_lives_as_long_as_the_array() -> None:
    with memory.no_leaks():
        view = kt.arange(1000).numpy()[-2:]
        others = [kt.zeros(1000, dtype="i64") for _ in range(3)]
        assert view.tolist() == [998, 999] and not any(np.shares_memory(view, other.numpy()) for other in others)
        del view, others


def test_read_only_memory_is_read_only_for_tensors_too() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    x = kt.from_numpy(array)
    with pytest.raises(InputError, match=r"memory that is read-only; use clone\(\)"):
        x.fill_(1)
    x.clone().fill_(1)
    assert array.tolist() == [0, 0, 0]


def test_bfloat16_of_ml_dtypes_is_shared() -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    x = kt.from_numpy(array)
    assert x.dtype is dtypes.bf16 and x.tolist() == [1.5, -2]
    x[0] = 3
    assert array.tolist() == [3, -2]


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (np.zeros(3, ">f4"), InputError, "another byte order"),
        (np.zeros(3, [("a", "<i4"), ("b", "<i2")])["a"], InputError, "lie not where whole elements could"),
        (np.zeros(13, "u1")[1:].view("<i4"), InputError, "lie not where whole elements could"),
        (np.zeros(3, "u2"), DTypeError, "'uint16' are not supported"),
        ([1, 2], InputError, "expected an array, found list"),
    ],
)
def test_arrays_that_cannot_be_shared(source: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        kt.from_numpy(source)


def test_numpy_functions_take_tensors() -> None:
    x = kt.tensor([[1.0, 4.0], [9.0, 16.0]])
    assert np.sqrt(x).tolist() == [[1, 2], [3, 4]]
    assert np.allclose(x, x.numpy())
    for array in (np.float32(2), np.full((2, 2), 2, np.float32)):
        for result in (array + x, x + array):
            assert isinstance(result, kt.Tensor) and result.tolist() == [[3, 6], [11, 18]]
        assert (array < x).tolist() == [[False, True], [True, True]]
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x.T, dtype=np.float64).tolist() == [[1, 9], [4, 16]]
    assert np.asarray(kt.tensor([1.5, 2], dtype="bf16"), dtype=np.float32).tolist() == [1.5, 2]
    with pytest.raises(ValueError, match="only become an array of float64 by being copied"):
        x.__array__(np.float64, copy=False)


def test_tensors_with_gradients_do_not_become_arrays_unasked() -> None:
    x = kt.zeros(2, requires_grad=True)
    for convert in (x.numpy, lambda: np.asarray(x), lambda: torch_from_dlpack(x)):
        with pytest.raises(InputError, match=r"use tensor.detach\(\).numpy\(\)"):
            convert()
    x.detach().numpy()[0] = 5
    assert x.tolist() == [5, 0]


# ------------------------------------------------------------------------------------------- DLPack


@pytest.mark.parametrize("dtype", SHAREABLE, ids=str)
def test_torch_sees_our_memory(dtype: dtypes.DType) -> None:
    x = kt.ones(3, 4, dtype=dtype)
    theirs = torch_from_dlpack(x.T[1:])
    assert str(theirs.dtype) == dtype.torch_name
    assert tuple(theirs.shape) == (3, 3) and theirs.stride() == (1, 4)
    assert theirs.data_ptr() == x.T[1:].data_ptr()
    theirs[0, 0] = 0
    assert x.tolist() == [[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("dtype", SHAREABLE, ids=str)
def test_we_see_memory_of_torch(dtype: dtypes.DType) -> None:
    theirs = torch.zeros(3, 4, dtype=getattr(torch, dtype.torch_names[0]))
    x = kt.from_dlpack(theirs.T)
    assert x.dtype is dtype and x.shape == (4, 3) and x.strides == (1, 4)
    assert x.data_ptr() == theirs.data_ptr()
    x[0, 1] = 1
    assert theirs[1, 0] == 1
    theirs[2, 3] = 1
    assert x[3, 2].item() == 1


def test_memory_that_is_shared_through_dlpack_stays() -> None:
    with memory.no_leaks():
        theirs = torch_from_dlpack(kt.arange(100))
        others = [kt.zeros(100, dtype="i64") for _ in range(3)]
        assert theirs.tolist() == list(range(100))
        del theirs, others
    x = kt.from_dlpack(torch.arange(100))
    assert [torch.zeros(100, dtype=torch.int64).sum().item() for _ in range(3)] == [0, 0, 0]
    assert x.tolist() == list(range(100))


def test_memory_goes_there_and_back_without_being_copied() -> None:
    x = kt.rand(5)
    again = kt.from_dlpack(torch_from_dlpack(x))
    assert again.data_ptr() == x.data_ptr()
    assert np.from_dlpack(x).ctypes.data == x.data_ptr()
    assert kt.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]


def test_what_cannot_go_through_dlpack_is_explained() -> None:
    for dtype, other in ((dtypes.bf16, "f32"), (dtypes.c32, "c64")):
        with pytest.raises(DTypeError, match=f"a tensor of {dtype} cannot be shared through DLPack; convert it with"):
            torch_from_dlpack(kt.zeros(2, dtype=dtype))
        assert torch_from_dlpack(kt.zeros(2, dtype=dtype).to(other)).tolist() == [0, 0]
    with pytest.raises(InputError, match="from_dlpack: cannot share the memory of a Tensor"):
        kt.from_dlpack(torch.zeros(2, dtype=torch.bfloat16))
    with pytest.raises(InputError, match="an object with a method __dlpack__, found list"):
        kt.from_dlpack([1, 2])


# ------------------------------------------------------------------------------------------- what others may write


def test_what_was_calculated_before_others_write_stays() -> None:
    array = np.ones(4, np.float32)
    x = kt.from_numpy(array)
    doubled = x + x
    array[0] = 50
    y = kt.ones(4)
    tripled = y + y + y
    y.numpy()[0] = 50
    z = torch.zeros(4)
    shared = kt.from_dlpack(z)
    shifted = shared + 1
    z[0] = 50
    assert doubled.tolist() == [2, 2, 2, 2]
    assert tripled.tolist() == [3, 3, 3, 3]
    assert shifted.tolist() == [1, 1, 1, 1]
