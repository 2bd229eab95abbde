"""The tree: printing, equality, walking, and any depth."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings

from kuiperinfer.errors import ExpressionError
from kuiperinfer.expression import (
    Call,
    Expression,
    ListNode,
    Literal,
    Operand,
    evaluate,
    infer,
    operands,
    parse,
    reverse_polish,
    substitute,
)
from tests.expression.trees import trees


def labels(tree: Expression) -> list[object]:
    """Reverse Polish order as the course writes it."""
    return [
        node.index if isinstance(node, Operand) else node.function.capitalize() if isinstance(node, Call) else str(node)
        for node in reverse_polish(tree)
    ]


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("add(@0,add(@1,@2))", [0, 1, 2, "Add", "Add"]),
        ("add(@0,add(@1,add(@3,mul(@4,@5))))", [0, 1, 3, 4, 5, "Mul", "Add", "Add", "Add"]),
        ("mul(@1,sin(@0))", [1, 0, "Sin", "Mul"]),
        ("sub(2,@0)", ["2", 0, "Sub"]),
        ("add(@0,@0)", [0, 0, "Add"]),
    ],
)
def test_reverse_polish_order(text: str, order: list[object]) -> None:
    assert labels(parse(text)) == order


def test_the_tree_of_the_course() -> None:
    tree = parse("add(sin(@0),@1)")
    assert isinstance(tree, Call)
    assert tree.function == "add"
    left, right = tree.arguments
    assert left == Call("sin", (Operand(0),))
    assert right == Operand(1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (-3, "-3"),
        (True, "True"),
        (None, "None"),
        ("torch.float", "torch.float"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (2.0, "2.0"),
        (0.5, "0.5"),
        (-1.7, "-1.7"),
        (1.19999993, "1.19999993"),
        (0.408248305, "0.408248305"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1 / 3, "0.33333333333333331"),
        (0.0001, "0.0001"),
        (0.000123456789, "1.23456789e-4"),
        (0.00012345678901234567, "1.2345678901234567e-4"),
        (1e-5, "1.000000e-5"),
        (9.99999975e-5, "9.99999975e-5"),
        (1e-30, "1.000000e-30"),
        (999999.0, "999999.0"),
        (999999.5, "999999.5"),
        (1e6, "1.000000e6"),
        (16777216.0, "1.67772160e7"),
        (-1e20, "-1.000000e20"),
        (5e-324, "4.940656e-324"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan.0"),
        (1 - 2.5j, "1.000000e+00-2.500000e+00j"),
        (1e-7j, "0.000000e+00+1.000000e-07j"),
        (complex(1 / 3, -0.0), "3.3333333333333331e-01-0.000000e+00j"),
    ],
)
def test_values_print_as_the_converter_writes_them(value: object, text: str) -> None:
    literal = Literal(value)  # type: ignore[arg-type]
    assert str(literal) == text
    assert parse(text) == literal


def test_trees_print_without_blanks() -> None:
    tree = Call("add", (Operand(0), Call("mul", (Operand(1), Literal(2.5)))))
    assert str(tree) == "add(@0,mul(@1,2.5))"
    assert repr(tree) == "Call<add(@0,mul(@1,2.5))>"
    assert str(ListNode((ListNode(()), Literal(None), Operand(3)))) == "[[],None,@3]"


@given(trees)
@settings(max_examples=300)
def test_what_is_printed_reads_back(tree: Expression) -> None:
    again = parse(str(tree))
    assert again == tree
    assert hash(again) == hash(tree)
    assert str(again) == str(tree)


def test_equality_sees_types_and_bits() -> None:
    different = [Literal(v) for v in (1, 1.0, True, 1 + 0j, 0, 0.0, -0.0, False, None, math.nan, math.inf)]
    assert len(set(different)) == len(different)
    assert Literal(math.nan) == Literal(float("nan"))
    assert parse("add(@0,@1)") != parse("add(@1,@0)")
    assert parse("max(@0,@1)") != parse("maximum(@0,@1)")
    assert parse("[@0]") != parse("[[@0]]")
    assert Operand(0) != 0


def test_nodes_are_immutable_and_travel() -> None:
    tree = parse("[add(@0,mul(2.5,@1)),None,a]")
    with pytest.raises(FrozenInstanceError):
        tree.items = ()  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert copy.deepcopy(tree) == tree


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Call("addd", (Operand(0), Operand(1))), "no function 'addd'; did you mean 'add'"),
        (lambda: Call("add", (Operand(0),)), "'add' takes 2 arguments, found 1"),
        (lambda: Call("neg", (ListNode(()),)), "cannot be an argument of 'neg'"),
        (lambda: Call("neg", (Literal("a"),)), "cannot be an argument of 'neg'"),
        (lambda: Literal(2**63), "64 bits"),
        (lambda: Literal("a b"), "one word"),
        (lambda: Literal("1.5"), "one word"),
        (lambda: Literal(""), "one word"),
        (lambda: Literal("a@b"), "one word"),
    ],
)
def test_what_could_not_be_written_is_refused(make: object, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        make()  # type: ignore[operator]


def test_operands_and_substitution() -> None:
    tree = parse("[add(@3,mul(@1,@3)),size(@0,1),2]")
    assert operands(tree) == (0, 1, 3)
    assert operands(Literal(1)) == ()
    swapped = substitute(tree, {1: Operand(3), 3: parse("neg(@1)")})
    assert str(swapped) == "[add(neg(@1),mul(@3,neg(@1))),size(@0,1),2]"
    assert str(substitute(parse("add(@0,@1)"), [Literal(7)])) == "add(7,@1)"


def test_depth() -> None:
    assert [parse(text).depth for text in ("@0", "2", "neg(@0)", "[]", "[add(@0,neg(1))]")] == [0, 0, 1, 0, 3]


def test_no_depth_is_too_deep_for_a_tree() -> None:
    def grow() -> Expression:
        tree: Expression = Operand(0)
        for _ in range(30_000):
            tree = Call("neg", (tree,))
        return tree

    tree, other = grow(), grow()
    assert tree == other
    assert tree != other.children[0]
    assert len({tree, other}) == 1
    assert str(tree).startswith("neg(neg(")
    assert len(reverse_polish(tree)) == 30_001
    assert operands(tree) == (0,)
    assert substitute(tree, [Literal(3)]).depth == 30_000
    assert evaluate(tree, [5]) == 5
    assert infer(tree, [5]) == 5
    assert repr(tree).endswith("…>")


def test_shared_subtrees_are_visited_once() -> None:
    def double(times: int) -> Expression:
        tree: Expression = Operand(0)
        for _ in range(times):
            tree = Call("add", (tree, tree))
        return tree

    assert evaluate(double(62), [1]) == 2**62
    assert double(2_000) == double(2_000)
    assert operands(double(2_000)) == (0,)
    assert evaluate(double(2_000), [0.0]) == 0.0
    with pytest.raises(ExpressionError, match="'@0' is out of range"):
        evaluate(double(2_000), [])
