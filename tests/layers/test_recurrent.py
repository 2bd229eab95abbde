"""Recurrent layers against PyTorch."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from kuiperinfer.errors import DTypeError, InputError, KuiperError, ModelFileError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.base import apply
from kuiperinfer.layers.binding import bind
from tests.layers.harness import Case, assert_equal, check, random, run, to_numpy

INPUT, HIDDEN = 4, 5

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def make(kind, **options):
    module = getattr(nn, kind)(INPUT, HIDDEN, **options).eval()
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight.copy_(random(*weight.shape, seed=i, low=-0.8, high=0.8))
    return module


def params_of(module):
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "bidirectional"]
    names += {"RNN": ["nonlinearity"], "LSTM": ["proj_size"], "GRU": []}[module.mode.split("_")[0]]
    return {name: getattr(module, name) for name in names}


def results_of(module):
    """The module's results in one tuple."""

    def call(x, *states):
        state = tuple(states) if isinstance(module, nn.LSTM) and states else states[0] if states else None
        output, last = module(x, state)
        return (output, *last) if isinstance(last, tuple) else (output, last)

    return call


def case(module, x, *states, outputs=None):
    call = results_of(module)
    count = 3 if isinstance(module, nn.LSTM) else 2
    outputs = count if outputs is None else outputs
    return Case(
        f"nn.{type(module).__name__}",
        lambda *inputs: call(*inputs)[0] if outputs == 1 else call(*inputs)[:outputs],
        [x, *states],
        params_of(module),
        dict(module.state_dict()),
        outputs=outputs,
    )


KINDS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("GRU", {}), ("LSTM", {}), ("LSTM", {"proj_size": 3})]
each_kind = pytest.mark.parametrize(("kind", "extra"), KINDS, ids=str)


@each_kind
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_grid(kind, extra, bias, bidirectional, num_layers):
    for batch_first in (True, False):
        module = make(
            kind, bias=bias, bidirectional=bidirectional, num_layers=num_layers, batch_first=batch_first, **extra
        )
        rows = num_layers * (2 if bidirectional else 1)
        for shape in [(3, 2, INPUT), (1, 1, INPUT), (6, INPUT)]:
            x = random(*shape)
            check(case(module, x))
            batch = (shape[0 if batch_first else 1],) if len(shape) == 3 else ()
            states = [random(rows, *batch, extra.get("proj_size", HIDDEN), seed=1)]
            if kind == "LSTM":
                states.append(random(rows, *batch, HIDDEN, seed=2))
            check(case(module, x, *states))


@each_kind
def test_no_sequences(kind, extra):
    check(case(make(kind, **extra), torch.zeros(3, 0, INPUT)))


@each_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(kind, extra, dtype):
    module = make(kind, bidirectional=True, num_layers=2, **extra).to(dtype)
    tested = case(module, random(7, 2, INPUT, dtype=dtype))
    tested.tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(dtype)  # PyTorch rounds after every step
    check(tested)


@each_kind
def test_half_weights_serve_float32(kind, extra):
    module = make(kind, **extra).half().float()
    tested = case(module, random(3, 2, INPUT))
    tested.weights = {name: weight.half() for name, weight in tested.weights.items()}
    check(tested)


@each_kind
def test_fewer_outputs(kind, extra):
    """Without annotations, the outputs are the first results."""
    for outputs in (1, 2):
        check(case(make(kind, **extra), random(3, 2, INPUT), outputs=outputs))


def test_one_state_for_two():
    module = make("LSTM", num_layers=2)
    x, state = random(3, 2, INPUT), random(2, 2, HIDDEN)
    tested = case(module, x, state)
    tested.torch = lambda x, state: results_of(module)(x, state, state)
    check(tested)


@each_kind
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30, 1e-40])
def test_special_values(kind, extra, value):
    x = random(4, 2, INPUT)
    x[1, 0, 2] = value
    check(case(make(kind, bidirectional=True, **extra), x))


# ------------------------------------------------------------------------------------------- which results


def bind_annotated(module, input_shape, output_shapes):
    return bind(
        f"nn.{type(module).__name__}",
        input_names=[None],
        params=params_of(module),
        attributes=list(module.state_dict()),
        output_count=len(output_shapes),
        annotated_inputs=[Annotation(input_shape)],
        annotated_outputs=[Annotation(shape) for shape in output_shapes],
    ).layer


