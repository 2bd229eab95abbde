"""What is known beforehand is calculated beforehand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer.runtime.session import Session
from kuiperinfer.runtime.team import team
from tests.codegen.running import check_graph, compile_graph, graph_of, kernels, random
from tests.passes.running import check_passes


def constant(name, data):
    return ("pnnx.Attribute", name, "", name, {}, {"data": data})


def test_expressions_of_constants_become_one():
    lines = [
        constant("a", random(4, 1)),
        constant("b", random(5)),
        ("pnnx.Expression", "sum", "a b", "s", {"expr": "add(mul(@0,2.0),@1)"}),
        ("torch.transpose", "t", "s", "st", {"dim0": 0, "dim1": 1}),
        ("torch.matmul", "product", "x0 st", "y0"),
    ]
    assert check_passes([random(3, 5)], lines, ["y0"]) == ["pnnx.Attribute", "torch.matmul"]
    assert kernels(check_graph([random(3, 5)], lines, ["y0"])) == ["MatrixProductSpec"]


def test_what_makes_its_own_numbers():
    lines = [
        ("torch.arange", "range", "", "r", {"start": 0, "end": 6, "step": 1, "dtype": "torch.float"}),
        ("torch.ones", "ones", "", "o", {"size": (2, 6), "dtype": "torch.float"}),
        ("pnnx.Expression", "add", "x0 r o", "y0", {"expr": "add(mul(@0,@1),@2)"}),
    ]
    left = check_passes([random(2, 6)], lines, ["y0"])
    assert "torch.arange" not in left
    assert "torch.ones" not in left


def test_lists_and_several_outputs():
    lines = [
        constant("a", random(4, 6)),
        ("torch.chunk", "chunk", "a", "b c", {"chunks": 2, "dim": 1}),
        ("torch.cat", "cat", "c b", "d", {"dim": 1}),
        ("pnnx.Expression", "add", "x0 d b", "y0", {"expr": "add(@0,@1)"}),
    ]
    left = check_passes([random(4, 6)], lines, ["y0"])
    assert set(left) == {"pnnx.Attribute", "pnnx.Expression"}


def test_shapes_are_known_too():
    lines = [
        ("Tensor.size", "size", "x0", "n", {"dim": 1}),
        ("torch.arange", "range", "n", "r", {"dtype": "torch.float"}),
        ("pnnx.Expression", "add", "x0 r", "y0", {"expr": "add(@0,@1)"}),
    ]
    assert "torch.arange" not in check_passes([random(2, 6)], lines, ["y0"])


def test_constants_that_are_outputs():
    lines = [constant("a", random(4)), ("pnnx.Expression", "neg", "a", "b", {"expr": "neg(@0)"})]
    lines.append(("nn.ReLU", "relu", "x0", "y0"))
    check_passes([random(3)], lines, ["y0", "b"])
    check_graph([random(3)], lines, ["y0", "b"])


def test_large_results_are_not_kept():
    lines = [
        ("torch.ones", "ones", "", "o", {"size": (17, 1 << 20), "dtype": "torch.float"}),
        ("torch.sum", "sum", "o", "s", {"dim": (1,), "keepdim": False}),
        ("pnnx.Expression", "add", "x0 s", "y0", {"expr": "add(@0,@1)"}),
    ]
    assert "torch.ones" in check_passes([random(17)], lines, ["y0"])


def test_nothing_of_an_input_is_folded():
    assert check_passes([random(3, 4)], [("torch.flip", "flip", "x0", "y0", {"dims": (0,)})], ["y0"]) == ["torch.flip"]


def test_tensors_like_an_input():
    lines = [
        ("torch.ones_like", "ones", "x0", "o"),
        ("torch.full_like", "full", "x0", "f", {"fill_value": 2.5}),
        ("Tensor.new_zeros", "zeros", "x0", "z", {"size": (4,)}),
        ("pnnx.Expression", "add", "x0 o f z", "y0", {"expr": "add(add(@0,@1),mul(@2,@3))"}),
    ]
    assert set(check_passes([random(3, 4)], lines, ["y0"])) == {"pnnx.Attribute", "pnnx.Expression"}


def test_random_numbers_are_drawn_in_every_run():
    graph = graph_of(
        [random(3)], [("torch.rand", "draw", "", "y0", {"size": (5,)}), ("nn.ReLU", "r", "x0", "y1")], ["y0", "y1"]
    )
    plan = compile_graph(graph, [random(3)])
    session = Session(plan, 1)
    first, second = (session.run([random(3)], team())[0] for _ in range(2))
    assert not np.array_equal(first, second)


def test_constants_tell_shapes_that_hang_on_data():
    lines = [
        constant("a", np.arange(6, dtype=np.float32)),
        ("torch.gt", "positive", "a", "m", {"other": 2.0}),
        ("torch.masked_select", "some", "a m", "s"),
        ("torch.sum", "sum", "s", "t", {"keepdim": False}),
        ("pnnx.Expression", "add", "x0 t", "y0", {"expr": "add(@0,@1)"}),
    ]
    assert check_passes([random(3)], lines, ["y0"]) == ["pnnx.Attribute", "pnnx.Expression"]
    assert kernels(check_graph([random(3)], lines, ["y0"])) == ["MapSpec"]


@given(st.data())
@settings(max_examples=40)
def test_random_graphs(data):
    """Constants and an input, which expressions, permutations and joins mix in any way."""
    names, lines = ["x0"], []
    for number in range(data.draw(st.integers(1, 8))):
        target = f"v{number}"
        kind = data.draw(st.sampled_from(["constant", "constant", "add", "neg", "transpose", "chunk", "ones"]))
        a, b = (data.draw(st.sampled_from(names)) for _ in range(2))
        if kind == "constant":
            lines.append(constant(target, random(4, 4, seed=number)))
        elif kind == "add":
            lines.append(("pnnx.Expression", f"o{number}", f"{a} {b}", target, {"expr": "add(@0,mul(@1,0.5))"}))
        elif kind == "neg":
            lines.append(("torch.neg", f"o{number}", a, target))
        elif kind == "transpose":
            lines.append(("torch.transpose", f"o{number}", a, target, {"dim0": 0, "dim1": 1}))
        elif kind == "ones":
            lines.append(("torch.ones_like", f"o{number}", a, target))
        else:
            lines.append(("torch.chunk", f"o{number}", a, f"p{number} q{number}", {"chunks": 2, "dim": 0}))
            lines.append(("torch.cat", f"c{number}", f"q{number} p{number}", target, {"dim": 0}))
        names.append(target)
    outputs = data.draw(st.lists(st.sampled_from(names[1:]), min_size=1, max_size=3, unique=True))
    check_passes([random(4, 4)], lines, outputs, data.draw(st.sampled_from(["", "fold_constants"])))
