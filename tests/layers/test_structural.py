"""What holds a graph together: constants, expressions, lists, dicts, sizes, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.dtypes import TensorSpec, bf16, f16, f32
from kuiperinfer.errors import ExpressionError, InputError, KuiperError, ModelFileError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.base import DataDependent, apply, infer
from kuiperinfer.layers.binding import bind
from kuiperinfer.pnnx.values import parse_parameter

from .harness import Case, check, random, run, to_numpy


def value_of(kind: str, inputs: list[Any] | None = None, outputs: int = 1, **params: Any) -> Any:
    """The outputs of an operator whose parameters are given as the file writes them."""
    parsed = {name: parse_parameter(text) if isinstance(text, str) else text for name, text in params.items()}
    found = run(Case(kind, torch.clone, inputs or [], parsed, outputs=outputs))
    return found[0] if outputs == 1 else found


def test_attribute_is_its_weight() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        check(
            Case(
                "pnnx.Attribute", lambda d=dtype: random(2, 3, dtype=d), [], weights={"data": random(2, 3, dtype=dtype)}
            )
        )
    check(Case("pnnx.Attribute", lambda: torch.tensor([True]), [], weights={"anything": torch.tensor([True])}))
    for weights in ({}, {"a": torch.ones(1), "b": torch.ones(1)}):
        with pytest.raises(ModelFileError, match="expected one weight"):
            run(Case("pnnx.Attribute", torch.clone, [], weights=weights))
    with pytest.raises(ModelFileError, match="'data' has no data"):
        infer(bind("pnnx.Attribute", attributes=["data"]).layer, [], {"data": None})


def test_constants() -> None:
    assert value_of("prim::Constant", value="3") == 3
    assert value_of("prim::Constant", value="torch.float") == "torch.float"
    assert value_of("prim::Constant", value="(1,2)") == [1, 2]
    assert value_of("prim::Constant") is None


# ------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [("None", None), ("True", True), ("2", 2), ("0.5", 0.5), ("-inf", float("-inf")), ("a", "a"), ("cpu", "cpu"), ("[1]", [1]),
     ("(2)", None), ("[1,-1]", [1, -1]), ("add(2,3)", 5), ("torch.float", "torch.float"), ("[]", [])],
)  # fmt: skip
def test_expressions_without_inputs(text: str, value: Any) -> None:
    if text == "(2)":
        with pytest.raises(ExpressionError):
            value_of("pnnx.Expression", expr=text)
    else:
        found = value_of("pnnx.Expression", expr=text)
        assert found == value
        assert type(found) is type(value)


def test_expressions() -> None:
    x, y = random(3, 4), random(4)
    check(Case("pnnx.Expression", lambda x, y: x + y * 2.5, [x, y], {"expr": "add(@0,mul(@1,2.5))"}))
    check(Case("pnnx.Expression", lambda x: x.bfloat16() * 2, [x.bfloat16()], {"expr": "mul(@0,2)"}, names=["input"]))
    check(Case("pnnx.Expression", lambda x: [3, 4, -1], [x], {"expr": "[size(@0,0),size(@0,1),-1]"}))
    check(Case("pnnx.Expression", lambda x: [x, None], [x], {"expr": "[@0,None]"}))
    check(Case("pnnx.Expression", lambda n: 7, [3], {"expr": "add(mul(@0,2),1)"}))


def test_broken_expression_is_found_when_the_model_is_built() -> None:
    with pytest.raises(ExpressionError):
        bind("pnnx.Expression", params={"expr": "add(@0"})
    with pytest.raises(ExpressionError, match="'@2' is out of range: there are 2 operands") as found:
        bind("pnnx.Expression", params={"expr": "add(@0,@2)"}, input_names=[None, None])
    assert found.value.column == 8
    with pytest.raises(ModelFileError, match="'expr' is missing"):
        bind("pnnx.Expression")


# ------------------------------------------------------------------------------------------- slice indexes


def test_slice_indexes() -> None:
    assert value_of("pnnx.SliceIndexes", [5, torch.tensor(7)], indexes="(@0,1,2147483647,@1)") == [5, 1, 2147483647, 7]
    assert value_of("pnnx.SliceIndexes", indexes="(1,2)") == [1, 2]
    assert value_of("pnnx.SliceIndexes", [3], indexes="(@0)") == [3]
    for text in ("(@1)", "(@x)", "(a)", "None", "(@)"):
        with pytest.raises(ModelFileError):
            bind("pnnx.SliceIndexes", params={"indexes": parse_parameter(text)}, input_names=[None])


# ------------------------------------------------------------------------------------------- lists and dicts


def test_lists() -> None:
    x = random(2)
    found = value_of("prim::TupleConstruct", [x, 3, [x, "word"], None])
    assert found[1] == 3
    assert found[2][1] == "word"
    assert found[3] is None
    assert value_of("prim::ListConstruct") == []
    first, second = value_of("prim::TupleUnpack", [[x, 4]], outputs=2)
    np.testing.assert_array_equal(first, x)
    assert second == 4
    assert value_of("prim::ListUnpack", [[5]]) == 5
    np.testing.assert_array_equal(value_of("prim::ListUnpack", [x]), x)
    with pytest.raises(ShapeError, match="the list has 2 items, but the model unpacks 3"):
        value_of("prim::TupleUnpack", [[x, 4]], outputs=3)
    assert value_of("aten::__getitem__", [[1, 2, 3], -1]) == 3
    assert value_of("aten::len", [[1, 2, 3]]) == 3
    assert value_of("aten::len", [x]) == 2
    with pytest.raises(InputError, match="no item 3 among 2"):
        value_of("aten::__getitem__", [[1, 2], 3])


def test_dicts() -> None:
    found = value_of("prim::DictConstruct", ["a", 1, "b", random(2)])
    assert list(found) == ["a", "b"]
    assert found["a"] == 1
    assert value_of("aten::__getitem__", [{"a": 5}, "a"]) == 5
    for items in (["a"], [random(1), 2]):
        with pytest.raises(ModelFileError):
            value_of("prim::DictConstruct", items)


# ------------------------------------------------------------------------------------------- sizes and numbers


def test_sizes() -> None:
    x = random(2, 3)
    assert value_of("Tensor.size", [x]) == [2, 3]
    assert value_of("Tensor.size", [x], dim="-1") == 3
    assert value_of("aten::size", [x, 0]) == 2
    assert value_of("Tensor.size", [torch.tensor(1.0)]) == []
    assert value_of("aten::numel", [x]) == 6
    for tensor, dim in [(x, "2"), (torch.tensor(1.0), "0")]:
        with pytest.raises(ShapeError):
            value_of("Tensor.size", [tensor], dim=dim)


def test_numbers() -> None:
    for kind, tensor, expected in [
        ("Tensor.item", torch.tensor(2.5), 2.5),
        ("Tensor.item", torch.tensor([[True]]), True),
        ("aten::ScalarImplicit", torch.tensor(3), 3),
        ("aten::Int", torch.tensor(-2.7), -2),
        ("aten::Int", 3, 3),
        ("aten::Float", torch.tensor(3), 3.0),
        ("aten::Bool", torch.tensor(0.5), True),
    ]:
        found = value_of(kind, [tensor])
        assert found == expected
        assert type(found) is type(expected)
    check(Case("prim::NumToTensor", lambda n: torch.tensor(3), [3]))
    for kind, value in [("Tensor.item", random(2)), ("aten::Int", torch.tensor(float("inf"))), ("Tensor.item", "word")]:
        with pytest.raises(KuiperError):
            value_of(kind, [value])
    with pytest.raises(DataDependent):
        infer(bind("Tensor.item", input_names=[None]).layer, [], {"input": TensorSpec((), f32)})


def test_a_formula_of_bfloat16_constants_and_float32_tensors_is_calculated_in_bfloat16() -> None:
    annotations = [Annotation((3,), f32), Annotation((3,), bf16)]
    binding = bind(
        "pnnx.Expression",
        input_names=[None, None],
        params={"expr": "mul(@0,@1)"},
        annotated_inputs=annotations,
        annotated_outputs=[Annotation((3,), f32)],
    )
    x, factor = torch.tensor([0.1, 1.7, -3.3]), torch.tensor([1.5, 2.5, 0.3]).bfloat16()
    (found,) = apply(binding.layer, [x.numpy(), to_numpy(factor)], {})
    np.testing.assert_array_equal(found, (x.bfloat16() * factor).float().numpy())
    (half,) = apply(
        bind(
            "pnnx.Expression",
            input_names=[None, None],
            params={"expr": "mul(@0,@1)"},
            annotated_inputs=[Annotation((3,), f32), Annotation((3,), f16)],
            annotated_outputs=[Annotation((3,), f32)],
        ).layer,
        [x.numpy(), factor.half().numpy()],
        {},
    )
    np.testing.assert_array_equal(half, (x * factor.half()).numpy())
