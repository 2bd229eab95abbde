"""What is known beforehand is calculated beforehand."""

from tests.codegen.running import check_graph, kernels, random
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
