"""The course's API over the real graph: states, parts, building, running, errors with places."""

from __future__ import annotations

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer import InputError, KuiperError, ModelFileError, ShapeError, TensorSpec, UnsupportedOperatorError
from kuiperinfer.dtypes import f32
from kuiperinfer.graph import UNKNOWN, GraphState, LayerRegisterer, RuntimeAttribute, RuntimeGraph
from kuiperinfer.layers import DataDependent, Layer, register, unregister

from .build import build

WEIGHT = np.arange(128 * 32, dtype=np.float32).reshape(128, 32) / 4096
BIAS = np.linspace(-1, 1, 128, dtype=np.float32)


def linear_graph() -> kuiperinfer.pnnx.Graph:
    """The course's `test_linear`: Input (1, 32) -> nn.Linear(32 -> 128) -> F.sigmoid -> Output."""
    return build(
        ("pnnx.Input", "pnnx_input_0", "", "0", {}, {}, (1, 32)),
        (
            "nn.Linear",
            "linear",
            "0",
            "1",
            {"bias": True, "in_features": 32, "out_features": 128},
            {"bias": BIAS, "weight": WEIGHT},
            (1, 128),
        ),
        ("F.sigmoid", "F.sigmoid_0", "1", "2", {}, {}, (1, 128)),
        ("pnnx.Output", "pnnx_output_0", "2", ""),
    )


def test_states_go_from_init_over_build_to_complete(tmp_path: object) -> None:
    path = f"{tmp_path}/linear.pnnx.param"
    kuiperinfer.pnnx.write(linear_graph(), path)
    graph = RuntimeGraph(path, f"{tmp_path}/linear.pnnx.bin")
    assert graph.state == GraphState.NEED_INIT == -2
    assert graph.param_path == path and graph.bin_path.endswith("linear.pnnx.bin")
    assert graph.init() and graph.state == GraphState.NEED_BUILD == -1
    with pytest.raises(KuiperError, match="call build"):
        graph.set_inputs("pnnx_input_0", np.zeros((1, 32), np.float32))
    graph.build()
    assert graph.state == GraphState.COMPLETE == 0
    graph.build()
    again = RuntimeGraph(path)
    again.build()
    assert again.state == GraphState.COMPLETE


def test_an_empty_path_is_an_error() -> None:
    with pytest.raises(ModelFileError, match="empty"):
        RuntimeGraph().init()


def test_parameters_and_attributes_of_the_linear_homework() -> None:
    graph = RuntimeGraph.from_pnnx(linear_graph())
    linear = graph.operators[1]
    assert {name: parameter.value for name, parameter in linear.params.items()} == {
        "bias": True,
        "in_features": 32,
        "out_features": 128,
    }
    assert [parameter.kind for parameter in linear.params.values()] == ["bool", "int", "int"]
    assert {name: weight.shape for name, weight in linear.attribute.items()} == {"bias": (128,), "weight": (128, 32)}


def test_set_inputs_forward_get_outputs() -> None:
    graph = RuntimeGraph.from_pnnx(linear_graph())
    assert graph.is_input_op("pnnx_input_0") and graph.is_output_op("pnnx_output_0")
    assert not graph.is_input_op("random_str") and not graph.is_output_op("random_str")
    x = np.linspace(-1, 1, 32, dtype=np.float32)[None]
    with pytest.raises(KuiperError, match="call forward"):
        graph.get_outputs("pnnx_output_0")
    with pytest.raises(InputError, match="pnnx_input_0"):
        graph.forward()
    graph.set_inputs("pnnx_input_0", x)
    graph.forward()
    (y,) = graph.get_outputs("pnnx_output_0")
    expected = 1 / (1 + np.exp(-(x @ WEIGHT.T + BIAS)))
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert all(operator.has_forward for operator in graph.operators)
    assert [data.shape for data in graph.operands["1"].datas] == [(128,)]
    y[:] = 0  # a copy: the graph's own value stays
    graph.forward()
    np.testing.assert_allclose(graph.get_outputs("pnnx_output_0")[0], expected, rtol=1e-5)


def test_a_list_of_samples_is_a_batch() -> None:
    graph = RuntimeGraph.from_pnnx(linear_graph())
    samples = [np.full(32, value, np.float32) for value in (0.0, 0.5, -1.0)]
    graph.set_inputs("pnnx_input_0", samples)
    graph.forward()
    assert graph.get_outputs("pnnx_output_0")[0].shape == (3, 128)
    assert len(graph.operands["2"].datas) == 3
    with pytest.raises(ShapeError, match="differ in shape"):
        graph.set_inputs("pnnx_input_0", [np.zeros(32), np.zeros(31)])


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    graph = RuntimeGraph.from_pnnx(linear_graph())
    with pytest.raises(InputError, match="did you mean 'pnnx_input_0'"):
        graph.set_inputs("pnnx_inputs_0", np.zeros((1, 32), np.float32))
    with pytest.raises(InputError, match="did you mean 'pnnx_output_0'"):
        graph.get_outputs("pnnx_outptu_0")


