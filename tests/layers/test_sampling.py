"""Grid sampling and affine grids against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

MODES = ["bilinear", "nearest", "bicubic"]
PADDING_MODES = ["zeros", "border", "reflection"]
INF, NAN = float("inf"), float("nan")


def sampled(x, grid, tolerance=1e-5, **params):
    def in_torch(x, grid):
        return F.grid_sample(x, grid, **{"align_corners": False} | params)

    return Case("F.grid_sample", in_torch, [x, grid], params, names=["input", "grid"], tolerance=tolerance)


def test_the_unit_grid_is_the_image():
    x = random(1, 2, 3, 4)
    rows, columns = torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 4)
    grid = torch.stack([columns.expand(3, 4), rows[:, None].expand(3, 4)], 2)[None]
    (y,) = run(sampled(x, grid, mode="nearest", align_corners=True))
    assert np.array_equal(y, x.numpy())


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode, padding_mode, align_corners):
    params = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    for size, out in (((5, 7), (4, 3)), ((1, 4), (2, 9)), ((8, 1), (1, 1)), ((2, 2), (17, 16))):
        x = random(2, 3, *size)
        for reach in (1.0, 1.6, 7.0):
            check(sampled(x, random(2, *out, 2, low=-reach, high=reach), **params))
        check(sampled(x, random(2, *out, 2, low=-8, high=8).round() / 4, **params))  # middles and borders
    check(sampled(random(0, 3, 4, 4), random(0, 2, 2, 2), **params))
    check(sampled(random(1, 3, 4, 4), random(1, 0, 2, 2), **params))


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes(mode, padding_mode, align_corners):
    params = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    for size, out in (((3, 5, 4), (4, 3, 2)), ((1, 4, 2), (2, 5, 3))):
        x = random(2, 3, *size)
        for reach in (1.0, 1.6, 7.0):
            check(sampled(x, random(2, *out, 3, low=-reach, high=reach), **params))
        check(sampled(x, random(2, *out, 3, low=-8, high=8).round() / 4, **params))


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e4, -1e4])
def test_places_that_are_no_numbers(value, mode, padding_mode, align_corners):
    params = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = random(1, 3, 3, 2)
    grid[0, 1, 1, 0] = grid[0, 2, 2, 1] = value
    check(sampled(random(1, 2, 4, 3), grid, **params))
    if mode != "bicubic" and abs(value) != 1e4:  # so far outside the rounding of each step shows
        grid = random(1, 2, 2, 2, 3)
        grid[0, 1, 1, 0, 0] = grid[0, 0, 0, 1, 2] = value
        check(sampled(random(1, 2, 4, 3, 5), grid, **params))


def test_nan_in_the_image():
    x = random(1, 1, 4, 4)
    x[0, 0, 1, 2] = NAN
    for mode in MODES:
        check(sampled(x, random(1, 5, 5, 2, low=-1.5, high=1.5), mode=mode, align_corners=True))


def test_double_precision():
    for mode in MODES:
        arrays = random(2, 3, 5, 4, dtype=torch.float64), random(2, 4, 4, 2, dtype=torch.float64)
        check(sampled(*arrays, tolerance=None, mode=mode))


def test_half_precision_is_calculated_in_single():
    x, grid = random(1, 2, 4, 4, dtype=torch.float16), random(1, 3, 3, 2, dtype=torch.float16)
    case = sampled(x, grid)
    case.torch = lambda x, grid: F.grid_sample(x.float(), grid.float(), align_corners=False).half()
    case.tolerance = 1e-3
    check(case)


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 2, 0, 3), (1, 4, 4, 2)],
        [(1, 2, 3, 3), (2, 4, 4, 2)],
        [(1, 2, 3, 3), (1, 4, 4, 3)],
        [(1, 2, 3, 3), (1, 4, 4, 4, 2)],
        [(2, 3, 3), (2, 4, 2)],
        [(1, 2, 3, 3, 3), (1, 4, 4, 4, 2)],
    ],
    ids=str,
)
def test_refused_shapes(shapes):
    check_like_torch(sampled(*(random(*shape) for shape in shapes)))


def test_refusals():
    x, grid = random(1, 2, 3, 3), random(1, 4, 4, 2)
    with pytest.raises(ShapeError, match="did you mean 'bilinear'"):
        run(sampled(x, grid, mode="bilinea"))
    with pytest.raises(ShapeError, match="did you mean 'border'"):
        run(sampled(x, grid, padding_mode="boarder"))
    with pytest.raises(ShapeError, match="expected 4 dimensions"):
        run(sampled(random(1, 2, 3, 3, 3), random(1, 4, 4, 4, 3), mode="bicubic"))
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(DTypeError):
            run(sampled(random(1, 2, 3, 3, dtype=dtype), grid))
        with pytest.raises(DTypeError, match="grid"):
            run(sampled(x, random(1, 4, 4, 2, dtype=dtype)))


@given(st.data())
def test_random_sizes(data):
    ndim = data.draw(st.sampled_from([2, 3]))
    sizes = [data.draw(st.integers(1, 6)) for _ in range(2 * ndim)]
    mode = data.draw(st.sampled_from(MODES[: 4 - (ndim == 3) * 2]))
    params = {"mode": mode, "padding_mode": data.draw(st.sampled_from(PADDING_MODES))}
    params["align_corners"] = data.draw(st.booleans())
    x, grid = random(2, 3, *sizes[:ndim]), random(2, *sizes[ndim:], ndim, low=-1.4, high=1.4)
    check(sampled(x, grid, **params, tolerance=1e-4))


# ------------------------------------------------------------------------------------------- affine grids


def grid_of(theta, size, align_corners):
    params = {"size": size, "align_corners": align_corners}
    return Case(
        "F.affine_grid", lambda t: F.affine_grid(t, list(size), align_corners), [theta], params, names=["theta"]
    )


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior:UserWarning")
@pytest.mark.parametrize("align_corners", [True, False])
def test_affine_grids(align_corners):
    for dtype in (torch.float32, torch.float64):
        for size in ((2, 1, 5, 7), (1, 3, 1, 4), (3, 1, 1, 1), (2, 2, 16, 17)):
            check(grid_of(random(size[0], 2, 3, dtype=dtype), size, align_corners))
        for size in ((2, 1, 3, 5, 7), (1, 3, 1, 4, 2)):
            check(grid_of(random(size[0], 3, 4, dtype=dtype), size, align_corners))


def test_size_as_operand():
    case = Case("F.affine_grid", lambda t, s: F.affine_grid(t, s, align_corners=True), [random(2, 2, 3), [2, 1, 4, 5]])
    case.names, case.params = ["theta", "size"], {"align_corners": True}
    check(case)


@pytest.mark.parametrize(
    ("theta", "size"),
    [
        ((2, 2, 3), (2, 1, 0, 4)),
        ((2, 2, 3), (2, 0, 3, 4)),
        ((2, 2, 3), (3, 1, 3, 4)),
        ((2, 2, 3), (2, 1, 3, 4, 5)),
        ((2, 3, 4), (2, 1, 3, 4)),
        ((0, 2, 3), (0, 1, 3, 4)),
        ((2, 2, 3), (2, 1, -1, 4)),
        ((1, 2, 3), (2, 1, 3, 4)),
        ((2, 2, 3), (2, 1, 3)),
    ],
)
def test_refused_grids(theta, size):
    case = grid_of(random(*theta), size, False)
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        case.torch(*case.inputs)
    with pytest.raises(ShapeError):
        run(case)
