"""Graphs in memory: pickled, copied, and weights made from arrays."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from kuiperinfer import dtypes, pnnx
from kuiperinfer.errors import DTypeError
from kuiperinfer.pnnx import Attribute, Graph, Operand, Operator

from .models import chain, small, weights_of


def pickled(graph: Graph) -> Graph:
    found = pickle.loads(pickle.dumps(graph))
    assert isinstance(found, Graph)
    return found


COPIES = pytest.mark.parametrize("copy_of", [pickled, copy.deepcopy, copy.copy])


@COPIES
def test_a_copy_is_the_same_graph(copy_of: Callable[[Graph], Graph]) -> None:
    graph = pnnx.read(*pnnx.to_bytes(small()))
    graph.file = "x.param"
    again = copy_of(graph)
    assert pnnx.to_bytes(again) == pnnx.to_bytes(graph)
    assert [operator.line for operator in again.operators] == [operator.line for operator in graph.operators]
    assert again.file == "x.param"
    assert list(again.operands) == list(graph.operands)
    for operator in again.operators:
        for operand in operator.outputs:
            assert operand.producer is operator
            assert again.operands[operand.name] is operand
        for operand in operator.inputs:
            assert operand.consumers.count(operator) == operator.inputs.count(operand)


@COPIES
def test_a_copy_is_independent(copy_of: Callable[[Graph], Graph]) -> None:
    graph = small()
    again = copy_of(graph)
    linear = again.operators[1]
    linear.params.clear()
    linear.attributes.clear()
    linear.input_names[0] = None
    linear.inputs[0].consumers.clear()
    linear.outputs[0].shape = None
    again.operands.clear()
    assert pnnx.to_text(graph) == pnnx.to_text(small())
    assert graph.operands["0"].consumers == [graph.operators[1]]


@COPIES
def test_weights_stay_aligned_and_read_only(copy_of: Callable[[Graph], Graph]) -> None:
    graph = small()
    again = copy_of(graph)
    assert weights_of(again) == weights_of(graph)
    for operator in again.operators:
        for attribute in operator.attributes.values():
            assert attribute.data is not None
            assert attribute.data.ctypes.data % 64 == 0
            assert not attribute.data.flags.writeable


def test_weights_are_shared_by_copies_within_a_process() -> None:
    graph = small()
    for again in (copy.deepcopy(graph), copy.copy(graph)):
        assert again.operators[1].attributes["weight"].data is graph.operators[1].attributes["weight"].data


@COPIES
def test_a_chain_of_20_000_operators(copy_of: Callable[[Graph], Graph]) -> None:
    graph = chain(20_000)
    assert pnnx.to_text(copy_of(graph)) == pnnx.to_text(graph)


@COPIES
def test_a_graph_that_is_not_whole(copy_of: Callable[[Graph], Graph]) -> None:
    stray, gone = Operand("stray"), Operator("F.relu", "gone")
    x = Operand("x", gone, [gone])
    graph = Graph([Operator("F.relu", "a", [stray, x], [x])], {"y": x})
    again = copy_of(graph)
    (operator,) = again.operators
    assert [operand.name for operand in operator.inputs] == ["stray", "x"]
    assert again.operands == {"y": operator.outputs[0]}
    assert (operator.outputs[0].producer, operator.outputs[0].consumers) == (None, [])


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_weight_of_an_array(dtype: dtypes.DType) -> None:
    array = dtypes.narrow(np.array([[1, 0], [1, 1]], dtype.compute), dtype)
    attribute = Attribute.of(array)
    assert (attribute.dtype, attribute.shape, attribute.nbytes) == (dtype, (2, 2), 4 * dtype.itemsize)
    assert attribute.data is not None
    assert attribute.data.tobytes() == array.tobytes()
    again = pickle.loads(pickle.dumps(attribute))
    assert again == attribute
    assert again.data.tobytes() == array.tobytes()
    array[...] = np.zeros((), array.dtype)
    assert attribute.data.tobytes() != array.tobytes(), "it is a copy"


def test_weights_of_odd_arrays() -> None:
    strided = np.arange(12, dtype=">f4").reshape(3, 4).T[::2]
    attribute = Attribute.of(strided)
    assert attribute.data is not None
    assert attribute.data.dtype == np.dtype(np.float32)
    assert np.array_equal(attribute.data, strided)
    assert Attribute.of(np.array(3, np.int8)).shape == ()
    assert Attribute.of(np.empty((2, 0), np.int64)).nbytes == 0
    with pytest.raises(DTypeError, match="'uint64' are not supported"):
        Attribute.of(np.ones(3, np.uint64))


def test_a_weight_of_an_array_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([[1, -2]], ml_dtypes.bfloat16)
    attribute = Attribute.of(array)
    assert attribute.dtype is dtypes.bf16
    assert attribute.data is not None
    assert dtypes.widen(attribute.data).tolist() == [[1, -2]]


def test_weights_without_data() -> None:
    for attribute in (Attribute(dtypes.f32, (2, 3)), Attribute(None, (2, 3))):
        again = pickle.loads(pickle.dumps(attribute))
        assert again == attribute
        assert again.data is None
    assert Attribute(None, (2, 3)).nbytes == 0


def test_how_parts_are_shown() -> None:
    graph = small()
    assert repr(graph.operators[1]) == "Operator('nn.Linear', 'fc')"
    assert repr(graph.operands["0"]) == "Operand('0')"
