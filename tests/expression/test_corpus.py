"""Expressions of real models; they lie outside of the repository, and the tests are skipped where they are not found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kuiperinfer.dtypes import TensorSpec, dtype_of, widen
from kuiperinfer.expression import evaluate, infer, operands, parse

_SHARED = Path(os.environ.get("KUIPER_SHARED") or Path(__file__).parents[3] / "shared")
PARAM_FILES = sorted(_SHARED.glob("*/*/*.pnnx.param"))

needs_corpus = pytest.mark.skipif(not PARAM_FILES, reason="set KUIPER_SHARED to the folder of models")


def expressions() -> Iterator[tuple[Path, str, int]]:
    """File, text and number of operands of every expression."""
    for path in PARAM_FILES:
        for line in path.read_text().splitlines()[2:]:
            kind, _, inputs, _, *rest = line.split()
            for token in rest:
                if token.startswith("expr="):
                    yield path, token[5:], 0 if kind == "Tensor.index" else int(inputs)


@needs_corpus
def test_every_expression_is_read() -> None:
    damaged = 0
    for path, text, count in expressions():
        tree = parse(text, operand_count=count)
        assert operands(tree) == tuple(range(count)), path
        assert parse(str(tree)) == tree
        damaged += str(tree) != text
        assert str(tree) == text or "expm1" in text or "log1p" in text, path  # what the converter damages
    assert damaged >= 6


# Models of inputs, expressions and outputs alone.
@needs_corpus
@pytest.mark.parametrize("name", ["edge_expr_polish", "edge_int_math", "edge_alpha"])
def test_models_that_are_nothing_but_expressions(name: str) -> None:
    folder = _SHARED / "conformance" / name
    given, expected = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    values: dict[str, np.ndarray] = {}
    outputs: list[str] = []
    for line in (folder / "model.pnnx.param").read_text().splitlines()[2:]:
        kind, _, input_count, output_count, *rest = line.split()
        inputs, results = rest[: int(input_count)], rest[int(input_count) : int(input_count) + int(output_count)]
        if kind == "pnnx.Input":
            values[results[0]] = given[f"in{len(values)}"]
        elif kind == "pnnx.Expression":
            tree = parse(next(token[5:] for token in rest if token.startswith("expr=")))
            values[results[0]] = evaluate(tree, [values[name] for name in inputs])
            assert infer(tree, [TensorSpec.of(values[name]).like() for name in inputs]) == TensorSpec.of(
                values[results[0]]
            )
        elif kind == "prim::TupleConstruct":
            outputs = inputs
    assert outputs
    for index, output in enumerate(outputs):
        assert dtype_of(values[output]) is dtype_of(expected[f"out{index}"])
        np.testing.assert_allclose(widen(values[output]), expected[f"out{index}"], rtol=1e-6, atol=1e-7)
