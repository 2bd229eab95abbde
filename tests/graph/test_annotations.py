"""What a file notes of its shapes, against what is inferred."""

from __future__ import annotations

import pytest

from kuiperinfer import TensorSpec, dtypes, pnnx
from kuiperinfer.graph import RuntimeGraph, annotation_mismatches
from kuiperinfer.pnnx.random_weights import fill_random_weights
from tests.small_models import CONVOLUTION, LINEAR


def graph_of(text: str) -> RuntimeGraph:
    return RuntimeGraph.from_pnnx(fill_random_weights(pnnx.read(text.encode(), weights=False)))


def test_shapes_that_agree() -> None:
    assert annotation_mismatches(graph_of(LINEAR)) == []


@pytest.mark.parametrize("wrong", ["#2=(2,5)f32", "#2=(?,5)f32", "#2=(2,3,1)f32"])
def test_shapes_that_differ(wrong: str) -> None:
    noted = wrong.removeprefix("#2=").removesuffix("f32")
    assert annotation_mismatches(graph_of(LINEAR.replace("#2=(2,3)f32", wrong))) == [
        f"operand '2' of operator 'relu' (F.relu): the file says {noted}, found (2,3)f32"
    ]


def test_free_dimensions_need_inputs() -> None:
    graph = graph_of(CONVOLUTION)
    assert annotation_mismatches(graph) == []  # nothing to compare with
    assert annotation_mismatches(graph, {"pnnx_input_0": TensorSpec((1, 3, 9, 7), dtypes.f32)}) == []
    (found,) = annotation_mismatches(graph, {"pnnx_input_0": TensorSpec((2, 3, 9, 7), dtypes.f32)})[1:2]
    assert "the file says (1,8,?,?), found (2,8,5,4)f32" in found
