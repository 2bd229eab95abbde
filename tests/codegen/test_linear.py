"""Matrix products against their reference."""

import numpy as np
import pytest

from kuiperinfer.codegen.epilogue import MatrixEpilogue
from kuiperinfer.codegen.kernels.matrix_product import MatrixProductSpec, pack_panels
from kuiperinfer.codegen.layout import Matrix
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS, aligned, compile_specs
from tests.codegen.running import assert_close, check_graph, check_operator, kernels, random

# rows, depth, columns: around lane counts and tiles, and one large enough for several tasks
SIZES = [
    (1, 1, 1),
    (1, 7, 10),
    (1, 130, 65),
    (2, 3, 4),
    (3, 16, 8),
    (4, 33, 17),
    (5, 5, 33),
    (7, 64, 31),
    (13, 12, 48),
    (15, 9, 64),
    (29, 40, 70),
    (50, 64, 96),
    (97, 128, 130),
]


def linear(rows, depth, columns, *, bias=True, stack=(), dtype=np.float32):
    weights = {"weight": random(columns, depth).astype(dtype)}
    if bias:
        weights["bias"] = random(columns, seed=1).astype(dtype)
    params = {"in_features": depth, "out_features": columns, "bias": bias}
    return [random(*stack, rows, depth, seed=2)], params, weights


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_linear(size):
    plan = check_operator("nn.Linear", *linear(*size))
    assert kernels(plan) == ["MatrixProductSpec"]


def test_linear_without_bias_and_of_stacks():
    check_operator("nn.Linear", *linear(9, 20, 35, bias=False))
    check_operator("nn.Linear", *linear(9, 20, 35, stack=(2, 3)))
    check_operator("nn.Linear", *linear(1, 20, 35, stack=(5,)))
    check_operator("nn.Linear", *linear(6, 20, 1, stack=(5,)))
    check_operator("nn.Linear", *linear(6, 20, 1, stack=(5,), bias=False))


def test_linear_of_a_vector():
    _, params, weights = linear(1, 20, 35)
    check_operator("nn.Linear", [random(20)], params, weights)


def test_half_precision_weights_are_widened():
    plan = check_operator("nn.Linear", *linear(6, 20, 35, dtype=np.float16))
    assert kernels(plan) == ["MatrixProductSpec"]


def test_weights_that_are_inputs():
    for inputs in (
        [random(9, 20), random(35, 20)],
        [random(9, 20), random(35, 20), random(35)],
        [random(9, 20), random(20)],
        [random(20), random(35, 20)],
        [random(2, 3, 20), random(35, 20), random(35)],
        [random(4, 20), random(35, 20), random(4, 35)],
        [random(4, 20), random(35, 20), random(1)],
    ):
        check_operator("F.linear", inputs)


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 7), (7, 9)),
        ((40, 33), (33, 50)),
        ((7,), (7,)),
        ((7,), (7, 20)),
        ((30, 7), (7,)),
        ((3, 30, 7), (7,)),
        ((7,), (3, 7, 20)),
        ((3, 5, 7), (7, 20)),
        ((3, 5, 7), (3, 7, 20)),
        ((3, 1, 7), (3, 7, 20)),
        ((1, 5, 7), (3, 7, 20)),
        ((3, 5, 7), (1, 7, 20)),
        ((2, 1, 5, 7), (3, 7, 20)),
        ((2, 3, 35, 18), (2, 3, 18, 40)),
        ((4, 5, 7), (4, 7, 1)),
        ((4, 1, 7), (4, 7, 1)),
    ],
    ids=str,
)
def test_matmul(shapes):
    plan = check_operator("torch.matmul", [random(*shape, seed=i) for i, shape in enumerate(shapes)])
    assert kernels(plan) == ["MatrixProductSpec"]


def test_named_products():
    check_operator("torch.mm", [random(9, 20), random(20, 35)])
    check_operator("torch.bmm", [random(4, 9, 20), random(4, 20, 35)])
    check_operator("torch.mv", [random(9, 20), random(20)])


