"""Fourier transforms against PyTorch: every form of lengths, dimensions and normalization, every dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO = [name + "2" for name in ONE]
MANY = [name + "n" for name in ONE]
NORMS = [None, "backward", "ortho", "forward"]

INPUTS = {
    "f32": random(3, 4, 6),
    "f64": random(3, 4, 5, dtype=torch.float64),
    "c64": random(3, 4, 6, dtype=torch.complex64),
    "c128": random(2, 3, 5, dtype=torch.complex128),
    "i64": random(3, 4, 6, dtype=torch.int64),
    "bool": random(3, 4, 6, dtype=torch.bool),
    "f16": random(3, 4, 6, dtype=torch.float16),
    "bf16": random(3, 4, 6, dtype=torch.bfloat16),
    "vector": random(7),
    "0d": torch.tensor(2.0),
    "ones": random(1, 1, 1),
    "nothing": torch.zeros(2, 0),
    "strided": random(6, 4).t()[::2],
}


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("label", INPUTS)
def test_along_one_dimension(name: str, label: str) -> None:
    function = getattr(torch.fft, name)
    for norm in NORMS:
        for dim in (-1, 0, 1, 3):
            if label == "nothing" and dim == 0:
                continue  # MKL refuses an empty batch
            for n in (None, 1, 4, 9, 0, -1):
                params = {"n": n, "dim": dim, "norm": norm}
                call = lambda x, n=n, d=dim, m=norm: function(x, n, d, m)  # noqa: E731
                check_like_torch(Case(f"torch.fft.{name}", call, [INPUTS[label]], params))


FORMS: list[tuple[Any, Any]] = [
    (None, None), (None, (0, 1)), (None, (-1,)), (None, (2, 0, 1)), (None, (0, 0)), (None, (1, 5)), (None, ()),
    ((5, 4), None), ((5,), None), ((2, 3, 4), None), ((2, 3, 4, 5), None), ((-1, 4), None), ((4, -1), None),
    ((0, 4), None), ((-2, 4), None), ((5,), (1,)), ((3, 4), (0,)), ((7, 2), (1, 0)), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("label", INPUTS)
def test_along_several_dimensions(name: str, label: str) -> None:
    function = getattr(torch.fft, name)
    for norm in NORMS:
        for s, dim in FORMS:
            params = {"s": s, "dim": dim, "norm": norm}
            call = lambda x, s=s, d=dim, m=norm: function(x, s, d, m)  # noqa: E731
            check_like_torch(Case(f"torch.fft.{name}", call, [INPUTS[label]], params))


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("label", INPUTS)
def test_along_two_dimensions(name: str, label: str) -> None:
    function = getattr(torch.fft, name)
    check_like_torch(Case(f"torch.fft.{name}", function, [INPUTS[label]]))
    for s in (None, (5, 4), (-1, 3)):
        for dim in ((-2, -1), (0, 1), (1, 0), (0, 2)):
            params = {"s": s, "dim": dim, "norm": "ortho"}
            call = lambda x, s=s, d=dim: function(x, s, d, "ortho")  # noqa: E731
            check_like_torch(Case(f"torch.fft.{name}", call, [INPUTS[label]], params))


def test_lengths_as_operands() -> None:
    x = random(3, 4)
    check(Case("torch.fft.rfft", lambda x, n: torch.fft.rfft(x, int(n)), [x, torch.tensor(6)], names=["input", "n"]))
    check(Case("torch.fft.rfft", torch.fft.rfft, [x, 6], names=["input", "n"]))
    check(Case("torch.fft.fft2", torch.fft.fft2, [x, [5, 6]], names=["input", "s"]))
    check(Case("aten::fft_rfft", torch.fft.rfft, [x, 6, 0, "ortho"]))
    check(Case("aten::fft_fftn", torch.fft.fftn, [x, None, [0], None]))


def test_an_empty_batch() -> None:
    assert run(Case("torch.fft.rfft", torch.fft.rfft, [torch.zeros(0, 6)]))[0].shape == (0, 4)


def test_long_transforms_keep_their_digits() -> None:
    x = random(1 << 14) + 1000.0
    call = lambda x: torch.fft.rfft(x.double()).to(torch.complex64)  # noqa: E731
    check(Case("torch.fft.rfft", call, [x], tolerance=1e-7))


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("dim", [None, (0,), (-1,), (0, 2), (3,)])
def test_shifts(name: str, dim: Any) -> None:
    for label in ("f64", "i64", "vector"):
        check_like_torch(
            Case(f"torch.fft.{name}", lambda x: getattr(torch.fft, name)(x, dim), [INPUTS[label]], {"dim": dim})
        )


@pytest.mark.parametrize(
    ("type_name", "params", "input", "error", "message"),
    [
        ("torch.fft.fft", {"norm": "bad"}, torch.zeros(3), ModelFileError, "backward, ortho, forward, found bad"),
        ("torch.fft.fft", {}, torch.zeros(3, dtype=torch.float16), DTypeError, "single or double precision, found f16"),
        ("torch.fft.rfft", {}, torch.zeros(3, dtype=torch.complex64), DTypeError, "rfft needs real numbers"),
        ("torch.fft.irfft", {}, torch.zeros(1), ShapeError, "at least 1 point"),
        ("torch.fft.fftn", {"s": (3, 4)}, torch.zeros(3), ShapeError, "has 2 lengths"),
        ("torch.fft.fftn", {"dim": (0, -1)}, torch.zeros(3), ShapeError, "different dimensions"),
        ("torch.fft.rfftn", {"dim": ()}, torch.zeros(3), ShapeError, "at least one dimension"),
    ],
)
def test_refuses(type_name: str, params: Any, input: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.fft.fft, [input], params))
