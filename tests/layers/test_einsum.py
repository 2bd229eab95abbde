"""torch.einsum against PyTorch."""

import string

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, KuiperError, ShapeError
from kuiperinfer.layers.annotation import Annotation
from kuiperinfer.layers.base import apply
from kuiperinfer.layers.binding import bind
from kuiperinfer.layers.einsum import restore_ellipsis
from tests.layers.harness import Case, assert_equal, check, check_like_torch, random, run

SIZES = {letter: 2 + index % 4 for index, letter in enumerate(string.ascii_lowercase)}


def einsum(equation, *operands, tolerance=1e-5):
    case = Case("torch.einsum", lambda *a: torch.einsum(equation, *a), operands, {"equation": equation})
    case.tolerance = tolerance
    return case


EQUATIONS = """
    i,j,k,l->ijkl i,j->ij ii ij,j->i ij-> ij->i ijk-> ijk->i ijk->ij ijkl-> ijkl->i ijkl->ij ijkl->ijk ijkm,ijlm->ijkl
    ijkm,ijml->ijkl ijl,ilk->ijk ijlk ijlk->ijk ijlm,klm->ijk ijm,mkl->ijkl ik,jkl,il->ij ik,kj->ij ikj ikj->ij ikjl
    ikjm,iljm->ijkl ikjm,imkl->ijkl ikjm,ljm->ijkl iklj iklj->ij iljk ilk,ijl->ijk ilkj imnj,kmln->ijkl j,ji->i ji ji->i
    jik jik->i jikl jilk jki jki->i jkil jkim,mjkl->ijkl jlik k,ijk->ij kij kij->ij kijl kijm,lijm->ijkl kilj kji kjil
    klij lijk lijk->ijk likj lkij lkji ii->i iij->ij iij->j iji->ij iii->i iii ijij->ij ij,kl-> a,a-> i,ij,j->
""".split()


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation):
    terms = equation.partition("->")[0].split(",")
    sizes = {**SIZES, **dict.fromkeys(equation, 3)} if any(len(set(t)) < len(t) for t in terms) else SIZES
    check(einsum(equation, *(random(*(sizes[letter] for letter in term), seed=i) for i, term in enumerate(terms))))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...", [(2, 3)]),
        ("i...", [(2, 3, 4)]),
        ("...i->...", [(2, 3)]),
        ("i...->i", [(2, 3, 4)]),
        ("i->...i", [(2,)]),
        ("i,...j->ij", [(2,), (4, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (4, 1, 3, 2)]),
        ("...ij,...jk", [(5, 2, 3), (3, 2)]),
        ("a...b,b...->...a", [(5, 2, 3), (3, 2)]),
        ("...,...", [(2, 3), (3,)]),
        ("i...j->j...i", [(3, 4, 5, 2)]),
        ("ij...,jk...->ik...", [(2, 3, 4), (3, 5, 1)]),
    ],
)
def test_ellipsis(equation, shapes):
    check(einsum(equation, *(random(*shape, seed=i) for i, shape in enumerate(shapes))))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("aB", [(2, 3)]),
        ("Ba", [(2, 3)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 3), (1, 4)]),
        ("i,i", [(3,), (1,)]),
        ("i,i", [(1,), (0,)]),
        ("i,->i", [(2,), ()]),
        (",", [(), ()]),
        ("", [()]),
        ("ij,jk", [(2, 0), (0, 4)]),
        ("ij->", [(2, 0)]),
        ("ij,jk->ik", [(0, 3), (3, 4)]),
    ],
)
def test_sizes_one_and_zero_spaces_and_capitals(equation, shapes):
    check(einsum(equation, *(random(*shape, seed=i) for i, shape in enumerate(shapes))))


