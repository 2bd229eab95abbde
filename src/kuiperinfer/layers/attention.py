"""Attention: every query takes a mean of the values, weighted by how well their keys fit it."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import Array, TensorSpec, broadcast_shapes
from ..errors import ShapeError
from ..records import dataclass
from .base import Ints, Layer, register
from .checks import expect_dimensions, expect_kind, factor_dtype
from .softmax import softmax


def attention_weights(query: Array, key: Array, scale: float, bias: Array | None, without_keys: float) -> Array:
    """softmax(query key^T scale + bias) over the keys. (*, L, E), (*, S, E) -> (*, L, S)

    The weights of a query for which all scores are -inf, because masks leave it no key, are `without_keys`.
    """
    scores = (query * scale) @ key.swapaxes(-1, -2)
    if bias is not None:
        scores = scores + bias
    weights = softmax(scores, -1)
    alone = np.isneginf(scores).all(-1, keepdims=True)
    return np.where(alone, weights.dtype.type(without_keys), weights)


@register("F.scaled_dot_product_attention")
@dataclass(frozen=True, kw_only=True)
class ScaledDotProductAttention(Layer):
    """softmax(query key^T scale + attn_mask) value. (*, L, E), (*, S, E), (*, S, V) -> (*, L, V)

    attn_mask (L, S) and what broadcasts to (*, L, S): False or -inf keeps a query from a key; `is_causal` does so for keys
    that come later. A query that is left without keys gets zeros. With `enable_gqa` several heads of the query, dimension -3,
    share one of key and value. torch.nn.functional.scaled_dot_product_attention
    """

    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    ignored = frozenset({"dropout_p"})

    def infer(
        self, query: TensorSpec, key: TensorSpec, value: TensorSpec, attn_mask: TensorSpec | None = None
    ) -> TensorSpec:
        for name, spec in {"query": query, "key": key, "value": value}.items():
            expect_kind(spec, "float", what=name)
            expect_dimensions(spec.shape, 2, name)
        if query.shape[-1] != key.shape[-1]:
            raise ShapeError(f"query and key differ in their last dimension: {query} and {key}")
        if key.shape[-2] != value.shape[-2]:
            raise ShapeError(f"key and value differ in dimension -2: {key} and {value}")
        batch = [spec.shape[:-2] for spec in (query, key, value)]
        if self.enable_gqa:
            batch = [batch[0], *(_with_heads(batch[0], shape) for shape in batch[1:])]
        scores = (*broadcast_shapes(*batch[:2]), query.shape[-2], key.shape[-2])
        if attn_mask is not None:
            expect_kind(attn_mask, "bool", "float", what="attn_mask")
            if attn_mask.ndim < 2 or broadcast_shapes(attn_mask.shape, scores) != scores:
                raise ShapeError(f"attn_mask: expected shape {scores} or one that broadcasts to it, found {attn_mask}")
        shape = (*broadcast_shapes(scores[:-2], batch[2]), query.shape[-2], value.shape[-1])
        return TensorSpec(shape, factor_dtype(query, key, value))

    def forward(self, query: Array, key: Array, value: Array, attn_mask: Array | None = None) -> Array:
        if self.enable_gqa:
            key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
        scale = 1 / math.sqrt(max(query.shape[-1], 1)) if self.scale is None else self.scale
        bias = attn_mask
        if attn_mask is not None and attn_mask.dtype == np.bool_:
            bias = np.where(attn_mask, query.dtype.type(0), query.dtype.type(-np.inf))
        if self.is_causal:
            causal = np.triu(np.full((query.shape[-2], key.shape[-2]), -np.inf, query.dtype), 1)
            bias = causal if bias is None else bias + causal
        return np.asarray(attention_weights(query, key, scale, bias, without_keys=0.0) @ value)


def _with_heads(query: Ints, shared: Ints) -> Ints:
    """The batch shape of a key or value after each of its heads was repeated for those of the query that share it."""
    if not query or not shared:
        raise ShapeError("enable_gqa: expected tensors with heads, that is with at least 3 dimensions")
    if shared[-1] == 0 or query[-1] % shared[-1]:
        raise ShapeError(f"enable_gqa: {query[-1]} heads of the query cannot share {shared[-1]} of key or value")
    return (*shared[:-1], query[-1])
