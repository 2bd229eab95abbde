"""Shapes against PyTorch: dtypes, zero sizes, 0-d tensors, negative dimensions, and what PyTorch refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import KuiperError, ModelFileError, ShapeError

from .harness import ALL_DTYPES, Case, check, check_like_torch, random, run

INPUTS = {
    "3d": random(2, 3, 4),
    "ones": random(1, 3, 1),
    "2d": random(3, 4),
    "1d": random(12),
    "0d": torch.tensor(1.5),
    "one": random(1),
    "no rows": torch.zeros(0, 3),
    "no columns": torch.zeros(4, 0, 1),
    "strided": random(4, 6).t()[::2],
}


def reshape(*shape: int) -> tuple[str, dict[str, Any], Callable[..., Any]]:
    return "Tensor.reshape", {"shape": shape}, lambda x: x.reshape(shape)


# Operator type, parameters, and PyTorch's function: each is tried on every input.
OPERATORS: list[tuple[str, dict[str, Any], Callable[..., Any]]] = [
    *(reshape(*s) for s in [(), (1,), (-1,), (12,), (3, 4), (2, -1), (-1, 3), (5, -1), (-1, -1), (-2, 6), (1, 1, -1)]),
    ("Tensor.view", {"shape": (4, 3)}, lambda x: x.reshape(4, 3)),
    *(
        ("torch.flatten", {"start_dim": a, "end_dim": b}, lambda x, a=a, b=b: x.flatten(a, b))
        for a, b in [(0, -1), (1, -1), (1, 2), (-2, -1), (2, 0), (0, 0), (0, 5), (-4, 0)]
    ),
    ("nn.Flatten", {}, torch.nn.Flatten()),
    *(
        ("Tensor.unflatten", {"dim": d, "sizes": s}, lambda x, d=d, s=s: x.unflatten(d, s))
        for d, s in [(0, (2, -1)), (-1, (2, 2)), (1, (3,)), (0, ()), (0, (-1, -1)), (5, (1,)), (0, (0, -1)), (0, (-1, 2))]
    ),
    *(
        ("Tensor.permute", {"dims": d}, lambda x, d=d: x.permute(d))
        for d in [(), (0,), (-1,), (1, 0), (0, 0), (2, 0, 1), (-1, -3, 1), (0, 1, 3), (0, 2, -1)]
    ),
    *(
        ("torch.transpose", {"dim0": a, "dim1": b}, lambda x, a=a, b=b: x.transpose(a, b))
        for a, b in [(0, 1), (0, -1), (-1, -2), (2, 2), (0, 3), (-4, 0)]
    ),
    ("torch.t", {}, torch.t),
    *(
        ("torch.movedim", {"source": a, "destination": b}, lambda x, a=a, b=b: x.movedim(a, b))
        for a, b in [((0,), (1,)), ((0, 2), (-1, 0)), ((0, 0), (1, 2)), ((1,), (0, 1)), ((-1,), (0,))]
    ),
    ("torch.squeeze", {}, torch.squeeze),
    *(
        ("torch.squeeze", {"dim": d}, lambda x, d=d: x.squeeze(d))
        for d in [0, 1, -1, 2, 3, (), (0,), (0, 2), (0, 0), (0, -3), (-1,)]
    ),
    *(("torch.unsqueeze", {"dim": d}, lambda x, d=d: x.unsqueeze(d)) for d in [0, 1, -1, 3, 4, -2, -4, -5]),
    *(
        ("Tensor.expand", {"sizes": s}, lambda x, s=s: x.expand(s))
        for s in [(), (2,), (-1,), (3, 4), (5, 3, 4), (-1, 3, 7), (2, -1, -1, -1), (-1, 3, 4), (0, 3, 4), (4,), (3, -2), (0, 3)]
    ),
    *(
        ("torch.as_strided", {"size": s, "stride": t, **({} if o is None else {"storage_offset": o})},
         lambda x, s=s, t=t, o=o: x.contiguous().as_strided(s, t, o))
        for s, t, o in [((2, 2), (1, 2), None), ((2, 3), (3, 1), 1), ((3,), (0,), 2), ((), (), 0), ((0, 9), (1, 2), 100),
                        ((9, 9), (9, 9), 0), ((2,), (1, 2), 0), ((2,), (-1,), 0), ((2,), (1,), -1), ((2, 2), (4, 1), None)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("label", INPUTS)
def test_like_torch(label: str) -> None:
    for kind, params, function in OPERATORS:
        check_like_torch(Case(kind, function, [INPUTS[label]], params))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(1, 3, 4, dtype=dtype)
    check(Case("Tensor.reshape", lambda x: x.reshape(4, 3), [x], {"shape": (4, -1)}))
    check(Case("Tensor.permute", lambda x: x.permute(2, 0, 1), [x], {"dims": (2, 0, 1)}))
    check(Case("Tensor.expand", lambda x: x.expand(2, 5, 3, 4), [x], {"sizes": (2, 5, 3, 4)}))
    check(
        Case(
            "torch.as_strided",
            lambda x: x.as_strided((2, 2), (3, 1), 1),
            [x],
            {"size": (2, 2), "stride": (3, 1), "storage_offset": 1},
        )
    )
    check(Case("torch.squeeze", torch.squeeze, [x]))


def test_shapes_of_other_tensors() -> None:
    x = random(2, 6)
    for other in [random(3, 4), random(12), random(5), torch.zeros(0)]:
        check_like_torch(Case("Tensor.reshape_as", torch.Tensor.reshape_as, [x, other], names=["input", "other"]))
        check_like_torch(Case("Tensor.view_as", torch.Tensor.view_as, [x, other]))
    for other in [random(4, 2, 6), random(2, 1), random(6), random(2, 6)]:
        check_like_torch(Case("Tensor.expand_as", torch.Tensor.expand_as, [x, other], names=["input", "other"]))
    check(Case("Tensor.expand_as", torch.Tensor.expand_as, [torch.tensor(2.0), torch.zeros(0, 3)]))


def test_shape_as_an_operand() -> None:
    x = random(2, 3, 4)
    check(Case("Tensor.reshape", lambda x, s: x.reshape(s), [x, [2, -1]], names=["input", "shape"]))
    check(Case("Tensor.reshape", lambda x, s: x.reshape([2, 12]), [x, [torch.tensor(2), -1]]))
    check(Case("Tensor.expand", lambda x, s: x.expand(s), [x, [5, -1, 3, 4]], names=["input", "sizes"]))
    check(Case("Tensor.unflatten", lambda x, s: x.unflatten(0, s), [x, [2, 1]], {"dim": 0}, names=["input", "sizes"]))
    check(Case("torch.squeeze", lambda x, d: x.squeeze(d), [x[None], 0], names=["input", "dim"]))


def test_zero_copies_the_size_of_the_input() -> None:
    x = random(2, 3, 4)
    check(Case("Tensor.reshape", lambda x: x.reshape(2, 12), [x], {"shape": (0, -1)}))
    check(Case("Tensor.reshape", lambda x: x.reshape(2, 3, 2, 2), [x], {"shape": (0, 0, 2, -1)}))
    check(Case("Tensor.reshape", lambda x: x.reshape(0, 3), [torch.zeros(0, 1, 3)], {"shape": (0, 3)}))
    # Among sizes that the model calculated, 0 is 0; and in the file, where nothing else fits.
    check_like_torch(Case("Tensor.reshape", lambda x, s: x.reshape(s), [x, [0, -1]]))
    check(Case("Tensor.reshape", lambda x, s: x.reshape(s), [torch.zeros(3, 0), [2, 0]]))
    check(Case("Tensor.reshape", lambda x: x.reshape(2, 0), [torch.zeros(0, 4)], {"shape": (2, 0)}))


def test_unsqueeze_of_a_list_goes_from_the_ends() -> None:
    x = random(2, 3)
    check(Case("torch.unsqueeze", lambda x: x.unsqueeze(-1).unsqueeze(0).unsqueeze(2), [x], {"dim": (2, 0, -1)}))
    check(Case("torch.unsqueeze", lambda x: x.unsqueeze(-1).unsqueeze(-3), [x], {"dim": (-3, -1)}))


def test_number_stands_for_a_tensor() -> None:
    check(Case("torch.unsqueeze", lambda x: torch.tensor([7]), [7], {"dim": 0}))
    check(Case("Tensor.reshape", lambda x: torch.tensor([[1.5]]), [1.5], {"shape": (1, -1)}))
    check(Case("Tensor.expand", lambda x: torch.tensor([True, True]), [True], {"sizes": (2,)}))


@given(st.data())
def test_reshape_and_back(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), max_size=4))
    x = torch.arange(float(np.prod(sizes, dtype=int))).reshape(sizes)
    order = data.draw(st.permutations(range(len(sizes))))
    (turned,) = run(Case("Tensor.permute", torch.permute, [x], {"dims": tuple(order)}))
    np.testing.assert_array_equal(turned, x.permute(order))
    (flat,) = run(Case("Tensor.reshape", torch.reshape, [turned], {"shape": (-1,)}))
    np.testing.assert_array_equal(flat, x.permute(order).reshape(-1))


def test_messages_name_what_was_baked_in() -> None:
    def message(kind: str, inputs: list[Any], params: dict[str, Any]) -> str:
        with pytest.raises(ShapeError) as caught:
            run(Case(kind, torch.reshape, inputs, params))
        return str(caught.value)

    baked = message("Tensor.reshape", [random(1, 3, 4)], {"shape": (1, 512)})
    assert baked == (
        "input has shape (1, 3, 4), and shape=(1,512) was baked in at conversion, which is no shape for 12 elements"
    )
    assert "sizes=(2,5) was baked in" in message("Tensor.expand", [random(3)], {"sizes": (2, 5)})
    assert "sizes=(2,5) was calculated" in message("Tensor.expand", [random(3), [2, 5]], {})
    assert "dimension 3 is out of range" in message("torch.transpose", [random(3)], {"dim0": 0, "dim1": 3})


def test_a_lone_input_may_have_any_name() -> None:
    check(Case("Tensor.reshape", lambda x: x.reshape(-1), [random(2, 3)], {"shape": (-1,)}, names=["mask"]))
    check(Case("Tensor.expand", lambda x: x.expand(4, 3), [random(1, 3)], {"sizes": (4, 3)}, names=["mask"]))
    with pytest.raises(ModelFileError, match="input 'mask' is unknown"):
        run(Case("Tensor.reshape", torch.reshape, [random(2, 3), [-1]], names=["mask", "shape"]))


def test_refused() -> None:
    for params in [{"shape": (1.5, 2)}, {"shape": "zeros"}, {}, {"shape": (6,), "wrong": 1}]:
        with pytest.raises(KuiperError):
            run(Case("Tensor.reshape", torch.reshape, [random(6)], params))
