"""Constants of the file that stand in place of parameters, as left-over operators and little optimised models have them."""

from __future__ import annotations

import numpy as np
import pytest

from kuiperinfer import RuntimeGraph
from kuiperinfer.errors import ModelFileError
from kuiperinfer.layers.extremum import Max
from kuiperinfer.layers.ordering import Sort

from .build import build


def constant(name: str, output: str, expression: str) -> tuple[str, str, str, str, dict[str, str]]:
    return ("pnnx.Expression", name, "", output, {"expr": expression})


def test_left_over_operators_have_their_parameters_as_inputs() -> None:
    graph = RuntimeGraph.from_pnnx(
        build(
            ("pnnx.Input", "in", "", "x", {}, {}, (2, 3)),
            constant("dim", "d", "0"),
            constant("descending", "e", "True"),
            ("aten::sort", "sort", "x d e", "values indices"),
            ("pnnx.Output", "out", "values", ""),
            ("pnnx.Output", "out1", "indices", ""),
        )
    )
    sort = next(operator.layer for operator in graph.operators if operator.name == "sort")
    assert isinstance(sort, Sort)
    assert (sort.dim, sort.descending) == (0, True)
    graph.set_inputs("in", np.array([[1, 5, 3], [2, 4, 3]], np.float32))
    graph.forward()
    assert graph.get_outputs("out")[0].tolist() == [[2, 5, 3], [1, 4, 3]]
    assert graph.get_outputs("out1")[0].tolist() == [[1, 0, 0], [0, 1, 1]]


def test_named_inputs_that_are_constants_become_parameters() -> None:
    source = build(
        ("pnnx.Input", "in", "", "x", {}, {}, (2, 3)),
        ("prim::Constant", "dim", "", "d", {"value": 1}),
        ("torch.max", "max", "x d", "values", {"keepdim": True}),
        ("pnnx.Output", "out", "values", ""),
    )
    source.operators[2].input_names = ["input", "dim"]
    layer = next(operator.layer for operator in RuntimeGraph.from_pnnx(source).operators if operator.name == "max")
    assert isinstance(layer, Max)
    assert (layer.dim, layer.keepdim) == (1, True)


def test_inputs_that_are_calculated_cannot_be_parameters() -> None:
    source = build(
        ("pnnx.Input", "in", "", "x", {}, {}, (2, 3)),
        ("pnnx.Expression", "dim", "x", "d", {"expr": "size(@0,0)"}),
        ("torch.sum", "sum", "x d", "y"),
        ("pnnx.Output", "out", "y", ""),
    )
    source.operators[2].input_names = ["input", "dim"]
    with pytest.raises(ModelFileError, match="input 'dim' is unknown"):
        RuntimeGraph.from_pnnx(source)
