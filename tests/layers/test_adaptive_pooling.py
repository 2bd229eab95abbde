"""Adaptive pooling against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.errors import DTypeError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run
from tests.layers.test_pooling import FLOATS, INF, with_odd_numbers


def adaptive(kind, x, output_size, *, module=False, **params):
    """A case; an element 0 of the size stands for the input's own size, which PyTorch calls None."""
    n = len(output_size)
    function = getattr(F, f"adaptive_{kind}_pool{n}d")
    own = x.shape[x.ndim - n :]
    size = tuple(wanted or dim for wanted, dim in zip(output_size, own, strict=True))
    type_name = f"nn.Adaptive{kind.title()}Pool{n}d" if module else f"F.adaptive_{kind}_pool{n}d"
    outputs = 2 if params.get("return_indices") else 1
    return Case(
        type_name, lambda x: function(x, size, **params), [x], {"output_size": output_size, **params}, outputs=outputs
    )


def test_windows_may_overlap():
    (y,) = run(adaptive("avg", np.array([[[1, 2, 3, 4, 5]]], np.float32), (3,)))
    assert y.tolist() == [[[1.5, 3, 4.5]]]


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    ("size", "output_size"),
    [
        ((24, 24), (5, 7)),
        ((10, 11), (3, 4)),
        ((10, 11), (0, 1)),
        ((10, 11), (5, 0)),
        ((3, 2), (7, 5)),
        ((1, 1), (4, 3)),
    ],
)
def test_sizes(kind, size, output_size):
    check(adaptive(kind, random(1, 2, *size), output_size))
    check(adaptive(kind, random(2, *size), output_size, module=True))


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    ("size", "output_size"), [*[(224, n) for n in (1, 3, 5, 7, 9, 11)], (226, 3), (225, 7), (225, 11)]
)
def test_large_images(kind, size, output_size):
    case = adaptive(kind, random(1, 2, size, size + 1, low=0.0), (output_size, output_size))
    case.tolerance = 1e-5  # PyTorch adds up thousands of numbers in single precision
    check(case)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_dimensions(kind, ndim):
    for shape in ((2, 3, 7, 8, 9), (3, 7, 8, 9), (0, 3, 7, 8, 9), (1, 1, 1, 1, 1)):
        x = random(*shape[: len(shape) - 3 + ndim])
        for output_size in ((3, 5, 2), (0, 1, 13), (7, 8, 9)):
            for module in (False, True):
                check(adaptive(kind, x, output_size[:ndim], module=module))
    (y,) = run(Case(f"F.adaptive_{kind}_pool{ndim}d", None, [random(1, 2, *(6,) * ndim)], {"output_size": 2}))
    assert y.shape == (1, 2, *(2,) * ndim)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_indices(ndim):
    for shape in ((2, 3, 7, 6, 5), (3, 7, 6, 5)):
        x = random(*shape[: len(shape) - 3 + ndim]).round()
        for output_size in ((3, 5, 2), (0, 1, 7)):
            case = adaptive("max", x, output_size[:ndim], return_indices=True)
            check(case)
            as_list = Case(f"nn.AdaptiveMaxPool{ndim}d", lambda x, call=case.torch: list(call(x)), [x], case.params)
            check(as_list)


def test_nan_and_infinities():
    for x in (with_odd_numbers(random(2, 3, 7, 5)), torch.full((1, 2, 4, 4), -INF)):
        check(adaptive("max", x, (3, 2), return_indices=True))
        check(adaptive("max", x, (3, 2)))
        check(adaptive("avg", x, (3, 2)))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes(dtype):
    for kind in ("avg", "max"):
        check_like_torch(adaptive(kind, random(2, 3, 9, 7, dtype=dtype), (3, 2)))


def test_averages_are_accurate():
    x = random(1, 1, 500, 400, low=0.9, high=1.1)
    case = adaptive("avg", x, (1, 1))
    check(Case(case.type, lambda x: x.double().mean((2, 3), keepdim=True).float(), [x], case.params, tolerance=1e-7))


def test_output_size_as_operand():
    x = random(1, 2, 9, 7)
    check(Case("F.adaptive_avg_pool2d", F.adaptive_avg_pool2d, [x, [3, 2]], names=["input", "output_size"]))
    sizes = [np.asarray(3), None]
    (y,) = run(Case("F.adaptive_avg_pool2d", None, [x, sizes], names=["input", "output_size"]))
    assert y.shape == (1, 2, 3, 7)


@pytest.mark.parametrize("shape", [(4, 4), (1, 1, 1, 4, 4), (2, 2, 0, 4)], ids=str)
def test_refused_shapes(shape):
    for kind in ("avg", "max"):
        check_like_torch(adaptive(kind, random(*shape), (1, 2)))


def test_refusals():
    x = random(1, 2, 4, 4)
    for output_size, message in (((-1, 2), "at least 0"), ((1, 2, 3), "expected 1 or 2 numbers")):
        with pytest.raises(ShapeError, match=message):
            run(Case("nn.AdaptiveAvgPool2d", None, [x], {"output_size": output_size}))
    with pytest.raises(ShapeError, match="neither"):
        run(Case("nn.AdaptiveAvgPool2d", None, [x]))
    with pytest.raises(DTypeError, match="output_size"):
        run(Case("F.adaptive_avg_pool2d", None, [x, [np.asarray(1.5), 2]], names=["input", "output_size"]))


def test_left_over_forms():
    x = random(1, 2, 9, 7)
    check(Case("aten::adaptive_avg_pool2d", F.adaptive_avg_pool2d, [x, [3, 2]]))
    call = torch.ops.aten.adaptive_max_pool2d
    check(Case("aten::adaptive_max_pool2d", call, [x, [3, 2]], outputs=2))
