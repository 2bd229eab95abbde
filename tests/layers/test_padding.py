"""Padding against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kuiperinfer.errors import DTypeError, ModelFileError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

INF, NAN = float("inf"), float("nan")
EVERY = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool,
    torch.complex64,
)  # fmt: skip


def padded(x, pad, mode="constant", **params):
    return Case("F.pad", lambda x: F.pad(x, pad, mode=mode, **params), [x], {"pad": pad, "mode": mode, **params})


def test_known_frames():
    (y,) = run(padded(np.ones((3, 4, 5), np.float32), (3, 4, 1, 2)))
    assert y.shape == (3, 7, 12)
    assert y.sum() == 3 * 4 * 5
    assert (y[:, 1:5, 3:8] == 1).all()
    (y,) = run(padded(np.ones((3, 4, 5), np.float32), (2, 2, 2, 2), value=3.14))
    assert y.shape == (3, 8, 9)
    assert (y[:, 2:6, 2:7] == 1).all()
    assert np.isclose(y[:, :2], 3.14).all()


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_modes_and_dtypes(mode, dtype):
    x = random(2, 5, 6, 7, dtype=dtype)
    check_like_torch(padded(x[0, 0], (2, 1), mode))
    check_like_torch(padded(x[0], (0, 4, 3, 1), mode))
    check_like_torch(padded(x, (3, 2, 1, 0, 0, 2), mode))


@pytest.mark.parametrize("value", [None, 0, 1.7, -2, 300, -1, INF, -INF, NAN, 1e30, 1e300, 2**40], ids=str)
@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_values(dtype, value):
    check_like_torch(padded(random(2, 3, dtype=dtype), (1, 2), value=value))
    if value is not None:
        check_like_torch(padded(random(2, 3, dtype=dtype), (-1, -1), value=value))


@pytest.mark.parametrize(
    "pad",
    [
        (), (1, 0), (-1, 2), (-3, -2), (-3, -3), (-6, 8), (-5, 1), (-6, 3), (3, -2), (4, 4), (5, 5), (6, 0), (1,), (1, 2, 3),
        (1, 2, 3, 4), (0, 0, 0, 0, 1, 2), (1, 1, 1, 1, 1, 1, 1, 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape", [(5,), (2, 5), (1, 2, 5), (3, 2, 4, 5), (0, 2, 5), (2, 0, 5)], ids=str)
def test_amounts(shape, mode, pad):
    if mode != "circular" or pad != (-5, 1):  # there PyTorch returns memory that nobody wrote
        check_like_torch(padded(random(*shape), pad, mode))


def test_amounts_and_value_as_operands():
    x = random(2, 3, 4)
    case = Case("F.pad", lambda x, pad, value: F.pad(x, pad, value=value), [x, [1, 2], 2.5], {"mode": "constant"})
    case.names = ["input", "pad", "value"]
    check(case)
    arrays = [x, [np.asarray(1), np.asarray(2)], np.asarray(2.5, np.float32)]
    (y,) = run(Case("F.pad", None, arrays, {"mode": "constant"}, names=["input", "pad", "value"]))
    assert np.array_equal(y, F.pad(x, (1, 2), value=2.5).numpy())


@pytest.mark.parametrize("text", [{"value": "inf"}, {"value": "-inf"}, {"value": "nan.0"}], ids=str)
def test_words_for_numbers(text):
    value = float(text["value"].removesuffix(".0"))
    check(Case("F.pad", lambda x: F.pad(x, (1, 1), value=value), [random(2, 3)], {"pad": (1, 1), **text}))


def test_value_is_for_constants_only():
    (y,) = run(Case("F.pad", None, [random(1, 2, 5)], {"pad": (1, 1), "mode": "reflect", "value": 7.0}))
    assert np.array_equal(y, F.pad(random(1, 2, 5), (1, 1), mode="reflect").numpy())


MODULES = [
    f"{kind}{n}d"
    for kind in ("ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad")
    for n in (1, 2, 3)
]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    n = int(name[-2])
    further = {"value": -1.5} if name.startswith("Constant") else {}
    for padding in ((1, 2, 3, 0, 2, 1), (0, 0, 1, 1, 0, 2), (-1, 2, 0, -1, 1, 1)):
        module = getattr(nn, name)(padding[: 2 * n], **further)
        for shape in ((2, 3, 4, 5, 6), (3, 4, 5, 6), (1, 1, 7, 6, 5)):
            x = random(*shape[: len(shape) - 3 + n])
            check(Case(f"nn.{name}", module, [x], {"padding": padding[: 2 * n], **further}))
    (y,) = run(Case(f"nn.{name}", None, [random(1, 2, *(4,) * n)], {"padding": 1, **further}))
    assert y.shape == (1, 2, *(6,) * n)


def test_refusals():
    x = random(1, 2, 5)
    with pytest.raises(ShapeError, match="did you mean 'reflect'"):
        run(padded(x, (1, 1), "reflekt"))
    with pytest.raises(ShapeError, match="mode 'reflect'"):
        run(padded(x, (5, 0), "reflect"))
    with pytest.raises(ShapeError, match="neither"):
        run(Case("F.pad", None, [x]))
    with pytest.raises(DTypeError, match="cannot be stored as u8"):
        run(padded(random(2, 3, dtype=torch.uint8), (1, 1), value=-1))
    with pytest.raises(ShapeError, match="padding"):
        run(Case("nn.ZeroPad2d", None, [x], {"padding": (1, 2)}))
    with pytest.raises(ModelFileError, match="padding"):
        run(Case("nn.ZeroPad2d", None, [x]))


@given(st.data())
def test_random_amounts(data):
    """The modes that take elements of the input, except `circular` with crops, where PyTorch reads what it did not write."""
    mode = data.draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
    ndim = data.draw(st.integers(1, 3))
    shape = data.draw(st.lists(st.integers(1, 4), min_size=ndim + 1, max_size=ndim + 2))
    low = 0 if mode == "circular" else -3
    pad = data.draw(st.lists(st.integers(low, 4), min_size=2 * ndim, max_size=2 * ndim))
    check_like_torch(padded(random(*shape), tuple(pad), mode))


def test_left_over_forms():
    x = random(1, 2, 5)
    check(Case("aten::pad", F.pad, [x, [1, 2], "reflect", None]))
    check(Case("aten::constant_pad_nd", lambda x, pad, value: F.pad(x, pad, value=value), [x, [1, 2], 2.5]))
    check(Case("aten::reflection_pad1d", lambda x, pad: F.pad(x, pad, "reflect"), [x, [1, 2]]))
    check(Case("aten::replication_pad1d", lambda x, pad: F.pad(x, pad, "replicate"), [x, [1, 2]]))
