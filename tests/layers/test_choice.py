"""Bounds and choices against PyTorch: every pair of dtypes, numbers, broadcasting, NaN."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ShapeError

from .harness import Case, check, check_like_torch, random, run
from .test_comparison import INF, NAN, NUMBERS, ODD, TENSORS

EXTREMES = ["maximum", "minimum", "fmax", "fmin"]


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("left", TENSORS)
def test_pairs(name: str, left: str) -> None:
    for right in TENSORS.values():
        inputs = [TENSORS[left], right]
        check_like_torch(Case(f"torch.{name}", getattr(torch, name), inputs, names=["input", "other"]))


@pytest.mark.parametrize("name", EXTREMES)
def test_nan_and_infinities(name: str) -> None:
    pairs = torch.tensor(list(itertools.product(ODD.tolist(), repeat=2)))
    check(Case(f"torch.{name}", getattr(torch, name), [pairs[:, 0], pairs[:, 1]]))


# ------------------------------------------------------------------------------------------- bounds

BOUNDS: list[tuple[Any, Any]] = [
    (None, 2), (0, None), (-1, 1), (0.5, None), (None, 0.5), (1, -1), (-INF, INF), (NAN, 1.0), (0.0, NAN), (None, INF),
    (True, 2), (None, None), (-200, None), (0, 300),
]  # fmt: skip


@pytest.mark.parametrize("label", [*TENSORS, "odd"])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_clamp_to_numbers(label: str, low: Any, high: Any) -> None:
    input = ODD if label == "odd" else TENSORS[label]
    params = {"min": low, "max": high}
    check_like_torch(Case("torch.clamp", lambda x: torch.clamp(x, low, high), [input], params))


@pytest.mark.parametrize("label", TENSORS)
def test_clamp_to_tensors(label: str) -> None:
    for bound in TENSORS.values():
        inputs = [TENSORS[label], bound]
        check_like_torch(
            Case("torch.clamp", lambda x, b: torch.clamp(x, min=b), inputs, {"max": None}, names=["input", "min"])
        )
        check_like_torch(
            Case("torch.clamp", lambda x, b: torch.clamp(x, max=b), inputs, {"min": None}, names=["input", "max"])
        )
        check_like_torch(Case("torch.clamp", torch.clamp, [*inputs, TENSORS["0d f32"]], names=["input", "min", "max"]))


def test_clamp_to_nan_among_bounds() -> None:
    check(Case("torch.clamp", torch.clamp, [random(8), ODD, ODD.flip(0)]))


@pytest.mark.parametrize("name", ["clamp_min", "clamp_max"])
@pytest.mark.parametrize("prefix", ["torch.", "aten::"])
def test_one_bound(name: str, prefix: str) -> None:
    function = getattr(torch, name)
    for bound in (0.5, 1, TENSORS["row"], TENSORS["0d i64"]):
        for input in TENSORS.values():
            names = ["input", name[-3:]] if prefix == "torch." else None
            check_like_torch(Case(prefix + name, function, [input, bound], names=names))


@pytest.mark.parametrize("label", [*TENSORS, "odd", "odd f16", "odd bf16", "odd f64", "odd c64"])
@pytest.mark.parametrize("replacements", [(None, None, None), (1.5, 7.0, -8.0), (None, 3.0, None)])
def test_nan_to_num(label: str, replacements: Any) -> None:
    odd = {"odd": ODD, "odd f16": ODD.half(), "odd bf16": ODD.bfloat16(), "odd f64": ODD.double()}
    odd["odd c64"] = torch.complex(ODD, ODD.flip(0))
    check(Case("aten::nan_to_num", torch.nan_to_num, [{**TENSORS, **odd}[label], *replacements]))


# ------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize("left", TENSORS)
def test_where(left: str) -> None:
    condition = TENSORS["bool"]
    for right in TENSORS.values():
        check_like_torch(Case("torch.where", torch.where, [condition, TENSORS[left], right]))
    for number in NUMBERS[: -1 if left == "f16" else None]:  # NumPy has no c32 to compare
        call = lambda c, x, n=number: torch.where(c, x, n)  # noqa: E731
        check_like_torch(
            Case("torch.where", call, [condition, TENSORS[left]], {"other": number}, names=["condition", "input"])
        )
        call = lambda c, x, n=number: torch.where(c, n, x)  # noqa: E731
        check_like_torch(
            Case("torch.where", call, [condition, TENSORS[left]], {"input": number}, names=["condition", "other"])
        )


def test_where_of_two_numbers() -> None:
    for one, other in itertools.product([True, 1, 2.5, -INF, NAN, 1j], repeat=2):
        call = lambda c, a=one, b=other: torch.where(c, a, b)  # noqa: E731
        check(Case("torch.where", call, [TENSORS["bool"]], {"input": one, "other": other}, names=["condition"]))


def test_where_broadcasts_its_condition() -> None:
    condition = torch.tensor([[True], [False]])
    check(Case("torch.where", torch.where, [condition, TENSORS["row"], TENSORS["0d i64"]]))
    check(Case("torch.where", torch.where, [torch.tensor(True), TENSORS["row"], TENSORS["column"]]))
    check_like_torch(Case("torch.where", torch.where, [TENSORS["u8"] < 0, TENSORS["row"], TENSORS["nothing"]]))
    check_like_torch(Case("torch.where", torch.where, [TENSORS["f32"], TENSORS["row"], TENSORS["row"]]))


def test_none_stands_for_false() -> None:
    params = {"input": None, "other": 1.5}
    check(Case("torch.where", lambda c: torch.where(c, False, 1.5), [TENSORS["bool"]], params, names=["condition"]))


@pytest.mark.parametrize("label", TENSORS)
def test_indices_of_what_is_not_zero(label: str) -> None:
    check(Case("aten::nonzero", torch.nonzero, [TENSORS[label]]))
    check(Case("aten::where", lambda x: list(torch.where(x)), [TENSORS[label]]))


@pytest.mark.parametrize(
    ("type_name", "inputs", "params", "error", "message"),
    [
        ("torch.maximum", [torch.zeros(3), torch.zeros(4)], {}, ShapeError, "cannot be broadcast"),
        ("torch.clamp", [torch.zeros(3)], {}, ShapeError, "'min' or 'max', found neither"),
        ("torch.clamp", [TENSORS["u8"]], {"max": 300}, DTypeError, "300 does not fit into u8"),
        ("torch.where", [torch.zeros(3), torch.zeros(3), torch.zeros(3)], {}, DTypeError, "expected bool, found f32"),
    ],
)
def test_refuses(type_name: str, inputs: Any, params: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.eq, inputs, params))
