"""New tensors against PyTorch: sizes, dtypes, values out of range; ranges; random numbers by their moments."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.errors import DTypeError, InputError, KuiperError, ShapeError
from kuiperinfer.layers.creation import manual_seed

from .harness import ALL_DTYPES, Case, check, check_like_torch, random, run

NAN, INF = float("nan"), float("inf")
ALL = [torch.float32, *ALL_DTYPES]
SIZES: list[tuple[int, ...]] = [(), (3,), (2, 3), (0, 2), (-1, 2)]
IGNORED = {"layout": None, "device": "cpu", "pin_memory": False, "requires_grad": False}


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_constant_tensors(name: str) -> None:
    function = getattr(torch, name)
    for size in SIZES:
        check_like_torch(
            Case(f"torch.{name}", lambda n=size: function(n), [], {"size": size, "dtype": None, **IGNORED})
        )
    for dtype in ALL:
        check(Case(f"torch.{name}", lambda d=dtype: function(2, dtype=d), [], {"size": (2,), "dtype": str(dtype)}))
    check(Case(f"torch.{name}", function, [[2, 3]], names=["size"]))
    for dtype in ALL:
        x = random(2, 3, dtype=dtype)
        check(Case(f"torch.{name}_like", getattr(torch, f"{name}_like"), [x], {"dtype": None}))
        check(Case(f"Tensor.new_{name}", lambda x: getattr(x, f"new_{name}")((4, 1)), [x], {"size": (4, 1)}))
        check(
            Case(f"Tensor.new_{name}", lambda x, s: getattr(x, f"new_{name}")(s, dtype=torch.long), [x, [2, 0]],
                 {"dtype": "torch.long"}, names=["input", "size"])
        )  # fmt: skip


def test_uninitialised_tensors_have_shape_and_dtype() -> None:
    x = random(2, 3, dtype=torch.int16)
    check(Case("torch.empty", lambda: torch.zeros(2, 3), [], {"size": (2, 3)}))
    check(Case("torch.empty_like", torch.zeros_like, [x], {"dtype": None}))
    check(Case("Tensor.new_empty", lambda x: x.new_zeros(4), [x], {"size": (4,)}))


VALUES: list[Any] = [
    3, 2.7, True, -1, 0, 300, -300, -255, -256, 127.5, 255.5, -0.5, 2**40, 2**63 - 1, INF, -INF, NAN, 1e39, 1e5, 65504.0,
    3.39e38, 1j, 2 + 0j, 1e39 + 0j, 2147483647.5,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_in_every_dtype(value: Any) -> None:
    check_like_torch(Case("torch.full", lambda: torch.full((2, 3), value), [], {"size": (2, 3), "fill_value": value}))
    for dtype in ALL:
        x = torch.zeros(2, 3, dtype=dtype)
        mask = torch.tensor([True, False, True])
        given = {"fill_value": value}
        check_like_torch(
            Case(
                "torch.full",
                lambda d=dtype: torch.full((2, 3), value, dtype=d),
                [],
                {**given, "size": (2, 3), "dtype": str(dtype)},
            )
        )
        check_like_torch(Case("torch.full_like", lambda x: torch.full_like(x, value), [x], given))
        check_like_torch(Case("Tensor.new_full", lambda x: x.new_full((3, 2), value), [x], {**given, "size": (3, 2)}))
        check_like_torch(Case("Tensor.fill", lambda x: x.clone().fill_(value), [x], {"value": value}))
        check_like_torch(Case("Tensor.masked_fill", lambda x, m: x.masked_fill(m, value), [x, mask], {"value": value}))


def test_the_smallest_float_as_files_have_it() -> None:
    smallest = torch.finfo(torch.float32).min
    given = {"value": -3.40282347e38}
    mask = torch.tensor([True, False])
    check(Case("Tensor.masked_fill", lambda x, m: x.masked_fill(m, smallest), [torch.zeros(2), mask], given))
    check(Case("Tensor.fill", lambda x: torch.full_like(x, smallest), [torch.zeros(2)], given))
    with pytest.raises(DTypeError, match=r"the number -3\.4028236e\+38 is out of the range of f32"):
        run(Case("Tensor.fill", torch.zeros_like, [torch.zeros(2)], {"value": -3.4028236e38}))


@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_values_that_are_tensors() -> None:
    for dtype in (torch.float32, torch.int32, torch.uint8, torch.bool, torch.complex64):
        x = torch.zeros(2, 3, dtype=dtype)
        for value in map(torch.tensor, [2.5, 300, 3e9, True, 1j, [2.5]]):
            check_like_torch(Case("Tensor.fill", lambda x, v: x.clone().fill_(v), [x, value], names=["input", "value"]))
    for value in map(torch.tensor, [2.5, 300, True, 1j, [2.5]]):
        check_like_torch(
            Case("torch.full", lambda v: torch.full((2,), v), [value], {"size": (2,)}, names=["fill_value"])
        )


def test_refused() -> None:
    with pytest.raises(ShapeError, match=r"size=\(-1,2\) was baked in at conversion; expected sizes of at least 0"):
        run(Case("torch.zeros", torch.zeros, [], {"size": (-1, 2)}))
    with pytest.raises(DTypeError, match="the number 300 is out of the range of u8"):
        run(Case("torch.full", torch.full, [], {"size": (2,), "fill_value": 300, "dtype": "torch.uint8"}))
    for params in [{"dtype": "torch.nothing"}, {"size": (2.5,)}, {"wrong": 1}, {}]:
        with pytest.raises(KuiperError):
            run(Case("torch.zeros", torch.zeros, [], {"size": (2,), **params} if params else {}))
    with pytest.raises(DTypeError, match="fill_value: expected a number, found 'zeros'"):
        run(Case("torch.full", torch.full, [], {"size": (2,), "fill_value": "zeros"}))


# ------------------------------------------------------------------------------------------- ranges

RANGES: list[tuple[Any, ...]] = [
    (5,), (0,), (-1,), (5.0,), (0.5,), (True,), (3.7,), (1j,), (1, 5), (-3, 0), (-2, 2), (0, 300), (0, INF), (0, NAN),
    (1, 5, 2), (1, 6, 2), (5, 1, -2), (5, 1, 1), (1, 5, -1), (1, 5, 0), (0, -5, -2), (2**40, 2**40 + 3), (2**53, 2**53 + 4),
    (1, 2, 0.3), (1, 2.05, 0.35), (0, 1, 0.1), (10, 0.5, -3), (0.5, 4.6, 1.5), (0.5, 4.6, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_ranges(bounds: tuple[Any, ...]) -> None:
    names = ["end"] if len(bounds) == 1 else ["start", "end", "step"][: len(bounds)]
    given = dict(zip(names, bounds, strict=True))
    for dtype in [None, *ALL]:
        params = {"dtype": None if dtype is None else str(dtype)}

        def function(*_: Any, d: torch.dtype | None = dtype) -> torch.Tensor:
            return torch.arange(*bounds, dtype=d)

        if dtype in (torch.int8, torch.uint8, torch.int16, torch.int32) and any(abs(b) > 2**31 for b in bounds):
            continue
        check_like_torch(Case("torch.arange", function, [], {**given, **params}, tolerance=1e-6))
        check_like_torch(Case("torch.arange", function, list(bounds), params, names=names, tolerance=1e-6))


def test_bounds_that_are_tensors() -> None:
    for end in [torch.tensor(3), torch.tensor(3.5), torch.tensor(3.5, dtype=torch.float64), torch.tensor(True)]:
        check(Case("torch.arange", torch.arange, [end], names=["end"]))
    with pytest.raises(KuiperError):
        run(Case("torch.arange", torch.arange, [torch.tensor([3])], names=["end"]))


# ------------------------------------------------------------------------------------------- random numbers


def draw(kind: str, inputs: list[Any] | None = None, **params: Any) -> np.ndarray[Any, Any]:
    return run(Case(kind, torch.randn, inputs or [], params))[0]  # type: ignore[no-any-return]


def test_moments_of_random_numbers() -> None:
    manual_seed(1)
    x = torch.zeros(200, 100, dtype=torch.float64)
    for normal in (draw("torch.randn", size=(200, 100)), draw("torch.randn_like", [x]), draw("torch.normal", [x])):
        assert normal.shape == (200, 100)
        assert abs(normal.mean()) < 0.03
        assert abs(normal.std() - 1) < 0.03
    shifted = draw("torch.normal", [x], mean=5.0, std=0.5, generator=None)
    assert abs(shifted.mean() - 5) < 0.03
    assert abs(shifted.std() - 0.5) < 0.03
    even = draw("torch.rand", size=(200, 100))
    assert even.min() >= 0
    assert even.max() < 1
    assert abs(even.mean() - 0.5) < 0.02
    complex_ = draw("torch.randn", size=(200, 100), dtype="torch.complex64")
    assert complex_.dtype == np.complex64
    assert abs(complex_.std() - 1) < 0.03
    assert draw("torch.rand_like", [x.half()]).dtype == np.float16
    by_tensors = run(Case("torch.normal", torch.normal, [x + 2, x[0] + 1], names=["mean", "std"]))[0]
    assert by_tensors.shape == (200, 100)
    assert abs(by_tensors.mean() - 2) < 0.03


def test_a_seed_gives_the_same_numbers_again() -> None:
    def numbers() -> list[bytes]:
        return [draw("torch.randn", size=(5,)).tobytes(), draw("torch.rand", size=(5,)).tobytes()]

    manual_seed(7)
    first = numbers()
    assert first[0] != first[1]
    assert numbers() != first
    manual_seed(7)
    assert numbers() == first


def test_threads_draw_different_numbers() -> None:
    manual_seed(3)
    drawn: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: drawn.append(draw("torch.randn", size=(64,)).tobytes())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 8


def test_random_numbers_refused() -> None:
    for kind, inputs, params in [
        ("torch.randn", [], {"size": (2,), "dtype": "torch.long"}),
        ("torch.rand", [], {"size": (2,), "dtype": "torch.bool"}),
        ("torch.randn_like", [torch.zeros(2).int()], {}),
        ("torch.normal", [torch.zeros(2).int()], {}),
        ("torch.normal", [torch.zeros(2)], {"std": -1.0}),
        ("torch.normal", [], {}),
        ("torch.randn", [], {"size": (-2,)}),
    ]:
        with pytest.raises((DTypeError, InputError, ShapeError)):
            run(Case(kind, torch.randn, inputs, params))
