"""Multi-head attention, and how a file's nameless operands are told apart.

Where the module has a mask, the converter names the last input `attn_mask`, whatever it is, and all others not at all; it
writes the inputs in the order in which PyTorch first touches them, and that is bool masks before everything else:

    query [key [value]]                                          no mask
    query [key [value]] attn_mask                                float masks
    query [key [value]] attn_mask key_padding_mask
    key_padding_mask [attn_mask] query [key [value]]             bool masks
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import InputError, KuiperError, ModelFileError, ShapeError
from ..records import dataclass
from .annotation import AnnotatedLayer, Shape
from .attention import attention_weights
from .base import expect_rank, register
from .checks import expect_kind, factor_dtype

_EMBEDDINGS = ("query", "key", "value")
_MASKS = ("attn_mask", "key_padding_mask")
_RESULTS = ("output", "weights", "head_weights")


@register("nn.MultiheadAttention")
@dataclass(frozen=True, kw_only=True)
class MultiheadAttention(AnnotatedLayer):
    """Attention of several heads, each with its own projection of query, key and value. torch.nn.MultiheadAttention

    query (L, N, E), key (S, N, kdim), value (S, N, vdim), N first with `batch_first`, or all three without N; a missing value
    is the key, a missing key the query. attn_mask (L, S) or (N * num_heads, L, S), key_padding_mask (N, S) or (S): True or
    -inf keeps a query from a key. -> output, as the query; weights (N, L, S), the mean of all heads; head_weights
    (N, num_heads, L, S).

    Outputs may be any of the results, in any order. A query that the masks leave without keys attends to nothing where the
    output alone is asked for, and has NaN where weights are, as in PyTorch.
    """

    embed_dim: int
    num_heads: int
    kdim: int | None = None
    vdim: int | None = None
    batch_first: bool = False
    add_bias_kv: bool = False
    add_zero_attn: bool = False

    operand_aliases: ClassVar[Mapping[str, str]] = {"input": "query"}
    presence: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "bias": ("in_proj_bias", "out_proj.bias"),
        "add_bias_kv": ("bias_k", "bias_v"),
    }
    ignored = frozenset({"dropout"})

    def __post_init__(self) -> None:
        if self.embed_dim < 1 or self.num_heads < 1 or self.embed_dim % self.num_heads:
            raise InputError(f"embed_dim={self.embed_dim} cannot be divided into num_heads={self.num_heads}")

    def infer(
        self,
        *inputs: TensorSpec,
        query: TensorSpec | None = None,
        key: TensorSpec | None = None,
        value: TensorSpec | None = None,
        attn_mask: TensorSpec | None = None,
        **weights: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        operands, names = self.read_operands(
            inputs, {"query": query, "key": key, "value": value, "attn_mask": attn_mask}
        )
        named = dict(zip(names, operands, strict=True))
        self._check_operands(named)
        self._check_weights(weights)
        dtype = factor_dtype(*(named[name] for name in _EMBEDDINGS if name in named), *weights.values())
        query = named["query"]
        shapes = self._result_shapes(query.shape, named.get("key", query).shape)
        outputs = self.choose_outputs(names)
        return tuple(TensorSpec(tuple(dim or 0 for dim in shapes[name]), dtype) for name in outputs)

    def forward(
        self,
        *inputs: Array,
        query: Array | None = None,
        key: Array | None = None,
        value: Array | None = None,
        attn_mask: Array | None = None,
        **weights: Array,
    ) -> tuple[Array, ...]:
        operands, names = self.read_operands(
            inputs, {"query": query, "key": key, "value": value, "attn_mask": attn_mask}
        )
        outputs = self.choose_outputs(names)
        without_keys = 0.0 if outputs == ("output",) else math.nan
        results = self._attend(dict(zip(names, operands, strict=True)), weights, without_keys)
        return tuple(results[name] for name in outputs)

    # ---------------------------------------------------------------------------------------- the meaning

    def _attend(
        self, named: Mapping[str, Array], weights: Mapping[str, Array], without_keys: float
    ) -> dict[str, Array]:
        """All results, each in the layout of the operands."""
        query = named["query"]
        key = named.get("key", query)
        batched = query.ndim == 3
        embeddings = [self._batch_first(x) for x in (query, key, named.get("value", key))]
        query, key, value = (
            x @ weight.T if bias is None else x @ weight.T + bias
            for x, weight, bias in zip(embeddings, *_projections(weights), strict=True)
        )
        if self.add_bias_kv:
            key, value = (_append(x, weights[name]) for x, name in ((key, "bias_k"), (value, "bias_v")))
        query, key, value = (self._heads(x) for x in (query, key, value))
        if self.add_zero_attn:
            key, value = (_append(x, np.zeros(1, x.dtype)) for x in (key, value))

        batch, _, length, size = query.shape
        bias = self._bias(named, batch, key.shape[2], query.dtype)
        weight = attention_weights(query, key, 1 / math.sqrt(size), bias, without_keys)
        joined = (weight @ value).swapaxes(1, 2).reshape(batch, length, self.embed_dim)
        output = joined @ weights["out_proj.weight"].T
        if "out_proj.bias" in weights:
            output = output + weights["out_proj.bias"]
        results = {"output": output, "weights": weight.mean(1), "head_weights": weight}
        if not batched:
            return {name: result[0] for name, result in results.items()}
        return results if self.batch_first else {**results, "output": output.swapaxes(0, 1)}

    def _batch_first(self, x: Array) -> Array:
        """(L, N, E), (N, L, E) or (L, E) -> (N, L, E)"""
        if x.ndim == 2:
            return x[np.newaxis]
        return x if self.batch_first else x.swapaxes(0, 1)

    def _heads(self, x: Array) -> Array:
        """(N, L, E) -> (N, num_heads, L, E / num_heads)"""
        return x.reshape(*x.shape[:2], self.num_heads, self.embed_dim // self.num_heads).swapaxes(1, 2)

    def _bias(self, named: Mapping[str, Array], batch: int, keys: int, dtype: np.dtype[Any]) -> Array | None:
        """What the masks add to the scores, nothing for keys that were added. (N or 1, num_heads or 1, L or 1, S)"""
        total = None
        for name in _MASKS:
            if name not in named:
                continue
            mask = named[name]
            if mask.dtype == np.bool_:
                mask = np.where(mask, dtype.type(-np.inf), dtype.type(0))
            if name == "key_padding_mask":
                mask = mask.reshape(batch, 1, 1, mask.shape[-1])
            elif mask.ndim == 3:
                mask = mask.reshape(batch, self.num_heads, *mask.shape[1:])
            total = mask if total is None else total + mask
        if total is None:
            return None
        added = [(0, 0)] * (total.ndim - 1) + [(0, keys - total.shape[-1])]
        return np.pad(total, added)

    # ---------------------------------------------------------------------------------------- operands

    def read_operands(self, inputs: Sequence[Any], keyed: Mapping[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
        """The operands in the order of the file, and the argument name of each; arrays and specs alike."""
        given = {name: operand for name, operand in keyed.items() if operand is not None}
        if "query" in given and not inputs:
            return list(given.values()), tuple(given)
        if not given.keys() <= {"attn_mask"}:
            raise ModelFileError(f"expected a name for each input or for none but the mask, found {', '.join(given)}")
        operands = [*inputs, *given.values()]
        specs = [TensorSpec.of(x) if isinstance(x, np.ndarray) else x for x in operands]
        return operands, self._read_inputs(specs, masked=bool(given))

    def _read_inputs(self, operands: Sequence[TensorSpec], masked: bool) -> tuple[str, ...]:
        """The argument names of nameless inputs: the first reading of which all shapes fit.

        The annotated shapes decide, where the file has them, lest the meaning hang on the size of a batch.
        """
        annotated = [
            TensorSpec(tuple(dim or 0 for dim in operand.shape), operand.dtype)
            for operand in self.annotated_inputs
            if operand.shape is not None and None not in operand.shape and operand.dtype is not None
        ]
        problem: KuiperError = ModelFileError(f"the meaning of inputs {', '.join(map(str, operands))} is not known")
        for specs in (operands,) if len(annotated) < len(operands) else (annotated, operands):
            for number, names in enumerate(_readings(specs, masked)):
                try:
                    self._check_operands(dict(zip(names, specs, strict=True)))
                    return names
                except KuiperError as error:
                    problem = error if number == 0 else problem
        raise problem

    def _check_operands(self, named: Mapping[str, TensorSpec]) -> None:
        query = named["query"]
        key = named.get("key", query)
        value = named.get("value", key)
        expect_rank(query, 2, 3, what="query")
        sizes = (self.embed_dim, self.kdim or self.embed_dim, self.vdim or self.embed_dim)
        for name, spec, size in zip(_EMBEDDINGS, (query, key, value), sizes, strict=True):
            expect_kind(spec, "float", what=name)
            expect_rank(spec, query.ndim, what=name)
            if spec.shape[-1] != size:
                raise ShapeError(f"{name}: expected {size} as last dimension, found shape {spec.shape}")
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(f"key and value differ in length or batch: {key} and {value}")
        batch, length, keys = self.sizes(query.shape, key.shape)
        if self.sizes(key.shape, key.shape)[0] != batch:
            raise ShapeError(f"query and key differ in batch: {query} and {key}")
        count = () if query.ndim == 2 else (batch,)
        shapes = {
            "attn_mask": ((length, keys), ((batch or 1) * self.num_heads, length, keys)),
            "key_padding_mask": ((*count, keys),),
        }
        for name in (name for name in _MASKS if name in named):
            expect_kind(named[name], "bool", "float", what=name)
            if named[name].shape not in shapes[name]:
                expected = " or ".join(map(str, shapes[name]))
                raise ShapeError(f"{name}: expected shape {expected}, found {named[name]} beside query {query}")

    def _check_weights(self, weights: Mapping[str, TensorSpec]) -> None:
        size, key_size, value_size = self.embed_dim, self.kdim or self.embed_dim, self.vdim or self.embed_dim
        shapes: dict[str, tuple[int, ...]] = {"out_proj.weight": (size, size)}
        if "in_proj_weight" in weights:
            shapes["in_proj_weight"] = (3 * size, size)
            if not size == key_size == value_size:
                raise ShapeError(
                    f"in_proj_weight serves kdim={self.kdim} and vdim={self.vdim} only if they are embed_dim={size}"
                )
        else:
            shapes |= {
                "q_proj_weight": (size, size),
                "k_proj_weight": (size, key_size),
                "v_proj_weight": (size, value_size),
            }
        if self.add_bias_kv:
            shapes |= {"bias_k": (1, 1, size), "bias_v": (1, 1, size)}
        optional = {"in_proj_bias": (3 * size,), "out_proj.bias": (size,)}
        for name, shape in {**shapes, **optional}.items():
            if name in weights and weights[name].shape != shape:
                raise ShapeError(f"weight '{name}': expected shape {shape}, found {weights[name].shape}")
            if name in shapes and name not in weights:
                raise ModelFileError(f"weight '{name}' is missing")
        unknown = [name for name in weights if name not in shapes and name not in optional]
        if unknown:
            raise ModelFileError(f"weight '{unknown[0]}' is unknown to this operator with these parameters")

    # ---------------------------------------------------------------------------------------- results

    def sizes(self, query: Shape, key: Shape) -> tuple[int | None, int | None, int | None]:
        """N, L and S; N is None without a batch."""
        if len(query) == 2:
            return None, query[0], key[0]
        return (query[0], query[1], key[1]) if self.batch_first else (query[1], query[0], key[0])

    def _result_shapes(self, query: Shape, key: Shape) -> dict[str, Shape]:
        """The shapes of all results, for operands of which dimensions may be unknown."""
        batch, length, keys = self.sizes(query, key)
        if keys is not None:
            keys += self.add_bias_kv + self.add_zero_attn
        count: Shape = () if len(query) == 2 else (batch,)
        return {
            "output": (*query[:-1], self.embed_dim),
            "weights": (*count, length, keys),
            "head_weights": (*count, self.num_heads, length, keys),
        }

    def choose_outputs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Which results the outputs are, for inputs of these argument names."""
        query = self.annotated_input(names.index("query")).shape
        key = self.annotated_input(names.index("key")).shape if "key" in names else query
        if query is None or key is None or len(query) != len(key) or len(query) not in (2, 3):
            return self.choose_results(dict.fromkeys(_RESULTS))
        return self.choose_results(self._result_shapes(query, key))


