"""Multi-head attention against PyTorch: the forms in which files have its operands, and all parameters."""

import itertools
import math

import pytest
import torch
from torch import nn

from kuiperinfer.dtypes import dtype_of
from kuiperinfer.errors import DTypeError, InputError, KuiperError, ModelFileError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.base import apply
from kuiperinfer.layers.binding import bind
from tests.layers.harness import Case, assert_equal, check, random, run, to_numpy

EMBED, HEADS, LENGTH, KEYS, BATCH = 6, 2, 5, 7, 3
TYPE = "nn.MultiheadAttention"


def make(**options):
    module = nn.MultiheadAttention(EMBED, HEADS, **options).eval()
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight.copy_(random(*weight.shape, seed=i))
    return module


def params_of(module):
    return {
        "embed_dim": module.embed_dim,
        "num_heads": module.num_heads,
        "kdim": module.kdim,
        "vdim": module.vdim,
        "bias": module.in_proj_bias is not None,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
        "batch_first": module.batch_first,
    }


def operands(module, batch=BATCH, length=LENGTH, keys=KEYS, dtype=torch.float32):
    """query, key and value in the module's layout; without a batch for batch=None."""
    made = []
    for i, (count, size) in enumerate([(length, module.embed_dim), (keys, module.kdim), (keys, module.vdim)]):
        shape = (count, size) if batch is None else (batch, count, size) if module.batch_first else (count, batch, size)
        made.append(random(*shape, dtype=dtype, seed=10 + i))
    return made


def case(module, inputs, call, names=None, outputs=1, **changes):
    """`call` makes the module's arguments of the inputs. One output means that PyTorch is not asked for weights."""

    def in_torch(*inputs):
        arguments, named = call(*inputs)
        output, weights = module(*arguments, need_weights=outputs == 2, **named)
        return (output, weights) if outputs == 2 else output

    params = {**params_of(module), **changes}
    return Case(TYPE, in_torch, inputs, params, dict(module.state_dict()), names=names, outputs=outputs)


def bool_mask(*shape):
    """Masks that leave every query a key."""
    mask = random(*shape, dtype=torch.bool)
    mask[..., 1] = False
    return mask


OPTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 4, "vdim": 3},
    {"kdim": 4, "bias": False, "add_bias_kv": True},
    {"batch_first": True},
    {"batch_first": True, "vdim": 4, "add_zero_attn": True, "add_bias_kv": True},
    {"dropout": 0.5},
]
MASKS = [
    {},
    {"attn_mask": random(LENGTH, KEYS)},
    {"attn_mask": bool_mask(LENGTH, KEYS)},
    {"attn_mask": random(BATCH * HEADS, LENGTH, KEYS)},
    {"attn_mask": bool_mask(BATCH * HEADS, LENGTH, KEYS)},
    {"key_padding_mask": bool_mask(BATCH, KEYS)},
    {"key_padding_mask": random(BATCH, KEYS)},
    {"key_padding_mask": bool_mask(BATCH, KEYS), "attn_mask": bool_mask(LENGTH, KEYS)},
    {"key_padding_mask": random(BATCH, KEYS), "attn_mask": random(BATCH * HEADS, LENGTH, KEYS)},
]


def as_the_converter_writes(module, embeddings, masks, outputs):
    """Inputs, their names, and how they become arguments: bool masks first, the last input named attn_mask."""
    padding, mask = masks.get("key_padding_mask"), masks.get("attn_mask")
    bools = [(name, m) for name, m in masks.items() if m.dtype is torch.bool]
    floats = [(name, m) for name, m in (("attn_mask", mask), ("key_padding_mask", padding)) if m is not None]
    floats = [(name, m) for name, m in floats if m.dtype is not torch.bool]
    order = [*bools, *enumerate(embeddings), *floats]
    names = [None] * (len(order) - 1) + ["attn_mask" if masks else None]

    def call(*inputs):
        named = dict(zip([name for name, _ in order], inputs, strict=True))
        query = named.pop(0)
        key = named.pop(1, query)
        return (query, key, named.pop(2, key)), named

    return case(module, [x for _, x in order], call, names, outputs)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "masks", MASKS, ids=lambda masks: "-".join(f"{n}{tuple(m.shape)}{m.dtype}" for n, m in masks.items())
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_query_key_value(options, masks, outputs):
    module = make(**options)
    check(as_the_converter_writes(module, operands(module), masks, outputs))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "masks", MASKS, ids=lambda masks: "-".join(f"{n}{tuple(m.shape)}{m.dtype}" for n, m in masks.items())
)
def test_key_is_value(masks, outputs):
    for module in (make(), make(batch_first=True, add_bias_kv=True)):
        check(as_the_converter_writes(module, operands(module)[:2], masks, outputs))


