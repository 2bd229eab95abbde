"""What layers learn from the file's annotations: the parameter `dtype`, which the converter drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.dtypes import TensorSpec, dtype_from_name
from kuiperinfer.layers.annotation import Annotation, DTypeLayer
from kuiperinfer.layers.base import apply, infer
from kuiperinfer.layers.binding import bind

from .harness import ALL_DTYPES, assert_equal, random, to_numpy

# Operator type and parameters as the converter writes them, and the call that it was.
DROPPING: list[tuple[str, dict[str, Any], Callable[..., torch.Tensor]]] = [
    ("torch.sum", {"dim": (1,), "keepdim": False}, lambda x, d: torch.sum(x, 1, dtype=d)),
    ("torch.mean", {"dim": (1,), "keepdim": True}, lambda x, d: torch.mean(x, 1, keepdim=True, dtype=d)),
    ("torch.prod", {"dim": 1, "keepdim": False}, lambda x, d: torch.prod(x, 1, dtype=d)),
    ("torch.nansum", {"dim": (1,), "keepdim": False}, lambda x, d: torch.nansum(x, 1, dtype=d)),
    ("torch.nanmean", {"dim": (1,), "keepdim": False}, lambda x, d: torch.nanmean(x, 1, dtype=d)),
    ("torch.cumsum", {"dim": 1}, lambda x, d: torch.cumsum(x, 1, dtype=d)),
    ("torch.cumprod", {"dim": 1}, lambda x, d: torch.cumprod(x, 1, dtype=d)),
    (
        "torch.norm",
        {"dim": (1,), "keepdim": False, "p": 2},
        lambda x, d: torch.linalg.vector_norm(x, 2, 1, dtype=d),
    ),
    ("F.softmax", {"dim": 1}, lambda x, d: F.softmax(x, 1, dtype=d)),
    ("F.log_softmax", {"dim": 1}, lambda x, d: F.log_softmax(x, 1, dtype=d)),
    ("F.softmin", {"dim": 1}, lambda x, d: F.softmin(x, 1, dtype=d)),
]


def layer_of(type_name: str, params: dict[str, Any], before: str | None, after: str | None, **rest: Any) -> DTypeLayer:
    """The layer of an operator whose operands are annotated with the dtypes `before` and `after`, and no known size."""
    annotations = [Annotation((None, None), dtype_from_name(name) if name else None) for name in (before, after)]
    binding = bind(
        type_name,
        input_names=["input"],
        params=params | rest,
        annotated_inputs=annotations[:1],
        annotated_outputs=annotations[1:],
    )
    assert isinstance(binding.layer, DTypeLayer)
    return binding.layer


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize(("type_name", "params", "function"), DROPPING, ids=[row[0] for row in DROPPING])
def test_dtype_is_read_from_the_annotations(
    type_name: str, params: dict[str, Any], function: Callable[..., torch.Tensor]
) -> None:
    checked = 0
    for before in ALL_DTYPES:
        x = random(3, 5, dtype=before, low=1)
        for wanted in (None, *ALL_DTYPES):
            try:
                expected = to_numpy(function(x, wanted))
            except (RuntimeError, TypeError):
                continue
            after = TensorSpec.of(expected).dtype.name
            layer = layer_of(type_name, params, str(before), after)
            array = to_numpy(x)
            (found,) = apply(layer, [], {"input": array})
            assert_equal(found, expected)
            assert infer(layer, [], {"input": TensorSpec.of(array).like()}) == (TensorSpec.of(found),)
            checked += 1
    assert checked >= 18


@pytest.mark.parametrize(
    ("type_name", "before", "after"),
    [
        ("torch.sum", "f32", "f32"),
        ("torch.sum", "bool", "i64"),
        ("torch.cumsum", "i8", "i64"),
        ("torch.norm", "c64", "f32"),
        ("torch.sum", None, "f64"),
        ("torch.sum", "f32", None),
        ("torch.norm", "f64", "f32"),  # no dtype would do this
        ("torch.mean", "f32", "i64"),
        ("F.softmax", "f32", "bool"),
    ],
)
def test_annotations_that_ask_for_no_dtype(type_name: str, before: str | None, after: str | None) -> None:
    params = {"dim": 0} if type_name in ("F.softmax", "torch.cumsum") else {}
    assert layer_of(type_name, params, before, after).dtype is None


def test_what_is_given_counts_more_than_an_annotation() -> None:
    assert layer_of("torch.sum", {}, "f32", "f64", dtype="torch.int").dtype is dtype_from_name("i32")
    assert layer_of("torch.sum", {}, "f32", "f32", dtype="torch.int").dtype is dtype_from_name("i32")


def test_input_of_another_dtype_than_annotated() -> None:
    """A model may be run in another dtype than it was converted in: what was not asked for follows the input."""
    x = random(3, 5, dtype=torch.float64)
    (plain,) = apply(layer_of("F.softmax", {"dim": 1}, "f32", "f32"), [], {"input": x.numpy()})
    assert_equal(plain, to_numpy(F.softmax(x, 1)))
    (asked,) = apply(layer_of("F.softmax", {"dim": 1}, "f16", "f32"), [], {"input": x.numpy()})
    assert_equal(asked, to_numpy(F.softmax(x, 1, dtype=torch.float32)))