def _projections(weights: Mapping[str, Array]) -> tuple[list[Array], list[Array | None]]:
    """Weights and biases of query, key and value."""
    packed, bias = weights.get("in_proj_weight"), weights.get("in_proj_bias")
    matrices = [weights[f"{name}_proj_weight"] for name in "qkv"] if packed is None else np.split(packed, 3)
    return matrices, [None] * 3 if bias is None else list(np.split(bias, 3))


def _append(x: Array, last: Array) -> Array:
    """x with one more entry in dimension -2, the same everywhere."""
    shape = (*x.shape[:-2], 1, x.shape[-1])
    return np.concatenate([x, np.broadcast_to(last, shape)], axis=-2)


def _readings(inputs: Sequence[TensorSpec], masked: bool) -> Iterator[tuple[str, ...]]:
    """What nameless inputs could be, likeliest first, by the order in which the converter writes them."""
    bools = [index for index, spec in enumerate(inputs) if spec.dtype.kind == "bool"]
    others = [index for index, spec in enumerate(inputs) if spec.dtype.kind != "bool"]
    for trailing in (0, 1, 2) if masked else (0,):
        masks = [*bools, *others[len(others) - trailing :]]
        embeddings = others[: len(others) - trailing]
        if not 1 <= len(embeddings) <= 3 or len(masks) > 2 or (masked and not masks):
            continue
        orders = list(itertools.permutations(_MASKS, len(masks)))
        if len(masks) == 2 and bools:
            orders.reverse()
        for order in orders:
            names = {**dict(zip(embeddings, _EMBEDDINGS, strict=False)), **dict(zip(masks, order, strict=True))}
            yield tuple(names[index] for index in range(len(inputs)))