@each_kind
@pytest.mark.parametrize("batch_first", [True, False])
def test_outputs_are_those_of_the_annotated_shapes(kind, extra, batch_first):
    """The converter writes the results that are used, in the order of their use."""
    module = make(kind, batch_first=batch_first, num_layers=2, **extra)
    x = random(7, 3, INPUT)
    results = results_of(module)(x)
    shapes = [tuple(result.shape) for result in results]
    weights = {name: to_numpy(weight) for name, weight in module.state_dict().items()}
    for count in range(1, len(results) + 1):
        for chosen in itertools.permutations(range(len(results)), count):
            if kind == "LSTM" and not extra and [i for i in chosen if i] != sorted(i for i in chosen if i):
                continue  # states of one shape cannot be told apart: they count as in order
            if kind == "LSTM" and not extra and 2 in chosen and 1 not in chosen:
                continue
            annotated = [shapes[i] for i in chosen]
            for layer in (
                bind_annotated(module, tuple(x.shape), annotated),
                bind_annotated(
                    module,
                    (None, 3, INPUT),
                    [(None, *shape[1:]) if shape == shapes[0] else shape for shape in annotated],
                )
                if not batch_first
                else bind_annotated(module, (7, None, INPUT), annotated),
            ):
                got = apply(layer, [], {"input": x.numpy(), **weights})
                for one, index in zip(got, chosen, strict=True):
                    assert_equal(one, to_numpy(results[index]))


def test_annotations_hold_for_other_shapes_too():
    """A model that was converted for one length may be run with another: what was chosen stays."""
    module = make("GRU")
    layer = bind_annotated(module, (7, 2, INPUT), [(1, 2, HIDDEN)])
    x = random(1, 3, INPUT)
    weights = {name: to_numpy(weight) for name, weight in module.state_dict().items()}
    [got] = apply(layer, [], {"input": x.numpy(), **weights})
    assert_equal(got, to_numpy(module(x)[1]))


def test_wrong_annotations_are_no_reason_to_fail():
    module = make("GRU")
    layer = bind_annotated(module, (7, 2, INPUT), [(9, 9, 9)])
    weights = {name: to_numpy(weight) for name, weight in module.state_dict().items()}
    x = random(2, 3, INPUT)
    [got] = apply(layer, [], {"input": x.numpy(), **weights})
    assert_equal(got, to_numpy(module(x)[0]))


# ------------------------------------------------------------------------------------------- refusals


def changed(kind="GRU", inputs=None, weights=None, outputs=1, **params):
    module = make(kind)
    tested = case(module, random(3, 2, INPUT), outputs=outputs)
    tested.inputs = inputs or tested.inputs
    tested.params = {**tested.params, **params}
    tested.weights = {**tested.weights, **(weights or {})}
    return tested


X = random(3, 2, INPUT)
STATE = random(1, 2, HIDDEN)
REFUSED = [
    (changed(inputs=[random(3, 2, INPUT + 1)]), ShapeError, "input_size=4"),
    (changed(inputs=[random(INPUT)]), ShapeError, "2 or 3 dimensions"),
    (changed(inputs=[random(0, 2, INPUT)]), ShapeError, "at least one step"),
    (changed(inputs=[random(3, 2, INPUT) > 0]), DTypeError, "float"),
    (changed(inputs=[X, random(1, 1, HIDDEN)]), ShapeError, "h0"),
    (changed(inputs=[X[:, 0], STATE]), ShapeError, "h0"),
    (changed(inputs=[X, STATE > 0]), DTypeError, "h0"),
    (changed(inputs=[X, STATE, STATE]), ModelFileError, "inputs"),
    (changed(kind="LSTM", inputs=[X, STATE, random(2, 2, HIDDEN)]), ShapeError, "c0"),
    (changed(kind="LSTM", proj_size=HIDDEN), InputError, "proj_size=5"),
    (changed(kind="LSTM", proj_size=2), KuiperError, "weight"),
    (changed(kind="RNN", nonlinearity="sigmoid"), InputError, "nonlinearity=sigmoid"),
    (changed(num_layers=0), InputError, "num_layers=0"),
    (changed(num_layers=2), ModelFileError, "'weight_ih_l1' is missing"),
    (changed(num_layers=10**18), ModelFileError, "only 4 weights"),
    (changed(bias=False), ModelFileError, "'bias_ih_l0' is unknown"),
    (changed(bidirectional=True), ModelFileError, "'weight_ih_l0_reverse' is missing"),
    (changed(hidden_size=HIDDEN + 1), ShapeError, "weight_ih_l0"),
    (changed(weights={"weight_xx": X}), ModelFileError, "'weight_xx' is unknown"),
    (changed(proj_size=0), ModelFileError, "proj_size"),
    (changed(outputs=3), ShapeError, "gives 2 outputs"),
]


@pytest.mark.parametrize(("tested", "error", "words"), REFUSED, ids=str)
def test_refused(tested, error, words):
    with pytest.raises(error, match=words):
        run(tested)


def test_dropout_has_no_meaning_at_inference():
    tested = case(make("GRU", num_layers=2), random(3, 2, INPUT))
    tested.params = {**tested.params, "dropout": 0.5}
    check(tested)
    assert np.isfinite(run(tested)[0]).all()
