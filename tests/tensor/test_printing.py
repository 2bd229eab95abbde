"""The text of tensors is PyTorch's, except for the names of dtypes, which are ours."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kuiperinfer import dtypes
from kuiperinfer import tensor as kt
from kuiperinfer.errors import InputError
from kuiperinfer.tensor.printing import PrintOptions, tensor_text

SHAPES = [
    (),
    (0,),
    (1,),
    (2, 0, 3),
    (5,),
    (30,),
    (1001,),
    (3, 4),
    (2, 3, 4),
    (2, 1, 2, 3),
    (7, 200),
    (40, 40),
    (12, 3, 30),
]

generator: Any = np.random.default_rng(3)


def whole(shape: tuple[int, ...]) -> Any:
    return generator.integers(-50, 5000, shape)


VALUES = {
    "normal": lambda shape: generator.standard_normal(shape).astype(np.float32),
    "wide": lambda shape: (10.0 ** generator.uniform(-6, 6, shape)).astype(np.float32),
    "large": lambda shape: (1e9 * generator.standard_normal(shape)).astype(np.float32),
    "tiny": lambda shape: (1e-7 * generator.standard_normal(shape)).astype(np.float32),
    "whole": lambda shape: whole(shape).astype(np.float32),
    "whole and wide": lambda shape: (10.0 ** generator.integers(0, 6, shape)).astype(np.float32),
    "zeros": lambda shape: np.zeros(shape, np.float32),
    "not finite": lambda shape: generator.choice([0.5, np.inf, -np.inf, np.nan, -0.0], shape).astype(np.float32),
    "whole, not finite": lambda shape: generator.choice([3, np.inf, np.nan], shape).astype(np.float32),
    "only nan": lambda shape: np.full(shape, np.nan, np.float32),
    "integers": whole,
    "small integers": lambda shape: whole(shape).astype(np.int8),
    "bytes": lambda shape: whole(shape).astype(np.uint8),
    "shorts": lambda shape: whole(shape).astype(np.int16),
    "ints": lambda shape: whole(shape).astype(np.int32),
    "bools": lambda shape: whole(shape) % 2 == 0,
    "doubles": generator.standard_normal,
    "halves": lambda shape: generator.standard_normal(shape).astype(np.float16),
    "complex": lambda shape: (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(
        np.complex64
    ),
    "whole complex": lambda shape: whole(shape) + 1j * whole(shape)[..., None].reshape(shape),
}


def in_our_names(text: str) -> str:
    """PyTorch's text with our names for dtypes."""
    for dtype in dtypes.ALL:
        text = text.replace(f"dtype={dtype.torch_name}", f"dtype={dtype}")
    return text


def their_text(array: Any) -> str:
    """PyTorch's text of an array."""
    return in_our_names(str(torch.tensor(array)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", VALUES)
def test_text_is_that_of_torch(kind: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(VALUES[kind](shape))
    theirs = their_text(array)
    ours = str(kt.tensor(array))
    # A shorter name of a dtype may leave room for it in the last line, where PyTorch begins another.
    assert ours == theirs or ours == theirs.replace(",\n       dtype=", ", dtype=")
    assert repr(kt.tensor(array)) == ours


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=8), elements=st.floats(width=32)))
def test_text_of_any_floats_is_that_of_torch(array: Any) -> None:
    assert str(kt.tensor(array)) == str(torch.tensor(array))


@given(
    hnp.arrays(
        np.float64, hnp.array_shapes(max_dims=2, max_side=12), elements=st.sampled_from([0.0, 1.5, -200.25, 1e5])
    ),
    st.builds(
        PrintOptions,
        precision=st.integers(0, 8),
        threshold=st.integers(0, 50),
        edgeitems=st.integers(1, 4),
        linewidth=st.integers(20, 120),
        sci_mode=st.sampled_from([None, True, False]),
    ),
)
def test_options_mean_what_they_mean_in_torch(array: Any, options: PrintOptions) -> None:
    array = array.astype(np.float32)
    set_options: Any = torch.set_printoptions
    try:
        set_options(**dataclasses.asdict(options))
        theirs = str(torch.tensor(array))
    finally:
        set_options(profile="default")
    assert tensor_text(kt.tensor(array), options) == theirs


def test_options_can_be_set_for_all_that_follows() -> None:
    x = kt.tensor([1 / 3, 2e5])
    before = kt.set_printoptions(precision=2, sci_mode=False)
    try:
        assert str(x) == "tensor([     0.33, 200000.00])"
    finally:
        kt.set_printoptions(**dataclasses.asdict(before))
    assert str(x) == "tensor([3.3333e-01, 2.0000e+05])"
    with pytest.raises(InputError, match="no print option 'precison'; did you mean 'precision'"):
        kt.set_printoptions(precison=2)


def test_notes() -> None:
    assert str(kt.zeros(2, requires_grad=True)) == "tensor([0., 0.], requires_grad=True)"
    assert str(kt.zeros(2, dtype="f64", requires_grad=True)) == "tensor([0., 0.], dtype=f64, requires_grad=True)"
    assert str(kt.zeros(2, 0, dtype="i64")) == "tensor([], size=(2, 0), dtype=i64)"
    assert str(kt.tensor([1.5, -2], dtype="bf16")) == "tensor([ 1.5000, -2.0000], dtype=bf16)"
    assert str(kt.tensor([1.5 - 2j], dtype="c32")) == "tensor([1.5000-2.j], dtype=c32)"


def test_histories() -> None:
    x = kt.zeros(2, requires_grad=True)
    assert str(x + 1) == "tensor([1., 1.], grad_fn=<add>)"
    assert str((x + 1).detach()) == "tensor([1., 1.])"
    base = kt.zeros(3)
    view = base[1:]
    base.copy_((x + 1).sum())
    assert str(view) == "tensor([2., 2.], grad_fn=<view>)"


def test_views_are_printed_as_they_are_seen() -> None:
    assert str(kt.arange(6).view(2, 3).flip(0, 1).T) == "tensor([[5, 2],\n        [4, 1],\n        [3, 0]])"


def test_a_number_can_be_formatted() -> None:
    assert f"{kt.tensor(2.5):.3f}" == "2.500"
    assert f"{kt.tensor([2.5])}" == "tensor([2.5000])"
