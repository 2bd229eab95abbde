"""How attention is lowered: one fused step over heads and shares of the queries, projections as matrix products around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import Array, bool_, f32
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.attention import ScaledDotProductAttention
from ..layers.binding import FromInput
from ..layers.multihead_attention import MultiheadAttention
from ..records import dataclass
from .homes import Ref, broadcast_strides, row_major
from .kernels.attention import AttentionSpec, Mask
from .kernels.direct_convolution import choose_tile
from .kernels.strided_copy import plan_copy
from .layout import Matrix
from .linear import Factor, add_product
from .lowering import Lowering, as_float32, lowers
from .reduction import plan_reduction
from .target import Target

TASKS = 8  # shares that a step should have at least


@dataclass(frozen=True)
class Heads:
    """An operand of attention: strides for the stack of heads, then for rows and columns."""

    ref: Ref
    strides: tuple[int, ...]

    @property
    def matrix(self) -> Matrix:
        """The layout for the kernel."""
        return Matrix(self.strides[-2], self.strides[-1], self.strides[:-2])


def choose_shares(stack: int, sizes: tuple[int, int, int], target: Target) -> tuple[int, int, int, int]:
    """(rows of a tile, panels of keys, panels of values, queries of a task) for sizes (queries, keys, columns)."""
    queries, keys, columns = sizes
    lanes = target.lanes
    most = max(1, target.l2 // 4 // (4 * keys))
    shares = max(-(-queries // most), min(-(-TASKS // stack), -(-queries // 8)))
    task_rows = -(-queries // shares)
    tile_rows, key_panels = choose_tile(task_rows, -(-keys // lanes), target)
    value_panels = min(key_panels, -(-columns // lanes))
    return tile_rows, key_panels, value_panels, -(-task_rows // tile_rows) * tile_rows


def add_attention(
    lowering: Lowering,
    stack: Sequence[int],
    sizes: tuple[int, int, int, int],
    operands: tuple[Heads, Heads, Heads, Heads],
    masks: Sequence[tuple[Heads, str, int]] = (),
    *,
    scale: float,
    causal: bool = False,
    alone_is_nan: bool = False,
    weights: Ref | None = None,
) -> None:
    """Adds the step for (queries, keys, depth, columns) of a stack of heads, operands being query, key, value and output."""
    queries, keys, depth, columns = sizes
    shares = choose_shares(math.prod(stack), (queries, keys, columns), lowering.target)
    query, key, value, output = operands
    spec = AttentionSpec(
        tuple(stack), queries, keys, depth, columns, query.matrix, key.matrix, value.matrix, output.matrix,
        tuple(Mask(mask.matrix, kind, count) for mask, kind, count in masks), causal, scale, alone_is_nan, weights is not None,
        lowering.target.lanes, *shares,
    )  # fmt: skip
    refs = [query.ref, key.ref, value.ref, *(mask.ref for mask, _, _ in masks), output.ref]
    lowering.add(spec, *refs, *([] if weights is None else [weights]), writes=3 + len(masks))


# ------------------------------------------------------------------------------------------- attention alone


@lowers(ScaledDotProductAttention, any_dtype=True)
def lower_attention(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Operands are read where they lie; heads that share keys do so by a stride of 0."""
    layer, output = operator.layer, operator.output_operands[0]
    assert isinstance(layer, ScaledDotProductAttention) and operator.binding is not None
    named = {
        name: operator.input_operands_seq[source.index]
        for name, source in operator.binding.named.items()
        if isinstance(source, FromInput)
    }
    if not {"query", "key", "value"} <= named.keys() or not _are_compilable(lowering, named):
        return False
    result = lowering.spec(output).shape
    shapes = {name: lowering.spec(operand).shape for name, operand in named.items()}
    stack, (queries, columns) = result[:-2], result[-2:]
    depth, keys = shapes["query"][-1], shapes["key"][-2]
    if 0 in (*result, depth, keys):
        return False
    repeat = 1
    if layer.enable_gqa:
        heads = {shapes[name][-3] for name in ("key", "value")}
        if len(heads) > 1:
            return False
        repeat = stack[-1] // heads.pop()

    def heads_of(name: str) -> Heads:
        place = lowering.strided(named[name])
        own = broadcast_strides(shapes[name], place.strides, len(result))
        rows = place.strides[-2:] if name != "attn_mask" else own[-2:]
        return Heads(place.ref, (*_split(own[:-2], repeat, name in ("key", "value")), *rows))

    masks = []
    if "attn_mask" in named:
        kind = "add" if lowering.spec(named["attn_mask"]).dtype is f32 else "keep"
        masks.append((heads_of("attn_mask"), kind, keys))
    operands = [heads_of(name) for name in ("query", "key", "value")]
    strides = row_major(result)
    target = Heads(lowering.new_rows(output), (*_split(strides[:-2], repeat, False), *strides[-2:]))
    add_attention(
        lowering,
        (*stack[:-1], stack[-1] // repeat, repeat) if repeat > 1 else stack,
        (queries, keys, depth, columns),
        (operands[0], operands[1], operands[2], target),
        masks,
        scale=1 / math.sqrt(depth) if layer.scale is None else layer.scale,
        causal=layer.is_causal,
    )
    return True


def _split(strides: tuple[int, ...], repeat: int, is_shared: bool) -> tuple[int, ...]:
    """Strides of a stack whose last dimension, the heads, became two: groups of `repeat` heads that share keys, and heads."""
    if repeat == 1:
        return strides
    return (*strides[:-1], strides[-1], 0) if is_shared else (*strides[:-1], strides[-1] * repeat, strides[-1])


def _are_compilable(lowering: Lowering, named: dict[str, RuntimeOperand]) -> bool:
    """Whether embeddings are float32, masks that or bool."""
    return all(
        lowering.spec(operand).dtype is f32 or (name.endswith("mask") and lowering.spec(operand).dtype is bool_)
        for name, operand in named.items()
    )


# ------------------------------------------------------------------------------------------- with projections


@lowers(MultiheadAttention, any_dtype=True)
def lower_multihead_attention(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Projections (one product for operands that are the same), attention, and the projection of its result."""
    layer = operator.layer
    assert isinstance(layer, MultiheadAttention)
    named = _named_operands(lowering, operator)
    query = named["query"]
    key = named.get("key", query)
    shapes = [lowering.spec(operand).shape for operand in (query, key)]
    if not _are_compilable(lowering, named) or 0 in (*shapes[0], *shapes[1]):
        return False
    batch, queries, keys = (size or 1 for size in layer.sizes(*shapes))
    size, count = layer.embed_dim, layer.num_heads
    projections = _project(lowering, operator, (query, key, named.get("value", key)))
    outputs = dict(zip(layer.choose_outputs(tuple(named)), operator.output_operands, strict=True))
    scores = (batch, count, queries, keys + layer.add_bias_kv + layer.add_zero_attn)
    weights = None
    if "head_weights" in outputs:
        weights = lowering.new_rows(outputs["head_weights"])
    elif "weights" in outputs:
        weights = lowering.temporary(4 * math.prod(scores))
    joined = lowering.temporary(4 * batch * queries * size)
    sample, row = _rows_of(layer, shapes[0], queries, size)
    heads = [Heads(ref, (step, size // count, row, 1)) for ref, step, row in projections]
    add_attention(
        lowering,
        (batch, count),
        (queries, scores[3], size // count, size // count),
        (heads[0], heads[1], heads[2], Heads(joined, (sample, size // count, row, 1))),
        _masks(lowering, named, (batch, count, queries, keys)),
        scale=1 / math.sqrt(size // count),
        alone_is_nan=tuple(outputs) != ("output",),
        weights=weights,
    )
    if "weights" in outputs:
        assert weights is not None
        mean = plan_reduction("mean", scores, row_major(scores), (1,), lowering.target.lanes)
        assert mean is not None
        lowering.add(mean, weights, lowering.new_rows(outputs["weights"]))
    if "output" in outputs:
        weight, bias = (_weight(operator, f"out_proj.{name}") for name in ("weight", "bias"))
        assert weight is not None
        steps = row_major(shapes[0])
        place = Factor(lowering.new_rows(outputs["output"]), steps)
        add_product(lowering, shapes[0], size, Factor(joined, steps), weight.T, place, bias)
    return True


def _rows_of(layer: MultiheadAttention, shape: tuple[int, ...], length: int, width: int) -> tuple[int, int]:
    """Floats from sample to sample and from row to row, where rows of `width` floats lie in the order of an operand."""
    if len(shape) == 2:
        return 0, width
    return (length * width, width) if layer.batch_first else (width, shape[1] * width)


def _named_operands(lowering: Lowering, operator: RuntimeOperator) -> dict[str, RuntimeOperand]:
    """The inputs by the names of their arguments, in the order of the file."""
    layer, binding = operator.layer, operator.binding
    assert isinstance(layer, MultiheadAttention) and binding is not None

    def operand(source: Any) -> RuntimeOperand:
        assert isinstance(source, FromInput)
        return operator.input_operands_seq[source.index]

    inputs = [operand(source) for source in binding.arguments]
    keyed = {name: operand(source) for name, source in binding.named.items() if isinstance(source, FromInput)}
    specs = [lowering.spec(one) for one in inputs]
    _, names = layer.read_operands(specs, {name: lowering.spec(one) for name, one in keyed.items()})
    return dict(zip(names, [*inputs, *keyed.values()], strict=True))


def _weight(operator: RuntimeOperator, name: str) -> Array | None:
    attribute = operator.attributes.get(name)
    return None if attribute is None else as_float32(attribute.data)


def _project(
    lowering: Lowering, operator: RuntimeOperator, operands: tuple[RuntimeOperand, RuntimeOperand, RuntimeOperand]
) -> list[tuple[Ref, int, int]]:
    """Where the projections of query, key and value lie, and floats from sample to sample and from row to row there."""
    layer = operator.layer
    assert isinstance(layer, MultiheadAttention)
    packed, bias = _weight(operator, "in_proj_weight"), _weight(operator, "in_proj_bias")
    parts = [_weight(operator, f"{name}_proj_weight") for name in "qkv"] if packed is None else np.split(packed, 3)
    biases = [None] * 3 if bias is None else np.split(bias, 3)
    added = _added_rows(operator)
    found: list[tuple[Ref, int, int]] = []
    while len(found) < 3:
        first = len(found)
        last = first + 1
        while last < 3 and operands[last] is operands[first] and (first > 0 or not len(added)):
            last += 1
        weight = np.concatenate(parts[first:last])  # type: ignore[arg-type]
        joined = None if bias is None else np.concatenate(biases[first:last])  # type: ignore[arg-type]
        rows = added[:0, 0]
        if first > 0:
            rows = added[:, first - 1 : last - 1].reshape(len(added), (last - first) * layer.embed_dim)
        ref, sample, row = _add_projection(lowering, layer, operands[first], weight, joined, rows)
        found += [(ref.further(4 * layer.embed_dim * number), sample, row) for number in range(last - first)]
    return found


def _added_rows(operator: RuntimeOperator) -> Array:
    """What is put behind all keys and values: (rows, 2, E)."""
    layer = operator.layer
    assert isinstance(layer, MultiheadAttention)
    rows = []
    if layer.add_bias_kv:
        rows.append([_weight(operator, name).reshape(-1) for name in ("bias_k", "bias_v")])  # type: ignore[union-attr]
    if layer.add_zero_attn:
        rows.append([np.zeros(layer.embed_dim, np.float32)] * 2)
    return np.asarray(rows, np.float32).reshape(len(rows), 2, layer.embed_dim)


def _add_projection(
    lowering: Lowering,
    layer: MultiheadAttention,
    operand: RuntimeOperand,
    weight: Array,
    bias: Array | None,
    added: Array,
) -> tuple[Ref, int, int]:
    """Adds the product of an operand with a weight, and further rows (count, width) for each sample."""
    shape, width = lowering.spec(operand).shape, len(weight)
    batch, _, length = (size or 1 for size in layer.sizes(shape, shape))
    total = length + len(added)
    ref = lowering.temporary(4 * batch * total * width)
    sample, row = _rows_of(layer, shape, total, width)
    steps = (row,) if len(shape) == 2 else (sample, row) if layer.batch_first else (row, sample)
    source = lowering.strided(operand)
    factor, place = Factor(source.ref, source.strides), Factor(ref, (*steps, 1))
    add_product(lowering, (*shape[:-1], width), shape[-1], factor, weight.T, place, bias)
    if len(added):
        copy = plan_copy(
            (batch, len(added), width), (0, width, 1), (sample, row, 1), added.itemsize, lowering.target.lanes
        )
        lowering.add(copy, lowering.constant(np.ascontiguousarray(added)), ref.further(4 * length * row))
    return ref, sample, row


def _masks(
    lowering: Lowering, named: dict[str, RuntimeOperand], scores: tuple[int, int, int, int]
) -> list[tuple[Heads, str, int]]:
    """Masks in the dimensions of the scores, (batch, heads, queries, keys)."""
    _, count, queries, keys = scores
    masks = []
    for name in ("attn_mask", "key_padding_mask"):
        if name not in named:
            continue
        spec = lowering.spec(named[name])
        if name == "key_padding_mask":
            strides = (keys if spec.ndim == 2 else 0, 0, 0, 1)
        else:
            strides = (0, 0, keys, 1) if spec.ndim == 2 else (count * queries * keys, queries * keys, keys, 1)
        masks.append((Heads(lowering.rows(named[name]), strides), "add" if spec.dtype is f32 else "drop", keys))
    return masks