def test_operands_have_one_producer_and_many_consumers() -> None:
    graph = RuntimeGraph.from_pnnx(
        build(
            ("pnnx.Input", "x", "", "0", {}, {}, (2, 2)),
            ("nn.ReLU", "relu", "0", "1"),
            ("torch.matmul", "square", "1 1", "2"),
            ("prim::TupleConstruct", "both", "1 2", "3"),
            ("pnnx.Output", "out", "3", ""),
        )
    )
    relu, square = graph.operators[1], graph.operators[2]
    assert graph.operands["1"].producer is relu
    assert [consumer.name for consumer in graph.operands["1"].consumers] == ["square", "square", "both"]
    assert list(relu.output_names) == ["square", "both"]
    assert list(square.input_operands) == ["relu"] and len(square.input_operands_seq) == 2
    assert (relu.start_time, relu.end_time) == (1, 3)


def test_the_printed_form_is_stable() -> None:
    assert str(RuntimeGraph.from_pnnx(linear_graph())) == (
        "%0: (1,32)f32 = pnnx.Input pnnx_input_0()\n"
        "%1: (1,128)f32 = nn.Linear linear(%0) bias=True in_features=32 out_features=128 @bias=(128)f32 @weight=(128,32)f32\n"
        "%2: (1,128)f32 = F.sigmoid F.sigmoid_0(%1)\n"
        "pnnx.Output pnnx_output_0(%2)"
    )


def test_all_unsupported_types_are_reported_at_once() -> None:
    graph = build(
        ("pnnx.Input", "x", "", "0"),
        ("nn.ReLUU", "a", "0", "1"),
        ("nn.ReLUU", "b", "1", "2"),
        ("nn.quantized.Conv2d", "q", "2", "3"),
        ("pnnx.Output", "out", "3", ""),
    )
    with pytest.raises(UnsupportedOperatorError) as caught:
        RuntimeGraph.from_pnnx(graph)
    assert caught.value.operators == {"nn.ReLUU": ["a", "b"], "nn.quantized.Conv2d": ["q"]}
    message = str(caught.value)
    assert "nn.ReLUU (2×: a, b); did you mean 'nn.ReLU'?" in message and "quantised models" in message


@pytest.mark.parametrize(
    ("params", "attributes", "message"),
    [
        (
            {"in_features": 32, "out_features": 128, "bias": True, "colour": 1},
            {"bias": BIAS, "weight": WEIGHT},
            "colour",
        ),
        ({"in_features": 32, "out_features": 128, "bias": True}, {"weight": WEIGHT}, "bias=True"),
        ({"in_features": 32, "out_features": 128, "bias": False}, {"bias": BIAS, "weight": WEIGHT}, "bias=False"),
        (
            {"in_features": "many", "out_features": 128, "bias": True},
            {"bias": BIAS, "weight": WEIGHT},
            "expected an integer",
        ),
        ({"in_features": 32, "out_features": 128, "bias": True}, {"bias": BIAS}, "'weight' is missing"),
        (
            {"in_features": 32, "out_features": 128, "bias": True},
            {"bias": BIAS, "weight": WEIGHT, "w2": BIAS},
            "weight 'w2' is unknown",
        ),
    ],
)
def test_what_does_not_fit_its_operator_names_it(params: dict, attributes: dict, message: str) -> None:  # type: ignore[type-arg]
    graph = build(
        ("pnnx.Input", "x", "", "0"), ("nn.Linear", "fc", "0", "1", params, attributes), ("pnnx.Output", "out", "1", "")
    )
    with pytest.raises(ModelFileError, match=r"operator 'fc' \(nn.Linear\)") as caught:
        RuntimeGraph.from_pnnx(graph)
    assert message in str(caught.value)


def test_shapes_follow_the_input_not_the_annotation() -> None:
    graph = RuntimeGraph.from_pnnx(linear_graph())
    assert graph.infer()[graph.operands["2"]] == TensorSpec((1, 128), f32)
    specs = graph.infer({"pnnx_input_0": TensorSpec((5, 7, 32), f32)})
    assert specs[graph.operands["2"]] == TensorSpec((5, 7, 128), f32)
    with pytest.raises(ShapeError, match=r"operator 'linear' \(nn.Linear\)"):
        graph.infer({"pnnx_input_0": TensorSpec((1, 31), f32)})
    with pytest.raises(InputError, match="no input 'x'"):
        graph.infer({"x": TensorSpec((1, 32), f32)})


def test_a_baked_in_constant_that_forbids_a_shape_is_named() -> None:
    graph = RuntimeGraph.from_pnnx(
        build(
            ("pnnx.Input", "x", "", "0", {}, {}, (1, 4, 4)),
            ("Tensor.reshape", "Tensor.reshape_0", "0", "1", {"shape": (1, 16)}),
            ("pnnx.Output", "out", "1", ""),
        )
    )
    with pytest.raises(ShapeError, match=r"'Tensor.reshape_0' .*\(1, ?16\)"):
        graph.infer({"x": TensorSpec((1, 5, 5), f32)})


