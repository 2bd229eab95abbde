"""Indexing by tensors and masks against PyTorch's aten::index and aten::index_put."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, ExpressionError, InputError, KuiperError, ModelFileError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.base import apply
from kuiperinfer.layers.binding import bind

from .harness import ALL_DTYPES, Case, assert_equal, check, check_like_torch, random, run

T = torch.tensor
X = random(3, 4, 5)
MASK = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
PAIR, TRIPLE = T([2, 0]), T([0, 1, 1])

INDICES: dict[str, list[Any]] = {
    "first": [PAIR],
    "second": [None, PAIR],
    "last": [None, None, PAIR],
    "neighbours": [PAIR, PAIR],
    "neighbours later": [None, PAIR, PAIR],
    "apart": [PAIR, None, PAIR],
    "all": [PAIR, PAIR, PAIR],
    "broadcast": [T([[0], [1]]), TRIPLE],
    "broadcast apart": [T([[0], [1]]), None, TRIPLE],
    "not broadcast": [PAIR, TRIPLE],
    "zero-dim": [T(1)],
    "zero-dim later": [None, T(1)],
    "zero-dim apart": [T(1), None, PAIR],
    "zero-dim both": [T(1), T(2)],
    "negative": [T([-1, -3])],
    "too large": [T([3])],
    "too small": [T([-4])],
    "no indices": [T([], dtype=torch.long)],
    "matrix": [T([[0, 1], [2, 0]])],
    "i32": [PAIR.int()],
    "i32 and i64": [PAIR.int(), PAIR],
    "i16": [PAIR.short()],
    "float": [PAIR.float()],
    "mask of one": [T([True, False, True])],
    "mask of two": [MASK],
    "mask of three": [X > 0],
    "mask later": [None, T([True, False, True, True])],
    "mask and index": [T([True, False, True]), PAIR],
    "mask and a number": [None, MASK[0], T(1)],
    "two masks": [T([True, False, True]), T([False, True, True, False])],
    "masks differ": [T([True, False, True]), T([True, True, True, False])],
    "mask apart": [T([True, False, True]), None, T([True, False, True, False, False])],
    "nothing masked": [T([False] * 3)],
    "mask too short": [T([True, False])],
    "mask too wide": [MASK[:, :3]],
    "zero-dim mask": [T(True)],
    "u8 mask": [T([1, 0, 1], dtype=torch.uint8)],
    "too many": [PAIR, PAIR, PAIR, PAIR],
    "none at all": [],
    "nothing but None": [None, None],
    "None behind": [PAIR, None, None],
}


def reference_index(x: torch.Tensor, indices: list[Any]) -> torch.Tensor:
    return torch.ops.aten.index(x, indices)  # type: ignore[no-any-return]


@pytest.mark.parametrize("label", INDICES)
def test_index(label: str) -> None:
    indices = INDICES[label]
    for x in (X, random(5, 4, 3).permute(2, 1, 0), random(3, 4, 5, 2)):
        check_like_torch(Case("Tensor.index", reference_index, [x, indices], names=["input", "expr"]))


@pytest.mark.parametrize("dtype", [torch.float32, *ALL_DTYPES], ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(3, 4, dtype=dtype)
    for indices in ([PAIR], [PAIR, PAIR], [T(1), T(2)], [MASK]):
        check(Case("Tensor.index", reference_index, [x, indices]))
        values = reference_index(x, indices).flip(0) if reference_index(x, indices).ndim else x[0, 0]
        check(
            Case(
                "Tensor.index_put", torch.ops.aten.index_put, [x, indices, values], names=["input", "indices", "values"]
            )
        )


def test_nothing_to_index() -> None:
    check(Case("Tensor.index", reference_index, [torch.zeros(0, 3), [T([], dtype=torch.long)]]))
    for x, indices in [(torch.zeros(0, 3), [T([0])]), (T(1.0), [T(0)]), (T(1.0), [T(True)])]:
        check_like_torch(Case("Tensor.index", reference_index, [x, indices]))


@given(st.data())
def test_any_indices(data: st.DataObject) -> None:
    x = torch.arange(2.0 * 3 * 4).reshape(2, 3, 4)
    indices: list[Any] = []
    for size in data.draw(st.sampled_from([x.shape[:1], x.shape[:2], x.shape])):
        shape = data.draw(st.sampled_from([None, (), (1,), (2,), (3, 1), (1, 2), (3, 2), (0,)]))
        seed = data.draw(st.integers(0, 99))
        index = (
            None if shape is None else torch.randint(-size, size, shape, generator=torch.Generator().manual_seed(seed))
        )
        indices.append(index)
    check_like_torch(Case("Tensor.index", reference_index, [x, indices]))


# ------------------------------------------------------------------------------------------- constants of the file

TEXTS: dict[str, list[Any]] = {
    "[[0,1],None,[1,0]]": [T([0, 1]), None, T([1, 0])],
    "[None,[True,False,True,True]]": [None, T([True, False, True, True])],
    "[[2,-1,0]]": [T([2, -1, 0])],
    "[[[0,1],[2,0]],[1]]": [T([[0, 1], [2, 0]]), T([1])],
    "[None,None,[]]": [None, None, T([], dtype=torch.long)],
    "[2,1]": [T(2), T(1)],
    "[[3]]": [T([3])],
}


@pytest.mark.parametrize("text", TEXTS)
def test_constant_index(text: str) -> None:
    check_like_torch(Case("Tensor.index", lambda x: reference_index(x, TEXTS[text]), [X], {"expr": text}))
    check_like_torch(
        Case(
            "Tensor.index_put",
            lambda x: torch.ops.aten.index_put(x, TEXTS[text], T(2.5)),
            [X],
            {"indices": text, "values": 2.5},
        )
    )


def test_constant_index_of_many_elements() -> None:
    index = torch.randint(0, 3, (20000,))
    check(Case("Tensor.index", lambda x: x[index], [X], {"expr": f"[[{','.join(map(str, index.tolist()))}]]"}))


@pytest.mark.parametrize(
    "text",
    ["[[0,1]", "[[0.5]]", "[a]", "[[0],[[1],[2,3]]]", "None", "3", "{}", "[" * 100000, "[[99999999999999999999]]"],
)
def test_broken_constants(text: str) -> None:
    with pytest.raises(KuiperError):
        run(Case("Tensor.index", torch.clone, [X], {"expr": text}))


def test_index_that_the_converter_has_cut_off() -> None:
    """x[[[1, 2], [0, 1]]] is written as [[1,2]]; only the annotation still knows of two dimensions."""
    binding = bind(
        "Tensor.index",
        input_names=["input"],
        params={"expr": "[[1,2]]"},
        annotated_outputs=[Annotation((2, 2, 4, 5), None)],
    )
    with pytest.raises(ModelFileError, match="the converter has lost a part of it"):
        apply(binding.layer, [], {"input": X.numpy()})
    binding = bind(
        "Tensor.index",
        input_names=["input"],
        params={"expr": "[[1,2]]"},
        annotated_outputs=[Annotation((None,) * 3, None)],
    )
    (found,) = apply(binding.layer, [], {"input": X.numpy()})
    assert_equal(found, X[[1, 2]].numpy())
    with pytest.raises((ExpressionError, InputError)):
        run(Case("Tensor.index", torch.clone, [X], {"expr": "[]"}))


def test_messages() -> None:
    def refusal(indices: list[Any]) -> str:
        with pytest.raises(KuiperError) as caught:
            run(Case("Tensor.index", torch.clone, [X, indices]))
        return str(caught.value)

    assert refusal([None, T([1, 7])]) == "dimension 1: index 7 is out of range for size 4"
    assert "mask 0 of shape (2,) does not fit dimensions of shape (3,)" in refusal([T([True, False])])
    assert "expected a tensor of i64, i32, u8 or bool, found (2)f32" in refusal([PAIR.float()])


# ------------------------------------------------------------------------------------------- index_put

SOURCES: dict[str, Any] = {
    "0-d": T(7.0),
    "one": T([7.0]),
    "row": random(5),
    "pair": random(2, 1, 1),
    "full": random(2, 4, 5),
    "rank too large": random(1, 2, 4, 5),
    "size differs": random(3),
    "nothing": torch.zeros(0),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("label", SOURCES)
def test_index_put(label: str, accumulate: bool) -> None:
    for name in (
        "first",
        "second",
        "apart",
        "neighbours",
        "mask of one",
        "mask of two",
        "no indices",
        "too large",
        "negative",
    ):
        check_like_torch(
            Case("Tensor.index_put", lambda x, i, v: torch.ops.aten.index_put(x, i, v, accumulate),
                 [X, INDICES[name], SOURCES[label]], {"accumulate": accumulate}, names=["input", "indices", "values"])
        )  # fmt: skip


def test_index_put_adds_up_what_is_named_twice() -> None:
    for dtype in (torch.float32, torch.int32, torch.float64, torch.complex64):
        x, values = random(3, 4, dtype=dtype), random(4, 4, dtype=dtype)
        check(
            Case("Tensor.index_put", lambda x, i, v: torch.ops.aten.index_put(x, i, v, True), [x, [T([0, 0, 2, 0])], values],
                 {"accumulate": True})
        )  # fmt: skip


def test_index_put_of_numbers() -> None:
    for value in (1.5, 2, True, float("inf")):
        for x in (X, X.double(), X.half()):
            expected = torch.tensor(value).to(x.dtype)
            check(Case("Tensor.index_put", lambda x, i, e=expected: x.index_put(i, e), [x, [PAIR]], {"values": value},
                       names=["input", "indices"]))  # fmt: skip
    check(Case("Tensor.index_put", lambda x, i: x.index_put(i, T(False)), [X > 0, [PAIR]], {"values": None}))
    check(
        Case(
            "Tensor.index_put", lambda x, i: x.index_put(i, T(1, dtype=torch.int32)), [X.int(), [PAIR]], {"values": 1.5}
        )
    )
    with pytest.raises(DTypeError):
        run(Case("Tensor.index_put", torch.clone, [X.int(), [PAIR]], {"values": float("inf")}))


def test_index_put_needs_one_kind_of_dtype() -> None:
    for values in (T(1), T(True), T(1j)):
        check_like_torch(Case("Tensor.index_put", torch.ops.aten.index_put, [X, [PAIR], values]))
    # Half-precision constants meet float32 where the converter has dropped a cast.
    check(Case("Tensor.index_put", lambda x, i, v: x.index_put(i, v.float()), [X, [PAIR], T(1.5).half()]))
    with pytest.raises(ShapeError):
        run(Case("Tensor.index_put", torch.clone, [X, [PAIR], random(3)]))
