"""Selections that move before what calculates each index by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer.dtypes import TensorSpec
from kuiperinfer.graph import infer_shapes
from tests.codegen.running import check_graph, graph_of, random
from tests.passes.running import check_passes, run_passes

SIZE = 8


def linear(source, target, name, size=SIZE):
    weights = {"weight": random(size, SIZE, seed=len(name)), "bias": random(size)}
    return ("nn.Linear", name, source, target, {"in_features": SIZE, "out_features": size, "bias": True}, weights)


def layer_norm(source, target, name):
    weights = {"weight": random(SIZE, seed=2), "bias": random(SIZE, seed=3)}
    return ("nn.LayerNorm", name, source, target, {"normalized_shape": (SIZE,)}, weights)


def attention(source, target, name, **params):
    weights = {
        "in_proj_weight": random(3 * SIZE, SIZE, seed=4),
        "in_proj_bias": random(3 * SIZE, seed=5),
        "out_proj.weight": random(SIZE, SIZE, seed=6),
        "out_proj.bias": random(SIZE, seed=7),
    }
    given = {"embed_dim": SIZE, "num_heads": 2, "bias": True, "batch_first": True, **params}
    return ("nn.MultiheadAttention", name, source, target, given, weights)


def select(source, target, dim=1, index=0):
    return ("Tensor.select", "select", source, target, {"dim": dim, "index": index})


def add(a, b, target, name):
    return ("pnnx.Expression", name, f"{a} {b}", target, {"expr": "add(@0,@1)"})


def block(source, target, name):
    """A transformer's block."""
    return [
        layer_norm(source, f"{name}a", f"{name}n1"),
        attention(f"{name}a", f"{name}b", f"{name}att"),
        add(f"{name}b", source, f"{name}c", f"{name}add1"),
        layer_norm(f"{name}c", f"{name}d", f"{name}n2"),
        linear(f"{name}d", f"{name}e", f"{name}l1"),
        ("nn.GELU", f"{name}gelu", f"{name}e", f"{name}f"),
        linear(f"{name}f", f"{name}g", f"{name}l2"),
        add(f"{name}c", f"{name}g", target, f"{name}add2"),
    ]


def shapes(inputs, lines, outputs):
    """The shape that each operator's output has after the passes."""
    graph = graph_of(inputs, lines, outputs)
    operators = run_passes(graph, inputs, "fuse_epilogue")
    specs = infer_shapes(
        operators, {o.name: TensorSpec.of(x) for o, x in zip(graph.input_operators, inputs, strict=True)}
    )
    return {o.name: specs[o.output_operands[0]].shape for o in operators if o.output_operands}


@pytest.mark.parametrize("index", [0, 3, -1])
def test_the_last_block_of_a_transformer(index):
    lines = [
        *block("x0", "h", "one"),
        *block("h", "i", "two"),
        layer_norm("i", "j", "norm"),
        select("j", "k", index=index),
        linear("k", "y0", "head", 5),
    ]
    inputs = [random(2, 6, SIZE)]
    check_passes(inputs, lines, ["y0"])
    found = shapes(inputs, lines, ["y0"])
    assert found["onel2"] == (2, 6, SIZE)
    assert found["twoatt"] == found["twol1"] == found["twol2"] == found["norm"] == (2, 1, SIZE)
    check_graph(inputs, lines, ["y0"])


def test_attention_with_the_sequence_first():
    lines = [attention("x0", "h", "att", batch_first=False), select("h", "y0", dim=0, index=2)]
    inputs = [random(6, 2, SIZE)]
    check_passes(inputs, lines, ["y0"])
    assert shapes(inputs, lines, ["y0"])["att"] == (1, 2, SIZE)


def test_what_is_needed_as_a_whole_stays():
    lines = [linear("x0", "h", "lin"), select("h", "y0")]
    inputs = [random(2, 6, SIZE)]
    check_passes(inputs, lines, ["y0", "h"])
    assert shapes(inputs, lines, ["y0", "h"])["lin"] == (2, 6, SIZE)
    lines = [linear("x0", "h", "lin"), select("h", "y0", dim=2)]  # of one row all is needed
    check_passes(inputs, lines, ["y0"])
    assert shapes(inputs, lines, ["y0"])["lin"] == (2, 6, SIZE)
    lines = [attention("x0", "h", "att"), select("h", "y0", dim=0)]  # the batch
    check_passes(inputs, lines, ["y0"])
    assert shapes(inputs, lines, ["y0"])["att"] == (2, 6, SIZE)


def test_cheap_operators_are_left_alone():
    lines = [("nn.ReLU", "relu", "x0", "h"), select("h", "y0")]
    assert check_passes([random(2, 6, SIZE)], lines, ["y0"]) == ["nn.ReLU", "Tensor.select"]


def test_operands_that_are_broadcast():
    lines = [linear("x0", "h", "lin"), add("h", "x1", "i", "add"), select("i", "y0", index=4)]
    for shape in ((6, SIZE), (1, 6, SIZE), (SIZE,), (1, SIZE), (2, 1, 1), (6, 1)):
        check_passes([random(2, 6, SIZE), random(*shape)], lines, ["y0"])


@given(st.data())
@settings(max_examples=40)
def test_random_graphs(data):
    """Rows that are multiplied, normalised, added and attended to in any order, some of them used again."""
    names, lines = ["x0"], []
    for number in range(data.draw(st.integers(1, 8))):
        source, target = data.draw(st.sampled_from(names[-3:])), f"v{number}"
        kind = data.draw(st.sampled_from(["linear", "norm", "add", "relu", "attention"]))
        if kind == "linear":
            lines.append(linear(source, target, f"l{number}"))
        elif kind == "norm":
            lines.append(layer_norm(source, target, f"n{number}"))
        elif kind == "add":
            lines.append(add(source, data.draw(st.sampled_from(names)), target, f"a{number}"))
        elif kind == "relu":
            lines.append(("nn.ReLU", f"r{number}", source, target))
        else:
            lines.append(attention(source, target, f"m{number}"))
        names.append(target)
    lines.append(select(names[-1], "y0", data.draw(st.integers(0, 2)), data.draw(st.integers(-2, 1))))
    outputs = ["y0", *data.draw(st.lists(st.sampled_from(names[1:]), max_size=1))]
    off = data.draw(st.sampled_from(["", "select_early"]))
    check_passes([random(2, 4, SIZE)], lines, outputs, off, tolerance=1e-4)