def test_shapes_that_hang_on_data_are_unknown_before_the_run() -> None:
    graph = RuntimeGraph.from_pnnx(
        build(
            ("pnnx.Input", "x", "", "0", {}, {}, (4,)),
            ("torch.gt", "positive", "0", "1", {"other": 0}),
            ("torch.masked_select", "chosen", "0 1", "2"),
            ("nn.ReLU", "relu", "2", "3"),
            ("pnnx.Output", "out", "3", ""),
        )
    )
    specs = graph.infer()
    assert specs[graph.operands["2"]] is UNKNOWN and specs[graph.operands["3"]] is UNKNOWN
    graph.set_inputs("x", np.array([1, -1, 2, -2], np.float32))
    graph.forward()
    np.testing.assert_array_equal(graph.get_outputs("out")[0], [1, 2])


def test_an_attribute_can_be_given_up() -> None:
    weight = RuntimeAttribute(np.zeros(8, np.float32), (8,), f32)
    assert weight.get(clear=False).size == 8 and weight.get(clear=True).size == 8
    with pytest.raises(InputError, match="no data"):
        weight.get()


class TestUsersLayers:
    """The registry is open."""

    def teardown_method(self) -> None:
        for name in ("custom.Double", "custom.Broken", "custom.Liar"):
            if name in LayerRegisterer.layer_types():
                unregister(name)

    def test_a_registered_layer_runs(self) -> None:
        @register("custom.Double")
        class Double(Layer):
            def infer(self, input: TensorSpec) -> TensorSpec:
                return input.like()

            def forward(self, input: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
                return input * 2

        graph = build(
            ("pnnx.Input", "x", "", "0", {}, {}, (2,)),
            ("custom.Double", "d", "0", "1"),
            ("pnnx.Output", "out", "1", ""),
        )
        model = kuiperinfer.Model(RuntimeGraph.from_pnnx(graph))
        np.testing.assert_array_equal(model(np.array([1, 2], np.float32)), [2, 4])
        assert "custom.Double" in LayerRegisterer.layer_types()
        assert isinstance(LayerRegisterer.create_layer(model.graph.operators[1]), Double)
        with pytest.raises(InputError, match="already registered"):
            register("custom.Double")(Double)

    def test_names_must_be_there(self) -> None:
        with pytest.raises(InputError):
            LayerRegisterer.register_creator(None, "custom.Double")
        with pytest.raises(InputError, match="empty"):
            LayerRegisterer.register_creator(Layer, "")
        with pytest.raises(InputError, match="not registered"):
            unregister("custom.Nothing")

    def test_a_layer_that_breaks_is_a_kuiper_error_with_its_place(self) -> None:
        @register("custom.Broken")
        class Broken(Layer):
            def infer(self, input: TensorSpec) -> TensorSpec:
                return input.like()

            def forward(self, input: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
                raise ValueError("no")

        graph = build(
            ("pnnx.Input", "x", "", "0", {}, {}, (2,)),
            ("custom.Broken", "b", "0", "1"),
            ("pnnx.Output", "out", "1", ""),
        )
        model = kuiperinfer.Model(RuntimeGraph.from_pnnx(graph))
        with pytest.raises(KuiperError, match=r"operator 'b' \(custom.Broken\).*ValueError: no"):
            model(np.zeros(2, np.float32))

    def test_infer_may_wait_for_values(self) -> None:
        @register("custom.Liar")
        class Liar(Layer):
            def infer(self, input: TensorSpec) -> TensorSpec:
                if input.value is None:
                    raise DataDependent
                return input.like((int(input.value[0]),))

            def forward(self, input: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
                return np.zeros(int(input[0]), np.float32)

        graph = build(
            ("pnnx.Input", "x", "", "0", {}, {}, (1,)), ("custom.Liar", "l", "0", "1"), ("pnnx.Output", "out", "1", "")
        )
        model = kuiperinfer.Model(RuntimeGraph.from_pnnx(graph))
        assert model(np.array([3], np.float32)).shape == (3,)


def test_a_layer_whose_tuple_is_only_taken_apart_has_several_outputs() -> None:
    generator = np.random.default_rng(0)
    shapes = {"weight_ih_l0": (3, 2), "weight_hh_l0": (3, 3), "bias_ih_l0": (3,), "bias_hh_l0": (3,)}
    weights = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    params = {"hidden_size": 3, "input_size": 2, "num_layers": 1, "bias": True, "nonlinearity": "tanh"}
    graph = RuntimeGraph.from_pnnx(
        build(
            ("pnnx.Input", "x", "", "0", {}, {}, (4, 1, 2)),
            ("nn.RNN", "rnn", "0", "tuple", params, weights),
            ("prim::TupleUnpack", "unpack", "tuple", "1 2"),
            ("pnnx.Output", "sequence", "1", ""),
            ("pnnx.Output", "last", "2", ""),
        )
    )
    assert [operator.name for operator in graph.operators] == ["x", "rnn", "sequence", "last"]
    model = kuiperinfer.Model(graph)
    sequence, last = model(np.ones((4, 1, 2), np.float32))
    assert sequence.shape == (4, 1, 3) and last.shape == (1, 1, 3)
    np.testing.assert_array_equal(sequence[-1], last[0])