@pytest.mark.parametrize(
    ("written", "meant", "shapes"),
    [
        ("ik,kj->ij", "...ij,...jk->...ik", [(1, 4, 7, 9), (1, 4, 9, 8)]),
        ("ik,kj->ij", "...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        (",i->i", "...,f->...f", [(2, 3), (4,)]),
        ("i,j->ij", "b...,c...->bc...", [(2, 5, 6), (3, 5, 6)]),
        ("ij,jk->ik", "ij,jk->ik", [(2, 3), (3, 4)]),
    ],
)
def test_ellipsis_that_the_converter_dropped(written, meant, shapes):
    arrays = [random(*shape, seed=i).numpy() for i, shape in enumerate(shapes)]
    expected = torch.einsum(meant, *map(torch.from_numpy, arrays)).numpy()
    binding = bind(
        "torch.einsum",
        input_names=[None] * len(shapes),
        params={"equation": written},
        annotated_inputs=[Annotation(shape) for shape in shapes],
        annotated_outputs=[Annotation(expected.shape)],
    )
    (y,) = apply(binding.layer, arrays, {})
    assert_equal(y, expected, 1e-5)


def test_dropped_ellipsis_of_unknown_sizes():
    assert restore_ellipsis("ik,kj->ij", [(None, 3, 4), (None, 4, 5)], (None, 3, 5)) == "...ik,...kj->...ij"
    assert restore_ellipsis("ik,kj->ij", [(2, 3, None), (2, None, 5)], (2, 3, 5)) == "...ik,...kj->...ij"


def test_dropped_ellipsis_stays_away_where_the_shapes_do_not_tell():
    assert restore_ellipsis("ik,kj->ij", [(2, 3, 4), (2, 4, 5)], (2, 3, 6)) == "ik,kj->ij"
    assert restore_ellipsis("ik,kj->ij", [(2, 3, 4)], (2, 3, 6)) == "ik,kj->ij"


def test_operands_as_one_list():
    case = Case(
        "torch.einsum",
        lambda a: torch.einsum("ij,jk->ik", *a),
        [[random(2, 3), random(3, 4)]],
        {"equation": "ij,jk->ik"},
    )
    check(case)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.complex64], ids=str
)
def test_dtypes(dtype):
    a, b = random(3, 4, 5, dtype=dtype), random(3, 5, 2, dtype=dtype)
    for equation in ("bij,bjk->bik", "bij,bjk->b", "bij,bkl->bijk"):
        check(einsum(equation, a, b, tolerance=None))
    check(einsum("bij->i", a, tolerance=None))
    check(einsum("bii->b", a[:, :, :4], tolerance=None))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32], ids=str)
def test_what_is_summed_alone_becomes_int64(dtype):
    a, b = random(2, 3, dtype=dtype), random(3, dtype=dtype)
    for equation, operands in (
        ("ij->i", [a]),
        ("ij->i", [a[:, :1]]),
        ("ij,k->ik", [a, b]),
        ("ij,k->ik", [a[:, :1], b]),
        ("ij,j->ij", [a, b]),
        ("ii", [a[:, :2]]),
        ("ii->i", [a[:, :2]]),
    ):
        check(einsum(equation, *operands))


def test_float_sums_are_accurate():
    x = random(200_000, low=0.9, high=1.1)
    check(Case("torch.einsum", lambda x: x.double().sum().float(), [x], {"equation": "i->"}, tolerance=1e-7))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ii", [(2, 3)]),
        ("ij->ijk", [(2, 3)]),
        ("ij", [(2,)]),
        ("i", [(2, 3)]),
        ("ii", [(1, 3)]),
        ("ij,jk", [(2, 3)]),
        ("ij", [(2, 3), (2, 3)]),
        ("i1", [(2, 3)]),
        ("i..j", [(2, 3)]),
        ("i....j", [(2, 3)]),
        ("...i...", [(2, 3)]),
        ("ij->i->j", [(2, 3)]),
        ("ij-", [(2, 3)]),
        ("ij->i,j", [(2, 3)]),
        ("i,i", [(3,), (2,)]),
        ("i,i", [(3,), (0,)]),
    ],
)
def test_refused_equations(equation, shapes):
    case = einsum(equation, *(random(*shape) for shape in shapes))
    with pytest.raises(RuntimeError):
        case.torch(*case.inputs)
    with pytest.raises(ShapeError, match=r"equation"):
        run(case)


def test_refused_operands():
    with pytest.raises(DTypeError):
        run(einsum("ij,j->i", random(2, 3, dtype=torch.bool), random(3, dtype=torch.bool)))
    with pytest.raises(DTypeError):
        run(einsum("ij,j->i", random(2, 3), random(3, dtype=torch.int64)))
    with pytest.raises(DTypeError, match="one dtype"):  # the sum over k alone is int64
        run(einsum("ij,jk->i", random(2, 3, dtype=torch.int32), random(3, 4, dtype=torch.int32)))
    with pytest.raises(KuiperError):
        run(Case("torch.einsum", None, [None], {"equation": "i"}))


@st.composite
def equations(draw):
    """Equations of up to four operands over few letters, and shapes that fit or do not."""
    letters = string.ascii_letters[: draw(st.integers(1, 5))]
    sizes = {letter: draw(st.integers(1, 4)) for letter in letters}
    ellipsis = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    terms, operands = [], []
    for number in range(draw(st.integers(1, 4))):
        labels = draw(st.lists(st.sampled_from(letters), max_size=3))
        shape = [sizes[label] if draw(st.integers(0, 9)) else 1 for label in labels]
        term = "".join(labels)
        if ellipsis and draw(st.booleans()):
            hidden = ellipsis[draw(st.integers(0, len(ellipsis))) :]
            term, shape = term + "...", shape + hidden
        terms.append(term)
        operands.append(random(*shape, seed=number).round())
    equation = ",".join(terms)
    if draw(st.booleans()):
        used = sorted(set(equation) - set(",."))
        output = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        equation += "->" + "".join(output) + ("..." if draw(st.booleans()) else "")
    return einsum(equation, *operands)


@given(equations())
def test_random_equations(case):
    check_like_torch(case)
