"""The law of a graph between passes: structure, order, shapes and dtypes. Broken, it is a mistake of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator, infer_shapes
from .rewriting import Specs


def verify(operators: Sequence[RuntimeOperator], specs: Specs, inputs: Mapping[str, TensorSpec], after: str) -> None:
    """Raises `AssertionError`, naming the pass, where links, order or specs of the graph do not agree."""
    made: set[RuntimeOperand] = set()
    uses: Counter[tuple[RuntimeOperand, RuntimeOperator]] = Counter()
    for operator in operators:
        for operand in operator.input_operands_seq:
            assert operand in made, f"after {after}: {operator} uses {operand} before it is made"
            uses[operand, operator] += 1
        for operand in operator.output_operands:
            assert operand.producer is operator, f"after {after}: {operand} has another producer than {operator}"
            assert operand not in made, f"after {after}: {operand} is made twice"
            made.add(operand)
    for operand in made:
        for consumer, count in Counter(operand.consumers).items():
            assert uses[operand, consumer] == count, (
                f"after {after}: {operand} and {consumer} disagree about their link"
            )
    inferred = infer_shapes(operators, inputs)
    for operand, spec in inferred.items():
        assert operand in specs and specs[operand] == spec, (
            f"after {after}: {operand} is {spec}, noted as {specs.get(operand)}"
        )
