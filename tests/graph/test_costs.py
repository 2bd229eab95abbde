"""Multiply-adds and memory, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kuiperinfer.dtypes import TensorSpec, f16, f32, i64
from kuiperinfer.graph import RuntimeAttribute, RuntimeGraph, RuntimeOperand, RuntimeOperator, RuntimeParameter
from kuiperinfer.graph.memory_need import memory_need, weight_bytes, weight_count
from kuiperinfer.graph.multiply_adds import multiply_adds, total_multiply_adds
from kuiperinfer.pnnx import read
from kuiperinfer.vision import bundled

Shape = tuple[int, ...]


def one_operator(
    kind: str, inputs: Sequence[Shape], output: Shape, weights: dict[str, Shape] | None = None, **params: object
) -> int:
    """Multiply-adds of an operator with float32 operands of the given shapes."""
    operator = RuntimeOperator("it", kind)
    operator.params = {name: RuntimeParameter(value) for name, value in params.items()}
    operator.attributes = {name: RuntimeAttribute(None, shape, f32) for name, shape in (weights or {}).items()}
    source = RuntimeOperator("source", "pnnx.Input")
    operator.input_operands_seq = [RuntimeOperand(str(index), source) for index in range(len(inputs))]
    operator.output_operands = [RuntimeOperand("y", operator)]
    specs = {op: TensorSpec(shape, f32) for op, shape in zip(operator.input_operands_seq, inputs, strict=True)}
    specs[operator.output_operands[0]] = TensorSpec(output, f32)
    return multiply_adds(operator, specs)


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "weights", "expected"),
    [
        ("nn.Conv2d", [(1, 3, 8, 8)], (1, 16, 6, 6), {"weight": (16, 3, 3, 3), "bias": (16,)}, 16 * 36 * 27),
        ("nn.Conv2d", [(1, 32, 8, 8)], (1, 32, 8, 8), {"weight": (32, 1, 3, 3)}, 32 * 64 * 9),
        ("F.conv1d", [(2, 3, 8), (4, 3, 5)], (2, 4, 4), {}, 2 * 4 * 4 * 15),
        ("nn.ConvTranspose2d", [(1, 8, 4, 4)], (1, 3, 8, 8), {"weight": (8, 3, 2, 2)}, 8 * 16 * 12),
        ("nn.Linear", [(2, 5, 4)], (2, 5, 3), {"weight": (3, 4), "bias": (3,)}, 2 * 5 * 3 * 4),
        ("torch.matmul", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), {}, 2 * 3 * 5 * 4),
        ("torch.matmul", [(4,), (4,)], (), {}, 4),
        ("torch.addmm", [(5,), (3, 4), (4, 5)], (3, 5), {}, 3 * 5 * 4),
        (
            "F.scaled_dot_product_attention",
            [(2, 4, 6, 8), (2, 4, 7, 8), (2, 4, 7, 9)],
            (2, 4, 6, 9),
            {},
            8 * 6 * 7 * 17,
        ),
        (
            "nn.GRU",
            [(10, 2, 4)],
            (10, 2, 5),
            {"weight_ih_l0": (15, 4), "weight_hh_l0": (15, 5), "bias_ih_l0": (15,)},
            20 * 135,
        ),
        ("nn.ReLU", [(2, 3)], (2, 3), {}, 0),
        ("my.Thing", [(2, 3)], (2, 3), {}, 0),
    ],
)
def test_operators(kind: str, inputs: list[Shape], output: Shape, weights: dict[str, Shape], expected: int) -> None:
    assert one_operator(kind, inputs, output, weights) == expected


def test_einsum_multiplies_all_letters() -> None:
    assert one_operator("torch.einsum", [(2, 3), (3, 4)], (2, 4), equation="ij,jk->ik") == 24
    assert one_operator("torch.einsum", [(2, 3), (3, 4)], (2, 4), equation="...j,jk->...k") == 0


@pytest.mark.parametrize(("batch_first", "shape"), [(False, (6, 2, 8)), (True, (2, 6, 8))])
def test_multihead_attention(batch_first: bool, shape: Shape) -> None:
    per_sample = 4 * 6 * 8 * 8 + 2 * 6 * 6 * 8
    for inputs in ([shape], [shape] * 3):
        found = one_operator("nn.MultiheadAttention", inputs, shape, batch_first=batch_first)
        assert found == 2 * per_sample


def test_mobilenet_v2_has_the_multiply_adds_of_its_paper() -> None:
    graph = RuntimeGraph.from_pnnx(read(bundled.MODEL))
    assert total_multiply_adds(graph.topo_operators, graph.infer()) == 300_774_272
    assert weight_count(graph.operators) == 3_487_816
    assert weight_bytes(graph.operators) == 2 * 3_487_816


def chain(*steps: tuple[str, str, list[str], list[str]]) -> list[RuntimeOperator]:
    """Operators from (type, name, input operands, output operands)."""
    operands: dict[str, RuntimeOperand] = {}
    operators = []
    for kind, name, inputs, outputs in steps:
        operator = RuntimeOperator(name, kind)
        operator.input_operands_seq = [operands[operand] for operand in inputs]
        operator.output_operands = [
            operands.setdefault(operand, RuntimeOperand(operand, operator)) for operand in outputs
        ]
        operators.append(operator)
    return operators


def need(operators: list[RuntimeOperator], **sizes: int) -> tuple[int, str]:
    """The peak for operands of so many bytes, and where it is reached."""
    operands = [operand for operator in operators for operand in operator.output_operands]
    specs = {o: TensorSpec((sizes[o.name] // 4,), f32) if o.name in sizes else [] for o in operands}
    found = memory_need(operators, specs)
    assert found.complete
    return found.peak, found.operator


def test_a_value_lives_until_its_last_use() -> None:
    operators = chain(
        ("pnnx.Input", "input", [], ["x"]),
        ("F.relu", "a", ["x"], ["y"]),
        ("F.relu", "b", ["y"], ["z"]),
        ("pnnx.Output", "output", ["z"], []),
    )
    assert need(operators, x=400, y=40, z=4) == (440, "a")
    assert need(operators, x=4, y=40, z=400) == (440, "b")


def test_a_value_used_later_lives_longer() -> None:
    operators = chain(
        ("pnnx.Input", "input", [], ["x"]),
        ("F.relu", "a", ["x"], ["y"]),
        ("pnnx.Expression", "sum", ["x", "y"], ["z"]),
        ("pnnx.Output", "output", ["z"], []),
    )
    assert need(operators, x=400, y=400, z=400) == (1200, "sum")


def test_outputs_live_to_the_end() -> None:
    operators = chain(
        ("pnnx.Input", "input", [], ["x"]),
        ("F.relu", "a", ["x"], ["y"]),
        ("F.relu", "b", ["x"], ["z"]),
        ("F.relu", "c", ["z"], ["w"]),
        ("pnnx.Output", "output", ["y", "w"], []),
    )
    assert need(operators, x=4, y=400, z=40, w=40) == (480, "c")


def test_collections_keep_what_they_hold_but_weigh_nothing() -> None:
    operators = chain(
        ("pnnx.Input", "input", [], ["x"]),
        ("prim::ListConstruct", "list", ["x"], ["l"]),
        ("F.relu", "a", ["x"], ["y"]),
        ("torch.cat", "cat", ["l"], ["z"]),
        ("pnnx.Output", "output", ["y", "z"], []),
    )
    assert need(operators, x=400, y=40, z=400) == (840, "cat")


def test_what_hangs_on_data_is_not_counted_and_said_to_be() -> None:
    operators = chain(("pnnx.Input", "input", [], ["x"]), ("torch.masked_select", "m", ["x"], ["y"]))
    specs = {operators[0].output_operands[0]: TensorSpec((3,), i64), operators[1].output_operands[0]: object()}
    found = memory_need(operators, specs)
    assert (found.peak, found.complete) == (24, False)


def test_stored_bytes_of_weights() -> None:
    operator = RuntimeOperator("a", "nn.Linear")
    operator.attributes = {"weight": RuntimeAttribute(None, (3, 4), f16), "nothing": RuntimeAttribute(None, (), None)}
    assert (weight_count([operator]), weight_bytes([operator])) == (12, 24)
