"""Left-over `aten::` operators: their inputs are the arguments of PyTorch's schema, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kuiperinfer.errors import KuiperError, ModelFileError
from kuiperinfer.layers import registered
from kuiperinfer.layers.binding import signature_of
from kuiperinfer.layers.pointwise import BINARY, SUMS, UNARY

from .harness import Case, check, check_like_torch, random, run

X = random(3, 4)
Y = random(3, 4, seed=1)
LONG, FLOAT = 4, 6  # PyTorch's numbers of dtypes

# The inputs of an operator; PyTorch's function gets the tensors among them.
LEFT_OVER: list[tuple[str, list[Any], Callable[..., Any]]] = [
    ("aten::add", [X, Y], lambda x, y: x + y),
    ("aten::add", [X, Y, 2.5], lambda x, y: torch.add(x, y, alpha=2.5)),
    ("aten::add", [X > 0, Y > 0, 1], torch.add),
    ("aten::add", [X, 3, 2], lambda x: torch.add(x, 3, alpha=2)),
    ("aten::sub", [X, Y, 2], lambda x, y: torch.sub(x, y, alpha=2)),
    ("aten::rsub", [X, 3, 2], lambda x: torch.rsub(x, 3, alpha=2)),
    ("aten::rsub", [X, Y], torch.rsub),
    ("aten::mul", [X, Y], torch.mul),
    ("aten::div", [X.int(), 2], lambda x: x / 2),
    ("aten::pow", [X, 2], lambda x: x**2),
    ("aten::remainder", [X, 1.5], lambda x: torch.remainder(x, 1.5)),
    ("aten::floor_divide", [X.int(), 2], lambda x: x // 2),
    ("aten::__and__", [X > 0, Y > 0], torch.bitwise_and),
    ("aten::neg", [X], torch.neg),
    ("aten::tanh", [X], torch.tanh),
    ("aten::sqrt", [X.abs()], torch.sqrt),
    ("aten::new_full", [X, [2, 5], 3.0, None, None, None, False], lambda x: x.new_full((2, 5), 3.0)),
    ("aten::new_full", [X, [2, 5], 3.0, LONG, None, "cpu", False], lambda x: x.new_full((2, 5), 3.0, dtype=torch.long)),
    ("aten::new_zeros", [X.half(), [2], None, None, None, False], lambda x: x.new_zeros(2)),
    ("aten::full", [[2, 3], 7, FLOAT, None, "cpu", False], lambda: torch.full((2, 3), 7.0)),
    ("aten::zeros", [[2, 3], LONG, 0, "cpu", False], lambda: torch.zeros(2, 3, dtype=torch.long)),
    ("aten::ones_like", [X.int(), None, None, None, None, None], torch.ones_like),
    ("aten::full_like", [X, 2, None, None, None, None, None], lambda x: torch.full_like(x, 2)),
    ("aten::zero", [X.int()], torch.zeros_like),
    ("aten::fill", [X, 2], lambda x: torch.full_like(x, 2)),
    ("aten::arange", [5, None, None, None, None], lambda: torch.arange(5)),
    ("aten::arange", [1, 5, None, None, None, None], lambda: torch.arange(1, 5)),
    ("aten::arange", [1, 6, 2, FLOAT, None, "cpu", False], lambda: torch.arange(1, 6, 2, dtype=torch.float)),
    ("aten::view_as", [X, Y.t().contiguous()], lambda x, y: x.reshape(4, 3)),
    ("aten::expand", [X[:1], [5, -1], False], lambda x: x.expand(5, 4)),
    ("aten::transpose", [X, 0, 1], torch.t),
    ("aten::flatten", [X, 0, -1], torch.flatten),
    ("aten::unflatten", [X, 1, [2, -1]], lambda x: x.unflatten(1, (2, 2))),
    ("aten::movedim", [X, 0, 1], torch.t),
    ("aten::clone", [X, 0], torch.clone),
    ("aten::contiguous", [X, 0], torch.clone),
    ("aten::detach", [X], torch.clone),
    ("aten::to", [X, Y.int(), False, False, None], lambda x, y: x.int()),
    ("aten::type_as", [X, Y.double()], lambda x, y: x.double()),
    ("aten::repeat_interleave", [X, torch.tensor([1, 0, 2]), 0, None], lambda x, r: x.repeat_interleave(r, 0)),
    ("aten::diag", [X, 1], lambda x: x.diag(1)),
    ("aten::triu", [X, 1], lambda x: x.triu(1)),
    ("aten::roll", [X, [1], [0]], lambda x: x.roll(1, 0)),
    ("aten::chunk", [X, 2, 1], lambda x: list(x.chunk(2, 1))),
    ("aten::split", [X, 3, 1], lambda x: list(x.split(3, 1))),
    ("aten::split_with_sizes", [X, [1, 3], 1], lambda x: list(x.split([1, 3], 1))),
    ("aten::tensor_split", [X, [1, 2], 1], lambda x: list(x.tensor_split([1, 2], 1))),
    ("aten::unbind", [X, 1], lambda x: list(x.unbind(1))),
    ("aten::select", [X, 1, 2], lambda x: x[:, 2]),
    ("aten::slice", [X, 1, 1, None, 2], lambda x: x[:, 1::2]),
    ("aten::narrow", [X, 1, 1, 2], lambda x: x[:, 1:3]),
    ("aten::select_scatter", [X, Y[0], 0, 1], lambda x, s: x.select_scatter(s, 0, 1)),
    ("aten::slice_scatter", [X, Y[:1], 0, 1, 2, 1], lambda x, s: x.slice_scatter(s, 0, 1, 2)),
    ("aten::copy", [X, Y[0], False], lambda x, y: y.expand_as(x)),
    ("aten::gather", [X, 1, torch.tensor([[2, 0]]), False], lambda x, i: x.gather(1, i)),
    ("aten::scatter", [X, 1, torch.tensor([[2, 0]]), Y], lambda x, i, s: x.scatter(1, i, s)),
    ("aten::scatter", [X, 1, torch.tensor([[2, 0]]), 2.0], lambda x, i: x.scatter(1, i, 2.0)),
    ("aten::scatter_add", [X, 1, torch.tensor([[2, 0]]), Y], lambda x, i, s: x.scatter_add(1, i, s)),
    ("aten::index_add", [X, 0, torch.tensor([2, 0]), Y[:2], 2], lambda x, i, s: x.index_add(0, i, s, alpha=2)),
    ("aten::one_hot", [torch.tensor([2, 0]), 4], lambda i: torch.nn.functional.one_hot(i, 4)),
    ("aten::diagonal", [X, 1, 0, 1], lambda x: x.diagonal(1)),
    ("aten::index_select", [X, 1, torch.tensor([2, 0])], lambda x, i: x.index_select(1, i)),
    ("aten::index_put", [X, [torch.tensor([2, 0])], Y[0], False], lambda x, i, v: x.index_put(tuple(i), v)),
    ("aten::masked_fill", [X, X > 0, 2.0], lambda x, m: x.masked_fill(m, 2.0)),
    ("aten::embedding", [X, torch.tensor([2, 0]), -1, False, False], lambda w, i: w[i]),
    ("aten::size", [X, 1], lambda x: 4),
    ("aten::floordiv", [7, 2], lambda: 3),
]  # fmt: skip


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, list) and any(map(is_tensor, value)))


@pytest.mark.parametrize(("kind", "inputs", "function"), LEFT_OVER, ids=[row[0] for row in LEFT_OVER])
def test_like_torch(kind: str, inputs: list[Any], function: Callable[..., Any]) -> None:
    check(Case(kind, lambda *values: function(*filter(is_tensor, values)), inputs))


POINTWISE = [kind for kind in (*UNARY, *BINARY, *SUMS) if kind.startswith("aten::") and kind != "aten::floordiv"]


@pytest.mark.parametrize("kind", [*POINTWISE, "aten::pow", "aten::div", "aten::divide"])
def test_every_function_of_elements_is_one_of_pytorch(kind: str) -> None:
    function = getattr(torch.ops.aten, kind.removeprefix("aten::"))
    inputs = [X.abs() / 3 + 0.1, Y.abs() + 0.5][: 1 if kind in UNARY else 2]
    if "__" in kind or "bitwise" in kind:
        inputs = [X.int().abs(), Y.int().abs()]
    check_like_torch(Case(kind, function, inputs, tolerance=1e-5))


@pytest.mark.parametrize("kind", [kind for kind in SUMS if kind.startswith("aten::")])
@pytest.mark.parametrize("alpha", [2, 0, -3, 0.5, 1j, True, False])
def test_scale_of_a_sum(kind: str, alpha: complex) -> None:
    """A bool sum takes any integer for True or False; what would change the dtype is refused."""
    function = getattr(torch.ops.aten, kind.removeprefix("aten::"))
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.float16, torch.float32, torch.complex64):
        tensors = [random(3, 5, dtype=dtype), random(5, dtype=dtype, seed=3)]
        check_like_torch(Case(kind, lambda x, y, _: function(x, y, alpha=alpha), [*tensors, alpha]))


def test_left_over_operators_take_as_many_inputs_as_pytorch() -> None:
    for kind, registration in registered().items():
        if not kind.startswith("aten::"):
            continue
        overloads = torch._C._jit_get_schemas_for_operator(kind) + torch._C._jit_get_schemas_for_operator(f"{kind}_")
        signature = signature_of(registration.layer)
        takes = set(registration.layer.schemas) | set(range(len(signature.required), len(signature.names) + 1))
        assert takes & {len(overload.arguments) for overload in overloads}, kind


def test_refused() -> None:
    with pytest.raises(ModelFileError, match="has 4 inputs, but takes at most 3"):
        run(Case("aten::add", torch.add, [X, Y, 1, 2]))
    with pytest.raises(KuiperError):
        run(Case("aten::to", torch.clone, [X, FLOAT, False, False, None]))
    with pytest.raises(KuiperError):
        run(Case("aten::transpose", torch.t, [X, 0, torch.tensor(1)]))
