"""Attention against its reference."""

import math

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.attention import AttentionSpec, Mask
from kuiperinfer.codegen.layout import Matrix
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, check_operator, kernels, random

SDPA = "F.scaled_dot_product_attention"


def operands(queries, keys, depth, columns=None, stack=(2, 3)):
    sizes = ((queries, depth), (keys, depth), (keys, columns or depth))
    return [random(*stack, *size, seed=seed) for seed, size in enumerate(sizes)]


def masked(names, inputs, params=None, **options):
    """Operands that are named in the file."""
    return check_operator(SDPA, inputs, params or {}, names=names, **options)


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (1, 7, 4), (3, 5, 8), (4, 16, 16), (17, 15, 16), (16, 33, 20), (50, 50, 64), (70, 9, 33, 18)],
    ids=str,
)
def test_attention(sizes):
    plan = check_operator(SDPA, operands(*sizes))
    assert kernels(plan) == ["AttentionSpec"]


def test_stacks():
    check_operator(SDPA, operands(9, 20, 8, stack=()), targets=TARGETS[-1:])
    check_operator(SDPA, operands(9, 20, 8, stack=(4,)), targets=TARGETS[-1:])
    query, key, value = operands(9, 20, 8, stack=(2, 3))
    check_operator(SDPA, [query, key[:1].copy(), value[:, :1].copy()], targets=TARGETS[-1:])
    check_operator(SDPA, [query, key[0].copy(), value[0].copy()], targets=TARGETS[-1:])


def test_scale_and_causal():
    for sizes in ((9, 20, 8), (33, 20, 8), (40, 40, 16)):
        check_operator(SDPA, operands(*sizes), {"scale": 0.7})
        check_operator(SDPA, operands(*sizes), {"is_causal": True})


@pytest.mark.parametrize("shape", [(9, 20), (2, 1, 9, 20), (2, 3, 9, 20), (1, 20), (9, 1), (3, 1, 20)], ids=str)
def test_masks(shape):
    named = ["query", "key", "value", "attn_mask"]
    added = 2 * random(*shape, seed=9)
    masked(named, [*operands(9, 20, 8), added])
    masked(named, [*operands(9, 20, 8), added > 0], targets=TARGETS[-1:])
    added[added < 0] = -np.inf
    masked(named, [*operands(9, 20, 8), added], {"is_causal": True}, targets=TARGETS[-1:])


def test_a_query_without_keys_gets_zeros():
    mask = np.ones((9, 20), bool)
    mask[4] = False
    masked(["query", "key", "value", "attn_mask"], [*operands(9, 20, 8), mask])


def test_heads_that_share_keys():
    query, _, _ = operands(9, 20, 8, stack=(2, 6))
    for heads in (1, 2, 3, 6):
        _, key, value = operands(9, 20, 8, stack=(2, heads))
        check_operator(SDPA, [query, key, value], {"enable_gqa": True}, targets=TARGETS[-1:])
        mask = random(2, 6, 9, 20)
        masked(
            ["query", "key", "value", "attn_mask"],
            [query, key, value, mask],
            {"enable_gqa": True},
            targets=TARGETS[-1:],
        )


def test_permuted_operands_are_read_where_they_lie():
    inputs = [random(2, 30, 3, 16, seed=seed) for seed in range(3)]
    lines = [("Tensor.permute", f"p{i}", f"x{i}", f"t{i}", {"dims": (0, 2, 1, 3)}) for i in range(3)]
    plan = check_graph(inputs, [*lines, (SDPA, "op", "t0 t1 t2", "y0")], ["y0"])
    assert kernels(plan) == ["AttentionSpec"]


def test_numbers_that_are_none_or_infinite():
    query, key, value = operands(9, 20, 8)
    query[0, 0, 3, 2], query[0, 1, 4, 0] = np.nan, np.inf
    value[1, 0, 5, 5] = np.nan
    check_operator(SDPA, [query, key, value])


def test_threads_and_shares():
    check_operator(SDPA, operands(130, 90, 32, stack=(2,)), threads=2, targets=["host"])
    check_operator(SDPA, operands(300, 700, 16, stack=()), {"is_causal": True}, threads=2, targets=["host"])


# ------------------------------------------------------------------------------------------- with projections

EMBED = 24


def attention_weights(*, bias=True, kdim=EMBED, vdim=EMBED):
    weights = {"out_proj.weight": random(EMBED, EMBED, seed=1) / 5}
    if kdim == vdim == EMBED:
        weights["in_proj_weight"] = random(3 * EMBED, EMBED, seed=2) / 5
    else:
        sizes = {"q": EMBED, "k": kdim, "v": vdim}
        weights |= {f"{n}_proj_weight": random(EMBED, size, seed=3) / 5 for n, size in sizes.items()}
    if bias:
        weights |= {"in_proj_bias": random(3 * EMBED, seed=4), "out_proj.bias": random(EMBED, seed=5)}
    return weights


