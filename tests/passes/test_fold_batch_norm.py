"""Batch normalisation folded into weights, or made an expression."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.running import check_graph, graph_of, kernels, random
from tests.passes.running import check_passes, run_passes


def statistics(channels, *, affine=True, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    found = {"running_mean": rng.normal(size=channels), "running_var": rng.uniform(0.5, 2, channels)}
    if affine:
        found |= {"weight": rng.normal(size=channels), "bias": rng.normal(size=channels)}
    return {name: data.astype(dtype) for name, data in found.items()}


def batch_norm(channels, source="h", target="y0", *, kind="nn.BatchNorm2d", affine=True, name="bn"):
    return (kind, name, source, target, {"eps": 1e-3, "affine": affine}, statistics(channels, affine=affine))


def convolution(weight, *, bias=True, kind="nn.Conv2d", source="x0", target="h", name="conv", **params):
    out = weight.shape[0] if "Transpose" not in kind else weight.shape[1] * params.get("groups", 1)
    weights = {"weight": weight} | ({"bias": random(out, seed=3)} if bias else {})
    return (kind, name, source, target, {"bias": bias, **params}, weights)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_into_a_convolution(groups, affine, bias):
    line = convolution(random(6, 4 // groups, 3, 3), bias=bias, groups=groups, padding=(1, 1))
    left = check_passes([random(2, 4, 5, 6)], [line, batch_norm(6, affine=affine)], ["y0"])
    assert left == ["nn.Conv2d"]


@pytest.mark.parametrize("groups", [1, 2])
def test_into_a_transposed_convolution(groups):
    line = convolution(random(4, 6 // groups, 3, 3), kind="nn.ConvTranspose2d", groups=groups, stride=(2, 2))
    assert check_passes([random(2, 4, 5, 6)], [line, batch_norm(6)], ["y0"]) == ["nn.ConvTranspose2d"]


@pytest.mark.parametrize("ndim", [1, 3])
def test_into_convolutions_of_other_dimensions(ndim):
    line = convolution(random(6, 4, *[2] * ndim), kind=f"nn.Conv{ndim}d")
    left = check_passes([random(2, 4, *[5] * ndim)], [line, batch_norm(6, kind=f"nn.BatchNorm{ndim}d")], ["y0"])
    assert [kind for kind in left if kind != "Tensor.reshape"] == [f"nn.Conv{ndim}d"]


def test_into_a_fully_connected_layer():
    line = convolution(random(6, 4), kind="nn.Linear", in_features=4, out_features=6)
    assert check_passes([random(5, 4)], [line, batch_norm(6, kind="nn.BatchNorm1d")], ["y0"]) == ["nn.Linear"]
    # of three dimensions the channels are the second one, not the layer's features
    left = check_passes([random(5, 6, 4)], [line, batch_norm(6, kind="nn.BatchNorm1d")], ["y0"])
    assert "nn.BatchNorm1d" in left or "pnnx.Attribute" in left


def test_one_after_the_other_and_half_precision():
    weight = random(6, 4, 1, 1).astype(np.float16)
    lines = [
        ("nn.Conv2d", "conv", "x0", "h", {"bias": False}, {"weight": weight}),
        batch_norm(6, "h", "g"),
        batch_norm(6, "g", "y0", name="bn2"),
    ]
    assert check_passes([random(2, 4, 5, 6)], lines, ["y0"]) == ["nn.Conv2d"]


def test_shared_results_and_weights_stay():
    weight = random(6, 4, 1, 1)
    line = convolution(weight)
    left = check_passes([random(2, 4, 5, 6)], [line, batch_norm(6)], ["y0", "h"])
    assert left.count("nn.Conv2d") == 1
    assert len(left) > 1
    lines = [line, convolution(weight, target="g", name="conv2"), batch_norm(6), ("pnnx.Output", "out1", "g", "")]
    assert check_passes([random(2, 4, 5, 6)], lines, ["y0"]) == ["nn.Conv2d", "nn.Conv2d"]


def test_a_channel_without_variance_keeps_its_own_operator():
    numbers = statistics(6)
    numbers["running_var"][2] = 0
    line = ("nn.BatchNorm2d", "bn", "h", "y0", {"eps": 0.0}, numbers)
    left = check_passes([random(2, 4, 5, 6)], [convolution(random(6, 4, 1, 1)), line], ["y0"])
    assert len(left) > 1


def test_moments_of_the_batch_are_left_alone():
    line = ("F.batch_norm", "bn", "h", "y0", {"training": True}, statistics(6))
    left = check_passes([random(2, 4, 5, 6)], [convolution(random(6, 4, 1, 1)), line], ["y0"])
    assert left == ["nn.Conv2d", "F.batch_norm"]


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 4, 5), (2, 6, 2, 3, 4)], ids=str)
def test_expressions_of_constants(shape):
    kind = {2: "nn.BatchNorm1d", 3: "nn.BatchNorm1d", 4: "nn.BatchNorm2d", 5: "nn.BatchNorm3d"}[len(shape)]
    lines = [
        ("nn.BatchNorm" + kind[-2:], "bn", "x0", "h", {"eps": 1e-3}, statistics(6)),
        ("nn.ReLU", "relu", "h", "y0"),
    ]
    plan = check_graph([random(*shape)], lines, ["y0"])
    assert kernels(plan) == ["MapSpec"]


def test_instance_normalisation_with_statistics():
    numbers = statistics(6)
    for shape in ((2, 6, 4, 5), (6, 4, 5)):
        line = ("nn.InstanceNorm2d", "norm", "x0", "y0", {"affine": True, "track_running_stats": True}, numbers)
        assert "MapSpec" in kernels(check_graph([random(*shape)], [line], ["y0"]))


def test_between_images():
    lines = [
        convolution(random(20, 4, 3, 3), padding=(1, 1), source="x0", target="h"),
        ("nn.MaxPool2d", "pool", "h", "p", {"kernel_size": (2, 2)}),
        batch_norm(20, "p", "n"),
        ("nn.ReLU", "relu", "n", "r"),
        convolution(random(8, 20, 3, 3), source="r", target="y0", name="conv2"),
    ]
    plan = check_graph([random(2, 4, 12, 13)], lines, ["y0"], tolerance=1e-4)
    assert "ImageMapSpec" in kernels(plan)


@given(st.data())
@settings(max_examples=25)
def test_random_chains(data):
    """Convolutions, normalisations and activations in any order, some results used twice: the same with passes or without."""
    channels, lines, source = 4, [], "x0"
    outputs = []
    for number in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["conv", "grouped", "transposed", "bn", "bn", "relu"]))
        target = f"v{number}"
        if kind == "bn":
            lines.append(batch_norm(channels, source, target, name=f"bn{number}", affine=data.draw(st.booleans())))
        elif kind == "relu":
            lines.append(("nn.ReLU", f"relu{number}", source, target))
        else:
            groups = 2 if kind == "grouped" else 1
            weight = random(4, 4 // groups, 1, 1, seed=number)
            name = "nn.ConvTranspose2d" if kind == "transposed" else "nn.Conv2d"
            bias = data.draw(st.booleans())
            lines.append(
                convolution(
                    weight, kind=name, groups=groups, bias=bias, source=source, target=target, name=f"c{number}"
                )
            )
        if data.draw(st.integers(0, 3)) == 0:
            outputs.append(target)
        source = target
    outputs = [*dict.fromkeys([*outputs, source])]
    off = data.draw(st.sampled_from(["", "fold_batch_norm", "unify_batch_norm", "fold_batch_norm,unify_batch_norm"]))
    check_passes([random(2, 4, 3, 5)], lines, outputs, off)


def test_switched_off():
    lines = [convolution(random(6, 4, 1, 1)), batch_norm(6)]
    inputs = [random(2, 4, 5, 6)]
    graph = graph_of(inputs, lines, ["y0"])
    types = [operator.type for operator in run_passes(graph, inputs, "fold_batch_norm,unify_batch_norm")]
    assert "nn.BatchNorm2d" in types
