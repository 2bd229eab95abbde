"""Casts and complex numbers against PyTorch, NaN and numbers out of range included."""

from __future__ import annotations

import pytest
import torch

from kuiperinfer.errors import KuiperError

from .harness import ALL_DTYPES, Case, assert_equal, check, check_like_torch, random, run

NAN, INF = float("nan"), float("inf")
ALL = [torch.float32, *ALL_DTYPES]
WILD = torch.tensor([NAN, INF, -INF, 1e10, -1e10, 300.7, -1.5, 2.0**31, 1e20, 65536.5, -129.0, 3e38, 0.0, -0.0, 0.4])


def word(dtype: torch.dtype) -> str:
    return str(dtype)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_every_pair_of_dtypes(source: torch.dtype, target: torch.dtype) -> None:
    for x in (random(3, 4, dtype=source, low=-3, high=9), random(1, dtype=source)[0], torch.zeros(0, 2, dtype=source)):
        check(Case("Tensor.to", lambda x: x.to(target), [x], {"dtype": word(target), "copy": True}))
        check(Case("Tensor.type_as", torch.Tensor.type_as, [x, torch.zeros(2, dtype=target)], names=["input", "other"]))


@pytest.mark.parametrize("target", ALL, ids=str)
def test_values_out_of_range(target: torch.dtype) -> None:
    for source in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        check(Case("Tensor.to", lambda x: x.to(target), [WILD.to(source).repeat(3)], {"dtype": word(target)}))
    wide = torch.tensor([300, -1, 70000, 2**40 + 3, -(2**63), 2**63 - 1])
    check(Case("Tensor.to", lambda x: x.to(target), [wide], {"dtype": word(target)}))
    half = torch.tensor([NAN, 1.0, 0.0]) + 1j * torch.tensor([0.0, INF, 2.0])
    if target in (torch.bool, torch.complex128):
        check(Case("Tensor.to", lambda x: x.to(target), [half], {"dtype": word(target)}))


def test_words_of_the_converter() -> None:
    x = random(2, 3, low=-5, high=5)
    for name, dtype in {"float": torch.float, "double": torch.double, "half": torch.half, "long": torch.long,
                        "int": torch.int, "short": torch.short, "uint8": torch.uint8, "int8": torch.int8,
                        "bool": torch.bool, "bfloat16": torch.bfloat16, "complex64": torch.complex64}.items():  # fmt: skip
        params = {
            "dtype": f"torch.{name}",
            "copy": False,
            "memory_format": "torch.preserve_format",
            "non_blocking": False,
        }
        check(Case("Tensor.to", lambda x, d=dtype: x.to(d), [x], params))
    check(Case("Tensor.to", lambda x: x, [x], {"dtype": None}))
    check(Case("Tensor.to", lambda x: torch.tensor(3.0), [3], {"dtype": "torch.float"}))


@pytest.mark.parametrize("kind", ["torch.clone", "Tensor.clone", "Tensor.contiguous", "Tensor.detach", "nn.Identity"])
def test_identities(kind: str) -> None:
    for dtype in ALL:
        check(Case(kind, torch.clone, [random(2, 3, dtype=dtype)]))
    check(Case(kind, torch.clone, [random(4, 6).t()[::2]]))


@pytest.mark.parametrize("rank", range(3, 7))
def test_memory_formats_need_a_rank(rank: int) -> None:
    x = random(*[2] * rank)
    for name in ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]:
        memory_format = getattr(torch, name)
        check_like_torch(
            Case(
                "torch.clone",
                lambda x, m=memory_format: x.clone(memory_format=m),
                [x],
                {"memory_format": f"torch.{name}"},
            )
        )
    with pytest.raises(KuiperError, match=r"did you mean 'torch\.channels_last'"):
        run(Case("torch.clone", torch.clone, [x], {"memory_format": "torch.chanels_last"}))


# ------------------------------------------------------------------------------------------- complex numbers


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_parts(dtype: torch.dtype) -> None:
    for x in (random(2, 3, dtype=dtype), random(1, dtype=dtype)[0], torch.zeros(0, 2, dtype=dtype)):
        check_like_torch(Case("torch.real", torch.real, [x]))
        check_like_torch(Case("torch.imag", torch.imag, [x]))
        check_like_torch(Case("torch.view_as_real", torch.view_as_real, [x]))


PART_DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool]


@pytest.mark.parametrize("dtype", PART_DTYPES, ids=str)
def test_complex_of_two_parts(dtype: torch.dtype) -> None:
    x = random(2, 3, dtype=dtype)
    for y in (x, x[0], x[:, :2], x.double(), torch.zeros(0, 1, 1, dtype=dtype)):
        check_like_torch(Case("torch.complex", torch.complex, [x, y], names=["real", "imag"]))


@pytest.mark.parametrize("dtype", PART_DTYPES, ids=str)
def test_pairs_as_complex(dtype: torch.dtype) -> None:
    for x in (random(3, 2, dtype=dtype), random(2, dtype=dtype), random(2, 3, dtype=dtype)):
        check_like_torch(Case("torch.view_as_complex", torch.view_as_complex, [x]))
    check_like_torch(Case("torch.view_as_complex", torch.view_as_complex, [torch.tensor(1.0)]))


def test_no_pairs_as_complex() -> None:
    check(Case("torch.view_as_complex", lambda _: torch.zeros(3, 0, dtype=torch.complex64), [torch.zeros(3, 0, 2)]))


def test_half_precision_complex_is_stored_as_pairs() -> None:
    pairs = random(2, 2, dtype=torch.float16)
    (made,) = run(Case("torch.view_as_complex", torch.view_as_complex, [pairs]))
    assert made.dtype.names == ("real", "imag")
    for kind, expected in [("torch.view_as_real", pairs), ("torch.real", pairs[:, 0]), ("torch.imag", pairs[:, 1])]:
        (parts,) = run(Case(kind, torch.real, [made]))
        assert_equal(parts, expected.numpy())
