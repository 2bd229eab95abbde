"""Resizing against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kuiperinfer.errors import DTypeError, ShapeError, UnsupportedOperatorError
from kuiperinfer.layers.resize import meant_factor
from tests.layers.harness import Case, check, check_like_torch, random, run

DIMENSIONS = {"linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}
MODES = ["nearest", "nearest-exact", "area", *DIMENSIONS]


def resized(x, *, tolerance=1e-5, **params):
    """A case of F.interpolate; parameters that are None are not in the file."""
    given_params = {name: value for name, value in params.items() if value is not None}
    return Case("F.interpolate", lambda x: F.interpolate(x, **params), [x], given_params, tolerance=tolerance)


def dimensions(mode):
    return DIMENSIONS.get(mode, (1, 2, 3))


def corners(mode):
    return (True, False, None) if mode in DIMENSIONS else (None,)


# ------------------------------------------------------------------------------------------- known numbers


@pytest.mark.parametrize("factors", [(1, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 4)], ids=str)
def test_nearest_repeats(factors):
    x = random(1, 2, 5, 4)
    (y,) = run(Case("nn.Upsample", None, [x], {"scale_factor": tuple(map(float, factors)), "mode": "nearest"}))
    assert np.array_equal(y, x.numpy().repeat(factors[0], 2).repeat(factors[1], 3))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_factor_one_changes_nothing(mode):
    x = random(1, 2, 5, 4)
    (y,) = run(Case("nn.Upsample", None, [x], {"scale_factor": (1.0, 1.0), "mode": mode}))
    assert np.array_equal(y, x.numpy())


# ------------------------------------------------------------------------------------------- grids


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [0.3, 0.5, 0.7, 1.0, 1.1, 1.499, 1.5, 2.0, 2.3, 3.0, 4.11, 128 / 43, 5 / 3])
def test_factors(mode, factor):
    for ndim in dimensions(mode):
        for align_corners in corners(mode):
            for recompute in (None, True):
                params = {"scale_factor": (factor,) * ndim, "recompute_scale_factor": recompute}
                x = random(2, 3, *(7, 8, 4)[:ndim])
                check(resized(x, mode=mode, align_corners=align_corners, **params))


@pytest.mark.parametrize("mode", MODES)
def test_sizes(mode):
    for ndim in dimensions(mode):
        for align_corners in corners(mode):
            for size in ((10, 5, 7), (1, 1, 1), (7, 16, 3), (2, 13, 4), (14, 10, 8)):
                for shape in ((1, 2, 7, 5, 4), (0, 2, 7, 5, 4), (2, 1, 1, 1, 1)):
                    check(resized(random(*shape[: ndim + 2]), mode=mode, size=size[:ndim], align_corners=align_corners))


def test_one_number_stands_for_all_dimensions():
    for params in ({"size": 9}, {"scale_factor": 1.5}):
        check(resized(random(1, 2, 5, 6), mode="bilinear", **params))


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize(("factors", "size"), [((5.2, 6.3), (83, 195)), ((5.9, 6.6), (94, 204))], ids=str)
def test_bilinear_with_uneven_factors(factors, size, align_corners):
    case = resized(random(1, 2, 16, 31), mode="bilinear", scale_factor=factors, align_corners=align_corners)
    check(case)
    assert run(case)[0].shape == (1, 2, *size)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.bool], ids=str
)
@pytest.mark.parametrize("mode", MODES)
def test_dtypes(mode, dtype):
    for ndim in dimensions(mode):
        x = random(2, 3, *(7, 6, 5)[:ndim], dtype=dtype, low=0, high=255 if dtype is torch.uint8 else 2)
        check_like_torch(resized(x, mode=mode, scale_factor=(1.7,) * ndim, tolerance=None))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("channels", [3, 6])
@pytest.mark.parametrize("size", [(9, 5), (20, 17), (4, 7), (9, 14)], ids=str)
def test_bytes(mode, channels, size):
    x = random(2, channels, 9, 14, dtype=torch.uint8, low=0, high=255)
    for align_corners in corners(mode):
        check(resized(x, mode=mode, size=size, align_corners=align_corners))
    check(resized(x, mode=mode, scale_factor=(1.1, 1.05)))


def test_nan_stays_where_it_is():
    for mode in ("nearest", "bilinear", "bicubic"):
        x = random(1, 1, 5, 5)
        x[0, 0, 2, 2] = float("nan")
        check(resized(x, mode=mode, size=(8, 9)))


# ------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("params", [{"size": (9, 7)}, {"scale_factor": (1.5, 2.3)}], ids=str)
def test_names_with_a_mode_of_their_own(params):
    x = random(1, 2, 5, 6)
    in_torch = {name: value if name == "size" else tuple(value) for name, value in params.items()}
    for name in ("F.upsample_nearest", "nn.UpsamplingNearest2d"):
        check(Case(name, lambda x: F.interpolate(x, **in_torch, mode="nearest"), [x], params))
    for name in ("F.upsample_bilinear", "nn.UpsamplingBilinear2d"):
        call = Case(name, lambda x: F.interpolate(x, **in_torch, mode="bilinear", align_corners=True), [x], params)
        call.tolerance = 1e-5
        check(call)
    check(
        Case("nn.Upsample", nn.Upsample(**in_torch, mode="bicubic"), [x], {**params, "mode": "bicubic"}, tolerance=1e-5)
    )
    check(Case("F.upsample", lambda x: F.interpolate(x, **in_torch), [x], {**params, "mode": "nearest"}))


def test_size_and_factor_as_operands():
    x = random(1, 2, 5, 6)
    check(Case("F.interpolate", F.interpolate, [x, [9, 8]], names=["input", "size"]))
    case = Case("F.interpolate", lambda x, f: F.interpolate(x, scale_factor=f), [x, [1.5, 2.0]])
    case.names = ["input", "scale_factor"]
    check(case)
    sizes = [np.asarray(9), np.asarray([8])]
    (y,) = run(Case("F.upsample", None, [x, sizes], {"mode": "bilinear"}, names=["input", "size"]))
    assert y.shape == (1, 2, 9, 8)


def test_size_none_beside_a_factor():
    check(Case("nn.Upsample", nn.Upsample(scale_factor=2), [random(1, 2, 5)], {"size": None, "scale_factor": (2.0,)}))
    check(Case("nn.Upsample", nn.Upsample(scale_factor=2), [random(1, 2, 5)], {"size": (), "scale_factor": (2.0,)}))


@pytest.mark.parametrize(
    ("factor", "size"), [(5 / 3, 3), (128 / 43, 43), (1 / 3, 9), (0.29, 100), (7 / 9, 81), (1.1, 10)]
)
def test_factors_that_the_converter_narrowed(factor, size):
    written = float(str(np.float32(factor)))
    assert meant_factor(written) == factor
    x = random(1, 1, size)
    check(Case("nn.Upsample", nn.Upsample(scale_factor=factor), [x], {"scale_factor": (written,)}))


# ------------------------------------------------------------------------------------------- any parameters


@given(st.data())
def test_random_parameters(data):
    mode = data.draw(st.sampled_from(MODES))
    ndim = data.draw(st.sampled_from(dimensions(mode)))
    shape = [data.draw(st.integers(1, 9)) for _ in range(ndim)]
    params = {"mode": mode, "align_corners": data.draw(st.sampled_from(corners(mode)))}
    if data.draw(st.booleans()):
        params["size"] = tuple(data.draw(st.integers(1, 20)) for _ in range(ndim))
    else:
        params["scale_factor"] = tuple(data.draw(st.integers(20, 400)) / 100 for _ in range(ndim))
        params["recompute_scale_factor"] = data.draw(st.sampled_from([None, False, True]))
    sizes = params.get("size") or [int(n * f) for n, f in zip(shape, params["scale_factor"], strict=True)]
    if mode != "area" or all(sizes):  # to nothing is an error for us in all modes
        check_like_torch(resized(random(1, 2, *shape), **params, tolerance=1e-4))


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "nearest-ish", "size": (2, 2)}, "did you mean 'nearest"),
        ({"mode": "nearest", "size": (2, 2), "align_corners": True}, "align_corners"),
        ({"size": (2, 2), "scale_factor": (1.0, 1.0)}, "either size or scale_factor"),
        ({}, "either size or scale_factor"),
        ({"size": (2, 2, 2)}, "expected 1 or 2 numbers"),
        ({"size": (2, 2), "recompute_scale_factor": True}, "recompute_scale_factor"),
        ({"size": (0, 2)}, "only the batch"),
        ({"size": (-1, 2)}, "only the batch"),
        ({"scale_factor": (0.1, 1.0)}, "only the batch"),
        ({"scale_factor": (0.0, 1.0)}, "above 0"),
        ({"scale_factor": (float("inf"), 1.0)}, "above 0"),
        ({"mode": "linear", "size": 2}, "expected 3 dimensions"),
        ({"mode": "trilinear", "size": 2}, "expected 5 dimensions"),
    ],
)
def test_refused_parameters(params, message):
    with pytest.raises(ShapeError, match=message):
        run(Case("F.interpolate", None, [random(1, 2, 5, 6)], params))


def test_refusals():
    with pytest.raises(UnsupportedOperatorError, match="antialias"):
        run(Case("F.interpolate", None, [random(1, 2, 5, 6)], {"mode": "bilinear", "size": 3, "antialias": True}))
    with pytest.raises(DTypeError, match="input"):
        run(resized(random(1, 2, 5, dtype=torch.uint8), mode="linear", size=3))
    for shape in ((5, 6), (1, 0, 5, 6), (1, 2, 0, 6)):
        with pytest.raises(ShapeError):
            run(resized(random(*shape), mode="nearest", size=3))


def test_left_over_forms():
    x = random(1, 2, 5, 6)
    check(Case("aten::upsample_nearest2d", lambda x, size, _: F.interpolate(x, size), [x, [9, 8], None]))
    check(Case("aten::upsample_nearest2d", lambda x, _, f: F.interpolate(x, scale_factor=f), [x, None, [1.5, 2.0]]))
    exact = torch.ops.aten._upsample_nearest_exact3d
    check(Case("aten::_upsample_nearest_exact3d", exact, [random(1, 2, 3, 4, 5), [4, 9, 5], None, None, None]))
    bilinear = torch.ops.aten.upsample_bilinear2d
    check(Case("aten::upsample_bilinear2d", bilinear, [x, [9, 8], True, None, None], tolerance=1e-5))
    check(Case("aten::upsample_bilinear2d", bilinear.vec, [x, None, False, [1.5, 2.0]], tolerance=1e-5))