SELF_MASKS = [
    {},
    {"attn_mask": random(KEYS, KEYS)},
    {"attn_mask": bool_mask(BATCH * HEADS, KEYS, KEYS)},
    {"key_padding_mask": bool_mask(BATCH, KEYS)},
    {"key_padding_mask": random(BATCH, KEYS), "attn_mask": random(KEYS, KEYS)},
    {"key_padding_mask": bool_mask(BATCH, KEYS), "attn_mask": bool_mask(KEYS, KEYS)},
]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "masks", SELF_MASKS, ids=lambda masks: "-".join(f"{n}{tuple(m.shape)}{m.dtype}" for n, m in masks.items())
)
def test_self_attention(masks, outputs):
    for module in (make(), make(batch_first=True)):
        check(as_the_converter_writes(module, operands(module, length=KEYS)[:1], masks, outputs))


UNBATCHED_MASKS = [
    {},
    {"attn_mask": random(LENGTH, KEYS)},
    {"attn_mask": bool_mask(HEADS, LENGTH, KEYS)},
    {"key_padding_mask": bool_mask(KEYS)},
    {"key_padding_mask": random(KEYS), "attn_mask": random(LENGTH, KEYS)},
]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "masks", UNBATCHED_MASKS, ids=lambda masks: "-".join(f"{n}{tuple(m.shape)}{m.dtype}" for n, m in masks.items())
)
def test_without_batch(masks, outputs):
    for module in (make(), make(batch_first=True, kdim=4, vdim=3, add_bias_kv=True, add_zero_attn=True)):
        check(as_the_converter_writes(module, operands(module, batch=None), masks, outputs))


def test_all_inputs_named():
    """As the converter writes what it recognised as multi-head attention by itself."""
    module = make(batch_first=True, kdim=4, vdim=4)
    query, key, _ = operands(module)
    mask = random(LENGTH, KEYS)
    same = make(batch_first=True)
    names = ["query", "key", "value", "attn_mask"]
    check(case(module, [query, key, key], lambda q, k, v: ((q, k, v), {}), names[:3]))
    check(case(module, [query, key, key, mask], lambda q, k, v, m: ((q, k, v), {"attn_mask": m}), names))
    check(case(same, [query], lambda q: ((q, q, q), {}), ["input"]))
    square = random(LENGTH, LENGTH)
    check(case(same, [query, square], lambda q, m: ((q, q, q), {"attn_mask": m}), ["input", "attn_mask"]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    module = make().to(dtype)
    tested = as_the_converter_writes(
        module, operands(module, dtype=dtype), {"attn_mask": random(LENGTH, KEYS, dtype=dtype)}, 2
    )
    tested.tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype)  # PyTorch rounds after every step
    check(tested)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (0, 4, 4), (2, 1, 9), (1, 33, 17)])
def test_sizes(sizes):
    batch, length, keys = sizes
    module = make(batch_first=True)
    for outputs in (1, 2):
        check(as_the_converter_writes(module, operands(module, batch, length, keys), {}, outputs))


@pytest.mark.parametrize("outputs", [1, 2])
def test_queries_without_keys(outputs):
    """Zeros where the output alone is asked for, NaN where the weights are."""
    module = make()
    mask = bool_mask(LENGTH, KEYS)
    mask[2] = True
    for masks in ({"attn_mask": mask}, {"attn_mask": torch.where(mask, -math.inf, 0.0)}):
        check(as_the_converter_writes(module, operands(module), masks, outputs))


@pytest.mark.parametrize("value", [math.nan, 1e15, 1e-40])
def test_special_values(value):
    module = make()
    for index in range(3):
        inputs = operands(module)
        inputs[index][1, 1, 2] = value
        tested = as_the_converter_writes(module, inputs, {}, 2)
        tested.tolerance = 2e-5
        check(tested)


# ------------------------------------------------------------------------------------------- what annotations tell


def bind_annotated(module, inputs, outputs, masked=False):
    return bind(
        TYPE,
        input_names=[None] * (len(inputs) - 1) + ["attn_mask" if masked else None],
        params=params_of(module),
        attributes=list(module.state_dict()),
        output_count=len(outputs),
        annotated_inputs=[Annotation(tuple(x.shape), dtype_of(to_numpy(x))) for x in inputs],
        annotated_outputs=[Annotation(shape) for shape in outputs],
    )


def apply_bound(binding, module, inputs):
    weights = {name: to_numpy(weight) for name, weight in module.state_dict().items()}
    arrays = [to_numpy(x) for x in inputs]
    named = {name: arrays[s.index] if hasattr(s, "index") else weights[name] for name, s in binding.named.items()}
    return apply(binding.layer, [arrays[source.index] for source in binding.arguments], named)


