"""Gathering, scattering, masks and embeddings against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import InputError, KuiperError, ModelFileError, ShapeError

from .harness import ALL_DTYPES, Case, check, check_like_torch, random, run

T = torch.tensor
X = random(3, 4)
NAMES = ["input", "index"]

INPUTS = {
    "3x4": X,
    "0d": T(5.0),
    "1d": random(4),
    "no rows": torch.zeros(0, 3),
    "3d": random(2, 3, 4),
    "turned": random(4, 3).t(),
}
INDICES: dict[str, torch.Tensor] = {
    "row": T([[0, 1]]),
    "longer": T([[0, 1, 2, 0], [2, 2, 2, 2], [0, 0, 0, 0], [1, 0, 1, 0], [2, 1, 0, 0]]),
    "wider": torch.zeros(2, 7, dtype=torch.long),
    "vector": T([1, 0]),
    "0d": T(0),
    "empty": torch.zeros(0, dtype=torch.long),
    "no rows": torch.zeros(0, 9, dtype=torch.long),
    "negative": T([[-1]]),
    "too large": T([[3, 4]]),
    "i32": T([[1, 0]], dtype=torch.int32),
    "i16": T([[1, 0]], dtype=torch.int16),
    "float": T([[1.0]]),
    "3d": torch.zeros(2, 1, 2, dtype=torch.long),
}


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
@pytest.mark.parametrize("label", INDICES)
def test_gather(label: str, dim: int) -> None:
    index = INDICES[label]
    for x in INPUTS.values():
        check_like_torch(
            Case("torch.gather", lambda x, i: torch.gather(x, dim, i), [x, index], {"dim": dim}, names=NAMES)
        )
        check_like_torch(
            Case(
                "torch.index_select", lambda x, i: torch.index_select(x, dim, i), [x, index], {"dim": dim}, names=NAMES
            )
        )


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
@pytest.mark.parametrize("label", INDICES)
def test_scatter(label: str, dim: int) -> None:
    index = INDICES[label]
    names = ["input", "index", "src"]
    for x in INPUTS.values():
        for src in (random(5, 7), random(2), random(1, 2), T(2.0), random(2, 3, 4), random(5, 7).int()):
            check_like_torch(
                Case(
                    "torch.scatter_add",
                    lambda x, i, s: torch.scatter_add(x, dim, i, s),
                    [x, index, src],
                    {"dim": dim},
                    names=names,
                )
            )
        check_like_torch(
            Case("torch.scatter", lambda x, i: torch.scatter(x, dim, i, 2.5), [x, index], {"dim": dim, "src": 2.5})
        )
        check_like_torch(
            Case("torch.scatter", lambda x, i, v: torch.scatter(x, dim, i, 2.5), [x, index, 2.5], {"dim": dim},
                 names=["input", "index", "value"])
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_scatter_writes_and_combines() -> None:
    index = T([[2, 0, 1, 1]])
    src = random(2, 4)
    check(Case("torch.scatter", lambda x, i, s: x.scatter(0, i, s), [X, index, src], {"dim": 0}))
    for reduce in ("add", "multiply"):
        params = {"dim": 0, "reduce": reduce}
        check(Case("torch.scatter", lambda x, i, s, r=reduce: x.scatter(0, i, s, reduce=r), [X, index, src], params))
        check(
            Case(
                "torch.scatter",
                lambda x, i, r=reduce: x.scatter(0, i, 2.0, reduce=r),
                [X, index],
                {**params, "src": 2.0},
            )
        )
    with pytest.raises(InputError, match="reduce: expected 'add' or 'multiply', found 'mean'"):
        run(Case("torch.scatter", torch.clone, [X, index, src], {"dim": 0, "reduce": "mean"}))
    for value in (300, 2.7, 1j, float("inf")):
        for dtype in (torch.uint8, torch.int32, torch.float32):
            x = X.to(dtype)
            check_like_torch(
                Case("torch.scatter", lambda x, i, v=value: x.scatter(0, i, v), [x, index], {"dim": 0, "src": value})
            )


def test_scatter_add_adds_up_what_is_named_twice() -> None:
    index = T([[0, 0, 0, 0], [0, 1, 2, 0], [0, 1, 0, 0], [0, 1, 1, 0]])
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.float16):
        x, src = random(3, 4, dtype=dtype), random(4, 5, dtype=dtype)
        check(Case("torch.scatter_add", lambda x, i, s: x.scatter_add(0, i, s), [x, index, src], {"dim": 0}))


@pytest.mark.parametrize("dtype", [torch.float32, *ALL_DTYPES], ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(3, 4, dtype=dtype)
    index = T([[0, 2, 1, 0]])
    check(Case("torch.gather", lambda x, i: x.gather(0, i), [x, index], {"dim": 0, "sparse_grad": False}))
    check(Case("torch.scatter", lambda x, i, s: x.scatter(0, i, s), [x, index, x], {"dim": 0}))
    check(Case("torch.index_select", lambda x, i: x.index_select(1, i), [x, T([3, 0, 3])], {"dim": 1}))
    check(Case("torch.masked_select", torch.masked_select, [x, X > 0], names=["input", "mask"]))
    check(Case("Tensor.masked_fill", lambda x, m: x.masked_fill(m, 1), [x, X > 0], {"value": 1}))
    check(Case("nn.Embedding", lambda i: x[i], [T([[2, 0], [1, 1]])], weights={"weight": x}))


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
def test_index_add(dim: int) -> None:
    for x in (X, X.int(), T(5.0), random(2, 3, 4)):
        for index in (
            T([0, 2]),
            T([1, 1]),
            T(1),
            T([3]),
            T([-1]),
            T([], dtype=torch.long),
            T([[0]]),
            T([0], dtype=torch.int32),
        ):
            for source in (X[:2], X[:, :2], X[:1], X[0], T(2.0), X[:0], random(2, 3, 1), random(2, 3, 2), X[:2].int()):
                for alpha in (1, 1.5):
                    check_like_torch(
                        Case("aten::index_add", lambda x, i, s, a=alpha: x.index_add(dim, i, s, alpha=a), [x, index, source],
                             {"dim": dim, "alpha": alpha}, names=["input", "index", "source"])
                    )  # fmt: skip


def test_take() -> None:
    for x in (X, T(5.0), torch.zeros(0), random(4, 3).t(), X.bfloat16(), X > 0):
        for index in (
            T([0, 5]),
            T([[-1]]),
            T(0),
            T([12]),
            T([-13]),
            T([], dtype=torch.long),
            T([0], dtype=torch.int32),
        ):
            check_like_torch(Case("aten::take", torch.take, [x, index]))


def test_one_hot() -> None:
    for classes in (-1, 3, 2, 0, -2):
        for x in (T([0, 2]), T(1), T([[0, 1]]), T([-1]), T([], dtype=torch.long), T([1], dtype=torch.int32), T([1.0])):
            check_like_torch(
                Case(
                    "aten::one_hot",
                    lambda x, c=classes: torch.nn.functional.one_hot(x, c),
                    [x],
                    {"num_classes": classes},
                )
            )


# ------------------------------------------------------------------------------------------- masks


def test_masks() -> None:
    for x in (X, X[0], T(1.0), torch.zeros(0, 4)):
        for mask in (
            X > 0,
            X[0] > 0,
            T(True),
            T(False),
            (X > 0)[:, :2],
            X > 9,
            (X > 0).to(torch.uint8),
            X,
            torch.zeros(0, 4) > 0,
        ):
            check_like_torch(Case("torch.masked_select", torch.masked_select, [x, mask], names=["input", "mask"]))
            check_like_torch(
                Case(
                    "Tensor.masked_fill",
                    lambda x, m: x.masked_fill(m, 2.5),
                    [x, mask],
                    {"value": 2.5},
                    names=["input", "mask"],
                )
            )


def test_fill_value_may_be_a_tensor() -> None:
    for x in (X, X.int(), X.to(torch.uint8), X.half()):
        for value in (T(2.5), T(3), T(300), T([2.5]), T(1j), T(1.5, dtype=torch.float64), T(1e9)):
            check_like_torch(
                Case("Tensor.masked_fill", torch.masked_fill, [x, X > 0, value], names=["input", "mask", "value"])
            )


def test_fill_words() -> None:
    for value in (float("-inf"), float("inf"), float("nan")):
        check(Case("Tensor.masked_fill", lambda x, m, v=value: x.masked_fill(m, v), [X, X > 0], {"value": value}))


# ------------------------------------------------------------------------------------------- embeddings

TABLE = random(10, 4)


def embed(indices: torch.Tensor, **params: Any) -> Case:
    return Case("nn.Embedding", lambda i: torch.nn.functional.embedding(i, TABLE), [indices], params, {"weight": TABLE})


@pytest.mark.parametrize(
    "indices",
    [T([[1, 9], [0, 3]]), T([[1, 9]], dtype=torch.int32), T(3), torch.zeros(0, 2, dtype=torch.long), T([10]), T([-1]),
     T([1.0]), T([1], dtype=torch.int16), T([True])],
    ids=str,
)  # fmt: skip
def test_embedding(indices: torch.Tensor) -> None:
    check_like_torch(embed(indices, num_embeddings=10, embedding_dim=4, sparse=False))
    names = ["input", "weight"]
    params = {"scale_grad_by_freq": False, "sparse": False}
    check_like_torch(Case("F.embedding", torch.nn.functional.embedding, [indices, TABLE], params, names=names))
    check_like_torch(Case("F.embedding", torch.nn.functional.embedding, [indices, TABLE[0]], params, names=names))


def test_embedding_parameters() -> None:
    indices = T([1, 2])
    for padding_idx in (0, -1, -10, None):
        check(embed(indices, padding_idx=padding_idx, norm_type=2.0))
    for params, error in [
        ({"max_norm": 1.0}, InputError),
        ({"padding_idx": 10}, InputError),
        ({"num_embeddings": 11}, ShapeError),
        ({"embedding_dim": 5}, ShapeError),
        ({"wrong": 1}, ModelFileError),
    ]:
        with pytest.raises(error):
            run(embed(indices, **params))
    with pytest.raises(InputError, match="input: index 12 is out of range for size 10"):
        run(embed(T([3, 12, 99])))
    with pytest.raises(KuiperError, match="'weight' is missing"):
        run(Case("nn.Embedding", torch.clone, [indices]))
