"""Sliding blocks as columns, and back again, against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, ResourceLimitError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.complex64)


def unfolded(x, *, name="nn.Unfold", **params):
    return Case(name, lambda x: F.unfold(x, **params), [x], params)


def folded(x, *, name="nn.Fold", **params):
    return Case(name, lambda x: F.fold(x, **params), [x], params)


LAYOUTS = [
    {"kernel_size": (3, 3)},
    {"kernel_size": (2, 4), "padding": (2, 2), "stride": (2, 1)},
    {"kernel_size": (1, 3), "padding": (2, 4), "dilation": (1, 2)},
    {"kernel_size": (2, 2), "stride": (3, 3)},
    {"kernel_size": 2, "padding": 1, "stride": 2, "dilation": 2},
]


def test_known_columns():
    (columns,) = run(unfolded(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3), kernel_size=(2, 2)))
    assert columns.tolist() == [[[0, 1], [1, 2], [3, 4], [4, 5]]]
    (image,) = run(folded(columns, kernel_size=(2, 2), output_size=(2, 3)))
    assert image.tolist() == [[[[0, 2, 2], [3, 8, 5]]]]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts(layout):
    for name in ("Unfold", "unfold"):
        for shape in ((2, 3, 6, 8), (3, 6, 8), (0, 2, 5, 7), (1, 1, 5, 9)):
            case = unfolded(random(*shape), name=f"{'F' if name[0] == 'u' else 'nn'}.{name}", **layout)
            check(case)
            columns = run(case)[0]
            fold = "F.fold" if name[0] == "u" else "nn.Fold"
            check(folded(columns, name=fold, output_size=shape[-2:], **layout))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype):
    check(unfolded(random(2, 3, 5, 5, dtype=dtype), kernel_size=(2, 3), padding=(1, 0)))
    check(folded(random(2, 12, 16, dtype=dtype), kernel_size=(2, 2), output_size=(5, 5)))


def test_output_size_as_operand():
    case = Case("F.fold", lambda x, size: F.fold(x, size, (2, 2)), [random(1, 8, 6), [3, 4]], {"kernel_size": (2, 2)})
    case.names = ["input", "output_size"]
    check(case)


@pytest.mark.parametrize(
    "params",
    [
        {"kernel_size": 0},
        {"stride": 0},
        {"dilation": 0},
        {"padding": -1},
        {"kernel_size": (5, 1)},
        {"kernel_size": (2, 2, 2)},
    ],
    ids=str,
)
def test_refused_parameters(params):
    params = {"kernel_size": (2, 2)} | params
    if len(np.shape(params["kernel_size"])) == 0 or len(params["kernel_size"]) == 2:
        check_like_torch(unfolded(random(1, 2, 4, 4), **params))
    with pytest.raises(ShapeError):
        run(unfolded(random(1, 2, 4, 4), **params))


@pytest.mark.parametrize("shape", [(4, 4), (1, 0, 4, 4), (1, 2, 0, 4), (1, 1, 2, 4, 4), (1, 2, 1, 4)], ids=str)
def test_refused_images(shape):
    check_like_torch(unfolded(random(*shape), kernel_size=(2, 2)))


@pytest.mark.parametrize("shape", [(8,), (1, 8, 5), (1, 7, 4), (1, 0, 4), (1, 8, 0), (1, 1, 8, 4)], ids=str)
def test_refused_columns(shape):
    check_like_torch(folded(random(*shape), kernel_size=(2, 2), output_size=(3, 3)))


def test_paddings_beyond_all_memory():
    params = {"kernel_size": (2, 2), "dilation": (2**30,) * 2, "padding": (2**29,) * 2}
    for case in (unfolded(random(1, 1, 10, 10), **params), folded(random(1, 4, 4), output_size=(2, 2), **params)):
        with pytest.raises(ResourceLimitError, match="max_memory"):
            run(case)


def test_refusals():
    with pytest.raises(ShapeError, match="output_size: neither"):
        run(folded(random(1, 8, 4), kernel_size=(2, 2)))
    with pytest.raises(ShapeError, match="output_size"):
        run(folded(random(1, 8, 4), kernel_size=(2, 2), output_size=(0, 3)))
    for case in (
        unfolded(random(1, 2, 4, 4, dtype=torch.int64), kernel_size=2),
        folded(None, kernel_size=2, output_size=3),
    ):
        with pytest.raises(DTypeError):
            run(case)


@given(st.data())
def test_random_layouts(data):
    def pair(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(2))

    layout = {"kernel_size": pair(1, 4), "stride": pair(1, 3), "dilation": pair(1, 3), "padding": pair(0, 2)}
    size = pair(1, 9)
    case = unfolded(random(1, 2, *size), **layout)
    check_like_torch(case)
    blocks = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(
            size, *(layout[name] for name in ("kernel_size", "stride", "dilation", "padding")), strict=True
        )
    ]
    if min(blocks) > 0:
        rows = 2 * layout["kernel_size"][0] * layout["kernel_size"][1]
        check(folded(random(1, rows, blocks[0] * blocks[1]).round(), output_size=size, **layout))
