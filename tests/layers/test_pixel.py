"""Pixel and channel shuffles against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.errors import DTypeError, ModelFileError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

OPERATORS = {
    "pixel_shuffle": ("upscale_factor", ("nn.PixelShuffle", "F.pixel_shuffle")),
    "pixel_unshuffle": ("downscale_factor", ("nn.PixelUnshuffle", "F.pixel_unshuffle")),
    "channel_shuffle": ("groups", ("nn.ChannelShuffle", "F.channel_shuffle", "torch.channel_shuffle")),
}
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


def shuffled(function, x, factor, type_name=None):
    parameter, names = OPERATORS[function]
    return Case(type_name or names[0], lambda x: getattr(F, function)(x, factor), [x], {parameter: factor})


def test_known_order():
    x = np.arange(8).reshape(1, 8, 1, 1)
    (pixels,) = run(shuffled("pixel_shuffle", x, 2))
    assert pixels.tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    (back,) = run(shuffled("pixel_unshuffle", pixels, 2))
    assert np.array_equal(back, x)
    (dealt,) = run(shuffled("channel_shuffle", x, 2))
    assert dealt.ravel().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_factors(function, factor):
    for type_name in OPERATORS[function][1]:
        check(shuffled(function, random(2, 36, 6, 12), factor, type_name))
        (empty,) = run(shuffled(function, random(0, 36, 6, 12), factor, type_name))
        assert empty.shape[1:] == run(shuffled(function, random(2, 36, 6, 12), factor))[0].shape[1:]


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(function, dtype):
    check(shuffled(function, random(2, 4, 6, 4, dtype=dtype), 2))


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("factor", [2, 0, -1])
@pytest.mark.parametrize(
    "shape",
    [(4,), (4, 4), (4, 4, 4), (1, 4, 2), (2, 3, 4, 4, 4), (5, 4, 4), (1, 4, 3, 4), (1, 5, 4, 4), (4, 0, 2)],
    ids=str,
)
def test_shapes(function, factor, shape):
    if function == "pixel_unshuffle" and 0 in shape and factor > 0:
        return  # PyTorch returns an empty tensor as it is
    check_like_torch(shuffled(function, random(*shape), factor))


def test_strided_inputs():
    x = random(3, 6, 8, 4).numpy().transpose(0, 2, 1, 3)[::-1]
    for function in OPERATORS:
        check(shuffled(function, x, 2))


def test_refusals():
    for function, (_, names) in OPERATORS.items():
        with pytest.raises(ModelFileError):
            run(Case(names[0], None, [random(1, 4, 4, 4)]))
        with pytest.raises(DTypeError):
            run(shuffled(function, None, 2))
    with pytest.raises(ShapeError, match="multiple of 2"):
        run(shuffled("pixel_shuffle", random(1, 5, 4, 4), 2))


def test_left_over_forms():
    for function in OPERATORS:
        check(Case(f"aten::{function}", getattr(F, function), [random(1, 8, 4, 4), 2]))
