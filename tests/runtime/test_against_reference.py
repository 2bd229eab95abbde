"""Compiled models held against the reference: what is compared, and that a difference is found where it arises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer import CompileError
from kuiperinfer.codegen.lowering import KernelStep, Place
from kuiperinfer.dtypes import Array
from kuiperinfer.runtime.against_reference import OperandResult, run_both, uses_winograd
from kuiperinfer.runtime.compiled import CompiledModel
from tests.graph.build import build

GENERATOR = np.random.default_rng(3)


def weights(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def convolution(name: str, source: str, target: str, inputs: int, outputs: int, kernel: int = 3) -> tuple[Any, ...]:
    pad = kernel // 2
    params = {
        "bias": True,
        "dilation": (1, 1),
        "groups": 1,
        "in_channels": inputs,
        "kernel_size": (kernel, kernel),
        "out_channels": outputs,
        "padding": (pad, pad),
        "padding_mode": "zeros",
        "stride": (1, 1),
    }
    attributes = {"weight": weights(outputs, inputs, kernel, kernel) / 8, "bias": weights(outputs)}
    return ("nn.Conv2d", name, source, target, params, attributes)


def compiled(*lines: tuple[Any, ...], **options: Any) -> CompiledModel:
    with kuiperinfer.settings(cache=False):
        return kuiperinfer.Model(kuiperinfer.RuntimeGraph.from_pnnx(build(*lines))).compile(threads=1, **options)


def residual() -> CompiledModel:
    """Convolutions with fused activations, a sum, a concatenation, slices of it, and a product at the end."""
    return compiled(
        ("pnnx.Input", "in", "", "x", {}, {}, (1, 5, 12, 14)),
        convolution("first", "x", "a", 5, 16),
        ("F.relu", "relu", "a", "b"),
        convolution("second", "b", "c", 16, 16),
        ("pnnx.Expression", "sum", "c b", "d", {"expr": "add(@0,@1)"}),
        ("torch.cat", "cat", "b d", "e", {"dim": 1}),
        ("torch.chunk", "chunk", "e", "f g", {"chunks": 2, "dim": 1}),
        convolution("third", "g", "h", 16, 3, 1),
        ("torch.flatten", "flatten", "h", "i", {"start_dim": 2, "end_dim": 3}),
        ("torch.permute", "permute", "i", "j", {"dims": (0, 2, 1)}),
        ("F.softmax", "softmax", "j", "k", {"dim": -1}),
        ("pnnx.Output", "out", "k", ""),
        ("pnnx.Output", "out2", "f", ""),
        precision="exact",
    )


def inputs_of(model: CompiledModel) -> list[Array]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(spec.shape).astype(np.float32) for spec in model.plan.input_specs]


def by_name(results: list[OperandResult]) -> dict[str, OperandResult]:
    return {result.operand: result for result in results}


def test_operands_that_exist_in_both_are_compared_in_the_order_of_the_run() -> None:
    model = residual()
    results = by_name(run_both(model, inputs_of(model)))
    assert [name for name in "bdefghijk" if name in results] == list(results)
    assert {"b", "d", "k"} <= set(results)
    assert not {"x", "a", "c"} & set(results)  # an input; what passes have fused into others
    for result in results.values():
        assert result.comparison.ok, str(result)
        assert result.comparison.error is not None
    assert results["b"].kernel == "DirectConvolution"
    assert "first" in results["b"].operator


def test_results_are_those_of_a_plain_run() -> None:
    model = residual()
    arrays = inputs_of(model)
    with kuiperinfer.settings(compare=True):
        compared = model.run(arrays)
    for one, other in zip(compared, model.run(arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def spoil(model: CompiledModel, operator: str) -> None:
    """Changes the constants that the kernel of an operator reads."""
    spoiled = 0
    for step in model.plan.steps:
        if isinstance(step, KernelStep) and step.operator.name == operator:
            for ref in step.refs:
                if ref.buffer.place is Place.CONSTANT and ref.buffer.data is not None:
                    ref.buffer.data[...] += 1
                    spoiled += 1
    assert spoiled


def test_the_first_difference_is_found_where_it_arises() -> None:
    model = residual()
    spoil(model, "second")
    results = run_both(model, inputs_of(model))
    wrong = [result for result in results if not result.comparison.ok]
    assert wrong[0].operand == "d"
    assert by_name(results)["b"].comparison.ok
    with (
        kuiperinfer.settings(compare=True),
        pytest.raises(
            CompileError, match=r"differs from the reference at operand 'd' of operator 'second' \(nn.Conv2d\)"
        ),
    ):
        model.run(inputs_of(model))


def test_the_setting_stops_calls_of_the_model_too() -> None:
    model = residual()
    spoil(model, "third")
    arrays = inputs_of(model)
    as_compiled = {"engine": "compiled", "precision": "exact", "threads": 1}
    with kuiperinfer.settings(compare=True, **as_compiled), pytest.raises(CompileError, match="operand 'h'"):
        model.model(*arrays)
    with kuiperinfer.settings(**as_compiled):
        model.model(*arrays)


def test_a_tolerance_of_ones_own() -> None:
    model = residual()
    assert all(
        result.comparison.tolerance == 1e-4 for result in run_both(model, inputs_of(model)) if result.operand == "b"
    )
    assert any(not result.comparison.ok for result in run_both(model, inputs_of(model), 1e-12))


def test_winograd_has_a_wider_tolerance() -> None:
    def model(**options: Any) -> CompiledModel:
        return compiled(
            ("pnnx.Input", "in", "", "x", {}, {}, (1, 32, 16, 16)),
            convolution("conv", "x", "y", 32, 32),
            ("pnnx.Output", "out", "y", ""),
            **options,
        )

    fast, exact = model(), model(precision="exact")
    assert uses_winograd(fast.plan) and not uses_winograd(exact.plan)
    assert [one.comparison.tolerance for one in run_both(fast, inputs_of(fast))] == [1e-3]
    assert [one.comparison.tolerance for one in run_both(exact, inputs_of(exact))] == [1e-4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: compiled(  # a result whose shape hangs on data
            ("pnnx.Input", "in", "", "x", {}, {}, (7,)),
            ("torch.gt", "mask", "x", "m", {"other": 0}),
            ("torch.masked_select", "select", "x m", "y"),
            ("pnnx.Output", "out", "y", ""),
        ),
        lambda: compiled(  # random numbers
            ("pnnx.Input", "in", "", "x", {}, {}, (5, 6)),
            ("torch.rand_like", "rand", "x", "r"),
            ("pnnx.Expression", "sum", "x r", "y", {"expr": "add(@0,@1)"}),
            ("pnnx.Output", "out", "y", ""),
        ),
        lambda: compiled(  # integers, a list, and a view of the input that needs no step at all
            ("pnnx.Input", "in", "", "x", {}, {}, (4, 6)),
            ("torch.topk", "topk", "x", "v i", {"k": 2, "dim": -1, "largest": True, "sorted": True}),
            ("Tensor.view", "view", "x", "w", {"shape": (6, 4)}),
            ("prim::TupleConstruct", "all", "v i w", "t"),
            ("pnnx.Output", "out", "t", ""),
        ),
    ],
    ids=["unknown shape", "random", "tuple"],
)
def test_models_of_all_kinds(make: Callable[[], CompiledModel]) -> None:
    model = make()
    results = run_both(model, inputs_of(model))
    assert results
    for result in results:
        assert result.comparison.ok, str(result)