@pytest.mark.parametrize("factors", [{}, {"alpha": 0.3}, {"beta": 0.7}, {"alpha": 2, "beta": 3}, {"beta": 0}], ids=str)
@pytest.mark.parametrize("added", [(), (1,), (35,), (9, 1), (1, 35), (9, 35)], ids=str)
def test_added_products(added, factors):
    check_operator("torch.addmm", [random(*added), random(9, 20), random(20, 35)], factors)
    check_operator("torch.baddbmm", [random(*added), random(4, 9, 20), random(4, 20, 35)], factors)


def test_constant_operands_are_packed():
    constant = ("pnnx.Attribute", "c", "", "c", {}, {"data": random(20, 35)})
    check_graph([random(3, 9, 20)], [constant, ("torch.matmul", "op", "x0 c", "y0")], ["y0"])
    check_graph([random(35, 7)], [constant, ("torch.matmul", "op", "c x0", "y0")], ["y0"])
    check_graph([random(9, 35), random(9, 20)], [constant, ("torch.addmm", "op", "x0 x1 c", "y0")], ["y0"])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("torch.transpose", {"dim0": -2, "dim1": -1}), None),
        (None, ("torch.transpose", {"dim0": -2, "dim1": -1})),
        (("Tensor.permute", {"dims": (1, 0, 2)}), ("Tensor.permute", {"dims": (1, 2, 0)})),
        (("Tensor.permute", {"dims": (2, 0, 1)}), ("Tensor.permute", {"dims": (2, 1, 0)})),
    ],
    ids=str,
)
def test_transposed_operands_are_read_where_they_lie(left, right):
    sizes = {"b": 3, "m": 21, "k": 20, "n": 35}
    shapes = []
    for letters, change in (("bmk", left), ("bkn", right)):
        dims = list(range(3))
        if change is not None:
            dims = [0, 2, 1] if "dim0" in change[1] else list(np.argsort(change[1]["dims"]))
        shapes.append(tuple(sizes[letters[dim]] for dim in dims))
    lines, names = [], []
    for number, change in enumerate((left, right)):
        names.append(f"x{number}" if change is None else f"t{number}")
        if change is not None:
            lines.append((change[0], f"p{number}", f"x{number}", f"t{number}", change[1]))
    lines.append(("torch.matmul", "op", " ".join(names), "y0"))
    plan = check_graph([random(*shapes[0]), random(*shapes[1], seed=1)], lines, ["y0"])
    assert kernels(plan) == ["MatrixProductSpec"]


