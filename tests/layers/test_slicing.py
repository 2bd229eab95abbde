"""Slices against PyTorch: both forms of PNNX, negative and clamped bounds, other shapes than those at conversion."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import InputError, KuiperError, ModelFileError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.binding import bind

from .harness import ALL_DTYPES, Case, check, check_like_torch, random, run
from .test_shape import INPUTS

END = 2147483647
FIRST = -2147483648


def reference_slice(x: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> torch.Tensor:
    return torch.ops.aten.slice(x, dim, start, end, step)  # type: ignore[no-any-return]


BOUNDS = [
    (0, 0, END, 1), (0, 1, END, 1), (0, 0, -1, 1), (0, -2, END, 1), (0, -2, -1, 1), (0, FIRST, END, 1), (1, 0, END, 2),
    (-1, 1, 3, 2), (1, 5, 2, 1), (1, 100, 200, 1), (0, None, None, 1), (0, None, 2, 3), (2, 1, END, 1), (3, 0, 1, 1),
    (-4, 0, 1, 1),    (0, 0, END, 0), (0, 0, END, -1), (0, END, END, 1), (0, -100, 1, 1), (0, 1, -100, 1),
]  # fmt: skip


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_one_dimension(bounds: tuple[Any, ...]) -> None:
    dim, start, end, step = bounds
    params = {"dim": dim, "start": start, "end": end, "step": step}
    for x in INPUTS.values():
        check_like_torch(Case("Tensor.slice", lambda x: reference_slice(x, *bounds), [x], params))
        # The same with every bound calculated by the model.
        given = {"dim": dim}
        operands = {name: value for name, value in params.items() if name != "dim" and value is not None}
        check_like_torch(
            Case("Tensor.slice", lambda x, *_: reference_slice(x, *bounds), [x, *operands.values()], given,
                 names=["input", *operands])
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(4, 5, dtype=dtype)
    part = random(2, 5, dtype=dtype, seed=1)
    fused = {"dims": (0, 1), "starts": (1, 0), "ends": (3, 0), "steps": (1, 0), "selects": (END, 2)}
    check(Case("Tensor.slice", lambda x: x[1:3, 2], [x], fused))
    check(Case("Tensor.select", lambda x: x[2], [x], {"dim": 0, "index": 2}))
    check(Case("Tensor.slice", lambda x: x[1, 2], [x], {"dims": (0, 1), "selects": (1, 2)}))
    check(Case("torch.narrow", lambda x: x.narrow(1, 2, 3), [x], {"dim": 1, "start": 2, "length": 3}))
    check(
        Case(
            "torch.slice_scatter", lambda x, s: x.slice_scatter(s, 0, 1, 3), [x, part], {"dim": 0, "start": 1, "end": 3}
        )
    )


def replaced(x: torch.Tensor, index: Any, src: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    result[index] = src
    return result


FUSED: list[tuple[dict[str, Any], Any]] = [
    ({"dims": (0, 2), "starts": (1, 0), "ends": (END, END), "steps": (1, 2), "selects": (END, END)},
     (slice(1, None), slice(None), slice(0, None, 2))),
    ({"dims": (0, 1, 2), "starts": (0, 0, 0), "ends": (0, 0, 0), "steps": (0, 0, 0), "selects": (0, -1, 2)}, (0, -1, 2)),
    ({"dims": (0, 1), "starts": (2, 0), "ends": (-1, 0), "steps": (1, 0), "selects": (END, 1)}, (slice(2, -1), 1)),
    ({"dims": (-2, -1), "starts": (0, 1), "ends": (0, END), "steps": (0, 1), "selects": (-2, END)},
     (slice(None), -2, slice(1, None))),
    ({"dims": (1, 2), "starts": (1, -5), "ends": (2, -1), "steps": (1, 1)}, (slice(None), slice(1, 2), slice(-5, -1))),
    ({"dims": (1,), "selects": (2,)}, (slice(None), 2)),
    ({"dim": 1, "start": 0, "end": 0, "step": 0, "select": 2}, (slice(None), 2)),
    ({"dim": 0, "start": 1, "end": 2, "step": 1, "select": END}, (slice(1, 2),)),
]  # fmt: skip


@pytest.mark.parametrize(("params", "index"), FUSED, ids=str)
def test_fused_form(params: dict[str, Any], index: Any) -> None:
    for x in (random(4, 3, 5), random(7, 4, 9)):
        check(Case("Tensor.slice", lambda x: x[index], [x], params))
        lists = {
            name: list(value)
            for name, value in params.items()
            if name not in ("dim", "dims") and isinstance(value, tuple)
        }
        fixed = {name: value for name, value in params.items() if name not in lists}
        check(Case("Tensor.slice", lambda x, *_: x[index], [x, *lists.values()], fixed, names=["input", *lists]))
        part = torch.rand_like(x[index])
        for src in (part, part.double(), part.sum(), part[..., :1] if part.ndim else part):
            names = ["self", "src"]
            check(Case("Tensor.slice_copy", lambda x, s: replaced(x, index, s), [x, src], params, names=names))


def test_dynamic_selects_may_lack_the_last() -> None:
    params = {"dims": (0, 2), "ends": (0, END), "steps": (0, 1)}
    check(
        Case(
            "Tensor.slice",
            lambda x, *_: x[2, :, 3:],
            [random(4, 5, 6), [0, 3], [2]],
            params,
            names=["input", "starts", "selects"],
        )
    )
    with pytest.raises(ShapeError, match="differ in length"):
        run(Case("Tensor.slice", torch.clone, [random(4, 5, 6)], {"dims": (0, 1), "starts": (1,)}))


def test_a_dimension_twice() -> None:
    sliced_twice = {"dims": (0, 0), "starts": (1, 1), "ends": (END, 3), "steps": (1, 2)}
    check(Case("Tensor.slice", lambda x: x[1:][1:3:2], [random(9, 2)], sliced_twice))
    selected_twice = {
        "dims": (0, 0, 0),
        "starts": (0, 0, 1),
        "ends": (0, 0, END),
        "steps": (0, 0, 1),
        "selects": (1, 0, END),
    }
    check(Case("Tensor.slice", lambda x: x[1, 0, 1:], [random(3, 2, 4)], selected_twice))


@given(st.data())
def test_any_slice(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 9))
    bound = st.none() | st.integers(-12, 12) | st.sampled_from([END, FIRST])
    start, end, step = data.draw(bound), data.draw(bound), data.draw(st.integers(1, 4))
    params = {"dim": 1, "start": start, "end": end, "step": step}
    check(Case("Tensor.slice", lambda x: reference_slice(x, 1, start, end, step), [random(2, size)], params))


# ------------------------------------------------------------------------------------------- one index, a length


@pytest.mark.parametrize("label", INPUTS)
def test_select_and_narrow(label: str) -> None:
    x = INPUTS[label]
    for dim in (0, 1, -1, 3):
        for index in (0, 2, -1, -3, 7):
            check_like_torch(
                Case("Tensor.select", lambda x, d=dim, i=index: x.select(d, i), [x], {"dim": dim, "index": index})
            )
            check_like_torch(
                Case("Tensor.select", lambda x, i, d=dim: x.select(d, int(i)), [x, torch.tensor(index)], {"dim": dim},
                     names=["input", "index"])
            )  # fmt: skip
        for start, length in [(0, 1), (1, 2), (-1, 1), (-1, 2), (3, 0), (4, 0), (0, -1), (-9, 0), (0, 99)]:
            params = {"dim": dim, "start": start, "length": length}
            check_like_torch(Case("torch.narrow", lambda x, d=dim, s=start, n=length: x.narrow(d, s, n), [x], params))
    check_like_torch(
        Case("torch.narrow", lambda x, s: x.narrow(0, s, 1), [random(3, 2), torch.tensor([1])], {"dim": 0, "length": 1},
             names=["input", "start"])
    )  # fmt: skip


def test_messages() -> None:
    with pytest.raises(InputError, match="index 5 is out of range for dimension 1 of size 3"):
        run(Case("Tensor.select", torch.select, [random(2, 3)], {"dim": 1, "index": 5}))
    with pytest.raises(InputError, match="index 4 is out of range for dimension 0 of size 2"):
        run(Case("Tensor.slice", torch.select, [random(2, 3)], {"dims": (0,), "selects": (4,)}))


# ------------------------------------------------------------------------------------------- parts replaced


def test_scattered_slices() -> None:
    x = random(4, 5)
    for src in (
        random(2, 5),
        random(1, 5),
        random(5),
        random(2, 5).int(),
        random(2, 5, dtype=torch.complex64),
        random(0, 5),
    ):
        for start, end, step in [(0, 2, 1), (1, None, 2), (None, 4, 2), (0, 2, -1), (4, END, 1), (-2, END, 1)]:
            params = {"dim": 0, "start": start, "end": end, "step": step}
            check_like_torch(
                Case("torch.slice_scatter", lambda x, s, b=(start, end, step): x.slice_scatter(s, 0, *b), [x, src], params,
                     names=["input", "src"])
            )  # fmt: skip
    for src in (random(4), random(1), torch.tensor(1.0), random(4).int()):
        for index in (0, -1, 9):
            params = {"dim": 1, "index": index}
            check_like_torch(
                Case("torch.select_scatter", lambda x, s, i=index: x.select_scatter(s, 1, i), [x, src], params)
            )
    for source in (random(4, 5), random(5), random(1, 1), torch.tensor(2), random(2, 4, 5), random(4)):
        check_like_torch(Case("Tensor.copy", lambda x, s: x.clone().copy_(s), [x, source], {"non_blocking": False},
                              names=["self", "src"]))  # fmt: skip


def test_source_has_to_fit() -> None:
    params = {"dim": 0, "start": 0, "end": 2, "step": 1}
    for src in (random(3, 5), random(1, 2, 5)):
        with pytest.raises(KuiperError):
            run(Case("Tensor.slice_copy", torch.clone, [random(4, 5), src], params, names=["self", "src"]))


def test_copy_into_a_part_of_another_tensor_is_refused() -> None:
    annotated = {"input_names": ["self", "src"], "annotated_inputs": [Annotation((2, 5)), Annotation((2, 5))]}
    assert bind("Tensor.copy", **annotated, annotated_outputs=[Annotation((2, 5))])
    with pytest.raises(ModelFileError, match="convert the model with optlevel=2"):
        bind("Tensor.copy", **annotated, annotated_outputs=[Annotation((4, 5))])
