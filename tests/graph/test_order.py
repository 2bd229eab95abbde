"""Both topological sorts give the course's orders, stay deterministic, and name cycles."""

from __future__ import annotations

import random

import pytest

from kuiperinfer import ModelFileError, pnnx
from kuiperinfer.graph import RuntimeOperator, execution_order, kahn_order, reverse_dfs_order
from kuiperinfer.graph.runtime_graph import _convert

from .build import build

SIMPLE_OPS = (
    ("pnnx.Input", "input", "", "0"),
    ("nn.Conv2d", "op1", "0", "1"),
    ("nn.Conv2d", "op3", "1", "2"),
    ("nn.ReLU", "op4", "2", "3"),
    ("nn.Sigmoid", "op5", "2", "4"),
    ("pnnx.Expression", "expr", "3 4", "5"),
    ("pnnx.Output", "output", "5", ""),
)


def operators_of(graph: pnnx.Graph) -> list[RuntimeOperator]:
    return _convert(graph)[0]


def names(operators: list[RuntimeOperator]) -> list[str]:
    return [operator.name for operator in operators]


def test_the_orders_of_the_course() -> None:
    operators = operators_of(build(*SIMPLE_OPS))
    assert names(kahn_order(operators)) == ["input", "op1", "op3", "op4", "op5", "expr", "output"]
    assert names(reverse_dfs_order(operators)) == ["input", "op1", "op3", "op5", "op4", "expr", "output"]


def test_two_inputs_come_before_what_joins_them() -> None:
    graph = build(
        ("pnnx.Input", "inA", "", "0"),
        ("pnnx.Input", "inB", "", "1"),
        ("nn.Conv2d", "convB", "1", "2"),
        ("pnnx.Expression", "add", "0 2", "3"),
        ("pnnx.Output", "out", "3", ""),
    )
    for order in (kahn_order, reverse_dfs_order, execution_order):
        found = names(order(operators_of(graph)))
        assert found.index("convB") < found.index("add") < found.index("out")
        assert sorted(found) == sorted(["inA", "inB", "convB", "add", "out"])


def test_execution_order_is_file_order_where_that_is_valid() -> None:
    operators = operators_of(build(*SIMPLE_OPS))
    assert execution_order(operators) == operators


def test_an_operator_that_uses_an_operand_twice_waits_for_it_once() -> None:
    graph = build(
        ("pnnx.Input", "x", "", "0"),
        ("torch.matmul", "square", "0 0", "1"),
        ("pnnx.Output", "out", "1", ""),
    )
    assert names(kahn_order(operators_of(graph))) == ["x", "square", "out"]
    assert names(reverse_dfs_order(operators_of(graph))) == ["x", "square", "out"]


@pytest.mark.parametrize("order", [kahn_order, reverse_dfs_order, execution_order])
def test_a_cycle_is_named(order: object) -> None:
    graph = build(
        ("pnnx.Input", "x", "", "0"),
        ("nn.ReLU", "before", "0", "1"),
        ("pnnx.Expression", "a", "1 4", "2"),
        ("nn.ReLU", "b", "2", "3"),
        ("nn.ReLU", "c", "3", "4"),
        ("nn.ReLU", "after", "4", "5"),
        ("pnnx.Output", "out", "5", ""),
    )
    with pytest.raises(ModelFileError, match=r"cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)$"):
        order(operators_of(graph))  # type: ignore[operator]


def test_an_operator_that_feeds_itself() -> None:
    with pytest.raises(ModelFileError, match="cycle: loop -> loop"):
        kahn_order(operators_of(build(("nn.ReLU", "loop", "0", "0"))))


def test_random_graphs_are_sorted_topologically_and_the_same_way_every_time() -> None:
    generator = random.Random(0)
    for _ in range(50):
        count = generator.randrange(2, 40)
        lines = [
            (
                "pnnx.Expression",
                f"n{i}",
                " ".join(str(generator.randrange(i)) for _ in range(generator.randrange(0, min(i, 3) + 1))),
                str(i),
            )
            for i in range(count)
        ]
        generator.shuffle(lines)
        for order in (kahn_order, reverse_dfs_order, execution_order):
            operators = operators_of(build(*lines))
            result = order(operators)
            place = {id(operator): index for index, operator in enumerate(result)}
            assert len(place) == count
            for operator in operators:
                assert all(place[id(o.producer)] < place[id(operator)] for o in operator.input_operands_seq)
            assert names(result) == names(order(operators_of(build(*lines))))


def test_a_chain_of_many_operators_needs_no_recursion() -> None:
    count = 20_000
    lines = [("nn.ReLU", f"n{i}", str(i - 1) if i else "", str(i)) for i in range(count)]
    operators = operators_of(build(*lines))
    assert reverse_dfs_order(operators) == kahn_order(operators) == operators
