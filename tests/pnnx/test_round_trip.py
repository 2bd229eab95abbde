"""What is written reads back the same, and what was read is written back byte for byte."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kuiperinfer import dtypes, pnnx
from kuiperinfer.errors import KuiperError
from kuiperinfer.pnnx import Attribute, Graph, Operand

from .models import add, small, weights_of

# ------------------------------------------------------------------------------------------- real models

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("KUIPER_SHARED") or CHECKOUT.parent / "shared")
MODELS = sorted(SHARED.glob("conformance/*/*.pnnx.param")) + sorted(SHARED.glob("models/*/*.pnnx.param"))
without_models = pytest.mark.skipif(not MODELS, reason=f"no models in {SHARED}; name their folder in KUIPER_SHARED")


@without_models
def test_real_models_come_out_byte_for_byte() -> None:
    different = []
    for path in MODELS:
        graph = pnnx.read(path)
        param, archive = pnnx.to_bytes(graph)
        same = param == path.read_bytes() and archive == Path(f"{str(path)[:-6]}.bin").read_bytes()
        if not same:
            different.append(path.parent.name)
        for operator in graph.operators:
            for parameter in operator.params.values():
                assert pnnx.parse_parameter(parameter.text) == parameter or parameter.value != parameter.value
    assert different == []


@without_models
def test_values_of_real_models_are_spelt_as_the_converter_spells_them() -> None:
    different = set()
    for path in MODELS:
        for operator in pnnx.read(path, weights=False).operators:
            for key, parameter in operator.params.items():
                if key != "expr" and pnnx.parameter(parameter.value).text != parameter.text:
                    different.add(f"{key}={parameter.text}")
    assert different == set()


@without_models
def test_names_with_odd_characters() -> None:
    folder = SHARED / "conformance" / "edge_names"
    names = {operator.name for operator in pnnx.read(folder / "model.pnnx.param").operators}
    assert {"a.x-y", "a.a/b.lin", "a.p:q", "a.x=1", "a.0"} <= names


# ------------------------------------------------------------------------------------------- made-up models

BLANK = {*map(chr, range(33)), "\x7f"}
WORDS = st.text(st.characters(exclude_characters=BLANK, exclude_categories=("Cs",)), min_size=1, max_size=6)
KEYS = WORDS.map(lambda word: word.replace("=", "_"))
NAMES = KEYS.map(lambda word: word.lstrip("@#$") or "x")
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(width=32)
    | st.lists(st.integers(-9, 9) | st.floats(width=32), max_size=4)
    | st.sampled_from(["zeros", "torch.float", "ij,jk->ik", "add(@0,1)", "[[1,2],[3]]", "a=b", "", "%x", 1 - 2j])
)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
ANNOTATIONS = st.none() | st.lists(st.none() | st.integers(0, 10**6), max_size=2).map(tuple)
DTYPES = st.sampled_from(dtypes.ALL)


@st.composite
def arrays(draw: st.DrawFn) -> Attribute:
    dtype, shape = draw(DTYPES), draw(SHAPES)
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    content = np.frombuffer(draw(st.randoms(use_true_random=False)).randbytes(size), np.uint8)
    if dtype is dtypes.bool_:
        content = content & 1
    return Attribute.of(content.view(dtype.storage).reshape(shape))


ATTRIBUTES = arrays() | SHAPES.map(lambda shape: Attribute(None, shape))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph()
    operands: list[Operand] = []
    for name in draw(st.lists(WORDS, unique=True, min_size=1, max_size=5)):
        kind = draw(st.sampled_from(["pnnx.Input", "nn.Linear", "aten::x", "models.Detect", "é"]))
        inputs = draw(st.lists(st.sampled_from(operands), max_size=4)) if operands and kind != "pnnx.Input" else []
        keys = draw(st.lists(KEYS, unique=True, min_size=len(inputs), max_size=len(inputs)))
        names = [draw(st.sampled_from([None, key])) for key in keys]
        for index, operand in enumerate(inputs):  # a name goes to the first use of its operand that has none
            if any(names[earlier] is None for earlier in range(index) if inputs[earlier] is operand):
                names[index] = None
        new = add(
            graph,
            kind,
            name,
            inputs,
            1 if kind == "pnnx.Input" else draw(st.integers(0, 3)),
            input_names=names,
            params={
                key: pnnx.parameter(value) for key, value in draw(st.dictionaries(NAMES, VALUES, max_size=3)).items()
            },
            # No points: "a" with the weight "b.c" and "a.b" with the weight "c" would have one name.
            attributes={k.replace(".", "_"): v for k, v in draw(st.dictionaries(KEYS, ATTRIBUTES, max_size=2)).items()},
        )
        for operand in new:
            operand.shape = draw(ANNOTATIONS)
            operand.dtype = draw(st.none() | DTYPES) if operand.shape is not None else None
        operands += new
    if not operands:
        operands = add(graph, "pnnx.Input", "in-put", [])
    for number, operand in enumerate(draw(st.lists(st.sampled_from(operands), min_size=1, max_size=2))):
        add(graph, "pnnx.Output", f"out-put-{number}", [operand], 0)
    return graph


def shape_of(graph: Graph) -> list[Any]:
    """Everything that a graph says, as plain values."""
    return [
        (o.type, o.name, [i.name for i in o.inputs], [i.name for i in o.outputs], o.input_names, repr(sorted(o.params.items())))
        for o in graph.operators
    ] + [(name, o.shape, o.dtype, len(o.consumers)) for name, o in graph.operands.items()]  # fmt: skip


@given(graphs())
@hypothesis_settings(deadline=None)
def test_any_graph_is_written_and_read_again(graph: Graph) -> None:
    param, archive = pnnx.to_bytes(graph)
    again = pnnx.read(param, archive)
    assert shape_of(again) == shape_of(graph)
    assert weights_of(again) == weights_of(graph)
    assert pnnx.to_bytes(again) == (param, archive)


# ------------------------------------------------------------------------------------------- damaged models

SMALL = pnnx.to_bytes(small())
PIECES = [
    *"=@#$(),?%.-+0129eEj_ \n\t\r\0",
    "7767517",
    "nan",
    "inf",
    "None",
    "f32",
    "bool",
    "null",
    "é",
    "\ud7ff",
    "9" * 700,
]


def mutate(text: str, chance: random.Random) -> str:
    """The text with some words, lines or characters lost, doubled, exchanged or made up."""
    for _ in range(chance.randint(1, 3)):
        separator = chance.choice(["", " ", "\n"])
        parts = list(text) if separator == "" else text.split(separator)
        first, second = chance.randrange(len(parts)), chance.randrange(len(parts))
        action = chance.randrange(5)
        if action == 0:
            del parts[first]
        elif action == 1:
            parts.insert(second, parts[first])
        elif action == 2:
            parts[first], parts[second] = parts[second], parts[first]
        elif action == 3:
            parts[first] = chance.choice(PIECES)
        else:
            parts.insert(first, chance.choice(PIECES))
        text = separator.join(parts) or "x"
    return text


@given(st.randoms(use_true_random=True))
@hypothesis_settings(max_examples=500, deadline=None)
def test_damaged_text_is_read_or_refused_but_nothing_else(chance: random.Random) -> None:
    text = mutate(SMALL[0].decode(), chance)
    try:
        graph = pnnx.read(text.encode(), SMALL[1])
    except KuiperError:
        return
    again = pnnx.read(*pnnx.to_bytes(graph))
    assert shape_of(again) == shape_of(graph)
    assert weights_of(again) == weights_of(graph)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"7767517\n1 1\n" + tail))
def test_any_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(KuiperError):
        pnnx.read(content, weights=False)


@given(st.binary(max_size=200), st.integers(0, len(SMALL[1])), st.integers(0, len(SMALL[1])))
def test_spliced_archives_are_refused(middle: bytes, begin: int, end: int) -> None:
    archive = SMALL[1][:begin] + middle + SMALL[1][end:]
    try:
        graph = pnnx.read(SMALL[0], archive)
    except KuiperError:
        return
    assert weights_of(graph) == weights_of(small())