@pytest.mark.parametrize("batch", [BATCH, None])
@pytest.mark.parametrize("batch_first", [True, False])
def test_outputs_are_those_of_the_annotated_shapes(batch_first, batch):
    module = make(batch_first=batch_first, add_zero_attn=True)
    inputs = operands(module, batch)
    output, weights = module(*inputs)
    results = [output, weights, module(*inputs, average_attn_weights=False)[1]]
    for count in (1, 2, 3):
        for chosen in itertools.permutations(range(3), count):
            binding = bind_annotated(module, inputs, [tuple(results[i].shape) for i in chosen])
            for got, index in zip(apply_bound(binding, module, inputs), chosen, strict=True):
                assert_equal(got, to_numpy(results[index]))


def test_the_meaning_of_a_mask_does_not_hang_on_the_batch():
    """With as many sequences as queries, a padding mask looks like an attention mask."""
    module = make(batch_first=True)
    query, key, _ = operands(module)
    padding = bool_mask(BATCH, KEYS)
    binding = bind_annotated(module, [padding, query, key], [tuple(query.shape)], masked=True)
    query, key, _ = operands(module, batch=LENGTH)
    padding = bool_mask(LENGTH, KEYS)
    [got] = apply_bound(binding, module, [padding, query, key])
    assert_equal(got, to_numpy(module(query, key, key, key_padding_mask=padding, need_weights=False)[0]))


# ------------------------------------------------------------------------------------------- refusals


def changed(inputs, names=None, options=None, weights=None, drop=(), outputs=1, **params):
    module = make(**(options or {}))
    state = {name: weight for name, weight in module.state_dict().items() if name not in drop}
    return Case(
        TYPE, None, inputs, {**params_of(module), **params}, {**state, **(weights or {})}, names=names, outputs=outputs
    )


Q, K, V = operands(make())
REFUSED = [
    (changed([Q[..., :4]]), ShapeError, "query: expected 6"),
    (changed([Q[0, 0]]), ShapeError, "2 or 3 dimensions"),
    (changed([Q, K[..., :4]]), ShapeError, "key: expected 6"),
    (changed([Q, K, V[1:]]), ShapeError, "key and value"),
    (changed([Q, K[:, 1:]]), ShapeError, "query and key"),
    (changed([Q, K[0]]), ShapeError, "key"),
    (changed([Q > 0]), ModelFileError, "not known"),
    (changed([Q.long()]), DTypeError, "query"),
    (changed([Q, K, random(LENGTH, KEYS + 1)], [None, None, "attn_mask"]), ShapeError, "attn_mask"),
    (changed([Q, K, random(LENGTH, KEYS).long()], [None, None, "attn_mask"]), DTypeError, "attn_mask"),
    (changed([Q, K], [None, "attn_mask"]), ShapeError, "attn_mask"),
    (changed([Q, K, V, Q, K, V]), ModelFileError, "not known"),
    (changed([]), ModelFileError, "not known"),
    (changed([Q, K], ["query", None]), ModelFileError, "a name for each input"),
    (changed([Q], num_heads=4), InputError, "num_heads=4"),
    (changed([Q], num_heads=0), InputError, "num_heads=0"),
    (changed([Q], kdim=4), ShapeError, "key: expected 4"),
    (changed([Q, operands(make(kdim=4))[1], V], kdim=4), ShapeError, "in_proj_weight"),
    (changed([Q], drop=["in_proj_weight"]), ModelFileError, "'q_proj_weight' is missing"),
    (changed([Q], drop=["out_proj.weight"]), ModelFileError, "'out_proj.weight' is missing"),
    (changed([Q], weights={"in_proj_bias": random(6)}), ShapeError, "in_proj_bias"),
    (changed([Q], weights={"extra": random(6)}), ModelFileError, "'extra' is unknown"),
    (changed([Q], bias=False), ModelFileError, "bias=False"),
    (changed([Q], add_bias_kv=True), ModelFileError, "add_bias_kv"),
    (changed([Q], outputs=4), ShapeError, "gives 3 outputs"),
]


@pytest.mark.parametrize(("tested", "error", "words"), REFUSED, ids=str)
def test_refused(tested, error, words):
    with pytest.raises(error, match=words):
        run(tested)


def test_a_constant_mask_that_the_converter_lost_is_noticed():
    """It names the last input attn_mask all the same; the shapes do not fit then."""
    with pytest.raises(KuiperError, match="attn_mask"):
        run(changed([Q, K, V], [None, None, "attn_mask"]))