def multihead(inputs, params=None, weights=None, names=None, **options):
    given = {"embed_dim": EMBED, "num_heads": 3, "bias": True, "batch_first": True} | (params or {})
    return check_operator(
        "nn.MultiheadAttention", inputs, given, weights or attention_weights(), names=names, **options
    )


def test_self_attention():
    plan = multihead([random(2, 10, EMBED)])
    assert kernels(plan) == ["MatrixProductSpec", "AttentionSpec", "MatrixProductSpec"]
    multihead([random(10, 2, EMBED)], {"batch_first": False})
    multihead([random(10, EMBED)])
    multihead([random(2, 10, EMBED)], {"bias": False}, attention_weights(bias=False))


@pytest.mark.parametrize("batch_first", [True, False])
def test_cross_attention(batch_first):
    query, key, value = random(2, 10, EMBED), random(2, 17, EMBED, seed=1), random(2, 17, EMBED, seed=2)
    if not batch_first:
        query, key, value = (np.ascontiguousarray(x.swapaxes(0, 1)) for x in (query, key, value))
    plan = multihead([query, key], {"batch_first": batch_first})
    assert kernels(plan) == ["MatrixProductSpec"] * 2 + ["AttentionSpec", "MatrixProductSpec"]
    multihead([query, key, value], {"batch_first": batch_first})


def test_other_sizes_of_keys_and_values():
    weights = attention_weights(kdim=10, vdim=14)
    inputs = [random(2, 10, EMBED), random(2, 17, 10), random(2, 17, 14)]
    multihead(inputs, {"kdim": 10, "vdim": 14}, weights)


@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_of_the_module(batch_first):
    query = random(2, 10, EMBED)
    if not batch_first:
        query = np.ascontiguousarray(query.swapaxes(0, 1))
    params = {"batch_first": batch_first}
    mask = 2 * random(10, 10)
    padding = random(2, 10) > 1
    # as the converter writes them: the last one is called attn_mask, whatever it is
    for inputs in (
        [query, mask],
        [query, random(6, 10, 10)],
        [query, mask, 2 * random(2, 10)],
        [padding, query],
        [padding, mask > 1, query],
    ):
        targets = TARGETS if batch_first else TARGETS[-1:]
        multihead(inputs, params, names=[*[None] * (len(inputs) - 1), "attn_mask"], targets=targets)


@pytest.mark.parametrize("batch_first", [True, False])
def test_weights_of_the_module(batch_first):
    query = random(2, 10, EMBED)
    if not batch_first:
        query = np.ascontiguousarray(query.swapaxes(0, 1))
    plan = multihead([query], {"batch_first": batch_first}, outputs=2)
    assert kernels(plan) == ["MatrixProductSpec", "AttentionSpec", "ReduceSpec", "MatrixProductSpec"]
    multihead([random(10, EMBED)], outputs=2)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("added", [("add_bias_kv",), ("add_zero_attn",), ("add_bias_kv", "add_zero_attn")], ids=str)
def test_added_keys(batch_first, added):
    params = {"batch_first": batch_first, **dict.fromkeys(added, True)}
    weights = attention_weights()
    if "add_bias_kv" in added:
        weights |= {"bias_k": random(1, 1, EMBED, seed=8), "bias_v": random(1, 1, EMBED, seed=9)}
    query, key = random(2, 10, EMBED), random(2, 17, EMBED, seed=1)
    if not batch_first:
        query, key = (np.ascontiguousarray(x.swapaxes(0, 1)) for x in (query, key))
    targets = TARGETS if batch_first else TARGETS[-1:]
    multihead([query], params, weights, targets=targets)
    multihead([query, key], params, weights, outputs=2, targets=targets)
    multihead([random(10, EMBED)], params, weights, targets=TARGETS[-1:])
    for mask in (random(10, 10), random(10, 10) > 0):
        order = [mask, query] if mask.dtype == bool else [query, mask]
        multihead(order, params, weights, names=[None, "attn_mask"], targets=TARGETS[-1:])


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    layout = Matrix(16, 1, (160,))
    mask = Mask(Matrix(10, 1, (0,)), "keep", 10)
    spec = AttentionSpec(
        (3,), 10, 10, 16, 16, layout, layout, layout, layout, (mask,), True, 1 / math.sqrt(16), False, False,
        target.lanes, 4, 3, 3, 10,
    )  # fmt: skip
    assert "fmla\tv" in assembly_of(spec.module("k", target), target)