@pytest.mark.parametrize("inner", [64, 70])
@pytest.mark.parametrize("right", [None, Matrix(45, 1), Matrix(1, 70)], ids=str)
def test_blocks_of_the_inner_dimension(inner, right):
    """Sums that wait in memory, as a long inner dimension has it."""
    rows, columns = 19, 45
    a, b = random(rows, inner), random(inner, columns, seed=1)
    bias, added = random(columns, seed=2), random(rows, columns, seed=3)
    for name in TARGETS:
        lanes = target_named(name).lanes
        bias_there = np.pad(bias, (0, -columns % lanes))
        packed = np.empty(b.shape[0] * -(-b.shape[1] // lanes) * lanes, np.float32)
        pack_panels(b, 2, lanes, packed)
        packed = packed if right is None else b
        layout = right
        if right is not None and right.row == 1:
            packed, layout = np.ascontiguousarray(b.T), Matrix(1, inner)
        epilogue = MatrixEpilogue("relu(add(@0,@1))", (Matrix(columns),))
        spec = MatrixProductSpec(
            (), rows, inner, columns, Matrix(inner), layout, Matrix(columns), True, epilogue, lanes, 4, 2, 8, 2, 16
        )
        (run,) = compile_specs([spec], name)
        out = np.empty((rows, columns), np.float32)
        run(a, aligned(packed), aligned(bias_there), out, added)
        assert_close(out, np.maximum(a @ b + bias + added, 0))


def test_long_inner_dimensions_are_taken_in_blocks():
    plan = check_operator("nn.Linear", *linear(40, 6000, 300), targets=TARGETS[-1:])
    (step,) = plan.steps
    assert step.spec.block < 6000


# ------------------------------------------------------------------------------------------- fused expressions


@pytest.mark.parametrize("size", [(1, 7, 10), (5, 20, 33), (40, 20, 96)], ids=str)
def test_fused_activation(size):
    inputs, params, weights = linear(*size)
    linear_line = ("nn.Linear", "op", "x0", "h", params, weights)
    for activation in ("nn.ReLU", "nn.GELU", "nn.SiLU"):
        plan = check_graph(inputs, [linear_line, (activation, "act", "h", "y0")], ["y0"])
        assert kernels(plan) == ["MatrixProductSpec"]


def test_fused_residual_of_a_vector_and_of_rows():
    for stack, rows in (((), 9), ((2,), 1)):
        inputs, params, weights = linear(rows, 20, 35, stack=stack)
        other = random(*stack, rows, 35, seed=5)
        lines = [
            ("nn.Linear", "op", "x0", "h", params, weights),
            ("pnnx.Expression", "add", "x1 h", "y0", {"expr": "add(@0,mul(@1,2.0))"}),
        ]
        plan = check_graph([*inputs, other], lines, ["y0"])
        assert kernels(plan) == ["MatrixProductSpec"]


def test_fused_scores():
    """What precedes the softmax of attention: a factor, and a mask that is broadcast."""
    for mask in ((9, 33), (2, 1, 1, 33), (33,), (9, 1)):
        lines = [
            ("torch.transpose", "t", "x1", "t", {"dim0": -1, "dim1": -2}),
            ("torch.matmul", "op", "x0 t", "h"),
            ("pnnx.Expression", "add", "h x2", "y0", {"expr": "add(div(@0,8.0),@1)"}),
        ]
        inputs = [random(2, 3, 9, 20), random(2, 3, 33, 20, seed=1), random(*mask)]
        assert kernels(check_graph(inputs, lines, ["y0"])) == ["MatrixProductSpec"]


def test_fused_expression_of_an_added_product():
    lines = [
        ("torch.addmm", "op", "x2 x0 x1", "h", {"beta": 0.5}),
        ("nn.ReLU", "relu", "h", "y0"),
    ]
    assert kernels(check_graph([random(9, 20), random(20, 33), random(33)], lines, ["y0"])) == ["MatrixProductSpec"]
    lines = [("torch.mv", "op", "x0 x1", "h"), ("pnnx.Expression", "add", "h x2", "y0", {"expr": "add(@0,@1)"})]
    assert kernels(check_graph([random(9, 20), random(20), random(9)], lines, ["y0"])) == ["MatrixProductSpec"]


# ------------------------------------------------------------------------------------------- numbers


def test_nan_and_infinity_reach_their_row_alone():
    inputs, params, weights = linear(20, 18, 33)
    inputs[0][3, 5], inputs[0][7, 2], inputs[0][9, 0] = np.nan, np.inf, -np.inf
    check_operator("nn.Linear", inputs, params, weights)
    check_operator("torch.matmul", [inputs[0], random(18, 33)])
    poisoned = random(18, 33)
    poisoned[2, 32], poisoned[4, 0] = np.nan, np.inf
    check_operator("torch.matmul", [random(20, 18), poisoned])


def test_results_do_not_depend_on_threads():
    inputs, params, weights = linear(60, 300, 200)
    check_operator("nn.Linear", inputs, params, weights, targets=["host"], threads=2)
    check_operator("torch.matmul", [random(6, 40, 30), random(6, 30, 70)], targets=["host"], threads=2)


def test_aarch64_uses_vector_multiply_adds():
    target = target_named("aarch64")
    spec = MatrixProductSpec(
        (), 12, 64, 64, Matrix(64), None, Matrix(64), True, MatrixEpilogue(), target.lanes, 6, 4, 12, 4, 64
    )
    assert assembly_of(spec.module("k", target), target).count("fmla\tv") >= 24
